//! The output of `scipy.sparse.save_npz`: a sparse matrix, whose arrays are members of the archive. `sparse.save_npz` of pydata/sparse
//! writes the same members and a fill value.
#![forbid(unsafe_code)]

use ciborium::Value;
use ztensor_core::checked::{bytes_of, exact};
use ztensor_core::error::Result;
use ztensor_core::formats::Input;
use ztensor_core::layouts;
use ztensor_core::model::{
    Attributes, Builder, Component, DType, Label, Layout, NewTensor, Piece, Pieces, Strided, View,
};

use super::array;
use super::array::ARRAY;
use super::header::Elements;
use super::npz::Array;

/// Maximum bytes of a member that is read to interpret the others.
const SMALL: u64 = 4096;

/// The matrix of an archive.
struct Matrix<'a> {
    arrays: &'a [Array],
    shape: Vec<u64>,
}

/// The members of a matrix.
pub struct Members {
    /// Those that depend on its format.
    parts: &'static [&'static str],
}

impl Members {
    /// Returns whether an array is a member of the matrix.
    pub fn contain(&self, name: &str) -> bool {
        self.parts.contains(&name) || ["format", "shape", "_is_array", AXES, FILL].contains(&name)
    }
}

const FILL: &str = "fill_value";
/// The compressed dimensions of a GCXS array of pydata/sparse.
const AXES: &str = "compressed_axes";

/// Adds the sparse matrix that arrays form, and returns its members. Other arrays are tensors of their own. Returns `None` if there is no
/// matrix, or if it has a fill value other than 0, which no layout has.
pub fn add(builder: &mut Builder, input: &Input<'_>, arrays: &[Array]) -> Result<Option<Members>> {
    let Some(format) = find(arrays, "format").filter(|array| array.header.shape.is_empty()) else {
        return Ok(None);
    };
    let Some(shape) = find(arrays, "shape").filter(|array| array.header.shape.len() == 1) else {
        return Ok(None);
    };
    let (Some(format), Some(shape)) = (word(format, input)?, numbers(shape, input)?) else {
        return Ok(None);
    };
    let matrix = Matrix { arrays, shape };
    let axes = find(arrays, AXES).map(|axes| numbers(axes, input)).transpose()?.flatten();
    let format = match (&*format, &*matrix.shape, axes.as_deref()) {
        ("gcxs", [_, _], Some([0])) => "csr".to_owned(),
        ("gcxs", [_, _], Some([1])) => "csc".to_owned(),
        ("gcxs", ..) => {
            let message = "the arrays are a sparse array in GCXS form, which no layout has: each is a tensor of its own; convert it with asformat('coo') of pydata/sparse";
            builder.warn("ZT_WARN_UNKNOWN_LAYOUT", message, None, None);
            return Ok(None);
        }
        _ => format,
    };
    let compressed = &["data", "indices", "indptr"];
    let parts: &[&str] = match (&*format, &*matrix.shape) {
        ("csr", [_]) | ("csr" | "csc" | "bsr", [_, _]) => compressed,
        ("coo", _) if find(arrays, "coords").is_some() => &["data", "coords"],
        ("coo", [_, _]) => &["data", "row", "col"],
        ("dia", [_, _]) => &["data", "offsets"],
        _ => return Ok(None),
    };
    if let Some(fill) = find(arrays, FILL)
        && !is_zero(fill, input)?
    {
        let message = "the arrays are a sparse matrix with a fill value other than 0, which no layout has: each is a tensor of its own";
        builder.warn("ZT_WARN_UNKNOWN_LAYOUT", message, None, None);
        return Ok(None);
    }
    let is_added = match (&*format, &*matrix.shape) {
        ("csr", [_]) => matrix.vector(builder, input),
        ("csr", _) => matrix.rows(builder, false),
        ("csc", _) => matrix.rows(builder, true),
        ("coo", _) if parts.contains(&"coords") => matrix.coordinates(builder),
        ("coo", _) if matrix.pairs(builder)? => Ok(true),
        _ => matrix.parts(builder, &format, parts),
    }?;
    Ok(is_added.then_some(Members { parts }))
}

fn find<'a>(arrays: &'a [Array], name: &str) -> Option<&'a Array> {
    arrays.iter().find(|array| array.name == name)
}

