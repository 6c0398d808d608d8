//! Partitioned variables: a tensor whose slices are stored under separate keys. The keys follow `EncodeTensorNameSlice` of
//! `saved_tensor_slice_util.cc`, in the ordered code of `ordered_code.cc`.
#![forbid(unsafe_code)]

use ztensor_core::arrange::Arrange;
use ztensor_core::checked::product;

use super::bundle::Slice;

/// The length of a full extent.
const FULL: i64 = -1;

/// Returns the key of a slice of a tensor. Such keys sort before all names.
pub fn key(name: &str, slice: &Slice) -> Vec<u8> {
    let mut key = Vec::new();
    push_number(&mut key, 0);
    for &byte in name.as_bytes() {
        match byte {
            0 => key.extend([0, 0xff]),
            0xff => key.extend([0xff, 0]),
            byte => key.push(byte),
        }
    }
    key.extend([0, 1]);
    push_number(&mut key, slice.len() as u64);
    for &(start, length) in slice {
        push_signed(&mut key, start.cast_signed());
        push_signed(&mut key, length.map_or(FULL, u64::cast_signed));
    }
    key
}

/// Appends an unsigned number: its number of bytes, then the bytes, most significant first.
fn push_number(key: &mut Vec<u8>, number: u64) {
    let bytes = number.to_be_bytes();
    let own = bytes.iter().copied().skip_while(|&byte| byte == 0);
    key.push(u8::try_from(own.clone().count()).unwrap_or_default());
    key.extend(own);
}

/// Appends a signed number, most significant byte first, prefixed with as many one bits as it has bytes. All bits are inverted for negative
/// numbers.
fn push_signed(key: &mut Vec<u8>, number: i64) {
    let magnitude = if number < 0 { !number } else { number }.cast_unsigned();
    let bits = u64::BITS - magnitude.leading_zeros();
    // Each byte holds 7 bits, one of which is the sign.
    let length = bits / 7 + 1;
    // Ten bytes hold any number: the one bits, and 64 bits.
    let spelled = i128::from(number) ^ (((1_i128 << length) - 1) << (7 * length));
    let bytes = spelled.to_be_bytes();
    key.extend(bytes.iter().skip(bytes.len() - length as usize));
}

/// The arrangement of the slices of a tensor.
#[derive(Debug, PartialEq, Eq)]
pub struct TensorSlice {
    /// Number of rows, of which each slice has a range.
    pub rows: u64,
    /// The indices of the slices in row order, and their number of elements per row.
    pub runs: Vec<(usize, u64)>,
}

/// Why slices cannot be assembled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unlike {
    /// They are split along several dimensions.
    Axes,
    /// They have gaps, overlap or extend past the tensor.
    Gaps,
}

/// Returns the shape of a slice, or `None` if the rank does not match.
pub fn shape_of(slice: &Slice, whole: &[u64]) -> Option<Vec<u64>> {
    let lengths = slice.iter().zip(whole).map(|(&(_, length), &dim)| length.unwrap_or(dim));
    (slice.len() == whole.len()).then(|| lengths.collect())
}

