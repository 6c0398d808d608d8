//! Attributes: free-form metadata of a file or a tensor, converted to values on request.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ciborium::Value;

use crate::error::Result;
use crate::syntax::values::{Event, Tree, Visit, visit_entries};

/// Keys and values, in file order. Keys are unique.
pub type Entries = Vec<(Value, Value)>;

/// Free-form metadata. Clones share the underlying data.
///
/// A format provides its attributes in one of two ways:
/// - as values: `Attributes::from(entries)`, for a few;
/// - as validated bytes and a closure that decodes them: [`Attributes::lazy`], for possibly many. Opening then only costs the validation,
///   and unused values are never created.
#[derive(Clone, Default)]
pub struct Attributes {
    kind: Contents,
    /// The same with the types that the file records, if it records any.
    typed: Option<Arc<Read>>,
}

type Read = dyn Fn(&mut dyn Visit) -> Result<()> + Send + Sync;

#[derive(Clone, Default)]
enum Contents {
    #[default]
    None,
    Made(Arc<Entries>),
    Lazy(Arc<Read>),
}

impl Attributes {
    /// Creates attributes that `read` decodes on each request, on any thread: it visits a key, its value, the next key and so on, at least
    /// one of them. An array is `Event::Array`, its items and `Event::End`; a map has alternating keys and values.
    ///
    /// `read` owns the bytes that it decodes (a private copy, or an `Arc`). Validate them when the file is opened: syntax, UTF-8, unique
    /// keys, depth (at most [`limits::VALUE_DEPTH`](crate::limits::VALUE_DEPTH)) and the number of values (`Limits::max_attribute_values`),
    /// so that an invalid file fails then. An error of `read` is returned to the caller that requests the values.
    ///
    /// Values cross to JavaScript in one buffer: a string costs a `str`, a number 16 bytes, 8 in a list, without individual allocations.
    ///
    /// ```
    /// # use ztensor_core::model::Attributes;
    /// # use ztensor_core::syntax::values::Event;
    /// let tokens: Box<str> = "a b c".into();
    /// let attributes = Attributes::lazy(move |to| {
    ///     to.visit(Event::Text("tokens"))?;
    ///     to.visit(Event::Array)?;
    ///     tokens.split(' ').try_for_each(|token| to.visit(Event::Text(token)))?;
    ///     to.visit(Event::End)
    /// });
    /// assert_eq!(attributes.values().unwrap()[0].1.as_array().unwrap().len(), 3);
    /// ```
    pub fn lazy(read: impl Fn(&mut dyn Visit) -> Result<()> + Send + Sync + 'static) -> Self {
        Self { kind: Contents::Lazy(Arc::new(read)), typed: None }
    }

    /// Adds a second closure for a format that records the type of each value. It visits the same keys and values, but a number, or a list
    /// of numbers, is a map `{ "type": "uint32", "value": … }`.
    #[must_use]
    pub fn with_types(self, read: impl Fn(&mut dyn Visit) -> Result<()> + Send + Sync + 'static) -> Self {
        Self { typed: Some(Arc::new(read)), ..self }
    }

    /// Returns all keys and values with the types that the file records, if it records any; see [`Attributes::with_types`].
    pub fn typed_values(&self) -> Result<Cow<'_, [(Value, Value)]>> {
        self.typed.as_ref().map_or_else(|| self.values(), |read| tree(read))
    }

    /// Returns whether there are none. Attributes not decoded yet count as some.
    pub fn is_empty(&self) -> bool {
        matches!(self.kind, Contents::None)
    }

    /// Visits all keys and values in order.
    pub fn visit(&self, to: &mut dyn Visit) -> Result<()> {
        match &self.kind {
            Contents::None => Ok(()),
            Contents::Made(entries) => visit_entries(entries, to),
            Contents::Lazy(read) => read(to),
        }
    }

    /// Returns all keys and values. They are created on each call, unless they were provided as values.
    pub fn values(&self) -> Result<Cow<'_, [(Value, Value)]>> {
        match &self.kind {
            Contents::None => Ok(Cow::Borrowed(&[])),
            Contents::Made(entries) => Ok(Cow::Borrowed(entries)),
            Contents::Lazy(read) => tree(read),
        }
    }

    /// Returns the keys, as text, that only one of the two has, and those whose values or types differ. Memory: the values of both.
    pub fn differences(&self, other: &Self) -> Result<Vec<String>> {
        let (one, other) = (self.typed_values()?, other.typed_values()?);
        let other = by_key(&other);
        let one = by_key(&one);
        let differs =
            |&(key, value): &(&String, &&Value)| !other.get(key).is_some_and(|other| same(value, other));
        let changed = one.iter().filter(differs).map(|(key, _)| key.clone());
        let added = other.keys().filter(|key| !one.contains_key(*key)).cloned();
        Ok(changed.chain(added).collect())
    }

    /// Returns whether all keys and values are text.
    pub fn are_texts(&self) -> Result<bool> {
        let mut texts = Texts(true);
        self.visit(&mut texts)?;
        Ok(texts.0)
    }

    /// Returns whether there is a key.
    pub fn has(&self, key: &str) -> Result<bool> {
        let mut found = Find { key, depth: 0, is_key: true, found: false };
        self.visit(&mut found)?;
        Ok(found.found)
    }
}

