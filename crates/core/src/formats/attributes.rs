//! Attributes that stay the CBOR that they are in the index.
#![forbid(unsafe_code)]

use crate::model::Attributes;
use crate::syntax::cbor::Pairs;

/// Attributes of a map that was checked.
pub fn of_cbor(pairs: Pairs<'_>) -> Attributes {
    if pairs.bytes().is_empty() {
        return Attributes::default();
    }
    let bytes: Box<[u8]> = pairs.bytes().into();
    Attributes::lazy(move |to| Pairs::visit(&bytes, to))
}
