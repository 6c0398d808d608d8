//! Attributes: free-form metadata of a file or a tensor, made into values when somebody asks.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use ciborium::Value;

use crate::error::Result;
use crate::syntax::values::{Tree, Visit, visit_entries};

/// Keys and values, in the order of the file. Keys are unique.
pub type Entries = Vec<(Value, Value)>;

/// Free-form metadata. A clone shares what it is made of.
///
/// A format gives its attributes in one of two ways:
/// - as values that it has made: `Attributes::from(entries)`, for a few;
/// - as bytes that it has checked and a closure that reads them: [`Attributes::lazy`], for what may be many. Opening then
///   costs the check alone, and whoever never asks pays for no values.
#[derive(Clone, Default)]
pub struct Attributes(Kind);

type Tell = dyn Fn(&mut dyn Visit) -> Result<()> + Send + Sync;

#[derive(Clone, Default)]
enum Kind {
    #[default]
    None,
    Made(Arc<Entries>),
    Lazy(Arc<Tell>),
}

impl Attributes {
    /// Attributes that `tell` reads each time they are asked for, on any thread: it visits a key, its value, the next key and so
    /// on, at least one of them. An array is `Event::Array`, its items and `Event::End`; a map has keys and values in turn.
    ///
    /// `tell` owns the bytes that it reads (a private copy, or an `Arc` of what holds them). Check them when the file is opened:
    /// syntax, UTF-8, unique keys, depth ([`limits::VALUE_DEPTH`](crate::limits::VALUE_DEPTH) at most) and the number of values
    /// (`Limits::max_attribute_values`), so that a bad file fails then. An error of `tell` reaches whoever asks.
    ///
    /// Values cross to JavaScript in one buffer: a text costs a `str`, a number 16 bytes, 8 in a
    /// list, and no allocation each.
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
    pub fn lazy(tell: impl Fn(&mut dyn Visit) -> Result<()> + Send + Sync + 'static) -> Self {
        Self(Kind::Lazy(Arc::new(tell)))
    }

    /// Whether there are none. What is not made yet counts as some.
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Kind::None)
    }

    /// Tells all keys and values in turn.
    pub fn visit(&self, to: &mut dyn Visit) -> Result<()> {
        match &self.0 {
            Kind::None => Ok(()),
            Kind::Made(entries) => visit_entries(entries, to),
            Kind::Lazy(tell) => tell(to),
        }
    }

    /// All keys and values. They are made anew each time, unless they were made at open.
    pub fn values(&self) -> Result<Cow<'_, [(Value, Value)]>> {
        Ok(match &self.0 {
            Kind::None => Cow::Borrowed(&[]),
            Kind::Made(entries) => Cow::Borrowed(entries),
            Kind::Lazy(tell) => {
                let mut tree = Tree::default();
                tell(&mut tree)?;
                Cow::Owned(tree.entries()?)
            }
        })
    }
}

impl From<Entries> for Attributes {
    fn from(entries: Entries) -> Self {
        Self(if entries.is_empty() { Kind::None } else { Kind::Made(Arc::new(entries)) })
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::None => f.write_str("Attributes"),
            Kind::Made(entries) => f.debug_tuple("Attributes").field(entries).finish(),
            Kind::Lazy(_) => f.debug_struct("Attributes").finish_non_exhaustive(),
        }
    }
}
