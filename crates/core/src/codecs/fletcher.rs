//! HDF5's filter fletcher32: the data is followed by four bytes, its Fletcher checksum over 16-bit words.
#![forbid(unsafe_code)]

use super::frames::Size;
use crate::error::{Code, Error, Result};

/// Bytes of the checksum.
pub const BYTES: u64 = 4;

/// Returns the data, after verifying its checksum.
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
    let (data, stored) = input
        .split_last_chunk::<4>()
        .ok_or_else(|| Error::new(Code::Decode, "a fletcher32 checksum is truncated"))?;
    let stored = u32::from_le_bytes(*stored);
    let sum = sum(data);
    // Version 1.6.2 of the library swapped the bytes of each half on little-endian machines.
    let swapped = sum.swap_bytes().rotate_left(16);
    if ![sum, swapped].contains(&stored) {
        let message = format!("the fletcher32 checksum is {sum:08x}, but the file states {stored:08x}");
        return Err(Error::new(Code::DigestMismatch, message));
    }
    Ok(data)
}

/// Returns the checksum of bytes.
pub fn sum(bytes: &[u8]) -> u32 {
    /// Words after which the sums still fit 32 bits.
    const WORDS: usize = 360;
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let (mut first, mut second) = (0_u32, 0_u32);
    let (words, rest) = bytes.as_chunks::<2>();
    for words in words.chunks(WORDS) {
        for word in words {
            first += u32::from(u16::from_be_bytes(*word));
            second += first;
        }
        (first, second) = (fold(first), fold(second));
    }
    if let [last] = rest {
        first += u32::from(*last) << 8;
        second += first;
        (first, second) = (fold(first), fold(second));
    }
    fold(second) << 16 | fold(first)
}

fn other_size(length: u64) -> Error {
    Error::new(Code::Decode, format!("{length} bytes precede a checksum, which is not the expected number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the definition: sums of words modulo 65535.
    fn slow(bytes: &[u8]) -> u32 {
        let (mut first, mut second) = (0_u64, 0_u64);
        for word in bytes.chunks(2) {
            first =
                (first + (u64::from(word[0]) << 8) + u64::from(word.get(1).copied().unwrap_or(0))) % 65535;
            second = (second + first) % 65535;
        }
        u32::try_from(second << 16 | first).unwrap()
    }

    #[test]
    fn sums_match_the_definition() {
        for length in [0, 1, 2, 7, 719, 720, 721, 5000] {
            for factor in [1, 77, 255] {
                let bytes: Vec<u8> = (0..length).map(|at| u8::try_from(at * factor % 256).unwrap()).collect();
                // 65535 and 0 are equal modulo 65535, and the folds may produce either.
                let halves = |sum: u32| [sum >> 16, sum & 0xffff].map(|half| half % 65535);
                assert_eq!(halves(sum(&bytes)), halves(slow(&bytes)), "{length} {factor}");
            }
        }
    }

    #[test]
    fn both_byte_orders_of_a_checksum_are_accepted() {
        let data = b"some words of data";
        let stored = sum(data).to_le_bytes();
        let [a, b, c, d] = stored;
        for stored in [[a, b, c, d], [b, a, d, c]] {
            let input = [&data[..], &stored].concat();
            assert_eq!(decode(&input, Size::Exactly(data.len() as u64)).unwrap(), data);
            let mut output = vec![0; data.len()];
            decode_into(&input, &mut output).unwrap();
            assert_eq!(output, data);
            assert!(decode_into(&input, &mut output[1..]).is_err());
            assert!(decode(&input, Size::Exactly(1)).is_err());
            assert!(decode(&input, Size::UpTo(3)).is_err());
            for max in [data.len() as u64, 1000] {
                assert_eq!(decode(&input, Size::UpTo(max)).unwrap(), data);
            }
        }
        let wrong = [&data[..], &[d, c, b, a]].concat();
        assert_eq!(decode(&wrong, Size::UpTo(100)).unwrap_err().code(), Code::DigestMismatch);
        assert_eq!(decode(b"abc", Size::UpTo(100)).unwrap_err().code(), Code::Decode);
    }
}
