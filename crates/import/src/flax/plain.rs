//! Values that are not arrays, as attributes: the content of a map or list without its arrays.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use ciborium::Value;
use ztensor_core::limits::Limits;

/// The number of attribute values that may still be retained.
pub struct Budget {
    values: u32,
    max: u32,
    is_spent: bool,
}

impl Budget {
    pub fn new(limits: &Limits) -> Self {
        Self { values: limits.made_values(), max: limits.made_values(), is_spent: false }
    }

    /// Deducts values. Fails the first time that there are too many.
    pub fn spend(&mut self, values: u32) -> Result<bool, String> {
        if let Some(left) = self.values.checked_sub(values) {
            self.values = left;
            return Ok(true);
        }
        if std::mem::replace(&mut self.is_spent, true) {
            return Ok(false);
        }
        Err(format!("there are more than {} plain values (option maxAttributeValues)", self.max))
    }
}

/// The plain content of a map or a list.
pub struct Plain {
    /// Whether its keys are those of a map. Those of a list are the indices of its items.
    is_map: bool,
    entries: Vec<(Value, Value)>,
    positions: HashMap<String, usize>,
    /// Whether it contains arrays. If so, a list stores the indices of its items as keys.
    holds: bool,
}

impl Plain {
    pub fn of(is_map: bool) -> Self {
        Self { is_map, entries: Vec::new(), positions: HashMap::new(), holds: false }
    }

    /// Records that it contains an array.
    pub fn holds(&mut self) {
        self.holds = true;
    }

    /// Adds a value. As in Python, the last value of a duplicate key wins and takes the position of the first.
    pub fn add(&mut self, key: Value, shown: &str, value: Value) {
        if self.is_map {
            let next = self.entries.len();
            let position = *self.positions.entry(shown.to_owned()).or_insert(next);
            if let Some(entry) = self.entries.get_mut(position) {
                entry.1 = value;
                return;
            }
        }
        self.entries.push((key, value));
    }

    /// Returns the value and whether it contains arrays. There is no value if all of it is arrays.
    pub fn into_value(self) -> (Option<Value>, bool) {
        let value = if self.entries.is_empty() && self.holds {
            None
        } else if self.is_map || self.holds {
            Some(Value::Map(self.entries))
        } else {
            Some(Value::Array(self.entries.into_iter().map(|(_, item)| item).collect()))
        };
        (value, self.holds)
    }
}
