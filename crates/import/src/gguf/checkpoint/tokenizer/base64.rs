//! Bytes in JSON (RFC 4648, section 4).
#![forbid(unsafe_code)]

/// Decodes text; `None` if it is malformed. Padding may be missing.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    if digits.len() % 4 == 1 || text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let mut bits = 0_u32;
        for &digit in group {
            bits = bits << 6 | u32::from(value(digit)?);
        }
        // 8 bits for each digit after the first.
        let held = bits << (6 * (4 - group.len())) << 8;
        bytes.extend_from_slice(held.to_be_bytes().get(..group.len() - 1)?);
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn the_examples_of_the_specification_are_decoded() {
        let cases = [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmE=", "fooba"),
            ("Zm9vYmFy", "foobar"),
            ("Zg", "f"),
        ];
        for (text, bytes) in cases {
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        assert_eq!(decode("/+8A"), Some(vec![0xff, 0xef, 0x00]));
    }

    #[test]
    fn malformed_text_is_refused() {
        for text in ["Z", "Zm9vY", "Zm 9", "Zm9v====", "Zg===", "Zm-v", "é"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
