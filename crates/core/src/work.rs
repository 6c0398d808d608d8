//! Long-running work on the package's own threads: progress, cancellation, parallel loops. Uses no other module.
#![forbid(unsafe_code)]

pub mod lanes;

use std::cell::Cell;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::thread;

use crate::error::{Code, Error, Result};

/// Bytes read or hashed between two checks of the stop flag: less than 50 ms even at 100 MB/s.
pub const PIECE: usize = 4 << 20;

/// A flag that cancels work between two pieces.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Returns a flag that is never set, for work that cannot be canceled.
    pub fn never() -> &'static Self {
        static NEVER: LazyLock<Stop> = LazyLock::new(Stop::default);
        &NEVER
    }

    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub fn check(&self) -> Result<()> {
        if self.is_set() {
            return Err(Error::new(Code::Aborted, "the work was stopped"));
        }
        Ok(())
    }
}

/// The stop flag and the progress of long-running work, shared with its caller.
#[derive(Clone, Default)]
pub struct Watch {
    pub stop: Stop,
    counts: Arc<[AtomicU64; 4]>,
}

/// The progress of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub bytes: u64,
    pub total_bytes: u64,
    pub tensors: u64,
    pub total_tensors: u64,
}

impl Watch {
    pub fn expect(&self, bytes: u64, tensors: u64) {
        self.counts[1].store(bytes, Ordering::Relaxed);
        self.counts[3].store(tensors, Ordering::Relaxed);
    }

    /// Expects `bytes` in addition to those processed so far, for work whose size is known only after its data was decoded.
    pub fn expect_more(&self, bytes: u64, tensors: u64) {
        self.expect(self.progress().bytes.saturating_add(bytes), tensors);
    }

    /// Returns a watch with the same stop flag, whose progress is not read.
    #[must_use]
    pub fn silent(&self) -> Self {
        Self::stopped_by(&self.stop)
    }

    /// Returns a watch with a given stop flag, whose progress is not read.
    pub fn stopped_by(stop: &Stop) -> Self {
        Self { stop: stop.clone(), ..Self::default() }
    }

