//! Memory and addresses that are retained after their last use: blocks that the next read may reuse, and address ranges that native code
//! may still read from. Each store registers here. One thread releases what was retained long enough, and a mapping that the system refuses
//! is retried after everything was released.
#![forbid(unsafe_code)]

use std::io::{ErrorKind, Result};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::loaded;

/// A store of memory or addresses that are no longer in use.
pub trait Store: Sync {
    fn is_empty(&self) -> bool;

    /// Releases what was retained long enough by `now`, and what exceeds the store's limits.
    fn release_old(&self, now: Instant);

    /// Releases everything.
    fn release_all(&self);
}

/// How often the thread runs. The headroom of the process can shrink at any time.
const INTERVAL: Duration = Duration::from_secs(1);

struct Registry {
    /// Stores that have retained something so far.
    stores: Vec<&'static dyn Store>,
    /// Whether the thread runs.
    is_running: bool,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { stores: Vec::new(), is_running: false });

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the thread release what `store` retains. Called after something was added, without the store's lock. Returns false if the system
/// cannot start the thread.
pub fn watch(store: &'static dyn Store) -> bool {
    let mut registry = registry();
    if !registry.stores.iter().any(|&known| std::ptr::addr_eq(known, store)) {
        registry.stores.push(store);
    }
    if !registry.is_running {
        loaded::stay();
        let thread = thread::Builder::new().name("ztensor-reclaim".to_owned()).stack_size(256 << 10);
        registry.is_running = thread.spawn(run).is_ok();
    }
    registry.is_running
}

fn run() {
    loop {
        thread::sleep(INTERVAL);
        let (now, stores) = (Instant::now(), registry().stores.clone());
        for store in &stores {
            store.release_old(now);
        }
        // A store that retains something from here on finds that this thread no longer runs, and starts the next one.
        let mut registry = registry();
        if registry.stores.iter().all(|store| store.is_empty()) {
            registry.is_running = false;
            return;
        }
    }
}

/// Calls `map`. If the system lacks memory or addresses for it, releases everything retained and calls it again.
pub fn map_or_reclaim<T>(map: impl Fn() -> Result<T>) -> Result<T> {
    map().or_else(|error| {
        if error.kind() != ErrorKind::OutOfMemory {
            return Err(error);
        }
        let stores = registry().stores.clone();
        for store in stores {
            store.release_all();
        }
        map()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Holds something until it is released.
    struct One(AtomicBool);

    impl Store for One {
        fn is_empty(&self) -> bool {
            !self.0.load(Ordering::SeqCst)
        }

        fn release_old(&self, _now: Instant) {}

        fn release_all(&self) {
            self.0.store(false, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_refused_mapping_is_retried_once_after_everything_was_released() {
        static ONE: One = One(AtomicBool::new(false));
        let tries = std::cell::Cell::new(0);
        let mapped = |kind: ErrorKind, failures: u32| {
            ONE.0.store(true, Ordering::SeqCst);
            assert!(watch(&ONE));
            tries.set(0);
            map_or_reclaim(|| {
                tries.set(tries.get() + 1);
                if tries.get() <= failures { Err(kind.into()) } else { Ok(()) }
            })
        };
        assert!(mapped(ErrorKind::OutOfMemory, 1).is_ok() && tries.get() == 2 && ONE.is_empty());
        assert!(mapped(ErrorKind::OutOfMemory, 2).is_err() && tries.get() == 2 && ONE.is_empty());
        assert!(mapped(ErrorKind::PermissionDenied, 1).is_err() && tries.get() == 1 && !ONE.is_empty());
        ONE.release_all();
    }
}
