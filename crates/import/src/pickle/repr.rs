//! Values in the form of Python's `repr`, used in names for keys that are not strings.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::fmt::Write;

use super::form::{Form, Key, form};
use super::ndarray;
use super::{Node, Object, Pickle, Span, Value};
use crate::repr::{decimal, float, quoted, quoted_bytes};

/// Maximum characters of a key, which also limits nested tuples.
const MAX: usize = 4096;
const DEPTH: u32 = 16;

/// Returns the first characters of a value, and the number of bytes allocated for them.
pub fn of(pickle: &Pickle, value: Value) -> (String, u64) {
    let mut shown = String::new();
    show(pickle, value, 0, &mut shown);
    let made = shown.len() as u64;
    if let Some((end, _)) = shown.char_indices().nth(MAX) {
        shown.truncate(end);
        shown.push('…');
    }
    (shown, made)
}

impl<'p> Key<'p> {
    /// Returns the key as part of a name, of which only the first characters are shown, and the number of bytes allocated for it.
    pub fn show(self, pickle: &Pickle) -> (Cow<'p, str>, u64) {
        match self {
            Self::Index(index) => {
                let shown = index.to_string();
                let made = shown.len() as u64;
                (Cow::Owned(shown), made)
            }
            Self::Text(text) => (Cow::Borrowed(text), text.len() as u64),
            Self::Value(value) => {
                let (shown, made) = of(pickle, value);
                (Cow::Owned(shown), made)
            }
        }
    }
}

impl Pickle {
    /// Returns the first characters of Python's `repr`.
    pub fn repr(&self, value: Value) -> String {
        of(self, value).0
    }
}

/// Returns whether a text exceeds the shown length, so that no more items need to be added.
fn is_full(text: &str) -> bool {
    text.len() > MAX * 4
}

fn show(pickle: &Pickle, value: Value, depth: u32, to: &mut String) {
    if depth > DEPTH || is_full(to) {
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
        // The cost does not depend on its length.
        let first = Span { length: span.length.min(4 * MAX as u64), ..*span };
        return quoted(String::from_utf8_lossy(pickle.span(first)).chars().take(MAX + 1), to);
    }
    if let Some(Node::Made(bytes)) = pickle.node(value) {
        return made(bytes, to);
    }
    if let Some(text) = pickle.text(value) {
        return quoted(text.chars().take(MAX + 1), to);
    }
    if let Some((module, name)) = pickle.global(value) {
        let _ = write!(to, "{module}.{name}");
        return;
    }
    match pickle.node(value) {
        Some(Node::Tuple(items)) => {
            let close = if items.len() == 1 { ",)" } else { ")" };
            list(pickle, ("(", items, close), depth, to);
        }
        Some(Node::List(items)) => list(pickle, ("[", items, "]"), depth, to),
        Some(Node::Set(items)) => list(pickle, ("{", items, "}"), depth, to),
        Some(Node::Bytes(span)) => {
            let first = Span { length: span.length.min(MAX as u64 + 1), ..*span };
            quoted_bytes(pickle.span(if pickle.is_left_out(*span) { *span } else { first }), to);
        }
        Some(Node::Long(span)) => to.push_str(&decimal(pickle.span(*span)).unwrap_or_else(|| "…".to_owned())),
        Some(Node::Dict(entries)) => {
            to.push('{');
            for (nth, &[key, value]) in entries.as_chunks::<2>().0.iter().enumerate() {
                if is_full(to) {
                    break;
                }
                if nth > 0 {
                    to.push_str(", ");
                }
                show(pickle, key, depth + 1, to);
                to.push_str(": ");
                show(pickle, value, depth + 1, to);
            }
            to.push('}');
        }
        Some(Node::Extension(code)) => {
            let _ = write!(to, "extension {code}");
        }
        Some(Node::Object(object)) => self::object(pickle, value, object, depth, to),
        Some(Node::Persistent(id)) => {
            to.push_str("persistent ");
            show(pickle, *id, depth + 1, to);
        }
        _ => to.push('…'),
    }
}

/// Appends a Python 2 string, as text if its first characters are: checking all of a long one costs more than showing it.
fn made(bytes: &[u8], to: &mut String) {
    let first = bytes.get(..4 * MAX).unwrap_or(bytes);
    let text = match std::str::from_utf8(first) {
        Ok(text) => Some(text),
        // A character truncated at the end.
        Err(error) if first.len() < bytes.len() && error.error_len().is_none() => {
            first.get(..error.valid_up_to()).and_then(|first| std::str::from_utf8(first).ok())
        }
        Err(_) => None,
    };
    match text {
        Some(text) => quoted(text.chars().take(MAX + 1), to),
        None => quoted_bytes(bytes.get(..=MAX).unwrap_or(bytes), to),
    }
}

fn list(pickle: &Pickle, (open, items, close): (&str, &[Value], &str), depth: u32, to: &mut String) {
    to.push_str(open);
    for (nth, &item) in items.iter().enumerate() {
        if is_full(to) {
            break;
        }
        if nth > 0 {
            to.push_str(", ");
        }
        show(pickle, item, depth + 1, to);
    }
    to.push_str(close);
}

