//! A streaming decoder of zstd frames, for pieces of any size.
#![forbid(unsafe_code)]

use zstd::zstd_safe::{self, DCtx, DParameter, InBuffer, OutBuffer};

use super::frames::{self, Head, Judge, Size, error};
use crate::error::{Error, Result};
use crate::limits;

/// Maximum input bytes per step. A MiB of the shortest frames takes 30 ms.
const STEP: usize = 1 << 20;

pub(super) fn library(code: usize) -> Error {
    error(format!("the zstd frame is damaged: {}", zstd_safe::get_error_name(code)))
}

/// The position in the sequence of frames.
#[derive(Clone, Copy)]
enum At {
    Between,
    /// In a skippable frame with this many bytes left.
    Skipping(u64),
    Inside,
}

pub struct Decoder {
    context: DCtx<'static>,
    judge: Judge,
    at: At,
}

impl Decoder {
    pub fn new(size: Size) -> Result<Self> {
        let mut context = DCtx::create();
        context.set_parameter(DParameter::WindowLogMax(limits::ZSTD_WINDOW_LOG)).map_err(library)?;
        Ok(Self { context, judge: Judge::new(size), at: At::Between })
    }

    /// Consumes the beginning of `input` and decodes to the beginning of `output`, which must not be empty. Returns the number of both; if
    /// both are 0, more input is needed.
    pub fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<(usize, usize)> {
        let input = input.get(..STEP).unwrap_or(input);
        let (mut taken, mut written) = (0, 0);
        loop {
            let rest = input.get(taken..).unwrap_or_default();
            match self.at {
                At::Between => {
                    let Some(head) = frames::head(rest)? else { break };
                    self.judge.begin(&head)?;
                    self.at = match head {
                        Head::Skippable(length) => At::Skipping(length),
                        Head::Data { length, .. } => {
                            // Separately, or libzstd might decode the frame at once with its other decoder.
                            taken += self.decode(rest.get(..length).unwrap_or_default(), &mut [])?.0;
                            At::Inside
                        }
                    };
                }
                At::Skipping(left) => {
                    let skipped = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    if skipped == 0 {
                        break;
                    }
                    taken += skipped;
                    let left = left - skipped as u64;
                    self.at = if left == 0 { At::Between } else { At::Skipping(left) };
                }
                At::Inside => {
                    let target = output.get_mut(written..).unwrap_or_default();
                    if target.is_empty() {
                        break;
                    }
                    let (read, made, ended) = self.decode(rest, target)?;
                    (taken, written) = (taken + read, written + made);
                    self.judge.decoded(made)?;
                    if ended {
                        self.judge.end()?;
                        self.at = At::Between;
                    } else if (read, made) == (0, 0) {
                        break;
                    }
                }
            }
        }
        Ok((taken, written))
    }

    /// Returns bytes consumed and produced, and whether the frame ended.
    fn decode(&mut self, input: &[u8], output: &mut [u8]) -> Result<(usize, usize, bool)> {
        let mut source = InBuffer::around(input);
        let mut target = OutBuffer::around(output);
        let hint = self.context.decompress_stream(&mut target, &mut source).map_err(library)?;
        Ok((source.pos, target.pos(), hint == 0))
    }

    /// Handles the end of the input, whose last `left` bytes were not consumed. Returns the number of decoded bytes.
    pub fn finish(self, left: u64) -> Result<u64> {
        if left > 0 || !matches!(self.at, At::Between) {
            return Err(error("the zstd data ends in the middle of a frame"));
        }
        self.judge.finish()
    }
}
