//! Bitmaps of booleans, the first element in the lowest bit: decoded to a byte each.
#![forbid(unsafe_code)]

use super::frames::Size;
use crate::error::{Code, Error, Result};

/// Decodes to new memory. If the size is unknown, each byte yields 8 elements.
pub fn decode(input: &[u8], size: Size) -> Result<Vec<u8>> {
    let all = (input.len() as u64).saturating_mul(8);
    let length = match size {
        Size::Exactly(length) => length,
        Size::UpTo(max) if all > max => {
            return Err(Error::new(Code::Limit, format!("{all} booleans are more than {max} bytes")));
        }
        Size::UpTo(_) => all,
    };
    if length > all {
        return Err(short(all, length));
    }
    let refused = || Error::new(Code::Limit, "not enough memory to decode");
    let length = usize::try_from(length).map_err(|_| refused())?;
    let mut output = Vec::new();
    output.try_reserve_exact(length).map_err(|_| refused())?;
    output.resize(length, 0);
    decode_into(input, &mut output)?;
    Ok(output)
}

/// Decodes into memory that must be filled completely.
pub fn decode_into(input: &[u8], output: &mut [u8]) -> Result<()> {
    if input.len() < output.len().div_ceil(8) {
        return Err(short(input.len() as u64 * 8, output.len() as u64));
    }
    for (elements, byte) in output.chunks_mut(8).zip(input) {
        elements.iter_mut().zip(0..).for_each(|(element, bit)| *element = byte >> bit & 1);
    }
    Ok(())
}

fn short(found: u64, wanted: u64) -> Error {
    Error::new(Code::Decode, format!("a bit map has {found} bits, not {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_element_is_in_the_lowest_bit() {
        assert_eq!(decode(&[0b101, 0b10], Size::Exactly(11)).unwrap(), [1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(decode(&[0xff], Size::UpTo(8)).unwrap(), [1; 8]);
        assert_eq!(decode(&[0xff], Size::UpTo(7)).unwrap_err().code(), Code::Limit);
        assert_eq!(decode(&[0xff], Size::Exactly(9)).unwrap_err().code(), Code::Decode);
        assert_eq!(decode_into(&[], &mut [0]).unwrap_err().code(), Code::Decode);
        assert!(decode(&[], Size::Exactly(0)).unwrap().is_empty());
    }
}
