//! The index of a file in flat arrays.

use ztensor_core::model::{Catalog, Tensor};

use crate::{number, readable_in_place};

/// No dtype, or an unknown one.
const NO_DTYPE: u32 = 0xff;
/// The data in the file has the in-memory representation.
const PLAIN: u32 = 0x100;

/// The index of a file. The catalog has the names as one string, in the same order.
pub struct Flat {
    /// All names, if they are not all ASCII.
    pub names: Option<Vec<u16>>,
    /// For each tensor: the end of its name in the names (UTF-16 units); its dtype code and the plain flag; its shape's ordinal; its
    /// layout's ordinal among the catalog's labels.
    pub records: Vec<u32>,
    /// For each tensor: the offset of its data (-1 unless plain) and its size, in bytes.
    pub numbers: Vec<f64>,
    /// The number of the file that holds each tensor's data; empty if there is one file.
    pub files: Vec<u32>,
    /// The end of each shape in `shape_dims`.
    pub shape_ends: Vec<u32>,
    pub shape_dims: Vec<f64>,
}

impl Flat {
    /// Flattens a catalog, in time linear in its tensors.
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
}
