//! ggml's "I quants" of two and three bits: groups of 8 or 4 magnitudes are points of a codebook, times the scale of their sub-block.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use multiversion::multiversion;

use super::codebook::{self, Codebook};
use super::k_quants::BLOCK;
use super::lanes::{LANES, Lanes, Mask, Words, map, nearest, transpose};
use super::numbers::half;
use super::search::{NOTHING, compiled, positive_32};
use super::weighted::{Batch, batches, weigh};

compiled! {
    two_xxs(x: &[Lanes; 32], weights: &[Lanes; 32]) -> SearchResult<4, 4> = search_two_xxs;
    two_xs(x: &[Lanes; 16], weights: &[Lanes; 16]) -> SearchResult<2, 2> = search_two_xs;
    two_s(x: &[Lanes; 16], weights: &[Lanes; 16]) -> SearchResult<2, 2> = search_two_s;
    three_xxs(x: &[Lanes; 32], weights: &[Lanes; 32]) -> SearchResult<8, 4> = search_three_xxs;
    three_s(x: &[Lanes; 32], weights: &[Lanes; 32]) -> SearchResult<8, 4> = search_three_s;
}

/// What a search found for the sub-blocks in the lanes: scales, and points and signs (a bit for each of 8 elements) of their groups.
pub(super) struct SearchResult<const POINTS: usize, const SIGNS: usize> {
    scale: Lanes,
    points: [Words; POINTS],
    signs: [Words; SIGNS],
    /// Where there are elements that are not 0. Elsewhere all fields are 0.
    active: Mask,
}

/// The candidates of a search: the largest element becomes `top` plus up to `steps` times `step` to both sides.
#[derive(Clone, Copy)]
struct Plan {
    top: f32,
    step: f32,
    steps: i8,
    /// Which groups get other points for the best scale.
    again: Again,
}

#[derive(Clone, Copy, PartialEq)]
enum Again {
    /// Those whose codes were no point.
    Moved,
    /// All, if the codes of one were no point.
    AllIfMoved,
    All,
}

/// The elements of sub-blocks as magnitudes, and their weights: by element, and by lane.
struct Magnitudes<'a, const LENGTH: usize, const SIGNS: usize> {
    x: [Lanes; LENGTH],
    weights: &'a [Lanes; LENGTH],
    rows: [[f32; LENGTH]; LANES],
    /// The roots of the weights.
    roots: [[f32; LENGTH]; LANES],
    signs: [Words; SIGNS],
    max: Lanes,
}

impl<'a, const LENGTH: usize, const SIGNS: usize> Magnitudes<'a, LENGTH, SIGNS> {
    /// With `EVEN`, the number of signs of 8 elements is even: if it is odd, the element with the least weighted square changes its sign
    /// and becomes a negative magnitude.
    #[inline(always)]
    fn new<const EVEN: bool>(source: &[Lanes; LENGTH], weights: &'a [Lanes; LENGTH]) -> Self {
        let mut x = *source;
        let mut signs = [[0; LANES]; SIGNS];
        for ((x, weights), signs) in
            x.as_chunks_mut::<8>().0.iter_mut().zip(weights.as_chunks::<8>().0).zip(&mut signs)
        {
            let mut min = Lanes::ZERO;
            let mut flipped = [0; LANES];
            for (at, (x, &weight)) in x.iter_mut().zip(weights).enumerate() {
                let square = weight * *x * *x;
                let smaller = if at == 0 { Mask::ALL } else { square.below(min) };
                min = smaller.choose(square, min);
                flipped = smaller.choose_words([1 << at; LANES], flipped);
                let positive = x.not_below(Lanes::ZERO);
                *x = positive.choose(*x, x.negative());
                for (signs, positive) in signs.iter_mut().zip(positive.0) {
                    *signs |= !positive & 1 << at;
                }
            }
            if EVEN {
                for (signs, flipped) in signs.iter_mut().zip(&mut flipped) {
                    *flipped = if parity(*signs) == 0 { 0 } else { *flipped };
                    *signs = (*signs ^ *flipped) & 127;
                }
                for (at, x) in x.iter_mut().enumerate() {
                    *x = Mask::of_bit(flipped, at as u32).choose(x.negative(), *x);
                }
            }
        }
        let max = x.iter().skip(1).fold(x[0], |max, &x| max.max(x));
        let roots = map(weights, Lanes::sqrt);
        Self { rows: rows(&x), roots: rows(&roots), x, weights, signs, max }
    }

