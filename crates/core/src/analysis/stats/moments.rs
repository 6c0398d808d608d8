//! Counts, extremes, mean and spread, per block, and their combination.
#![forbid(unsafe_code)]

use super::walks::{Number, Walked, all_finite, walk};
use super::{Histogram, Stats};
use crate::analysis::numbers::BLOCK;

/// A class of magnitudes, scaled by powers of two so that squares and their sums stay within float64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Size {
    /// Below 2^-450: scaled by 2^600, so that squares are above 2^-950.
    Tiny,
    Plain,
    /// Above 2^450: scaled by 2^-600, so that squares are below 2^850.
    Huge,
}

/// 2^600, exactly.
const STEP: f64 = f64::from_bits((1023 + 600) << 52);
/// 2^450, exactly.
const BOUND: f64 = f64::from_bits((1023 + 450) << 52);

impl Size {
    /// Returns the class of numbers between two.
    fn of(min: f64, max: f64) -> Self {
        let largest = min.abs().max(max.abs());
        if largest > BOUND {
            Self::Huge
        } else if largest < 1.0 / BOUND {
            Self::Tiny
        } else {
            Self::Plain
        }
    }

    /// Returns the factor that scales numbers of this class.
    fn factor(self) -> f64 {
        match self {
            Self::Tiny => STEP,
            Self::Plain => 1.0,
            Self::Huge => 1.0 / STEP,
        }
    }
}

/// The moments of some elements.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    finite: u64,
    nan: u64,
    positive_infinite: u64,
    negative_infinite: u64,
    zeros: u64,
    min: f64,
    max: f64,
    /// The class whose factor the next two fields are scaled by.
    size: Size,
    mean: f64,
    /// The sum of squared distances from the mean.
    squares: f64,
}

impl Default for Moments {
    fn default() -> Self {
        Self {
            finite: 0,
            nan: 0,
            positive_infinite: 0,
            negative_infinite: 0,
            zeros: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            size: Size::Tiny, // which is as good as any for zero
            mean: 0.0,
            squares: 0.0,
        }
    }
}

#[expect(clippy::cast_precision_loss)] // no tensor has 2^53 elements
fn float(count: u64) -> f64 {
    count as f64
}

/// Computes a sum almost without rounding errors: the error of each addition is accumulated separately (Neumaier).
fn exact_sum(terms: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0);
    for term in terms {
        let next = sum + term;
        lost += if sum.abs() >= term.abs() { (sum - next) + term } else { (term - next) + sum };
        sum = next;
    }
    sum + lost
}

impl Moments {
    /// Adds at most a block of numbers.
    pub fn add<N: Number>(&mut self, numbers: &[N]) {
        if all_finite(numbers) {
            return self.join(&Self::of_finite(numbers));
        }
        let mut finite = [N::ZERO; BLOCK];
        let mut length = 0;
        for &number in numbers {
            let wide: f64 = number.into();
            if number.is_finite() {
                finite[length] = number;
                length += 1;
            } else if wide.is_nan() {
                self.nan += 1;
            } else if wide > 0.0 {
                self.positive_infinite += 1;
            } else {
                self.negative_infinite += 1;
            }
        }
        self.join(&Self::of_finite(&finite[..length]));
    }

    /// The first number is subtracted from all of them before summation: a constant block has a spread of exactly zero, and as a member of
    /// the block it is no further from the mean than a thousand blocks' worth of spread.
    fn of_finite<N: Number>(numbers: &[N]) -> Self {
        let Some(&first) = numbers.first() else { return Self::default() };
        let Walked { mut sum, mut squares, min, max, zeros } = walk(numbers, first);
        let size = Size::of(min.into(), max.into());
        let first = first.into() * size.factor();
        // A constant block, most often of zeros, has no distances to scale.
        if size != Size::Plain && min != max {
            let mut buffer = [0.0; BLOCK];
            for (scaled, &number) in buffer.iter_mut().zip(numbers) {
                *scaled = number.into() * size.factor();
            }
            let scaled = buffer.get(..numbers.len()).unwrap_or_default();
            Walked { sum, squares, .. } = walk(scaled, first);
        }
        let count = numbers.len() as u64;
        let mean = sum / float(count);
        Self {
            finite: count,
            zeros: zeros.into(),
            min: min.into(),
            max: max.into(),
            size,
            mean: first + mean,
            // Rounding may yield slightly less than zero.
            squares: (squares - sum * mean).max(0.0),
            ..Self::default()
        }
    }

