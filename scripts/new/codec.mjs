// A new codec: one that stores its input after a checksum of one byte. It decodes, and rejects damaged input.
import { RESERVED } from './reserved.mjs'

const module = (name) => `//! The codec ${name}: a byte with the sum of the data, then the data.
#![forbid(unsafe_code)]

use super::frames::Size;
use crate::error::{Code, Error, Result};

/// Decodes to new memory.
pub fn decode(input: &[u8], size: Size) -> Result<Vec<u8>> {
    let data = checked(input)?;
    let length = data.len() as u64;
    match size {
        Size::Exactly(wanted) if wanted != length => Err(other_size(length)),
        Size::UpTo(max) if max < length => Err(other_size(length)),
        _ => Ok(data.to_vec()),
    }
}

/// Decodes into memory of the exact size.
pub fn decode_into(input: &[u8], output: &mut [u8]) -> Result<()> {
    let data = checked(input)?;
    if data.len() != output.len() {
        return Err(other_size(data.len() as u64));
    }
    output.copy_from_slice(data);
    Ok(())
}

fn checked(input: &[u8]) -> Result<&[u8]> {
    let (sum, data) =
        input.split_first().ok_or_else(|| Error::new(Code::Decode, "data of ${name} is truncated"))?;
    if data.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)) != *sum {
        return Err(Error::new(Code::Decode, "data of ${name} is damaged"));
    }
    Ok(data)
}

fn other_size(length: u64) -> Error {
    Error::new(Code::Decode, format!("data of ${name} decodes to {length} bytes, which the index does not state"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_decoding_agree() {
        for (input, data) in [(&[6, 1, 2, 3][..], Some(&[1, 2, 3][..])), (&[7, 1, 2, 3], None), (&[], None)] {
            assert_eq!(decode(input, Size::Exactly(3)).ok().as_deref(), data);
            let mut output = [0; 3];
            assert_eq!(decode_into(input, &mut output).ok().map(|()| &output[..]), data);
        }
        assert!(decode(&[6, 1, 2, 3], Size::UpTo(2)).is_err());
    }
}
`

const row = (name) => `    Codec {
        name: "${name}",
        decode: |input, _, size, _| ${name}::decode(input, size),
        fill: |input, _, output, _| ${name}::decode_into(input, output),
        adds: Some(1),
    },
`

/** The files that a codec named `name` creates and changes. Throws if the name cannot be used. */
export function codec(_root, name) {
  if (!/^[a-z][a-z0-9]{1,15}$/.test(name))
    throw new Error(`a codec is named like "lzf": 2 to 16 lowercase letters and digits, got ${JSON.stringify(name)}`)
  if (RESERVED.has(name)) throw new Error(`${name} cannot name a module: Rust reserves it`)
  return {
    created: { [`crates/core/src/codecs/${name}.rs`]: module(name) },
    changed: [
      ['crates/core/src/codecs.rs', /^pub mod bits;$/m, (line) => `pub mod ${name};\n${line}`],
      ['crates/core/src/codecs.rs', /^const CODECS: &\[Codec\] = &\[\n/m, (line) => `${line}${row(name)}`],
    ],
    next: `  npm run format                                # rustfmt
  cargo test -p ztensor-core codecs::${name}     # its tests
Then replace its rules, add vectors to crates/core/tests/all/codecs.rs, and name it in the format that uses it.`,
  }
}
