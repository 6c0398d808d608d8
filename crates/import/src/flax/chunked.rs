//! Arrays above 1 GiB: a map with the chunks of the flattened array, each of them an array (`_chunk`).
#![forbid(unsafe_code)]

use ztensor_core::arrange::Arrange;
use ztensor_core::checked::product;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::model::{Blob, ByteOrder, DType, Data, Piece};

use super::array::{Array, RULE};
use crate::msgpack::{Reader, Run, Token};

/// The key that marks a map as a chunked array.
pub const MARKER: &str = "__msgpack_chunked_array__";
/// A limit above any allowed rank.
const DIMS: u64 = 1024;
/// Bytes of its longest key, and of a chunk number.
const KEY: u64 = 25;

/// A chunked array.
pub struct Chunked {
    pub shape: Vec<u64>,
    pub spelling: String,
    pub dtype: Option<DType>,
    pub byte_order: ByteOrder,
    pub data: Data,
}

/// Reads the entries of a map that has the key [`MARKER`]. Fails with `ZT_BAD_INDEX` if chunks are missing or have different types, and
/// with `ZT_BAD_SHAPE` if they do not match the shape.
pub fn read(reader: &mut Reader<'_>, entries: u64, rest: &mut Run) -> Result<Chunked> {
    let start = rest.at;
    let (mut shape, mut chunks) = (None, None);
    for _ in 0..entries {
        let Token::Text(key) = reader.next(rest)? else {
            return Err(malformed("a key is not a string", start));
        };
        let key = reader.text(key, KEY, "a key of a chunked array")?.to_owned();
        match (&*key, reader.next(rest)?) {
            (MARKER, Token::Bool(_)) => {}
            ("shape", Token::Map(dims @ ..=DIMS)) if shape.is_none() => {
                shape = Some(numbered(reader, dims, rest, |_, token| match token {
                    Token::Int(dim) => Ok(u64::try_from(dim).ok()),
                    _ => Ok(None),
                })?);
            }
            ("chunks", Token::Map(count)) if chunks.is_none() => {
                chunks = Some(numbered(reader, count, rest, |reader, token| match token {
                    Token::Extension(kind, body) if Array::is_kind(kind) => Array::of(reader, body).map(Some),
                    _ => Ok(None),
                })?);
            }
            _ => return Err(malformed("it has keys other than its shape and its chunks", start)),
        }
    }
    let (Some(shape), Some(chunks)) = (shape, chunks) else {
        return Err(malformed("its shape or its chunks are missing", start));
    };
    assemble(shape, &chunks, start)
}

/// Returns the values of a map whose keys are the numbers from 0 on, in any order.
fn numbered<T>(
    reader: &mut Reader<'_>,
    count: u64,
    rest: &mut Run,
    read: impl Fn(&mut Reader<'_>, Token) -> Result<Option<T>>,
) -> Result<Vec<T>> {
    let start = rest.at;
    let mut values = Vec::new();
    for _ in 0..count {
        let Token::Text(key) = reader.next(rest)? else {
            return Err(malformed("a key is not a string", start));
        };
        let number = reader.text(key, KEY, "the number of a chunk")?;
        let number = number.parse::<u64>().ok().filter(|nth| *nth < count && nth.to_string() == number);
        let token = reader.next(rest)?;
        let value = read(reader, token)?;
        let (Some(number), Some(value)) = (number, value) else {
            return Err(malformed("its parts are not numbered from 0 on", start));
        };
        values.push((number, value));
    }
    values.arrange_by_key(|(number, _)| *number);
    if values.iter().zip(0..).any(|((number, _), nth)| *number != nth) {
        return Err(malformed("its parts are not numbered from 0 on", start));
    }
    Ok(values.into_iter().map(|(_, value)| value).collect())
}

fn assemble(shape: Vec<u64>, chunks: &[Array], start: u64) -> Result<Chunked> {
    let Some(Array { spelling, dtype, byte_order, .. }) = chunks.first().cloned() else {
        return Err(malformed("it has no chunks", start));
    };
    let mut elements = 0_u64;
    let mut pieces = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let [count] = *chunk.shape else { return Err(malformed("a chunk is not flat", chunk.data.at)) };
        if chunk.spelling != spelling {
            return Err(malformed("its chunks have different types", chunk.data.at));
        }
        elements = elements.saturating_add(count);
        let run = chunk.data.length();
        pieces.push(Piece { blob: Blob::raw(chunk.data.at, run), run });
    }
    if product(&shape) != Some(elements) {
        let message =
            format!("the chunks have {elements} elements in total, which does not match the shape {shape:?}");
        return Err(Error::new(Code::BadShape, message).at(start).rule(RULE));
    }
    Ok(Chunked { shape, spelling, dtype, byte_order, data: Data::pieces(1, pieces)? })
}

fn malformed(why: &str, at: u64) -> Error {
    Error::new(Code::BadIndex, format!("a chunked array is malformed: {why}")).at(at).rule(RULE)
}
