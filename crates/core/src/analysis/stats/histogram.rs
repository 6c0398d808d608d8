//! Bins of equal width, like NumPy's `histogram`: each includes its lower edge, the last also its upper edge.
#![forbid(unsafe_code)]

use crate::analysis::numbers::Numbers;

/// The number of finite elements in each bin.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// One more than the number of bins.
    pub edges: Vec<f64>,
    pub counts: Vec<u64>,
}

pub struct Bins {
    edges: Vec<f64>,
    first: f64,
    last: f64,
    /// Scales numbers of the range so that differences neither overflow nor vanish.
    factor: f64,
    per_width: f64,
}

impl Bins {
    pub fn new(bins: u32, (first, last): (f64, f64)) -> Self {
        // A single value is in the middle.
        let (first, last) = if first >= last { (first - 0.5, last + 0.5) } else { (first, last) };
        // A power of two, which preserves all digits.
        let factor = match first.abs().max(last.abs()) {
            largest if largest > 2_f64.powi(1000) => 2_f64.powi(-100),
            largest if largest < 2_f64.powi(-500) => 2_f64.powi(500),
            _ => 1.0,
        };
        let (start, width) = (first * factor, last * factor - first * factor);
        let step = width / f64::from(bins);
        let edge = |at: u32| if at == bins { last } else { (start + f64::from(at) * step) / factor };
        let per_width = f64::from(bins) / width;
        Self { edges: (0..=bins).map(edge).collect(), first, last, factor, per_width }
    }

    /// Counts numbers; those outside the range and NaN are in no bin.
    pub fn count(&self, numbers: Numbers<'_>, counts: &mut Vec<u64>) {
        counts.resize(self.edges.len() - 1, 0);
        match numbers {
            Numbers::Single(numbers) => numbers.iter().for_each(|&number| self.put(number.into(), 1, counts)),
            Numbers::Double(numbers) => numbers.iter().for_each(|&number| self.put(number, 1, counts)),
        }
    }

    /// Returns the histogram of values with given counts.
    pub fn of_values(self, values: &[(f64, u64)]) -> Histogram {
        let mut counts = vec![0; self.edges.len() - 1];
        for &(value, count) in values {
            self.put(value, count, &mut counts);
        }
        self.finish(counts)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn put(&self, number: f64, count: u64, counts: &mut [u64]) {
        if !(self.first <= number && number <= self.last) {
            return;
        }
        let guess = (number * self.factor - self.first * self.factor) * self.per_width;
        let mut bin = (guess as usize).min(counts.len() - 1);
        // Rounding may have put it into the bin next to the correct one.
        if number < self.edges[bin] {
            bin -= 1;
        } else if bin + 1 < counts.len() && number >= self.edges[bin + 1] {
            bin += 1;
        }
        counts[bin] += count;
    }

    pub fn finish(self, mut counts: Vec<u64>) -> Histogram {
        counts.resize(self.edges.len() - 1, 0);
        Histogram { edges: self.edges, counts }
    }
}

/// Adds counts to counts of the same bins.
pub fn add(sum: &mut Vec<u64>, counts: &[u64]) {
    sum.resize(sum.len().max(counts.len()), 0);
    for (sum, count) in sum.iter_mut().zip(counts) {
        *sum += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_of_the_largest_numbers_and_of_the_smallest() {
        for factor in [1.0, 2_f64.powi(1019), 2_f64.powi(-600), f64::from_bits(1)] {
            let bins = Bins::new(16, (-16.0 * factor, 16.0 * factor));
            let values: Vec<_> = (-16..=16).map(|at| (f64::from(at) * factor, 1)).collect();
            let found = bins.of_values(&values);
            let edges: Vec<_> = (-8..=8).map(|at| f64::from(2 * at) * factor).collect();
            assert_eq!(
                (found.edges, found.counts),
                (edges, [[2; 15].as_slice(), &[3]].concat()),
                "{factor:e}"
            );
        }
        let bins = Bins::new(3, (-f64::MAX, f64::MAX));
        assert_eq!(bins.of_values(&[(-f64::MAX, 1), (0.0, 2), (f64::MAX, 4)]).counts, [1, 2, 4]);
        let min = f64::from_bits(1);
        let rising = Bins::new(64, (0.0, 100.0 * min)).finish(Vec::new()).edges;
        assert!(rising.is_sorted(), "{rising:?}");
    }
}
