//! Attributes that stay encoded as the CBOR of the index.
#![forbid(unsafe_code)]

use crate::model::Attributes;
use crate::syntax::cbor::Pairs;

/// Returns the attributes of a map that was already checked.
pub fn of_cbor(pairs: Pairs<'_>) -> Attributes {
    if pairs.bytes().is_empty() {
        return Attributes::default();
    }
    let bytes: Box<[u8]> = pairs.bytes().into();
    Attributes::lazy(move |to| Pairs::visit(&bytes, to))
}
