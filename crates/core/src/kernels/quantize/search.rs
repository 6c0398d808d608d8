//! Searches for the scale of a sub-block with the least weighted error, one sub-block in each lane.
//!
//! Each search is compiled twice: for lanes whose quotients `Lanes::round` takes, and, where a lane has others (NaN, infinities, extreme
//! ranges), again for all numbers.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use multiversion::multiversion;

use super::lanes::{Lanes, Mask, nearest};

/// Defines functions that are compiled for the baseline, AVX2 and AVX-512, each on its own: what is around a search would decide on how
/// LLVM divides the lanes into vectors.
macro_rules! compiled {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) -> $result:ty = $search:expr;)*) => {$(
        $(#[$doc])*
        #[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
        pub(super) fn $name($($argument: $type),*) -> $result {
            $search($($argument),*)
        }
    )*};
}
pub(super) use compiled;

compiled! {
    affine_32(x: &[Lanes; 32], weights: &[Lanes; 32], plan: Plan) -> Affine = affine::<32, false>;
    affine_16(x: &[Lanes; 16], weights: &[Lanes; 16], plan: Plan) -> Affine = affine::<16, false>;
    /// Like `affine_16`, with a sum of errors that are not squared.
    affine_16_absolute(x: &[Lanes; 16], weights: &[Lanes; 16], plan: Plan) -> Affine = affine::<16, true>;
    symmetric_32(x: &[Lanes; 32], weights: &[Lanes; 32], top: i8) -> Symmetric = symmetric::<32>;
    symmetric_16(x: &[Lanes; 16], weights: &[Lanes; 16], top: i8) -> Symmetric = symmetric::<16>;
    refined_16(x: &[[Lanes; 16]; 2], top: i8) -> Refined<16> = refined::<16>;
    positive_32(x: &[Lanes; 32], weights: &[Lanes; 32], top: u8) -> (Lanes, [Lanes; 32]) = positive::<32>;
    positive_16(x: &[Lanes; 16], weights: &[Lanes; 16], top: u8) -> (Lanes, [Lanes; 16]) = positive::<16>;
    positive_8(x: &[Lanes; 8], weights: &[Lanes; 8], top: u8) -> (Lanes, [Lanes; 8]) = positive::<8>;
}

/// Below this magnitude a sub-block counts as 0.
pub(super) const NOTHING: f32 = 1e-15;

/// The candidates of a search for a scale and a minimum: in step `n`, the range is divided by `first + n * step + top`.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// The largest code. The smallest is 0.
    pub top: i8,
    pub first: f32,
    pub step: f32,
    pub steps: u8,
}

/// The best `scale * code - offset` of each lane.
pub(super) struct Affine {
    pub scale: Lanes,
    pub offset: Lanes,
    /// The inverse scale and the minimum from which the best codes were computed, or 0 and 0 for codes of 0.
    inverse: Lanes,
    low: Lanes,
}

impl Affine {
    /// Returns the code that the search found for an element of a lane.
    #[inline(always)]
    pub(super) fn code(&self, lane: usize, value: f32, top: u8) -> u8 {
        let found = nearest(self.inverse.0[lane] * (value - self.low.0[lane]));
        found.clamp(0, top.into()) as u8
    }
}

/// Finds scales and offsets. With `ABSOLUTE`, errors are summed without being squared.
#[inline(always)]
fn affine<const LENGTH: usize, const ABSOLUTE: bool>(
    x: &[Lanes; LENGTH],
    weights: &[Lanes; LENGTH],
    plan: Plan,
) -> Affine {
    let (found, rounded) = affine_of::<LENGTH, ABSOLUTE, false>(x, weights, plan);
    if rounded { found } else { affine_of_any::<LENGTH, ABSOLUTE>(x, weights, plan) }
}

#[cold]
#[inline(never)]
fn affine_of_any<const LENGTH: usize, const ABSOLUTE: bool>(
    x: &[Lanes; LENGTH],
    weights: &[Lanes; LENGTH],
    plan: Plan,
) -> Affine {
    affine_of::<LENGTH, ABSOLUTE, true>(x, weights, plan).0
}

