//! Free-form values as a sequence of events: a reader produces them, a visitor consumes them. No tree is built in between.
#![forbid(unsafe_code)]

use ciborium::Value;
use ciborium::value::Integer;

use crate::error::{Code, Error, Result};
use crate::limits;

/// A value, or the beginning or end of a container.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event<'a> {
    Null,
    Bool(bool),
    /// From -2^64 to 2^64 - 1.
    Integer(i128),
    Float(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    /// The following value has this CBOR tag. 2 and 3 before bytes make them a bignum (RFC 8949 §3.4.3).
    Tag(u64),
    /// Values follow, up to the matching `End`.
    Array,
    /// Keys and values follow alternately, up to the matching `End`.
    Map,
    End,
}

/// Consumes values one by one.
pub trait Visit {
    /// Consumes the next event. An error ends the visit.
    fn visit(&mut self, event: Event<'_>) -> Result<()>;
}

/// Discards values: for a reader that only validates.
pub struct Ignore;

impl Visit for Ignore {
    #[inline]
    fn visit(&mut self, _: Event<'_>) -> Result<()> {
        Ok(())
    }
}

/// Visits an existing value.
pub fn visit(value: &Value, to: &mut (impl Visit + ?Sized)) -> Result<()> {
    match value {
        Value::Integer(integer) => to.visit(Event::Integer(i128::from(*integer))),
        Value::Float(float) => to.visit(Event::Float(*float)),
        Value::Text(text) => to.visit(Event::Text(text)),
        Value::Bool(flag) => to.visit(Event::Bool(*flag)),
        Value::Bytes(bytes) => to.visit(Event::Bytes(bytes)),
        Value::Array(items) => {
            to.visit(Event::Array)?;
            items.iter().try_for_each(|item| visit(item, to))?;
            to.visit(Event::End)
        }
        Value::Map(entries) => {
            to.visit(Event::Map)?;
            visit_entries(entries, to)?;
            to.visit(Event::End)
        }
        Value::Tag(tag, inner) => {
            to.visit(Event::Tag(*tag))?;
            visit(inner, to)
        }
        _ => to.visit(Event::Null),
    }
}

/// Visits keys and values alternately.
pub fn visit_entries(entries: &[(Value, Value)], to: &mut (impl Visit + ?Sized)) -> Result<()> {
    entries.iter().try_for_each(|(key, value)| {
        visit(key, to)?;
        visit(value, to)
    })
}

/// Builds values from events.
#[derive(Default)]
pub struct Tree {
    done: Vec<Value>,
    /// Open containers, outermost first.
    open: Vec<(ContainerKind, Vec<Value>)>,
}

#[derive(Clone, Copy)]
enum ContainerKind {
    Array,
    Map,
    Tag(u64),
}

impl Tree {
    /// Returns the visited values as keys and values.
    pub fn entries(self) -> Result<Vec<(Value, Value)>> {
        if self.open.is_empty() { pairs(self.done) } else { Err(unbalanced()) }
    }

    /// Returns the only visited value.
    pub fn value(mut self) -> Result<Value> {
        match (self.open.is_empty(), self.done.pop()) {
            (true, Some(value)) if self.done.is_empty() => Ok(value),
            _ => Err(unbalanced()),
        }
    }

    fn begin(&mut self, kind: ContainerKind) -> Result<()> {
        if self.open.len() >= limits::VALUE_DEPTH {
            let message = format!("values are nested more than {} deep", limits::VALUE_DEPTH);
            return Err(Error::new(Code::Limit, message));
        }
        self.open.push((kind, Vec::new()));
        Ok(())
    }

    fn add(&mut self, mut value: Value) {
        while let Some(&mut (ContainerKind::Tag(tag), _)) = self.open.last_mut() {
            self.open.pop();
            value = Value::Tag(tag, Box::new(value));
        }
        self.open.last_mut().map_or(&mut self.done, |(_, items)| items).push(value);
    }
}

impl Visit for Tree {
    fn visit(&mut self, event: Event<'_>) -> Result<()> {
        let value = match event {
            Event::Null => Value::Null,
            Event::Bool(flag) => Value::Bool(flag),
            Event::Integer(integer) => {
                let beyond = |_| Error::new(Code::Limit, "an integer of more than 64 bits");
                Value::Integer(Integer::try_from(integer).map_err(beyond)?)
            }
            Event::Float(float) => Value::Float(float),
            Event::Text(text) => Value::Text(text.to_owned()),
            Event::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
            Event::Tag(tag) => return self.begin(ContainerKind::Tag(tag)),
            Event::Array => return self.begin(ContainerKind::Array),
            Event::Map => return self.begin(ContainerKind::Map),
            Event::End => match self.open.pop() {
                Some((ContainerKind::Array, items)) => Value::Array(items),
                Some((ContainerKind::Map, items)) => Value::Map(pairs(items)?),
                Some((ContainerKind::Tag(_), _)) | None => return Err(unbalanced()),
            },
        };
        self.add(value);
        Ok(())
    }
}

fn pairs(items: Vec<Value>) -> Result<Vec<(Value, Value)>> {
    if !items.len().is_multiple_of(2) {
        return Err(unbalanced());
    }
    let mut pairs = Vec::with_capacity(items.len() / 2);
    let mut items = items.into_iter();
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        pairs.push((key, value));
    }
    Ok(pairs)
}

/// Reached only if a reader produces an invalid sequence of events.
fn unbalanced() -> Error {
    Error::new(Code::Internal, "the sequence of values is not balanced")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_equals_the_visited_values() {
        let nested = Value::Array(vec![
            Value::Tag(2, Box::new(Value::Tag(9, Box::new(Value::Bytes(vec![1]))))),
            Value::Map(vec![(1.into(), Value::Array(Vec::new())), (Value::Null, Value::Float(0.5))]),
            Value::Tag(1, Box::new(Value::Map(Vec::new()))),
            Value::Bool(true),
        ]);
        let entries = vec![("key".into(), nested), (Value::Array(vec![u64::MAX.into()]), "value".into())];
        let mut tree = Tree::default();
        visit_entries(&entries, &mut tree).unwrap();
        assert_eq!(tree.entries().unwrap(), entries);
    }

    #[test]
    fn unbalanced_events_are_rejected() {
        let visited = |events: &[Event<'_>]| {
            let mut tree = Tree::default();
            events.iter().try_for_each(|&event| tree.visit(event)).and_then(|()| tree.entries())
        };
        assert_eq!(visited(&[]).unwrap(), []);
        let bad: [&[Event<'_>]; 6] = [
            &[Event::Null],
            &[Event::End],
            &[Event::Null, Event::Array],
            &[Event::Tag(1), Event::End],
            &[Event::Null, Event::Map, Event::Null, Event::End],
            &[Event::Null, Event::Integer(1 << 64)],
        ];
        for events in bad {
            assert!(visited(events).is_err(), "{events:?}");
        }
        let deep = vec![Event::Array; limits::VALUE_DEPTH + 1];
        assert_eq!(visited(&deep).map_err(|error| error.code()), Err(Code::Limit));
    }
}
