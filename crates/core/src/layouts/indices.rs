//! Index arrays of sparse tensors, of any integer type.
#![forbid(unsafe_code)]

use crate::error::{Code, Error, Result};
use crate::model::DType;

/// Elements per block of scans: long enough to be vectorized, short enough that rescanning a block with an error costs nothing.
const SCAN_BLOCK: usize = 1024;

/// The number of values that conversions between layouts decode at a time; three such blocks fit in the first-level
/// cache.
pub(super) const DECODE_BLOCK: usize = 512;

/// The number of elements that [`Iter`] decodes at a time.
const ITER_BLOCK: usize = 128;

/// The result of [`Indices::decode`] for a number that is not an index. No dimension exceeds it, so no index equals it.
pub const NO_INDEX: u64 = u64::MAX;

/// An integer type and its little-endian bytes.
trait Integer: Copy + Ord {
    type Bytes: Copy;
    /// The type of the same width in which a negative number exceeds any other.
    type Magnitude: Copy + Ord + Into<u64> + TryFrom<u64>;
    /// The first magnitude that represents a negative number, `u64::MAX` for unsigned types.
    const NEGATIVE: u64;
    fn lanes(bytes: &[u8]) -> &[Self::Bytes];
    fn lanes_mut(bytes: &mut [u8]) -> &mut [Self::Bytes];
    fn read(bytes: Self::Bytes) -> Self;
    fn magnitude(self) -> Self::Magnitude;
    fn value(self) -> i128;
    /// Returns the low bytes of `value`.
    fn write(value: u64) -> Self::Bytes;
}

macro_rules! integer {
    ($type:ty, $magnitude:ty, $negative:expr) => {
        impl Integer for $type {
            type Bytes = [u8; size_of::<$type>()];
            type Magnitude = $magnitude;
            const NEGATIVE: u64 = $negative;
            fn lanes(bytes: &[u8]) -> &[Self::Bytes] {
                bytes.as_chunks().0
            }
            fn lanes_mut(bytes: &mut [u8]) -> &mut [Self::Bytes] {
                bytes.as_chunks_mut().0
            }
            fn read(bytes: Self::Bytes) -> Self {
                Self::from_le_bytes(bytes)
            }
            #[allow(
                clippy::cast_sign_loss,
                reason = "a negative number becomes a magnitude from NEGATIVE on"
            )]
            fn magnitude(self) -> Self::Magnitude {
                self as $magnitude
            }
            fn value(self) -> i128 {
                self.into()
            }
            #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "asked for")]
            fn write(value: u64) -> Self::Bytes {
                (value as $type).to_le_bytes()
            }
        }
    };
}

integer!(i8, u8, 1 << 7);
integer!(i16, u16, 1 << 15);
integer!(i32, u32, 1 << 31);
integer!(i64, u64, 1 << 63);
integer!(u8, u8, NO_INDEX);
integer!(u16, u16, NO_INDEX);
integer!(u32, u32, NO_INDEX);
integer!(u64, u64, NO_INDEX);

/// Runs a block for the integer type of a dtype, so that inner loops are compiled for each type. Other dtypes, which [`Indices::new`]
/// rejects, yield `$otherwise`.
macro_rules! for_type {
    ($dtype:expr, $otherwise:expr, $T:ident => $body:expr) => {{
        macro_rules! run {
            ($type:ty) => {{
                type $T = $type;
                $body
            }};
        }
        match $dtype {
            DType::Int8 => run!(i8),
            DType::Int16 => run!(i16),
            DType::Int32 => run!(i32),
            DType::Int64 => run!(i64),
            DType::Uint8 => run!(u8),
            DType::Uint16 => run!(u16),
            DType::Uint32 => run!(u32),
            DType::Uint64 => run!(u64),
            _ => $otherwise,
        }
    }};
}

/// A little-endian integer array in possibly unaligned memory, with unchecked values.
#[derive(Clone, Copy, Debug)]
pub struct Indices<'a> {
    dtype: DType,
    bytes: &'a [u8],
}

impl<'a> Indices<'a> {
    /// Creates an array. Fails with `ZT_BAD_DTYPE` if `dtype` is not an integer, and with `ZT_BAD_SPARSE` if the bytes
    /// are not whole elements.
    pub fn new(dtype: DType, bytes: &'a [u8]) -> Result<Self> {
        if !dtype.is_index() {
            return Err(Error::new(
                Code::BadDtype,
                format!("indices must be integers, not {}", dtype.name()),
            ));
        }
        if !bytes.len().is_multiple_of(dtype.element_bytes()) {
            return Err(Error::new(
                Code::BadSparse,
                format!("{} bytes are not whole indices of {}", bytes.len(), dtype.name()),
            ));
        }
        Ok(Self { dtype, bytes })
    }

    pub fn dtype(&self) -> DType {
        self.dtype
    }

    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.bytes.len() / self.dtype.element_bytes()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the index at `position`. `None` if it does not exist, is negative, or is `u64::MAX`.
    pub fn get(&self, position: usize) -> Option<u64> {
        u64::try_from(self.value(position)?).ok().filter(|&index| index != NO_INDEX)
    }

