//! Checks that the cells of a large COO tensor are unique, as version 2 requires.
#![forbid(unsafe_code)]

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use super::array::{Array, BLOCK, numbers};
use crate::checked::product;
use crate::error::{Code, Error, Result};
use crate::layouts::exact::COO;
use crate::work::Stop;

/// The number of cells compared at a time: 64 MiB.
const HELD: u64 = 8 << 20;

/// The coordinates of a tensor, already checked.
pub struct Cells<'a> {
    pub coords: &'a dyn Array,
    pub shape: &'a [u64],
    pub nnz: u64,
}

impl Cells<'_> {
    /// Calls `each` with the cells of each block, as flat indices below the product of the shape.
    fn blocks(&self, mut each: impl FnMut(&[u64])) -> Result<()> {
        let mut first = 0;
        while first < self.nnz {
            let count = BLOCK.min(self.nnz - first);
            let mut cells = Vec::new();
            for (d, &dim) in (0_u64..).zip(self.shape) {
                let axis = numbers(self.coords, d * self.nnz + first, count)?;
                cells.resize(axis.len(), 0_u64);
                for (cell, index) in cells.iter_mut().zip(axis) {
                    *cell = cell.wrapping_mul(dim).wrapping_add(index);
                }
            }
            each(&cells);
            first += count;
        }
        Ok(())
    }

    /// Fails with `ZT_BAD_SPARSE` if a cell occurs twice. Most writers sort the cells, so one pass usually suffices.
    /// Otherwise the cells are divided by value into parts, and one pass checks each part, which limits the memory.
    pub fn check_unique(&self, stop: &Stop) -> Result<()> {
        let (mut last, mut rising) = (None, true);
        self.blocks(|cells| {
            rising &= cells.first().is_none_or(|&first| last.is_none_or(|last| last < first));
            rising &= cells.is_sorted_by(|one, next| one < next);
            last = cells.last().copied().or(last);
        })?;
        let parts = if rising { 0 } else { self.nnz.div_ceil(HELD / 2) };
        // A random seed: the author of the file cannot predict the part of a cell.
        let seed = RandomState::new().build_hasher().finish();
        for part in 0..parts {
            stop.check()?;
            let mut mine: Vec<u64> = Vec::new();
            let mut more = false;
            self.blocks(|cells| {
                let free = usize::try_from(HELD).unwrap_or(usize::MAX).saturating_sub(mine.len());
                let mut here = cells.iter().filter(|&&cell| spread(cell ^ seed) % parts == part);
                mine.extend(here.by_ref().take(free));
                more |= here.next().is_some();
            })?;
            mine.sort_unstable();
            let twice = mine.windows(2).find(|pair| pair[0] == pair[1]).and_then(|pair| pair.first());
            if more && twice.is_none() {
                return Err(Error::new(Code::Limit, "too many cells to compare").component("coords"));
            }
            if let Some(cell) = twice {
                let elements = product(self.shape).unwrap_or(u64::MAX);
                let message = format!("cell {cell} of {elements} has two elements");
                return Err(Error::new(Code::BadSparse, message).component("coords").rule(COO));
            }
        }
        Ok(())
    }
}

/// The finalizer of `MurmurHash3`, a permutation: only equal cells stay equal.
fn spread(cell: u64) -> u64 {
    let cell = (cell ^ (cell >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let cell = (cell ^ (cell >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    cell ^ (cell >> 33)
}