    /// Returns the result, where a scale below 0 becomes positive with all signs changed. Only lanes of `active` are not 0. An overflow,
    /// where the reference ends the process, gives a scale of 0.
    #[inline(always)]
    fn found<const POINTS: usize>(
        self,
        scale: Lanes,
        points: [Words; POINTS],
        active: Mask,
        bits: u32,
    ) -> SearchResult<POINTS, SIGNS> {
        let negative = scale.below(Lanes::ZERO);
        let scale = negative.choose(scale.negative(), scale);
        let scale = active.and(scale.not_below(Lanes::ZERO)).choose(scale, Lanes::ZERO);
        let mut signs = self.signs;
        for signs in &mut signs {
            for ((signs, negative), active) in signs.iter_mut().zip(negative.0).zip(active.0) {
                *signs = (*signs ^ negative & bits) & active;
            }
        }
        let points = map(&points, |points| active.choose_words(points, [0; LANES]));
        SearchResult { scale, points, signs, active }
    }
}

/// Returns 1 if the number of bits of a byte that are set is odd.
#[inline(always)]
fn parity(bits: u32) -> u32 {
    let bits = bits ^ bits >> 4;
    let bits = bits ^ bits >> 2;
    (bits ^ bits >> 1) & 1
}

#[inline(always)]
fn rows<const LENGTH: usize>(lanes: &[Lanes; LENGTH]) -> [[f32; LENGTH]; LANES] {
    let mut rows = [[0.0; LENGTH]; LANES];
    for (at, lanes) in lanes.iter().enumerate() {
        for (row, value) in rows.iter_mut().zip(lanes.0) {
            row[at] = value;
        }
    }
    rows
}

/// The values of a code: 1, 3, 5, …
#[inline(always)]
fn odd(code: u8) -> f32 {
    f32::from(2 * code + 1)
}

/// The points to which a scale moves the elements of each lane.
struct Moved<const LENGTH: usize, const POINTS: usize> {
    /// `odd` of the codes of the points.
    values: [Lanes; LENGTH],
    points: [Words; POINTS],
    /// Where the nearest codes are a point.
    exact: [Mask; POINTS],
}

/// Moves the groups of `active` to points. Of others, neither the values nor the points mean anything.
#[inline(always)]
fn move_to<const DIGITS: usize, const LENGTH: usize, const POINTS: usize, const SIGNS: usize>(
    book: &Codebook<DIGITS>,
    magnitudes: &Magnitudes<'_, LENGTH, SIGNS>,
    inverse: Lanes,
    scale: Lanes,
    active: &[Mask; POINTS],
) -> Moved<LENGTH, POINTS> {
    let base = Codebook::<DIGITS>::BASE as u32;
    let mut moved =
        Moved { values: [Lanes::ZERO; LENGTH], points: [[0; LANES]; POINTS], exact: [Mask::ALL; POINTS] };
    #[allow(clippy::needless_range_loop)] // indexes four arrays
    for group in 0..POINTS {
        let mut numbers = [0; LANES];
        for at in (group * DIGITS..(group + 1) * DIGITS).rev() {
            let x = Lanes::all(0.5) * (inverse * magnitudes.x[at] - Lanes::all(1.0));
            let values = &mut moved.values[at].0;
            for ((number, value), x) in numbers.iter_mut().zip(values).zip(x.0) {
                let code = nearest(x).clamp(0, base.cast_signed() - 1);
                *number = *number * base + code as u32;
                *value = (2 * code + 1) as f32;
            }
        }
        for lane in 0..LANES {
            if let Some(point) = book.point(numbers[lane]) {
                moved.points[group][lane] = point;
            } else if active[group].of(lane) {
                let part = |rows: &[[f32; LENGTH]; LANES]| rows[lane].as_chunks::<DIGITS>().0[group];
                let [x, roots] = [&magnitudes.rows, &magnitudes.roots].map(part);
                let point = book.nearest(numbers[lane], &x, &roots, scale.0[lane], odd);
                moved.points[group][lane] = point;
                moved.exact[group].0[lane] = 0;
                for (values, &code) in moved.values[group * DIGITS..].iter_mut().zip(book.codes(point)) {
                    values.0[lane] = odd(code);
                }
            }
        }
    }
    moved
}

