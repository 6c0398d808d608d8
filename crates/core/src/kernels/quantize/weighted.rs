//! The types that use the importance of elements: the searches have other weights and candidates with it.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use super::four::{scales, write_nonlinear, write_scaled};
use super::lanes::{LANES, Lanes, transpose};
use super::large::{
    BLOCK, finish_eight, finish_three, finish_two, four_bits, pack_sixes, six_bits, write_five,
};
use super::numbers::half;
use super::plain::{fifths, nibbles};
use super::search::{Affine, Plan, affine, positive, symmetric};

/// The candidates for a type with codes from 0 to `top`.
const fn plan(top: i8) -> Plan {
    Plan { top, first: -0.9, step: 0.05, steps: 36 }
}

#[inline(always)]
fn weigh<const LENGTH: usize>(
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

/// Encodes blocks of 32 elements, up to one for each lane. `write` gets the blocks, transposed blocks and weights.
#[inline(always)]
fn rows<const BYTES: usize>(
    source: &[f32],
    row: usize,
    importance: &[f32],
    out: &mut [u8],
    write: impl Fn(&[f32], &[Lanes; 32], &[Lanes; 32], &mut [u8]),
) {
    for (source, out) in source.chunks(row).zip(out.chunks_mut(row / 32 * BYTES)) {
        let mean = source.iter().fold(0.0, |sum, &x| sum + x * x) / row as f32;
        let parts = source.chunks(LANES * 32).zip(importance.chunks(LANES * 32));
        for ((source, importance), out) in parts.zip(out.chunks_mut(LANES * BYTES)) {
            let x = transpose(source);
            let weights = weigh(&x, &transpose(importance), Lanes::all(mean));
            write(source, &x, &weights, out);
        }
    }
}

/// Encodes blocks with symmetric codes. `write` gets the scale, the codes and a block.
#[inline(always)]
fn symmetric_rows<const BYTES: usize>(
    (source, row, importance, out): (&[f32], usize, &[f32], &mut [u8]),
    top: i8,
    write: impl Fn([u8; 2], &[u8; 32], &mut [u8; BYTES]),
) {
    rows::<BYTES>(source, row, importance, out, |source, x, weights, out| {
        let found = symmetric(x, weights, top);
        let blocks = source.as_chunks::<32>().0.iter().zip(out.as_chunks_mut().0);
        for (lane, (block, out)) in blocks.enumerate() {
            let codes = block.map(|value| found.code(lane, value, top));
            write(half(found.scale.0[lane]).to_le_bytes(), &codes, out);
        }
    });
}

/// Encodes blocks with a scale and a minimum. `write` gets both, the codes and a block.
#[inline(always)]
fn affine_rows<const BYTES: usize>(
    (source, row, importance, out): (&[f32], usize, &[f32], &mut [u8]),
    top: i8,
    write: impl Fn(&[u8], &[u8; 32], &mut [u8; BYTES]),
) {
    rows::<BYTES>(source, row, importance, out, |source, x, weights, out| {
        let found = affine::<32, false>(x, weights, plan(top));
        let blocks = source.as_chunks::<32>().0.iter().zip(out.as_chunks_mut().0);
        for (lane, (block, out)) in blocks.enumerate() {
            let codes = block.map(|value| found.code(lane, value, top.cast_unsigned()));
            let factors = [found.scale.0[lane], -found.offset.0[lane]];
            write(factors.map(|factor| half(factor).to_le_bytes()).as_flattened(), &codes, out);
        }
    });
}

#[inline(always)]
pub(super) fn q4_0(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    symmetric_rows((source, row, importance, out), 8, |scale, codes, out: &mut [u8; 18]| {
        out[..2].copy_from_slice(&scale);
        nibbles(codes, &mut out[2..]);
    });
}

#[inline(always)]
pub(super) fn q5_0(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    symmetric_rows((source, row, importance, out), 16, |scale, codes, out: &mut [u8; 22]| {
        out[..2].copy_from_slice(&scale);
        out[2..6].copy_from_slice(&fifths(codes));
        nibbles(codes, &mut out[6..]);
    });
}

#[inline(always)]
pub(super) fn q4_1(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    affine_rows((source, row, importance, out), 15, |factors, codes, out: &mut [u8; 20]| {
        out[..4].copy_from_slice(factors);
        nibbles(codes, &mut out[4..]);
    });
}

#[inline(always)]
pub(super) fn q5_1(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    affine_rows((source, row, importance, out), 31, |factors, codes, out: &mut [u8; 24]| {
        out[..4].copy_from_slice(factors);
        out[4..8].copy_from_slice(&fifths(codes));
        nibbles(codes, &mut out[8..]);
    });
}

/// Up to one block of 256 elements for each lane.
struct Batch<'a> {
    source: &'a [f32],
    importance: [f32; LANES * BLOCK],
    /// The sum of the squares of each block.
    squares: Lanes,
}

