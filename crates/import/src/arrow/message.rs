//! Encapsulated messages (Columnar Format, "Encapsulated message format"): a length, a flatbuffer, and a body.
#![forbid(unsafe_code)]

use ztensor_core::checked::end_within;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::Input;

use crate::flatbuffer::{Flat, Table};
use crate::limits::ARROW_INDEX_BYTES;

pub const RULE: &str = "Arrow Columnar Format: Encapsulated message format";
/// The marker before the length, used since Arrow 0.15.
pub const CONTINUATION: [u8; 4] = [0xff; 4];

/// The type of a message, by the number of its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageType {
    Schema,
    Dictionary,
    Batch,
    Tensor,
    Sparse,
    Other(u8),
}

pub struct Message<'s> {
    pub flat: Flat<'s>,
    pub kind: MessageType,
    pub header: Table,
    /// From 1 on.
    pub version: u16,
    /// Positions of the message and its body in the file.
    pub at: u64,
    pub body: Body,
    /// Whether it has custom metadata.
    pub has_metadata: bool,
}

/// The bytes after the flatbuffer.
#[derive(Clone, Copy, Debug)]
pub struct Body {
    pub at: u64,
    pub length: u64,
}

/// A byte range of a body, as stated by the message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Buffer {
    /// Position in the file.
    pub at: u64,
    pub length: u64,
}

impl Body {
    /// Validates the range of a buffer.
    pub fn buffer(self, bytes: [u8; 16]) -> Result<Buffer> {
        let ([offset, length], _) = bytes.as_chunks::<8>() else { return Ok(Buffer::default()) };
        let (offset, length) = (i64::from_le_bytes(*offset), i64::from_le_bytes(*length));
        let both = u64::try_from(offset).ok().zip(u64::try_from(length).ok());
        let both = both.filter(|&(offset, length)| end_within(offset, length, self.length).is_some());
        both.map(|(offset, length)| Buffer { at: self.at + offset, length }).ok_or_else(|| {
            let message = format!(
                "a buffer of {length} bytes at {offset} is outside its body of {} bytes",
                self.length
            );
            Error::new(Code::BadIndex, message).at(self.at).rule(RULE)
        })
    }

    pub fn end(self) -> u64 {
        self.at + self.length
    }
}

/// Reads messages, limiting the total size of their flatbuffers.
pub struct Messages<'i> {
    pub input: &'i Input<'i>,
    left: u64,
}

impl<'i> Messages<'i> {
    pub fn new(input: &'i Input<'i>) -> Self {
        Self { input, left: input.limits.max_index_bytes.unwrap_or(ARROW_INDEX_BYTES) }
    }

    /// Returns bytes of the index from `at` on.
    pub fn read(&mut self, at: u64, length: u64) -> Result<Vec<u8>> {
        if end_within(at, length, self.input.length()).is_none() {
            let message = format!("{length} bytes at {at} extend past the end of the file");
            return Err(Error::new(Code::Truncated, message).at(at).rule(RULE));
        }
        self.left = self.left.checked_sub(length).ok_or_else(|| {
            let message = "the messages without their data have more bytes than allowed";
            Error::new(Code::Limit, message).option("maxIndexBytes").at(at)
        })?;
        self.input.stop.check()?;
        self.input.read_vec(at, length)
    }

    /// Returns the message at `at`, or `None` at the end of the stream. `before_body`: the number of bytes before its body, if known.
    pub fn next(&mut self, at: u64, before_body: Option<u64>) -> Result<Option<Message<'i>>> {
        let bad = |code, message: String| Err(Error::new(code, message).at(at).rule(RULE));
        let available = self.input.length().saturating_sub(at);
        if available < 4 {
            return bad(Code::Truncated, "the file ends before a message".to_owned());
        }
        let start = self.read(at, available.min(8))?;
        let word = |from: usize| start.get(from..from + 4).and_then(|bytes| bytes.try_into().ok());
        let (prefix, length) = match word(0) {
            Some(CONTINUATION) => (8, word(4)),
            first => (4, first),
        };
        let Some(length) = length.map(i32::from_le_bytes) else {
            return bad(Code::Truncated, "the file ends in the length of a message".to_owned());
        };
        if length == 0 {
            return Ok(None);
        }
        let Ok(length) = u64::try_from(length) else {
            return bad(Code::BadIndex, format!("a message has {length} bytes"));
        };
        let from = at + prefix;
        let mut flat = Flat::of_bytes(self.read(from, length)?, from, self.input.stop);
        let table = flat.root()?;
        let version = flat.i16(table, 0)?;
        // Before version 4 (2017) metadata was encoded differently.
        if !(3..=4).contains(&version) {
            let message =
                format!("the metadata has version {}, supported are 4 and 5", i32::from(version) + 1);
            return bad(Code::UnsupportedVersion, message);
        }
        let kind = match flat.u8(table, 1)? {
            1 => MessageType::Schema,
            2 => MessageType::Dictionary,
            3 => MessageType::Batch,
            4 => MessageType::Tensor,
            5 => MessageType::Sparse,
            other => MessageType::Other(other),
        };
        let Some(header) = flat.table(table, 2)? else {
            return bad(Code::BadIndex, "a message has no header".to_owned());
        };
        let Ok(body_length) = u64::try_from(flat.i64(table, 3)?) else {
            return bad(Code::BadIndex, "the length of a body is negative".to_owned());
        };
        let before = before_body.unwrap_or(prefix + length);
        let body = at.checked_add(before).filter(|_| before >= prefix + length);
        let Some(body) = body else {
            return bad(
                Code::BadIndex,
                format!("a message of {length} bytes should have its body after {before}"),
            );
        };
        if end_within(body, body_length, self.input.length()).is_none() {
            let message = format!("a body of {body_length} bytes at {body} extends past the end of the file");
            return bad(Code::Truncated, message);
        }
        let has_metadata = flat.vector(table, 4, 4)?.is_some_and(|entries| entries.count > 0);
        let version = version.unsigned_abs() + 1;
        let body = Body { at: body, length: body_length };
        Ok(Some(Message { flat, kind, header, version, at, body, has_metadata }))
    }
}