/// Appends the result of a call: bytes, numbers and sets as in Python, otherwise the call itself and its state.
fn object(pickle: &Pickle, value: Value, object: &Object, depth: u32, to: &mut String) {
    let global = pickle.global(object.callee);
    let (builtin, numpy) = match global {
        Some(("builtins" | "__builtin__", name)) => (name, false),
        Some((module, _)) => ("", module.starts_with("numpy")),
        None => ("", false),
    };
    let known = if is_short(pickle, object) { form(pickle, value) } else { Form::Absent };
    match (known, builtin) {
        (Form::Bytes(bytes), "bytearray") => {
            to.push_str("bytearray(");
            let bytes = bytes.bytes(pickle);
            quoted_bytes(bytes.get(..=MAX).unwrap_or(bytes), to);
            return to.push(')');
        }
        (Form::Bytes(bytes), _) => {
            let bytes = bytes.bytes(pickle);
            return quoted_bytes(bytes.get(..=MAX).unwrap_or(bytes), to);
        }
        (Form::Items(items), "set" | "frozenset") => {
            if builtin == "set" && !items.is_empty() {
                return list(pickle, ("{", &items, "}"), depth, to);
            }
            let ends = if items.is_empty() { ("(", ")") } else { ("({", "})") };
            to.push_str(builtin);
            return list(pickle, (ends.0, &items, ends.1), depth, to);
        }
        (Form::Items(items), "list") => return list(pickle, ("[", &items, "]"), depth, to),
        (Form::Items(items), "tuple") => {
            let close = if items.len() == 1 { ",)" } else { ")" };
            return list(pickle, ("(", &items, close), depth, to);
        }
        (Form::Items(parts), "complex") => {
            if let [Value::Float(real), Value::Float(imaginary)] = *parts {
                return to.push_str(&complex(real, imaginary));
            }
        }
        // NumPy numbers are shown without their type.
        (Form::Bool(flag), _) if numpy => return show(pickle, Value::Bool(flag), depth, to),
        (Form::Int(number), _) if numpy => return show(pickle, Value::Int(number), depth, to),
        (Form::Float(number), _) if numpy => return show(pickle, Value::Float(number), depth, to),
        _ => {}
    }
    show(pickle, object.callee, depth + 1, to);
    let args = pickle.items(object.args).unwrap_or_default();
    if global == Some(("torch", "Size"))
        && let [items] = *args
        && let Some(items) = pickle.items(items)
    {
        return list(pickle, ("([", items, "])"), depth, to);
    }
    list(pickle, ("(", args, ")"), depth, to);
    // The state distinguishes objects created by the same call.
    for &state in &object.states {
        if is_full(to) {
            break;
        }
        show(pickle, state, depth + 1, to);
    }
}

/// Returns whether classifying a call costs no more than showing it. A key may occur with many values.
fn is_short(pickle: &Pickle, object: &Object) -> bool {
    let max = 4 * MAX;
    let Some(("builtins" | "__builtin__" | "_codecs", _)) = pickle.global(object.callee) else {
        return pickle.global(object.callee).is_some_and(|(module, name)| ndarray::is_scalar(module, name));
    };
    let args = pickle.items(object.args).unwrap_or_default();
    let length = |&arg: &Value| match pickle.node(arg) {
        Some(Node::Text(span) | Node::Bytes(span)) => usize::try_from(span.length).unwrap_or(usize::MAX),
        Some(Node::Unescaped(text)) => text.len(),
        Some(Node::Made(bytes)) => bytes.len(),
        Some(node) => node.items().map_or(0, <[Value]>::len),
        None => 0,
    };
    args.len() <= 2 && object.items.len() <= max && args.iter().all(|arg| length(arg) <= max)
}

fn complex(real: f64, imaginary: f64) -> String {
    let part = |number: f64| {
        let shown = float(number);
        shown.strip_suffix(".0").map_or(shown.clone(), str::to_owned)
    };
    let sign = if imaginary.is_sign_negative() && !imaginary.is_nan() { "" } else { "+" };
    if real == 0.0 && real.is_sign_positive() {
        return format!("{}j", part(imaginary));
    }
    format!("({}{sign}{}j)", part(real), part(imaginary))
}

#[cfg(test)]
mod tests {
    use ztensor_core::limits::Limits;

    use super::*;

    fn parsed(bytes: &[u8]) -> Pickle {
        Pickle::parse(bytes, 0, &Limits::default()).unwrap()
    }

    /// Builds a list of `wide` memoized items, nested to the given number of levels.
    fn nested(first: &[u8], wide: usize, levels: u8) -> Vec<u8> {
        let mut bytes = [first, b"q\0"].concat();
        for level in 1..=levels {
            bytes.push(b'(');
            bytes.extend([b'h', level - 1].repeat(wide));
            bytes.extend([b't', b'q', level]);
        }
        [&*bytes, b"."].concat()
    }

    #[test]
    fn the_text_of_a_key_is_limited() {
        let states = [&b"c__main__\nA\n)R"[..], &b"Nb".repeat(100_000), b"."].concat();
        let dict = [&b"}("[..], &b"NN".repeat(100_000), b"u."].concat();
        for bytes in [nested(b"N", 4000, 15), nested(b"]", 1, 15), states, dict] {
            let pickle = parsed(&bytes);
            let (shown, made) = of(&pickle, pickle.root());
            assert!(shown.chars().count() <= MAX + 1, "{} characters", shown.chars().count());
            assert!(made < 6 * MAX as u64, "{made} bytes");
        }
    }

    #[test]
    fn a_string_of_python_2_is_decoded_by_its_visible_part() {
        let long = "\u{e9}".repeat(3 * MAX);
        let raw = |bytes: &[u8]| {
            let mut shown = String::new();
            made(bytes, &mut shown);
            shown
        };
        assert_eq!(raw(b"a"), "'a'");
        assert_eq!(raw(b"\xff"), r"b'\xff'");
        assert_eq!(raw(b"\xc3"), r"b'\xc3'");
        assert!(raw(long.as_bytes()).starts_with("'\u{e9}"));
        assert!(raw(format!("a{long}").as_bytes()).starts_with("'a\u{e9}"));
        assert!(raw(&[long.as_bytes(), b"\xff"].concat()).starts_with("'\u{e9}"));
    }
}
