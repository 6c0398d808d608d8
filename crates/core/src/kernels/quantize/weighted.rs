//! The types that use the importance of elements: the searches have other weights and candidates with it.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use super::iq4::{scales, write_nonlinear, write_scaled};
use super::k_quants::{
    BLOCK, finish_eight, finish_three, finish_two, pack_sixes, six_bits, write_five, write_four,
};
use super::lanes::{LANES, Lanes, map, transpose};
use super::legacy::{blocks, write_4_0, write_4_1, write_5_0, write_5_1};
use super::numbers::half;
use super::search::{
    Affine, Plan, affine_16, affine_32, positive_8, positive_16, symmetric_16, symmetric_32,
};

/// The candidates for a type with codes from 0 to `top`.
const fn plan(top: i8) -> Plan {
    Plan { top, first: -0.9, step: 0.05, steps: 36 }
}

#[inline(always)]
pub(super) fn weigh<const LENGTH: usize>(
    x: &[Lanes; LENGTH],
    importance: &[Lanes; LENGTH],
    variance: Lanes,
) -> [Lanes; LENGTH] {
    let mut weights = *importance;
    for (weight, &x) in weights.iter_mut().zip(x) {
        *weight = *weight * (variance + x * x).sqrt();
    }
    weights
}

#[inline(always)]
fn sum<const LENGTH: usize>(weights: &[Lanes; LENGTH]) -> Lanes {
    weights.iter().fold(Lanes::ZERO, |sum, &weight| sum + weight)
}

/// Returns the mean of the squares of a row.
#[inline(always)]
fn mean_square(row: &[f32]) -> f32 {
    row.iter().fold(0.0, |sum, &x| sum + x * x) / row.len() as f32
}

/// Returns parts of a row, with the importance of their elements and the bytes to write: up to a block of 32 elements for each lane.
#[inline(always)]
fn parts<'a>(
    row: &'a [f32],
    importance: &'a [f32],
    out: &'a mut [u8],
    bytes: usize,
) -> impl Iterator<Item = ((&'a [f32], &'a [f32]), &'a mut [u8])> {
    row.chunks(LANES * 32).zip(importance.chunks(LANES * 32)).zip(out.chunks_mut(LANES * bytes))
}

/// Encodes blocks of 32 elements with symmetric codes. `write` gets the scale, the codes and a block.
#[inline(always)]
fn symmetric_rows<const BYTES: usize>(
    (source, row, importance, out): (&[f32], usize, &[f32], &mut [u8]),
    top: i8,
    write: impl Fn(f32, &[u8; 32], &mut [u8; BYTES]),
) {
    for (source, out) in source.chunks(row).zip(out.chunks_mut(row / 32 * BYTES)) {
        let mean = Lanes::all(mean_square(source));
        for ((source, importance), out) in parts(source, importance, out, BYTES) {
            let x = transpose::<32>(source);
            let found = symmetric_32(&x, &weigh(&x, &transpose(importance), mean), top);
            for (lane, (block, out)) in blocks(source, out).enumerate() {
                let codes = map(block, |value| found.code(lane, value, top));
                write(found.scale.0[lane], &codes, out);
            }
        }
    }
}

/// Encodes blocks of 32 elements with a scale and a minimum. `write` gets both as float16, the codes and a block.
#[inline(always)]
fn affine_rows<const BYTES: usize>(
    (source, row, importance, out): (&[f32], usize, &[f32], &mut [u8]),
    top: i8,
    write: impl Fn([u16; 2], &[u8; 32], &mut [u8; BYTES]),
) {
    for (source, out) in source.chunks(row).zip(out.chunks_mut(row / 32 * BYTES)) {
        let mean = Lanes::all(mean_square(source));
        for ((source, importance), out) in parts(source, importance, out, BYTES) {
            let x = transpose::<32>(source);
            let found = affine_32(&x, &weigh(&x, &transpose(importance), mean), plan(top));
            for (lane, (block, out)) in blocks(source, out).enumerate() {
                let codes = map(block, |value| found.code(lane, value, top.cast_unsigned()));
                write([half(found.scale.0[lane]), half(-found.offset.0[lane])], &codes, out);
            }
        }
    }
}

#[inline(always)]
pub(super) fn q4_0(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    symmetric_rows((source, row, importance, out), 8, write_4_0);
}

#[inline(always)]
pub(super) fn q5_0(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    symmetric_rows((source, row, importance, out), 16, write_5_0);
}

#[inline(always)]
pub(super) fn q4_1(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    affine_rows((source, row, importance, out), 15, write_4_1);
}

#[inline(always)]
pub(super) fn q5_1(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    affine_rows((source, row, importance, out), 31, write_5_1);
}

/// Up to one block of 256 elements for each lane.
pub(super) struct Batch<'a> {
    source: &'a [f32],
    importance: [f32; LANES * BLOCK],
    /// The sum of the squares of each block.
    squares: Lanes,
}

