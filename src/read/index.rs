//! Transfer of the index to JavaScript, once, in flat arrays.

use std::borrow::Cow;

use napi::bindgen_prelude::{Float64Array, Uint32Array};
use napi::{Env, JsString, Result};
use napi_derive::napi;
use ztensor_core::model::{Catalog, Warning};
use ztensor_handover::{Flat, FlatComponent};

/// All tensors. `records` holds for each: the end of its name in `names` (UTF-16 units); its dtype code and the plain flag; its shape's
/// ordinal; its layout's ordinal in `labels`. `numbers` holds for each: the offset of its data (plain tensors only) and its size in bytes.
#[napi(object, object_from_js = false)]
pub struct FlatIndex<'env> {
    pub names: JsString<'env>,
    pub records: Uint32Array,
    pub numbers: Float64Array,
    /// The file that holds each tensor's data, if there are several files.
    pub files: Option<Uint32Array>,
    pub shape_ends: Uint32Array,
    pub shape_dims: Float64Array,
    pub labels: Vec<String>,
}

/// Converts a flat index to JavaScript values.
pub fn hand_over<'env>(flat: Flat, env: &'env Env, catalog: &Catalog) -> Result<FlatIndex<'env>> {
    let names = match &flat.names {
        // Bytes known to be Latin-1 characters are used without validation.
        None => env.create_string_latin1(catalog.names())?,
        Some(names) => env.create_string_utf16(names)?,
    };
    Ok(FlatIndex {
        names,
        records: flat.records.into(),
        numbers: flat.numbers.into(),
        files: (!flat.files.is_empty()).then(|| flat.files.into()),
        shape_ends: flat.shape_ends.into(),
        shape_dims: flat.shape_dims.into(),
        labels: catalog.labels().iter().map(str::to_owned).collect(),
    })
}

/// A file of an opened set.
#[napi(object)]
pub struct FileInfo {
    /// `None` if it was not looked up.
    pub path: Option<String>,
    /// Its name in a shard table.
    pub name: Option<String>,
    pub byte_length: f64,
}

/// A warning about a file that can be read.
#[napi(object, object_from_js = false)]
pub struct NativeWarning {
    pub code: String,
    pub message: String,
    pub tensor: Option<String>,
    pub component: Option<String>,
    pub path: Option<String>,
}

impl From<&Warning> for NativeWarning {
    fn from(warning: &Warning) -> Self {
        Self {
            code: warning.code.to_owned(),
            message: warning.message.clone(),
            tensor: warning.tensor.clone(),
            component: warning.component.clone(),
            path: warning.path.clone(),
        }
    }
}

/// A component.
#[napi(object)]
#[allow(clippy::struct_excessive_bools)] // JavaScript reads each by its name
pub struct ComponentInfo {
    pub role: String,
    /// The number of its file.
    pub file: u32,
    pub dtype: Option<u32>,
    pub byte_length: Option<f64>,
    pub stored_length: f64,
    pub offset: Option<f64>,
    pub encoding: String,
    pub digest: Option<String>,
    /// The offset of the elements, if the file has the in-memory representation.
    pub plain_offset: Option<f64>,
    /// Why a copy is needed otherwise.
    #[napi(ts_type = "'inline' | 'encoded' | 'reordered' | 'byte-order' | 'misaligned'")]
    pub copy_reason: Option<String>,
    /// Whether a slice of the tensor reads and decodes only the needed part of this component.
    pub sliceable: bool,
    /// Whether it consists of frames that can be decoded independently.
    pub framed: bool,
    /// Whether indices must be sorted or unique, as in the zTensor 2 profiles.
    pub strict: bool,
    /// Whether it holds elements of the tensor rather than auxiliary data.
    pub own: bool,
}

impl From<FlatComponent<'_>> for ComponentInfo {
    fn from(component: FlatComponent<'_>) -> Self {
        Self {
            role: component.role.to_owned(),
            file: component.file,
            dtype: component.dtype,
            byte_length: component.byte_length,
            stored_length: component.stored_length,
            offset: component.offset,
            encoding: component.encoding.into_owned(),
            digest: component.digest.map(Cow::into_owned),
            plain_offset: component.plain_offset,
            copy_reason: component.copy_reason.map(str::to_owned),
            sliceable: component.is_sliceable,
            framed: component.is_framed,
            strict: component.is_strict,
            own: component.is_own,
        }
    }
}
