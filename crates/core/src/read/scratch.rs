//! Memory that chunks are decoded into one after the other: fresh pages for each took longer than decoding did.
#![forbid(unsafe_code)]

use std::sync::Mutex;

use crate::error::Result;
use crate::sources::owned::Owned;
use crate::work;

/// Buffers that nobody needs any more.
#[derive(Default)]
pub(super) struct Scratch(Mutex<Vec<Owned>>);

impl Scratch {
    /// A buffer for a writer of all of its bytes, with whatever is in it.
    pub fn take(&self, length: u64) -> Result<Owned> {
        if let Ok(mut free) = self.0.lock()
            && let Some(at) = free.iter().position(|buffer| buffer.len() as u64 == length)
        {
            return Ok(free.swap_remove(at));
        }
        Owned::to_fill(length)
    }

    /// Keeps a buffer for the next chunk; the oldest goes where there are many.
    pub fn give(&self, buffer: Owned) {
        let Ok(mut free) = self.0.lock() else { return };
        if free.len() >= 4 * work::cores() {
            free.remove(0);
        }
        free.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_a_length_are_used_again_and_few_are_kept() {
        let scratch = Scratch::default();
        let mut first = scratch.take(100).unwrap();
        first.fill(7);
        scratch.give(first);
        assert_eq!(scratch.take(50).unwrap()[..], [0; 50]);
        assert_eq!(scratch.take(100).unwrap()[..], [7; 100]);
        assert_eq!(scratch.take(100).unwrap()[..], [0; 100]);
        for _ in 0..1000 {
            scratch.give(Owned::to_fill(10).unwrap());
        }
        assert_eq!(scratch.0.lock().unwrap().len(), 4 * work::cores());
    }
}
