//! Sixteen numbers that go through the same operations at once. A lane has the arithmetic of one sub-block, in the order of the
//! reference: sums have its bits whatever the width of the machine's vectors.
//!
//! Plain loops over arrays, which LLVM turns into vectors of the widest set of instructions that the function around them was compiled
//! for.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use std::ops::{Add, Div, Mul, Sub};

/// The number of lanes: a vector of AVX-512, two of AVX2, four of SSE2 and NEON. Two and more hide the latency of sums.
pub(super) const LANES: usize = 16;

#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(super) struct Lanes(pub [f32; LANES]);

/// A condition for each lane: all bits are set, or none. Of booleans, LLVM would make vectors of bytes between the operations.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(super) struct Mask(pub Words);

/// An integer for each lane.
pub(super) type Words = [u32; LANES];

/// 1.5 * 2^23. The sum with a number below 2^22 has the nearest integer in its low bits, ties to even.
const MAGIC: f32 = 12_582_912.0;

/// The largest magnitude that `round` takes.
const ROUNDED: f32 = 4_194_303.0;

macro_rules! operators {
    ($($operator:ident $method:ident;)*) => {$(
        impl $operator for Lanes {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                self.zip(other, |a, b| a.$method(b))
            }
        }
    )*};
}

operators! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
}

impl Lanes {
    pub(super) const ZERO: Self = Self([0.0; LANES]);

    #[inline(always)]
    pub(super) const fn all(value: f32) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    pub(super) fn map(self, each: impl Fn(f32) -> f32) -> Self {
        let mut result = self;
        for lane in &mut result.0 {
            *lane = each(*lane);
        }
        result
    }

    #[inline(always)]
    fn zip(self, other: Self, each: impl Fn(f32, f32) -> f32) -> Self {
        let mut result = self;
        for (lane, other) in result.0.iter_mut().zip(other.0) {
            *lane = each(*lane, other);
        }
        result
    }

    #[inline(always)]
    fn compare(self, other: Self, each: impl Fn(f32, f32) -> bool) -> Mask {
        let mut mask = [0; LANES];
        for (mask, (a, b)) in mask.iter_mut().zip(self.0.into_iter().zip(other.0)) {
            *mask = if each(a, b) { u32::MAX } else { 0 };
        }
        Mask(mask)
    }

    #[inline(always)]
    pub(super) fn below(self, other: Self) -> Mask {
        self.compare(other, |a, b| a < b)
    }

    #[inline(always)]
    pub(super) fn above(self, other: Self) -> Mask {
        self.compare(other, |a, b| a > b)
    }

    #[inline(always)]
    pub(super) fn equals(self, other: Self) -> Mask {
        self.compare(other, |a, b| a == b)
    }

    #[inline(always)]
    pub(super) fn differs(self, other: Self) -> Mask {
        self.compare(other, |a, b| a != b)
    }

    /// Returns where this number is not below the other one, nor NaN.
    #[inline(always)]
    pub(super) fn not_below(self, other: Self) -> Mask {
        self.compare(other, |a, b| a >= b)
    }

    /// Returns where this number is not above the other one, nor NaN.
    #[inline(always)]
    pub(super) fn not_above(self, other: Self) -> Mask {
        self.compare(other, |a, b| a <= b)
    }

    /// Returns the smaller number, and `other` where one is NaN or both are equal.
    #[inline(always)]
    pub(super) fn min(self, other: Self) -> Self {
        self.zip(other, |a, b| if a < b { a } else { b })
    }

    /// Returns the larger number, and `other` where one is NaN or both are equal.
    #[inline(always)]
    pub(super) fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    pub(super) fn abs(self) -> Self {
        self.map(f32::abs)
    }

    #[inline(always)]
    pub(super) fn negative(self) -> Self {
        self.map(|value| -value)
    }

    #[inline(always)]
    pub(super) fn sqrt(self) -> Self {
        self.map(f32::sqrt)
    }

    /// Returns whether `round` takes the number. NaN it does not.
    #[inline(always)]
    pub(super) fn can_round(self) -> Mask {
        self.compare(Self::all(ROUNDED), |a, b| a.abs() <= b)
    }

