//! ggml's "I quants" of one bit: groups of 8 codes of -1, 0 and 1 are points of a codebook, moved up or down by 1/8, times the scale of
//! their sub-block.
//!
//! A search sorts the elements of a sub-block and tries all ways to divide them into those of -1, 0 and 1.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use multiversion::multiversion;

use super::codebook::{self, Codebook};
use super::iq2_iq3::{each, scales};
use super::lanes::{LANES, Lanes, Mask, Words, map};
use super::legacy::ordered;
use super::numbers::half;
use super::search::compiled;

compiled! {
    shifted_32(x: &[Lanes; 32], weights: &[Lanes; 32]) -> SearchResult<32, 4> = search_s;
    shifted_16(x: &[Lanes; 16], weights: &[Lanes; 16]) -> SearchResult<16, 2> = search_m;
}

/// What a search found for the sub-blocks in the lanes.
pub(super) struct SearchResult<const LENGTH: usize, const POINTS: usize> {
    scale: Lanes,
    points: [Words; POINTS],
    /// Whether groups are moved down, not up.
    down: [Mask; POINTS],
    /// The elements and their weights.
    x: [Lanes; LENGTH],
    weights: [Lanes; LENGTH],
}

/// How much groups are moved up or down (`IQ1S_DELTA` of `ggml-common.h`).
const DELTA: f32 = 0.125;

/// The values of the codes 0, 1 and 2 if they are moved up or down.
const UP: [f32; 3] = [DELTA - 1.0, DELTA, DELTA + 1.0];
const DOWN: [f32; 3] = [-DELTA - 1.0, -DELTA, 1.0 - DELTA];

/// Returns for each lane the elements in ascending order, equal ones in the order of the source.
#[inline(always)]
fn sort<const LENGTH: usize>(x: &[Lanes; LENGTH]) -> [[u8; LENGTH]; LANES] {
    let mut orders = [[0; LENGTH]; LANES];
    for (lane, order) in orders.iter_mut().enumerate() {
        let mut keys = [0_i64; LENGTH];
        for (at, (key, x)) in (0..).zip(keys.iter_mut().zip(x)) {
            // Both zeros are equal.
            *key = i64::from(ordered(x.0[lane] + 0.0)) << 8 | at;
        }
        keys.sort_unstable();
        for (at, key) in order.iter_mut().zip(keys) {
            *at = key as u8;
        }
    }
    orders
}

/// The best division of each lane: the scale, where the codes 1 and 2 begin in ascending order, and which groups are moved down.
struct Division {
    scale: Lanes,
    best: Lanes,
    /// `first`, `second` and `down` of the best division as one integer. Below 0 without one.
    code: Lanes,
}

impl Division {
    #[inline(always)]
    fn new(max: Lanes) -> Self {
        Self { scale: max, best: Lanes::all(-f32::MAX), code: Lanes::all(-1.0) }
    }

    #[inline(always)]
    fn consider(&mut self, sum_x: Lanes, sum_2: Lanes, first: usize, second: usize, down: usize) {
        let better = sum_2.above(Lanes::ZERO).and((sum_x * sum_x).above(self.best * sum_2));
        if better.any() {
            self.scale = better.choose(sum_x / sum_2, self.scale);
            self.best = better.choose(self.scale * sum_x, self.best);
            self.code = better.choose(Lanes::all((first << 10 | second << 4 | down) as f32), self.code);
        }
    }

    /// Returns `first`, `second` and `down`.
    fn of(&self, lane: usize) -> Option<(usize, usize, usize)> {
        let code = self.code.0[lane];
        (code >= 0.0).then(|| {
            let code = code as usize;
            (code >> 10, code >> 4 & 63, code & 15)
        })
    }
}

/// Returns the largest magnitude. After a NaN, starts again with what follows.
#[inline(always)]
fn largest<const LENGTH: usize>(x: &[Lanes; LENGTH]) -> Lanes {
    x.iter().skip(1).fold(x[0].abs(), |max, x| max.max(x.abs()))
}