/// The elements of a batch.
const BATCH: usize = LANES * BLOCK;

impl<'a> Batch<'a> {
    /// `at` is the number of batches before this one. Without importance, that of all elements is 0.
    #[inline(always)]
    pub(super) fn new(source: &'a [f32], row: usize, importance: Option<&[f32]>, at: usize) -> Self {
        let mut batch = Self { source, importance: [0.0; BATCH], squares: Lanes::ZERO };
        let blocks = source.as_chunks::<BLOCK>().0;
        if let Some(importance) = importance {
            let mut first = at * BATCH % row;
            for copy in batch.importance.as_chunks_mut::<BLOCK>().0.iter_mut().take(blocks.len()) {
                copy.copy_from_slice(&importance[first..][..BLOCK]);
                first = (first + BLOCK) % row;
            }
        }
        for at in 0..BLOCK {
            for (sum, block) in batch.squares.0.iter_mut().zip(blocks) {
                *sum += block[at] * block[at];
            }
        }
        batch
    }

    fn blocks(&self) -> impl Iterator<Item = &[f32; BLOCK]> {
        self.source.as_chunks().0.iter()
    }

    /// Returns, of as many blocks as have one sub-block of `LENGTH` elements in each lane, the elements, their importance, and the sum of
    /// the squares of the block of each sub-block.
    pub(super) fn parts<const LENGTH: usize>(&self) -> impl Iterator<Item = ((&[f32], &[f32]), Lanes)> {
        let blocks = LENGTH * LANES / BLOCK;
        let squares = self.squares.0.chunks(blocks).map(move |squares| {
            let mut lanes = Lanes::ZERO;
            for (lane, square) in lanes.0.iter_mut().enumerate() {
                *square = squares[lane * blocks / LANES];
            }
            lanes
        });
        let [source, importance] = [self.source, &self.importance].map(|all| all.chunks(LENGTH * LANES));
        source.zip(importance).zip(squares)
    }
}

/// Returns batches of elements, and the bytes to write of each.
#[inline(always)]
pub(super) fn batches<'a, const BYTES: usize>(
    source: &'a [f32],
    out: &'a mut [u8],
) -> impl Iterator<Item = (usize, (&'a [f32], &'a mut [[u8; BYTES]]))> {
    source.chunks(BATCH).zip(out.as_chunks_mut().0.chunks_mut(LANES)).enumerate()
}

/// What the searches found for a batch: in `scales[i]`, the scales of sub-block `i` of each block.
struct SearchResult<const COUNT: usize> {
    scales: [Lanes; COUNT],
    offsets: [Lanes; COUNT],
    weights: [Lanes; COUNT],
}

impl<const COUNT: usize> SearchResult<COUNT> {
    const NONE: Self =
        Self { scales: [Lanes::ZERO; COUNT], offsets: [Lanes::ZERO; COUNT], weights: [Lanes::ZERO; COUNT] };

    /// Stores the lanes of blocks from `first` on.
    #[inline(always)]
    fn store(&mut self, first: usize, scale: Lanes, offset: Lanes, weight: Lanes) {
        for lane in 0..LANES {
            let (block, at) = (first + lane / COUNT, lane % COUNT);
            self.scales[at].0[block] = scale.0[lane];
            self.offsets[at].0[block] = offset.0[lane];
            self.weights[at].0[block] = weight.0[lane];
        }
    }
}

/// Returns the codes of one block.
#[inline(always)]
fn codes_of<const COUNT: usize>(codes: &[Lanes; COUNT], block: usize) -> [u8; COUNT] {
    map(codes, |codes| codes.0[block] as u8)
}

#[inline(always)]
pub(super) fn q2_k(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    for (at, (source, out)) in batches::<84>(source, out) {
        let batch = Batch::new(source, row, Some(importance), at);
        let mut found = SearchResult::<16>::NONE;
        let blocks = batch.blocks().zip(batch.importance.as_chunks::<BLOCK>().0);
        let mut each: [Option<Affine>; LANES] = [const { None }; LANES];
        for (at, ((block, importance), each)) in blocks.zip(&mut each).enumerate() {
            let x = transpose::<16>(block);
            let variance = batch.squares.0[at] / 256.0;
            let weights = weigh(&x, &transpose(importance), Lanes::all(variance));
            let affine = affine_16(&x, &weights, plan(3));
            found.store(at, affine.scale, affine.offset, sum(&weights));
            *each = Some(affine);
        }
        let [(d, scales), (dmin, offsets)] =
            [&found.scales, &found.offsets].map(|values| positive_16(values, &found.weights, 15));
        for (at, ((block, out), affine)) in batch.blocks().zip(out).zip(each.iter().flatten()).enumerate() {
            let (scales, offsets) = (codes_of(&scales, at), codes_of(&offsets, at));
            let mut packed = scales;
            for (packed, offset) in packed.iter_mut().zip(offsets) {
                *packed |= offset << 4;
            }
            finish_two(block, affine, packed, [half(d.0[at]), half(dmin.0[at])], out);
        }
    }
}

