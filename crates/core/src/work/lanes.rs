//! Queues of work, and the threads that take it from them. Each lane has threads of its own, so that what is short never waits
//! for what is long.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use super::{IS_FAR, cores};
use crate::error::{Code, Error, Result};

/// Up to this many bytes work is short: a core decodes or hashes them in some 10 ms.
pub const SHORT: u64 = 4 << 20;

/// Calls at once that wait for what is far away. Each reads with threads of its own.
const FAR: usize = 64;

/// Where work waits for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Opening files, and whatever reads or writes [`SHORT`] bytes at most.
    Short,
    /// One step of a file that is written: a piece of a tensor, the end. It may wait for the disk, or compress.
    Step,
    /// Everything else: conversions, verifications, large loads.
    Long,
    /// Whatever waits for another machine, or for code of the host: its threads sleep most of the time.
    Far,
}

impl Lane {
    /// The lane for work on so many bytes.
    pub fn of(bytes: u64) -> Self {
        if bytes <= SHORT { Self::Short } else { Self::Long }
    }

    fn queue(self) -> &'static Queue {
        static QUEUES: [Queue; 4] = [const { Queue::new() }; 4];
        let [short, step, long, far] = &QUEUES;
        match self {
            Self::Short => short,
            Self::Step => step,
            Self::Long => long,
            Self::Far => far,
        }
    }

    /// Threads that it has at most.
    fn most(self) -> usize {
        match self {
            // Opening can wait for a disk or a network, which must not hold up all other short work.
            Self::Short => cores().max(4),
            Self::Step | Self::Long => cores(),
            Self::Far => FAR,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Short => "ztensor-short",
            Self::Step => "ztensor-step",
            Self::Long => "ztensor-long",
            Self::Far => "ztensor-far",
        }
    }
}

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    /// By the order in which they came.
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

    fn hire(&'static self, lane: Lane, state: &mut State) -> std::io::Result<()> {
        let name = format!("{}-{}", lane.name(), state.threads);
        Builder::new().name(name).spawn(move || {
            IS_FAR.set(lane == Lane::Far);
            self.serve();
        })?;
        state.threads += 1;
        Ok(())
    }

    /// What each thread does. It stays, since starting one costs more than most jobs.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some((_, job)) = state.jobs.pop_first() {
                drop(state);
                // A job tells its caller of a panic. The thread goes on.
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

/// The place of a job in its lane.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    lane: Lane,
    number: u64,
}

impl Waiting {
    /// Takes the job out, unless a thread has begun it.
    pub fn take(self) -> Option<impl FnOnce() + Send> {
        self.lane.queue().lock().jobs.remove(&self.number)
    }
}

/// A lane that has a thread.
#[derive(Clone, Copy, Debug)]
pub struct Ready(Lane);

impl Lane {
    /// Sees to it that the lane has a thread. `ZT_LIMIT` where the system gives it none; the next call tries again.
    pub fn ready(self) -> Result<Ready> {
        let queue = self.queue();
        let mut state = queue.lock();
        if state.threads == 0 {
            let none =
                |error| Error::new(Code::Limit, format!("the system has no thread for the work: {error}"));
            queue.hire(self, &mut state).map_err(none)?;
        }
        Ok(Ready(self))
    }
}

impl Ready {
    /// Has a thread of the lane do a job, after those that came before it.
    pub fn spawn(self, job: impl FnOnce() + Send + 'static) -> Waiting {
        let queue = self.0.queue();
        let mut state = queue.lock();
        let number = state.next;
        state.next += 1;
        state.jobs.insert(number, Box::new(job));
        if state.jobs.len() > state.idle && state.threads < self.0.most() {
            // Where the system has no thread left, fewer do the same work.
            let _ = queue.hire(self.0, &mut state);
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

    // One test, since the lanes are the process's.
    #[test]
    fn a_full_lane_holds_up_nobody_else_and_lets_go_of_what_waits() {
        // Some that wait for a disk or a network must not hold up the others.
        assert!(Lane::Short.most() >= 4);
        let (release, gate): (Vec<Sender<()>>, Vec<Receiver<()>>) =
            (0..Lane::Long.most()).map(|_| channel()).unzip();
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
