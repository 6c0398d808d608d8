//! The plain values of a checkpoint as attributes: containers without their tensors, and all other values.
#![forbid(unsafe_code)]

use std::marker::PhantomData;
use std::sync::Arc;

use ztensor_core::error::Result;
use ztensor_core::limits::VALUE_DEPTH;
use ztensor_core::model::{Attributes, Builder};
use ztensor_core::syntax::values::{Event, Visit};

use super::form::Key;
use super::item::{Item, Meanings, Plain};
use super::walk::{Seen, seen};
use super::{Pickle, Value};
use crate::limits::PICKLE_TIMES;

/// The key of a value that is the whole file.
const ALONE: &str = "value";
/// Maximum values of the root that are dropped for having too many values in them. Detecting one takes as long as visiting all attributes.
const DROPPED: usize = 16;

/// Adds the attributes of a checkpoint to a file.
pub fn add<M: Meanings>(builder: &mut Builder, pickle: Arc<Pickle>, seen: Vec<Seen>) -> Result<()> {
    let limits = builder.limits();
    // A value takes at least a byte, unless lists share it; shared values are limited as in other formats.
    let bytes = u32::try_from(pickle.byte_length()).unwrap_or(u32::MAX);
    let max = limits.made_values().max(limits.max_attribute_values.min(bytes));
    let (attributes, dropped) = of::<M>(pickle, seen, max)?;
    builder.set_attributes(attributes);
    for key in dropped {
        let message =
            format!("{key}: the attributes have more than {max} values in total (option maxAttributeValues)");
        builder.warn("ZT_WARN_SKIPPED", message, None, None);
    }
    Ok(())
}

/// Returns the attributes of a checkpoint, and the keys of those omitted because they have too many values.
fn of<M: Meanings>(pickle: Arc<Pickle>, seen: Vec<Seen>, max: u32) -> Result<(Attributes, Vec<String>)> {
    let mut budget =
        Budget { values: max.into(), bytes: pickle.byte_length().saturating_mul(PICKLE_TIMES), spent: false };
    let mut retained = Vec::new();
    let mut dropped = Vec::new();
    for (nth, (key, value)) in top::<M>(&pickle, &seen)?.into_iter().enumerate() {
        let mut teller = Teller::<M> { pickle: &pickle, seen: &seen, open: Vec::new(), means: PhantomData };
        let left = (budget.values, budget.bytes);
        teller.entry(key, value, &mut budget)?;
        if std::mem::take(&mut budget.spent) {
            (budget.values, budget.bytes) = left;
            if dropped.len() == DROPPED {
                dropped.push("the values that follow".to_owned());
                break;
            }
            dropped.push(key.show(&pickle).0.chars().take(256).collect());
        } else {
            retained.push(nth);
        }
    }
    if retained.is_empty() {
        return Ok((Attributes::default(), dropped));
    }
    let attributes = Attributes::lazy(move |to| {
        let top = top::<M>(&pickle, &seen)?;
        retained.iter().filter_map(|&nth| top.get(nth)).try_for_each(|&(key, value)| {
            Teller::<M> { pickle: &pickle, seen: &seen, open: Vec::new(), means: PhantomData }
                .entry(key, value, to)
        })
    });
    Ok((attributes, dropped))
}

/// Returns the keys and values of the root that are listed.
fn top<'p, M: Meanings>(pickle: &'p Pickle, known: &[Seen]) -> Result<Vec<(Key<'p>, Value)>> {
    let root = pickle.root();
    if !seen(known, root).is_shown() {
        return Ok(Vec::new());
    }
    Ok(match M::expand(pickle, root)? {
        Item::Plain(_) => vec![(Key::Text(ALONE), root)],
        Item::Tensor(_, parts) | Item::List(parts) | Item::Map(parts) | Item::Unknown(_, parts) => {
            parts.into_iter().filter(|(_, value)| seen(known, *value).is_shown()).collect()
        }
        Item::Nothing(_) => Vec::new(),
    })
}

/// Counts visited values.
struct Budget {
    values: u64,
    bytes: u64,
    spent: bool,
}