/// The elements and the sums of their weights in ascending order: `sums[n]` has the first `n`.
#[inline(always)]
fn add<const LENGTH: usize, const SUMS: usize>(values: &[Lanes; LENGTH]) -> [Lanes; SUMS] {
    let mut sums = [Lanes::ZERO; SUMS];
    for (at, &value) in values.iter().enumerate() {
        sums[at + 1] = sums[at] + value;
    }
    sums
}

/// Divides sub-blocks of `iq1_s`, all of whose groups are moved in the same direction.
#[inline(always)]
fn divide_s(x: &[Lanes; 32], weights: &[Lanes; 32], orders: &[[u8; 32]; LANES], max: Lanes) -> Division {
    let (mut sorted_x, mut sorted_w) = ([Lanes::ZERO; 32], [Lanes::ZERO; 32]);
    for (lane, order) in orders.iter().enumerate() {
        for (at, &from) in order.iter().enumerate() {
            let weight = weights[usize::from(from)].0[lane];
            sorted_x[at].0[lane] = weight * x[usize::from(from)].0[lane];
            sorted_w[at].0[lane] = weight;
        }
    }
    let (sum_x, sum_w): ([Lanes; 33], [Lanes; 33]) = (add(&sorted_x), add(&sorted_w));
    let mut found = Division::new(max);
    // The part of the elements that get the code 2 does not depend on `first`.
    let after = |second: usize, value: f32| {
        let weight = (sum_w[32] - sum_w[second]) * Lanes::all(value) * Lanes::all(value);
        ((sum_x[32] - sum_x[second]) * Lanes::all(value), weight)
    };
    let mut rest = [[(Lanes::ZERO, Lanes::ZERO); 2]; 33];
    for (second, rest) in rest.iter_mut().enumerate() {
        *rest = [after(second, UP[2]), after(second, DOWN[2])];
    }
    for first in 0..=32 {
        let before = |value: f32| {
            (sum_x[first] * Lanes::all(value), sum_w[first] * Lanes::all(value) * Lanes::all(value))
        };
        let [up, down] = [before(UP[0]), before(DOWN[0])];
        for (second, rest) in rest.iter().enumerate().skip(first) {
            let between = (sum_x[second] - sum_x[first]) * Lanes::all(DELTA);
            let between_w = (sum_w[second] - sum_w[first]) * Lanes::all(DELTA) * Lanes::all(DELTA);
            found.consider(up.0 + between + rest[0].0, up.1 + between_w + rest[0].1, first, second, 0);
            found.consider(down.0 - between + rest[1].0, down.1 + between_w + rest[1].1, first, second, 15);
        }
    }
    found
}

/// The terms of `weight * x * value` and of `weight * value * value`.
#[derive(Clone, Copy)]
struct Terms {
    x: Lanes,
    weight: Lanes,
}

impl Terms {
    const ZERO: Self = Self { x: Lanes::ZERO, weight: Lanes::ZERO };

