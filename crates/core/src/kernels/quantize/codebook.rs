//! The codebooks of ggml's "I quants", for the other direction: which point a group of codes is, and which points are near to codes that
//! are not points.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use std::sync::LazyLock;

use super::lanes::map;
use crate::kernels::dequantize::codebooks;

pub(super) static IQ2_XXS: LazyLock<Codebook<8>> = LazyLock::new(|| Codebook::new(&codebooks::IQ2_XXS, 2));
pub(super) static IQ2_XS: LazyLock<Codebook<8>> = LazyLock::new(|| Codebook::new(&codebooks::IQ2_XS, 2));
pub(super) static IQ2_S: LazyLock<Codebook<8>> = LazyLock::new(|| Codebook::new(&codebooks::IQ2_S, 1));
pub(super) static IQ3_XXS: LazyLock<Codebook<4>> = LazyLock::new(|| Codebook::new(&codebooks::IQ3_XXS, 2));
pub(super) static IQ3_S: LazyLock<Codebook<4>> = LazyLock::new(|| Codebook::new(&codebooks::IQ3_S, 3));
pub(super) static IQ1: LazyLock<Codebook<8>> = LazyLock::new(|| Codebook::new(&codebooks::IQ1, 3));

/// The number of neighbors that are compared at once.
const SOME: usize = 8;

/// Points of `DIGITS` codes each. Read as digits, least significant first, the codes are a number.
pub(super) struct Codebook<const DIGITS: usize> {
    points: Vec<[u8; DIGITS]>,
    /// What is known of each number.
    entries: Vec<Entry>,
    neighbors: Vec<Neighbors<DIGITS>>,
}

/// The point with the number, or, if `count` is not 0, as many `neighbors` from `first` on.
#[derive(Clone, Copy)]
struct Entry {
    first: u32,
    count: u32,
}

/// Some points that are near to codes, transposed. The last one may be repeated.
struct Neighbors<const DIGITS: usize> {
    codes: [[u8; SOME]; DIGITS],
    points: [u16; SOME],
}

impl<const DIGITS: usize> Codebook<DIGITS> {
    /// The values of a code: points of 8 codes have 3, points of 4 codes have 8.
    pub(super) const BASE: usize = if DIGITS == 8 { 3 } else { 8 };

    /// `coordinates` of points ascend with their codes. Near are the points at the `distances` smallest distances.
    fn new(coordinates: &[[i8; DIGITS]], distances: usize) -> Self {
        let mut values = coordinates.as_flattened().to_vec();
        values.sort_unstable();
        values.dedup();
        let points: Vec<[u8; DIGITS]> = coordinates
            .iter()
            .map(|point| map(point, |value| values.partition_point(|&other| other < value) as u8))
            .collect();
        let numbers: Vec<usize> = points.iter().map(number).collect();
        let squares = Squares::new::<DIGITS>();
        let mut book = Self { points, entries: Vec::new(), neighbors: Vec::new() };
        for here in 0..Self::BASE.pow(DIGITS as u32) {
            let entry = match numbers.binary_search(&here) {
                Ok(point) => Entry { first: point as u32, count: 0 },
                Err(_) => book.add_neighbors(&squares.nearest(here, &numbers, distances)),
            };
            book.entries.push(entry);
        }
        book
    }

    fn add_neighbors(&mut self, near: &[u16]) -> Entry {
        let first = self.neighbors.len();
        for some in near.chunks(SOME) {
            let points = std::array::from_fn(|at| some[at.min(some.len() - 1)]);
            let mut codes = [[0; SOME]; DIGITS];
            for (digit, codes) in codes.iter_mut().enumerate() {
                *codes = map(&points, |point| self.points[usize::from(point)][digit]);
            }
            self.neighbors.push(Neighbors { codes, points });
        }
        Entry { first: first as u32, count: (self.neighbors.len() - first) as u32 }
    }

