//! Runs of bytes in nested loops.
#![forbid(unsafe_code)]

/// Runs of bytes in nested loops: byte ranges, interleaved records, Fortran order, any strides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Strided {
    /// Byte offset of the first run.
    pub start: u64,
    /// Bytes of a run.
    pub run: u64,
    /// Count and stride in bytes of each loop, outermost first. For a dense tensor one per dimension. A stride may be 0.
    pub loops: Box<[(u64, u64)]>,
}

impl Strided {
    /// Returns the bytes of all runs; `None` if they exceed u64.
    pub fn byte_length(&self) -> Option<u64> {
        if self.loops.iter().any(|&(count, _)| count == 0) {
            return Some(0);
        }
        self.loops.iter().try_fold(self.run, |bytes, &(count, _)| bytes.checked_mul(count))
    }

    /// Returns the end of the last byte, 0 if there are none. `None` if it exceeds u64.
    pub fn end(&self) -> Option<u64> {
        if self.byte_length()? == 0 {
            return Some(0);
        }
        self.loops.iter().try_fold(self.start.checked_add(self.run)?, |end, &(count, stride)| {
            end.checked_add((count - 1).checked_mul(stride)?)
        })
    }
}
