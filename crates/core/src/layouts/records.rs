//! Fields of interleaved records, gathered field by field: 0.1's COO blobs, BTF's (N, RANK) index tuples.
#![forbid(unsafe_code)]

use crate::error::{Code, Error, Result};
use crate::kernels::strided;

/// `fields` consecutive elements of `width` bytes in each of `count` records, which start `stride` bytes
/// apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Records {
    /// Byte offset of the first field of the first record.
    pub start: u64,
    /// Bytes from one record to the next.
    pub stride: u64,
    pub fields: u64,
    /// Bytes of one element.
    pub width: u64,
    pub count: u64,
}

/// Input that one pass over the fields covers: it stays in the first-level cache for the passes of all
/// fields.
const BLOCK_BYTES: usize = 16 << 10;

impl Records {
    /// Bytes of the gathered fields, `None` beyond u64.
    pub fn byte_length(&self) -> Option<u64> {
        self.fields.checked_mul(self.width)?.checked_mul(self.count)
    }

    /// One past the last byte that the fields take up, 0 where there are none. `None` beyond u64.
    pub fn end(&self) -> Option<u64> {
        if self.byte_length()? == 0 {
            return Some(0);
        }
        let last = (self.count - 1).checked_mul(self.stride)?.checked_add(self.start)?;
        last.checked_add(self.fields * self.width)
    }
}

/// Writes the fields to `out` field-major: all of field 0, then all of field 1. `out` must have exactly
/// [`Records::byte_length`] bytes (`InvalidArg`), the last record must end within `input` (`OutOfBounds`).
pub fn from_records(input: &[u8], records: Records, out: &mut [u8]) -> Result<()> {
    if records.byte_length() != u64::try_from(out.len()).ok() {
        return Err(Error::new(
            Code::InvalidArg,
            format!(
                "{} fields of {} bytes from {} records do not fill the {} bytes of the destination",
                records.fields,
                records.width,
                records.count,
                out.len()
            ),
        ));
    }
    if out.is_empty() {
        return Ok(());
    }
    let gathered = records
        .end()
        .filter(|&end| u64::try_from(input.len()).is_ok_and(|length| end <= length))
        .and_then(|_| gather(input, records, out));
    gathered.ok_or_else(|| {
        Error::new(
            Code::OutOfBounds,
            format!(
                "{} records from byte {} on, {} bytes apart, do not lie in {} bytes",
                records.count,
                records.start,
                records.stride,
                input.len()
            ),
        )
    })
}

/// `None` where a run lies outside `input`. Widths and counts are not zero: `out` is not empty.
fn gather(input: &[u8], records: Records, out: &mut [u8]) -> Option<()> {
    let start = usize::try_from(records.start).ok()?;
    let width = usize::try_from(records.width).ok()?;
    let count = usize::try_from(records.count).ok()?;
    let input = input.get(start..)?;
    // One record may have any stride, even one that usize cannot hold.
    let stride = if count == 1 { 0 } else { usize::try_from(records.stride).ok()? };
    let block = (BLOCK_BYTES / stride.max(1)).clamp(16, 1024);
    let field_bytes = count.checked_mul(width)?;
    for first in (0..count).step_by(block) {
        let block_bytes = block.min(count - first) * width;
        for (field, out) in out.chunks_exact_mut(field_bytes).enumerate() {
            let from = input.get(first * stride + field * width..)?;
            let out = out.get_mut(first * width..)?.get_mut(..block_bytes)?;
            if !strided::gather(from, stride, width, out) {
                return None;
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn index_tuples_are_transposed() {
        let tuples: Vec<u8> =
            [[1_u16, 10], [2, 20], [3, 30]].concat().into_iter().flat_map(u16::to_le_bytes).collect();
        let mut out = [0; 12];
        from_records(&tuples, Records { start: 0, stride: 4, fields: 2, width: 2, count: 3 }, &mut out)
            .unwrap();
        assert_eq!(out, [1, 0, 2, 0, 3, 0, 10, 0, 20, 0, 30, 0]);
    }

    #[test]
    fn hostile_numbers_are_refused() {
        let usual = Records { start: 0, stride: 4, fields: 1, width: 2, count: 2 };
        let cases = [
            (Records { start: 3, ..usual }, 4, Code::OutOfBounds),
            (Records { start: u64::MAX, ..usual }, 4, Code::OutOfBounds),
            (Records { stride: u64::MAX, ..usual }, 4, Code::OutOfBounds),
            (Records { stride: 7, ..usual }, 4, Code::OutOfBounds),
            (Records { count: u64::MAX, ..usual }, 4, Code::InvalidArg),
            (Records { width: u64::MAX, count: 1, ..usual }, 4, Code::InvalidArg),
            (Records { fields: 1 << 63, ..usual }, 0, Code::InvalidArg),
            (usual, 3, Code::InvalidArg),
            (usual, 5, Code::InvalidArg),
        ];
        for (records, out, code) in cases {
            let error = from_records(&[0; 8], records, &mut vec![0; out]).unwrap_err();
            assert_eq!(error.code(), code, "{records:?}: {error}");
        }
    }

    #[test]
    fn nothing_to_gather() {
        for (fields, width, count) in [(0, 8, 1 << 60), (1 << 60, 0, 8), (2, 8, 0)] {
            let records = Records { start: u64::MAX, stride: u64::MAX, fields, width, count };
            assert_eq!(records.end(), Some(0));
            from_records(&[], records, &mut []).unwrap();
        }
    }

    #[test]
    fn one_record_may_have_any_stride() {
        let mut out = [0; 2];
        from_records(
            &[9, 8, 7],
            Records { start: 1, stride: u64::MAX, fields: 2, width: 1, count: 1 },
            &mut out,
        )
        .unwrap();
        assert_eq!(out, [8, 7]);
    }

    proptest! {
        #[test]
        fn agrees_with_a_loop(
            start in 0_usize..20, stride in 0_usize..40, fields in 0_usize..5,
            width in prop::sample::select(vec![1_usize, 2, 3, 4, 8, 16]), count in 0_usize..2100,
        ) {
            let end = start + count.saturating_sub(1) * stride + fields * width;
            let byte = |i: usize| i.wrapping_mul(167).to_le_bytes()[0] ^ i.to_le_bytes()[1];
            let input: Vec<u8> = (0..end).map(byte).collect();
            let mut expected: Vec<u8> = Vec::new();
            for field in 0..fields {
                for record in 0..count {
                    let at = start + record * stride + field * width;
                    expected.extend(&input[at..at + width]);
                }
            }
            let wide = |n: usize| u64::try_from(n).unwrap();
            let records = Records {
                start: wide(start),
                stride: wide(stride),
                fields: wide(fields),
                width: wide(width),
                count: wide(count),
            };
            let mut out = vec![0; expected.len()];
            from_records(&input, records, &mut out).unwrap();
            prop_assert!(out == expected);
        }
    }
}
