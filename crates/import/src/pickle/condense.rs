//! The pickle of a file without its long byte strings, which are the data of arrays: only the opcodes around them are read.
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::Input;

use crate::window::{Run, Window};

const RULE: &str = "pickletools: opcodes of protocols 0 to 5";
/// Minimum bytes of a byte string that is skipped. Shorter ones cost less than recording their positions.
const LONG: u64 = 1 << 10;
/// Bytes of a line that are read first.
const LINE: u64 = 64;

/// A byte string that was skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// Its offset in the whole pickle.
    pub start: u64,
    pub length: u64,
    /// Bytes skipped before it.
    before: u64,
}

impl Gap {
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }

    /// Returns the bytes skipped up to its end.
    pub fn left_out(&self) -> u64 {
        self.before.saturating_add(self.length)
    }
}

pub struct Condensed {
    pub bytes: Vec<u8>,
    /// In file order.
    pub gaps: Vec<Gap>,
}

/// The argument of an opcode.
enum Argument {
    /// This many bytes.
    Bytes(u64),
    /// This many lines.
    Lines(u32),
    /// A length field of this many bytes, and the data it counts.
    Counted(u64),
    /// A byte string with a length field of this many bytes.
    Data(u64),
}

/// Reads the opcodes up to the first STOP. Fails with `ZT_TRUNCATED` if there is none, and with `ZT_BAD_INDEX` at an invalid opcode.
pub fn read(input: &Input<'_>, max: u64) -> Result<Condensed> {
    let mut window = Window::new(input.source, input.stop, max);
    let mut rest = window.whole();
    let mut condensed = Condensed { bytes: Vec::new(), gaps: Vec::new() };
    loop {
        let start = rest.at;
        match condensed.step(&mut window, &mut rest) {
            Ok(true) => return Ok(condensed),
            Ok(false) => {}
            Err(error) => return Err(error.at(start).rule(RULE)),
        }
    }
}

impl Condensed {
    /// Copies an opcode and its argument. Returns whether it is STOP.
    fn step(&mut self, window: &mut Window<'_>, rest: &mut Run) -> Result<bool> {
        let opcode = *self.copy(window, rest, 1)?.first().ok_or_else(ends_early)?;
        match argument(opcode)? {
            Argument::Bytes(count) => drop(self.copy(window, rest, count)?),
            Argument::Lines(count) => {
                for _ in 0..count {
                    let length = line(window, *rest)?;
                    self.copy(window, rest, length)?;
                }
            }
            Argument::Counted(width) => {
                let length = number(self.copy(window, rest, width)?);
                self.copy(window, rest, length)?;
            }
            Argument::Data(width) => {
                let length = number(self.copy(window, rest, width)?);
                if length < LONG {
                    self.copy(window, rest, length)?;
                } else {
                    let body = rest.take(length).ok_or_else(ends_early)?;
                    let before = self.gaps.last().map_or(0, Gap::left_out);
                    self.gaps.push(Gap { start: body.at, length, before });
                }
            }
        }
        Ok(opcode == b'.')
    }

    fn copy(&mut self, window: &mut Window<'_>, rest: &mut Run, count: u64) -> Result<&[u8]> {
        let run = rest.take(count).ok_or_else(ends_early)?;
        let from = self.bytes.len();
        self.bytes.extend_from_slice(window.bytes(run)?);
        Ok(self.bytes.get(from..).unwrap_or_default())
    }
}

fn argument(opcode: u8) -> Result<Argument> {
    Ok(match opcode {
        b'('
        | b'.'
        | b'0'
        | b'1'
        | b'2'
        | b'N'
        | b']'
        | b'}'
        | b')'
        | b'l'
        | b't'
        | b'd'
        | b'a'
        | b'e'
        | b's'
        | b'u'
        | b'b'
        | b'Q'
        | b'R'
        | b'o'
        | 0x81
        | 0x85..=0x89
        | 0x8f..=0x94
        | 0x97
        | 0x98 => Argument::Bytes(0),
        b'K' | b'h' | b'q' | 0x80 | 0x82 => Argument::Bytes(1),
        b'M' | 0x83 => Argument::Bytes(2),
        b'J' | b'j' | b'r' | 0x84 => Argument::Bytes(4),
        b'G' | 0x95 => Argument::Bytes(8),
        b'I' | b'L' | b'F' | b'S' | b'V' | b'g' | b'p' | b'P' => Argument::Lines(1),
        b'c' | b'i' => Argument::Lines(2),
        b'U' | 0x8a | 0x8c | b'C' => Argument::Counted(1),
        b'T' | b'X' | 0x8b => Argument::Counted(4),
        0x8d => Argument::Counted(8),
        b'B' => Argument::Data(4),
        0x8e | 0x96 => Argument::Data(8),
        other => {
            let message = format!("{other:#04x} is not a pickle opcode");
            return Err(Error::new(Code::BadIndex, message));
        }
    })
}

