//! Threads that compress one batch while the writer gathers the next. The writer takes the results in the order in
//! which it passed the batches on, so that the file does not depend on the number of threads.
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

/// Limits the memory in bytes of batches that wait to be compressed or taken. Their results take at most as much again.
const WAITING: usize = 40 << 20;

/// The interval between two checks of the stop flag.
const LOOK: Duration = Duration::from_millis(20);

/// The work to do on gathered bytes.
pub enum Task {
    /// Compress blobs of these lengths.
    Blobs(Vec<usize>),
    /// Compress frames of a blob that is too large to gather.
    Frames(Search),
}

/// The result of a task.
pub enum Compressed {
    Blobs(Vec<Packed>),
    Frames(Table),
}

struct Job {
    raw: Block,
    out: Block,
    task: Task,
}

/// Gathered bytes and their result.
pub struct CompressedBatch {
    raw: Block,
    pub out: Block,
    pub made: Compressed,
}

type Outcome = thread::Result<Result<CompressedBatch>>;

/// A handle to the result of a job.
pub struct Ticket {
    outcome: Receiver<Outcome>,
    /// The memory of the job in bytes.
    held: usize,
}

type Shared = Arc<Mutex<Receiver<(Job, Sender<Outcome>)>>>;

pub struct Packers {
    how: How,
    jobs: Sender<(Job, Sender<Outcome>)>,
    taken: Shared,
    threads: usize,
    max: usize,
    /// Set when the remaining results are not needed.
    stop: Arc<AtomicBool>,
    /// The writer's own stop flag, checked during waits.
    given_up: Stop,
    /// The bytes of memory of jobs with outstanding tickets, and their limit.
    held: usize,
    held_limit: usize,
    reusable: Vec<Block>,
    /// The compressor of the calling thread.
    own: Option<Compressor>,
}

impl Packers {
    pub fn new(how: How, given_up: Stop) -> Self {
        let (jobs, taken) = channel();
        let max = usize::try_from(how.threads()).unwrap_or(1);
        let held_limit = ((max + 2) * FULL).min(WAITING);
        let taken = Arc::new(Mutex::new(taken));
        let stop = Arc::new(AtomicBool::new(false));
        Self {
            how,
            jobs,
            taken,
            threads: 0,
            max,
            stop,
            given_up,
            held: 0,
            held_limit,
            reusable: Vec::new(),
            own: None,
        }
    }

    pub fn how(&self) -> How {
        self.how
    }

    /// Returns a block to gather in.
    pub fn block(&mut self) -> Block {
        self.reusable.pop().unwrap_or_default()
    }

    /// Takes a block back for reuse.
    pub fn give_back(&mut self, mut block: Block) {
        if self.reusable.len() < 2 * self.max + 2 {
            block.truncate(0);
            self.reusable.push(block);
        }
    }

    /// Returns whether so much work is outstanding that the oldest batch should be taken first.
    pub fn is_full(&self) -> bool {
        self.held > self.held_limit
    }

    /// Returns the compressor of the calling thread.
    pub fn own(&mut self) -> Result<&mut Compressor> {
        if self.own.is_none() {
            self.own = Some(self.how.compressor()?);
        }
        self.own.as_mut().ok_or_else(|| Error::new(Code::Internal, "no compressor"))
    }

    /// Passes a job on.
    pub fn pass(&mut self, raw: Block, task: Task) -> Result<Ticket> {
        if self.threads < self.max && self.hire() {
            self.threads += 1;
        }
        let job = Job { out: self.block(), raw, task };
        let held = job.raw.space();
        let (done, outcome) = channel();
        if self.threads == 0 {
            let made = self.make(job);
            // Cannot fail: the receiver is alive. An error of the job is reported where its result is taken: here it
            // would seem to concern one tensor.
            let _ = done.send(Ok(made));
        } else if self.jobs.send((job, done)).is_err() {
            return Err(Error::new(Code::Internal, "the threads that compress are gone"));
        }
        self.held += held;
        Ok(Ticket { outcome, held })
    }

    /// Runs a job on the calling thread.
    pub fn do_here(&mut self, raw: Block, task: Task) -> Result<CompressedBatch> {
        let job = Job { out: self.block(), raw, task };
        self.make(job)
    }

    fn make(&mut self, job: Job) -> Result<CompressedBatch> {
        let how = self.how;
        make(job, &how, self.own()?)
    }

