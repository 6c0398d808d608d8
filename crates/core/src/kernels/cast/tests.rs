use crate::arrange::Arrange;
use std::sync::LazyLock;

use half::{bf16, f16};
use proptest::prelude::*;

use self::cases::cases;
use super::*;
use crate::error::Code;

const NARROW: [DType; 4] = [DType::Float16, DType::BFloat16, DType::Float8E4M3Fn, DType::Float8E5M2];

fn one<const W: usize, const N: usize>(from: DType, to: DType, element: [u8; W]) -> [u8; N] {
    let mut out = [0; N];
    cast(from, to, &element, &mut out).unwrap();
    out
}

/// Returns codes of a 1- or 2-byte float and their values, according to widening.
fn values(dtype: DType) -> Vec<(u16, f64)> {
    let codes = if dtype.bits() == 8 { 256 } else { 65_536 };
    (0..codes)
        .map(|code: u32| {
            let mut wide = [0; 4];
            let code = u16::try_from(code).unwrap();
            to_float32(dtype, &code.to_le_bytes()[..dtype.element_bytes()], &mut wide).unwrap();
            (code, f64::from(f32::from_ne_bytes(wide)))
        })
        .collect()
}

/// Finds the nearest codes by definition: both neighbors are compared exactly, and one more step past the largest counts.
struct Oracle {
    dtype: DType,
    all: Vec<(u16, f64)>,
    positive: Vec<(u16, f64)>,
}

impl Oracle {
    fn new(dtype: DType) -> Self {
        let sign = 1 << (dtype.bits() - 1);
        let all = values(dtype);
        let positive = all.iter().copied().filter(|(code, value)| code & sign == 0 && value.is_finite());
        Self { dtype, positive: positive.collect(), all }
    }

    fn nearest(&self, value: f64) -> Option<u16> {
        if value.is_nan() {
            return None;
        }
        let sign = if value.is_sign_negative() { 1 << (self.dtype.bits() - 1) } else { 0 };
        let magnitude = value.abs();
        let above = self.positive.partition_point(|&(_, known)| known < magnitude);
        let (last_code, last) = *self.positive.last().unwrap();
        let step = last - self.positive[self.positive.len() - 2].1;
        let (low, high) = if above == self.positive.len() {
            ((last_code, last), (last_code + 1, last + step))
        } else if above == 0 {
            (self.positive[0], self.positive[0])
        } else {
            (self.positive[above - 1], self.positive[above])
        };
        let (down, up) = (magnitude - low.1, high.1 - magnitude);
        let code = match down.total_cmp(&up) {
            _ if up.total_cmp(&0.0).is_eq() => high.0,
            std::cmp::Ordering::Less => low.0,
            std::cmp::Ordering::Greater => high.0,
            std::cmp::Ordering::Equal => {
                if low.0 % 2 == 0 {
                    low.0
                } else {
                    high.0
                }
            }
        };
        let nan = self.dtype == DType::Float8E4M3Fn && code > last_code;
        (!nan).then_some(code | sign)
    }

    fn check(&self, value: f64, found: u16) {
        let (dtype, wide) = (self.dtype.name(), self.all[usize::from(found)].1);
        match self.nearest(value) {
            None => assert!(wide.is_nan(), "{value:e} to {dtype} is {found:#x}"),
            Some(code) => assert_eq!(found, code, "{value:e} ({:#x}) to {dtype}", value.to_bits()),
        }
    }
}

static ORACLES: LazyLock<[Oracle; 4]> = LazyLock::new(|| NARROW.map(Oracle::new));

fn code(to: DType, from: DType, element: &[u8]) -> u16 {
    let mut out = [0; 2];
    cast(from, to, element, &mut out[..to.element_bytes()]).unwrap();
    u16::from_le_bytes(out)
}

/// Returns float64 values at every code and every midpoint of two codes, and one step to either side.
fn edges(dtype: DType) -> Vec<f64> {
    let mut finite: Vec<f64> =
        values(dtype).into_iter().map(|(_, value)| value).filter(|v| v.is_finite()).collect();
    finite.arrange_by(f64::total_cmp);
    let middles: Vec<f64> = finite.windows(2).map(|pair| f64::midpoint(pair[0], pair[1])).collect();
    let near =
        finite.into_iter().chain(middles).flat_map(|value| [value, value.next_up(), value.next_down()]);
    near.chain([
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        464.0,
        465.0,
        57_344.0,
        61_440.0,
        65_519.9,
        65_520.0,
    ])
    .collect()
}

