//! XML 1.0, parsed by quick-xml with limits: no document types, hence no entities except the predefined five and character references;
//! limited nesting and attributes. Knows no schema.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use quick_xml::XmlVersion;
use quick_xml::errors::{Error as XmlError, SyntaxError};
use quick_xml::events::attributes::Attribute;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::work::Stop;

use crate::limits::{OPENVINO_ATTRIBUTES, OPENVINO_DEPTH, OPENVINO_TEXT_BYTES};

/// The UTF-8 byte order mark, which some editors prepend.
pub const MARK: &[u8] = b"\xef\xbb\xbf";
const RULE: &str = "XML 1.0";
/// Events between two checks of the stop flag.
const STEPS: u32 = 4096;

/// The start of an element.
pub struct Element<'x> {
    start: BytesStart<'x>,
    /// Its offset.
    pub at: u64,
}

impl Element<'_> {
    pub fn name(&self) -> &str {
        text(self.start.name().into_inner())
    }

    /// Returns the attributes with these names. Fails with `ZT_BAD_INDEX` if attributes are malformed or duplicated.
    pub fn attributes<const N: usize>(&self, names: [&str; N]) -> Result<[Option<String>; N]> {
        let mut found = [const { None }; N];
        for (count, attribute) in self.start.attributes().enumerate() {
            if count >= OPENVINO_ATTRIBUTES {
                let message = format!("<{}> has more than {OPENVINO_ATTRIBUTES} attributes", self.name());
                return Err(self.error(Code::Limit, &message));
            }
            let attribute = attribute.map_err(|error| self.bad(&error.to_string()))?;
            let wanted = names.iter().position(|name| name.as_bytes() == attribute.key.into_inner());
            let Some(slot) = wanted.and_then(|at| found.get_mut(at)) else { continue };
            *slot = Some(self.value(&attribute)?);
        }
        Ok(found)
    }

    /// Returns one attribute; `None` also if attributes are malformed.
    pub fn get(&self, name: &str) -> Option<String> {
        let [value] = self.attributes([name]).ok()?;
        value
    }

    fn value(&self, attribute: &Attribute<'_>) -> Result<String> {
        if attribute.value.len() > OPENVINO_TEXT_BYTES {
            let message =
                format!("an attribute of <{}> has more than {OPENVINO_TEXT_BYTES} bytes", self.name());
            return Err(self.error(Code::Limit, &message));
        }
        let value = attribute.normalized_value(XmlVersion::Implicit1_0);
        value.map(Cow::into_owned).map_err(|error| self.bad(&error.to_string()))
    }

    /// Builds a `ZT_BAD_INDEX` error at this element.
    pub fn bad(&self, message: &str) -> Error {
        self.error(Code::BadIndex, message)
    }

    fn error(&self, code: Code, message: &str) -> Error {
        Error::new(code, message).at(self.at).rule(RULE)
    }
}

/// A part of a text: the reader cuts it at ASCII alone.
fn text(part: &[u8]) -> &str {
    std::str::from_utf8(part).unwrap_or_default()
}

/// A document, from its root on.
pub struct Document<'x> {
    reader: Reader<&'x [u8]>,
    stop: &'x Stop,
    /// Number of open elements.
    depth: usize,
    steps: u32,
    /// Bytes skipped before the reader's input.
    skipped: u64,
}

