//! Counts elements of 8 and 16 bits by bit pattern. There are so few patterns that everything follows from the counts, including the
//! histogram, at one addition per element.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::kernels::widen;
use crate::model::DType;

/// Minimum number of 16-bit elements for counting: visiting the 65,536 counts costs as much as some elements.
const FROM: u64 = 1 << 18;

/// The count of each bit pattern.
pub struct Patterns {
    counts: Vec<u32>,
}

/// The combined counts of any number of elements.
pub struct Sum {
    counts: Vec<u64>,
}

/// Returns the bits of a dtype if counting this many elements is worthwhile.
pub fn counted_bits(dtype: DType, count: u64) -> Option<u32> {
    match dtype.bits() {
        8 => Some(8),
        16 if count >= FROM => Some(16),
        _ => None,
    }
}

impl Patterns {
    /// For up to 2^32 - 1 elements.
    pub fn new(bits: u32) -> Self {
        Self { counts: vec![0; 1 << bits] }
    }

    /// Adds little-endian elements.
    pub fn add(&mut self, bytes: &[u8]) {
        // Tables of a known size need no bounds checks.
        if let Ok(table) = <&mut [u32; 1 << 16]>::try_from(&mut *self.counts) {
            for &element in bytes.as_chunks().0 {
                table[usize::from(u16::from_le_bytes(element))] += 1;
            }
        } else if let Ok(table) = <&mut [u32; 1 << 8]>::try_from(&mut *self.counts) {
            for &element in bytes {
                table[usize::from(element)] += 1;
            }
        }
    }
}

impl Sum {
    pub fn new(bits: u32) -> Self {
        Self { counts: vec![0; 1 << bits] }
    }

    pub fn add(&mut self, patterns: &Patterns) {
        for (sum, &count) in self.counts.iter_mut().zip(&patterns.counts) {
            *sum += u64::from(count);
        }
    }

    /// Returns the occurring values and their counts, one per pattern: there may be several NaN, and two zeros.
    pub fn values(&self, dtype: DType) -> Result<Vec<(f64, u64)>> {
        let patterns: Vec<u8> = if self.counts.len() == 256 {
            (0..=u8::MAX).collect()
        } else {
            (0..=u16::MAX).flat_map(u16::to_le_bytes).collect()
        };
        let mut wide = vec![0; self.counts.len() * 4];
        widen::to_float32(dtype, &patterns, &mut wide)?;
        let values = wide.as_chunks().0.iter().map(|&bytes| f64::from(f32::from_ne_bytes(bytes)));
        Ok(values.zip(self.counts.iter().copied()).filter(|&(_, count)| count > 0).collect())
    }
}