impl Matrix<'_> {
    /// Adds a CSR matrix. A CSC matrix is the CSR form of its transpose.
    fn rows(&self, builder: &mut Builder, by_columns: bool) -> Result<bool> {
        let roles = [("data", Label::VALUES), ("indices", Label::INDICES), ("indptr", Label::INDPTR)];
        let Some(components) = self.vectors(builder, &roles)? else { return Ok(false) };
        let mut shape = self.shape.clone();
        if by_columns {
            shape.reverse();
            let message = "the matrix is stored by columns: this is its transpose, by rows";
            builder.warn("ZT_WARN_TRANSPOSED", message, Some(TRANSPOSED), None);
        }
        let name = if by_columns { TRANSPOSED } else { ARRAY };
        tensor(builder, name, &shape, Layout::SparseCsr, components, None)
    }

    /// Adds a CSR array of one dimension: a single row, whose column numbers are its coordinates.
    fn vector(&self, builder: &mut Builder, input: &Input<'_>) -> Result<bool> {
        let roles = [("data", Label::VALUES), ("indices", Label::COORDS)];
        let Some(components) = self.vectors(builder, &roles)? else { return Ok(false) };
        let count = find(self.arrays, "indices").and_then(|indices| indices.header.shape.first().copied());
        let pointers =
            find(self.arrays, "indptr").map(|indptr| numbers(indptr, input)).transpose()?.flatten();
        // Pointers to some of the values only would leave the others out.
        if pointers.zip(count).is_none_or(|(pointers, count)| pointers != [0, count]) {
            return Ok(false);
        }
        tensor(builder, ARRAY, &self.shape, Layout::SparseCoo, components, None)
    }

    /// Adds coordinates in one array, with a row per dimension.
    fn coordinates(&self, builder: &mut Builder) -> Result<bool> {
        let Some(mut components) = self.vectors(builder, &[("data", Label::VALUES)])? else {
            return Ok(false);
        };
        let coords = find(self.arrays, "coords").filter(|coords| coords.header.shape.len() == 2);
        let Some(coords) =
            coords.map(|coords| component(builder, coords, Label::COORDS)).transpose()?.flatten()
        else {
            return Ok(false);
        };
        components.push(coords);
        tensor(builder, ARRAY, &self.shape, Layout::SparseCoo, components, None)
    }

    /// Adds coordinates in two arrays, for rows and columns. Both are one component: the decoded members follow each other, each with its
    /// header, and the view selects the elements.
    fn pairs(&self, builder: &mut Builder) -> Result<bool> {
        let Some(mut components) = self.vectors(builder, &[("data", Label::VALUES)])? else {
            return Ok(false);
        };
        let (Some(row), Some(col)) = (find(self.arrays, "row"), find(self.arrays, "col")) else {
            return Ok(false);
        };
        let (Elements::Of(dtype, byte_order), [count]) = (&row.header.elements, &*row.header.shape) else {
            return Ok(false);
        };
        if row.header.elements != col.header.elements || row.header.shape != col.header.shape {
            return Ok(false);
        }
        let (dtype, byte_order) = (*dtype, *byte_order);
        let bytes = bytes_of(*count, dtype.bits()).and_then(|bytes| exact(bytes, "the coordinates").ok());
        let Some(bytes) = bytes else { return Ok(false) };
        let mut pieces = Vec::new();
        for array in [row, col] {
            let blob = array.member.blob(builder);
            // Rejects a member with missing elements.
            array::component(
                Label::COORDS,
                &array.header,
                dtype,
                byte_order,
                blob.clone(),
                array.header.length,
            )?;
            pieces.push(Piece { run: array.member.decoded, blob });
        }
        // The distance from the start of the row elements to the start of the column elements.
        let distance = row
            .member
            .decoded
            .checked_sub(row.header.length)
            .and_then(|rest| rest.checked_add(col.header.length));
        let Some(distance) = distance else { return Ok(false) };
        let view = Strided { start: row.header.length, run: bytes, loops: Box::new([(2, distance)]) };
        let data = Pieces::data(1, pieces)?;
        let coords = Component {
            byte_order,
            view: View::Strided(Box::new(view)),
            ..Component::new(Label::COORDS, Some(dtype), data)
        };
        components.push(coords);
        tensor(builder, ARRAY, &self.shape, Layout::SparseCoo, components, None)
    }

    /// Adds a matrix with a layout that only `scipy` has, by its arrays.
    fn parts(&self, builder: &mut Builder, format: &str, names: &[&str]) -> Result<bool> {
        let mut components = Vec::new();
        for &name in names {
            let role = builder.intern(name);
            let array = find(self.arrays, name);
            let Some(part) = array.map(|array| component(builder, array, role)).transpose()?.flatten() else {
                return Ok(false);
            };
            components.push(part);
        }
        let layout = format!("scipy.{format}/1");
        let message = format!("{layout:?} is not supported: only its components can be read");
        builder.warn("ZT_WARN_UNKNOWN_LAYOUT", message, Some(ARRAY), None);
        let dims = find(self.arrays, "data").map(|data| &*data.header.shape);
        let blocks = match dims {
            Some(&[_, rows, columns]) if format == "bsr" => {
                let sizes = [rows, columns].map(Value::from).to_vec();
                Some(vec![(Value::from("blocksize"), Value::Array(sizes))].into())
            }
            _ => None,
        };
        let layout = Layout::Other(builder.intern(&layout));
        tensor(builder, ARRAY, &self.shape, layout, components, blocks)
    }

    /// Returns one-dimensional arrays, or `None` if one is missing or not one-dimensional.
    fn vectors(&self, builder: &mut Builder, roles: &[(&str, Label)]) -> Result<Option<Vec<Component>>> {
        let mut components = Vec::new();
        for &(name, role) in roles {
            let array = find(self.arrays, name).filter(|array| array.header.shape.len() == 1);
            let Some(part) = array.map(|array| component(builder, array, role)).transpose()?.flatten() else {
                return Ok(None);
            };
            components.push(part);
        }
        Ok(Some(components))
    }
}

