//! Threads that compress what a writer gathered while the next is gathered. The writer takes what they made in the order in
//! which it passed it on, so that the file does not depend on how many there are.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::pack::{self, Compressor, How, Packed};
use crate::codecs::seekable_encode::Table;
use crate::codecs::zstd_encode::Search;
use crate::error::{Code, Error, Result};
use crate::inject;
use crate::sinks::block::{Block, FULL};
use crate::work::{Helper, Stop};

/// Memory for what waits to be compressed, or to be taken. What was made of it takes as much again at most.
const WAITING: usize = 40 << 20;

/// Between two looks at the stop flag.
const LOOK: Duration = Duration::from_millis(20);

/// What is to become of gathered bytes.
pub enum Task {
    /// Blobs of these lengths.
    Blobs(Vec<usize>),
    /// Frames of a blob that is too large to be gathered.
    Frames(Search),
}

/// What became of them.
pub enum Made {
    Blobs(Vec<Packed>),
    Frames(Table),
}

struct Job {
    raw: Block,
    out: Block,
    task: Task,
}

/// Gathered bytes, and what became of them.
pub struct Done {
    raw: Block,
    pub out: Block,
    pub made: Made,
}

type Outcome = thread::Result<Result<Done>>;

/// A claim to what becomes of a job.
pub struct Ticket {
    outcome: Receiver<Outcome>,
    /// Memory that it holds.
    held: usize,
}

type Shared = Arc<Mutex<Receiver<(Job, Sender<Outcome>)>>>;

pub struct Packers {
    how: How,
    jobs: Sender<(Job, Sender<Outcome>)>,
    taken: Shared,
    threads: usize,
    most: usize,
    /// Nobody wants what is not made yet.
    stop: Arc<AtomicBool>,
    /// The writer's own, at which it looks while it waits.
    given_up: Stop,
    /// Bytes of memory of the jobs whose tickets are out, and how many there may be.
    held: usize,
    room: usize,
    spare: Vec<Block>,
    /// For what this thread does itself.
    own: Option<Compressor>,
}

impl Packers {
    pub fn new(how: How, given_up: Stop) -> Self {
        let (jobs, taken) = channel();
        let most = usize::try_from(how.threads()).unwrap_or(1);
        let room = ((most + 2) * FULL).min(WAITING);
        let taken = Arc::new(Mutex::new(taken));
        let stop = Arc::new(AtomicBool::new(false));
        Self {
            how,
            jobs,
            taken,
            threads: 0,
            most,
            stop,
            given_up,
            held: 0,
            room,
            spare: Vec::new(),
            own: None,
        }
    }

    pub fn how(&self) -> How {
        self.how
    }

    /// Memory to gather in.
    pub fn block(&mut self) -> Block {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes memory back.
    pub fn give_back(&mut self, mut block: Block) {
        if self.spare.len() < 2 * self.most + 2 {
            block.truncate(0);
            self.spare.push(block);
        }
    }

    /// Gives back memory that nothing needs for a while.
    pub fn rest(&mut self) {
        self.spare = Vec::new();
    }

    /// Whether so much waits that what was passed on first should be taken before there is more.
    pub fn is_full(&self) -> bool {
        self.held > self.room
    }

    /// A compressor for this thread's own use.
    pub fn own(&mut self) -> Result<&mut Compressor> {
        if self.own.is_none() {
            self.own = Some(self.how.compressor()?);
        }
        self.own.as_mut().ok_or_else(|| Error::new(Code::Internal, "no compressor"))
    }

    /// Passes a job on.
    pub fn pass(&mut self, raw: Block, task: Task) -> Result<Ticket> {
        if self.threads < self.most && self.hire() {
            self.threads += 1;
        }
        let job = Job { out: self.block(), raw, task };
        let held = job.raw.space();
        let (done, outcome) = channel();
        if self.threads == 0 {
            let made = self.make(job);
            // The receiver is just below. What failed is told where it is taken: here it would seem to be of one tensor.
            let _ = done.send(Ok(made));
        } else if self.jobs.send((job, done)).is_err() {
            return Err(Error::new(Code::Internal, "the threads that compress are gone"));
        }
        self.held += held;
        Ok(Ticket { outcome, held })
    }

    /// Does a job here and now.
    pub fn do_here(&mut self, raw: Block, task: Task) -> Result<Done> {
        let job = Job { out: self.block(), raw, task };
        self.make(job)
    }

    fn make(&mut self, job: Job) -> Result<Done> {
        let how = self.how;
        make(job, &how, self.own()?)
    }

    /// Begins one more thread, where the system has one.
    fn hire(&self) -> bool {
        let Some(helper) = Helper::take() else { return false };
        let (taken, stop, how) = (Arc::clone(&self.taken), Arc::clone(&self.stop), self.how);
        let work = move || {
            run(&taken, &stop, &how);
            drop(helper);
        };
        thread::Builder::new().name("ztensor-pack".to_owned()).spawn(work).is_ok()
    }

    /// What became of a job, once it is done; `None` where that takes time yet.
    pub fn try_take(&mut self, ticket: &Ticket) -> Result<Option<Done>> {
        match ticket.outcome.try_recv() {
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(lost()),
            Ok(outcome) => self.opened(outcome, ticket.held).map(Some),
        }
    }

    /// What became of a job. At high levels one takes seconds, for which nobody who gives the file up wants to wait.
    pub fn take(&mut self, ticket: &Ticket) -> Result<Done> {
        loop {
            match ticket.outcome.recv_timeout(LOOK) {
                Ok(outcome) => return self.opened(outcome, ticket.held),
                Err(RecvTimeoutError::Timeout) => self.given_up.check()?,
                Err(RecvTimeoutError::Disconnected) => return Err(lost()),
            }
        }
    }

    fn opened(&mut self, outcome: Outcome, held: usize) -> Result<Done> {
        self.held -= held;
        let mut done = outcome.unwrap_or_else(|panic| resume_unwind(panic))?;
        self.give_back(std::mem::take(&mut done.raw));
        Ok(done)
    }
}

impl Drop for Packers {
    fn drop(&mut self) {
        // The threads end by themselves: they have nothing of the file, and the last job may take long.
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn lost() -> Error {
    Error::new(Code::Internal, "a thread that compresses is gone")
}

fn run(taken: &Shared, stop: &AtomicBool, how: &How) {
    let mut compressor = None;
    loop {
        let next = taken.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((job, done)) = next else { return };
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if compressor.is_none() {
                compressor = Some(how.compressor()?);
            }
            let compressor = compressor.as_mut().ok_or_else(lost)?;
            make(job, how, compressor)
        }));
        // Where nobody waits any more the next one is refused by the flag.
        let _ = done.send(outcome);
    }
}

