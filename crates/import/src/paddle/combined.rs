//! The combined parameters of an inference model, written consecutively by `save_combine`. The file does not store their names: they are
//! sorted by name, and the names are in the accompanying program.
//!
//! A parameter consists of a version (u32), the levels of its LoD (u64, each a length and its bytes), a version (u32), the length (i32) of
//! a `VarType.TensorDesc`, that message, and the elements. All numbers are little-endian.
#![forbid(unsafe_code)]

use ztensor_core::checked::{bytes_of, product};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::Input;
use ztensor_core::layouts;
use ztensor_core::model::{Builder, Catalog, Component, DType, Label, Layout, NewTensor};
use ztensor_core::sources::ReadAt;
use ztensor_core::work::Stop;

use super::program;
use crate::damage::Damage;
use crate::limits::{PADDLE_DESC_BYTES, PADDLE_INDEX_BYTES, PADDLE_LOD_LEVELS};
use crate::protobuf::{Run, Value, Walker};

const RULE: &str = "Paddle: DenseTensorToStream";
/// Bytes read during detection.
const DETECTION_BYTES: u64 = 64 << 10;

/// A parameter and its position in the file.
pub struct Record {
    pub shape: Vec<u64>,
    /// The dtype, or the number of a type that zTensor does not have.
    dtype: std::result::Result<DType, u64>,
    data: Run,
}

/// Returns whether a file begins with a parameter that ends with the file or is followed by another.
pub fn detect(source: &dyn ReadAt, total: u64) -> Result<bool> {
    let stop = Stop::default();
    let mut walker = Walker::new(source, &stop, DETECTION_BYTES);
    let mut rest = Run { at: 0, end: total };
    for _ in 0..2 {
        match read(&mut walker, &mut rest) {
            Ok(_) => {}
            Err(error) if matches!(error.code(), Code::Io | Code::Aborted) => return Err(error),
            _ => return Ok(false),
        }
        if rest.length() == 0 {
            return Ok(true);
        }
    }
    Ok(true)
}

/// Reads the parameters of a file; `None` if it does not begin with one.
pub fn parse(input: &Input<'_>, mut builder: Builder) -> Result<Option<Catalog>> {
    let max = input.limits.max_index_bytes.unwrap_or(PADDLE_INDEX_BYTES);
    let mut walker = Walker::new(input.source, input.stop, max);
    let mut rest = walker.whole();
    let mut records = Vec::new();
    while rest.length() > 0 {
        match read(&mut walker, &mut rest) {
            Ok(record) => records.push(record),
            // Nothing at the beginning of the file identifies the format.
            Err(error) if records.is_empty() && error.code() == Code::BadIndex => {
                return Ok(None);
            }
            Err(error) => return Err(error.rule(RULE)),
        }
    }
    if records.is_empty() {
        return Ok(None);
    }
    builder.reserve(records.len());
    let names = program::names(input, records.len(), &mut builder)?;
    let mut damage = Damage::default();
    for (nth, record) in records.iter().enumerate() {
        let number = nth.to_string();
        let name = names.get(nth).unwrap_or(&number);
        let added = add(&mut builder, name, record).map_err(|error| error.tensor(name).rule(RULE));
        damage.of_item(&mut builder, added)?;
    }
    damage.finish(builder).map(Some)
}