/// Returns the weighted error of a code.
#[inline(always)]
fn error<const ABSOLUTE: bool>(scale: Lanes, low: Lanes, code: Lanes, x: Lanes, w: Lanes) -> Lanes {
    let difference = scale * code + low - x;
    w * if ABSOLUTE { difference.abs() } else { difference * difference }
}

/// Returns also whether all quotients could be rounded, without which the result is of no use unless `ANY`.
#[inline(always)]
fn affine_of<const LENGTH: usize, const ABSOLUTE: bool, const ANY: bool>(
    x: &[Lanes; LENGTH],
    weights: &[Lanes; LENGTH],
    plan: Plan,
) -> (Affine, bool) {
    let (mut lowest, mut high) = (x[0], x[0]);
    let mut sum_w = weights[0];
    let mut sum_x = weights[0] * x[0];
    for (&x, &w) in x.iter().zip(weights).skip(1) {
        lowest = x.min(lowest);
        high = x.max(high);
        sum_w = sum_w + w;
        sum_x = sum_x + w * x;
    }
    let mut low = Lanes::ZERO.min(lowest);
    let flat = high.equals(low);
    // A NaN among the elements is in this sum, though not in the extremes.
    let mut rounded = sum_w.equals(sum_w);

    let mut inverse = Lanes::all(plan.top.into()) / (high - low);
    let mut scale = Lanes::all(1.0) / inverse;
    let mut best = Lanes::ZERO;
    rounded = rounded.and((inverse * (high - low)).can_round());
    for (&x, &w) in x.iter().zip(weights) {
        let code = (inverse * (x - low)).round::<ANY>(0, plan.top);
        best = best + error::<ABSOLUTE>(scale, low, code, x, w);
    }
    let mut best_low = low;

    let mut codes = [Lanes::ZERO; LENGTH];
    for step in 0..=plan.steps {
        let divisor = plan.first + plan.step * f32::from(step) + f32::from(plan.top);
        let candidate = Lanes::all(divisor) / (high - low);
        // The quotients of all elements are between those of the extremes.
        let ends = (candidate * (high - low)).can_round().and((candidate * (lowest - low)).can_round());
        rounded = rounded.and(ends);
        let (mut sum_l, mut sum_l2, mut sum_xl) = (Lanes::ZERO, Lanes::ZERO, Lanes::ZERO);
        for (code, (&x, &w)) in codes.iter_mut().zip(x.iter().zip(weights)) {
            *code = (candidate * (x - low)).round::<ANY>(0, plan.top);
            let wl = w * *code;
            sum_l = sum_l + wl;
            sum_l2 = sum_l2 + wl * *code;
            sum_xl = sum_xl + wl * x;
        }
        let determinant = sum_w * sum_l2 - sum_l * sum_l;
        let new_scale = (sum_w * sum_xl - sum_x * sum_l) / determinant;
        let new_low = (sum_l2 * sum_x - sum_l * sum_xl) / determinant;
        let above = new_low.above(Lanes::ZERO);
        let new_low = above.choose(Lanes::ZERO, new_low);
        let new_scale = above.choose(sum_xl / sum_l2, new_scale);
        let mut sum = Lanes::ZERO;
        for (&code, (&x, &w)) in codes.iter().zip(x.iter().zip(weights)) {
            sum = sum + error::<ABSOLUTE>(new_scale, new_low, code, x, w);
        }
        let better = determinant.above(Lanes::ZERO).and(sum.below(best));
        best = better.choose(sum, best);
        scale = better.choose(new_scale, scale);
        inverse = better.choose(candidate, inverse);
        best_low = better.choose(low, best_low);
        low = better.choose(new_low, low);
    }
    let found = Affine {
        scale: flat.choose(Lanes::ZERO, scale),
        offset: low.negative(),
        inverse: flat.choose(Lanes::ZERO, inverse),
        low: flat.choose(Lanes::ZERO, best_low),
    };
    (found, ANY || rounded.or(flat).all())
}

