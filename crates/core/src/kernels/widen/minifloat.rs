//! The 4- and 8-bit floats as tables of float32 bits, computed at compile time from their field widths.
#![forbid(unsafe_code)]

/// The codes that are not numbers.
#[derive(Clone, Copy)]
enum Special {
    /// The top exponent represents the infinities and NaN, as in IEEE 754.
    Ieee,
    /// `fn`: only all ones below the sign is NaN, there are no infinities.
    AllOnesNan,
    /// `fnuz`: the code of negative zero is the only NaN, there are no infinities.
    NegativeZeroNan,
    /// Every code is a number.
    None,
}

#[derive(Clone, Copy)]
struct Minifloat {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: u32,
    special: Special,
}

const QUIET_NAN: u32 = 0x7fc0_0000;
const INFINITY: u32 = 0x7f80_0000;

impl Minifloat {
    /// Returns the float32 bits of `code`. Each value of these types is a normal float32, so nothing is rounded.
    const fn widen(self, code: u32) -> u32 {
        let below_sign = self.exponent_bits + self.mantissa_bits;
        let sign = (code >> below_sign & 1) << 31;
        let magnitude = code & ((1 << below_sign) - 1);
        let top_exponent = (1 << self.exponent_bits) - 1;
        let exponent = magnitude >> self.mantissa_bits;
        let mantissa = magnitude & ((1 << self.mantissa_bits) - 1);
        match self.special {
            Special::Ieee if exponent == top_exponent && mantissa == 0 => return sign | INFINITY,
            Special::Ieee if exponent == top_exponent => {
                return sign | QUIET_NAN | mantissa << (23 - self.mantissa_bits);
            }
            Special::AllOnesNan if magnitude == (1 << below_sign) - 1 => return sign | QUIET_NAN,
            Special::NegativeZeroNan if magnitude == 0 && sign != 0 => return QUIET_NAN,
            _ => {}
        }
        if magnitude == 0 {
            return sign;
        }
        if exponent == 0 {
            // Subnormal: the highest set bit becomes the implied one.
            let top = mantissa.ilog2();
            let exponent = 127 + 1 + top - self.bias - self.mantissa_bits;
            return sign | exponent << 23 | (mantissa << (23 - top) & 0x007f_ffff);
        }
        sign | (127 + exponent - self.bias) << 23 | mantissa << (23 - self.mantissa_bits)
    }

    const fn table(self) -> [u32; 256] {
        let mut table = [0; 256];
        let mut code = 0;
        while code < 256 {
            table[code as usize] = self.widen(code);
            code += 1;
        }
        table
    }
}

const FLOAT4_E2M1FN: Minifloat =
    Minifloat { exponent_bits: 2, mantissa_bits: 1, bias: 1, special: Special::None };

pub(super) static FLOAT8_E4M3FN: [u32; 256] =
    Minifloat { exponent_bits: 4, mantissa_bits: 3, bias: 7, special: Special::AllOnesNan }.table();
pub(super) static FLOAT8_E5M2: [u32; 256] =
    Minifloat { exponent_bits: 5, mantissa_bits: 2, bias: 15, special: Special::Ieee }.table();
pub(super) static FLOAT8_E4M3FNUZ: [u32; 256] =
    Minifloat { exponent_bits: 4, mantissa_bits: 3, bias: 8, special: Special::NegativeZeroNan }.table();
pub(super) static FLOAT8_E5M2FNUZ: [u32; 256] =
    Minifloat { exponent_bits: 5, mantissa_bits: 2, bias: 16, special: Special::NegativeZeroNan }.table();

/// Both elements of a byte of packed `float4_e2m1fn`, low nibble first.
pub(super) static FLOAT4_PAIRS: [[u32; 2]; 256] = {
    let mut table = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte as usize] = [FLOAT4_E2M1FN.widen(byte & 15), FLOAT4_E2M1FN.widen(byte >> 4)];
        byte += 1;
    }
    table
};

