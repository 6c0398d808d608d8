//! Writes CBOR (RFC 8949) in definite lengths and shortest heads.
#![forbid(unsafe_code)]

use ciborium::Value;

/// The bytes of an index in the making.
#[derive(Default)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn head(&mut self, major: u8, argument: u64) {
        let bytes = argument.to_be_bytes();
        let (info, tail) = match argument {
            0..24 => (bytes[7], &bytes[8..]),
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

    pub fn text(&mut self, text: &str) {
        self.head(3, text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// The head of an array of `items`, which must follow.
    pub fn array(&mut self, items: usize) {
        self.head(4, items as u64);
    }

    /// The head of a map of `entries`, whose keys and values must follow.
    pub fn map(&mut self, entries: usize) {
        self.head(5, entries as u64);
    }

    pub fn value(&mut self, value: &Value) {
        // Writing to a Vec cannot fail, and our reader's values are all of the kinds that can be written.
        let _ = ciborium::into_writer(value, &mut self.bytes);
    }

    /// A map of free-form values.
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
    fn heads_are_as_short_as_ciborium_has_them() {
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
}