/// Adds the matrix.
fn tensor(
    builder: &mut Builder,
    name: &str,
    shape: &[u64],
    layout: Layout,
    components: Vec<Component>,
    attributes: Option<Attributes>,
) -> Result<bool> {
    let values = components.iter().find(|part| part.role == Label::VALUES);
    let dtype = values.and_then(|values| values.dtype);
    let mut tensor = NewTensor { name, shape, layout, dtype, components, attributes };
    layouts::check(&mut tensor)?;
    builder.add_tensor(tensor)?;
    Ok(true)
}

/// The name of a matrix that is stored by columns.
const TRANSPOSED: &str = "arr_0.T";

fn component(builder: &mut Builder, array: &Array, role: Label) -> Result<Option<Component>> {
    let Elements::Of(dtype, order) = array.header.elements else { return Ok(None) };
    let blob = array.member.blob(builder);
    array::component(role, &array.header, dtype, order, blob, array.header.length).map(Some)
}

/// Returns the bytes of a small array, or `None` if it is not small.
fn small(array: &Array, input: &Input<'_>) -> Result<Option<Vec<u8>>> {
    if array.member.decoded > SMALL {
        return Ok(None);
    }
    let mut bytes = array.member.read(input, SMALL)?;
    let header = usize::try_from(array.header.length).unwrap_or(usize::MAX).min(bytes.len());
    bytes.drain(..header);
    Ok(Some(bytes))
}

/// Returns an ASCII string: bytes, or 4-byte characters, whose order is derived from the zeros.
fn word(array: &Array, input: &Input<'_>) -> Result<Option<String>> {
    let is_text = match &array.header.elements {
        Elements::Other(text, _) => text.trim_start_matches(['<', '>', '|', '=']).starts_with(['S', 'U']),
        Elements::Of(..) => false,
    };
    if !is_text {
        return Ok(None);
    }
    let letters = |bytes: Vec<u8>| bytes.into_iter().filter(|&byte| byte != 0).map(char::from).collect();
    Ok(small(array, input)?.map(letters))
}

/// Returns whether an array is the number 0.
fn is_zero(array: &Array, input: &Input<'_>) -> Result<bool> {
    let is_number = matches!(array.header.elements, Elements::Of(..)) && array.header.shape.is_empty();
    Ok(is_number && small(array, input)?.is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0)))
}

/// Returns the numbers of a small array of integers.
fn numbers(array: &Array, input: &Input<'_>) -> Result<Option<Vec<u64>>> {
    let Elements::Of(dtype, order) = array.header.elements else { return Ok(None) };
    let width = match dtype {
        DType::Int64 | DType::Uint64 => 8,
        DType::Int32 | DType::Uint32 => 4,
        _ => return Ok(None),
    };
    let Some(bytes) = small(array, input)? else { return Ok(None) };
    let number = |bytes: &[u8]| {
        let little = bytes.iter().rev().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
        let big = bytes.iter().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
        if order == ztensor_core::model::ByteOrder::Little { little } else { big }
    };
    Ok(Some(bytes.chunks_exact(width).map(number).collect()))
}
