//! Decodes whole deflate streams in memory with libdeflate: 1.35 times as fast as an interruptible decoder.
//!
//! It accepts everything that zlib accepts. It also accepts codes that zlib rejects but no encoder writes: lengths for
//! more symbols than the format has (287 and 288, 31 and 32), one word where there are two (RFC 1951 §3.2.7), and the
//! unused word of such a code. The checksum of zlib or of an archive covers the result.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr::NonNull;

use libdeflate_sys::{
    libdeflate_alloc_decompressor, libdeflate_decompressor, libdeflate_deflate_decompress_ex,
    libdeflate_free_decompressor, libdeflate_zlib_decompress_ex,
};

/// Some 12 KB of tables.
struct Decompressor(NonNull<libdeflate_decompressor>);

impl Decompressor {
    /// Returns `None` if there is not enough memory.
    fn new() -> Option<Self> {
        // SAFETY: a plain call.
        NonNull::new(unsafe { libdeflate_alloc_decompressor() }).map(Self)
    }

    /// Returns the bytes consumed and produced; `None` if the stream is damaged, truncated, or does not fit.
    fn decode(&mut self, input: &[u8], zlib: bool, output: &mut [u8]) -> Option<(usize, usize)> {
        /// `LIBDEFLATE_SUCCESS`.
        const SUCCESS: u32 = 0;
        let (mut taken, mut made) = (0, 0);
        let decode = if zlib { libdeflate_zlib_decompress_ex } else { libdeflate_deflate_decompress_ex };
        // SAFETY: the pointers and lengths are those of slices, of which only the output is written. The decompressor is used only here and
        // lives as long as `self`.
        let result = unsafe {
            decode(
                self.0.as_ptr(),
                input.as_ptr().cast(),
                input.len(),
                output.as_mut_ptr().cast(),
                output.len(),
                &raw mut taken,
                &raw mut made,
            )
        };
        (result == SUCCESS).then_some((taken, made))
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: it was allocated by the library, and nothing else uses it.
        unsafe { libdeflate_free_decompressor(self.0.as_ptr()) }
    }
}

/// Returns whether `input`, bare or in a zlib stream, consists of exactly one stream and fills `output` completely. Otherwise the content
/// of `output` is unspecified.
pub fn decodes(input: &[u8], zlib: bool, output: &mut [u8]) -> bool {
    thread_local!(static REUSED: Cell<Option<Decompressor>> = const { Cell::new(None) });
    let Some(mut decompressor) = REUSED.take().or_else(Decompressor::new) else { return false };
    let decoded = decompressor.decode(input, zlib, output);
    REUSED.set(Some(decompressor));
    decoded == Some((input.len(), output.len()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::decodes;
    use crate::codecs::deflate;
    use crate::codecs::frames::Size;
    use crate::work::Stop;

    /// zlib's messages for codes that only libdeflate accepts.
    const ALONE: [&str; 4] = [
        "too many length or distance symbols",
        "invalid code lengths set",
        "invalid distance code",
        "invalid literal/length code",
    ];

    fn packed(bytes: &[u8], zlib: bool, level: u32) -> Vec<u8> {
        let level = flate2::Compression::new(level);
        if zlib {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        } else {
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
    }

    /// Returns why zlib rejects a stream. It is fed byte by byte, because its faster mode loses the reason.
    fn reason(input: &[u8], zlib: bool) -> String {
        let mut decoder = flate2::Decompress::new(zlib);
        loop {
            let before = (decoder.total_in(), decoder.total_out());
            let rest = &input[usize::try_from(before.0).unwrap()..];
            match decoder.decompress(rest, &mut [0], flate2::FlushDecompress::None) {
                Err(error) => return error.to_string(),
                Ok(flate2::Status::StreamEnd) => return "no damage".to_owned(),
                Ok(_) if (decoder.total_in(), decoder.total_out()) == before => {
                    return "an early end".to_owned();
                }
                Ok(_) => {}
            }
        }
    }

    /// Compares both decoders, for the length of the stream and adjacent lengths.
    fn agree(input: &[u8], zlib: bool, length: usize) {
        let stop = Stop::default();
        for length in [length, length + 1, length.saturating_sub(1), 2 * length] {
            let mut output = vec![0; length];
            let taken = decodes(input, zlib, &mut output);
            match deflate::decode(input, zlib, Size::Exactly(length as u64), &stop) {
                Ok(bytes) => assert!(taken && output == bytes),
                Err(error) if taken => {
                    let reason = reason(input, zlib);
                    assert!(ALONE.iter().any(|alone| reason.contains(alone)), "{error}: {reason}");
                }
                Err(_) => {}
            }
        }
    }

    proptest! {
        #[test]
        fn both_decoders_agree_on_streams(
            seed in prop::collection::vec(any::<u8>(), 0..300),
            times in 0_usize..40,
            level in 0_u32..10,
            zlib in any::<bool>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            end in any::<prop::sample::Index>(),
            more in prop::collection::vec(any::<u8>(), 0..3),
        ) {
            let bytes = seed.repeat(times);
            let mut input = packed(&bytes, zlib, level);
            let mut output = vec![0; bytes.len()];
            prop_assert!(decodes(&input, zlib, &mut output));
            prop_assert!(output == bytes);
            agree(&input, zlib, bytes.len());
            agree(&input[..end.index(input.len())], zlib, bytes.len());
            agree(&[&*input, &more].concat(), zlib, bytes.len());
            for (at, byte) in changes {
                let at = at.index(input.len());
                input[at] = byte;
                agree(&input, zlib, bytes.len());
            }
        }

        #[test]
        fn both_decoders_agree_on_noise(
            input in prop::collection::vec(any::<u8>(), 0..200),
            zlib in any::<bool>(),
            length in 0_usize..500,
        ) {
            agree(&input, zlib, length);
        }
    }
}
