//! Batch comparison.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use super::{Comparison, Request, compare};
use crate::analysis::elements::Elements;
use crate::checked::product;
use crate::error::{Code, Error, Result};
use crate::model::{Component, Tensor};
use crate::read::Reading;
use crate::sources::read_ahead::ReadAhead;
use crate::work::{self, Watch};

/// Maximum size per side of pairs that are compared concurrently. Larger ones are compared in sequence, each divided over the cores, so
/// that at most one pair of decoded tensors is in memory.
const SMALL: u64 = 8 << 20;
/// Maximum bytes of an element.
const WIDEST: u64 = 16;

/// Maximum consecutive small pairs per thread, which are read together.
const RUN: usize = 256;

/// A tensor, or one of its components.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    pub tensor: Tensor<'a>,
    pub component: Option<&'a Component>,
}

impl<'a> Side<'a> {
    fn elements(self, reading: &Reading<'a>) -> Result<Elements<'a>> {
        match self.component {
            None => Elements::of_tensor(reading, self.tensor),
            Some(component) => Elements::of_component(reading, self.tensor, component),
        }
    }

    /// Returns whether it needs little memory, including decoding, dequantizing or densifying.
    fn is_small(&self) -> bool {
        let elements = product(self.tensor.shape()).and_then(|count| count.checked_mul(WIDEST));
        let parts = self.component.into_iter().chain(self.tensor.own_components());
        let mut decoded = parts.map(Component::byte_length).chain([elements]);
        decoded.all(|length| length.is_some_and(|length| length <= SMALL))
    }
}

/// The result for a pair, and its number of elements.
pub type PairResult = Result<(u64, Comparison)>;

/// Compares pairs of two files; results are in their order, regardless of the number of threads. Fails if the work is canceled. Progress is
/// that of a single pair.
pub fn compare_all(
    readings: [Reading<'_>; 2],
    pairs: &[[Side<'_>; 2]],
    request: Request,
) -> Result<Vec<PairResult>> {
    let watch = readings[0].watch;
    let silent = watch.silent();
    let shown = if pairs.len() == 1 { watch } else { &silent };
    let cells: Vec<OnceLock<PairResult>> = pairs.iter().map(|_| OnceLock::new()).collect();
    let (small, large): (Vec<_>, Vec<_>) =
        pairs.iter().zip(&cells).partition(|(pair, _)| pair.iter().all(Side::is_small));
    let runs: Vec<_> = small.chunks((small.len() / (4 * work::cores())).clamp(1, RUN)).collect();
    work::for_each(runs.len(), |at| {
        let aheads = readings.map(|reading| ReadAhead::new(reading.sources, reading.catalog.shards.len()));
        let near =
            [Reading { sources: &aheads[0], ..readings[0] }, Reading { sources: &aheads[1], ..readings[1] }];
        for (pair, cell) in runs.get(at).into_iter().copied().flatten() {
            let _ = cell.set(one(near, **pair, request, shown));
        }
    });
    for (pair, cell) in large {
        let _ = cell.set(one(readings, *pair, request, shown));
    }
    watch.stop.check()?;
    let missing = || Err(Error::new(Code::Internal, "a pair was not compared"));
    Ok(cells.into_iter().map(|cell| cell.into_inner().unwrap_or_else(missing)).collect())
}

fn one<'a>([a, b]: [Reading<'a>; 2], pair: [Side<'a>; 2], request: Request, watch: &Watch) -> PairResult {
    watch.stop.check()?;
    let (a, b) = (pair[0].elements(&a)?, pair[1].elements(&b)?);
    Ok((a.count, compare(&a, &b, request, watch)?))
}
