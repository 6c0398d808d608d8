//! Protocol Buffers messages (protobuf.dev, Encoding), walked field by field in a file. Unwanted fields are skipped by their length, so
//! that only a window of the file is in memory. Knows no message of any format.
#![forbid(unsafe_code)]

use ztensor_core::codecs::protobuf::{LONGEST, varint};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::sources::ReadAt;
use ztensor_core::work::Stop;

pub use crate::window::Run;
use crate::window::Window;

const RULE: &str = "Protocol Buffers: encoding";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    Varint(u64),
    /// A number of 4 or 8 bytes.
    Fixed(Run),
    /// A string, bytes, a message or packed numbers.
    Bytes(Run),
    /// The fields between the start and end of a group, a deprecated form.
    Group,
}

/// Maximum nesting of groups, matching the protobuf libraries.
const GROUPS: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    pub number: u32,
    pub value: Value,
    /// The whole field: tag, length and value.
    pub whole: Run,
}

/// Walks over the messages of a file.
pub struct Walker<'s> {
    window: Window<'s>,
}

impl<'s> Walker<'s> {
    /// Creates a walker that fails with `ZT_LIMIT` after reading more than `max` bytes. Skipped bytes are free.
    pub fn new(source: &'s dyn ReadAt, stop: &'s Stop, max: u64) -> Self {
        Self { window: Window::new(source, stop, max) }
    }

    /// Returns the file as one message.
    pub fn whole(&self) -> Run {
        self.window.whole()
    }

    /// Takes the next field from a message; `None` at its end. Fails with `ZT_TRUNCATED` if the file ends before the field does.
    pub fn next(&mut self, message: &mut Run) -> Result<Option<Field>> {
        if message.at >= message.end {
            return Ok(None);
        }
        let start = message.at;
        let field = self.field(message).map_err(|error| error.at(start).rule(RULE))?;
        Ok(Some(field))
    }

    fn field(&mut self, message: &mut Run) -> Result<Field> {
        let (start, mut rest) = (message.at, *message);
        let (number, wire) = self.tag(&mut rest)?;
        let value = match wire {
            3 => self.group(number, &mut rest)?,
            wire => self.value(number, wire, &mut rest)?,
        };
        *message = rest;
        Ok(Field { number, value, whole: Run { at: start, end: rest.at } })
    }

    fn tag(&mut self, rest: &mut Run) -> Result<(u32, u64)> {
        let tag = self.varint(rest)?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| (1..1 << 29).contains(number));
        let number = number.ok_or_else(|| bad(format!("{} is not a valid field number", tag >> 3)))?;
        Ok((number, tag & 7))
    }

    /// Skips a group: fields up to the matching end of the group.
    fn group(&mut self, number: u32, rest: &mut Run) -> Result<Value> {
        let mut open = vec![number];
        while let Some(&innermost) = open.last() {
            if rest.at >= rest.end {
                return Err(self.window.early(*rest, format!("the group {innermost} does not end")));
            }
            match self.tag(rest)? {
                (number, 3) if open.len() >= GROUPS => {
                    return Err(Error::new(
                        Code::Limit,
                        format!("the group {number} is nested more than {GROUPS} deep"),
                    ));
                }
                (number, 3) => open.push(number),
                (number, 4) if number == innermost => drop(open.pop()),
                (number, 4) => {
                    return Err(bad(format!("the group {innermost} ends with the number {number}")));
                }
                (number, wire) => drop(self.value(number, wire, rest)?),
            }
        }
        Ok(Value::Group)
    }

    fn value(&mut self, number: u32, wire: u64, rest: &mut Run) -> Result<Value> {
        Ok(match wire {
            0 => Value::Varint(self.varint(rest)?),
            1 => Value::Fixed(self.run(rest, 8)?),
            2 => {
                let length = self.varint(rest)?;
                Value::Bytes(self.run(rest, length)?)
            }
            5 => Value::Fixed(self.run(rest, 4)?),
            wire => return Err(bad(format!("field {number} has wire type {wire}, which does not exist"))),
        })
    }

    fn run(&self, rest: &mut Run, length: u64) -> Result<Run> {
        rest.take(length).ok_or_else(|| {
            let message = format!("{length} bytes at {} extend past the end of their message", rest.at);
            self.window.early(*rest, message)
        })
    }

    /// Takes a number from packed numbers or from a message.
    pub fn varint(&mut self, rest: &mut Run) -> Result<u64> {
        let available = rest.length().min(LONGEST as u64);
        let bytes = self.window.held(rest.at, available)?;
        let Some((value, length)) = varint(bytes) else {
            let message = format!("the number at {} does not end", rest.at);
            return Err(if available < LONGEST as u64 {
                self.window.early(*rest, message)
            } else {
                bad(message)
            });
        };
        self.window.charge(length as u64)?;
        rest.at += length as u64;
        Ok(value)
    }

    /// Returns the bytes of a range.
    pub fn bytes(&mut self, run: Run) -> Result<&[u8]> {
        self.window.bytes(run)
    }

    /// Returns a string. Fails with `ZT_BAD_INDEX` if it is not UTF-8, and with `ZT_LIMIT` if it is longer than `max` bytes.
    pub fn text(&mut self, run: Run, max: u64, what: &str) -> Result<&str> {
        if run.length() > max {
            let message = format!("{what} has {} bytes, the maximum is {max}", run.length());
            return Err(Error::new(Code::Limit, message).at(run.at));
        }
        std::str::from_utf8(self.bytes(run)?)
            .map_err(|_| Error::new(Code::BadIndex, format!("{what} is not valid UTF-8")).at(run.at))
    }

    /// Charges `bytes` that are not read, for what is retained of a message.
    pub fn charge(&mut self, bytes: u64) -> Result<()> {
        self.window.charge(bytes)
    }
}

