//! Attributes: free-form metadata of a file or a tensor, converted to values on request.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use ciborium::Value;

use crate::error::Result;
use crate::syntax::values::{Tree, Visit, visit_entries};

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
    kind: Kind,
    /// The same with the types that the file records, if it records any.
    typed: Option<Arc<Read>>,
}

type Read = dyn Fn(&mut dyn Visit) -> Result<()> + Send + Sync;

#[derive(Clone, Default)]
enum Kind {
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
        Self { kind: Kind::Lazy(Arc::new(read)), typed: None }
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
        matches!(self.kind, Kind::None)
    }

    /// Visits all keys and values in order.
    pub fn visit(&self, to: &mut dyn Visit) -> Result<()> {
        match &self.kind {
            Kind::None => Ok(()),
            Kind::Made(entries) => visit_entries(entries, to),
            Kind::Lazy(read) => read(to),
        }
    }

    /// Returns all keys and values. They are created on each call, unless they were provided as values.
    pub fn values(&self) -> Result<Cow<'_, [(Value, Value)]>> {
        match &self.kind {
            Kind::None => Ok(Cow::Borrowed(&[])),
            Kind::Made(entries) => Ok(Cow::Borrowed(entries)),
            Kind::Lazy(read) => tree(read),
        }
    }
}

fn tree<'a>(read: &Arc<Read>) -> Result<Cow<'a, [(Value, Value)]>> {
    let mut tree = Tree::default();
    read(&mut tree)?;
    Ok(Cow::Owned(tree.entries()?))
}

impl From<Entries> for Attributes {
    fn from(entries: Entries) -> Self {
        let kind = if entries.is_empty() { Kind::None } else { Kind::Made(Arc::new(entries)) };
        Self { kind, typed: None }
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::None => f.write_str("Attributes"),
            Kind::Made(entries) => f.debug_tuple("Attributes").field(entries).finish(),
            Kind::Lazy(_) => f.debug_struct("Attributes").finish_non_exhaustive(),
        }
    }
}