#[test]
fn every_edge_of_the_narrow_types_is_rounded_once() {
    for oracle in ORACLES.iter() {
        let dtype = oracle.dtype;
        for value in edges(dtype) {
            oracle.check(value, code(dtype, DType::Float64, &value.to_le_bytes()));
            #[expect(clippy::cast_possible_truncation)]
            let single = value as f32;
            oracle.check(single.into(), code(dtype, DType::Float32, &single.to_le_bytes()));
        }
    }
}

#[test]
fn every_half_and_float8_round_trips() {
    for from in NARROW {
        let all = values(from);
        for &(bits, value) in &all {
            let element = &bits.to_le_bytes()[..from.element_bytes()];
            for to in [DType::Float64, DType::Float32] {
                let mut wide = [0; 8];
                let wide = &mut wide[..to.element_bytes()];
                cast(from, to, element, wide).unwrap();
                let back = code(from, to, wide);
                let quiet = all[usize::from(back)].1;
                assert!(back == bits || (value.is_nan() && quiet.is_nan()), "{bits:#x} of {}", from.name());
            }
        }
    }
}

#[test]
fn every_code_of_the_half_types_narrows_to_the_nearest_float8() {
    for to in [DType::Float8E4M3Fn, DType::Float8E5M2] {
        let oracle = Oracle::new(to);
        for from in NARROW {
            for (bits, value) in values(from) {
                oracle.check(value, code(to, from, &bits.to_le_bytes()[..from.element_bytes()]));
            }
        }
    }
}

#[test]
fn nan_stays_quiet_with_its_sign_and_payload() {
    let signaling = 0xff80_2001_u32.to_le_bytes();
    let half = |to| u16::from_le_bytes(one(DType::Float32, to, signaling));
    assert_eq!([half(DType::Float16), half(DType::BFloat16)], [0xfe01, 0xffc0]);
    assert_eq!(one(DType::Float32, DType::Float8E5M2, signaling), [0xfe]);
    assert_eq!(one(DType::Float32, DType::Float8E4M3Fn, signaling), [0xff]);
    assert_eq!(u64::from_le_bytes(one(DType::Float32, DType::Float64, signaling)), 0xfff8_0400_2000_0000);
    let wide = 0xfff0_0400_2000_0000_u64.to_le_bytes();
    assert_eq!(u32::from_le_bytes(one(DType::Float64, DType::Float32, wide)), 0xffc0_2001);
    assert_eq!(u16::from_le_bytes(one(DType::Float64, DType::Float16, wide)), 0xfe01);
}

#[test]
fn integers_are_cast() {
    for (from, value, expected) in [
        // 2^24 + 1 and similar: a single rounding, ties to even.
        (DType::Int32, 16_777_217_i64, 16_777_216.0_f32),
        (DType::Int64, -16_777_219, -16_777_220.0),
        (DType::Uint32, 4_294_967_295, 4_294_967_296.0),
        (DType::Uint8, 255, 255.0),
        (DType::Int8, -128, -128.0),
        (DType::Bool, 2, 1.0),
    ] {
        let mut out = [0; 4];
        cast(from, DType::Float32, &value.to_le_bytes()[..from.element_bytes()], &mut out).unwrap();
        assert_eq!(f32::from_le_bytes(out).to_bits(), expected.to_bits(), "{value} of {}", from.name());
    }
    // Between two bfloat16, 256 and 258: just above the middle by less than float32 can represent.
    let above = ((257_i64 << 40) + 1).to_le_bytes();
    assert_eq!(code(DType::BFloat16, DType::Int64, &above), bf16::from_f32(258.0 * 2_f32.powi(40)).to_bits());
    let middle = (257_i64 << 40).to_le_bytes();
    assert_eq!(
        code(DType::BFloat16, DType::Int64, &middle),
        bf16::from_f32(256.0 * 2_f32.powi(40)).to_bits()
    );
    assert_eq!(i64::from_le_bytes(one(DType::Int8, DType::Int64, [0x80])), -128);
    assert_eq!(u64::from_le_bytes(one(DType::Uint32, DType::Uint64, [0xff; 4])), u64::from(u32::MAX));
}

