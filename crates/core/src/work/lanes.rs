//! Queues of jobs, each with its own threads, so that short jobs never wait for long ones.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use super::{IS_REMOTE, cores};
use crate::error::{Code, Error, Result};

/// Work on up to this many bytes is short: a core decodes or hashes them in about 10 ms.
pub const SHORT: u64 = 4 << 20;

/// Maximum concurrent calls that wait for other machines. Each has its own threads to read with.
const REMOTE: usize = 64;

/// A queue of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Opens, and reads and writes of at most [`SHORT`] bytes.
    Short,
    /// One step of writing a file: a piece of a tensor, or the end. It may wait for the disk, or compress.
    Step,
    /// Everything else: conversions, verifications, large loads.
    Long,
    /// Work that waits for another machine, or for the caller's code: its threads sleep most of the time.
    Remote,
}

impl Lane {
    /// Returns the lane for work on a number of bytes.
    pub fn of(bytes: u64) -> Self {
        if bytes <= SHORT { Self::Short } else { Self::Long }
    }

    fn queue(self) -> &'static Queue {
        static QUEUES: [Queue; 4] = [const { Queue::new() }; 4];
        let [short, step, long, remote] = &QUEUES;
        match self {
            Self::Short => short,
            Self::Step => step,
            Self::Long => long,
            Self::Remote => remote,
        }
    }

    /// Returns the maximum number of threads.
    fn max(self) -> usize {
        match self {
            // An open can wait for a disk or a network drive, which must not delay all other short work.
            Self::Short => cores().max(4),
            Self::Step | Self::Long => cores(),
            Self::Remote => REMOTE,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Short => "ztensor-short",
            Self::Step => "ztensor-step",
            Self::Long => "ztensor-long",
            Self::Remote => "ztensor-remote",
        }
    }
}

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    /// By arrival.
    jobs: BTreeMap<u64, Job>,
    next: u64,
    threads: usize,
    idle: usize,
}

struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

impl Queue {
    const fn new() -> Self {
        let state = State { jobs: BTreeMap::new(), next: 0, threads: 0, idle: 0 };
        Self { state: Mutex::new(state), wake: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_thread(&'static self, lane: Lane, state: &mut State) -> std::io::Result<()> {
        let name = format!("{}-{}", lane.name(), state.threads);
        Builder::new().name(name).spawn(move || {
            IS_REMOTE.set(lane == Lane::Remote);
            self.serve();
        })?;
        state.threads += 1;
        Ok(())
    }

    /// The loop of a thread. Threads stay, because starting one costs more than most jobs.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some((_, job)) = state.jobs.pop_first() {
                drop(state);
                // The job reports a panic to its caller.
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = self.lock();
            } else {
                state.idle += 1;
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

/// A job that waits in its lane.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    lane: Lane,
    number: u64,
}

impl Waiting {
    /// Removes and returns the job, unless a thread has started it.
    pub fn take(self) -> Option<impl FnOnce() + Send> {
        self.lane.queue().lock().jobs.remove(&self.number)
    }
}

/// A lane that has a thread.
#[derive(Clone, Copy, Debug)]
pub struct Ready(Lane);

impl Lane {
    /// Starts a thread if the lane has none. Fails with `ZT_LIMIT` if the system refuses; the next call tries again.
    pub fn ready(self) -> Result<Ready> {
        let queue = self.queue();
        let mut state = queue.lock();
        if state.threads == 0 {
            let none =
                |error| Error::new(Code::Limit, format!("the system has no thread for the work: {error}"));
            queue.start_thread(self, &mut state).map_err(none)?;
        }
        Ok(Ready(self))
    }
}

impl Ready {
    /// Queues a job.
    pub fn spawn(self, job: impl FnOnce() + Send + 'static) -> Waiting {
        let queue = self.0.queue();
        let mut state = queue.lock();
        let number = state.next;
        state.next += 1;
        state.jobs.insert(number, Box::new(job));
        if state.jobs.len() > state.idle && state.threads < self.0.max() {
            // If the system has no thread left, fewer threads do the work.
            let _ = queue.start_thread(self.0, &mut state);
        }
        drop(state);
        queue.wake.notify_one();
        Waiting { lane: self.0, number }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    // One test, because lanes are global.
    #[test]
    fn a_full_lane_does_not_delay_others_and_its_waiting_jobs_can_be_taken() {
        // Jobs that wait for a disk or a network must not delay others.
        assert!(Lane::Short.max() >= 4);
        let (release, gate): (Vec<Sender<()>>, Vec<Receiver<()>>) =
            (0..Lane::Long.max()).map(|_| channel()).unzip();
        let [short, step, long] = [Lane::Short, Lane::Step, Lane::Long].map(|lane| lane.ready().unwrap());
        let (say, busy) = channel();
        for gate in gate {
            let say = say.clone();
            long.spawn(move || {
                say.send(()).unwrap();
                let _ = gate.recv();
            });
        }
        for _ in &release {
            busy.recv().unwrap();
        }
        // Every thread of the lane is busy.
        let (done, order) = channel();
        let say = |what: &'static str| {
            let done = done.clone();
            move || done.send(what).unwrap()
        };
        let first = long.spawn(say("first"));
        let second = long.spawn(say("second"));
        long.spawn(|| panic!("a thread lives on"));
        long.spawn(say("last"));
        short.spawn(say("short"));
        assert_eq!(order.recv(), Ok("short"));
        step.spawn(say("step"));
        assert_eq!(order.recv(), Ok("step"));
        let job = first.take().expect("it waits");
        assert!(first.take().is_none(), "it is out");
        job();
        assert_eq!(order.recv(), Ok("first"));
        drop(release);
        assert_eq!(order.recv(), Ok("second"));
        assert_eq!(order.recv(), Ok("last"));
        assert!(second.take().is_none(), "it was done");
    }
}