fn bad(message: String) -> Error {
    Error::new(Code::BadIndex, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Result<Vec<(u32, Value)>> {
        let stop = Stop::default();
        let mut walker = Walker::new(&bytes, &stop, 1 << 20);
        let (mut message, mut found) = (walker.whole(), Vec::new());
        while let Some(field) = walker.next(&mut message)? {
            assert_eq!(message.at, field.whole.end);
            found.push((field.number, field.value));
        }
        Ok(found)
    }

    #[test]
    fn fields_of_all_wire_types() {
        let bytes = [0x08, 0xac, 0x02, 0x12, 2, b'a', b'b', 0x1d, 1, 2, 3, 4, 0x21, 1, 2, 3, 4, 5, 6, 7, 8];
        let run = |at, end| Run { at, end };
        let expected = vec![
            (1, Value::Varint(300)),
            (2, Value::Bytes(run(5, 7))),
            (3, Value::Fixed(run(8, 12))),
            (4, Value::Fixed(run(13, 21))),
        ];
        assert_eq!(fields(&bytes).unwrap(), expected);
        assert_eq!(fields(&[]).unwrap(), []);
        for length in 1..bytes.len() {
            let whole = [3, 7, 12].contains(&length);
            let code = fields(&bytes[..length]).map_err(|error| error.code());
            assert!(if whole { code.is_ok() } else { code == Err(Code::Truncated) }, "{length}");
        }
    }

    #[test]
    fn invalid_fields_are_refused() {
        for bytes in [&[0x00, 1][..], &[0x0b, 1], &[0x0c], &[0x0e, 1], &[0x0f, 1], &[0xff; 12]] {
            assert_eq!(fields(bytes).unwrap_err().code(), Code::BadIndex, "{bytes:?}");
        }
        let huge = [0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 7];
        assert_eq!(fields(&huge).unwrap_err().code(), Code::Truncated);
        // A message that extends past its parent.
        let (stop, bytes) = (Stop::default(), &[0x0a, 2, 0x12, 9, 1, 2, 3][..]);
        let mut walker = Walker::new(&bytes, &stop, 100);
        let mut inner = Run { at: 2, end: 4 };
        assert_eq!(walker.next(&mut inner).unwrap_err().code(), Code::BadIndex);
    }

    #[test]
    fn groups_are_skipped() {
        // Group 1 with a number, a string and group 2 in it; then a number.
        let bytes = [0x0b, 0x08, 1, 0x12, 1, b'a', 0x13, 0x14, 0x0c, 0x08, 7];
        assert_eq!(fields(&bytes).unwrap(), [(1, Value::Group), (1, Value::Varint(7))]);
        let refused: [&[u8]; 3] = [&[0x0b, 0x14], &[0x0c], &[0x0b, 0x13, 0x0c, 0x14]];
        for bytes in refused {
            assert_eq!(fields(bytes).unwrap_err().code(), Code::BadIndex, "{bytes:?}");
        }
        assert_eq!(fields(&bytes[..8]).unwrap_err().code(), Code::Truncated);
        assert_eq!(fields(&[0x0b; 200]).unwrap_err().code(), Code::Limit);
    }

    #[test]
    fn inspected_bytes_are_limited_and_skipped_bytes_are_not() {
        let mut bytes = vec![0x12, 0x80, 0x80, 0x40];
        bytes.resize(4 + (1 << 20), 0);
        bytes.extend([0x08, 1]);
        let stop = Stop::default();
        let source = &bytes[..];
        let mut walker = Walker::new(&source, &stop, 6);
        let mut message = walker.whole();
        assert!(matches!(walker.next(&mut message).unwrap().unwrap().value, Value::Bytes(_)));
        assert_eq!(walker.next(&mut message).unwrap().unwrap().value, Value::Varint(1));
        assert_eq!(walker.bytes(Run { at: 0, end: 1 }).unwrap_err().code(), Code::Limit);
    }
}
