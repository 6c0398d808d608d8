//! What version 1.0 has no fields for, and components of layouts that it does not define need: their dtypes, their sizes before compression,
//! and that the elements have no dtype. It is an attribute of the tensor, which other readers of 1.0 ignore:
//! `"ztensor:dtypes": { "tensor": "none", "components": { role: dtype }, "lengths": { role: bytes } }`.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use ciborium::Value;

use crate::checked::exact;
use crate::error::{Code, Error, Result};
use crate::limits;
use crate::model::{Attributes, Catalog, Component, DType, Encoding, Layout, Tensor};
use crate::syntax::values::{Event, Ignore, Tree, Visit};

/// The key of recorded dtypes.
pub const KEY: &str = "ztensor:dtypes";
/// Maximum values of recorded dtypes: a dtype and a length for each component, with their roles, and the fields around them.
const VALUES: usize = 4 * limits::COMPONENTS + 16;
const TENSOR: &str = "tensor";
const NONE: &str = "none";
const COMPONENTS: &str = "components";
const LENGTHS: &str = "lengths";

/// Returns whether the CBOR of attributes may contain recorded dtypes.
pub fn may_be_in(attributes: &[u8]) -> bool {
    attributes.windows(KEY.len()).any(|window| window == KEY.as_bytes())
}

/// Returns the attribute that records the dtypes of a tensor, if it needs one.
pub fn entry(catalog: &Catalog, tensor: Tensor<'_>) -> Option<(Value, Value)> {
    let is_other = matches!(tensor.layout(), Layout::Other(_));
    let others = || tensor.components().iter().filter(|part| is_other || !tensor.is_own(part));
    let typed: Vec<_> = others().filter_map(|part| Some((catalog.label(part.role), part.dtype?))).collect();
    let has_none = is_other && tensor.dtype().is_none();
    if !has_none && typed.iter().all(|&(_, dtype)| dtype == DType::Uint8) {
        // Bytes are what components are without a dtype.
        return None;
    }
    let mut recorded = Vec::new();
    if has_none {
        recorded.push((Value::from(TENSOR), Value::from(NONE)));
    }
    let components = typed.into_iter().map(|(role, dtype)| (Value::from(role), Value::from(dtype.name())));
    recorded.push((Value::from(COMPONENTS), Value::Map(components.collect())));
    let is_encoded = |part: &&Component| part.encoding() != Encoding::RAW;
    let lengths = others().filter(is_encoded);
    let lengths = lengths.filter_map(|part| Some((catalog.label(part.role), part.byte_length()?)));
    let lengths: Vec<_> = lengths.map(|(role, length)| (Value::from(role), Value::from(length))).collect();
    if !lengths.is_empty() {
        recorded.push((Value::from(LENGTHS), Value::Map(lengths)));
    }
    Some((Value::from(KEY), Value::Map(recorded)))
}

/// Recorded dtypes.
pub struct Recorded {
    /// Whether the elements have no dtype.
    pub has_none: bool,
    pub components: BTreeMap<String, DType>,
    /// Sizes of components after decoding, in bytes.
    pub lengths: BTreeMap<String, u64>,
}

/// Removes recorded dtypes from the attributes of a tensor. Anything else under the key is an attribute like any other. The other attributes
/// are not decoded.
pub fn take(attributes: &Attributes) -> Result<Option<(Option<Attributes>, Recorded)>> {
    let mut tree = Tree::default();
    let mut part = Part::new(&mut tree, true);
    attributes.visit(&mut part)?;
    let (values, others) = (part.values, part.others);
    if values > VALUES {
        return Ok(None);
    }
    let Some(recorded) = tree.entries()?.first().and_then(|(_, value)| parse(value)) else {
        return Ok(None);
    };
    let all = attributes.clone();
    let rest = (others > 0).then(|| Attributes::lazy(move |to| all.visit(&mut Part::new(to, false))));
    Ok(Some((rest, recorded)))
}

/// Fails for attributes to write that have the key of recorded dtypes.
pub fn check_free(attributes: Option<&Attributes>) -> Result<()> {
    let Some(attributes) = attributes else { return Ok(()) };
    let mut ignore = Ignore;
    let mut part = Part::new(&mut ignore, true);
    attributes.visit(&mut part)?;
    if part.values == 0 { Ok(()) } else { Err(reserved()) }
}

/// The error for an attribute to write that has the key of recorded dtypes.
pub fn reserved() -> Error {
    let message = format!(
        "zTensor 1.0 stores the dtypes of components under the attribute {KEY:?}: use another name for this attribute"
    );
    Error::new(Code::InvalidArg, message)
}

/// Passes on the entry with the key of recorded dtypes, or all other entries.
struct Part<'v> {
    to: &'v mut dyn Visit,
    takes_recorded: bool,
    /// Values of the entry that were visited, with its key and the ends of containers.
    values: usize,
    /// Number of other entries.
    others: usize,
    /// Open containers.
    depth: usize,
    /// Number of keys and values that have ended.
    ended: usize,
    /// Whether the next value belongs to a tag.
    is_tagged: bool,
    is_recorded: bool,
}

