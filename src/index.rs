//! Transfer of the index to JavaScript, once, in flat arrays.

use napi::bindgen_prelude::{Float64Array, Uint32Array};
use napi::{Env, JsString, Result};
use napi_derive::napi;
use ztensor_core::model::{Catalog, Component, CopyReason, Data, DataRule, Tensor, Warning};

/// Converts to a number that JavaScript represents exactly; larger ones were rejected when the index was read.
#[allow(clippy::cast_precision_loss)]
pub fn number(value: u64) -> f64 {
    value as f64
}

/// Converts a whole number from JavaScript.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn unsigned(value: f64) -> Option<u64> {
    ((0.0..=9_007_199_254_740_991.0).contains(&value) && value.fract() == 0.0).then_some(value as u64)
}

/// No dtype, or an unknown one.
const NO_DTYPE: u32 = 0xff;
/// The data in the file has the in-memory representation.
const PLAIN: u32 = 0x100;

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

/// The index before it is converted to JavaScript values.
pub struct Flat {
    /// Present if names are not all ASCII.
    names: Option<Vec<u16>>,
    records: Vec<u32>,
    numbers: Vec<f64>,
    files: Vec<u32>,
    shape_ends: Vec<u32>,
    shape_dims: Vec<f64>,
}

impl Flat {
    pub fn of(catalog: &Catalog) -> Self {
        let ascii = catalog.names().is_ascii();
        let mut flat = Self {
            names: (!ascii).then(|| catalog.names().encode_utf16().collect()),
            records: Vec::with_capacity(catalog.len() * 4),
            numbers: Vec::with_capacity(catalog.len() * 2),
            files: Vec::new(),
            shape_ends: Vec::new(),
            shape_dims: Vec::new(),
        };
        let mut utf16_end = 0;
        for tensor in catalog.iter() {
            utf16_end =
                if ascii { tensor.name_end() } else { utf16_end + tensor.name().encode_utf16().count() };
            flat.add(tensor, utf16_end);
        }
        if !flat.files.is_empty() {
            flat.files.resize(catalog.len(), 0);
        }
        for shape in catalog.shapes() {
            flat.shape_dims.extend(shape.iter().copied().map(number));
            flat.shape_ends.push(u32::try_from(flat.shape_dims.len()).unwrap_or(u32::MAX));
        }
        flat
    }

    fn add(&mut self, tensor: Tensor<'_>, name_end: usize) {
        let plain = tensor.data().and_then(|data| Some((data.file(), readable_in_place(data)?)));
        let dtype = tensor.dtype().map_or(NO_DTYPE, |dtype| dtype as u32);
        self.records.extend([
            // The builder limits the length of all names to less than 2^32.
            u32::try_from(name_end).unwrap_or(u32::MAX),
            dtype | if plain.is_some() { PLAIN } else { 0 },
            tensor.shape_id(),
            tensor.layout().label().id(),
        ]);
        self.numbers.extend(match plain {
            Some((_, (offset, length))) => [number(offset), number(length)],
            None => [-1.0, number(tensor.byte_length())],
        });
        if let Some((file, _)) = plain.filter(|&(file, _)| file != 0) {
            self.files.resize(tensor.ordinal(), 0);
            self.files.push(file);
        }
    }

    /// Converts it to JavaScript values.
    pub fn hand<'env>(self, env: &'env Env, catalog: &Catalog) -> Result<FlatIndex<'env>> {
        let names = match &self.names {
            // Bytes known to be Latin-1 characters are used without validation.
            None => env.create_string_latin1(catalog.names())?,
            Some(names) => env.create_string_utf16(names)?,
        };
        Ok(FlatIndex {
            names,
            records: self.records.into(),
            numbers: self.numbers.into(),
            files: (!self.files.is_empty()).then(|| self.files.into()),
            shape_ends: self.shape_ends.into(),
            shape_dims: self.shape_dims.into(),
            labels: catalog.labels().iter().map(str::to_owned).collect(),
        })
    }
}

/// Returns the range of a component that has this host's in-memory representation in the file.
pub fn readable_in_place(component: &Component) -> Option<(u64, u64)> {
    let single_bytes = component.dtype.is_none_or(|dtype| dtype.element_bytes() == 1);
    component.plain_range().filter(|_| single_bytes || cfg!(target_endian = "little"))
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
    /// Whether indices must be sorted or unique, as in the zTensor 2 profiles.
    pub strict: bool,
    /// Whether it holds elements of the tensor rather than auxiliary data.
    pub own: bool,
}

pub fn components(catalog: &Catalog, tensor: Tensor<'_>) -> Vec<ComponentInfo> {
    let info = |component: &Component| {
        let plain = readable_in_place(component);
        ComponentInfo {
            role: catalog.label(component.role).to_owned(),
            file: component.file(),
            dtype: component.dtype.map(|dtype| dtype as u32),
            byte_length: component.byte_length().map(number),
            stored_length: number(component.stored_length()),
            offset: (!matches!(component.data, Data::Inline(_))).then(|| number(component.offset())),
            encoding: catalog.encoding_name(component).into_owned(),
            digest: component.digest().map(|digest| digest.text().into_owned()),
            plain_offset: plain.map(|(offset, _)| number(offset)),
            copy_reason: plain.is_none().then(|| copy_reason(component).to_owned()),
            sliceable: component.is_sliceable(tensor.shape()),
            strict: matches!(component.rule, Some(DataRule::RisingColumns | DataRule::UniqueCells)),
            own: tensor.is_own(component),
        }
    };
    tensor.components().iter().map(info).collect()
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