/// The best `scale * code` of each lane.
pub(super) struct Symmetric {
    pub scale: Lanes,
    /// The inverse scale from which the best codes were computed.
    inverse: Lanes,
    nothing: Mask,
}

impl Symmetric {
    /// Returns the code that the search found for an element of a lane, plus `top`. It is 0 in a lane of nothing.
    #[inline(always)]
    pub(super) fn code(&self, lane: usize, value: f32, top: i8) -> u8 {
        if self.nothing.of(lane) {
            return 0;
        }
        let top = i32::from(top);
        (top + nearest(self.inverse.0[lane] * value).clamp(-top, top - 1)) as u8
    }
}

/// Finds scales for codes from `-top` to `top - 1`.
#[inline(always)]
fn symmetric<const LENGTH: usize>(x: &[Lanes; LENGTH], weights: &[Lanes; LENGTH], top: i8) -> Symmetric {
    // The difference of an infinity or NaN with itself is NaN.
    #[allow(clippy::eq_op)]
    let sum = x.iter().fold(Lanes::ZERO, |sum, &x| sum + (x - x));
    if sum.equals(Lanes::ZERO).all() {
        symmetric_of::<LENGTH, false>(x, weights, top)
    } else {
        symmetric_of_any(x, weights, top)
    }
}

#[cold]
#[inline(never)]
fn symmetric_of_any<const LENGTH: usize>(
    x: &[Lanes; LENGTH],
    weights: &[Lanes; LENGTH],
    top: i8,
) -> Symmetric {
    symmetric_of::<LENGTH, true>(x, weights, top)
}

/// Returns the largest magnitude, and the first element that has it.
#[inline(always)]
pub(super) fn extreme<const LENGTH: usize>(x: &[Lanes; LENGTH]) -> (Lanes, Lanes) {
    let (mut max, mut extreme) = (Lanes::ZERO, Lanes::ZERO);
    for &x in x {
        let larger = x.abs().above(max);
        max = larger.choose(x.abs(), max);
        extreme = larger.choose(x, extreme);
    }
    (max, extreme)
}

/// Returns the first number with the largest magnitude. Ignores NaN; 0 has no sign.
#[inline(always)]
pub(super) fn first_extreme(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |max: f32, &value| if max.abs() < value.abs() { value } else { max })
}

/// Returns the sums of `weight * x * code` and of `weight * code * code`.
#[inline(always)]
fn symmetric_sums<const LENGTH: usize, const ANY: bool>(
    x: &[Lanes; LENGTH],
    weights: &[Lanes; LENGTH],
    wx: &[Lanes; LENGTH],
    inverse: Lanes,
    top: i8,
) -> (Lanes, Lanes) {
    let (mut sum_lx, mut sum_l2) = (Lanes::ZERO, Lanes::ZERO);
    for (&x, (&w, &wx)) in x.iter().zip(weights.iter().zip(wx)) {
        let code = (inverse * x).round::<ANY>(-top, top - 1);
        sum_lx = sum_lx + wx * code;
        sum_l2 = sum_l2 + w * code * code;
    }
    (sum_lx, sum_l2)
}

#[inline(always)]
fn symmetric_of<const LENGTH: usize, const ANY: bool>(
    x: &[Lanes; LENGTH],
    weights: &[Lanes; LENGTH],
    top: i8,
) -> Symmetric {
    let (max, extreme) = extreme(x);
    let mut wx = *weights;
    for (wx, &x) in wx.iter_mut().zip(x) {
        *wx = *wx * x;
    }
    let mut inverse = Lanes::all(-f32::from(top)) / extreme;
    let (sum_lx, sum_l2) = symmetric_sums::<LENGTH, ANY>(x, weights, &wx, inverse, top);
    let mut scale = sum_l2.equals(Lanes::ZERO).choose(Lanes::ZERO, sum_lx / sum_l2);
    let mut best = scale * sum_lx;
    for step in (-9_i8..=9).filter(|&step| step != 0) {
        let divisor = -(f32::from(top) + 0.1 * f32::from(step));
        let candidate = Lanes::all(divisor) / extreme;
        let (sum_lx, sum_l2) = symmetric_sums::<LENGTH, ANY>(x, weights, &wx, candidate, top);
        let better = sum_l2.above(Lanes::ZERO).and((sum_lx * sum_lx).above(best * sum_l2));
        scale = better.choose(sum_lx / sum_l2, scale);
        best = better.choose(scale * sum_lx, best);
        inverse = better.choose(candidate, inverse);
    }
    let nothing = max.below(Lanes::all(NOTHING));
    Symmetric { scale: nothing.choose(Lanes::ZERO, scale), inverse, nothing }
}

