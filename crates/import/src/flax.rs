//! Flax checkpoints: trees of arrays written by `flax.serialization` in MessagePack. Arrays are extensions; large arrays are maps of
//! several extensions. `flax/serialization.py` is the only specification.
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
use array::RULE;
use tree::Tree;

const NAME: &str = "flax";
const MISSING: &str = "no MessagePack with arrays of Flax";
/// Tokens read during detection: an array must occur among them.
const DETECTION_TOKENS: u32 = 4096;
/// Bytes read during detection.
const DETECTION_BYTES: u64 = 1 << 20;

pub const FORMAT: Format = Format {
    name: NAME,
    title: "Flax",
    endings: &["msgpack"],
    missing: MISSING,
    detect,
    parse,
    writes: &[],
    header: None,
};

/// MessagePack has no magic, and any byte but one begins a value. A file is accepted if it begins with a map or an extension and contains a
/// Flax array whose shape and type match its number of bytes.
fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    let stop = Stop::default();
    let mut reader = Reader::new(probe, &stop, DETECTION_BYTES);
    let mut rest = reader.whole();
    for nth in 0..DETECTION_TOKENS {
        let found = match reader.next(&mut rest) {
            Ok(Token::Extension(kind, body)) => {
                // An array that is the whole file leaves nothing after it.
                let fits = nth > 0 || rest.length() == 0;
                Array::is_kind(kind) && fits && Array::read(&mut reader, body)?.is_some()
            }
            Ok(Token::Map(1..)) => false,
            Ok(_) if nth > 0 => false,
            Err(error) if matches!(error.code(), Code::Io | Code::Aborted) => return Err(error),
            // The file is truncated within its first array.
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
    let max = input.limits.max_index_bytes.unwrap_or(FLAX_INDEX_BYTES);
    let mut reader = Reader::new(input.source, input.stop, max);
    let mut rest = reader.whole();
    let mut root = rest;
    let begins = reader.next(&mut root).map_err(|error| {
        if root.at == 0 && error.code() == Code::BadIndex { bad_magic(MISSING) } else { error }
    })?;
    if !matches!(begins, Token::Map(_) | Token::Array(_) | Token::Extension(..)) {
        return Err(bad_magic(MISSING));
    }
    let mut tree = Tree::new(reader, Builder::new(Container::named(NAME), input.limits));
    tree.read(&mut rest)?;
    if rest.length() > 0 {
        let message = format!("{} bytes follow the values", rest.length());
        return Err(Error::new(Code::BadIndex, message).at(rest.at).rule(RULE));
    }
    Ok(tree.finish())
}
