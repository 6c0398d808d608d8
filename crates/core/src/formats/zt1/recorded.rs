//! What version 1.0 has no fields for, and components of layouts that it does not define need: their dtypes, their sizes before compression,
//! and that the elements have no dtype. It is an attribute of the tensor, which other readers of 1.0 ignore:
//! `"ztensor:dtypes": { "tensor": "none", "components": { role: dtype }, "lengths": { role: bytes } }`.
#![forbid(unsafe_code)]

use ciborium::Value;

use crate::checked::exact;
use crate::error::Result;
use crate::model::Entries;
use crate::model::{Attributes, Catalog, Component, DType, Encoding, Layout, Tensor};

const KEY: &str = "ztensor:dtypes";
const TENSOR: &str = "tensor";
const NONE: &str = "none";
const COMPONENTS: &str = "components";
const LENGTHS: &str = "lengths";

/// Returns whether the CBOR of attributes may contain recorded dtypes.
pub fn may_be_in(attributes: &[u8]) -> bool {
    attributes.windows(KEY.len()).any(|window| window == KEY.as_bytes())
}

/// The attributes to write for a tensor: its own, and its recorded dtypes if it needs them.
pub fn with_dtypes(catalog: &Catalog, tensor: Tensor<'_>) -> Result<Option<Entries>> {
    let own = tensor
        .attributes()
        .map(|attributes| attributes.values().map(|values| values.to_vec()))
        .transpose()?;
    let is_other = matches!(tensor.layout(), Layout::Other(_));
    let others = || tensor.components().iter().filter(|part| is_other || !tensor.is_own(part));
    let typed: Vec<_> = others().filter_map(|part| Some((catalog.label(part.role), part.dtype?))).collect();
    let has_none = is_other && tensor.dtype().is_none();
    if !has_none && typed.iter().all(|&(_, dtype)| dtype == DType::Uint8) {
        // Bytes are what components are without a dtype.
        return Ok(own);
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
    let mut entries = own.unwrap_or_default();
    entries.push((Value::from(KEY), Value::Map(recorded)));
    Ok(Some(entries))
}

/// Recorded dtypes.
pub struct Recorded {
    /// Whether the elements have no dtype.
    pub has_none: bool,
    pub components: Vec<(String, DType)>,
    /// Sizes of components after decoding, in bytes.
    pub lengths: Vec<(String, u64)>,
}

/// Removes recorded dtypes from the attributes of a tensor. Anything else under the key is an attribute like any other.
pub fn take(attributes: &Attributes) -> Result<Option<(Attributes, Recorded)>> {
    let mut entries = attributes.values()?.to_vec();
    let Some(at) = entries.iter().position(|(key, _)| key.as_text() == Some(KEY)) else { return Ok(None) };
    let Some(recorded) = entries.get(at).and_then(|(_, value)| parse(value)) else { return Ok(None) };
    entries.remove(at);
    Ok(Some((entries.into(), recorded)))
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
        None => Vec::new(),
        Some(lengths) => lengths.as_map()?.iter().map(length).collect::<Option<_>>()?,
    };
    Some(Recorded { has_none, components, lengths })
}