/// Scales and codes of the sub-blocks of two blocks.
pub(super) struct Refined<const LENGTH: usize> {
    pub scales: [Lanes; 2],
    /// The codes plus `top`. They are 0 in a lane of nothing.
    pub codes: [[Lanes; LENGTH]; 2],
}

/// The sums of `weight * x * code` and of `weight * code * code`.
#[derive(Clone, Copy)]
struct Sums {
    lx: Lanes,
    l2: Lanes,
}

impl Sums {
    const ZERO: Self = Self { lx: Lanes::ZERO, l2: Lanes::ZERO };

    #[inline(always)]
    fn and(self, w: Lanes, wx: Lanes, code: Lanes) -> Self {
        Self { lx: self.lx + wx * code, l2: self.l2 + w * code * code }
    }

    /// Changes the code of an element where that makes the error smaller. Returns the new sums and the new code.
    #[inline(always)]
    fn change(self, x: Lanes, w: Lanes, wx: Lanes, code: Lanes, top: i8) -> (Self, Lanes) {
        let rest = Self { lx: self.lx - wx * code, l2: self.l2 - w * code * code };
        let new_code = (x * rest.l2 / rest.lx).round::<true>(-top, top - 1);
        let new = rest.and(w, wx, new_code);
        let smaller = (new.lx * new.lx * self.l2).above(self.lx * self.lx * new.l2);
        let possible = rest.lx.above(Lanes::ZERO).and(new_code.differs(code)).and(new.l2.above(Lanes::ZERO));
        let better = possible.and(smaller);
        let sums = Self { lx: better.choose(new.lx, self.lx), l2: better.choose(new.l2, self.l2) };
        (sums, better.choose(new_code, code))
    }

    #[inline(always)]
    fn scale(self) -> Lanes {
        self.l2.above(Lanes::ZERO).choose(self.lx / self.l2, Lanes::ZERO)
    }
}

/// Finds scales by changes of single codes from `-top` to `top - 1`, each of which makes the error smaller. A change waits for the one
/// before, so two blocks take hardly more time than one.
#[inline(always)]
fn refined<const LENGTH: usize>(x: &[[Lanes; LENGTH]; 2], top: i8) -> Refined<LENGTH> {
    let (mut w, mut wx, mut codes) = (*x, *x, *x);
    let (mut sums, mut nothing) = ([Sums::ZERO; 2], [Mask::NONE; 2]);
    for side in 0..2 {
        let (max, extreme) = extreme(&x[side]);
        nothing[side] = max.below(Lanes::all(NOTHING));
        let inverse = Lanes::all(-f32::from(top)) / extreme;
        for at in 0..LENGTH {
            let x = x[side][at];
            let code = (inverse * x).round::<true>(-top, top - 1);
            sums[side] = sums[side].and(x * x, x * x * x, code);
            (w[side][at], wx[side][at], codes[side][at]) = (x * x, x * x * x, code);
        }
    }
    let [mut first, mut second] = sums;
    for _ in 0..5 {
        let mut moved = Lanes::ZERO;
        for at in 0..LENGTH {
            let [old, old_second] = [codes[0][at], codes[1][at]];
            let (code, code_second);
            (first, code) = first.change(x[0][at], w[0][at], wx[0][at], old, top);
            (second, code_second) = second.change(x[1][at], w[1][at], wx[1][at], old_second, top);
            (codes[0][at], codes[1][at]) = (code, code_second);
            moved = moved + (code - old).abs() + (code_second - old_second).abs();
        }
        if moved.equals(Lanes::ZERO).all() {
            break;
        }
    }
    for (codes, nothing) in codes.iter_mut().zip(&nothing) {
        for code in codes {
            *code = nothing.choose(Lanes::ZERO, *code + Lanes::all(top.into()));
        }
    }
    let scales =
        [nothing[0].choose(Lanes::ZERO, first.scale()), nothing[1].choose(Lanes::ZERO, second.scale())];
    Refined { scales, codes }
}