/// Arranges the slices of a tensor, all of which have its rank.
pub fn arrange(whole: &[u64], slices: &[Slice]) -> Result<TensorSlice, Unlike> {
    let is_shortened = |axis: usize, dim: u64| {
        slices.iter().any(|slice| {
            slice
                .get(axis)
                .is_none_or(|&(start, length)| start != 0 || length.is_some_and(|length| length != dim))
        })
    };
    let mut divided =
        whole.iter().enumerate().filter(|&(axis, &dim)| is_shortened(axis, dim)).map(|(axis, _)| axis);
    let (axis, others) = (divided.next(), divided.next());
    if others.is_some() {
        return Err(Unlike::Axes);
    }
    let Some(axis) = axis else {
        let elements = product(whole).ok_or(Unlike::Gaps)?;
        return if slices.len() == 1 {
            Ok(TensorSlice { rows: 1, runs: vec![(0, elements)] })
        } else {
            Err(Unlike::Gaps)
        };
    };
    let (before, others) = whole.split_at_checked(axis).ok_or(Unlike::Gaps)?;
    let (&dim, behind) = others.split_first().ok_or(Unlike::Gaps)?;
    let (rows, width) = (product(before).ok_or(Unlike::Gaps)?, product(behind).ok_or(Unlike::Gaps)?);
    let along = |(at, slice): (usize, &Slice)| {
        let &(start, length) = slice.get(axis)?;
        Some((start, length.unwrap_or(dim), at))
    };
    let extents: Option<Vec<_>> = slices.iter().enumerate().map(along).collect();
    let mut extents = extents.ok_or(Unlike::Gaps)?;
    extents.arrange();
    let (mut end, mut runs) = (0_u64, Vec::with_capacity(extents.len()));
    for (start, length, at) in extents {
        if start != end {
            return Err(Unlike::Gaps);
        }
        end = end.checked_add(length).ok_or(Unlike::Gaps)?;
        runs.push((at, length.checked_mul(width).ok_or(Unlike::Gaps)?));
    }
    if end == dim { Ok(TensorSlice { rows, runs }) } else { Err(Unlike::Gaps) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn signed(number: i64) -> Vec<u8> {
        let mut key = Vec::new();
        push_signed(&mut key, number);
        key
    }

    /// From `ordered_code_test.cc` of TensorFlow.
    #[test]
    fn numbers_are_spelled_as_tensorflow_does() {
        for (number, spelled) in [
            (0, &[0x80][..]),
            (63, &[0xbf]),
            (-1, &[0x7f]),
            (-64, &[0x40]),
            (64, &[0xc0, 0x40]),
            (-65, &[0x3f, 0xbf]),
            (8191, &[0xdf, 0xff]),
            (8192, &[0xe0, 0x20, 0]),
            (i64::MAX, &[0xff, 0xc0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            (i64::MIN, &[0, 0x3f, 0x80, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            assert_eq!(signed(number), spelled, "{number}");
        }
        let mut key = Vec::new();
        for number in [0, 1, 255, 256, u64::MAX] {
            push_number(&mut key, number);
        }
        assert_eq!(key, [0, 1, 1, 1, 255, 2, 1, 0, 8, 255, 255, 255, 255, 255, 255, 255, 255]);
    }

    proptest! {
        /// Keys sort like the numbers they encode, which is the purpose of the code.
        #[test]
        fn keys_sort_as_numbers_do(a: i64, b: i64) {
            prop_assert_eq!(signed(a).cmp(&signed(b)), a.cmp(&b));
            let spelled = |number: i64| {
                let mut key = Vec::new();
                push_number(&mut key, number.cast_unsigned());
                key
            };
            prop_assert_eq!(spelled(a).cmp(&spelled(b)), a.cast_unsigned().cmp(&b.cast_unsigned()));
        }

        /// Slices along one dimension are assembled regardless of their order.
        #[test]
        fn parts_make_up_the_whole(
            before in proptest::collection::vec(1_u64..4, 0..3),
            lengths in proptest::collection::vec(1_u64..4, 2..6),
            behind in proptest::collection::vec(0_u64..4, 0..3),
            turn in 0_usize..6,
        ) {
            let dim = lengths.iter().sum();
            let whole = [&*before, &[dim], &*behind].concat();
            let mut slices = Vec::new();
            let mut start = 0;
            for length in &lengths {
                let own = vec![(start, Some(*length))];
                slices.push([vec![(0, None); before.len()], own, vec![(0, None); behind.len()]].concat());
                start += length;
            }
            slices.rotate_left(turn % lengths.len());
            let assembled = arrange(&whole, &slices).unwrap();
            prop_assert_eq!(assembled.rows, before.iter().product::<u64>());
            let width = behind.iter().product::<u64>();
            prop_assert_eq!(assembled.runs.iter().map(|(_, run)| run).sum::<u64>(), dim * width);
            let starts: Vec<u64> = assembled.runs.iter().map(|&(at, _)| slices[at][before.len()].0).collect();
            prop_assert!(starts.is_sorted());
        }
    }

    #[test]
    fn keys_of_parts() {
        let slice = vec![(0, None), (64, Some(2))];
        assert_eq!(key("v", &slice), [0, b'v', 0, 1, 1, 2, 0x80, 0x7f, 0xc0, 0x40, 0x82]);
        assert_eq!(key("\0", &vec![]), [0, 0, 0xff, 0, 1, 0]);
    }

    #[test]
    fn parts_are_arranged_along_one_dimension() {
        let part = |start, length| vec![(0, None), (start, Some(length)), (0, Some(3))];
        let assembled = arrange(&[2, 5, 3], &[part(4, 1), part(0, 4)]).unwrap();
        assert_eq!(assembled, TensorSlice { rows: 2, runs: vec![(1, 12), (0, 3)] });
        assert_eq!(arrange(&[7], &[vec![(0, None)]]).unwrap(), TensorSlice { rows: 1, runs: vec![(0, 7)] });
        assert_eq!(arrange(&[], &[vec![]]).unwrap(), TensorSlice { rows: 1, runs: vec![(0, 1)] });
        for parts in [
            vec![part(0, 4)],
            vec![part(0, 4), part(3, 2)],
            vec![part(1, 4)],
            vec![part(0, 4), part(4, 2)],
            vec![part(0, u64::MAX), part(u64::MAX, 2)],
            vec![part(0, 5), part(0, 5)],
        ] {
            assert_eq!(arrange(&[2, 5, 3], &parts), Err(Unlike::Gaps), "{parts:?}");
        }
        let corners = [vec![(0, Some(1)), (0, Some(1))], vec![(1, Some(1)), (1, Some(1))]];
        assert_eq!(arrange(&[2, 2], &corners), Err(Unlike::Axes));
        assert_eq!(shape_of(&part(1, 2), &[9, 9, 9]), Some(vec![9, 2, 3]));
        assert_eq!(shape_of(&part(1, 2), &[9]), None);
    }
}