/// Returns the float32 bits of a `float8_e8m0fnu` scale: 2^(code - 127), 255 is NaN. Code 0 is a float32 subnormal.
pub(super) const fn float8_e8m0fnu(code: u8) -> u32 {
    match code {
        0 => 0x0040_0000,
        0xff => QUIET_NAN,
        _ => (code as u32) << 23,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value by the definition: (-1)^s (0 or 1 + m / 2^M) 2^(max(e, 1) - bias), in float64.
    fn by_definition(code: u16, exponent_bits: i32, mantissa_bits: i32, bias: i32) -> f64 {
        let code = i32::from(code);
        let sign = if code / (1 << (exponent_bits + mantissa_bits)) % 2 == 1 { -1.0 } else { 1.0 };
        let exponent = code / (1 << mantissa_bits) % (1 << exponent_bits);
        let fraction = f64::from(code % (1 << mantissa_bits)) / f64::from(1 << mantissa_bits);
        let implied = if exponent == 0 { 0.0 } else { 1.0 };
        sign * (implied + fraction) * 2_f64.powi(exponent.max(1) - bias)
    }

    fn assert_code(name: &str, code: u16, got: u32, expected: f64) {
        let got = f64::from(f32::from_bits(got));
        assert!(
            (got.is_nan() && expected.is_nan()) || got.to_bits() == expected.to_bits(),
            "{name} {code:#04x}: got {got}, expected {expected}"
        );
    }

    #[test]
    fn every_float8_code_matches_its_definition() {
        type Case = (&'static str, &'static [u32; 256], (i32, i32, i32), fn(u16) -> Option<f64>);
        let cases: [Case; 4] = [
            ("e4m3fn", &FLOAT8_E4M3FN, (4, 3, 7), |code| matches!(code, 0x7f | 0xff).then_some(f64::NAN)),
            ("e5m2", &FLOAT8_E5M2, (5, 2, 15), |code| match code {
                0x7c => Some(f64::INFINITY),
                0xfc => Some(f64::NEG_INFINITY),
                0x7d..=0x7f | 0xfd..=0xff => Some(f64::NAN),
                _ => None,
            }),
            ("e4m3fnuz", &FLOAT8_E4M3FNUZ, (4, 3, 8), |code| (code == 0x80).then_some(f64::NAN)),
            ("e5m2fnuz", &FLOAT8_E5M2FNUZ, (5, 2, 16), |code| (code == 0x80).then_some(f64::NAN)),
        ];
        for (name, table, (exponent_bits, mantissa_bits, bias), special) in cases {
            for (code, &got) in (0_u16..).zip(table) {
                let plain = by_definition(code, exponent_bits, mantissa_bits, bias);
                assert_code(name, code, got, special(code).unwrap_or(plain));
            }
        }
    }

    #[test]
    fn published_extremes() {
        let value = |table: &[u32; 256], code: usize| f64::from(f32::from_bits(table[code]));
        let cases = [
            (value(&FLOAT8_E4M3FN, 0x7e), 448.0),
            (value(&FLOAT8_E4M3FN, 0x01), 2_f64.powi(-9)),
            (value(&FLOAT8_E5M2, 0xfb), -57344.0),
            (value(&FLOAT8_E5M2, 0x01), 2_f64.powi(-16)),
            (value(&FLOAT8_E4M3FNUZ, 0x7f), 240.0),
            (value(&FLOAT8_E4M3FNUZ, 0x81), -(2_f64.powi(-10))),
            (value(&FLOAT8_E5M2FNUZ, 0x7f), 57344.0),
            (value(&FLOAT8_E5M2FNUZ, 0x01), 2_f64.powi(-17)),
        ];
        for (case, (got, expected)) in cases.into_iter().enumerate() {
            assert_eq!(got.to_bits(), expected.to_bits(), "case {case}");
        }
    }

    #[test]
    fn every_nan_is_quiet_and_keeps_its_sign() {
        assert_eq!(FLOAT8_E4M3FN[0x7f], 0x7fc0_0000);
        assert_eq!(FLOAT8_E4M3FN[0xff], 0xffc0_0000);
        assert_eq!(FLOAT8_E5M2[0xfd], 0xffe0_0000);
        assert_eq!(FLOAT8_E4M3FNUZ[0x80], 0x7fc0_0000);
    }

    #[test]
    fn every_scale_is_a_power_of_two() {
        for code in 0..=254_u8 {
            assert_code("e8m0", code.into(), float8_e8m0fnu(code), 2_f64.powi(i32::from(code) - 127));
        }
        assert!(f32::from_bits(float8_e8m0fnu(255)).is_nan());
    }

    #[test]
    fn every_pair_of_float4_matches_its_definition() {
        let codes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];
        for (byte, pair) in (0_u16..).zip(&FLOAT4_PAIRS) {
            assert_code("low", byte, pair[0], codes[usize::from(byte) % 16]);
            assert_code("high", byte, pair[1], codes[usize::from(byte) / 16]);
        }
    }
}
