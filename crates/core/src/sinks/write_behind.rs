//! A thread that writes full blocks while the next one is filled.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::Seek;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use super::block::Block;
use crate::error::{Code, Error, Result};
use crate::sources::writeback;

/// Maximum blocks in flight: one is written, one waits, one is filled. No more, to limit memory.
const WAITING: usize = 2;

/// A block, and an optional caller-provided block after it.
type Blocks = (Block, Option<Block>);

/// Writes blocks in order, at the file's own position.
pub struct WriteBehind {
    full: Option<Sender<Blocks>>,
    done: Receiver<(Blocks, std::io::Result<()>)>,
    /// Blocks sent and not returned yet.
    waiting: usize,
    free: Vec<Block>,
    /// The file, for error messages.
    target: Option<PathBuf>,
    /// The first error; nothing is written after it.
    failed: Option<Error>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn write(file: &mut File, block: &Block) -> std::io::Result<()> {
    let start = file.stream_position()?;
    block.write_to(file)?;
    let end = file.stream_position()?;
    writeback::begin(file, start, end - start);
    Ok(())
}

impl WriteBehind {
    /// Returns `None` if the system has no thread or handle left: then the caller writes itself.
    pub fn new(file: &File, target: Option<&Path>) -> Option<Self> {
        let mut file = file.try_clone().ok()?;
        let (full, blocks) = channel::<Blocks>();
        let (finished, done) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || {
            for (block, whole) in blocks {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let blocks = [Some(&block), whole.as_ref()].into_iter().flatten();
                let written = blocks.into_iter().try_for_each(|block| write(&mut file, block));
                let failed = written.is_err();
                if finished.send(((block, whole), written)).is_err() || failed {
                    return;
                }
            }
        };
        let thread = Builder::new().name("ztensor-write".to_owned()).spawn(work).ok()?;
        let thread = Some(thread);
        let (free, target) = (Vec::new(), target.map(Path::to_owned));
        Some(Self { full: Some(full), done, waiting: 0, free, target, failed: None, stop, thread })
    }

    /// Returns whether a block can be accepted without waiting for another one to be written.
    pub fn has_space(&mut self) -> bool {
        while let Ok(done) = self.done.try_recv() {
            self.take_back(done);
        }
        self.waiting < WAITING
    }

    /// Takes the first `count` bytes of a block and leaves one that contains the rest.
    pub fn write(&mut self, block: &mut Block, count: usize) -> Result<()> {
        self.send(block, count, None)
    }

    /// Takes all of a block, and one after it; returns a free block, if there is one.
    pub fn write_with(&mut self, block: &mut Block, whole: Block) -> Result<Option<Block>> {
        self.send(block, block.len(), Some(whole))?;
        Ok(self.free.pop())
    }

    fn send(&mut self, block: &mut Block, count: usize, whole: Option<Block>) -> Result<()> {
        if !self.has_space() {
            self.wait()?;
        }
        self.failure()?;
        let mut next = self.free.pop().unwrap_or_default();
        block.split(count, &mut next)?;
        std::mem::swap(block, &mut next);
        self.waiting += 1;
        let sent = self.full.as_ref().is_some_and(|full| full.send((next, whole)).is_ok());
        if sent { Ok(()) } else { self.drain() }
    }

    /// Waits until everything is written.
    pub fn drain(&mut self) -> Result<()> {
        while self.waiting > 0 {
            self.wait()?;
        }
        self.failure()
    }

    fn wait(&mut self) -> Result<()> {
        if let Ok(done) = self.done.recv() {
            self.take_back(done);
            return self.failure();
        }
        self.failure()?;
        Err(Error::new(Code::Internal, "the writer thread has ended"))
    }

    fn take_back(&mut self, ((block, whole), written): (Blocks, std::io::Result<()>)) {
        self.waiting -= 1;
        match written {
            Ok(()) => self.free.extend([Some(block), whole].into_iter().flatten()),
            Err(error) => {
                let error = Error::io("write", &error);
                self.failed = Some(self.target.iter().fold(error, |error, target| error.file(target)));
            }
        }
    }

    fn failure(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.full.take());
        if let Some(thread) = self.thread.take() {
            // It is at most in the middle of one block.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_discards_pending_blocks() {
        let path = std::env::temp_dir().join(format!("ztensor-behind-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        let mut behind = WriteBehind::new(&file, None).unwrap();
        let mut block = Block::default();
        block.claim(1 << 20).unwrap().fill(1);
        behind.write(&mut block, 1 << 20).unwrap();
        let stop = Arc::clone(&behind.stop);
        drop(behind);
        assert!(stop.load(Ordering::Relaxed), "pending blocks are discarded");
        assert_eq!(Arc::strong_count(&stop), 1, "its thread has ended");
        std::fs::remove_file(path).unwrap();
    }
}
