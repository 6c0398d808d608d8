//! Lengths of two tensors as vectors, and of their difference.
#![forbid(unsafe_code)]

use super::{CHUNK, Pair};
use crate::analysis::elements::{Elements, STEP, View, chunks_of};
use crate::error::{Code, Error, Result};
use crate::work::Watch;

/// A sum of squares.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Squares {
    sum: f64,
    /// Whether all numbers are zero.
    is_zero: bool,
}

impl Default for Squares {
    fn default() -> Self {
        Self { sum: 0.0, is_zero: true }
    }
}

impl Squares {
    fn add(&mut self, number: f64) {
        self.sum += number * number;
        self.is_zero &= number == 0.0;
    }

    fn join(self, next: Self) -> Self {
        Self { sum: self.sum + next.sum, is_zero: self.is_zero && next.is_zero }
    }

    /// Returns the length; `None` if the squares are too large or too small for float64.
    fn length(self) -> Option<f64> {
        (self.is_zero || self.sum.is_normal()).then(|| self.sum.sqrt())
    }
}

/// Sums over the pairs of elements of which both are finite. A complex number counts as two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Norms {
    a: Squares,
    b: Squares,
    difference: Squares,
    product: f64,
}

impl Norms {
    fn add(&mut self, a: f64, b: f64) {
        if a.is_finite() && b.is_finite() {
            self.a.add(a);
            self.b.add(b);
            self.difference.add(a - b);
            self.product += a * b;
        }
    }

    fn join(self, next: Self) -> Self {
        Self {
            a: self.a.join(next.a),
            b: self.b.join(next.b),
            difference: self.difference.join(next.difference),
            product: self.product + next.product,
        }
    }

    /// Returns `‖b - a‖ / ‖a‖`: infinite if only `a` is zero, and 0 if nothing differs. `None` if a square is beyond float64.
    pub fn relative_change(&self) -> Option<f64> {
        let (difference, before) = (self.difference.length()?, self.a.length()?);
        Some(if difference == 0.0 { 0.0 } else { difference / before })
    }

    /// Returns the cosine of the angle between both. `None` if one of them is zero, or a square is beyond float64.
    pub fn cosine(&self) -> Option<f64> {
        let lengths = self.a.length()? * self.b.length()?;
        (lengths > 0.0).then(|| (self.product / lengths).clamp(-1.0, 1.0))
    }
}

/// Returns the norms of two tensors with the same number of elements. Fails with `BadDtype` if a dtype is not numeric here.
pub fn norms(a: &Elements<'_>, b: &Elements<'_>, parts: usize, watch: &Watch) -> Result<Norms> {
    watch.expect_more(a.byte_length().saturating_add(b.byte_length()), 0);
    let sums = |views: &[View<'_>], first: u64, count: u64| {
        let [view_a, view_b] = views else { return Err(Error::new(Code::Internal, "two sides")) };
        let (mut buffer_a, mut buffer_b) = (Vec::new(), Vec::new());
        let (mut numbers, mut sums) = (Pair::default(), Norms::default());
        for at in (first..first + count).step_by(usize::try_from(STEP).unwrap_or(1)) {
            let count = STEP.min(first + count - at);
            let bytes_a = view_a.read(at, count, &mut buffer_a)?;
            let bytes_b = view_b.read(at, count, &mut buffer_b)?;
            watch.did_bytes((bytes_a.len() + bytes_b.len()) as u64);
            let count = usize::try_from(count).unwrap_or_default() * parts;
            let (a, b) = numbers.numbers((a.dtype, bytes_a), (b.dtype, bytes_b), count)?;
            a.iter().zip(b).for_each(|(&a, &b)| sums.add(a, b));
        }
        Ok(sums)
    };
    let all =
        a.feed(|a_feed| b.feed(|b_feed| chunks_of(CHUNK, a.count, watch, &mut [a_feed, b_feed], sums)))?;
    // In the order of the chunks, so that the result does not depend on the number of threads.
    Ok(all.into_iter().fold(Norms::default(), Norms::join))
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exact on purpose
mod tests {
    use super::*;

    fn of(pairs: &[(f64, f64)]) -> Norms {
        let mut norms = Norms::default();
        for &(a, b) in pairs {
            norms.add(a, b);
        }
        norms
    }

    #[test]
    fn ratios_of_plain_zero_and_infinite_numbers() {
        let scaled = of(&[(3.0, 6.0), (4.0, 8.0)]);
        assert_eq!((scaled.relative_change(), scaled.cosine()), (Some(1.0), Some(1.0)));
        let turned = of(&[(1.0, 0.0), (0.0, 1.0)]);
        assert_eq!((turned.relative_change(), turned.cosine()), (Some(2.0_f64.sqrt()), Some(0.0)));
        assert_eq!(of(&[(1.0, -2.0)]).cosine(), Some(-1.0));
        let from_zero = of(&[(0.0, 2.0)]);
        assert_eq!((from_zero.relative_change(), from_zero.cosine()), (Some(f64::INFINITY), None));
        assert_eq!((of(&[]).relative_change(), of(&[]).cosine()), (Some(0.0), None));
        let left_out = of(&[(f64::NAN, 1.0), (1.0, f64::INFINITY), (2.0, 2.0)]);
        assert_eq!((left_out.relative_change(), left_out.cosine()), (Some(0.0), Some(1.0)));
    }

    #[test]
    fn squares_beyond_float64_give_no_ratio_instead_of_a_wrong_one() {
        for (a, b) in [(1e200, 2e200), (1e-200, 2e-200), (f64::MAX, -f64::MAX)] {
            let norms = of(&[(a, b)]);
            assert_eq!((norms.relative_change(), norms.cosine()), (None, None), "{a} {b}");
        }
        // Small ones beside others do not matter.
        assert_eq!(of(&[(1e-200, 2e-200), (1.0, 2.0)]).relative_change(), Some(1.0));
    }
}