    /// Returns the nearest integer within the bounds. With `ANY` false, takes only numbers of which `can_round` is true. With `ANY`
    /// true, takes all and returns for others what the reference does: the low bits of the sum, which are no nearest integer.
    #[inline(always)]
    pub(super) fn round<const ANY: bool>(self, low: i8, high: i8) -> Self {
        if ANY {
            self.map(|value| nearest(value).clamp(low.into(), high.into()) as f32)
        } else {
            let rounded = self.map(|value| value + MAGIC - MAGIC);
            rounded.min(Self::all(high.into())).max(Self::all(low.into()))
        }
    }
}

impl Lanes {
    /// Returns the nearest integer, at most `high`. Takes all numbers, as `nearest` does.
    #[inline(always)]
    pub(super) fn round_below(self, high: i32) -> Self {
        self.map(|value| nearest(value).min(high) as f32)
    }

    /// Returns the low byte of integers below 2^22.
    #[inline(always)]
    pub(super) fn low_byte(self) -> Self {
        self.map(|value| f32::from(nearest(value) as u8))
    }
}

impl Mask {
    pub(super) const NONE: Self = Self([0; LANES]);
    pub(super) const ALL: Self = Self([u32::MAX; LANES]);

    /// Returns where a bit is set.
    #[inline(always)]
    pub(super) fn of_bit(words: Words, bit: u32) -> Self {
        Self(map(&words, |word| (word >> bit & 1).wrapping_neg()))
    }

    pub(super) fn of(&self, lane: usize) -> bool {
        self.0[lane] != 0
    }

    #[inline(always)]
    pub(super) fn and(self, other: Self) -> Self {
        let mut mask = self;
        for (lane, other) in mask.0.iter_mut().zip(other.0) {
            *lane &= other;
        }
        mask
    }

    #[inline(always)]
    pub(super) fn or(self, other: Self) -> Self {
        let mut mask = self;
        for (lane, other) in mask.0.iter_mut().zip(other.0) {
            *lane |= other;
        }
        mask
    }

    #[inline(always)]
    pub(super) fn all(self) -> bool {
        self.0.into_iter().fold(u32::MAX, |all, lane| all & lane) != 0
    }

    #[inline(always)]
    pub(super) fn any(self) -> bool {
        self.0.into_iter().fold(0, |any, lane| any | lane) != 0
    }

    #[inline(always)]
    pub(super) fn choose(self, yes: Lanes, no: Lanes) -> Lanes {
        let mut result = no;
        for (lane, (mask, yes)) in result.0.iter_mut().zip(self.0.into_iter().zip(yes.0)) {
            *lane = f32::from_bits(yes.to_bits() & mask | lane.to_bits() & !mask);
        }
        result
    }

    #[inline(always)]
    pub(super) fn choose_words(self, yes: Words, no: Words) -> Words {
        let mut result = no;
        for (lane, (mask, yes)) in result.iter_mut().zip(self.0.into_iter().zip(yes)) {
            *lane = yes & mask | *lane & !mask;
        }
        result
    }

    #[inline(always)]
    pub(super) fn choose_mask(self, yes: Self, no: Self) -> Self {
        Self(self.choose_words(yes.0, no.0))
    }

    #[inline(always)]
    pub(super) fn not(self) -> Self {
        Self(map(&self.0, |lane| !lane))
    }
}

/// Returns the nearest integer, ties to even. For numbers beyond 2^22 and NaN returns the low bits of a sum, as the reference does.
#[inline(always)]
pub(super) fn nearest(value: f32) -> i32 {
    ((value + MAGIC).to_bits() & 0x7f_ffff).cast_signed() - 0x40_0000
}

/// Like `map` of arrays, which may be a function of its own, without wide vectors.
#[inline(always)]
pub(super) fn map<T: Copy, U: Copy + Default, const LENGTH: usize>(
    values: &[T; LENGTH],
    each: impl Fn(T) -> U,
) -> [U; LENGTH] {
    let mut out = [U::default(); LENGTH];
    for (out, &value) in out.iter_mut().zip(values) {
        *out = each(value);
    }
    out
}

/// Transposes sub-blocks of `LENGTH` elements: one into each lane.
#[inline(always)]
pub(super) fn transpose<const LENGTH: usize>(source: &[f32]) -> [Lanes; LENGTH] {
    let mut out = [Lanes::ZERO; LENGTH];
    for (lane, block) in source.as_chunks::<LENGTH>().0.iter().enumerate().take(LANES) {
        for (out, &value) in out.iter_mut().zip(block) {
            out.0[lane] = value;
        }
    }
    out
}
