//! What is no array, as attributes: the values of a map or list without its arrays.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use ciborium::Value;
use ztensor_core::limits::Limits;

/// How much of attributes may still be kept.
pub struct Budget {
    values: u32,
    most: u32,
    is_spent: bool,
}

impl Budget {
    pub fn new(limits: &Limits) -> Self {
        Self { values: limits.made_values(), most: limits.made_values(), is_spent: false }
    }

    /// Takes a value off, or says for the first time that there are too many.
    pub fn spend(&mut self, values: u32) -> Result<bool, String> {
        if let Some(left) = self.values.checked_sub(values) {
            self.values = left;
            return Ok(true);
        }
        if std::mem::replace(&mut self.is_spent, true) {
            return Ok(false);
        }
        Err(format!("there are more than {} plain values (option maxAttributeValues)", self.most))
    }
}

/// What is plain of a map, or of a list.
pub struct Plain {
    /// Whether its keys are those of a map; of a list they are the numbers of its items.
    is_map: bool,
    entries: Vec<(Value, Value)>,
    places: HashMap<String, usize>,
    /// Whether it holds arrays, without which a list keeps the numbers of its items as keys.
    holds: bool,
}

impl Plain {
    pub fn of(is_map: bool) -> Self {
        Self { is_map, entries: Vec::new(), places: HashMap::new(), holds: false }
    }

    /// Notes that an array is in it.
    pub fn holds(&mut self) {
        self.holds = true;
    }

    /// Adds a value. Of a key that stands twice the last value counts, in the place of the first, as in Python.
    pub fn add(&mut self, key: Value, shown: &str, value: Value) {
        if self.is_map {
            let next = self.entries.len();
            let place = *self.places.entry(shown.to_owned()).or_insert(next);
            if let Some(entry) = self.entries.get_mut(place) {
                entry.1 = value;
                return;
            }
        }
        self.entries.push((key, value));
    }

    /// The value, and whether arrays are in it; no value where all of it is arrays.
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
