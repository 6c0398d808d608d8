//! Texts and numbers as Python's `repr` shows them.
#![forbid(unsafe_code)]

use std::fmt::Write;

/// A text in quotes, with escapes.
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

/// The shortest digits that read back, with an exponent from 1e16 on and below 1e-4, as Python writes them.
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
    use super::float;

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