/// Returns the sums of `weight * x * value` and of `weight * value * value`.
#[inline(always)]
fn sums<const LENGTH: usize>(
    x: &[Lanes; LENGTH],
    weights: &[Lanes; LENGTH],
    values: &[Lanes; LENGTH],
) -> (Lanes, Lanes) {
    let (mut sum_x, mut sum_2) = (Lanes::ZERO, Lanes::ZERO);
    for ((&x, &w), &value) in x.iter().zip(weights).zip(values) {
        sum_x = sum_x + w * x * value;
        sum_2 = sum_2 + w * value * value;
    }
    (sum_x, sum_2)
}

/// Returns the best scales and points for the lanes of `active`. `max` is what becomes `plan.top`.
#[inline(always)]
fn search<const DIGITS: usize, const LENGTH: usize, const POINTS: usize, const SIGNS: usize>(
    book: &Codebook<DIGITS>,
    magnitudes: &Magnitudes<'_, LENGTH, SIGNS>,
    max: Lanes,
    mut scale: Lanes,
    active: Mask,
    plan: Plan,
) -> (Lanes, [Words; POINTS]) {
    let (x, weights) = (&magnitudes.x, magnitudes.weights);
    let mut points = [[0; LANES]; POINTS];
    let mut exact = [if plan.again == Again::Moved { Mask::ALL } else { Mask::NONE }; POINTS];
    let mut best = Lanes::ZERO;
    for step in -plan.steps..=plan.steps {
        let inverse = Lanes::all(plan.top + f32::from(step) * plan.step) / max;
        let moved = move_to(book, magnitudes, inverse, Lanes::all(1.0) / inverse, &[active; POINTS]);
        let (sum_x, sum_2) = sums(x, weights, &moved.values);
        let better = sum_2.above(Lanes::ZERO).and((sum_x * sum_x).above(best * sum_2));
        scale = better.choose(sum_x / sum_2, scale);
        best = better.choose(scale * sum_x, best);
        for group in 0..POINTS {
            points[group] = better.choose_words(moved.points[group], points[group]);
            exact[group] = better.choose_mask(moved.exact[group], exact[group]);
        }
    }

    let mut again = active.and(scale.above(Lanes::ZERO));
    if plan.again != Again::All {
        again = again.and(exact.iter().fold(Mask::NONE, |any, exact| any.or(exact.not())));
    }
    let groups = map(&exact, |exact| if plan.again == Again::Moved { again.and(exact.not()) } else { again });
    if again.any() {
        let mut moved = move_to(book, magnitudes, Lanes::all(1.0) / scale, scale, &groups);
        for group in 0..POINTS {
            points[group] = groups[group].choose_words(moved.points[group], points[group]);
            for lane in (0..LANES).filter(|&lane| !groups[group].of(lane)) {
                let codes = book.codes(points[group][lane]);
                for (values, &code) in moved.values[group * DIGITS..].iter_mut().zip(codes) {
                    values.0[lane] = odd(code);
                }
            }
        }
        let (sum_x, sum_2) = sums(x, weights, &moved.values);
        scale = again.and(sum_2.above(Lanes::ZERO)).choose(sum_x / sum_2, scale);
    }
    (scale, points)
}

