//! Writes the seek table of `zt.zstd-seekable/1`: a skippable frame after frames of one content size, each with a checksum.
#![forbid(unsafe_code)]

use crate::error::{Code, Error, Result};

/// The largest content of a frame.
pub const LARGEST_FRAME: u32 = 16 << 20;
const SKIPPABLE: u32 = 0x184D_2A5E;
const SEEKABLE: u32 = 0x8F92_EAB1;

/// A table under construction: compressed and decoded size of each frame.
#[derive(Default)]
pub struct Table(Vec<(u32, u32)>);

impl Table {
    /// Adds the next frame: of `plain` bytes, stored in `packed` ones.
    pub fn push(&mut self, packed: usize, plain: usize) -> Result<()> {
        let small = |length: usize| {
            u32::try_from(length).map_err(|_| Error::new(Code::Limit, "a frame of 4 GiB or more"))
        };
        self.0.push((small(packed)?, small(plain)?));
        Ok(())
    }

    /// Adds the frames that follow.
    pub fn extend(&mut self, next: Self) {
        self.0.extend(next.0);
    }

    pub fn finish(self) -> Result<Vec<u8>> {
        let too_many =
            |_| Error::new(Code::Limit, "more frames than a seek table can hold; use larger frames");
        let frames = u32::try_from(self.0.len()).map_err(too_many)?;
        let length = u32::try_from(self.0.len() * 8 + 9).map_err(too_many)?;
        let mut output = Vec::with_capacity(self.0.len() * 8 + 17);
        output.extend_from_slice(&SKIPPABLE.to_le_bytes());
        output.extend_from_slice(&length.to_le_bytes());
        for (packed, plain) in &self.0 {
            output.extend_from_slice(&packed.to_le_bytes());
            output.extend_from_slice(&plain.to_le_bytes());
        }
        output.extend_from_slice(&frames.to_le_bytes());
        // No checksums in the table: the frames have their own.
        output.push(0);
        output.extend_from_slice(&SEEKABLE.to_le_bytes());
        Ok(output)
    }
}