fn by_key(entries: &[(Value, Value)]) -> BTreeMap<String, &Value> {
    let text = |key: &Value| key.as_text().map_or_else(|| format!("{key:?}"), str::to_owned);
    entries.iter().map(|(key, value)| (text(key), value)).collect()
}

/// Returns whether two values are the same to the bit: NaN equals itself, and 0 is not -0.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Float(one), Value::Float(other)) => one.to_bits() == other.to_bits(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Map(one), Value::Map(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| same(&one.0, &other.0) && same(&one.1, &other.1))
        }
        (Value::Tag(one, value), Value::Tag(other, others)) => one == other && same(value, others),
        _ => one == other,
    }
}

/// Whether only texts were visited.
struct Texts(bool);

impl Visit for Texts {
    fn visit(&mut self, event: Event<'_>) -> Result<()> {
        self.0 &= matches!(event, Event::Text(_));
        Ok(())
    }
}

/// Looks for a key that is text.
struct Find<'k> {
    key: &'k str,
    depth: u32,
    is_key: bool,
    found: bool,
}

impl Visit for Find<'_> {
    fn visit(&mut self, event: Event<'_>) -> Result<()> {
        if self.depth == 0 && self.is_key {
            self.found |= event == Event::Text(self.key);
        }
        match event {
            Event::Array | Event::Map => self.depth += 1,
            Event::End => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        if self.depth == 0 && !matches!(event, Event::Tag(_)) {
            self.is_key = !self.is_key;
        }
        Ok(())
    }
}

fn tree<'a>(read: &Arc<Read>) -> Result<Cow<'a, [(Value, Value)]>> {
    let mut tree = Tree::default();
    read(&mut tree)?;
    Ok(Cow::Owned(tree.entries()?))
}

impl From<Entries> for Attributes {
    fn from(entries: Entries) -> Self {
        let kind = if entries.is_empty() { Contents::None } else { Contents::Made(Arc::new(entries)) };
        Self { kind, typed: None }
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Contents::None => f.write_str("Attributes"),
            Contents::Made(entries) => f.debug_tuple("Attributes").field(entries).finish(),
            Contents::Lazy(_) => f.debug_struct("Attributes").finish_non_exhaustive(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_keys_with_other_values_or_types() {
        let attributes = |entries: &[(&str, Value)]| {
            let pairs = entries.iter().map(|(key, value)| (Value::from(*key), value.clone()));
            Attributes::from(pairs.collect::<Entries>())
        };
        let list = |items: &[f64]| Value::Array(items.iter().map(|&item| Value::Float(item)).collect());
        let one = attributes(&[("a", Value::from(1)), ("b", list(&[f64::NAN])), ("c", list(&[0.0]))]);
        assert_eq!(one.differences(&one).unwrap(), [""; 0]);
        let other = attributes(&[("d", Value::Null), ("c", list(&[-0.0])), ("b", list(&[f64::NAN]))]);
        assert_eq!(one.differences(&other).unwrap(), ["a", "c", "d"]);
        // A number has the same value as another type.
        let typed = |name: &'static str| {
            attributes(&[("n", Value::from(1))]).with_types(move |to| {
                let value = Value::Map(vec![("type".into(), name.into()), ("value".into(), 1.into())]);
                visit_entries(&[("n".into(), value)], to)
            })
        };
        assert_eq!(typed("int32").differences(&typed("uint32")).unwrap(), ["n"]);
        assert_eq!(typed("int32").differences(&typed("int32")).unwrap(), [""; 0]);
    }

    #[test]
    fn keys_are_found_without_values() {
        let nested = Value::Array(vec!["deep".into(), Value::Map(vec![("deep".into(), Value::Null)])]);
        let tagged = Value::Tag(5, Box::new("v".into()));
        let attributes = Attributes::from(vec![
            (Value::Array(vec!["in a key".into()]), nested),
            ("a".into(), "v".into()),
            (1.into(), tagged),
            ("b".into(), Value::Null),
        ]);
        let found = ["a", "b", "v", "deep", "in a key"].map(|key| attributes.has(key).unwrap());
        assert_eq!(found, [true, true, false, false, false]);
        assert!(!attributes.are_texts().unwrap());
        assert!(Attributes::from(vec![("a".into(), "v".into())]).are_texts().unwrap());
        assert!(Attributes::default().are_texts().unwrap());
    }
}