    /// Returns the number at `position` unchanged, for messages. `None` if it does not exist.
    pub fn value(&self, position: usize) -> Option<i128> {
        for_type!(self.dtype, None, T => T::lanes(self.bytes).get(position).map(|&b| T::read(b).value()))
    }

    /// Returns the elements from `start` to `end`, or `None` if they do not exist.
    pub fn slice(&self, start: usize, end: usize) -> Option<Self> {
        let width = self.dtype.element_bytes();
        let bytes = self.bytes.get(start.checked_mul(width)?..end.checked_mul(width)?)?;
        Some(Self { dtype: self.dtype, bytes })
    }

    /// Iterates over all indices in order, with `None` where [`get`](Self::get) returns `None`. Decodes blocks, so that the dtype is
    /// dispatched once per block.
    pub fn iter(&self) -> Iter<'a> {
        Iter { indices: *self, next: 0, block: [NO_INDEX; ITER_BLOCK], at: 0, filled: 0 }
    }

    /// Decodes the elements from `start` on into `out`, up to the shorter length, and returns their number. Numbers
    /// that are not an index become [`NO_INDEX`].
    pub fn decode(&self, start: usize, out: &mut [u64]) -> usize {
        for_type!(self.dtype, 0, T => {
            let lanes = T::lanes(self.bytes).get(start..).unwrap_or_default();
            for (out, &lane) in out.iter_mut().zip(lanes) {
                let magnitude: u64 = T::read(lane).magnitude().into();
                *out = if magnitude >= T::NEGATIVE { NO_INDEX } else { magnitude };
            }
            lanes.len().min(out.len())
        })
    }

    /// Returns the position of the first element that is not an index below `limit`.
    pub fn first_not_below(&self, limit: u64) -> Option<usize> {
        for_type!(self.dtype, None, T => {
            // Compared in the type's own width; a limit beyond it exceeds every element.
            let limit = <T as Integer>::Magnitude::try_from(limit.min(T::NEGATIVE)).ok()?;
            let beyond = |&lane: &<T as Integer>::Bytes| T::read(lane).magnitude() >= limit;
            let mut blocks = T::lanes(self.bytes).chunks(SCAN_BLOCK).enumerate();
            blocks.find_map(|(i, block)| {
                // No early exit inside a block: a reduction is vectorized, a search is not.
                if !block.iter().fold(false, |any, lane| any | beyond(lane)) {
                    return None;
                }
                Some(i * SCAN_BLOCK + block.iter().position(beyond)?)
            })
        })
    }

    /// Returns the position of the first element that is smaller than the previous one.
    pub fn first_descent(&self) -> Option<usize> {
        for_type!(self.dtype, None, T => {
            let lanes = T::lanes(self.bytes);
            let read = |&lane: &<T as Integer>::Bytes| T::read(lane);
            let descends = |(earlier, later)| read(later) < read(earlier);
            let later = lanes.get(1..).unwrap_or_default();
            let mut blocks = lanes.chunks(SCAN_BLOCK).zip(later.chunks(SCAN_BLOCK)).enumerate();
            blocks.find_map(|(i, (block, later))| {
                if !block.iter().zip(later).fold(false, |any, pair| any | descends(pair)) {
                    return None;
                }
                let inside = block.iter().zip(later).position(descends)?;
                Some(i * SCAN_BLOCK + inside + 1)
            })
        })
    }
}

impl<'a> IntoIterator for &Indices<'a> {
    type Item = Option<u64>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// See [`Indices::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    indices: Indices<'a>,
    next: usize,
    block: [u64; ITER_BLOCK],
    at: usize,
    filled: usize,
}

