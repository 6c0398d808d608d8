//! The elements of an encoded component in order, pulled by their consumer: another thread decodes ahead of it, and little is in memory.
#![forbid(unsafe_code)]

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use super::Reading;
use crate::error::{Code, Error, Result};
use crate::model::{Component, Tensor};
use crate::work;

/// Maximum bytes that are passed on together.
const PASSED: usize = 1 << 20;

/// Fills memory with the next bytes.
pub type Next<'n> = &'n mut dyn FnMut(&mut [u8]) -> Result<()>;

impl Reading<'_> {
    /// Calls `work` with a function that returns the elements of a component from the first to the last, little-endian. After `work`, which
    /// need not take all of them, the rest is decoded, so that the digest is verified.
    pub fn sequence<T>(
        &self,
        tensor: Tensor<'_>,
        component: &Component,
        work: impl FnOnce(Next<'_>) -> Result<T>,
    ) -> Result<T> {
        thread::scope(|scope| {
            let (sender, receiver) = sync_channel::<Vec<u8>>(1);
            let decode = move || {
                self.pieces(tensor, component, |piece| {
                    piece.chunks(PASSED).try_for_each(|part| {
                        // The consumer has gone: the error is not seen.
                        sender.send(part.to_vec()).map_err(|_| Error::new(Code::Aborted, "not needed"))
                    })
                })
            };
            let thread = work::scoped(scope, "ztensor-decode", decode)?;
            let mut pending = Pending { receiver, bytes: Vec::new(), at: 0 };
            let done = work(&mut |out| pending.fill(out));
            if done.is_ok() {
                while pending.receiver.recv().is_ok() {}
            }
            let is_complete = done.is_ok();
            drop(pending);
            let decoded = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            match (decoded, done) {
                (Err(error), _) if is_complete || error.code() != Code::Aborted => Err(error),
                (_, done) => done,
            }
        })
    }
}

struct Pending {
    receiver: Receiver<Vec<u8>>,
    bytes: Vec<u8>,
    at: usize,
}

impl Pending {
    fn fill(&mut self, mut out: &mut [u8]) -> Result<()> {
        while !out.is_empty() {
            if self.at == self.bytes.len() {
                let ended = |_| Error::new(Code::Decode, "the decoded data ends before its elements do");
                (self.bytes, self.at) = (self.receiver.recv().map_err(ended)?, 0);
            }
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let count = rest.len().min(out.len());
            let (now, later) = out.split_at_mut(count);
            now.copy_from_slice(rest.get(..count).unwrap_or_default());
            (out, self.at) = (later, self.at + count);
        }
        Ok(())
    }
}
