//! `zt.mx/1`: OCP Microscaling. Elements of 4 or 8 bits, and a power of two for each block of adjacent elements.
#![forbid(unsafe_code)]

use super::groups::{self, BLOCK, Groups};
use crate::error::{Code, Error, Result};
use crate::layouts::mx;
use crate::model::DType;

/// MXINT8's elements are multiples of 1/64: two's complement with six fractional bits (OCP MX 1.0 §5.3.4).
const INT8_STEP: f32 = 1.0 / 64.0;

#[derive(Clone, Copy, Debug)]
pub struct Mx {
    elements: DType,
    groups: Groups,
}

impl Mx {
    pub fn new(entry: &mx::Mx, shape: &[u64]) -> Result<Self> {
        let elements = entry.dtype.ok_or_else(|| {
            Error::new(Code::BadDtype, "the type of the elements is unknown").component("data")
        })?;
        Ok(Self { elements, groups: Groups::new(shape, entry.axis, entry.block_size)? })
    }

    /// Returns the bytes of `data` for a number of elements.
    pub fn data_length(&self, elements: u64) -> Option<u64> {
        elements.checked_mul(u64::from(self.elements.bits())).map(|bits| bits.div_ceil(8))
    }

    /// Returns the number of scales, which are a byte each.
    pub fn scales(&self) -> u64 {
        self.groups.count()
    }

    /// Decodes elements from `first` on, a multiple of [`BLOCK`], until `out` is full. Every product within the range of float32 is exact:
    /// a scale is a power of two, and an element has at most eight bits.
    pub fn decode(&self, data: &[u8], scales: &[u8], first: u64, out: &mut [[u8; 4]]) -> Result<()> {
        let (mut values, mut factors) = ([0.0; BLOCK], [0.0; BLOCK]);
        for (out, first) in out.chunks_mut(BLOCK).zip((first..).step_by(BLOCK)) {
            let (values, factors) = (&mut values[..out.len()], &mut factors[..out.len()]);
            groups::read(self.elements, data, first, values)?;
            if self.elements == DType::Int8 {
                for value in &mut *values {
                    *value *= INT8_STEP;
                }
            }
            self.groups
                .spread(first, factors, |at, out| groups::read(DType::Float8E8M0Fnu, scales, at, out))?;
            for (out, (value, factor)) in out.iter_mut().zip(values.iter().zip(factors)) {
                *out = (value * *factor).to_ne_bytes();
            }
        }
        Ok(())
    }
}