    /// Returns mean and squares with the factor of a class, which is this one's or a larger one.
    fn scaled(&self, size: Size) -> (f64, f64) {
        if size == self.size {
            return (self.mean, self.squares);
        }
        let factor = size.factor() / self.size.factor();
        (self.mean * factor, self.squares * factor * factor)
    }

    /// Returns the moments of values with given counts.
    pub fn of_values(values: &[(f64, u64)]) -> Self {
        let mut all = Self::default();
        for &(value, count) in values {
            if value.is_nan() {
                all.nan += count;
            } else if value == f64::INFINITY {
                all.positive_infinite += count;
            } else if value == f64::NEG_INFINITY {
                all.negative_infinite += count;
            } else {
                all.finite += count;
                all.zeros += if value == 0.0 { count } else { 0 };
                all.min = all.min.min(value);
                all.max = all.max.max(value);
            }
        }
        if all.finite > 0 {
            // They are at most float32.
            all.size = Size::Plain;
            let finite = || values.iter().filter(|(value, _)| value.is_finite());
            all.mean = exact_sum(finite().map(|&(value, count)| value * float(count))) / float(all.finite);
            let distance = |value: f64| value - all.mean;
            all.squares = exact_sum(finite().map(|&(value, count)| distance(value).powi(2) * float(count)));
        }
        all
    }

    /// Adds the following elements.
    pub fn join(&mut self, next: &Self) {
        self.nan += next.nan;
        self.positive_infinite += next.positive_infinite;
        self.negative_infinite += next.negative_infinite;
        self.zeros += next.zeros;
        if next.finite == 0 {
            return;
        }
        self.min = self.min.min(next.min);
        self.max = self.max.max(next.max);
        let (before, after) = (float(self.finite), float(next.finite));
        let total = before + after;
        let size = self.size.max(next.size);
        let ((mean, squares), (next_mean, next_squares)) = (self.scaled(size), next.scaled(size));
        let distance = next_mean - mean;
        self.size = size;
        self.squares = squares + next_squares + distance * distance * (before * after / total);
        self.mean = mean + distance * (after / total);
        self.finite += next.finite;
    }

    /// Returns the extremes as a range for a histogram, with a default if there are none.
    pub fn range(&self) -> (f64, f64) {
        if self.finite == 0 { (0.0, 1.0) } else { (self.min, self.max) }
    }

