//! Encodes zstd frames (RFC 8878): at once, or in pieces on several threads. The bytes depend only on the input and the level.
#![forbid(unsafe_code)]

use zstd::zstd_safe::zstd_sys::{ZSTD_EndDirective, ZSTD_ErrorCode};
use zstd::zstd_safe::{
    CCtx, CParameter, InBuffer, OutBuffer, ResetDirective, compress_bound, get_error_name,
};

use crate::error::{Code, Error, Result};

/// Maximum level at which zstd is tuned for speed.
const FAST: i32 = 4;
/// The window log up to that level: 512 KiB, as in level 1, stay in a core's second-level cache. Matches further back
/// than a few rows of a tensor are accidental, and searching for them takes a quarter of the time.
const FAST_WINDOW: u32 = 19;
/// Used if longer searches gain nothing; takes a tenth less time.
const LIGHT_LEVEL: i32 = 1;
const LIGHT_WINDOW: u32 = 18;
/// The input of one job in bytes.
const JOB: u32 = 1 << 20;
/// Returns the number of compressing threads at a level, to limit memory. A thread holds some 4 MiB up to level 4, then some 10, and above
/// level 8 from 50 to 150.
pub fn threads(level: i32, asked: u32) -> u32 {
    let most = if level <= FAST {
        16
    } else if level <= 8 {
        4
    } else {
        2
    };
    asked.clamp(1, most)
}

fn failed(code: usize) -> Error {
    let refused = if is_scarce(code) { Code::Limit } else { Code::Internal };
    Error::new(refused, format!("zstd does not compress: {}", get_error_name(code)))
}

/// Returns whether zstd failed to allocate memory or a thread: it has one error for both.
fn is_scarce(code: usize) -> bool {
    code.wrapping_neg() == ZSTD_ErrorCode::ZSTD_error_memory_allocation as usize
}

/// How thoroughly to search for repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// As defined by the level.
    Level,
    /// The minimum of zstd: for weights, of which only the exponent bits are compressible, and for levels up to 4.
    Light,
}

impl Search {
    /// Returns whether both differ at a level.
    pub fn has_light(level: i32) -> bool {
        level > LIGHT_LEVEL && level <= FAST
    }

    fn set(self, level: i32, context: &mut CCtx<'_>) -> Result<()> {
        let (level, window) = match self {
            Self::Level => (level, FAST_WINDOW),
            Self::Light => (LIGHT_LEVEL, LIGHT_WINDOW),
        };
        context.set_parameter(CParameter::CompressionLevel(level)).map_err(failed)?;
        if level <= FAST {
            context.set_parameter(CParameter::WindowLog(window)).map_err(failed)?;
        }
        Ok(())
    }
}

/// Encodes one frame after another, with the same tables.
pub struct Compressor {
    context: CCtx<'static>,
    level: i32,
    search: Search,
}

impl Compressor {
    /// Creates a compressor. `checksum` adds a checksum to each frame.
    pub fn new(level: i32, checksum: bool) -> Result<Self> {
        let (mut context, search) = (CCtx::create(), Search::Level);
        search.set(level, &mut context)?;
        context.set_parameter(CParameter::ChecksumFlag(checksum)).map_err(failed)?;
        Ok(Self { context, level, search })
    }

    /// Sets the effort for the following frames.
    pub fn search(&mut self, search: Search) -> Result<()> {
        if self.search != search {
            search.set(self.level, &mut self.context)?;
            self.search = search;
        }
        Ok(())
    }

    /// Returns the maximum size of a frame of `length` bytes.
    pub fn bound(length: usize) -> usize {
        compress_bound(length)
    }

    /// Encodes `bytes` as a frame and returns its length; `output` must hold [`Compressor::bound`].
    pub fn frame(&mut self, bytes: &[u8], output: &mut [u8]) -> Result<usize> {
        self.context.compress2(output, bytes).map_err(failed)
    }
}

/// Encodes one large frame after another, in jobs shared by several threads.
pub struct Jobs {
    context: CCtx<'static>,
    level: i32,
    threads: u32,
}

impl Jobs {
    pub fn new(level: i32, asked: u32) -> Result<Self> {
        let mut context = CCtx::create();
        let threads = threads(level, asked);
        context.set_parameter(CParameter::NbWorkers(threads)).map_err(failed)?;
        context.set_parameter(CParameter::JobSize(JOB)).map_err(failed)?;
        Ok(Self { context, level, threads })
    }

    /// Begins a frame of `length` bytes. Fails with `ZT_LIMIT` if the system has no thread left.
    pub fn begin(&mut self, length: u64, search: Search) -> Result<()> {
        loop {
            self.context.reset(ResetDirective::SessionOnly).map_err(failed)?;
            search.set(self.level, &mut self.context)?;
            self.context.set_pledged_src_size(Some(length)).map_err(failed)?;
            // The first step starts all threads or none. Fewer produce the same bytes.
            match self.advance(&[], &mut [], ZSTD_EndDirective::ZSTD_e_continue) {
                Err(code) if is_scarce(code) && self.threads > 1 => {
                    *self = Self::new(self.level, self.threads / 2)?;
                }
                begun => return begun.map(drop).map_err(failed),
            }
        }
    }

    /// Consumes the beginning of `input`, and writes to `output`. Returns the number of bytes of both, and whether
    /// everything is done. `end` marks the last of the input.
    pub fn step(&mut self, input: &[u8], output: &mut [u8], end: bool) -> Result<(usize, usize, bool)> {
        let directive = if end { ZSTD_EndDirective::ZSTD_e_end } else { ZSTD_EndDirective::ZSTD_e_continue };
        let (read, written, left) = self.advance(input, output, directive).map_err(failed)?;
        let done = if end { left == 0 } else { read == input.len() };
        Ok((read, written, done))
    }

    /// Returns the bytes read, the bytes written, and the remaining bytes; or zstd's error code.
    fn advance(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        directive: ZSTD_EndDirective,
    ) -> std::result::Result<(usize, usize, usize), usize> {
        let mut source = InBuffer::around(input);
        let mut target = OutBuffer::around(output);
        let left = self.context.compress_stream2(&mut target, &mut source, directive)?;
        Ok((source.pos, target.pos(), left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failed_allocations_are_limit_errors() {
        let code = |of: ZSTD_ErrorCode| failed((of as usize).wrapping_neg()).code();
        assert_eq!(code(ZSTD_ErrorCode::ZSTD_error_memory_allocation), Code::Limit);
        assert_eq!(code(ZSTD_ErrorCode::ZSTD_error_srcSize_wrong), Code::Internal);
        assert_eq!(
            Compressor::new(3, false).unwrap().frame(&[7; 9], &mut []).unwrap_err().code(),
            Code::Internal
        );
    }
}
