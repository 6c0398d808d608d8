//! Arrays above 1 GiB: a map of the flattened array's chunks, each of them an array (`_chunk`).
#![forbid(unsafe_code)]

use ztensor_core::checked::product;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::model::{Blob, ByteOrder, DType, Data, Piece, Pieces};

use super::RULE;
use super::array::Array;
use crate::msgpack::{Reader, Run, Token};

/// The key that makes a map such an array.
pub const MARKER: &str = "__msgpack_chunked_array__";
/// More dimensions than any limit allows.
const DIMS: u64 = 1024;
/// Bytes of the longest of its keys, and of the number of a chunk.
const KEY: u64 = 25;

/// An array in chunks.
pub struct Chunked {
    pub shape: Vec<u64>,
    pub spelling: String,
    pub dtype: Option<DType>,
    pub byte_order: ByteOrder,
    pub data: Data,
}

/// Reads the entries of a map that has the key [`MARKER`]. Fails with `ZT_BAD_INDEX` where chunks are missing
/// or of several types, `ZT_BAD_SHAPE` where they do not come to the shape.
pub fn read(reader: &mut Reader<'_>, entries: u64, rest: &mut Run) -> Result<Chunked> {
    let start = rest.at;
    let (mut shape, mut chunks) = (None, None);
    for _ in 0..entries {
        let Token::Text(key) = reader.next(rest)? else { return Err(malformed("a key is no text", start)) };
        let key = reader.text(key, KEY, "a key of an array in chunks")?.to_owned();
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
            _ => return Err(malformed("it has keys beside its shape and its chunks", start)),
        }
    }
    let (Some(shape), Some(chunks)) = (shape, chunks) else {
        return Err(malformed("its shape or its chunks are missing", start));
    };
    assemble(shape, &chunks, start)
}

/// The values of a map whose keys are the numbers from 0 on, in any order.
fn numbered<T>(
    reader: &mut Reader<'_>,
    count: u64,
    rest: &mut Run,
    read: impl Fn(&mut Reader<'_>, Token) -> Result<Option<T>>,
) -> Result<Vec<T>> {
    let start = rest.at;
    let mut values = Vec::new();
    for _ in 0..count {
        let Token::Text(key) = reader.next(rest)? else { return Err(malformed("a key is no text", start)) };
        let number = reader.text(key, KEY, "the number of a chunk")?;
        let number = number.parse::<u64>().ok().filter(|nth| *nth < count && nth.to_string() == number);
        let token = reader.next(rest)?;
        let value = read(reader, token)?;
        let (Some(number), Some(value)) = (number, value) else {
            return Err(malformed("its parts are not numbered from 0 on", start));
        };
        values.push((number, value));
    }
    values.sort_by_key(|(number, _)| *number);
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
            return Err(malformed("its chunks are of several types", chunk.data.at));
        }
        elements = elements.saturating_add(count);
        let run = chunk.data.length();
        pieces.push(Piece { blob: Blob::raw(chunk.data.at, run), run });
    }
    if product(&shape) != Some(elements) {
        let message = format!("the chunks have {elements} elements together, the shape is {shape:?}");
        return Err(Error::new(Code::BadShape, message).at(start).rule(RULE));
    }
    Ok(Chunked { shape, spelling, dtype, byte_order, data: Pieces::data(1, pieces)? })
}

fn malformed(why: &str, at: u64) -> Error {
    Error::new(Code::BadIndex, format!("an array in chunks is malformed: {why}")).at(at).rule(RULE)
}