/// Takes a parameter from a range. Fails with `ZT_TRUNCATED` if the file ends early, and `ZT_BAD_INDEX` if there is no parameter.
fn read(walker: &mut Walker<'_>, rest: &mut Run) -> Result<Record> {
    let start = rest.at;
    let bad = |message: String| Error::new(Code::BadIndex, message).at(start);
    if number(walker, rest, 4)? != 0 {
        return Err(bad(format!("a parameter of version 0 should begin at {start}")));
    }
    let levels = number(walker, rest, 8)?;
    if levels > PADDLE_LOD_LEVELS {
        return Err(bad(format!("a parameter has {levels} levels of details")));
    }
    for _ in 0..levels {
        let length = number(walker, rest, 8)?;
        take(rest, length)?;
    }
    if number(walker, rest, 4)? != 0 {
        return Err(bad("a tensor does not have version 0".to_owned()));
    }
    let length = number(walker, rest, 4)?;
    if length > PADDLE_DESC_BYTES {
        return Err(bad(format!("the description of a tensor has {length} bytes")));
    }
    let mut message = take(rest, length)?;
    let (mut kind, mut shape) = (None, Vec::new());
    while let Some(field) = walker.next(&mut message)? {
        match (field.number, field.value) {
            (1, Value::Varint(number)) if kind.is_none() => kind = Some(number),
            (2, Value::Varint(dim)) => shape.push(dim),
            (2, Value::Bytes(mut packed)) => {
                while packed.length() > 0 {
                    shape.push(walker.varint(&mut packed)?);
                }
            }
            _ => return Err(bad("the description of a tensor has an unexpected field".to_owned())),
        }
    }
    let kind = kind.ok_or_else(|| bad("the description of a tensor has no type".to_owned()))?;
    let (dtype, width) = match dtype_of(kind) {
        Some(dtype) => (Ok(dtype), dtype.bits()),
        // SIZE_T
        None if kind == 19 => (Err(kind), 64),
        None => return Err(bad(format!("{kind} is not an element type"))),
    };
    let bytes = product(&shape).and_then(|elements| bytes_of(elements, width));
    let bytes = bytes.ok_or_else(|| bad(format!("the shape {shape:?} needs more than 2^64 bytes")))?;
    Ok(Record { shape, dtype, data: take(rest, bytes)? })
}

fn add(builder: &mut Builder, name: &str, record: &Record) -> Result<()> {
    let dtype = record.dtype.ok();
    if let Err(kind) = record.dtype {
        let message = format!("the Paddle type {kind} has no zTensor dtype; the bytes can be read");
        builder.warn("ZT_WARN_UNKNOWN_TYPE", message, Some(name), None);
    }
    let mut components = builder.no_components();
    components.push(Component::raw(Label::DATA, dtype, record.data.at, record.data.length()));
    let (layout, shape) = (Layout::Dense, &*record.shape);
    let mut tensor = NewTensor { name, shape, layout, dtype, components, attributes: None };
    layouts::check(&mut tensor)?;
    builder.add_tensor(tensor)
}

fn number(walker: &mut Walker<'_>, rest: &mut Run, width: u64) -> Result<u64> {
    let bytes = walker.bytes(take(rest, width)?)?;
    Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn take(rest: &mut Run, length: u64) -> Result<Run> {
    rest.take(length).ok_or_else(|| {
        let message = format!("{length} bytes are needed at {}, but {} follow", rest.at, rest.length());
        Error::new(Code::Truncated, message).at(rest.at)
    })
}

/// `VarType.Type`.
fn dtype_of(kind: u64) -> Option<DType> {
    Some(match kind {
        0 => DType::Bool,
        1 => DType::Int16,
        2 => DType::Int32,
        3 => DType::Int64,
        4 => DType::Float16,
        5 => DType::Float32,
        6 => DType::Float64,
        20 => DType::Uint8,
        21 => DType::Int8,
        22 => DType::BFloat16,
        23 => DType::Complex64,
        24 => DType::Complex128,
        32 => DType::Float8E4M3Fn,
        33 => DType::Float8E5M2,
        36 => DType::Uint16,
        37 => DType::Uint32,
        38 => DType::Uint64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A parameter of two floats.
    const ONE: [u8; 32] = [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 8, 5, 16, 2, 0, 0, 0x80, 0x3f, 0, 0, 0, 0,
    ];

    #[test]
    fn files_are_detected_by_their_first_one_or_two_parameters() {
        let detects = |bytes: &[u8]| detect(&bytes, bytes.len() as u64).unwrap();
        assert!(detects(&ONE));
        assert!(detects(&[ONE, ONE].concat()));
        assert!(!detects(&[&ONE[..], &[1]].concat()));
        assert!(!detects(&[0; 64]));
        assert!(!detects(&ONE[..31]));
    }
}
