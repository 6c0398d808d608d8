//! Validates zstd frames (RFC 8878 §3.1), independently of the decoder.
//!
//! A component of zTensor 0.1 to 1.2 is a sequence of frames, including skippable ones: these versions do not forbid it, and their readers
//! (0.1.4, 1.0.1, 1.2.3) decode such a sequence to the concatenated content of its frames.
#![forbid(unsafe_code)]

use crate::error::{Code, Error, Result};
use crate::limits;

/// The magic of a data frame.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The magic of a skippable frame: only the upper half of the first byte is significant (§3.1.2).
const SKIPPABLE: [u8; 4] = [0x50, 0x2a, 0x4d, 0x18];
/// Bytes of a skippable frame's header: its magic and its length.
const SKIPPABLE_HEAD: usize = 8;
/// The descriptor bit that must be 0 (§3.1.1.1.1.4).
const RESERVED: u8 = 0x08;
const SINGLE_SEGMENT: u8 = 0x20;

/// The expected total decoded size of all frames of a component.
#[derive(Clone, Copy, Debug)]
pub enum Size {
    Exactly(u64),
    UpTo(u64),
}

/// The header of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Head {
    Data {
        /// Bytes of the header.
        length: usize,
        /// The stated content size, which is verified.
        content: Option<u64>,
        window: u64,
        dictionary: u32,
    },
    /// Bytes of the whole frame.
    Skippable(u64),
}

pub(super) fn error(message: impl Into<String>) -> Error {
    Error::new(Code::Decode, message)
}

pub(super) fn too_large(limit: u64) -> Error {
    Error::new(Code::Limit, format!("the zstd frames decode to more than {limit} bytes"))
        .option("maxDecodedBytes")
}

/// Reads the header of the frame at the beginning of `input`. `None` if it extends past the end of `input`.
pub fn head(input: &[u8]) -> Result<Option<Head>> {
    let known = input.len().min(4);
    let begins = |magic: &[u8; 4]| input.get(..known) == magic.get(..known);
    if input.first().is_some_and(|first| first & 0xf0 == 0x50)
        && input.get(1..known) == SKIPPABLE.get(1..known)
    {
        let length = input.get(4..SKIPPABLE_HEAD).and_then(|bytes| bytes.try_into().ok());
        return Ok(length
            .map(|length| Head::Skippable(SKIPPABLE_HEAD as u64 + u64::from(u32::from_le_bytes(length)))));
    }
    if !begins(&MAGIC) {
        return Err(error("the data is not zstd: no frame begins with these bytes"));
    }
    let Some(&descriptor) = input.get(4) else { return Ok(None) };
    if descriptor & RESERVED != 0 {
        return Err(error("the zstd frame header is damaged: a reserved bit is set"));
    }
    let single = descriptor & SINGLE_SEGMENT != 0;
    let at_window = 5;
    let at_dictionary = at_window + usize::from(!single);
    let at_content = at_dictionary + [0, 1, 2, 4].get(usize::from(descriptor & 3)).copied().unwrap_or(0);
    let content_bytes = match descriptor >> 6 {
        0 => usize::from(single),
        flag => 1 << flag,
    };
    let length = at_content + content_bytes;
    let Some(header) = input.get(..length) else { return Ok(None) };
    let number = |bytes: Option<&[u8]>| {
        bytes.unwrap_or_default().iter().rev().fold(0, |sum: u64, &byte| sum << 8 | u64::from(byte))
    };
    let content = number(header.get(at_content..));
    let content = match content_bytes {
        0 => None,
        // Two bytes count from 256 on (§3.1.1.1.4); at most 65,791.
        2 => Some(content + 256),
        _ => Some(content),
    };
    let window = match header.get(at_window).filter(|_| !single) {
        None => content.unwrap_or_default(),
        Some(&byte) => {
            // At most 2^41 and seven eighths of it.
            let base = 1_u64 << (10 + (byte >> 3));
            base + base / 8 * u64::from(byte & 7)
        }
    };
    let dictionary = u32::try_from(number(header.get(at_dictionary..at_content))).unwrap_or(u32::MAX);
    Ok(Some(Head::Data { length, content, window, dictionary }))
}

/// Validates the frames of one component in sequence.
#[derive(Debug)]
pub struct Judge {
    size: Size,
    /// Frames so far, including skippable ones.
    frames: u64,
    found: u64,
    /// The expected value of `found` at the end of the current frame.
    announced: Option<u64>,
}

impl Judge {
    pub fn new(size: Size) -> Self {
        Self { size, frames: 0, found: 0, announced: None }
    }

    /// Handles the beginning of a frame.
    pub fn begin(&mut self, head: &Head) -> Result<()> {
        self.frames += 1;
        let &Head::Data { content, window, dictionary, .. } = head else { return Ok(()) };
        if dictionary != 0 {
            return Err(error(format!(
                "the zstd frame needs the dictionary {dictionary}, and zTensor files have none: compress the data without one"
            )));
        }
        self.announced = match content {
            None => None,
            Some(content) => Some(self.found.checked_add(content).ok_or_else(|| self.too_many())?),
        };
        self.within(self.announced.unwrap_or(self.found))?;
        if window > 1 << limits::ZSTD_WINDOW_LOG {
            return Err(Error::new(
                Code::Limit,
                format!(
                    "the zstd frame needs a window of {window} bytes, more than 2^{} (128 MiB): compress the data with \
                     a window log of at most {} (zstd without --long)",
                    limits::ZSTD_WINDOW_LOG,
                    limits::ZSTD_WINDOW_LOG,
                ),
            ));
        }
        Ok(())
    }

    /// Records decoded bytes.
    pub fn decoded(&mut self, bytes: usize) -> Result<()> {
        self.found = self.found.saturating_add(bytes as u64);
        self.within(self.found)
    }

    /// Handles the end of a data frame.
    pub fn end(&mut self) -> Result<()> {
        match self.announced.take() {
            // libzstd treats a content size of 2^64 - 1 as unknown.
            Some(announced) if announced != self.found => {
                Err(error("the content size of the zstd frame does not match its header"))
            }
            _ => Ok(()),
        }
    }

    /// Handles the end of all frames and returns their total size.
    pub fn finish(self) -> Result<u64> {
        match self.size {
            _ if self.frames == 0 => Err(error("the data is not zstd: it has no bytes")),
            Size::Exactly(length) if self.found != length => {
                Err(error(format!("the zstd frames hold {} bytes, but the tensor has {length}", self.found)))
            }
            _ => Ok(self.found),
        }
    }

    fn within(&self, bytes: u64) -> Result<()> {
        let (Size::Exactly(max) | Size::UpTo(max)) = self.size;
        if bytes > max { Err(self.too_many()) } else { Ok(()) }
    }

    fn too_many(&self) -> Error {
        match self.size {
            Size::Exactly(length) => {
                error(format!("the zstd frames hold more than the tensor's {length} bytes"))
            }
            Size::UpTo(limit) => too_large(limit),
        }
    }
}
