//! Writes CBOR (RFC 8949) with definite lengths and shortest heads, and free-form values in the caller's order or in the core deterministic
//! encoding (§4.2.1).
#![forbid(unsafe_code)]

use crate::arrange::Arrange;
use ciborium::Value;
use half::f16;

/// Maximum bytes of a head.
const HEAD: usize = 9;

/// The bytes of an index under construction.
#[derive(Default)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the bytes written since the beginning, or since the last call of [`Self::taken`].
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes the written bytes, after the caller took them.
    pub fn taken(&mut self) {
        self.bytes.clear();
    }

    #[inline]
    fn head(&mut self, major: u8, argument: u64) {
        let bytes = argument.to_be_bytes();
        let (info, tail) = match argument {
            0..24 => {
                self.bytes.push(major << 5 | bytes[7]);
                return;
            }
            24..0x100 => (24, &bytes[7..]),
            0x100..0x1_0000 => (25, &bytes[6..]),
            0x1_0000..0x1_0000_0000 => (26, &bytes[4..]),
            _ => (27, &bytes[..]),
        };
        self.bytes.push(major << 5 | info);
        self.bytes.extend_from_slice(tail);
    }

    pub fn uint(&mut self, value: u64) {
        self.head(0, value);
    }

    #[inline]
    pub fn text(&mut self, text: &str) {
        self.bytes.reserve(HEAD + text.len());
        self.head(3, text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Writes an encoded item.
    pub fn raw(&mut self, item: &[u8]) {
        self.bytes.extend_from_slice(item);
    }

    /// Writes the head of an array of `items`, which must follow.
    pub fn array(&mut self, items: usize) {
        self.head(4, items as u64);
    }

    /// Writes the head of a map of `entries`, whose keys and values must follow.
    pub fn map(&mut self, entries: usize) {
        self.head(5, entries as u64);
    }

    /// Writes encoded items.
    pub fn spelled(&mut self, items: &[u8]) {
        self.bytes.extend_from_slice(items);
    }

    pub fn value(&mut self, value: &Value) {
        // Writing to a Vec cannot fail, and all values from our readers can be written.
        let _ = ciborium::into_writer(value, &mut self.bytes);
    }

    /// Writes a map of free-form values in the core deterministic encoding: keys in byte order, the shortest heads and floats. Returns
    /// `false` if a key occurs twice, or a value has no such form (a tag); the output must then be discarded. Recursion is as deep as the
    /// values.
    #[must_use]
    pub fn deterministic(&mut self, entries: &[(Value, Value)]) -> bool {
        let mut keyed = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let mut encoder = Self::default();
            if !encoder.deterministic_value(key) {
                return false;
            }
            keyed.push((encoder.bytes, value));
        }
        keyed.arrange_by(|(one, _), (other, _)| one.cmp(other));
        if keyed.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return false;
        }
        self.map(keyed.len());
        keyed.iter().all(|(key, value)| {
            self.bytes.extend_from_slice(key);
            self.deterministic_value(value)
        })
    }

    /// Writes any value in that encoding; returns `false` like [`Self::deterministic`].
    #[must_use]
    pub fn deterministic_value(&mut self, value: &Value) -> bool {
        match value {
            Value::Integer(integer) => match u64::try_from(i128::from(*integer)) {
                Ok(positive) => self.head(0, positive),
                // -1 - n, and n fits: CBOR integers have 64 bits.
                Err(_) => self.head(1, u64::try_from(-1 - i128::from(*integer)).unwrap_or(u64::MAX)),
            },
            Value::Bytes(bytes) => {
                self.head(2, bytes.len() as u64);
                self.bytes.extend_from_slice(bytes);
            }
            Value::Text(text) => self.text(text),
            Value::Float(float) => self.shortest_float(*float),
            Value::Bool(flag) => self.bytes.push(if *flag { 0xf5 } else { 0xf4 }),
            Value::Null => self.bytes.push(0xf6),
            Value::Array(items) => {
                self.array(items.len());
                return items.iter().all(|item| self.deterministic_value(item));
            }
            Value::Map(entries) => return self.deterministic(entries),
            _ => return false,
        }
        true
    }

    /// Writes the narrowest float with the same value; all NaNs become the 16-bit one.
    fn shortest_float(&mut self, float: f64) {
        #[allow(clippy::cast_possible_truncation)] // the loss is what is looked for
        let (half, single) = (f16::from_f64(float), float as f32);
        if float.is_nan() {
            self.bytes.extend_from_slice(&[0xf9, 0x7e, 0]);
        } else if half.to_f64().to_bits() == float.to_bits() {
            self.bytes.push(0xf9);
            self.bytes.extend_from_slice(&half.to_bits().to_be_bytes());
        } else if f64::from(single).to_bits() == float.to_bits() {
            self.bytes.push(0xfa);
            self.bytes.extend_from_slice(&single.to_bits().to_be_bytes());
        } else {
            self.bytes.push(0xfb);
            self.bytes.extend_from_slice(&float.to_bits().to_be_bytes());
        }
    }

    /// Writes a map of free-form values.
    pub fn attributes(&mut self, entries: &[(Value, Value)]) {
        self.map(entries.len());
        for (key, value) in entries {
            self.value(key);
            self.value(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_as_short_as_those_of_ciborium() {
        for number in [0, 23, 24, 255, 256, 65_535, 65_536, u64::from(u32::MAX), 1 << 32, u64::MAX] {
            let mut ours = Encoder::default();
            ours.uint(number);
            let mut theirs = Vec::new();
            ciborium::into_writer(&number, &mut theirs).unwrap();
            assert_eq!(ours.finish(), theirs);
        }
        let mut ours = Encoder::default();
        ours.attributes(&[("a".into(), Value::Array(vec![1.into(), Value::Null]))]);
        assert_eq!(ours.finish(), b"\xa1\x61a\x82\x01\xf6");
    }

    #[test]
    fn deterministic_values() {
        // RFC 8949, appendix A and §4.2.1's example of an order.
        let cases: [(Value, &[u8]); 14] = [
            (Value::Float(0.0), b"\xf9\x00\x00"),
            (Value::Float(-0.0), b"\xf9\x80\x00"),
            (Value::Float(65504.0), b"\xf9\x7b\xff"),
            (Value::Float(5.960_464_477_539_063e-8), b"\xf9\x00\x01"),
            (Value::Float(100_000.0), b"\xfa\x47\xc3\x50\x00"),
            (Value::Float(3.402_823_466_385_288_6e38), b"\xfa\x7f\x7f\xff\xff"),
            (Value::Float(1.1), b"\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a"),
            (Value::Float(f64::NEG_INFINITY), b"\xf9\xfc\x00"),
            (Value::Float(f64::from_bits(0x7ff0_0000_0000_0001)), b"\xf9\x7e\x00"),
            (Value::Integer((-1).into()), b"\x20"),
            (Value::Integer(i64::MIN.into()), b"\x3b\x7f\xff\xff\xff\xff\xff\xff\xff"),
            (Value::Bytes(vec![1, 2]), b"\x42\x01\x02"),
            (Value::Bool(true), b"\xf5"),
            (Value::Null, b"\xf6"),
        ];
        for (value, expected) in cases {
            let mut encoder = Encoder::default();
            assert!(encoder.deterministic_value(&value));
            assert_eq!(encoder.finish(), expected, "{value:?}");
        }
        let keys = [
            Value::Bool(false),
            Value::Array(vec![(-1).into()]),
            "aa".into(),
            Value::Array(vec![100.into()]),
            "z".into(),
            (-1).into(),
            100.into(),
            10.into(),
        ];
        let entries: Vec<_> = keys.into_iter().map(|key| (key, Value::Null)).collect();
        let mut encoder = Encoder::default();
        assert!(encoder.deterministic(&entries));
        assert_eq!(
            encoder.finish(),
            b"\xa8\x0a\xf6\x18\x64\xf6\x20\xf6\x61z\xf6\x62aa\xf6\x81\x18\x64\xf6\x81\x20\xf6\xf4\xf6"
        );
        let nan = |bits| (Value::Float(f64::from_bits(bits)), Value::Null);
        assert!(!Encoder::default().deterministic(&[nan(0x7ff8_0000_0000_0000), nan(0x7ff8_0000_0000_0001)]));
        assert!(!Encoder::default().deterministic_value(&Value::Tag(2, Box::new(Value::Bytes(vec![1])))));
    }
}
