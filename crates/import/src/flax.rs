//! Flax' checkpoints: what `flax.serialization` writes of trees of arrays, in MessagePack. Arrays are extensions, large ones maps of
//! several. `flax/serialization.py` is all the specification that there is.
#![forbid(unsafe_code)]

mod array;
mod chunked;
mod plain;
mod tree;

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{Confidence, Format, Input, Probe, bad_magic};
use ztensor_core::model::{Builder, Catalog, Container};
use ztensor_core::work::Stop;

use crate::limits::FLAX_INDEX_BYTES;
use crate::msgpack::{Reader, Token};
use array::Array;
use tree::Tree;

const NAME: &str = "flax";
const RULE: &str = "flax.serialization: msgpack_serialize";
const LACKS: &str = "no MessagePack with arrays of Flax";
/// Tokens of a file that are looked at to tell it: an array comes before that.
const TOLD_BY: u32 = 4096;
/// Bytes of them.
const TOLD_BYTES: u64 = 1 << 20;

pub const FORMAT: Format =
    Format { name: NAME, title: "Flax", endings: &["msgpack"], lacks: LACKS, detect, parse, writes: &[] };

/// MessagePack has no magic, and any byte but one begins a value: the file is one where it begins with a map, or is an extension, and
/// an array of Flax is found in it, whose shape and type come to just the bytes that it has.
fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    let stop = Stop::default();
    let mut reader = Reader::new(probe, &stop, TOLD_BYTES);
    let mut rest = reader.whole();
    for nth in 0..TOLD_BY {
        let found = match reader.next(&mut rest) {
            Ok(Token::Extension(kind, body)) => {
                // One of the file's own would leave nothing behind it.
                let fits = nth > 0 || rest.length() == 0;
                Array::is_kind(kind) && fits && Array::read(&mut reader, body)?.is_some()
            }
            Ok(Token::Map(1..)) => false,
            Ok(_) if nth > 0 => false,
            Err(error) if matches!(error.code(), Code::Io | Code::Aborted) => return Err(error),
            // A file that was cut off in its first array.
            Err(error) if error.code() == Code::Truncated && array::is_truncated(&mut reader, rest)? => true,
            Ok(_) | Err(_) => break,
        };
        if found {
            return Ok(Confidence::Likely);
        }
        if rest.length() == 0 {
            break;
        }
    }
    Ok(Confidence::No)
}

fn parse(input: &Input<'_>) -> Result<Catalog> {
    let most = input.limits.max_index_bytes.unwrap_or(FLAX_INDEX_BYTES);
    let mut reader = Reader::new(input.source, input.stop, most);
    let mut rest = reader.whole();
    let mut root = rest;
    let begins = reader.next(&mut root).map_err(|error| {
        if root.at == 0 && error.code() == Code::BadIndex { bad_magic(LACKS) } else { error }
    })?;
    if !matches!(begins, Token::Map(_) | Token::Array(_) | Token::Extension(..)) {
        return Err(bad_magic(LACKS));
    }
    let mut tree = Tree::new(reader, Builder::new(Container::named(NAME), input.limits));
    tree.read(&mut rest)?;
    if rest.length() > 0 {
        let message = format!("{} bytes follow the values", rest.length());
        return Err(Error::new(Code::BadIndex, message).at(rest.at).rule(RULE));
    }
    Ok(tree.finish())
}