/// Returns the number of bytes up to and including the next line feed.
fn line(window: &mut Window<'_>, rest: Run) -> Result<u64> {
    let mut looked_at = LINE;
    loop {
        let count = looked_at.min(rest.length());
        window.charge(count)?;
        let found = window.held(rest.at, count)?.iter().position(|&byte| byte == b'\n');
        match found {
            Some(at) => return Ok(at as u64 + 1),
            None if count == rest.length() => return Err(ends_early()),
            None => looked_at = looked_at.saturating_mul(2),
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn ends_early() -> Error {
    Error::new(Code::Truncated, "the pickle ends before its STOP")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ztensor_core::limits::Limits;
    use ztensor_core::work::Stop;

    use super::*;
    use crate::pickle::{Node, Pickle, Span};

    /// Builds a list of byte strings of these lengths, each after its number, using every opcode for byte strings.
    fn pickle_of(lengths: &[u16]) -> Vec<u8> {
        let mut bytes = b"\x80\x04](".to_vec();
        for (nth, &length) in (0_u8..).zip(lengths) {
            bytes.extend([b'K', nth]);
            match (nth % 3, u8::try_from(length)) {
                (0, Ok(length)) => bytes.extend([b'C', length]),
                (1, _) => {
                    bytes.push(b'B');
                    bytes.extend(u32::from(length).to_le_bytes());
                }
                _ => {
                    bytes.push(0x8e);
                    bytes.extend(u64::from(length).to_le_bytes());
                }
            }
            bytes.extend((0..length).map(|at| at.to_le_bytes()[0] ^ nth));
        }
        bytes.extend(b"e.behind");
        bytes
    }

    fn read_of(bytes: &[u8], max: u64) -> Result<Pickle> {
        Pickle::read(&Input::alone(&bytes, &Limits::default(), Stop::never()), max)
    }

    fn strings(pickle: &Pickle) -> Vec<Span> {
        let all = pickle.nodes().iter();
        all.filter_map(|node| if let Node::Bytes(span) = node { Some(*span) } else { None }).collect()
    }

    proptest! {
        #[test]
        fn offsets_equal_those_of_the_whole_pickle(lengths in prop::collection::vec(0..3000_u16, 0..20)) {
            let bytes = pickle_of(&lengths);
            let whole = Pickle::parse(&bytes, 0, &Limits::default()).unwrap();
            let condensed = read_of(&bytes, u64::MAX).unwrap();
            prop_assert_eq!(whole.items(whole.root()), condensed.items(condensed.root()));
            let spans = strings(&whole);
            prop_assert_eq!(&spans, &strings(&condensed));
            prop_assert_eq!(spans.len(), lengths.len());
            for span in spans {
                prop_assert_eq!(condensed.is_left_out(span), span.length >= LONG);
                let expected = if span.length >= LONG { &[][..] } else { whole.span(span) };
                prop_assert_eq!(condensed.span(span), expected);
            }
        }

        #[test]
        fn truncated_pickles_are_detected(lengths in prop::collection::vec(0..3000_u16, 1..8), part in 0.0..1.0_f64) {
            let bytes = pickle_of(&lengths);
            let end = bytes.len() - b".behind".len();
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
            let length = (end as f64 * part) as usize;
            prop_assert_eq!(read_of(&bytes[..length], u64::MAX).unwrap_err().code(), Code::Truncated);
        }
    }

    #[test]
    fn omitted_strings_do_not_count() {
        let bytes = pickle_of(&[60_000, 5, 60_000]);
        assert!(read_of(&bytes, 200).is_ok());
        assert_eq!(read_of(&bytes, 20).unwrap_err().code(), Code::Limit);
        // A frame may extend over skipped bytes, but not past the end.
        for (length, code) in [(2016_u64, None), (2017, Some(Code::Truncated))] {
            let mut framed = b"\x80\x04\x95".to_vec();
            framed.extend(length.to_le_bytes());
            framed.extend(b"\x8e\xd0\x07\0\0\0\0\0\0");
            framed.resize(framed.len() + 2000, 7);
            framed.extend(b"000000.");
            assert_eq!(read_of(&framed, 100).err().map(|error| error.code()), code.or(Some(Code::BadIndex)));
        }
        assert_eq!(read_of(b"\x80\x04\xff.", 100).unwrap_err().code(), Code::BadIndex);
        assert_eq!(read_of(b"cno line feed", 100).unwrap_err().code(), Code::Truncated);
    }
}
