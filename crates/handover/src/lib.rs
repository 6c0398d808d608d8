//! What a file holds, in flat arrays, which JavaScript takes at once and reads without a call for each tensor.
#![forbid(unsafe_code)]

mod attributes;
mod components;
mod index;
mod values;

use ztensor_core::model::Component;

pub use attributes::{Bigint, Extent, FlatAttributes};
pub use components::{FlatComponent, components};
pub use index::Flat;
pub use values::{bigint_value, number_value};

/// Converts to a number that JavaScript represents exactly; larger ones were rejected when the index was read.
#[allow(clippy::cast_precision_loss)]
pub fn number(value: u64) -> f64 {
    value as f64
}

/// Returns the range of a component that has this host's in-memory representation in the file.
pub fn readable_in_place(component: &Component) -> Option<(u64, u64)> {
    let single_bytes = component.dtype.is_none_or(|dtype| dtype.element_bytes() == 1);
    component.plain_range().filter(|_| single_bytes || cfg!(target_endian = "little"))
}