    pub fn did_bytes(&self, bytes: u64) {
        self.counts[0].fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn did_tensor(&self) {
        self.counts[2].fetch_add(1, Ordering::Relaxed);
    }

    pub fn progress(&self) -> Progress {
        let [bytes, total_bytes, tensors, total_tensors] =
            [0, 1, 2, 3].map(|count: usize| self.counts[count].load(Ordering::Relaxed));
        Progress { bytes, total_bytes, tensors, total_tensors }
    }
}

/// Returns the number of threads that this machine runs at once. The first call asks the system, which takes a dozen system calls because
/// of control groups.
pub fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

/// Calls `work` for each of `count` items, in parallel on the calling thread and on new threads. Threads of a lane never wait for other
/// work of a lane, because then all of them could wait.
pub fn for_each(count: usize, work: impl Fn(usize) + Sync) {
    for_each_on(cores(), count, work);
}

/// WebAssembly has no threads.
#[cfg(target_family = "wasm")]
pub fn for_each_on(_threads: usize, count: usize, work: impl Fn(usize) + Sync) {
    (0..count).for_each(work);
}

/// Calls `work` for each of `count` items on at most `threads` threads, like [`for_each`].
#[cfg(not(target_family = "wasm"))]
pub fn for_each_on(threads: usize, count: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let run = &|| loop {
        let item = next.fetch_add(1, Ordering::Relaxed);
        if item >= count {
            return;
        }
        work(item);
    };
    thread::scope(|scope| {
        let mut helping = Vec::new();
        for _ in 1..threads.min(count) {
            let Some(helper) = Helper::take() else { break };
            let is_remote = IS_REMOTE.get();
            let run = move || {
                IS_REMOTE.set(is_remote);
                run();
                drop(helper);
            };
            // If the system has no thread left, fewer threads do the work.
            let Ok(thread) = thread::Builder::new().name("ztensor-each".to_owned()).spawn_scoped(scope, run)
            else {
                break;
            };
            helping.push(thread);
        }
        run();
        // The scope waits only for the closures. Thread-local state, such as a decoder, is dropped when the thread has ended.
        for thread in helping {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}

/// Starts one more thread, which waits for the same machines as the calling one. Fails with `ZT_LIMIT` if the system has none left.
pub fn scoped<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<thread::ScopedJoinHandle<'scope, T>> {
    let is_remote = IS_REMOTE.get();
    let run = move || {
        IS_REMOTE.set(is_remote);
        work()
    };
    let started = thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, run);
    started.map_err(|error| Error::new(Code::Limit, format!("the system starts no thread: {error}")))
}

/// A permit for an additional thread. Calls nest and run concurrently, and each asks for as many threads as there are cores.
pub(crate) struct Helper(&'static AtomicUsize);

static HELPERS: AtomicUsize = AtomicUsize::new(0);
/// Permits for threads that wait for another machine: they sleep most of the time.
static REMOTE_HELPERS: AtomicUsize = AtomicUsize::new(0);
const MAX_REMOTE: usize = 256;

thread_local! {
    /// Whether the thread does work that waits for another machine.
    static IS_REMOTE: Cell<bool> = const { Cell::new(false) };
}

impl Helper {
    pub(crate) fn take() -> Option<Self> {
        let (helpers, max) =
            if IS_REMOTE.get() { (&REMOTE_HELPERS, MAX_REMOTE) } else { (&HELPERS, (2 * cores()).max(32)) };
        let taken = helpers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |helpers| {
            (helpers < max).then_some(helpers + 1)
        });
        taken.ok().map(|_| Self(helpers))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Calls `work`, which can fail, for each of `count` items on at most `threads` threads. After a failure, no later item is started. Fails
/// like the first item that does, regardless of the number of threads.
pub fn try_each_on(threads: usize, count: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    let first = AtomicUsize::new(usize::MAX);
    let failed = Mutex::new(None);
    for_each_on(threads, count, |item| {
        // Those before a failed item were taken before it, and are still done.
        if item < first.load(Ordering::Relaxed)
            && let Err(error) = work(item)
        {
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            if first.fetch_min(item, Ordering::Relaxed) > item {
                *failed = Some(error);
            }
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Bytes that one thread copies at a time.
const COPIED: usize = 4 << 20;

/// Copies bytes, on all cores if there are many.
pub fn copy(from: &[u8], to: &mut [u8]) {
    let parts: Vec<_> =
        to.chunks_mut(COPIED).zip(from.chunks(COPIED)).map(|part| Mutex::new(Some(part))).collect();
    for_each(parts.len(), |at| {
        let part = parts.get(at).and_then(|part| part.lock().ok()?.take());
        if let Some((to, from)) = part {
            to.copy_from_slice(from);
        }
    });
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::ptr;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn a_panic_in_a_helper_is_the_callers() {
        let both = Barrier::new(2);
        let caller = thread::current().id();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for_each_on(2, 2, |_| {
                both.wait();
                assert_eq!(thread::current().id(), caller, "in the helper");
            });
        }));
        let payload = outcome.expect_err("one of two threads panicked");
        assert!(payload.downcast_ref::<String>().is_some_and(|message| message.contains("in the helper")));
    }

    #[test]
    fn the_error_is_that_of_the_first_item_that_fails() {
        for _ in 0..100 {
            let both = Barrier::new(2);
            let failed = try_each_on(2, 2, |item| {
                both.wait();
                Err(Error::new(Code::Decode, item.to_string()))
            });
            assert_eq!(failed.unwrap_err().message(), "0");
        }
    }

    #[test]
    fn thread_locals_of_helpers_are_dropped_when_the_call_returns() {
        static ENDED: AtomicUsize = AtomicUsize::new(0);
        struct Local;
        impl Drop for Local {
            fn drop(&mut self) {
                // A caller that did not wait would return first.
                for _ in 0..1000 {
                    thread::yield_now();
                }
                ENDED.fetch_add(1, Ordering::Relaxed);
            }
        }
        thread_local!(static LOCAL: Local = const { Local });
        let both = Barrier::new(2);
        let caller = thread::current().id();
        for_each_on(2, 2, |_| {
            both.wait();
            if thread::current().id() != caller {
                LOCAL.with(|_| ());
            }
        });
        assert_eq!(ENDED.load(Ordering::Relaxed), 1);
    }

    /// Remote work has permits of its own, also in the threads that it starts.
    #[test]
    fn remote_work_has_its_own_helpers() {
        let taken: Vec<Helper> = thread::spawn(|| {
            IS_REMOTE.set(true);
            let inner = Mutex::new(Vec::new());
            let both = Barrier::new(2);
            for_each_on(2, 2, |_| {
                both.wait();
                inner.lock().unwrap().extend((0..20).map_while(|_| Helper::take()));
            });
            inner.into_inner().unwrap()
        })
        .join()
        .unwrap();
        assert_eq!(taken.len(), 40);
        assert!(taken.iter().all(|helper| ptr::eq(helper.0, &raw const REMOTE_HELPERS)));
        assert!(Helper::take().is_none_or(|helper| ptr::eq(helper.0, &raw const HELPERS)));
    }
}
