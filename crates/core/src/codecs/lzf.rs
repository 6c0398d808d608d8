//! LZF, as written by h5py's filter and `liblzf`: literal runs, and references to bytes up to 8 KiB back.
#![forbid(unsafe_code)]

use super::frames::Size;
use crate::error::{Code, Error, Result};

/// A control byte below this begins a literal run of that many bytes plus one.
const RUN: u8 = 1 << 5;

/// Decodes all of the input.
pub fn decode(input: &[u8], size: Size) -> Result<Vec<u8>> {
    /// The longest reference takes 3 bytes.
    const RATIO: usize = 264 / 3 + 1;
    let max = match size {
        Size::Exactly(length) | Size::UpTo(length) => usize::try_from(length).unwrap_or(usize::MAX),
    };
    let mut output = Vec::with_capacity(max.min(input.len().saturating_mul(RATIO)));
    let mut rest = input;
    while let Some(step) = next(&mut rest)? {
        let length = step.length();
        if output.len().saturating_add(length) > max {
            let code = if matches!(size, Size::Exactly(_)) { Code::Decode } else { Code::Limit };
            return Err(Error::new(code, format!("LZF data decodes to more than {max} bytes")));
        }
        match step {
            Step::Run(bytes) => output.extend_from_slice(bytes),
            Step::Back { distance, length } => {
                let from = output.len().checked_sub(distance).ok_or_else(before)?;
                for at in from..from + length {
                    let byte = output.get(at).copied().ok_or_else(before)?;
                    output.push(byte);
                }
            }
        }
    }
    match size {
        Size::Exactly(length) if output.len() as u64 != length => Err(short(output.len(), length)),
        _ => Ok(output),
    }
}

/// Decodes into memory that must be filled completely.
pub fn decode_into(input: &[u8], output: &mut [u8]) -> Result<()> {
    let (mut rest, mut at, total) = (input, 0_usize, output.len());
    while let Some(step) = next(&mut rest)? {
        let end = at.saturating_add(step.length());
        let beyond = || Error::new(Code::Decode, format!("LZF data decodes to more than {total} bytes"));
        if end > total {
            return Err(beyond());
        }
        match step {
            Step::Run(bytes) => output.get_mut(at..end).ok_or_else(beyond)?.copy_from_slice(bytes),
            Step::Back { distance, length } => {
                let from = at.checked_sub(distance).ok_or_else(before)?;
                if distance >= length {
                    output.copy_within(from..from + length, at);
                } else {
                    let (known, new) = output.split_at_mut(at);
                    let pattern = known.get(from..).unwrap_or_default();
                    let filled = new.get_mut(..length).ok_or_else(beyond)?;
                    filled.iter_mut().zip(pattern.iter().cycle()).for_each(|(to, from)| *to = *from);
                }
            }
        }
        at = end;
    }
    if at < total { Err(short(at, total as u64)) } else { Ok(()) }
}

/// A part of the data.
enum Step<'i> {
    Run(&'i [u8]),
    /// The distance back to the repeated bytes, and their number.
    Back {
        distance: usize,
        length: usize,
    },
}

impl Step<'_> {
    fn length(&self) -> usize {
        match self {
            Self::Run(bytes) => bytes.len(),
            Self::Back { length, .. } => *length,
        }
    }
}

fn next<'i>(input: &mut &'i [u8]) -> Result<Option<Step<'i>>> {
    let ends = || Error::new(Code::Decode, "LZF data ends early");
    let Some((&first, rest)) = input.split_first() else { return Ok(None) };
    *input = rest;
    if first < RUN {
        let (run, rest) = input.split_at_checked(usize::from(first) + 1).ok_or_else(ends)?;
        *input = rest;
        return Ok(Some(Step::Run(run)));
    }
    let mut byte = || {
        let (&byte, rest) = input.split_first().ok_or_else(ends)?;
        *input = rest;
        Ok(usize::from(byte))
    };
    let mut length = usize::from(first >> 5);
    if length == 7 {
        length += byte()?;
    }
    let distance = (usize::from(first & 31) << 8) + byte()? + 1;
    Ok(Some(Step::Back { distance, length: length + 2 }))
}

fn before() -> Error {
    Error::new(Code::Decode, "LZF data refers to bytes before its beginning")
}

fn short(found: usize, wanted: u64) -> Error {
    Error::new(Code::Decode, format!("LZF data decodes to {found} bytes, not {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(input: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut output = vec![0; length];
        let into = decode_into(input, &mut output).ok().map(|()| output);
        let alone = decode(input, Size::Exactly(length as u64)).ok();
        assert_eq!(into, alone);
        into
    }

    #[test]
    fn runs_and_references() {
        assert_eq!(both(&[], 0).unwrap(), b"");
        assert_eq!(both(b"\x02abc", 3).unwrap(), b"abc");
        // Three bytes from two positions back, overlapping the output.
        assert_eq!(both(b"\x01ab\x20\x01", 5).unwrap(), b"ababa");
        assert_eq!(both(b"\x00a\xe0\x05\x00", 15).unwrap(), b"aaaaaaaaaaaaaaa");
        assert_eq!(both(b"\x03abcd\x40\x03", 8).unwrap(), b"abcdabcd");
    }

    #[test]
    fn damaged_data_is_refused() {
        for input in
            [&b"\x02ab"[..], b"\x00a\x20", b"\x00a\xe0", b"\x00a\xe0\x01", b"\x00a\x20\x01", b"\x20\x00"]
        {
            for length in 0..20 {
                assert_eq!(both(input, length), None, "{input:?}");
            }
        }
        for length in [0, 1, 2, 4, 100] {
            assert_eq!(both(b"\x02abc", length), None);
        }
        assert_eq!(decode(b"\x02abc", Size::UpTo(2)).unwrap_err().code(), Code::Limit);
        assert_eq!(decode(b"\x02abc", Size::UpTo(9)).unwrap(), b"abc");
    }
}