impl<'v> Part<'v> {
    fn new(to: &'v mut dyn Visit, takes_recorded: bool) -> Self {
        Self {
            to,
            takes_recorded,
            values: 0,
            others: 0,
            depth: 0,
            ended: 0,
            is_tagged: false,
            is_recorded: false,
        }
    }
}

impl Visit for Part<'_> {
    fn visit(&mut self, event: Event<'_>) -> Result<()> {
        if self.depth == 0 && self.ended.is_multiple_of(2) && !self.is_tagged {
            self.is_recorded = event == Event::Text(KEY);
            self.others += usize::from(!self.is_recorded);
        }
        match event {
            Event::Array | Event::Map => self.depth += 1,
            Event::End => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.is_tagged = matches!(event, Event::Tag(_));
        if self.depth == 0 && !self.is_tagged {
            self.ended += 1;
        }
        self.values += usize::from(self.is_recorded);
        let is_bounded = !self.takes_recorded || self.values <= VALUES;
        if self.is_recorded == self.takes_recorded && is_bounded { self.to.visit(event) } else { Ok(()) }
    }
}

fn parse(value: &Value) -> Option<Recorded> {
    let fields = value.as_map()?;
    let field =
        |name: &str| fields.iter().find(|(key, _)| key.as_text() == Some(name)).map(|(_, value)| value);
    let has_none = match field(TENSOR) {
        None => false,
        Some(text) => text.as_text().filter(|&text| text == NONE).map(|_| true)?,
    };
    let dtype = |(role, name): &(Value, Value)| {
        let (role, name) = (role.as_text()?, name.as_text()?);
        let dtype = DType::ALL.iter().copied().find(|dtype| dtype.name() == name)?;
        Some((role.to_owned(), dtype))
    };
    let components = field(COMPONENTS)?.as_map()?.iter().map(dtype).collect::<Option<_>>()?;
    let length = |(role, length): &(Value, Value)| {
        let length = exact(u64::try_from(i128::from(length.as_integer()?)).ok()?, LENGTHS).ok()?;
        Some((role.as_text()?.to_owned(), length))
    };
    let lengths = match field(LENGTHS) {
        None => BTreeMap::new(),
        Some(lengths) => lengths.as_map()?.iter().map(length).collect::<Option<_>>()?,
    };
    Some(Recorded { has_none, components, lengths })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test that cannot set itself up has failed
mod tests {
    use super::*;

    fn map(entries: impl IntoIterator<Item = (Value, Value)>) -> Value {
        Value::Map(entries.into_iter().collect())
    }

    /// Recorded dtypes of this many components.
    fn recorded(components: usize) -> Value {
        let roles = (0..components).map(|at| (Value::from(format!("c{at}")), Value::from("int8")));
        map([(Value::from(COMPONENTS), map(roles))])
    }

    #[test]
    fn other_attributes_stay_in_their_order() {
        let nested = Value::Array(vec![map([(KEY.into(), 1.into())]), Value::Tag(5, Box::new(KEY.into()))]);
        let tagged = (Value::Tag(5, Box::new(KEY.into())), Value::from(2));
        let others = [("a".into(), nested.clone()), tagged, (nested, KEY.into())];
        for at in 0..=others.len() {
            let mut entries = others.to_vec();
            entries.insert(at, (KEY.into(), recorded(2)));
            let (rest, recorded) = take(&Attributes::from(entries)).unwrap().unwrap();
            assert_eq!(*rest.unwrap().values().unwrap(), others);
            assert_eq!(recorded.components.len(), 2);
            assert_eq!(recorded.components.get("c1"), Some(&DType::Int8));
        }
        let alone = Attributes::from(vec![(KEY.into(), recorded(1))]);
        assert!(take(&alone).unwrap().unwrap().0.is_none());
        assert!(take(&Attributes::from(others.to_vec())).unwrap().is_none());
    }

    #[test]
    fn more_dtypes_than_a_tensor_has_components_are_an_attribute() {
        let of = |count| take(&Attributes::from(vec![(KEY.into(), recorded(count))])).unwrap();
        assert_eq!(of(limits::COMPONENTS).unwrap().1.components.len(), limits::COMPONENTS);
        assert!(of(2 * limits::COMPONENTS + 16).is_none());
    }

    #[test]
    fn the_key_is_reserved() {
        let with =
            |key: Value| check_free(Some(&Attributes::from(vec![("a".into(), 1.into()), (key, 5.into())])));
        assert_eq!(with(KEY.into()).unwrap_err().code(), Code::InvalidArg);
        assert!(with(Value::Array(vec![KEY.into()])).is_ok());
        assert!(check_free(None).is_ok());
    }
}
