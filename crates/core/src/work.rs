//! Long work: it runs on our own threads, counts what it has done and can be told to stop.
#![forbid(unsafe_code)]

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Code, Error, Result};

/// Bytes read or hashed between two looks at the stop flag: under 50 ms even at 100 MB/s.
pub const PIECE: usize = 4 << 20;

/// A flag that ends work between two pieces.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
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

/// Calls `work` for each of `count` items, several at once, on the calling thread and on others beside it. Nothing
/// waits inside a thread of the pool for other work of the pool: that would nest jobs on one stack.
pub fn for_each(count: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let run = || loop {
        let item = next.fetch_add(1, Ordering::Relaxed);
        if item >= count {
            return;
        }
        work(item);
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(count);
    thread::scope(|scope| {
        for _ in 1..threads {
            // Where the system has no thread left, fewer do the same work.
            let _ = thread::Builder::new().name("ztensor-each".to_owned()).spawn_scoped(scope, run);
        }
        run();
    });
}

/// The threads for long work, as many as there are cores; made at first use and kept. They are not those
/// of the host's event loop, which stay free.
pub fn pool() -> Result<&'static ThreadPool> {
    static POOL: OnceLock<std::result::Result<ThreadPool, String>> = OnceLock::new();
    let pool = POOL.get_or_init(|| {
        let built = ThreadPoolBuilder::new().thread_name(|index| format!("ztensor-{index}")).build();
        built.map_err(|error| error.to_string())
    });
    pool.as_ref().map_err(|error| Error::new(Code::Internal, format!("no threads for long work: {error}")))
}