#[inline(always)]
fn search_two_xxs(x: &[Lanes; 32], weights: &[Lanes; 32]) -> SearchResult<4, 4> {
    const PLAN: Plan = Plan { top: 5.0, step: 0.1, steps: 6, again: Again::All };
    let magnitudes = Magnitudes::new::<true>(x, weights);
    let (scale, _) = positive_32(&magnitudes.x, weights, 4);
    let max = scale * Lanes::all(3.0);
    let active = magnitudes.max.below(Lanes::all(NOTHING)).or(max.not_above(Lanes::ZERO)).not();
    let (scale, points) = search(&codebook::IQ2_XXS, &magnitudes, max, scale, active, PLAN);
    magnitudes.found(scale, points, active, 127)
}

#[inline(always)]
fn search_two_xs(x: &[Lanes; 16], weights: &[Lanes; 16]) -> SearchResult<2, 2> {
    const PLAN: Plan = Plan { top: 5.0, step: 0.1, steps: 9, again: Again::Moved };
    let magnitudes = Magnitudes::new::<true>(x, weights);
    let (max, scale) = (magnitudes.max, magnitudes.max / Lanes::all(5.0));
    let active = max.below(Lanes::all(NOTHING)).not();
    let (scale, points) = search(&codebook::IQ2_XS, &magnitudes, max, scale, active, PLAN);
    magnitudes.found(scale, points, active, 127)
}

/// Below this magnitude, a sub-block of `iq2_s` and `iq3_xxs` counts as 0.
const LITTLE: f32 = 1e-8;

#[inline(always)]
fn search_two_s(x: &[Lanes; 16], weights: &[Lanes; 16]) -> SearchResult<2, 2> {
    const PLAN: Plan = Plan { top: 5.0, step: 0.1, steps: 9, again: Again::Moved };
    let magnitudes = Magnitudes::new::<false>(x, weights);
    let (max, scale) = (magnitudes.max, magnitudes.max / Lanes::all(5.0));
    let active = max.below(Lanes::all(LITTLE)).not();
    let (scale, points) = search(&codebook::IQ2_S, &magnitudes, max, scale, active, PLAN);
    magnitudes.found(scale, points, active, 255)
}

#[inline(always)]
fn search_three_xxs(x: &[Lanes; 32], weights: &[Lanes; 32]) -> SearchResult<8, 4> {
    const PLAN: Plan = Plan { top: 15.0, step: 0.2, steps: 15, again: Again::Moved };
    let magnitudes = Magnitudes::new::<true>(x, weights);
    let (max, scale) = (magnitudes.max, magnitudes.max / Lanes::all(15.0));
    let active = max.below(Lanes::all(LITTLE)).not();
    let (scale, points) = search(&codebook::IQ3_XXS, &magnitudes, max, scale, active, PLAN);
    magnitudes.found(scale, points, active, 127)
}

#[inline(always)]
fn search_three_s(x: &[Lanes; 32], weights: &[Lanes; 32]) -> SearchResult<8, 4> {
    const PLAN: Plan = Plan { top: 15.0, step: 0.2, steps: 9, again: Again::AllIfMoved };
    let magnitudes = Magnitudes::new::<false>(x, weights);
    let (max, scale) = (magnitudes.max, magnitudes.max / Lanes::all(15.0));
    let active = max.differs(Lanes::ZERO);
    let (scale, points) = search(&codebook::IQ3_S, &magnitudes, max, scale, active, PLAN);
    magnitudes.found(scale, points, active, 255)
}

/// The elements of whole rows, the length of a row, the importance of its elements, and the bytes to write.
type Rows<'a> = (&'a [f32], usize, Option<&'a [f32]>, &'a mut [u8]);