#[inline(always)]
pub(super) fn q3_k(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    for (at, (source, out)) in batches::<110>(source, out) {
        let batch = Batch::new(source, row, Some(importance), at);
        let mut found = SearchResult::<16>::NONE;
        let mut each = [const { None }; LANES];
        let blocks = batch.blocks().zip(batch.importance.as_chunks::<BLOCK>().0);
        for (at, ((block, importance), each)) in blocks.zip(&mut each).enumerate() {
            let x = transpose::<16>(block);
            let variance = 2.0 * batch.squares.0[at] / 256.0;
            let weights = weigh(&x, &transpose(importance), Lanes::all(variance));
            let symmetric = symmetric_16(&x, &weights, 4);
            found.store(at, symmetric.scale, Lanes::ZERO, sum(&weights));
            *each = Some(symmetric);
        }
        let scales = symmetric_16(&found.scales, &found.weights, 32);
        let blocks = batch.blocks().zip(out).zip(each.iter().flatten()).enumerate();
        for (at, ((block, out), symmetric)) in blocks {
            let parts = map(&found.scales, |part| scales.code(at, part.0[at], 32));
            let code = |lane: usize, element: usize| symmetric.code(lane, block[lane * 16 + element], 4);
            finish_three(block, parts, half(scales.scale.0[at]), code, out);
        }
    }
}

/// Encodes blocks of eight sub-blocks of 32 elements. `limit` bounds the codes of scales and offsets.
#[inline(always)]
fn eights<const BYTES: usize>(
    (source, row, importance, out): (&[f32], usize, &[f32], &mut [u8]),
    top: i8,
    limit: u8,
    write: impl Fn(&[u8; BLOCK], &mut [u8; BYTES]),
) {
    for (at, (source, out)) in batches::<BYTES>(source, out) {
        let batch = Batch::new(source, row, Some(importance), at);
        let mut found = SearchResult::<8>::NONE;
        let mut each: [Option<Affine>; LANES / 2] = [const { None }; LANES / 2];
        for (at, (((pair, importance), squares), each)) in batch.parts::<32>().zip(&mut each).enumerate() {
            let x = transpose::<32>(pair);
            let variance = Lanes::all(2.0) * squares / Lanes::all(256.0);
            let weights = weigh(&x, &transpose(importance), variance);
            let affine = affine_32(&x, &weights, plan(top));
            found.store(at * 2, affine.scale, affine.offset, sum(&weights));
            *each = Some(affine);
        }
        let [(d, scales), (dmin, offsets)] =
            [&found.scales, &found.offsets].map(|values| positive_8(values, &found.weights, 63));
        for (at, (block, out)) in batch.blocks().zip(out).enumerate() {
            let Some(affine) = &each[at / 2] else { break };
            let codes = [codes_of(&scales, at), codes_of(&offsets, at)];
            let [scales, offsets] = codes.map(|codes| codes.map(|code| code.min(limit)));
            let factors = [half(d.0[at]), half(dmin.0[at])];
            let packed = pack_sixes(scales, offsets);
            finish_eight(block, affine, at % 2 * 8, top.cast_unsigned(), packed, factors, out, &write);
        }
    }
}

#[inline(always)]
pub(super) fn q4_k(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    eights((source, row, importance, out), 15, u8::MAX, write_four);
}

#[inline(always)]
pub(super) fn q5_k(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    eights((source, row, importance, out), 31, 63, write_five);
}

#[inline(always)]
pub(super) fn q6_k(source: &[f32], _: usize, importance: &[f32], out: &mut [u8]) {
    let importance = importance.as_chunks::<BLOCK>().0.iter().cycle();
    for ((block, out), importance) in blocks::<BLOCK, 210>(source, out).zip(importance) {
        six_bits(block, &transpose(block), &transpose(importance), out);
    }
}

#[inline(always)]
pub(super) fn iq4_nl(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    for (source, out) in source.chunks(row).zip(out.chunks_mut(row / 32 * 18)) {
        for ((source, importance), out) in parts(source, importance, out, 18) {
            let x = transpose::<32>(source);
            let squares = x.iter().fold(Lanes::ZERO, |sum, &x| sum + x * x);
            let weights = weigh(&x, &transpose(importance), squares * Lanes::all(2.0 / 32.0));
            write_nonlinear(source, scales(&x, &weights), out);
        }
    }
}

#[inline(always)]
pub(super) fn iq4_xs(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    for (at, (source, out)) in batches::<136>(source, out) {
        let batch = Batch::new(source, row, Some(importance), at);
        for (((pair, importance), squares), out) in batch.parts::<32>().zip(out.chunks_mut(2)) {
            let x = transpose(pair);
            let variance = squares * Lanes::all(2.0 / 256.0);
            let weights = weigh(&x, &transpose(importance), variance);
            write_scaled(pair, scales(&x, &weights), out.as_flattened_mut());
        }
    }
}
