//! Strings of protocol 0, one per line.
#![forbid(unsafe_code)]

/// Returns the bytes of a quoted Python 2 string with escapes (`codecs.escape_decode`), or `None` if it is not quoted.
pub fn python2(line: &[u8]) -> Option<Vec<u8>> {
    let line = line.trim_ascii();
    let quote = *line.first().filter(|byte| matches!(byte, b'\'' | b'"'))?;
    let inner = line.get(1..)?.strip_suffix(&[quote])?;
    let mut bytes = inner.iter().copied().peekable();
    let mut made = Vec::with_capacity(inner.len());
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            made.push(byte);
            continue;
        }
        match bytes.next()? {
            b'n' => made.push(b'\n'),
            b't' => made.push(b'\t'),
            b'r' => made.push(b'\r'),
            b'a' => made.push(7),
            b'b' => made.push(8),
            b'f' => made.push(12),
            b'v' => made.push(11),
            b'x' => {
                let (high, low) = (hex(bytes.next()?)?, hex(bytes.next()?)?);
                made.push(high << 4 | low);
            }
            digit @ b'0'..=b'7' => {
                let mut value = u16::from(digit - b'0');
                for _ in 0..2 {
                    let Some(digit) = bytes.next_if(|byte| matches!(byte, b'0'..=b'7')) else { break };
                    value = value << 3 | u16::from(digit - b'0');
                }
                made.push(value.to_le_bytes()[0]);
            }
            same @ (b'\\' | b'\'' | b'"') => made.push(same),
            other => made.extend([b'\\', other]),
        }
    }
    Some(made)
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Decodes UTF-8 with lone surrogates, which Python writes (`surrogatepass`). They become escapes, so that strings remain distinct. Other
/// invalid bytes are replaced.
pub fn surrogates(mut bytes: &[u8]) -> String {
    let mut made = String::with_capacity(bytes.len());
    loop {
        let Err(error) = std::str::from_utf8(bytes) else {
            made.push_str(std::str::from_utf8(bytes).unwrap_or_default());
            return made;
        };
        let (good, rest) = bytes.split_at_checked(error.valid_up_to()).unwrap_or_default();
        made.push_str(std::str::from_utf8(good).unwrap_or_default());
        bytes = if let [0xed, high @ 0xa0..=0xbf, low @ 0x80..=0xbf, rest @ ..] = rest {
            made.push_str(&escape(0xd000 | u32::from(high & 0x3f) << 6 | u32::from(low & 0x3f)));
            rest
        } else {
            made.push('\u{fffd}');
            rest.get(error.error_len().unwrap_or(rest.len())..).unwrap_or_default()
        };
    }
}

fn escape(surrogate: u32) -> String {
    format!("\\u{surrogate:04x}")
}

/// Decodes Latin-1 with `\uXXXX` and `\UXXXXXXXX`. Lone surrogates remain escapes. `None` if an escape is truncated.
pub fn raw_unicode_escape(line: &[u8]) -> Option<String> {
    let mut made = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = match (byte, tail.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => {
                made.push(char::from(byte));
                rest = tail;
                continue;
            }
        };
        let code = std::str::from_utf8(tail.get(1..=digits)?).ok()?;
        let code = code.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(code)?;
        let code = u32::from_str_radix(code, 16).ok()?;
        match char::from_u32(code) {
            Some(char) => made.push(char),
            None if (0xd800..0xe000).contains(&code) => made.push_str(&escape(code)),
            None => made.push('\u{fffd}'),
        }
        rest = tail.get(1 + digits..)?;
    }
    Some(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_python_2() {
        let cases: [(&[u8], Option<&[u8]>); 8] = [
            (b"'a'", Some(b"a")),
            (b"\"it's\"", Some(b"it's")),
            (br"'\x41\101\7\n\\\'\q'", Some(b"AA\x07\n\\'\\q")),
            (b"''", Some(b"")),
            (b"'a", None),
            (b"a", None),
            (b"'", None),
            (br"'\x4'", None),
        ];
        for (line, expected) in cases {
            assert_eq!(python2(line).as_deref(), expected, "{line:?}");
        }
    }

    #[test]
    fn lone_surrogates_remain_distinct() {
        let cases: [(&[u8], &str); 6] = [
            (b"a\xed\xb2\x80b", "a\\udc80b"),
            (b"\xed\xa0\xbd\xed\xb8\x80", "\\ud83d\\ude00"),
            (b"\xff", "\u{fffd}"),
            (b"a\xc3", "a\u{fffd}"),
            (b"\xed\xb2", "\u{fffd}\u{fffd}"),
            (b"", ""),
        ];
        for (bytes, expected) in cases {
            assert_eq!(surrogates(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn unicode_escapes() {
        let cases: [(&[u8], Option<&str>); 6] = [
            (b"a\xe9", Some("aé")),
            (br"\u20ac\U0001f600\n", Some("€😀\\n")),
            (br"\ud800", Some("\\ud800")),
            (br"\u20a", None),
            (br"\u+123", None),
            (b"", Some("")),
        ];
        for (line, expected) in cases {
            assert_eq!(raw_unicode_escape(line).as_deref(), expected, "{line:?}");
        }
    }
}
