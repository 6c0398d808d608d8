//! A decoder of zstd frames that takes their bytes and gives what they hold in pieces of any size.
#![forbid(unsafe_code)]

use zstd::zstd_safe::{self, DCtx, DParameter, InBuffer, OutBuffer};

use super::frames::{self, Head, Judge, Size, error};
use crate::error::{Error, Result};
use crate::limits;

/// Bytes that one step takes at most. A MiB of the shortest frames takes 30 ms.
const STEP: usize = 1 << 20;

pub(super) fn library(code: usize) -> Error {
    error(format!("the zstd frame is damaged: {}", zstd_safe::get_error_name(code)))
}

/// Where in the sequence of frames the next byte is.
#[derive(Clone, Copy)]
enum At {
    Between,
    /// In a skippable frame, of which so many bytes are left.
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

    /// Takes bytes from the beginning of `input` and decodes to the beginning of `output`, which must have room. Gives how
    /// many either were; if none, there has to be more input than this.
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
                            // By itself, or libzstd might decode the frame at once, by the other of its decoders.
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
                    let room = output.get_mut(written..).unwrap_or_default();
                    if room.is_empty() {
                        break;
                    }
                    let (read, made, ended) = self.decode(rest, room)?;
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

    /// Bytes taken and made, and whether the frame ended.
    fn decode(&mut self, input: &[u8], output: &mut [u8]) -> Result<(usize, usize, bool)> {
        let mut source = InBuffer::around(input);
        let mut target = OutBuffer::around(output);
        let hint = self.context.decompress_stream(&mut target, &mut source).map_err(library)?;
        Ok((source.pos, target.pos(), hint == 0))
    }

    /// There is no more input, of which the last `left` bytes were not taken. Gives how many bytes were decoded.
    pub fn finish(self, left: u64) -> Result<u64> {
        if left > 0 || !matches!(self.at, At::Between) {
            return Err(error("the zstd data ends in the middle of a frame"));
        }
        self.judge.finish()
    }
}