    /// Returns the codes of a point.
    #[inline(always)]
    pub(super) fn codes(&self, point: u32) -> &[u8; DIGITS] {
        &self.points[point as usize]
    }

    /// Returns the point with a number, if there is one.
    #[inline(always)]
    pub(super) fn point(&self, number: u32) -> Option<u32> {
        let entry = self.entries[number as usize];
        (entry.count == 0).then_some(entry.first)
    }

    /// Returns the point whose `scale * value(code)` have the least weighted error, of those that are near to the codes with a number:
    /// the first one of several. Where all errors are infinite or NaN, which ends the reference's process, returns the first point.
    #[inline(always)]
    pub(super) fn nearest(
        &self,
        number: u32,
        x: &[f32; DIGITS],
        weights: &[f32; DIGITS],
        scale: f32,
        value: impl Fn(u8) -> f32,
    ) -> u32 {
        let entry = self.entries[number as usize];
        let neighbors = &self.neighbors[entry.first as usize..][..entry.count as usize];
        let (mut min, mut groups) = ([f32::MAX; SOME], [0_u32; SOME]);
        for (group, neighbors) in neighbors.iter().enumerate() {
            let mut errors = [0.0; SOME];
            for ((codes, &x), &weight) in neighbors.codes.iter().zip(x).zip(weights) {
                for (error, &code) in errors.iter_mut().zip(codes) {
                    let difference = scale * value(code) - x;
                    *error += weight * difference * difference;
                }
            }
            for ((min, at), error) in min.iter_mut().zip(&mut groups).zip(errors) {
                let less = error < *min;
                *min = if less { error } else { *min };
                *at = if less { group as u32 } else { *at };
            }
        }
        let (mut error, mut best) = (f32::MAX, 0);
        for (lane, (&min, group)) in min.iter().zip(groups).enumerate() {
            let at = group * SOME as u32 + lane as u32;
            let better = min < error || (min == error && at < best);
            error = if better { min } else { error };
            best = if better { at } else { best };
        }
        neighbors[best as usize / SOME].points[best as usize % SOME].into()
    }
}

/// Returns the codes as a number.
fn number<const DIGITS: usize>(codes: &[u8; DIGITS]) -> usize {
    codes.iter().rev().fold(0, |number, &code| number * Codebook::<DIGITS>::BASE + usize::from(code))
}

/// The squares of the distances of half as many codes as points have, by two numbers.
struct Squares {
    halves: usize,
    table: Vec<u8>,
}

impl Squares {
    fn new<const DIGITS: usize>() -> Self {
        let base = Codebook::<DIGITS>::BASE;
        let halves = base.pow(DIGITS as u32 / 2);
        let square = |mut a: usize, mut b: usize| {
            let mut sum = 0;
            for _ in 0..DIGITS / 2 {
                sum += (a % base).abs_diff(b % base).pow(2) as u8;
                (a, b) = (a / base, b / base);
            }
            sum
        };
        let table = (0..halves * halves).map(|at| square(at / halves, at % halves)).collect();
        Self { halves, table }
    }

    /// Returns the indices of `numbers` at the `distances` smallest distances from a number: in order of the distance, then of the index.
    fn nearest(&self, here: usize, numbers: &[usize], distances: usize) -> Vec<u16> {
        let [low, high] = [here % self.halves, here / self.halves]
            .map(|half| &self.table[half * self.halves..][..self.halves]);
        let squares: Vec<u8> =
            numbers.iter().map(|&there| low[there % self.halves] + high[there / self.halves]).collect();
        let mut seen = [false; 256];
        for &square in &squares {
            seen[usize::from(square)] = true;
        }
        let smallest = (0..=u8::MAX).filter(|&square| seen[usize::from(square)]).take(distances);
        let of =
            |square| (0_u16..).zip(&squares).filter(move |&(_, &other)| other == square).map(|(at, _)| at);
        smallest.flat_map(of).collect()
    }
}