    #[inline(always)]
    fn new(x: Lanes, weight: Lanes, value: f32) -> Self {
        let scaled = weight * Lanes::all(value);
        Self { x: scaled * x, weight: scaled * Lanes::all(value) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self { x: self.x + other.x, weight: self.weight + other.weight }
    }
}

/// Returns the terms of the elements in ascending order if their code is `code`, for the four pairs of directions of the groups.
#[inline(always)]
fn terms(x: &[Lanes; 16], weights: &[Lanes; 16], second: &[Mask; 16], code: usize) -> [[Terms; 4]; 16] {
    let mut terms = [[Terms::ZERO; 4]; 16];
    for (at, terms) in terms.iter_mut().enumerate() {
        let [up, down] = [UP, DOWN].map(|values| Terms::new(x[at], weights[at], values[code]));
        let either = |one: Terms, other: Terms| Terms {
            x: second[at].choose(one.x, other.x),
            weight: second[at].choose(one.weight, other.weight),
        };
        *terms = [up, either(down, up), either(up, down), down];
    }
    terms
}

/// Divides sub-blocks of `iq1_m`, each of whose two groups is moved in a direction of its own. Sums are those of the elements in ascending
/// order, so only the sums of elements before the code 2 begins are those of other divisions.
#[inline(always)]
fn divide_m(x: &[Lanes; 16], weights: &[Lanes; 16], orders: &[[u8; 16]; LANES], max: Lanes) -> Division {
    let (mut sorted_x, mut sorted_w) = ([Lanes::ZERO; 16], [Lanes::ZERO; 16]);
    let mut is_second = [Mask::NONE; 16];
    for (lane, order) in orders.iter().enumerate() {
        for (at, &from) in order.iter().enumerate() {
            sorted_x[at].0[lane] = x[usize::from(from)].0[lane];
            sorted_w[at].0[lane] = weights[usize::from(from)].0[lane];
            is_second[at].0[lane] = if from < 8 { 0 } else { u32::MAX };
        }
    }
    let [zero, one, two] = [0, 1, 2].map(|code| terms(&sorted_x, &sorted_w, &is_second, code));
    let mut found = Division::new(max);
    let mut before = [Terms::ZERO; 4];
    #[allow(clippy::needless_range_loop)] // also counts one beyond the last
    for first in 0..=16 {
        let mut between = before;
        for second in first..=16 {
            for (down, sum) in between.iter().enumerate() {
                let mut sum = *sum;
                for terms in &two[second..] {
                    sum = sum.add(terms[down]);
                }
                found.consider(sum.x, sum.weight, first, second, down);
            }
            if second < 16 {
                for (sum, terms) in between.iter_mut().zip(one[second]) {
                    *sum = sum.add(terms);
                }
            }
        }
        if first < 16 {
            for (sum, terms) in before.iter_mut().zip(zero[first]) {
                *sum = sum.add(terms);
            }
        }
    }
    found
}

/// Moves the groups to points and returns the result. In bit `POINTS - 1 - group` of `down` of a division is the direction of a group.
#[inline(always)]
fn points<const LENGTH: usize, const POINTS: usize>(
    x: &[Lanes; LENGTH],
    weights: &[Lanes; LENGTH],
    orders: &[[u8; LENGTH]; LANES],
    division: &Division,
    active: Mask,
) -> SearchResult<LENGTH, POINTS> {
    let book: &Codebook<8> = &codebook::IQ1;
    let mut found = SearchResult {
        scale: Lanes::ZERO,
        points: [[0; LANES]; POINTS],
        down: [Mask::NONE; POINTS],
        x: *x,
        weights: *weights,
    };
    let mut values = [Lanes::ZERO; LENGTH];
    let mut exact = Mask::ALL;
    for lane in (0..LANES).filter(|&lane| active.of(lane)) {
        let Some((first, second, mut down)) = division.of(lane) else { continue };
        let mut codes = [0_u8; LENGTH];
        for (at, &from) in orders[lane].iter().enumerate() {
            codes[usize::from(from)] = u8::from(at >= first) + u8::from(at >= second);
        }
        let mut scale = division.scale.0[lane];
        if scale < 0.0 {
            scale = -scale;
            codes = map(&codes, |code| 2 - code);
            down = !down;
        }
        found.scale.0[lane] = scale;
        for group in 0..POINTS {
            let is_down = down >> (POINTS - 1 - group) & 1 != 0;
            let shift = if is_down { DOWN[1] } else { UP[1] } - 1.0;
            let number =
                codes[group * 8..][..8].iter().rev().fold(0, |number, &code| number * 3 + u32::from(code));
            let point = book.point(number).unwrap_or_else(|| {
                exact.0[lane] = 0;
                let part =
                    |lanes: &[Lanes; LENGTH]| map(&lanes.as_chunks::<8>().0[group], |each| each.0[lane]);
                book.nearest(number, &part(x), &part(weights), scale, |code| f32::from(code) + shift)
            });
            found.points[group][lane] = point;
            found.down[group].0[lane] = if is_down { u32::MAX } else { 0 };
            for (value, &code) in values[group * 8..].iter_mut().zip(book.codes(point)) {
                value.0[lane] = f32::from(code) + shift;
            }
        }
    }
    let (mut sum_x, mut sum_2) = (Lanes::ZERO, Lanes::ZERO);
    for ((&x, &w), &value) in x.iter().zip(weights).zip(&values) {
        sum_x = sum_x + w * value * x;
        sum_2 = sum_2 + w * value * value;
    }
    let better = exact.not().and(sum_x.above(Lanes::ZERO)).and(sum_2.above(Lanes::ZERO));
    let scale = better.choose(sum_x / sum_2, found.scale);
    // An overflow, where the reference ends the process, gives a scale of 0.
    found.scale = scale.not_below(Lanes::ZERO).choose(scale, Lanes::ZERO);
    found
}

#[inline(always)]
fn search_s(x: &[Lanes; 32], weights: &[Lanes; 32]) -> SearchResult<32, 4> {
    let (max, orders) = (largest(x), sort(x));
    let division = divide_s(x, weights, &orders, max);
    points(x, weights, &orders, &division, max.below(Lanes::all(1e-12)).not())
}

#[inline(always)]
fn search_m(x: &[Lanes; 16], weights: &[Lanes; 16]) -> SearchResult<16, 2> {
    let (max, orders) = (largest(x), sort(x));
    let division = divide_m(x, weights, &orders, max);
    points(x, weights, &orders, &division, max.below(Lanes::all(1e-7)).not())
}

#[inline(always)]
pub(super) fn iq1_s(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    each((source, row, Some(importance), out), 2.0, 0.0, shifted_32, |found, first, out: &mut [u8; 50]| {
        let (scale, codes) = scales::<8>(&found.scale, first, 15.0, 7);
        out[..2].copy_from_slice(&half(scale * 1.125).to_le_bytes());
        for (at, code) in codes.into_iter().enumerate() {
            let points = map(&found.points, |points| points[first + at]);
            out[2 + at * 4..][..4].copy_from_slice(&map(&points, |point| point as u8));
            let high = points.iter().rev().fold(0, |bits, point| bits << 3 | point >> 8);
            let down = u32::from(found.down[0].of(first + at));
            let word = high | u32::from(code) << 12 | down << 15;
            out[34 + at * 2..][..2].copy_from_slice(&(word as u16).to_le_bytes());
        }
    });
}

/// Writes blocks of `iq1_m`, whose scale is computed from the points, not from the scales of the sub-blocks.
#[inline(always)]
fn write_iq1_m(found: &SearchResult<16, 2>, first: usize, out: &mut [u8; 56]) {
    let (scale, codes) = scales::<16>(&found.scale, first, 15.0, 7);
    out[32..].fill(0);
    for at in 0..16 {
        let points = map(&found.points, |points| points[at]);
        out[at * 2..][..2].copy_from_slice(&map(&points, |point| point as u8));
        out[32 + at] = (points[0] >> 8 | points[1] >> 8 << 4) as u8;
    }
    if scale == 0.0 {
        return;
    }
    let (mut sum_x, mut sum_2) = (0.0, 0.0);
    for (at, code) in codes.iter().enumerate() {
        for (group, down) in found.down.iter().enumerate() {
            let shift = if down.of(at) { DOWN[1] } else { UP[1] } - 1.0;
            out[32 + at] |= u8::from(down.of(at)) << (3 + group * 4);
            let parts = found.x[group * 8..].iter().zip(&found.weights[group * 8..]);
            for ((x, weight), &point) in parts.zip(codebook::IQ1.codes(found.points[group][at])) {
                let value = (f32::from(point) + shift) * f32::from(2 * code + 1);
                sum_x += weight.0[at] * value * x.0[at];
                sum_2 += weight.0[at] * value * value;
            }
        }
    }
    let factor = half(if sum_2 > 0.0 { sum_x / sum_2 } else { scale } * 1.1125);
    for (at, (out, codes)) in
        out[48..].as_chunks_mut::<2>().0.iter_mut().zip(codes.as_chunks::<4>().0).enumerate()
    {
        let word = codes.iter().rev().fold(0, |word, &code| word << 3 | u16::from(code));
        *out = (word | (factor >> (at * 4) & 15) << 12).to_le_bytes();
    }
}

#[inline(always)]
pub(super) fn iq1_m(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    each((source, row, Some(importance), out), 2.0, 0.0, shifted_16, write_iq1_m);
}
