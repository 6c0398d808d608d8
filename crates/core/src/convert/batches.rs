//! Batches of encoded bytes: all cores make one batch while the previous one is pushed into the writer.
#![forbid(unsafe_code)]

use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::model::{Component, Tensor};
use crate::read::Reading;
use crate::work;
use crate::write::Writer;

pub struct Batches<'r, 'w> {
    reading: Reading<'r>,
    writer: &'w mut Writer,
    /// The batch to push next.
    ready: Vec<u8>,
    made: Vec<u8>,
}

impl<'r, 'w> Batches<'r, 'w> {
    pub fn new(reading: Reading<'r>, writer: &'w mut Writer) -> Self {
        Self { reading, writer, ready: Vec::new(), made: Vec::new() }
    }

    /// Adds a batch of `length` bytes, which `make` produces in steps of `step` bytes. `make` gets the number of the step, and its bytes
    /// to fill.
    pub fn add(
        &mut self,
        step: usize,
        length: usize,
        make: impl Fn(usize, &mut [u8]) -> Result<()> + Sync,
    ) -> Result<()> {
        let Self { reading, writer, ready, made } = self;
        made.resize(length, 0);
        let steps: Vec<_> = made.chunks_mut(step).map(|out| Mutex::new(Some(out))).collect();
        let writer = Mutex::new(writer);
        work::try_each_on(work::cores(), 1 + steps.len(), |at| {
            let Some(at) = at.checked_sub(1) else {
                return push(&mut writer.lock().unwrap_or_else(PoisonError::into_inner), ready);
            };
            reading.watch.stop.check()?;
            make(at, steps.get(at).and_then(|out| out.lock().ok()?.take()).unwrap_or_default())
        })?;
        drop(steps);
        std::mem::swap(&mut self.ready, &mut self.made);
        Ok(())
    }

    pub fn finish(self) -> Result<()> {
        push(self.writer, &self.ready)
    }
}

/// Collects the bytes of a component into batches of up to `batch` bytes, which are whole units of `unit` bytes, and calls `flush` with each.
/// The last one may be empty. Verifies the digest of the component. Fails with `wrong_size` if a part of a unit is left.
pub fn gather(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    component: &Component,
    (batch, unit): (usize, usize),
    wrong_size: fn() -> Error,
    mut flush: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut waiting = Vec::with_capacity(batch);
    reading.pieces(tensor, component, |piece| {
        let mut piece = &*piece;
        while !piece.is_empty() {
            let (taken, rest) = piece.split_at(piece.len().min(batch - waiting.len()));
            waiting.extend_from_slice(taken);
            piece = rest;
            if waiting.len() == batch {
                flush(&waiting)?;
                waiting.clear();
            }
        }
        Ok(())
    })?;
    if !waiting.len().is_multiple_of(unit) {
        return Err(wrong_size());
    }
    flush(&waiting)
}

fn push(writer: &mut Writer, bytes: &[u8]) -> Result<()> {
    writer.push(bytes)?;
    writer.flush_if_full()
}