/// Calls `search` with the elements and weights of as many blocks as the lanes hold, and `write` with the result, the first lane of a
/// block, and its bytes. The weight of an element x is its importance times the root of x² plus `variance` times the mean square of the
/// block; without importance, x² plus `plain` times the same.
#[inline(always)]
pub(super) fn each<const LENGTH: usize, const BYTES: usize, T>(
    (source, row, importance, out): Rows<'_>,
    variance: f32,
    plain: f32,
    search: impl Fn(&[Lanes; LENGTH], &[Lanes; LENGTH]) -> T,
    write: impl Fn(&T, usize, &mut [u8; BYTES]),
) {
    for (at, (source, out)) in batches::<BYTES>(source, out) {
        let batch = Batch::new(source, row, importance, at);
        let parts = batch.parts::<LENGTH>().zip(out.chunks_mut(LANES * LENGTH / BLOCK));
        for (((source, part), squares), out) in parts {
            let x = transpose::<LENGTH>(source);
            let mean = Lanes::all(variance) * squares / Lanes::all(BLOCK as f32);
            let weights = match importance {
                Some(_) => weigh(&x, &transpose(part), mean),
                None if plain == 0.0 => map(&x, |x| x * x),
                None => map(&x, |x| Lanes::all(plain) * mean + x * x),
            };
            let found = search(&x, &weights);
            for (at, out) in out.iter_mut().enumerate() {
                write(&found, at * BLOCK / LENGTH, out);
            }
        }
    }
}

/// Returns the scale of a block whose sub-blocks have scales, which are odd multiples of it, and codes of the multiples.
#[inline(always)]
pub(super) fn scales<const COUNT: usize>(
    found: &Lanes,
    first: usize,
    parts: f32,
    limit: i32,
) -> (f32, [u8; COUNT]) {
    let scales = &found.0[first..][..COUNT];
    let max = scales.iter().fold(0.0_f32, |max, &scale| if max > scale { max } else { scale });
    if max == 0.0 {
        return (0.0, [0; COUNT]);
    }
    let scale = max / parts;
    let inverse = 1.0 / scale;
    let code = |at: usize| nearest(0.5 * (inverse * scales[at] - 1.0)).clamp(0, limit) as u8;
    (scale, std::array::from_fn(code))
}

/// Packs codes of four bits.
#[inline(always)]
fn pack(codes: &[u8], out: &mut [u8]) {
    for (out, [low, high]) in out.iter_mut().zip(codes.as_chunks().0) {
        *out = low | high << 4;
    }
}

/// Returns four signs of seven bits, and a code of four.
#[inline(always)]
fn word(found: &[Words; 4], lane: usize, code: u8) -> [u8; 4] {
    let signs = found.iter().rev().fold(u32::from(code), |word, signs| word << 7 | signs[lane]);
    signs.to_le_bytes()
}

#[inline(always)]
pub(super) fn iq2_xxs(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    each((source, row, Some(importance), out), 1.0, 0.0, two_xxs, |found, first, out: &mut [u8; 66]| {
        let (scale, codes) = scales::<8>(&found.scale, first, 31.0, 15);
        if scale == 0.0 {
            out.fill(0);
            return;
        }
        out[..2].copy_from_slice(&half(scale).to_le_bytes());
        for (at, (out, code)) in out[2..].as_chunks_mut::<8>().0.iter_mut().zip(codes).enumerate() {
            out[..4].copy_from_slice(&map(&found.points, |points| points[first + at] as u8));
            out[4..].copy_from_slice(&word(&found.signs, first + at, code));
        }
    });
}

#[inline(always)]
pub(super) fn iq2_xs(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    each((source, row, Some(importance), out), 1.0, 0.0, two_xs, |found, first, out: &mut [u8; 74]| {
        let (scale, codes) = scales::<16>(&found.scale, first, 31.0, 15);
        if scale == 0.0 {
            out.fill(0);
            return;
        }
        out[..2].copy_from_slice(&half(scale).to_le_bytes());
        for (at, out) in out[2..66].as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let (lane, group) = (first + at / 2, at % 2);
            let code = found.points[group][lane] | found.signs[group][lane] << 9;
            *out = (code as u16).to_le_bytes();
        }
        pack(&codes, &mut out[66..]);
    });
}

