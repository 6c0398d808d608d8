//! `zt.mx/1`: OCP Microscaling. Elements of 4 or 8 bits, and a power of two for each block of neighbours.
#![forbid(unsafe_code)]

use super::groups::{self, BLOCK, Groups};
use super::parameters::Parameters;
use crate::catalog::DType;
use crate::error::{Code, Error, Result};

/// MXINT8's elements count 64ths: two's complement with six fractional bits (OCP MX 1.0 §5.3.4).
const INT8_STEP: f32 = 1.0 / 64.0;

#[derive(Clone, Copy, Debug)]
pub struct Mx {
    elements: DType,
    groups: Groups,
}

impl Mx {
    pub fn new(parameters: Parameters<'_>, shape: &[u64], elements: Option<DType>) -> Result<Self> {
        let form = parameters.text("scale_form")?;
        if form != "e8m0_exponent" {
            let message = format!("scale_form must be \"e8m0_exponent\", not {form:?}");
            return Err(Error::new(Code::BadLayout, message));
        }
        let last = (shape.len() as u64).saturating_sub(1);
        let axis = parameters.optional_number("axis")?.unwrap_or(last);
        let size = parameters.number("block_size")?;
        if size < 2 {
            return Err(Error::new(Code::BadLayout, format!("block_size must be at least 2, not {size}")));
        }
        let groups = Groups::new(shape, axis, size)?;
        match elements {
            Some(
                elements @ (DType::Float4E2M1Fn | DType::Float8E4M3Fn | DType::Float8E5M2 | DType::Int8),
            ) => Ok(Self { elements, groups }),
            other => {
                let found = other.map_or("of unknown type", DType::name);
                let message =
                    format!("elements are float4_e2m1fn, float8_e4m3fn, float8_e5m2 or int8, not {found}");
                Err(Error::new(Code::BadDtype, message).component("data"))
            }
        }
    }

    /// Bytes of `data` for so many elements.
    pub fn data_length(&self, elements: u64) -> Option<u64> {
        elements.checked_mul(u64::from(self.elements.bits())).map(|bits| bits.div_ceil(8))
    }

    /// Scales, which are a byte each.
    pub fn scales(&self) -> u64 {
        self.groups.count()
    }

    /// Elements from `first` on, a multiple of [`BLOCK`], as many as `out` has places. Every product is exact
    /// where float32 reaches: a scale is a power of two, and an element has at most eight bits.
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
