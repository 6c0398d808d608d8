//! Model metadata other than constants, as attributes: elements as maps, inputs and outputs.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use ciborium::Value;
use ztensor_core::error::Result;

use super::dtypes;
use super::xml::Document;

/// The number of values that may still be listed.
pub struct Budget {
    left: u32,
    /// Whether values were omitted.
    pub is_spent: bool,
}

impl Budget {
    pub fn new(max: u32) -> Self {
        Self { left: max, is_spent: false }
    }

    /// Reserves budget for values and returns whether it sufficed.
    pub fn take(&mut self, values: u32) -> bool {
        let left = self.left.checked_sub(values);
        self.is_spent |= left.is_none();
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }
}

/// Returns the child elements of the innermost open element by name: a map of their children, or their attribute `value`. The first of
/// several elements with one name wins.
pub fn tree(document: &mut Document<'_>, budget: &mut Budget) -> Result<Vec<(Value, Value)>> {
    let (mut entries, mut seen) = (Vec::new(), HashSet::new());
    while let Some(element) = document.child()? {
        let [name, value] = element.attributes(["name", "value"])?;
        let key = match (element.name(), name) {
            ("info" | "attribute", Some(name)) => name,
            (own, _) => own.to_owned(),
        };
        // A map counts as three values.
        if !budget.take(4) || seen.contains(&key) {
            document.skip()?;
            continue;
        }
        let inner = tree(document, budget)?;
        let value = match (value, inner.is_empty()) {
            (Some(value), true) => Value::Text(value),
            _ => Value::Map(inner),
        };
        seen.insert(key.clone());
        entries.push((Value::Text(key), value));
    }
    Ok(entries)
}

/// An input or an output of the model.
pub struct Argument {
    pub name: String,
    /// The name used by `element_type`.
    pub kind: String,
    /// Sizes as spelled in the model: numbers, ranges, `?`; `...` for any number of dimensions.
    pub shape: Option<String>,
}

impl Argument {
    /// Returns `{ name, type, shape }`, with null for unknown sizes, and without a shape if the rank is unknown.
    pub fn into_value(self, budget: &mut Budget) -> Option<Value> {
        let shape = self.shape.filter(|shape| sizes(shape).all(|size| size != "..."));
        let count = shape.as_deref().map_or(0, |shape| sizes(shape).count());
        if !budget.take(u32::try_from(count).unwrap_or(u32::MAX).saturating_add(8)) {
            return None;
        }
        let mut entries = vec![
            (Value::from("name"), Value::Text(self.name)),
            (Value::from("type"), Value::Text(self.kind)),
        ];
        if let Some(shape) = shape {
            entries.push((Value::from("shape"), Value::Array(sizes(&shape).map(size).collect())));
        }
        Some(Value::Map(entries))
    }
}

/// Returns the sizes of a shape.
pub fn sizes(shape: &str) -> impl Iterator<Item = &str> {
    let is_scalar = shape.trim().is_empty();
    shape.split(',').map(str::trim).filter(move |_| !is_scalar)
}

fn size(text: &str) -> Value {
    match dtypes::number(text) {
        Some(number) => Value::from(number),
        None if matches!(text, "?" | "-1") => Value::Null,
        None => Value::from(text),
    }
}
