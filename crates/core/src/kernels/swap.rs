//! Byte order and signs.
#![forbid(unsafe_code)]

use crate::model::Signs;

/// Reverses the bytes of each `width`-byte scalar in place. Widths are 2, 4 and 8; any other width changes nothing.
/// Complex numbers are swapped by parts ([`DType::element_bytes`](crate::model::DType::element_bytes)). Bytes after the
/// last whole scalar are unchanged.
pub fn swap_bytes(bytes: &mut [u8], width: usize) {
    match width {
        2 => bytes
            .as_chunks_mut()
            .0
            .iter_mut()
            .for_each(|b| *b = u16::from_ne_bytes(*b).swap_bytes().to_ne_bytes()),
        4 => bytes
            .as_chunks_mut()
            .0
            .iter_mut()
            .for_each(|b| *b = u32::from_ne_bytes(*b).swap_bytes().to_ne_bytes()),
        8 => bytes
            .as_chunks_mut()
            .0
            .iter_mut()
            .for_each(|b| *b = u64::from_ne_bytes(*b).swap_bytes().to_ne_bytes()),
        _ => {}
    }
}

/// Changes the signs of little-endian floats of `width` bytes; a complex number has two.
pub fn change_signs(bytes: &mut [u8], width: usize, is_complex: bool, signs: Signs) {
    for (nth, part) in bytes.chunks_exact_mut(width.max(1)).enumerate() {
        let changed = if is_complex && nth % 2 == 1 { signs.imaginary } else { signs.real };
        if let Some(top) = part.last_mut().filter(|_| changed) {
            *top ^= 0x80;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::swap_bytes;

    #[test]
    fn scalars_are_reversed_and_remainders_unchanged() {
        for width in [2, 4, 8] {
            for length in [0, 1, width, 5 * width, 67 * width + 1] {
                let before: Vec<u8> = (0..=255).cycle().take(length).collect();
                let mut after = before.clone();
                swap_bytes(&mut after, width);
                let whole = length / width * width;
                let mut expected: Vec<u8> =
                    before[..whole].chunks(width).flat_map(|scalar| scalar.iter().rev().copied()).collect();
                expected.extend(&before[whole..]);
                assert_eq!(after, expected, "width {width}, {length} bytes");
            }
        }
    }

    #[test]
    fn other_widths_change_nothing() {
        for width in [0, 1, 3, 16] {
            let mut bytes = *b"0123456789abcdef";
            swap_bytes(&mut bytes, width);
            assert_eq!(&bytes, b"0123456789abcdef", "width {width}");
        }
    }
}