    /// Starts one more thread, if the limit for helper threads allows it. Returns whether it did.
    fn hire(&self) -> bool {
        let Some(helper) = Helper::take() else { return false };
        let (taken, stop, how) = (Arc::clone(&self.taken), Arc::clone(&self.stop), self.how);
        let work = move || {
            run(&taken, &stop, &how);
            drop(helper);
        };
        thread::Builder::new().name("ztensor-pack".to_owned()).spawn(work).is_ok()
    }

    /// Returns the result of a job; `None` if it is not done yet.
    pub fn try_take(&mut self, ticket: &Ticket) -> Result<Option<CompressedBatch>> {
        match ticket.outcome.try_recv() {
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(lost()),
            Ok(outcome) => self.opened(outcome, ticket.held).map(Some),
        }
    }

    /// Waits for the result of a job. At high levels a job takes seconds, so the wait checks the stop flag.
    pub fn take(&mut self, ticket: &Ticket) -> Result<CompressedBatch> {
        // Without threads it is done, and a platform without threads may have no clock to wait by.
        if let Some(done) = self.try_take(ticket)? {
            return Ok(done);
        }
        loop {
            match ticket.outcome.recv_timeout(LOOK) {
                Ok(outcome) => return self.opened(outcome, ticket.held),
                Err(RecvTimeoutError::Timeout) => self.given_up.check()?,
                Err(RecvTimeoutError::Disconnected) => return Err(lost()),
            }
        }
    }

    fn opened(&mut self, outcome: Outcome, held: usize) -> Result<CompressedBatch> {
        self.held -= held;
        let mut done = outcome.unwrap_or_else(|panic| resume_unwind(panic))?;
        self.give_back(std::mem::take(&mut done.raw));
        Ok(done)
    }
}

impl Drop for Packers {
    fn drop(&mut self) {
        // The threads end by themselves: they do not use the file, and the last job may take long.
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
        // If the receiver is gone, the flag ends the loop at the next job.
        let _ = done.send(outcome);
    }
}

fn make(job: Job, how: &How, compressor: &mut Compressor) -> Result<CompressedBatch> {
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
            Compressed::Blobs(packed)
        }
        Task::Frames(search) => {
            compressor.search(search)?;
            let mut table = Table::default();
            pack::frames(raw.from(0), how.frame(), compressor, &mut out, &mut table)?;
            Compressed::Frames(table)
        }
    };
    Ok(CompressedBatch { raw, out, made })
}

#[cfg(test)]
mod tests {
    use super::super::settings::Compression;
    use super::*;
    use crate::codecs::digest::Over;
    use crate::formats::Method;

    fn packers(threads: u32) -> Packers {
        let compression = Compression { level: 1, min_savings: 0.1, threads, frame: 1 << 20 };
        let how = How { compression, method: Method::Zstd, digest: None, digest_over: Over::Stored };
        Packers::new(how, Stop::default())
    }

    /// A block of [`FULL`] bytes of memory, half of them filled.
    fn raw(first: u8) -> Block {
        let mut block = Block::default();
        block.claim(FULL / 2).unwrap().fill(first);
        assert_eq!(block.space(), FULL);
        block
    }

    #[test]
    fn outstanding_work_is_limited_by_the_memory_of_its_blocks() {
        let mut packers = packers(1);
        assert_eq!(packers.held_limit, 3 * FULL);
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
        assert_eq!(self::packers(16).held_limit, WAITING);
    }

    #[test]
    fn reusable_blocks_are_limited_by_the_number_of_threads() {
        let mut packers = packers(3);
        for _ in 0..20 {
            packers.give_back(raw(1));
        }
        assert_eq!(packers.reusable.len(), 2 * 3 + 2);
        assert!(packers.block().is_empty());
    }

    #[test]
    fn jobs_run_on_the_requested_threads_and_can_be_taken_in_any_order() {
        let mut packers = packers(2);
        let tickets =
            [1, 2, 3, 4].map(|first| packers.pass(raw(first), Task::Blobs(vec![FULL / 2])).unwrap());
        assert_eq!(packers.threads, 2);
        let check = |done: CompressedBatch, first: u8| {
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
    fn a_job_runs_on_the_calling_thread_if_no_other_can_start() {
        let mut packers = packers(1);
        packers.max = 0;
        let ticket = packers.pass(raw(5), Task::Blobs(vec![FULL / 2])).unwrap();
        assert_eq!(packers.threads, 0);
        let done = packers.try_take(&ticket).unwrap().unwrap();
        assert_eq!(zstd::bulk::decompress(done.out.from(0), FULL).unwrap(), vec![5; FULL / 2]);
    }
}
