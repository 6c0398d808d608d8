//! Strings and numbers in the form of Python's `repr`.
#![forbid(unsafe_code)]

use std::fmt::Write;

/// Appends a quoted string with escapes.
pub fn quoted(text: impl Iterator<Item = char> + Clone, to: &mut String) {
    let double = text.clone().any(|char| char == '\'') && !text.clone().any(|char| char == '"');
    let quote = if double { '"' } else { '\'' };
    to.push(quote);
    for char in text {
        match char {
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            '\\' => to.push_str("\\\\"),
            _ if char == quote => to.extend(['\\', char]),
            _ if char.is_control() => {
                let _ = write!(to, "\\x{:02x}", u32::from(char));
            }
            _ => to.push(char),
        }
    }
    to.push(quote);
}

/// Appends quoted bytes with the prefix `b`, escaping all but printable ASCII.
pub fn quoted_bytes(bytes: &[u8], to: &mut String) {
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { b'"' } else { b'\'' };
    to.extend(['b', char::from(quote)]);
    for &byte in bytes {
        match byte {
            b'\n' => to.push_str("\\n"),
            b'\r' => to.push_str("\\r"),
            b'\t' => to.push_str("\\t"),
            b'\\' => to.push_str("\\\\"),
            _ if byte == quote => to.extend(['\\', char::from(byte)]),
            b' '..=b'~' => to.push(char::from(byte)),
            _ => {
                let _ = write!(to, "\\x{byte:02x}");
            }
        }
    }
    to.push(char::from(quote));
}

/// Returns the digits of a little-endian two's complement integer, or `None` if it has more than 128 bytes: a key may occur with many
/// values, and the work grows with the square of the length.
pub fn decimal(bytes: &[u8]) -> Option<String> {
    if bytes.len() > 128 {
        return None;
    }
    let negative = bytes.last().is_some_and(|top| top & 0x80 != 0);
    // The magnitude of a negative number is its complement plus 1.
    let mut carry = u16::from(negative);
    let mut size: Vec<u8> = Vec::with_capacity(bytes.len() + 1);
    for &byte in bytes {
        let sum = u16::from(if negative { !byte } else { byte }) + carry;
        size.push(sum.to_le_bytes()[0]);
        carry = sum >> 8;
    }
    size.push(carry.to_le_bytes()[0]);
    // Nine digits at a time, least significant first.
    let mut groups = Vec::new();
    while size.iter().any(|&byte| byte > 0) {
        let mut rest = 0_u64;
        for byte in size.iter_mut().rev() {
            let sum = rest << 8 | u64::from(*byte);
            *byte = (sum / 1_000_000_000).to_le_bytes()[0];
            rest = sum % 1_000_000_000;
        }
        groups.push(rest);
    }
    let mut digits = String::from(if negative { "-" } else { "" });
    for (nth, group) in groups.iter().rev().enumerate() {
        let _ = if nth == 0 { write!(digits, "{group}") } else { write!(digits, "{group:09}") };
    }
    Some(if groups.is_empty() { "0".to_owned() } else { digits })
}

/// Returns the shortest digits that round-trip, with an exponent from 1e16 on and below 1e-4, as in Python.
pub fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let size = number.abs();
    if size == 0.0 || (1e-4..1e16).contains(&size) {
        return format!("{number:?}");
    }
    let shown = format!("{number:e}");
    let Some((digits, exponent)) = shown.split_once('e') else { return shown };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(("+", exponent), |exponent| ("-", exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_python_shows_them() {
        let cases: [(&[u8], &str); 5] = [
            (b"conv.weight", "b'conv.weight'"),
            (b"it's", "b\"it's\""),
            (b"'\"", "b'\\'\"'"),
            (b"\x00\x7f\x80\xff\t\n\r\\", r"b'\x00\x7f\x80\xff\t\n\r\\'"),
            (b"", "b''"),
        ];
        for (bytes, expected) in cases {
            let mut shown = String::new();
            quoted_bytes(bytes, &mut shown);
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn long_integers_as_python_shows_them() {
        for number in [0, 1, -1, 999_999_999, 1_000_000_000, -1_000_000_000, i128::MAX, i128::MIN, 1 << 70] {
            assert_eq!(decimal(&number.to_le_bytes()).as_deref(), Some(&*number.to_string()));
        }
        assert_eq!(decimal(&[0x00, 0xff]).as_deref(), Some("-256"));
        assert_eq!(decimal(&[0; 129]), None);
    }

    #[test]
    fn floats_as_python_shows_them() {
        let cases = [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e-7, "1.5e-07"),
            (0.0001, "0.0001"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "nan"),
        ];
        for (number, expected) in cases {
            assert_eq!(float(number), expected);
        }
    }
}
