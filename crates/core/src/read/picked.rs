//! Parts of encoded data that can only be decoded from its beginning: they are copied out as it is decoded, piece by piece.
#![forbid(unsafe_code)]

use super::{Reading, too_many};
use crate::checked::index;
use crate::error::{Code, Error, Result};
use crate::kernels::widen;
use crate::model::slice::TensorSlice;
use crate::model::{Component, DType, Data, Tensor};
use crate::sources::owned::Owned;

/// Smaller components are decoded as a whole: that takes less time.
const WHOLE: u64 = 16 << 20;

/// A range of the bytes of a component, and its position in the output.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub start: u64,
    pub bytes: u64,
    pub target: u64,
}

impl Reading<'_> {
    /// Returns whether a component is so large that it is decoded in pieces where only parts of it are wanted.
    pub(super) fn is_picked(component: &Component) -> bool {
        let is_encoded = matches!(component.data, Data::Blob(_)) && component.plain_range().is_none();
        is_encoded && component.byte_length().is_some_and(|length| length > WHOLE)
    }

    /// Copies runs of the elements of a component, in rising order of their starts, into `output`. All of it is decoded, so that its digest
    /// is verified.
    pub(super) fn pick(
        &self,
        tensor: Tensor<'_>,
        component: &Component,
        runs: impl Iterator<Item = Run>,
        output: &mut [u8],
    ) -> Result<()> {
        let mut runs = runs.filter(|run| run.bytes > 0).peekable();
        let mut active: Vec<Run> = Vec::new();
        let mut at = 0_u64;
        self.check_decoded(component, component.byte_length().unwrap_or_default())?;
        self.pieces(tensor, component, |piece| {
            let end = at.saturating_add(piece.len() as u64);
            while let Some(run) = runs.next_if(|run| run.start < end) {
                active.push(run);
                copy_from(piece, at, active.last_mut(), output)?;
                if active.last().is_some_and(|run| run.bytes == 0) {
                    active.pop();
                }
            }
            let carried = active.iter_mut().filter(|run| run.start < end && run.bytes > 0);
            for run in carried {
                copy_from(piece, at, Some(run), output)?;
            }
            active.retain(|run| run.bytes > 0);
            at = end;
            Ok(())
        })?;
        if active.is_empty() && runs.peek().is_none() {
            return Ok(());
        }
        Err(Error::new(Code::Decode, "the decoded data ends before its elements do"))
    }

    /// Returns a slice of a component, if it is worthwhile to decode it in pieces.
    pub(super) fn picked_slice(
        &self,
        tensor: Tensor<'_>,
        component: &Component,
        slice: &TensorSlice,
    ) -> Result<Option<Owned>> {
        if !Self::is_picked(component) || !slice.is_rising() {
            return Ok(None);
        }
        let mut output = Owned::to_fill(slice.byte_length())?;
        let mut target = 0;
        let runs = slice.runs().map(|(start, bytes)| {
            let run = Run { start, bytes, target };
            target += bytes;
            run
        });
        self.pick(tensor, component, runs, &mut output)?;
        Ok(Some(output))
    }

    /// Returns all `elements` of a component as float32, widened as they are decoded. `None` for small ones and packed ones.
    pub(super) fn widened_pieces(
        &self,
        tensor: Tensor<'_>,
        component: &Component,
        dtype: DType,
        elements: u64,
    ) -> Result<Option<Owned>> {
        let width = dtype.element_bytes() as u64;
        let is_whole = component.byte_length() == elements.checked_mul(width);
        if !Self::is_picked(component) || dtype.bits() < 8 || !is_whole {
            return Ok(None);
        }
        if let Some(blob) = component.blob()
            && self.frames_of(blob)?.is_some_and(|frames| !frames.step().is_multiple_of(width))
        {
            return Ok(None); // the pieces end within elements
        }
        self.check_decoded(component, component.byte_length().unwrap_or_default())?;
        let mut output = Owned::to_fill(elements.checked_mul(4).ok_or_else(too_many)?)?;
        let mut rest = &mut *output;
        self.pieces(tensor, component, |piece| {
            let floats = index(piece.len() as u64 / width * 4, "a piece")?;
            let (now, later) = std::mem::take(&mut rest).split_at_mut_checked(floats).ok_or_else(too_many)?;
            rest = later;
            widen::to_float32_divided(dtype, piece, now, &self.watch.stop)
        })?;
        let is_filled = rest.is_empty();
        is_filled.then_some(()).ok_or_else(too_many)?;
        Ok(Some(output))
    }
}

/// Copies what a piece that begins at `at` has of a run, and shortens the run by it.
fn copy_from(piece: &[u8], at: u64, run: Option<&mut Run>, output: &mut [u8]) -> Result<()> {
    let Some(run) = run else { return Ok(()) };
    let from = index(run.start.saturating_sub(at), "a run")?;
    let count = piece.len().saturating_sub(from).min(usize::try_from(run.bytes).unwrap_or(usize::MAX));
    let target = index(run.target, "a run")?;
    let out = output.get_mut(target..).and_then(|output| output.get_mut(..count)).ok_or_else(too_many)?;
    out.copy_from_slice(piece.get(from..from + count).ok_or_else(too_many)?);
    run.start += count as u64;
    run.bytes -= count as u64;
    run.target += count as u64;
    Ok(())
}
