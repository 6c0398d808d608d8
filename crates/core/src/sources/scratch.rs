//! Memory that a thread keeps from one piece of work to the next: fresh pages cost more than what is done with them.
#![forbid(unsafe_code)]

use std::cell::RefCell;

use super::owned::Owned;
use crate::checked;
use crate::error::{Code, Error, Result};

/// More than this is given back at once.
const KEPT: usize = 32 << 20;
/// Less is not worth asking for again.
const LEAST: u64 = 256 << 10;

/// Calls `work` with `length` bytes of any content. Work within work gets memory of its own.
pub fn with<T>(length: u64, work: impl FnOnce(&mut [u8]) -> Result<T>) -> Result<T> {
    thread_local!(static SCRATCH: RefCell<Option<Owned>> = const { RefCell::new(None) });
    let too_many = || Error::new(Code::Limit, "more bytes than this platform can address");
    let wanted = checked::index(length, "a buffer")?;
    let mut memory = match SCRATCH.take().filter(|memory| memory.len() >= wanted) {
        Some(memory) => memory,
        None => Owned::zeroed(length.max(LEAST))?,
    };
    let done = work(memory.get_mut(..wanted).ok_or_else(too_many)?);
    if memory.len() <= KEPT {
        SCRATCH.set(Some(memory));
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
    }
}
