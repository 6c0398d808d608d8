//! Memory that a thread keeps from one piece of work to the next: fresh pages cost more than what is done with them.
#![forbid(unsafe_code)]

use std::cell::RefCell;

use super::owned::Owned;
use crate::checked;
use crate::error::{Code, Error, Result};

/// Longer buffers are given back at once.
const KEPT: usize = 32 << 20;
/// Less is not worth asking for again.
const LEAST: u64 = 256 << 10;

/// Buffers that a thread keeps: what is decoded in steps needs one for each.
const BUFFERS: usize = 4;

/// Calls `work` with `length` bytes of any content. Work within work gets memory of its own.
pub fn with<T>(length: u64, work: impl FnOnce(&mut [u8]) -> Result<T>) -> Result<T> {
    thread_local!(static SCRATCH: RefCell<Vec<Owned>> = const { RefCell::new(Vec::new()) });
    let too_many = || Error::new(Code::Limit, "more bytes than this platform can address");
    let wanted = checked::index(length, "a buffer")?;
    let kept = SCRATCH.with_borrow_mut(|kept| {
        let at = kept.iter().position(|memory| memory.len() >= wanted)?;
        Some(kept.remove(at))
    });
    let mut memory = match kept {
        Some(memory) => memory,
        None => Owned::to_fill(length.max(LEAST))?,
    };
    let done = work(memory.get_mut(..wanted).ok_or_else(too_many)?);
    if memory.len() <= KEPT {
        SCRATCH.with_borrow_mut(|kept| {
            // By their lengths, so that each piece of work gets the shortest that is long enough.
            let at = kept.partition_point(|other| other.len() < memory.len());
            kept.insert(at, memory);
            if kept.len() > BUFFERS {
                kept.remove(0);
            }
        });
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_kept_and_nests() {
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
        assert_eq!(with(KEPT as u64 + 1, |large| Ok(large.len())).unwrap(), KEPT + 1);
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
