//! Encodes zstd frames (RFC 8878). The bytes depend only on the input and the level.
#![forbid(unsafe_code)]

use zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd::zstd_safe::{CCtx, CParameter, compress_bound, get_error_name};

use crate::error::{Code, Error, Result};

/// Maximum level at which zstd is tuned for speed.
const FAST: i32 = 4;
/// The window log up to that level: 512 KiB, as in level 1, stay in a core's second-level cache. Matches further back
/// than a few rows of a tensor are accidental, and searching for them takes a quarter of the time.
const FAST_WINDOW: u32 = 19;
/// Used if longer searches gain nothing; takes a tenth less time.
const LIGHT_LEVEL: i32 = 1;
const LIGHT_WINDOW: u32 = 18;

/// Returns the number of compressing threads at a level, to limit memory. A thread holds some 4 MiB up to level 4, then some 10, and above
/// level 8 from 50 to 150.
pub fn threads(level: i32, asked: u32) -> u32 {
    let max = if level <= FAST {
        16
    } else if level <= 8 {
        4
    } else {
        2
    };
    asked.clamp(1, max)
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
