//! Scratch memory that a thread reuses: fresh pages cost more than the work on them.
#![forbid(unsafe_code)]

use std::cell::RefCell;

use super::owned::Owned;
use crate::checked;
use crate::error::{Code, Error, Result};

/// Longer buffers are freed at once.
const LONGEST: usize = 32 << 20;
/// Smaller buffers are not worth retaining.
const MIN: u64 = 256 << 10;

/// Maximum buffers retained per thread: multi-step decoding needs one per step.
const BUFFERS: usize = 4;

/// Calls `work` with `length` bytes of arbitrary content. Nested calls get separate memory.
pub fn with<T>(length: u64, work: impl FnOnce(&mut [u8]) -> Result<T>) -> Result<T> {
    thread_local!(static SCRATCH: RefCell<Vec<Owned>> = const { RefCell::new(Vec::new()) });
    let too_many = || Error::new(Code::Limit, "more bytes than this platform can address");
    let wanted = checked::index(length, "a buffer")?;
    let retained = SCRATCH.with_borrow_mut(|retained| {
        let at = retained.iter().position(|memory| memory.len() >= wanted)?;
        Some(retained.remove(at))
    });
    let mut memory = match retained {
        Some(memory) => memory,
        None => Owned::to_fill(length.max(MIN))?,
    };
    let done = work(memory.get_mut(..wanted).ok_or_else(too_many)?);
    if memory.len() <= LONGEST {
        SCRATCH.with_borrow_mut(|retained| {
            // Sorted by length, so that each use gets the shortest sufficient buffer.
            let at = retained.partition_point(|other| other.len() < memory.len());
            retained.insert(at, memory);
            if retained.len() > BUFFERS {
                retained.remove(0);
            }
        });
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scratch_buffer_is_reused_and_nests() {
        let first = with(10, |outer| {
            outer.fill(7);
            with(20, |inner| {
                inner.fill(8);
                Ok(())
            })?;
            assert_eq!(outer, [7; 10]);
            Ok(outer.as_ptr().addr())
        });
        assert_eq!(with(5, |again| Ok(again.as_ptr().addr())).unwrap(), first.unwrap());
        assert_eq!(with(LONGEST as u64 + 1, |large| Ok(large.len())).unwrap(), LONGEST + 1);
        assert!(with(u64::MAX, |_| Ok(())).is_err());
        for length in 1..20 {
            with(length << 20, |memory| {
                memory.fill(1);
                Ok(())
            })
            .unwrap();
        }
        let nested = |length: u64| {
            with(length, |outer| with(length, |inner| Ok((outer.as_ptr().addr(), inner.as_ptr().addr()))))
        };
        assert_eq!(nested(17 << 20).unwrap(), nested(17 << 20).unwrap());
    }
}