fn make(job: Job, how: &How, compressor: &mut Compressor) -> Result<Done> {
    inject::panic_at("compress");
    let Job { raw, mut out, task } = job;
    let made = match task {
        Task::Blobs(lengths) => {
            let (mut packed, mut start) = (Vec::with_capacity(lengths.len()), 0);
            for length in lengths {
                let bytes = raw.from(start).get(..length).ok_or_else(lost)?;
                packed.push(pack::blob(bytes, how, compressor, &mut out)?);
                start += length;
            }
            Made::Blobs(packed)
        }
        Task::Frames(search) => {
            compressor.search(search)?;
            let mut table = Table::default();
            pack::frames(raw.from(0), how.frame(), compressor, &mut out, &mut table)?;
            Made::Frames(table)
        }
    };
    Ok(Done { raw, out, made })
}

#[cfg(test)]
mod tests {
    use super::super::pack::Compression;
    use super::*;
    use crate::codecs::digest::Over;
    use crate::formats::Method;

    fn packers(threads: u32) -> Packers {
        let compression = Compression { level: 1, min_savings: 0.1, threads, frame: 1 << 20 };
        let how = How { compression, method: Method::Zstd, digest: None, digest_over: Over::Stored };
        Packers::new(how, Stop::default())
    }

    /// [`FULL`] bytes of memory, half of them filled.
    fn raw(first: u8) -> Block {
        let mut block = Block::default();
        block.claim(FULL / 2).unwrap().fill(first);
        assert_eq!(block.space(), FULL);
        block
    }

    #[test]
    fn what_waits_is_bounded_by_the_memory_of_its_blocks() {
        let mut packers = packers(1);
        assert_eq!(packers.room, 3 * FULL);
        let pass = |packers: &mut Packers| packers.pass(raw(7), Task::Blobs(Vec::new())).unwrap();
        let tickets = [(); 3].map(|()| pass(&mut packers));
        assert!(!packers.is_full());
        let last = pass(&mut packers);
        assert!(packers.is_full());
        for ticket in tickets.iter().chain([&last]) {
            packers.take(ticket).unwrap();
            assert!(!packers.is_full());
        }
        assert_eq!(packers.held, 0);
        assert_eq!(self::packers(16).room, WAITING);
    }

    #[test]
    fn no_more_memory_is_kept_than_the_threads_can_fill() {
        let mut packers = packers(3);
        for _ in 0..20 {
            packers.give_back(raw(1));
        }
        assert_eq!(packers.spare.len(), 2 * 3 + 2);
        assert!(packers.block().is_empty());
        packers.rest();
        assert!(packers.spare.is_empty());
    }

    #[test]
    fn jobs_go_to_as_many_threads_as_are_asked_for_and_come_back_in_any_order() {
        let mut packers = packers(2);
        let tickets =
            [1, 2, 3, 4].map(|first| packers.pass(raw(first), Task::Blobs(vec![FULL / 2])).unwrap());
        assert_eq!(packers.threads, 2);
        let check = |done: Done, first: u8| {
            let bytes = zstd::bulk::decompress(done.out.from(0), FULL).unwrap();
            assert!(bytes.len() == FULL / 2 && bytes.iter().all(|&byte| byte == first), "{first}");
        };
        check(packers.take(&tickets[3]).unwrap(), 4);
        for (first, ticket) in (1..).zip(&tickets[..3]) {
            let done = loop {
                if let Some(done) = packers.try_take(ticket).unwrap() {
                    break done;
                }
                thread::yield_now();
            };
            check(done, first);
        }
        let stop = Arc::clone(&packers.stop);
        drop(packers);
        assert!(stop.load(Ordering::Relaxed), "what is not made yet is wanted by nobody");
    }

    #[test]
    fn a_job_is_done_here_where_there_is_no_thread_for_it() {
        let mut packers = packers(1);
        packers.most = 0;
        let ticket = packers.pass(raw(5), Task::Blobs(vec![FULL / 2])).unwrap();
        assert_eq!(packers.threads, 0);
        let done = packers.try_take(&ticket).unwrap().unwrap();
        assert_eq!(zstd::bulk::decompress(done.out.from(0), FULL).unwrap(), vec![5; FULL / 2]);
    }
}