    pub fn finish(&self, count: u64, histogram: Option<Histogram>) -> Stats {
        let some = |value: f64| if self.finite == 0 { f64::NAN } else { value };
        // Rounding may exceed the extremes, and float64.
        // Which zero `max` returns depends on the machine. The sum has no sign.
        let mean = (self.mean / self.size.factor()).max(self.min).min(self.max) + 0.0;
        let std = ((self.squares / float(self.finite)).sqrt() / self.size.factor()).min(f64::MAX);
        Stats {
            count,
            nan: self.nan,
            positive_infinite: self.positive_infinite,
            negative_infinite: self.negative_infinite,
            zeros: self.zeros,
            // Adding 0 turns -0 into 0.
            min: some(self.min + 0.0),
            max: some(self.max + 0.0),
            mean: some(mean),
            std: some(std),
            histogram,
        }
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exact on purpose
mod tests {
    use super::*;

    #[test]
    fn constants_have_no_spread_whatever_their_size() {
        for value in [0.1_f32, 1e-30, 3e38, -7.7] {
            let mut all = Moments::default();
            for _ in 0..100 {
                all.add(&[value; 1000]);
            }
            let stats = all.finish(100_000, None);
            assert_eq!((stats.std, stats.mean), (0.0, f64::from(value)));
        }
    }

    #[test]
    fn moments_of_values_and_of_counted_values_agree() {
        let numbers: Vec<f32> =
            (0..100_000_u32).map(|at| f32::from(u16::try_from(at % 701).unwrap()) - 300.0).collect();
        let mut each = Moments::default();
        numbers.chunks(BLOCK).for_each(|block| each.add(block));
        let mut values: Vec<(f64, u64)> =
            (0..701_u64).map(|at| (f64::from(u16::try_from(at).unwrap()) - 300.0, 0)).collect();
        (0..100_000).for_each(|at| values[at % 701].1 += 1);
        let (each, counted) = (each.finish(100_000, None), Moments::of_values(&values).finish(100_000, None));
        assert_eq!((each.min, each.max, each.zeros), (counted.min, counted.max, counted.zeros));
        assert!((each.mean - counted.mean).abs() < 1e-12 && (each.std - counted.std).abs() < 1e-10);

        let constant = Moments::of_values(&[(f64::from(0.1_f32), 1 << 40)]).finish(1 << 40, None);
        assert_eq!((constant.std, constant.mean), (0.0, f64::from(0.1_f32)));
    }

    /// For numbers with the same digits, regardless of magnitude.
    #[test]
    fn squares_beyond_float64_change_nothing() {
        let digits = [1.5, -0.75, 0.0, 0.5, 1.0, -1.25];
        let of = |exponent: i32, scaled: &[usize]| {
            let mut all = Moments::default();
            for block in 0..6 {
                // Blocks of other magnitudes come before, between and after.
                let factor = if scaled.contains(&block) { 2_f64.powi(exponent) } else { 0.0 };
                all.add(&digits.map(|digit| digit * factor));
            }
            let stats = all.finish(36, None);
            (stats.mean, stats.std, stats.min, stats.max)
        };
        for blocks in [&[0, 1, 2, 3, 4, 5][..], &[0], &[5], &[1, 3], &[2, 5]] {
            let (mean, std, ..) = of(0, blocks);
            assert!(std > 0.0);
            for exponent in [1022, 600, 512, 451, 449, 100, -100, -449, -451, -512, -600, -1000] {
                let factor = 2_f64.powi(exponent);
                let expected = (mean * factor, std * factor, -1.25 * factor, 1.5 * factor);
                assert_eq!(of(exponent, blocks), expected, "2^{exponent}, blocks {blocks:?}");
            }
        }
    }

    #[test]
    fn the_largest_numbers_and_the_smallest() {
        let of = |numbers: &[f64]| {
            let mut all = Moments::default();
            numbers.chunks(2).for_each(|block| all.add(block));
            let stats = all.finish(numbers.len() as u64, None);
            (stats.mean, stats.std)
        };
        let (max, min) = (f64::MAX, f64::from_bits(1));
        assert_eq!(of(&[max, -max]), (0.0, max));
        assert_eq!(of(&[max, max, -max, -max]), (0.0, max));
        assert_eq!(of(&[max; 5]), (max, 0.0));
        assert_eq!(of(&[min, -min]), (0.0, min));
        assert_eq!(of(&[3.0 * min, 3.0 * min, 5.0 * min, 5.0 * min]), (4.0 * min, min));
        assert_eq!(of(&[min, min, max, max]), (max / 2.0, max / 2.0));
    }

    #[test]
    fn a_large_mean_does_not_drown_a_small_spread() {
        let numbers: Vec<f64> = (0..4096).map(|at| 1e9 + f64::from(at % 2)).collect();
        let mut all = Moments::default();
        numbers.chunks(BLOCK).for_each(|block| all.add(block));
        let stats = all.finish(4096, None);
        assert_eq!((stats.mean, stats.std), (1e9 + 0.5, 0.5));
    }

    #[test]
    fn non_finite_values_are_counted_and_left_out() {
        let mut all = Moments::default();
        all.add(&[1.0_f32, f32::NAN, f32::INFINITY, 3.0, f32::NEG_INFINITY, f32::NEG_INFINITY, -0.0, 0.0]);
        let stats = all.finish(8, None);
        assert_eq!((stats.nan, stats.positive_infinite, stats.negative_infinite), (1, 1, 2));
        assert_eq!((stats.zeros, stats.min, stats.max, stats.mean), (2, 0.0, 3.0, 1.0));
        let mut none = Moments::default();
        none.add(&[f64::NAN]);
        let stats = none.finish(1, None);
        assert!(stats.min.is_nan() && stats.mean.is_nan() && stats.std.is_nan());
    }

    #[test]
    fn the_rounding_error_of_a_sum_is_exact_whichever_term_is_larger() {
        assert_eq!(exact_sum([1.0, 1e100, 1.0, -1e100].into_iter()), 2.0);
        assert_eq!(exact_sum([1e100, 1.0, -1e100].into_iter()), 1.0);
    }
}
