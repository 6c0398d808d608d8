//! The attributes of a file that a target can hold. Where it holds only text, other plain values become JSON.
#![forbid(unsafe_code)]

use ciborium::Value;

use super::refusal::{attribute_refusal, is_held};
use crate::error::{Error, Result};
use crate::formats::FileAttributes;
use crate::model::{Attributes, Entries};
use crate::syntax::json_text::JsonText;
use crate::syntax::values::{Event, Tree, Visit};
use crate::write::WriteFormat;

/// Attributes that a target holds, and the keys of the others.
pub struct Fitted {
    pub held: Attributes,
    pub left_out: Vec<Value>,
    /// Why none is held, although each by itself could be: there are too many.
    pub refused: Option<Error>,
}

/// Returns what a format holds of attributes.
pub fn fit(attributes: &Attributes, format: &'static WriteFormat, canonical: bool) -> Result<Fitted> {
    let (held, left_out) = if format.attributes == FileAttributes::Text {
        let mut texts = Texts::default();
        attributes.visit(&mut texts)?;
        (texts.held, texts.left_out)
    } else {
        let all = format.values_of(attributes)?.into_owned();
        let (held, others): (Entries, Entries) =
            all.into_iter().partition(|entry| is_held(std::slice::from_ref(entry), format, canonical));
        (held, others.into_iter().map(|(key, _)| key).collect())
    };
    let held = Attributes::from(held);
    let refused = attribute_refusal(&held, format, canonical);
    let held = if refused.is_none() { held } else { Attributes::default() };
    Ok(Fitted { held, left_out, refused })
}

/// Collects keys and values as text.
#[derive(Default)]
struct Texts {
    held: Entries,
    left_out: Vec<Value>,
    key: Option<Value>,
    /// A key that is being visited.
    tree: Tree,
    depth: u32,
    json: JsonText,
}

impl Visit for Texts {
    fn visit(&mut self, event: Event<'_>) -> Result<()> {
        let is_outermost = self.depth == 0;
        match event {
            Event::Array | Event::Map => self.depth += 1,
            Event::End => self.depth -= 1,
            _ => {}
        }
        let is_whole = self.depth == 0 && !matches!(event, Event::Tag(_));
        let Some(key) = &self.key else {
            self.tree.visit(event)?;
            if is_whole {
                self.key = Some(std::mem::take(&mut self.tree).value()?);
            }
            return Ok(());
        };
        let is_text = key.is_text();
        let value = match event {
            // A text stays as it is.
            Event::Text(text) if is_outermost => {
                self.json = JsonText::default();
                Some(text.to_owned())
            }
            // Not written only to be left out.
            _ if !is_text => None,
            event => {
                self.json.visit(event)?;
                if !is_whole {
                    return Ok(());
                }
                self.json.take()
            }
        };
        if !is_whole {
            return Ok(());
        }
        let key = self.key.take().unwrap_or(Value::Null);
        match value.filter(|_| is_text) {
            Some(value) => self.held.push((key, Value::Text(value))),
            None => self.left_out.push(key),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::safetensors;
    use crate::syntax::values::visit_entries;

    #[test]
    fn a_target_of_texts_holds_plain_values_as_json() {
        let entries: Entries = vec![
            ("text".into(), "a\nb".into()),
            ("list".into(), Value::Array(vec![1.into(), "x".into()])),
            (1.into(), "number".into()),
            ("bytes".into(), Value::Bytes(vec![1])),
            (Value::Array(vec![1.into()]), Value::Array(vec![Value::Map(Vec::new())])),
            ("tagged".into(), Value::Tag(9, Box::new("t".into()))),
            ("last".into(), Value::Bool(true)),
        ];
        let lazy = {
            let entries = entries.clone();
            Attributes::lazy(move |to| visit_entries(&entries, to))
        };
        for attributes in [Attributes::from(entries), lazy] {
            let Fitted { held, left_out, refused } =
                fit(&attributes, &safetensors::WRITE_FORMAT, false).unwrap();
            let text = |key: &str, value: &str| (Value::from(key), Value::from(value));
            let expected =
                [text("text", "a\nb"), text("list", "[1,\"x\"]"), text("tagged", "t"), text("last", "true")];
            assert_eq!(*held.values().unwrap(), expected);
            assert_eq!(left_out, [1.into(), "bytes".into(), Value::Array(vec![1.into()])]);
            assert!(refused.is_none());
        }
    }
}