impl Batch<'_> {
    fn blocks(&self) -> impl Iterator<Item = &[f32; BLOCK]> {
        self.source.as_chunks().0.iter()
    }
}

/// Encodes blocks of 256 elements, up to one for each lane.
#[inline(always)]
fn batches<const BYTES: usize>(
    (source, row, importance, out): (&[f32], usize, &[f32], &mut [u8]),
    write: impl Fn(&Batch<'_>, &mut [[u8; BYTES]]),
) {
    const BATCH: usize = LANES * BLOCK;
    let mut first = 0;
    for (source, out) in source.chunks(BATCH).zip(out.chunks_mut(LANES * BYTES)) {
        let mut batch = Batch { source, importance: [0.0; BATCH], squares: Lanes::ZERO };
        let blocks = source.as_chunks::<BLOCK>().0;
        for copy in batch.importance.as_chunks_mut::<BLOCK>().0.iter_mut().take(blocks.len()) {
            copy.copy_from_slice(&importance[first..][..BLOCK]);
            first = (first + BLOCK) % row;
        }
        for at in 0..BLOCK {
            for (sum, block) in batch.squares.0.iter_mut().zip(blocks) {
                *sum += block[at] * block[at];
            }
        }
        write(&batch, out.as_chunks_mut().0);
    }
}

/// What the searches found for a batch: in `scales[i]`, the scales of sub-block `i` of each block.
struct Found<const COUNT: usize> {
    scales: [Lanes; COUNT],
    offsets: [Lanes; COUNT],
    weights: [Lanes; COUNT],
}

impl<const COUNT: usize> Found<COUNT> {
    const NONE: Self = Self {
        scales: [Lanes::ZERO; COUNT],
        offsets: [Lanes::ZERO; COUNT],
        weights: [Lanes::ZERO; COUNT],
    };

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

    /// Returns the factors of the scales and of the offsets as float16, and their codes for each block.
    #[inline(always)]
    fn positive(&self, top: u8) -> [(Lanes, [Lanes; COUNT]); 2] {
        [positive(&self.scales, &self.weights, top), positive(&self.offsets, &self.weights, top)]
    }
}

/// Returns the codes of one block.
#[inline(always)]
fn codes_of<const COUNT: usize>(codes: &[Lanes; COUNT], block: usize) -> [u8; COUNT] {
    codes.map(|codes| codes.0[block] as u8)
}

#[inline(always)]
pub(super) fn q2_k(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    batches((source, row, importance, out), |batch, out: &mut [[u8; 84]]| {
        let mut found = Found::<16>::NONE;
        let blocks = batch.blocks().zip(batch.importance.as_chunks::<BLOCK>().0);
        let mut each: [Option<Affine>; LANES] = [const { None }; LANES];
        for (at, ((block, importance), each)) in blocks.zip(&mut each).enumerate() {
            let x = transpose::<16>(block);
            let variance = batch.squares.0[at] / 256.0;
            let weights = weigh(&x, &transpose(importance), Lanes::all(variance));
            let affine = affine::<16, false>(&x, &weights, plan(3));
            found.store(at, affine.scale, affine.offset, sum(&weights));
            *each = Some(affine);
        }
        let [(d, scales), (dmin, offsets)] = found.positive(15);
        for (at, ((block, out), affine)) in batch.blocks().zip(out).zip(each.iter().flatten()).enumerate() {
            let (scales, offsets) = (codes_of(&scales, at), codes_of(&offsets, at));
            let mut packed = scales;
            for (packed, offset) in packed.iter_mut().zip(offsets) {
                *packed |= offset << 4;
            }
            finish_two(block, affine, packed, [half(d.0[at]), half(dmin.0[at])], out);
        }
    });
}

#[inline(always)]
pub(super) fn q3_k(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    batches((source, row, importance, out), |batch, out: &mut [[u8; 110]]| {
        let mut found = Found::<16>::NONE;
        let mut each = [const { None }; LANES];
        let blocks = batch.blocks().zip(batch.importance.as_chunks::<BLOCK>().0);
        for (at, ((block, importance), each)) in blocks.zip(&mut each).enumerate() {
            let x = transpose::<16>(block);
            let variance = 2.0 * batch.squares.0[at] / 256.0;
            let weights = weigh(&x, &transpose(importance), Lanes::all(variance));
            let symmetric = symmetric(&x, &weights, 4);
            found.store(at, symmetric.scale, Lanes::ZERO, sum(&weights));
            *each = Some(symmetric);
        }
        let scales = symmetric(&found.scales, &found.weights, 32);
        let blocks = batch.blocks().zip(out).zip(each.iter().flatten()).enumerate();
        for (at, ((block, out), symmetric)) in blocks {
            let parts = found.scales.map(|part| scales.code(at, part.0[at], 32));
            let code = |lane: usize, element: usize| symmetric.code(lane, block[lane * 16 + element], 4);
            finish_three(block, parts, half(scales.scale.0[at]), code, out);
        }
    });
}

/// Encodes blocks of eight sub-blocks of 32 elements. `limit` bounds the codes of scales and offsets.
#[inline(always)]
fn eights<const BYTES: usize>(
    rows: (&[f32], usize, &[f32], &mut [u8]),
    top: i8,
    limit: u8,
    write: impl Fn(&[u8; BLOCK], &mut [u8; BYTES]),
) {
    batches(rows, |batch, out: &mut [[u8; BYTES]]| {
        let mut found = Found::<8>::NONE;
        let mut each: [Option<Affine>; LANES / 2] = [const { None }; LANES / 2];
        let pairs = batch.source.chunks(2 * BLOCK).zip(batch.importance.as_chunks::<{ 2 * BLOCK }>().0);
        for (at, ((pair, importance), each)) in pairs.zip(&mut each).enumerate() {
            let x = transpose::<32>(pair);
            let squares = std::array::from_fn(|lane| batch.squares.0[at * 2 + lane / 8]);
            let variance = Lanes::all(2.0) * Lanes(squares) / Lanes::all(256.0);
            let weights = weigh(&x, &transpose(importance), variance);
            let affine = affine::<32, false>(&x, &weights, plan(top));
            found.store(at * 2, affine.scale, affine.offset, sum(&weights));
            *each = Some(affine);
        }
        let [(d, scales), (dmin, offsets)] = found.positive(63);
        for (at, (block, out)) in batch.blocks().zip(out).enumerate() {
            let Some(affine) = &each[at / 2] else { return };
            let codes = [codes_of(&scales, at), codes_of(&offsets, at)];
            let [scales, offsets] = codes.map(|codes| codes.map(|code| code.min(limit)));
            let factors = [half(d.0[at]), half(dmin.0[at])];
            let packed = pack_sixes(scales, offsets);
            finish_eight(block, affine, at % 2 * 8, top.cast_unsigned(), packed, factors, out, &write);
        }
    });
}

#[inline(always)]
pub(super) fn q4_k(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    eights((source, row, importance, out), 15, u8::MAX, |codes, out: &mut [u8; 144]| {
        four_bits(codes, &mut out[16..]);
    });
}

#[inline(always)]
pub(super) fn q5_k(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    eights((source, row, importance, out), 31, 63, write_five);
}

#[inline(always)]
pub(super) fn q6_k(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    let importance = importance.as_chunks::<BLOCK>().0.iter().cycle();
    let blocks = source.as_chunks::<BLOCK>().0.iter().zip(out.as_chunks_mut::<210>().0);
    for ((block, out), importance) in blocks.zip(importance) {
        six_bits(block, &transpose(block), &transpose(importance), out);
    }
    debug_assert!(source.len().is_multiple_of(row));
}

#[inline(always)]
pub(super) fn iq4_nl(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    for (source, out) in source.chunks(row).zip(out.chunks_mut(row / 32 * 18)) {
        let parts = source.chunks(LANES * 32).zip(importance.chunks(LANES * 32));
        for ((source, importance), out) in parts.zip(out.chunks_mut(LANES * 18)) {
            let x = transpose(source);
            let squares = x.iter().fold(Lanes::ZERO, |sum, &x| sum + x * x);
            let weights = weigh(&x, &transpose(importance), squares * Lanes::all(2.0 / 32.0));
            write_nonlinear(source, scales(&x, &weights), out);
        }
    }
}

#[inline(always)]
pub(super) fn iq4_xs(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    batches((source, row, importance, out), |batch, out: &mut [[u8; 136]]| {
        let pairs = batch.source.chunks(2 * BLOCK).zip(batch.importance.as_chunks::<{ 2 * BLOCK }>().0);
        for (at, ((pair, importance), out)) in pairs.zip(out.chunks_mut(2)).enumerate() {
            let x = transpose(pair);
            let squares = std::array::from_fn(|lane| batch.squares.0[at * 2 + lane / 8]);
            let variance = Lanes(squares) * Lanes::all(2.0 / 256.0);
            let weights = weigh(&x, &transpose(importance), variance);
            write_scaled(pair, scales(&x, &weights), out.as_flattened_mut());
        }
    });
}