impl Visit for Budget {
    fn visit(&mut self, event: Event<'_>) -> Result<()> {
        let bytes = match event {
            Event::Text(text) => text.len() as u64,
            Event::Bytes(bytes) => bytes.len() as u64,
            _ => 0,
        };
        // Arrays and maps need some memory in addition to their content.
        let values = if matches!(event, Event::Array | Event::Map) { 3 } else { 1 };
        match (self.values.checked_sub(values), self.bytes.checked_sub(bytes)) {
            (Some(values), Some(bytes)) => (self.values, self.bytes) = (values, bytes),
            _ => self.spent = true,
        }
        Ok(())
    }
}

/// Whether visiting further values is pointless.
trait Teach: Visit {
    fn is_full(&self) -> bool {
        false
    }
}

impl Teach for Budget {
    fn is_full(&self) -> bool {
        self.spent
    }
}

impl Teach for dyn Visit + '_ {}

struct Teller<'p, M> {
    pickle: &'p Pickle,
    seen: &'p [Seen],
    /// Values being visited: a value within itself is omitted.
    open: Vec<u32>,
    means: PhantomData<M>,
}

impl<M: Meanings> Teller<'_, M> {
    fn entry(&mut self, key: Key<'_>, value: Value, to: &mut (impl Teach + ?Sized)) -> Result<()> {
        match key {
            Key::Value(Value::Int(number)) => to.visit(Event::Integer(number.into()))?,
            _ => to.visit(Event::Text(&key.show(self.pickle).0))?,
        }
        self.value(value, to)
    }

    fn value(&mut self, value: Value, to: &mut (impl Teach + ?Sized)) -> Result<()> {
        let id = match value {
            Value::None => return to.visit(Event::Null),
            Value::Bool(flag) => return to.visit(Event::Bool(flag)),
            Value::Int(number) => return to.visit(Event::Integer(number.into())),
            Value::Float(number) => return to.visit(Event::Float(number)),
            Value::Node(id) => id,
        };
        let known = seen(self.seen, value);
        if !known.is_shown() || self.open.contains(&id) || self.open.len() + 2 >= VALUE_DEPTH || to.is_full()
        {
            return to.visit(Event::Null);
        }
        self.open.push(id);
        let result = self.item(value, known, to);
        self.open.pop();
        result
    }

    fn item(&mut self, value: Value, known: Seen, to: &mut (impl Teach + ?Sized)) -> Result<()> {
        match M::expand(self.pickle, value)? {
            Item::Plain(plain) => self.plain(plain, to),
            // The items retain their indices even if some of them are tensors.
            Item::List(items) if !known.holds() => {
                to.visit(Event::Array)?;
                items.into_iter().try_for_each(|(_, item)| self.value(item, to))?;
                to.visit(Event::End)
            }
            Item::Tensor(_, parts) | Item::List(parts) | Item::Map(parts) | Item::Unknown(_, parts) => {
                to.visit(Event::Map)?;
                for (key, value) in parts {
                    if to.is_full() {
                        break;
                    }
                    if seen(self.seen, value).is_shown() {
                        self.entry(key, value, to)?;
                    }
                }
                to.visit(Event::End)
            }
            Item::Nothing(_) => to.visit(Event::Null),
        }
    }

    fn plain(&self, plain: Plain<'_>, to: &mut (impl Teach + ?Sized)) -> Result<()> {
        match plain {
            Plain::Null => to.visit(Event::Null),
            Plain::Bool(flag) => to.visit(Event::Bool(flag)),
            Plain::Int(number) => to.visit(Event::Integer(number.into())),
            Plain::Float(number) => to.visit(Event::Float(number)),
            Plain::Text(text) => to.visit(Event::Text(&text)),
            Plain::Bytes(bytes) => to.visit(Event::Bytes(bytes.bytes(self.pickle))),
            Plain::Long(bytes) => long(bytes, to),
        }
    }
}

/// Visits a bignum (RFC 8949 §3.4.3) for a little-endian two's complement number; a negative number n is encoded as -1 - n.
fn long(bytes: &[u8], to: &mut (impl Visit + ?Sized)) -> Result<()> {
    let negative = bytes.last().is_some_and(|top| top & 0x80 != 0);
    let big = bytes.iter().rev().map(|byte| if negative { !byte } else { *byte });
    let big: Vec<u8> = big.skip_while(|byte| *byte == 0).collect();
    to.visit(Event::Tag(if negative { 3 } else { 2 }))?;
    to.visit(Event::Bytes(&big))
}
