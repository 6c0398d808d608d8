//! Elements smaller than a byte, packed from the low bits of each byte up.
#![forbid(unsafe_code)]

/// Returns the bytes of `elements` elements of `bits` bits, with the last byte padded. `None` if it exceeds u64.
pub(super) fn byte_length(elements: u64, bits: u32) -> Option<u64> {
    u64::try_from((u128::from(elements) * u128::from(bits)).div_ceil(8)).ok()
}

/// Returns the minimum number of elements of `bits` bits that fill `bytes` bytes.
pub(super) fn fewest_elements(bytes: usize, bits: u32) -> usize {
    let before_last = (bytes as u128).saturating_sub(1) * 8;
    usize::try_from(before_last / u128::from(bits))
        .unwrap_or(usize::MAX)
        .saturating_add(usize::from(bytes > 0))
}

/// Returns the element at `position` of elements smaller than 8 bits. `None` past the end.
pub(super) fn get(bytes: &[u8], position: u64, bits: u32) -> Option<u8> {
    let (byte, shift, mask) = locate(position, bits)?;
    let low = *bytes.get(byte)?;
    // An element may span two bytes; the last one does not need the next byte.
    let high = bytes.get(byte + 1).copied().unwrap_or(0);
    let [element, _] = (u16::from_le_bytes([low, high]) >> shift & mask).to_le_bytes();
    Some(element)
}

/// Writes the element at `position`, whose bits must be zero. `None` past the end.
pub(super) fn set(bytes: &mut [u8], position: u64, bits: u32, element: u8) -> Option<()> {
    let (byte, shift, mask) = locate(position, bits)?;
    let [low, high] = ((u16::from(element) & mask) << shift).to_le_bytes();
    *bytes.get_mut(byte)? |= low;
    if high != 0 {
        *bytes.get_mut(byte + 1)? |= high;
    }
    Some(())
}

fn locate(position: u64, bits: u32) -> Option<(usize, u32, u16)> {
    let bit = position.checked_mul(bits.into())?;
    let shift = u32::try_from(bit % 8).ok()?;
    Some((usize::try_from(bit / 8).ok()?, shift, (1 << bits) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_packed_from_the_low_bits_up() {
        let mut nibbles = [0; 2];
        for (position, element) in (0..).zip([1, 2, 15]) {
            set(&mut nibbles, position, 4, element).unwrap();
        }
        assert_eq!(nibbles, [0x21, 0x0f]);
        assert_eq!(
            [get(&nibbles, 2, 4), get(&nibbles, 3, 4), get(&nibbles, 4, 4)],
            [Some(15), Some(0), None]
        );

        let mut sixes = [0; 3];
        let elements = [0b00_0001, 0b10_0010, 0b11_1111, 0b10_0000];
        for (position, element) in (0..).zip(elements) {
            set(&mut sixes, position, 6, element).unwrap();
        }
        assert_eq!(u32::from_le_bytes([sixes[0], sixes[1], sixes[2], 0]), 0b1000_0011_1111_1000_1000_0001);
        for (position, element) in (0..).zip(elements) {
            assert_eq!(get(&sixes, position, 6), Some(element));
        }
        assert_eq!(set(&mut sixes, 4, 6, 1), None);
        assert_eq!(get(&sixes, u64::MAX, 6), None);
    }

    #[test]
    fn lengths_round_up() {
        assert_eq!([byte_length(3, 4), byte_length(3, 6), byte_length(3, 16)], [Some(2), Some(3), Some(6)]);
        assert_eq!([byte_length(u64::MAX, 8), byte_length(u64::MAX, 16)], [Some(u64::MAX), None]);
        for (bytes, bits, elements) in
            [(0, 4, 0), (1, 4, 1), (2, 4, 3), (1, 6, 1), (3, 6, 3), (12, 32, 3), (3, 8, 3)]
        {
            assert_eq!(fewest_elements(bytes, bits), elements, "{bytes} bytes of {bits} bits");
        }
    }
}
