//! Values as Python's `repr` shows them: what stands in a name where a key is no text.
#![forbid(unsafe_code)]

use std::fmt::Write;

use super::{Node, Pickle, Span, Value};
use crate::repr::{float, quoted};

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
