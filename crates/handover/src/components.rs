//! The components of a tensor.

use std::borrow::Cow;

use ztensor_core::model::{Catalog, Component, CopyReason, Data, DataRule, Tensor};

use crate::{number, readable_in_place};

/// A component as JavaScript takes it.
#[allow(clippy::struct_excessive_bools)] // JavaScript reads each by its name
pub struct FlatComponent<'c> {
    pub role: &'c str,
    /// The number of its file.
    pub file: u32,
    /// The code of its dtype.
    pub dtype: Option<u32>,
    pub byte_length: Option<f64>,
    pub stored_length: f64,
    /// `None` for data in the index.
    pub offset: Option<f64>,
    pub encoding: Cow<'c, str>,
    pub digest: Option<Cow<'c, str>>,
    /// The offset of the elements, if the file has the in-memory representation.
    pub plain_offset: Option<f64>,
    /// Why a copy is needed otherwise.
    pub copy_reason: Option<&'static str>,
    /// Whether a slice of the tensor reads and decodes only the needed part of this component.
    pub is_sliceable: bool,
    /// Whether it consists of frames that can be decoded independently.
    pub is_framed: bool,
    /// Whether indices must be sorted or unique, as in the zTensor 2 profiles.
    pub is_strict: bool,
    /// Whether it holds elements of the tensor rather than auxiliary data.
    pub is_own: bool,
}

/// `is_framed` returns whether frames of a component can be decoded independently.
pub fn components<'c>(
    catalog: &'c Catalog,
    tensor: Tensor<'c>,
    is_framed: impl Fn(&Component) -> bool,
) -> Vec<FlatComponent<'c>> {
    let flat = |component: &'c Component| {
        let plain = readable_in_place(component);
        let is_framed = is_framed(component);
        FlatComponent {
            role: catalog.label(component.role),
            file: component.file(),
            dtype: component.dtype.map(|dtype| dtype as u32),
            byte_length: component.byte_length().map(number),
            stored_length: number(component.stored_length()),
            offset: (!matches!(component.data, Data::Inline(_))).then(|| number(component.offset())),
            encoding: catalog.encoding_name(component),
            digest: component.digest().map(|digest| digest.text()),
            plain_offset: plain.map(|(offset, _)| number(offset)),
            copy_reason: plain.is_none().then(|| copy_reason(component)),
            is_sliceable: is_framed || component.is_sliceable(tensor.shape()),
            is_framed,
            is_strict: matches!(component.rule, Some(DataRule::RisingColumns | DataRule::UniqueCells)),
            is_own: tensor.is_own(component),
        }
    };
    tensor.components().iter().map(flat).collect()
}

fn copy_reason(component: &Component) -> &'static str {
    match component.copy_reason(cfg!(target_endian = "little")) {
        CopyReason::Inline => "inline",
        CopyReason::Encoded => "encoded",
        CopyReason::Reordered => "reordered",
        CopyReason::ByteOrder => "byte-order",
        CopyReason::Misaligned => "misaligned",
    }
}