/// Finds scales of numbers that are not negative for codes from 0 to `top`: the best of nine, then changes of single codes. Returns the
/// codes as bytes, too.
#[inline(always)]
fn positive<const LENGTH: usize>(
    x: &[Lanes; LENGTH],
    weights: &[Lanes; LENGTH],
    top: u8,
) -> (Lanes, [Lanes; LENGTH]) {
    let max = x.iter().fold(Lanes::ZERO, |max, &x| max.max(x));
    let mut inverse = Lanes::all(top.into()) / max;
    let mut best = Lanes::ZERO;
    for (&x, &w) in x.iter().zip(weights) {
        let difference = x - Lanes::all(1.0) / inverse * (inverse * x).round_below(i32::MAX).low_byte();
        best = best + w * difference * difference;
    }
    for step in (-4_i8..=4).filter(|&step| step != 0) {
        let candidate = Lanes::all(0.1 * f32::from(step) + f32::from(top)) / max;
        let mut sum = Lanes::ZERO;
        for (&x, &w) in x.iter().zip(weights) {
            let difference = x - Lanes::all(1.0) / candidate * (candidate * x).round_below(top.into());
            sum = sum + w * difference * difference;
        }
        let better = sum.below(best);
        best = better.choose(sum, best);
        inverse = better.choose(candidate, inverse);
    }
    let (mut sum_lx, mut sum_l2) = (Lanes::ZERO, Lanes::ZERO);
    let mut codes = *x;
    for (code, &w) in codes.iter_mut().zip(weights) {
        let wx = w * *code;
        *code = (inverse * *code).round_below(top.into());
        sum_lx = sum_lx + wx * *code;
        sum_l2 = sum_l2 + w * *code * *code;
        *code = code.low_byte();
    }
    for _ in 0..5 {
        let mut changed = Mask::NONE;
        for (code, (&x, &w)) in codes.iter_mut().zip(x.iter().zip(weights)) {
            let rest_lx = sum_lx - w * x * *code;
            let rest_l2 = sum_l2 - w * *code * *code;
            let new = (x * rest_l2 / rest_lx).round_below(top.into());
            let new_lx = rest_lx + w * x * new;
            let new_l2 = rest_l2 + w * new * new;
            let smaller = (new_lx * new_lx * sum_l2).above(sum_lx * sum_lx * new_l2);
            let possible = rest_lx.above(Lanes::ZERO).and(rest_l2.above(Lanes::ZERO)).and(new.differs(*code));
            let better = possible.and(smaller);
            *code = better.choose(new.low_byte(), *code);
            sum_lx = better.choose(new_lx, sum_lx);
            sum_l2 = better.choose(new_l2, sum_l2);
            changed = changed.or(better);
        }
        if !changed.any() {
            break;
        }
    }
    let nothing = max.below(Lanes::all(NOTHING));
    let scale = sum_l2.above(Lanes::ZERO).choose(sum_lx / sum_l2, Lanes::ZERO);
    for code in &mut codes {
        *code = nothing.choose(Lanes::ZERO, *code);
    }
    (nothing.choose(Lanes::ZERO, scale), codes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes<const LENGTH: usize>(seed: u32) -> [Lanes; LENGTH] {
        let mut lanes = [Lanes::ZERO; LENGTH];
        for (at, lane) in lanes.iter_mut().flat_map(|lanes| &mut lanes.0).enumerate() {
            let bits = (seed * 10_007 + at as u32).wrapping_mul(0x9e37_79b1);
            *lane = f32::from_bits((bits ^ bits >> 15) & 0x81ff_ffff | 0x3c00_0000);
        }
        lanes
    }

    fn bits(lanes: &[Lanes]) -> Vec<u32> {
        lanes.iter().flat_map(|lanes| lanes.0.map(f32::to_bits)).collect()
    }

    fn of_affine(found: &Affine) -> Vec<u32> {
        bits(&[found.scale, found.offset, found.inverse, found.low])
    }

    fn of_symmetric(found: &Symmetric) -> Vec<u32> {
        bits(&[found.scale, found.inverse])
    }

    /// The functions that are compiled for wide vectors, against the same code compiled for the baseline.
    #[test]
    fn wide_vectors_give_the_bits_of_the_baseline() {
        const PLAN: Plan = Plan { top: 15, first: -1.0, step: 0.1, steps: 20 };
        for seed in 0..20 {
            let (x, y): ([Lanes; 32], [Lanes; 16]) = (lanes(seed), lanes(seed + 1));
            let (w, v) = (lanes::<32>(seed + 2).map(Lanes::abs), lanes::<16>(seed + 3).map(Lanes::abs));
            assert_eq!(of_affine(&affine_32(&x, &w, PLAN)), of_affine(&affine::<32, false>(&x, &w, PLAN)));
            assert_eq!(of_affine(&affine_16(&y, &v, PLAN)), of_affine(&affine::<16, false>(&y, &v, PLAN)));
            assert_eq!(
                of_affine(&affine_16_absolute(&y, &v, PLAN)),
                of_affine(&affine::<16, true>(&y, &v, PLAN))
            );
            assert_eq!(of_symmetric(&symmetric_32(&x, &w, 16)), of_symmetric(&symmetric::<32>(&x, &w, 16)));
            assert_eq!(of_symmetric(&symmetric_16(&y, &v, 32)), of_symmetric(&symmetric::<16>(&y, &v, 32)));
            let pair = [y, lanes(seed + 4)];
            let (wide, baseline) = (refined_16(&pair, 4), refined::<16>(&pair, 4));
            assert_eq!(bits(&wide.scales), bits(&baseline.scales));
            assert_eq!(bits(wide.codes.as_flattened()), bits(baseline.codes.as_flattened()));
            let (wide, baseline) =
                (positive_16(&v, &y.map(Lanes::abs), 15), positive::<16>(&v, &y.map(Lanes::abs), 15));
            assert_eq!((bits(&[wide.0]), bits(&wide.1)), (bits(&[baseline.0]), bits(&baseline.1)));
        }
    }

    /// Where the quotients are in range, rounding for all numbers and rounding for those in range are the same.
    #[test]
    fn both_kinds_of_rounding_give_the_same_bits() {
        const PLAN: Plan = Plan { top: 31, first: -0.5, step: 0.1, steps: 15 };
        for seed in 0..20 {
            let (x, w): ([Lanes; 32], [Lanes; 32]) = (lanes(seed), lanes::<32>(seed + 1).map(Lanes::abs));
            let (found, rounded) = affine_of::<32, false, false>(&x, &w, PLAN);
            assert!(rounded);
            assert_eq!(of_affine(&found), of_affine(&affine_of_any::<32, false>(&x, &w, PLAN)));
            assert_eq!(of_symmetric(&symmetric(&x, &w, 16)), of_symmetric(&symmetric_of_any(&x, &w, 16)));
        }
    }

    #[test]
    fn quotients_out_of_range_are_noticed() {
        const PLAN: Plan = Plan { top: 15, first: -1.0, step: 0.1, steps: 20 };
        let weights = [Lanes::all(1.0); 32];
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN] {
            let mut x: [Lanes; 32] = lanes(1);
            x[7].0[3] = value;
            x[8].0[3] = -value;
            let mut weights = weights;
            weights[7].0[3] = value.abs();
            assert!(!affine_of::<32, false, false>(&x, &weights, PLAN).1, "{value}");
        }
    }
}
