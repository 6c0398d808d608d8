//! Long work: it runs on our own threads, counts what it has done and can be stopped. It uses no other module.
#![forbid(unsafe_code)]

pub mod lanes;

use std::cell::Cell;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::thread;

use crate::error::{Code, Error, Result};

/// Bytes read or hashed between two looks at the stop flag: under 50 ms even at 100 MB/s.
pub const PIECE: usize = 4 << 20;

/// A flag that ends work between two pieces.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that nobody sets, for reads that nobody ends.
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

/// What a piece of long work shares with whoever watches it.
#[derive(Clone, Default)]
pub struct Watch {
    pub stop: Stop,
    counts: Arc<[AtomicU64; 4]>,
}

/// How far the work has come.
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

    /// One with the same stop flag that counts for nobody.
    #[must_use]
    pub fn silent(&self) -> Self {
        Self::stopped_by(&self.stop)
    }

    /// One that counts for nobody.
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

/// Threads that this machine runs at once, as they were at the first look: one takes the system a dozen calls, for the bounds of
/// control groups.
pub fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

/// Calls `work` for each of `count` items, several at once, on the calling thread and on others beside it. Nothing
/// waits inside a thread of a lane for other work of a lane: all of its threads could wait so.
pub fn for_each(count: usize, work: impl Fn(usize) + Sync) {
    for_each_on(cores(), count, work);
}

/// The same on so many threads at most.
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
            let far = IS_FAR.get();
            let run = move || {
                IS_FAR.set(far);
                run();
                drop(helper);
            };
            // Where the system has no thread left, fewer do the same work.
            let Ok(thread) = thread::Builder::new().name("ztensor-each".to_owned()).spawn_scoped(scope, run)
            else {
                break;
            };
            helping.push(thread);
        }
        run();
        // The scope would wait for the work alone: what a thread keeps for itself, a decoder, is returned when it has ended.
        for thread in helping {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
}

/// One of the threads that may help at a time. Calls nest and come side by side, and each would like as many as
/// there are cores.
pub(crate) struct Helper(&'static AtomicUsize);

static HELPERS: AtomicUsize = AtomicUsize::new(0);
/// Those of work that waits for somebody else: they sleep, and take nobody's core.
static FAR_HELPERS: AtomicUsize = AtomicUsize::new(0);
const MOST_FAR: usize = 256;

thread_local! {
    /// Whether the thread does work that waits for somebody else.
    static IS_FAR: Cell<bool> = const { Cell::new(false) };
}

impl Helper {
    pub(crate) fn take() -> Option<Self> {
        let (helpers, most) =
            if IS_FAR.get() { (&FAR_HELPERS, MOST_FAR) } else { (&HELPERS, (2 * cores()).max(32)) };
        let taken = helpers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |helpers| {
            (helpers < most).then_some(helpers + 1)
        });
        taken.ok().map(|_| Self(helpers))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The same with work that can fail: the first failure ends what has not begun.
pub fn try_each_on(threads: usize, count: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    let failed = OnceLock::new();
    for_each_on(threads, count, |item| {
        if failed.get().is_none()
            && let Err(error) = work(item)
        {
            // A second failure at the same time is the same story.
            let _ = failed.set(error);
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}

/// Bytes that one core copies at a time, where several do.
const COPIED: usize = 4 << 20;

/// Copies bytes to as many, on all cores where they are many.
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
    fn helpers_have_ended_with_all_they_kept_when_the_call_returns() {
        static ENDED: AtomicUsize = AtomicUsize::new(0);
        struct Kept;
        impl Drop for Kept {
            fn drop(&mut self) {
                // So that a caller who did not wait would be the first.
                for _ in 0..1000 {
                    thread::yield_now();
                }
                ENDED.fetch_add(1, Ordering::Relaxed);
            }
        }
        thread_local!(static KEPT: Kept = const { Kept });
        let both = Barrier::new(2);
        let caller = thread::current().id();
        for_each_on(2, 2, |_| {
            both.wait();
            if thread::current().id() != caller {
                KEPT.with(|_| ());
            }
        });
        assert_eq!(ENDED.load(Ordering::Relaxed), 1);
    }

    /// The helpers of work that waits for somebody else are not those of the others, in threads that help as well.
    #[test]
    fn far_work_takes_no_helper_of_others() {
        let taken: Vec<Helper> = thread::spawn(|| {
            IS_FAR.set(true);
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
        assert!(taken.iter().all(|helper| ptr::eq(helper.0, &raw const FAR_HELPERS)));
        assert!(Helper::take().is_none_or(|helper| ptr::eq(helper.0, &raw const HELPERS)));
    }
}