impl Iterator for Iter<'_> {
    type Item = Option<u64>;

    #[inline]
    fn next(&mut self) -> Option<Option<u64>> {
        if self.at == self.filled {
            self.filled = self.indices.decode(self.next, &mut self.block);
            self.next += self.filled;
            self.at = 0;
        }
        let index = *self.block.get(..self.filled)?.get(self.at)?;
        self.at += 1;
        Some((index != NO_INDEX).then_some(index))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.filled - self.at + self.indices.len().saturating_sub(self.next);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Writes `values` to `out` as little-endian integers of `dtype`, up to the shorter length. Values that do not fit lose their high bytes:
/// the caller has chosen the dtype with [`fits`].
pub(super) fn encode(dtype: DType, values: &[u64], out: &mut [u8]) {
    for_type!(dtype, (), T => {
        for (out, &value) in T::lanes_mut(out).iter_mut().zip(values) {
            *out = T::write(value);
        }
    });
}

/// Returns whether `value` can be written as `dtype`. False for dtypes that are not integers.
pub(super) fn fits(dtype: DType, value: u64) -> bool {
    for_type!(dtype, false, T => i128::from(value) <= T::MAX.value())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INTEGERS: [DType; 8] = [
        DType::Int8,
        DType::Int16,
        DType::Int32,
        DType::Int64,
        DType::Uint8,
        DType::Uint16,
        DType::Uint32,
        DType::Uint64,
    ];

    fn bytes(dtype: DType, values: &[i64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()[..dtype.element_bytes()].to_vec()).collect()
    }

    #[test]
    fn every_integer_type_is_read() {
        for dtype in INTEGERS {
            let bytes = bytes(dtype, &[5, 0, 127, -1]);
            let indices = Indices::new(dtype, &bytes).unwrap();
            let signed = dtype.name().starts_with('i');
            let all_ones =
                if signed || dtype == DType::Uint64 { None } else { Some((1 << dtype.bits()) - 1) };
            assert_eq!((indices.len(), indices.is_empty()), (4, false));
            assert_eq!(indices.iter().collect::<Vec<_>>(), [Some(5), Some(0), Some(127), all_ones]);
            assert_eq!([indices.get(3), indices.get(4)], [all_ones, None], "{}", dtype.name());
            assert_eq!(indices.value(3), Some(if signed { -1 } else { (1_i128 << dtype.bits()) - 1 }));
            assert_eq!(indices.value(4), None);
            assert_eq!(indices.first_not_below(127), Some(2));
            assert_eq!(indices.first_not_below(128), Some(3));
            assert_eq!(indices.first_not_below(u64::MAX).is_some(), all_ones.is_none(), "{}", dtype.name());
            assert_eq!(indices.first_descent(), Some(1));
            assert_eq!(indices.slice(1, 3).unwrap().first_descent(), None);
        }
    }

    #[test]
    fn invalid_index_arrays_are_rejected() {
        for dtype in DType::ALL.into_iter().filter(|dtype| !INTEGERS.contains(dtype)) {
            assert_eq!(Indices::new(dtype, &[0; 16]).unwrap_err().code(), Code::BadDtype, "{}", dtype.name());
        }
        assert_eq!(Indices::new(DType::Int32, &[0; 7]).unwrap_err().code(), Code::BadSparse);
    }

    #[test]
    fn slices_beyond_the_end_are_none() {
        let indices = Indices::new(DType::Int64, &[0; 16]).unwrap();
        assert_eq!(indices.slice(2, 2).map(|slice| slice.len()), Some(0));
        for (start, end) in [(0, 3), (2, 1), (0, usize::MAX), (usize::MAX, usize::MAX)] {
            assert!(indices.slice(start, end).is_none(), "{start}..{end}");
        }
    }

    #[test]
    fn faults_are_found_anywhere_in_long_arrays() {
        for dtype in INTEGERS {
            for at in [0, 1, 1023, 1024, 1025, 2047, 2048, 4999] {
                let mut values = vec![7; 5000];
                values[at] = 9;
                let high = bytes(dtype, &values);
                assert_eq!(Indices::new(dtype, &high).unwrap().first_not_below(9), Some(at));
                values[at] = 6;
                let low = bytes(dtype, &values);
                let low = Indices::new(dtype, &low).unwrap();
                assert_eq!(low.first_not_below(8), None);
                assert_eq!(low.first_descent(), (at > 0).then_some(at));
            }
        }
    }

    #[test]
    fn fits_knows_the_range_of_each_type() {
        for (dtype, last) in [(DType::Int8, 127), (DType::Uint16, 65_535), (DType::Int64, (1 << 63) - 1)] {
            assert!(fits(dtype, last) && !fits(dtype, last + 1), "{}", dtype.name());
        }
        assert!(fits(DType::Uint64, u64::MAX));
        assert!(!fits(DType::Float64, 0));
    }

    proptest! {
        #[test]
        fn all_ways_of_reading_agree(
            dtype in prop::sample::select(INTEGERS.to_vec()),
            values in prop::collection::vec(prop_oneof![0_i64..100, any::<i64>()], 0..400),
            limit in prop_oneof![0_u64..200, any::<u64>()],
        ) {
            let bytes = bytes(dtype, &values);
            let indices = Indices::new(dtype, &bytes).unwrap();
            let one_by_one: Vec<_> = (0..values.len()).map(|i| indices.get(i)).collect();
            prop_assert_eq!(indices.iter().len(), values.len());
            prop_assert_eq!(&indices.iter().collect::<Vec<_>>(), &one_by_one);
            let bad = one_by_one.iter().position(|index| index.is_none_or(|index| index >= limit));
            prop_assert_eq!(indices.first_not_below(limit), bad);
            let numbers: Vec<_> = (0..values.len()).map(|i| indices.value(i)).collect();
            let descent = numbers.windows(2).position(|pair| pair[1] < pair[0]).map(|i| i + 1);
            prop_assert_eq!(indices.first_descent(), descent);

            let mut decoded = vec![0; values.len()];
            prop_assert_eq!(indices.decode(0, &mut decoded), values.len());
            if one_by_one.iter().all(Option::is_some) {
                let mut encoded = vec![0; bytes.len()];
                encode(dtype, &decoded, &mut encoded);
                prop_assert_eq!(encoded, bytes);
            }
        }
    }
}