#[test]
fn unsupported_casts_are_rejected() {
    let pairs = [
        (DType::Float32, DType::Int32),
        (DType::Complex64, DType::Float32),
        (DType::Float4E2M1Fn, DType::Float32),
        (DType::Float32, DType::Float8E4M3Fnuz),
    ];
    for (from, to) in pairs {
        assert!(!can_cast(from, to));
        assert_eq!(cast(from, to, &[], &mut []).unwrap_err().code(), Code::BadDtype);
    }
    for (input, out) in [(3, 2), (4, 4), (8, 2)] {
        let error = cast(DType::Float32, DType::BFloat16, &vec![0; input], &mut vec![0; out]).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArg);
    }
}

#[path = "../../../tests/all/cases.rs"]
mod cases;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(2048)))]
    #[test]
    fn any_float64_and_float32_is_rounded_to_the_nearest(
        bits: u64, mantissa: u64, exponent in -30_i32..20, negative: bool,
    ) {
        // Arbitrary bits, and the range of the narrow types.
        let near = f64::from_bits(0x3ff << 52 | mantissa >> 12) * 2_f64.powi(exponent);
        for value in [f64::from_bits(bits), if negative { -near } else { near }] {
            #[expect(clippy::cast_possible_truncation)]
            let single = value as f32;
            if !value.is_nan() {
                let found = one(DType::Float64, DType::Float32, value.to_le_bytes());
                prop_assert_eq!(found, single.to_le_bytes());
            }
            let high = f32::from_bits((value.to_bits() >> 32) as u32);
            for oracle in ORACLES.iter() {
                oracle.check(value, code(oracle.dtype, DType::Float64, &value.to_le_bytes()));
                for single in [single, high] {
                    oracle.check(single.into(), code(oracle.dtype, DType::Float32, &single.to_le_bytes()));
                }
            }
            if !high.is_nan() {
                let bytes = high.to_le_bytes();
                prop_assert_eq!(code(DType::Float16, DType::Float32, &bytes), f16::from_f32(high).to_bits());
                prop_assert_eq!(code(DType::BFloat16, DType::Float32, &bytes), bf16::from_f32(high).to_bits());
            }
        }
    }

    #[test]
    fn integers_are_rounded_once(value: i64, shift in 0_u32..63) {
        let value = value >> shift;
        let bytes = value.to_le_bytes();
        // Values exact in float64 are their own oracle.
        prop_assume!(value.unsigned_abs() < 1 << 53);
        #[expect(clippy::cast_precision_loss)]
        let exact = value as f64;
        for oracle in ORACLES.iter() {
            oracle.check(exact, code(oracle.dtype, DType::Int64, &bytes));
        }
    }
}

#[test]
fn integers_are_narrowed_if_they_fit() {
    use DType::{Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64};
    let all = [Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64];
    let values = [
        0,
        1,
        -1,
        127,
        128,
        -128,
        -129,
        255,
        256,
        32_767,
        32_768,
        -32_768,
        -32_769,
        65_535,
        65_536,
        i128::from(i32::MAX),
        i128::from(i32::MAX) + 1,
        i128::from(i32::MIN),
        i128::from(i32::MIN) - 1,
        i128::from(u32::MAX),
        i128::from(u32::MAX) + 1,
        i128::from(i64::MAX),
        i128::from(i64::MIN),
        i128::from(i64::MAX) + 1,
        i128::from(u64::MAX),
    ];
    let holds = |dtype: DType, value: i128| {
        let bits = dtype.bits();
        let signed = matches!(dtype, Int8 | Int16 | Int32 | Int64);
        let (min, max) = if signed {
            (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
        } else {
            (0, (1_i128 << bits) - 1)
        };
        (min..=max).contains(&value)
    };
    let bytes = |dtype: DType, value: i128| value.to_le_bytes()[..dtype.element_bytes()].to_vec();
    for from in all {
        for to in all {
            assert!(can_cast(from, to), "{from:?} {to:?}");
            for value in values.into_iter().filter(|&value| holds(from, value)) {
                let input = [bytes(from, 1), bytes(from, value)].concat();
                let mut out = vec![0; 2 * to.element_bytes()];
                let done = cast_from(40, from, to, &input, &mut out);
                if holds(to, value) {
                    done.unwrap();
                    assert_eq!(out, [bytes(to, 1), bytes(to, value)].concat(), "{from:?} {to:?} {value}");
                } else {
                    let error = done.unwrap_err();
                    let says = format!("element 41 is {value}, which {} cannot represent", to.name());
                    assert_eq!((error.code(), error.message()), (Code::BadDtype, &*says));
                }
            }
        }
    }
}
