//! Values as Python's `repr` shows them: what stands in a name where a key is no text.
#![forbid(unsafe_code)]

use std::fmt::Write;

use super::{Node, Pickle, Span, Value};

/// Characters of one key, and nested tuples in it.
const MOST: usize = 256;
const DEPTH: u32 = 16;

pub fn of(pickle: &Pickle, value: Value) -> String {
    let mut shown = String::new();
    show(pickle, value, 0, &mut shown);
    if let Some((end, _)) = shown.char_indices().nth(MOST) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

fn show(pickle: &Pickle, value: Value, depth: u32, to: &mut String) {
    if depth > DEPTH || to.len() > MOST * 4 {
        to.push('…');
        return;
    }
    match value {
        Value::None => to.push_str("None"),
        Value::Bool(flag) => to.push_str(if flag { "True" } else { "False" }),
        Value::Int(number) => to.push_str(&number.to_string()),
        Value::Float(number) => to.push_str(&float(number)),
        Value::Node(_) => node(pickle, value, depth, to),
    }
}

fn node(pickle: &Pickle, value: Value, depth: u32, to: &mut String) {
    if let Some(Node::Text(span)) = pickle.node(value) {
        // However long it is, what is shown costs the same.
        let first = Span { length: span.length.min(4 * MOST as u64), ..*span };
        return quoted(String::from_utf8_lossy(pickle.span(first)).chars().take(MOST + 1), to);
    }
    if let Some(text) = pickle.text(value) {
        return quoted(text.chars().take(MOST + 1), to);
    }
    if let Some((module, name)) = pickle.global(value) {
        let _ = write!(to, "{module}.{name}");
        return;
    }
    let (open, items, close) = match pickle.node(value) {
        Some(Node::Tuple(items)) => ("(", &**items, if items.len() == 1 { ",)" } else { ")" }),
        Some(Node::List(items)) => ("[", &**items, "]"),
        Some(Node::Set(items)) => ("{", &**items, "}"),
        Some(Node::Bytes(span)) => {
            to.push('b');
            return quoted(pickle.span(*span).iter().take(MOST + 1).map(|&byte| char::from(byte)), to);
        }
        _ => return to.push('…'),
    };
    to.push_str(open);
    for (nth, &item) in items.iter().enumerate().take(MOST) {
        if nth > 0 {
            to.push_str(", ");
        }
        show(pickle, item, depth + 1, to);
    }
    to.push_str(close);
}

fn quoted(text: impl Iterator<Item = char> + Clone, to: &mut String) {
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
fn float(number: f64) -> String {
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