#[inline(always)]
pub(super) fn iq2_s(source: &[f32], out: &mut [u8]) {
    write_iq2_s((source, BLOCK, None, out));
}

#[inline(always)]
pub(super) fn iq2_s_weighted(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    write_iq2_s((source, row, Some(importance), out));
}

#[inline(always)]
fn write_iq2_s(rows: Rows<'_>) {
    each(rows, 2.0, 0.25, two_s, |found, first, out: &mut [u8; 82]| {
        let (scale, codes) = scales::<16>(&found.scale, first, 31.0, 15);
        out[..2].copy_from_slice(&half(scale * 0.9875).to_le_bytes());
        out[66..74].fill(0);
        for at in 0..32 {
            let (lane, group) = (first + at / 2, at % 2);
            let point = found.points[group][lane];
            out[2 + at] = point as u8;
            out[34 + at] = found.signs[group][lane] as u8;
            out[66 + at / 4] |= ((point >> 8) << (at % 4 * 2)) as u8;
        }
        pack(&codes, &mut out[74..]);
    });
}

#[inline(always)]
pub(super) fn iq3_xxs(source: &[f32], out: &mut [u8]) {
    write_iq3_xxs((source, BLOCK, None, out));
}

#[inline(always)]
pub(super) fn iq3_xxs_weighted(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    write_iq3_xxs((source, row, Some(importance), out));
}

#[inline(always)]
fn write_iq3_xxs(rows: Rows<'_>) {
    each(rows, 2.0, 0.0, three_xxs, |found, first, out: &mut [u8; 98]| {
        let (scale, codes) = scales::<8>(&found.scale, first, 31.0, 15);
        if scale == 0.0 {
            out.fill(0);
            return;
        }
        out[..2].copy_from_slice(&half(scale * 1.0125).to_le_bytes());
        let (points, words) = out[2..].split_at_mut(64);
        for (at, out) in points.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *out = map(&found.points, |points| points[first + at] as u8);
        }
        for (at, (out, code)) in words.as_chunks_mut::<4>().0.iter_mut().zip(codes).enumerate() {
            *out = word(&found.signs, first + at, code);
        }
    });
}

#[inline(always)]
pub(super) fn iq3_s(source: &[f32], out: &mut [u8]) {
    write_iq3_s((source, BLOCK, None, out));
}

#[inline(always)]
pub(super) fn iq3_s_weighted(source: &[f32], row: usize, importance: &[f32], out: &mut [u8]) {
    write_iq3_s((source, row, Some(importance), out));
}

#[inline(always)]
fn write_iq3_s(rows: Rows<'_>) {
    each(rows, 2.0, 0.0, three_s, |found, first, out: &mut [u8; 110]| {
        let (scale, codes) = scales::<8>(&found.scale, first, 31.0, 15);
        out[..2].copy_from_slice(&half(scale * 1.033).to_le_bytes());
        out[2..106].fill(0);
        // A sub-block of zeros does not advance the positions of the points and signs of those that follow, as in the reference.
        for (position, at) in (0..8).filter(|&at| found.active.of(first + at)).enumerate() {
            let points = map(&found.points, |points| points[first + at]);
            out[2 + position * 8..][..8].copy_from_slice(&map(&points, |point| point as u8));
            out[66 + at] = points.iter().rev().fold(0, |bits, point| bits << 1 | point >> 8) as u8;
            let signs = map(&found.signs, |signs| signs[first + at] as u8);
            out[74 + position * 4..][..4].copy_from_slice(&signs);
        }
        pack(&codes, &mut out[106..]);
    });
}