impl<'x> Document<'x> {
    /// Fails with `ZT_BAD_INDEX` if the bytes are not UTF-8, and with `ZT_TRUNCATED` if they end within a character.
    pub fn new(bytes: &'x [u8], stop: &'x Stop) -> Result<Self> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let at = error.valid_up_to() as u64;
            let code = if error.error_len().is_none() { Code::Truncated } else { Code::BadIndex };
            Error::new(code, "the text is not valid UTF-8").at(at).rule(RULE)
        })?;
        Ok(Self::of(text, stop))
    }

    fn of(text: &'x str, stop: &'x Stop) -> Self {
        let rest = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut reader = Reader::from_str(rest);
        reader.config_mut().expand_empty_elements = true;
        Self { reader, stop, depth: 0, steps: 0, skipped: (text.len() - rest.len()) as u64 }
    }

    /// Returns the next child of the innermost open element, or the root; `None` at the end.
    pub fn child(&mut self) -> Result<Option<Element<'x>>> {
        loop {
            let at = self.reader.buffer_position() + self.skipped;
            match self.next()? {
                Event::Start(start) => {
                    self.depth += 1;
                    if self.depth > OPENVINO_DEPTH {
                        let message = format!("elements are more than {OPENVINO_DEPTH} deep");
                        return Err(Error::new(Code::Limit, message).at(at).rule(RULE));
                    }
                    return Ok(Some(Element { start, at }));
                }
                Event::End(_) => {
                    self.depth = self.depth.saturating_sub(1);
                    return Ok(None);
                }
                Event::Eof if self.depth > 0 => return Err(self.truncated(at)),
                Event::Eof => return Ok(None),
                Event::DocType(_) => {
                    let message = "the document has a document type, which is not supported because it could declare entities";
                    return Err(Error::new(Code::BadIndex, message).at(at).rule(RULE));
                }
                _ => {}
            }
        }
    }

    /// Returns the text of the innermost open element, up to its end. Text of nested elements is omitted.
    pub fn text(&mut self) -> Result<String> {
        let (mut text, depth) = (String::new(), self.depth);
        while self.depth >= depth {
            let at = self.reader.buffer_position() + self.skipped;
            match self.next()? {
                Event::Start(_) => self.depth += 1,
                Event::End(_) => self.depth = self.depth.saturating_sub(1),
                Event::Text(part)
                    if self.depth == depth && text.len() + part.len() <= OPENVINO_TEXT_BYTES =>
                {
                    text.push_str(self::text(&part));
                }
                Event::Eof => return Err(self.truncated(at)),
                _ => {}
            }
        }
        Ok(text)
    }

    /// Skips the rest of the innermost open element.
    pub fn skip(&mut self) -> Result<()> {
        let depth = self.depth;
        while self.depth >= depth {
            self.child()?;
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Event<'x>> {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS) {
            self.stop.check()?;
        }
        self.reader.read_event().map_err(|error| {
            let code = match &error {
                XmlError::Syntax(SyntaxError::InvalidBangMarkup) => Code::BadIndex,
                // All other syntax errors mean that markup is not terminated.
                XmlError::Syntax(_) => Code::Truncated,
                _ => Code::BadIndex,
            };
            let at = self.reader.error_position() + self.skipped;
            Error::new(code, format!("the XML is damaged: {error}")).at(at).rule(RULE)
        })
    }

    fn truncated(&self, at: u64) -> Error {
        Error::new(Code::Truncated, format!("the document ends with {} open elements", self.depth))
            .at(at)
            .rule(RULE)
    }
}

/// Returns the root of a document from its beginning, or `None` if it is not XML.
pub fn root(text: &str) -> Option<Element<'_>> {
    Document::of(text, Stop::never()).child().ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>> {
        let mut document = Document::new(text.as_bytes(), Stop::never())?;
        let mut found = Vec::new();
        let mut open = 0;
        loop {
            match document.child()? {
                Some(element) => {
                    let [value] = element.attributes(["v"])?;
                    found.push(format!("{}={}", element.name(), value.unwrap_or_default()));
                    open += 1;
                }
                None if open == 0 => return Ok(found),
                None => open -= 1,
            }
        }
    }

    #[test]
    fn elements_and_attributes() {
        let text =
            "\u{feff}<?xml version='1.0'?><!-- no --><a v='1'><b/>text<b v=\"&lt;&#228;&amp;\">x</b></a>\n";
        assert_eq!(read(text).unwrap(), ["a=1", "b=", "b=<ä&"]);
    }

    #[test]
    fn invalid_xml_is_refused() {
        let deep = "<a>".repeat(OPENVINO_DEPTH + 1);
        let wide: Vec<String> = (0..=OPENVINO_ATTRIBUTES).map(|at| format!(" a{at}=''")).collect();
        let wide = wide.concat();
        for (text, code) in [
            ("<!DOCTYPE a [<!ENTITY b 'c'>]><a v='&b;'/>", Code::BadIndex),
            ("<a v='&b;'/>", Code::BadIndex),
            ("<a v='1' v='1'/>", Code::BadIndex),
            ("<a v=1/>", Code::BadIndex),
            ("<a></b>", Code::BadIndex),
            ("</a>", Code::BadIndex),
            ("<a>", Code::Truncated),
            ("<a v='", Code::Truncated),
            (&deep, Code::Limit),
            (&format!("<a{wide}/>"), Code::Limit),
            (&format!("<a v='{}'/>", "x".repeat(OPENVINO_TEXT_BYTES + 1)), Code::Limit),
        ] {
            assert_eq!(read(text).unwrap_err().code(), code, "{text:.40}");
        }
        assert_eq!(Document::new(b"<a>\xff</a>", Stop::never()).err().unwrap().code(), Code::BadIndex);
        assert_eq!(Document::new(b"<a>\xc3", Stop::never()).err().unwrap().code(), Code::Truncated);
    }

    #[test]
    fn parts_are_passed_over() {
        let mut document =
            Document::new(b"<a><b><c>1</c><c/></b><d> 2<e>3</e></d></a>", Stop::never()).unwrap();
        assert_eq!(document.child().unwrap().unwrap().name(), "a");
        assert_eq!(document.child().unwrap().unwrap().name(), "b");
        document.skip().unwrap();
        assert_eq!(document.child().unwrap().unwrap().name(), "d");
        assert_eq!(document.text().unwrap(), " 2");
        assert!(document.child().unwrap().is_none());
        assert!(document.child().unwrap().is_none());
    }
}
