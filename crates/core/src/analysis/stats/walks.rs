//! Passes over a block of finite numbers in the innermost cache, with one operation each: compilers vectorize these fully, but a combined
//! pass only as pairs of a sum and its square. With AVX2 the vectors are twice as wide as the baseline; the results are bit-identical.
#![forbid(unsafe_code)]
#![allow(clippy::inline_always)] // only what is inlined is compiled for the wide vectors, too

use multiversion::multiversion;

use crate::analysis::numbers::BLOCK;

/// Independent sums, for the vector units.
const LANES: usize = 16;

/// A number in its narrow or wide form.
pub trait Number: Copy + PartialOrd + Into<f64> {
    const ZERO: Self;
    fn is_finite(self) -> bool;
}

impl Number for f32 {
    const ZERO: Self = 0.0;
    #[inline]
    fn is_finite(self) -> bool {
        Self::is_finite(self)
    }
}

impl Number for f64 {
    const ZERO: Self = 0.0;
    #[inline]
    fn is_finite(self) -> bool {
        Self::is_finite(self)
    }
}

/// The sums of a block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Walked<N> {
    /// The sum of distances from a given number.
    pub sum: f64,
    /// The sum of their squares.
    pub squares: f64,
    pub min: N,
    pub max: N,
    pub zeros: u32,
}

/// Returns whether all numbers are finite.
#[multiversion(targets("x86_64+avx2"))]
pub fn all_finite<N: Number>(numbers: &[N]) -> bool {
    every_finite(numbers)
}

/// Processes at most a block of finite numbers, one of which is `first`.
#[multiversion(targets("x86_64+avx2"))]
pub fn walk<N: Number>(numbers: &[N], first: N) -> Walked<N> {
    walks(numbers, first)
}

#[inline(always)]
fn every_finite<N: Number>(numbers: &[N]) -> bool {
    numbers.iter().fold(true, |all, number| all & number.is_finite())
}

#[inline(always)]
fn walks<N: Number>(numbers: &[N], first: N) -> Walked<N> {
    let mut buffer = [0.0; BLOCK];
    for (distance, &number) in buffer.iter_mut().zip(numbers) {
        *distance = number.into() - first.into();
    }
    let distances = buffer.get(..numbers.len()).unwrap_or_default();
    Walked {
        sum: side_by_side(distances, |distance| distance),
        squares: side_by_side(distances, |distance| distance * distance),
        min: extreme(numbers, first, |a, b| if a < b { a } else { b }),
        max: extreme(numbers, first, |a, b| if a > b { a } else { b }),
        zeros: numbers.iter().fold(0, |zeros, &number| zeros + u32::from(number == N::ZERO)),
    }
}

#[inline(always)]
fn side_by_side(numbers: &[f64], term: impl Fn(f64) -> f64) -> f64 {
    let mut sums = [0.0; LANES];
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    for chunk in chunks {
        for (sum, &number) in sums.iter_mut().zip(chunk) {
            *sum += term(number);
        }
    }
    rest.iter().fold(sums.iter().sum(), |sum, &number| sum + term(number))
}

#[inline(always)]
fn extreme<N: Number>(numbers: &[N], first: N, pick: impl Fn(N, N) -> N) -> N {
    let mut picked = [first; LANES];
    let (chunks, rest) = numbers.as_chunks::<LANES>();
    for chunk in chunks {
        for (picked, &number) in picked.iter_mut().zip(chunk) {
            *picked = pick(number, *picked);
        }
    }
    picked.into_iter().chain(rest.iter().copied()).fold(first, pick)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn wide_vectors_find_the_same_to_the_last_bit(
            numbers in prop::collection::vec(prop::num::f32::ANY, 1..BLOCK + 1),
            wide in prop::collection::vec(prop::num::f64::ANY, 1..BLOCK + 1),
        ) {
            prop_assert_eq!(all_finite(&numbers), every_finite(&numbers));
            let finite: Vec<f32> = numbers.into_iter().filter(|number| number.is_finite()).collect();
            if let Some(&first) = finite.first() {
                prop_assert_eq!(walk(&finite, first), walks(&finite, first));
            }
            // Halves, whose squares do not overflow.
            let finite: Vec<f64> = wide.into_iter().filter(|number| number.abs() < 1e100).collect();
            if let Some(&first) = finite.first() {
                prop_assert_eq!(walk(&finite, first), walks(&finite, first));
            }
        }
    }
}
