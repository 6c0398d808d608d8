//! Element-wise comparison of two tensors.
#![forbid(unsafe_code)]

mod norms;
mod pairs;

pub use norms::Norms;
pub use pairs::{PairResult, Side, compare_all};

use crate::analysis::elements::{Elements, STEP, View, chunks_of};
use crate::analysis::numbers::{BLOCK, Decoder, Numbers};
use crate::error::{Code, Error, Result};
use crate::inject;
use crate::model::DType;
use crate::work::Watch;

/// What to compare, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    pub tolerance: Tolerance,
    /// Whether to compute the norms of tensors that are not identical.
    pub norms: bool,
}

/// The tolerance for differences: `|a - b| <= absolute + relative * max(|a|, |b|)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tolerance {
    pub absolute: f64,
    pub relative: f64,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Whether dtype and all bits are equal.
    pub identical: bool,
    /// Elements that differ by more than the tolerance, or are NaN on only one side.
    pub differing: u64,
    /// The index of the first of them.
    pub first: Option<u64>,
    /// Elements that are NaN on only one side.
    pub unmatched_nan: u64,
    /// The maximum `|a - b|`; infinite if one of them is an infinity and the other differs.
    pub max_absolute: f64,
    /// The maximum `|a - b| / max(|a|, |b|)`; infinite if the difference is.
    pub max_relative: f64,
    /// The norms, if they were requested and the tensors are not identical.
    pub norms: Option<Norms>,
}

impl Default for Comparison {
    fn default() -> Self {
        Self {
            identical: true,
            differing: 0,
            first: None,
            unmatched_nan: 0,
            max_absolute: 0.0,
            max_relative: 0.0,
            norms: None,
        }
    }
}

impl Comparison {
    fn join(self, next: Self) -> Self {
        Self {
            identical: self.identical && next.identical,
            differing: self.differing + next.differing,
            first: self.first.or(next.first),
            unmatched_nan: self.unmatched_nan + next.unmatched_nan,
            max_absolute: self.max_absolute.max(next.max_absolute),
            max_relative: self.max_relative.max(next.max_relative),
            norms: None,
        }
    }

    fn differs(&mut self, at: u64) {
        self.differing += 1;
        self.first.get_or_insert(at);
    }

    /// Adds two elements.
    fn add(&mut self, at: u64, difference: Difference, tolerance: Tolerance) {
        let Difference { distance, magnitude, scale } = difference;
        let infinite = distance.is_infinite();
        self.max_absolute = self.max_absolute.max(distance / scale);
        self.max_relative = self.max_relative.max(if infinite { distance } else { distance / magnitude });
        // An infinite magnitude yields no tolerance either unless a relative one is requested.
        let relative = if tolerance.relative > 0.0 { tolerance.relative * magnitude } else { 0.0 };
        if infinite || distance > tolerance.absolute * scale + relative {
            self.differs(at);
        }
    }

    fn add_number(&mut self, at: u64, a: f64, b: f64, tolerance: Tolerance) {
        #[expect(clippy::float_cmp)] // infinities of one sign count as equal numbers
        if a == b || (a.is_nan() && b.is_nan()) {
            return;
        }
        if a.is_nan() || b.is_nan() {
            self.unmatched_nan += 1;
            return self.differs(at);
        }
        let difference = |scale: f64| {
            let (a, b) = (a * scale, b * scale);
            Difference { distance: (a - b).abs(), magnitude: a.abs().max(b.abs()), scale }
        };
        self.add(at, Difference::finite(difference), tolerance);
    }

    /// The difference of complex numbers is the absolute value of their difference; one with a NaN is NaN.
    fn add_complex(&mut self, at: u64, a: [f64; 2], b: [f64; 2], tolerance: Tolerance) {
        let is_nan = |number: [f64; 2]| number[0].is_nan() || number[1].is_nan();
        #[expect(clippy::float_cmp)]
        if a == b || (is_nan(a) && is_nan(b)) {
            return;
        }
        if is_nan(a) || is_nan(b) {
            self.unmatched_nan += 1;
            return self.differs(at);
        }
        let difference = |scale: f64| {
            let (a, b) = (a.map(|part| part * scale), b.map(|part| part * scale));
            // Equal infinities have no difference.
            #[expect(clippy::float_cmp)]
            let part = |at: usize| if a[at] == b[at] { 0.0 } else { a[at] - b[at] };
            let magnitude = a[0].hypot(a[1]).max(b[0].hypot(b[1]));
            Difference { distance: part(0).hypot(part(1)), magnitude, scale }
        };
        self.add(at, Difference::finite(difference), tolerance);
    }
}

/// The difference between two elements.
#[derive(Clone, Copy)]
struct Difference {
    distance: f64,
    /// The larger of the two magnitudes.
    magnitude: f64,
    /// A power of two that both were multiplied by.
    scale: f64,
}

impl Difference {
    /// The difference of finite numbers may exceed float64, as may the magnitude of complex ones. They are then scaled down.
    fn finite(difference: impl Fn(f64) -> Self) -> Self {
        let plain = difference(1.0);
        if plain.distance.is_finite() && plain.magnitude.is_finite() { plain } else { difference(0.25) }
    }
}

/// Elements per work item: results of several items are combined exactly.
const CHUNK: u64 = 16 * STEP;

const fn is_complex(dtype: DType) -> bool {
    matches!(dtype, DType::Complex64 | DType::Complex128)
}

/// Compares two tensors with the same number of elements, several chunks at once. Elements with different bits are compared as numbers:
/// as float64, or exactly if both are integers. Fails with `BadDtype` if a dtype is not numeric here (6-bit floats with different bits) or
/// only one side is complex, and with `BadShape` if the counts differ.
pub fn compare(
    a: &Elements<'_>,
    b: &Elements<'_>,
    Request { tolerance, norms }: Request,
    watch: &Watch,
) -> Result<Comparison> {
    inject::panic_at("compare");
    if a.count != b.count {
        let message = format!("{} elements cannot be compared with {}", a.count, b.count);
        return Err(Error::new(Code::BadShape, message));
    }
    if is_complex(a.dtype) != is_complex(b.dtype) {
        let message = format!("{} cannot be compared with {}", a.dtype.name(), b.dtype.name());
        return Err(Error::new(Code::BadDtype, message));
    }
    watch.expect_more(a.byte_length().saturating_add(b.byte_length()), 1);
    let compared = |views: &[View<'_>], first: u64, count: u64| {
        let [view_a, view_b] = views else { return Err(Error::new(Code::Internal, "two sides")) };
        let (mut buffer_a, mut buffer_b) = (Vec::new(), Vec::new());
        let mut numbers = Pair::default();
        let mut found = Comparison { identical: a.dtype == b.dtype, ..Comparison::default() };
        for at in (first..first + count).step_by(usize::try_from(STEP).unwrap_or(1)) {
            let count = STEP.min(first + count - at);
            let bytes_a = view_a.read(at, count, &mut buffer_a)?;
            let bytes_b = view_b.read(at, count, &mut buffer_b)?;
            watch.did_bytes((bytes_a.len() + bytes_b.len()) as u64);
            if a.dtype == b.dtype && bytes_a == bytes_b {
                continue;
            }
            found.identical = false;
            let (a, b) = ((a.dtype, bytes_a), (b.dtype, bytes_b));
            numbers.compare(a, b, at, count, tolerance, &mut found)?;
        }
        Ok(found)
    };
    let found =
        a.feed(|a_feed| b.feed(|b_feed| chunks_of(CHUNK, a.count, watch, &mut [a_feed, b_feed], compared)))?;
    let none = Comparison { identical: a.dtype == b.dtype, ..Comparison::default() };
    let mut found = found.into_iter().fold(none, Comparison::join);
    if norms && !found.identical {
        found.norms = Some(norms::norms(a, b, parts_of(a.dtype), watch)?);
    }
    watch.did_tensor();
    Ok(found)
}

/// Returns how many numbers an element is.
const fn parts_of(dtype: DType) -> usize {
    if is_complex(dtype) { 2 } else { 1 }
}

/// Buffers for the numbers of both sides.
#[derive(Default)]
struct Pair {
    decoder: Decoder,
    a: Vec<f64>,
    b: Vec<f64>,
}

impl Pair {
    /// Returns both sides as numbers.
    fn numbers(&mut self, a: (DType, &[u8]), b: (DType, &[u8]), count: usize) -> Result<(&[f64], &[f64])> {
        collect(&mut self.decoder, a, count, &mut self.a)?;
        collect(&mut self.decoder, b, count, &mut self.b)?;
        Ok((&self.a, &self.b))
    }

    fn compare(
        &mut self,
        a: (DType, &[u8]),
        b: (DType, &[u8]),
        first: u64,
        count: u64,
        tolerance: Tolerance,
        found: &mut Comparison,
    ) -> Result<()> {
        let is_wide = |dtype| matches!(dtype, DType::Int64 | DType::Uint64);
        if a.0.is_index() && b.0.is_index() && (is_wide(a.0) || is_wide(b.0)) {
            for (at, (a, b)) in (first..).zip(integers(a).zip(integers(b))) {
                if a != b {
                    #[expect(clippy::cast_precision_loss)] // exact until here
                    let (distance, magnitude) =
                        (a.abs_diff(b) as f64, a.unsigned_abs().max(b.unsigned_abs()) as f64);
                    found.add(at, Difference { distance, magnitude, scale: 1.0 }, tolerance);
                }
            }
            return Ok(());
        }
        let parts = parts_of(a.0);
        let numbers = usize::try_from(count).unwrap_or_default() * parts;
        self.numbers(a, b, numbers)?;
        if parts == 1 {
            for (at, (&a, &b)) in (first..).zip(self.a.iter().zip(&self.b)) {
                found.add_number(at, a, b, tolerance);
            }
            return Ok(());
        }
        let pairs = self.a.as_chunks::<2>().0.iter().zip(self.b.as_chunks::<2>().0);
        for (at, (a, b)) in (first..).zip(pairs) {
            found.add_complex(at, *a, *b, tolerance);
        }
        Ok(())
    }
}

fn collect(
    decoder: &mut Decoder,
    (dtype, bytes): (DType, &[u8]),
    count: usize,
    out: &mut Vec<f64>,
) -> Result<()> {
    out.clear();
    out.reserve(count.max(BLOCK));
    decoder.each(dtype, bytes, count, |numbers| {
        match numbers {
            Numbers::Single(numbers) => out.extend(numbers.iter().map(|&number| f64::from(number))),
            Numbers::Double(numbers) => out.extend_from_slice(numbers),
        }
        Ok(())
    })
}

/// Returns integers of any dtype, exactly.
fn integers((dtype, bytes): (DType, &[u8])) -> impl Iterator<Item = i128> + '_ {
    let signed = matches!(dtype, DType::Int64 | DType::Int32 | DType::Int16 | DType::Int8);
    bytes.chunks_exact(dtype.element_bytes()).map(move |bytes| {
        let negative = signed && bytes.last().is_some_and(|&top| top >= 0x80);
        let mut wide = [if negative { 0xff } else { 0 }; 16];
        for (wide, &byte) in wide.iter_mut().zip(bytes) {
            *wide = byte;
        }
        i128::from_le_bytes(wide)
    })
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exact on purpose
mod tests {
    use super::*;

    fn of(a: &[f64], b: &[f64], tolerance: Tolerance) -> Comparison {
        let bytes = |numbers: &[f64]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
        let mut found = Comparison::default();
        let (a_bytes, b_bytes) = (bytes(a), bytes(b));
        let (a_side, b_side) = ((DType::Float64, &*a_bytes), (DType::Float64, &*b_bytes));
        Pair::default().compare(a_side, b_side, 0, a.len() as u64, tolerance, &mut found).unwrap();
        found
    }

    #[test]
    fn numbers_without_difference() {
        let none = Tolerance::default();
        let same = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, 1.5];
        assert_eq!(of(&same, &[-f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1.5], none).differing, 0);
        let found = of(&[f64::NAN, f64::INFINITY, 1.0, 2.0], &[1.0, 1.0, f64::NEG_INFINITY, 2.5], none);
        assert_eq!((found.differing, found.unmatched_nan, found.first), (4, 1, Some(0)));
        assert_eq!((found.max_absolute, found.max_relative), (f64::INFINITY, f64::INFINITY));
        let found = of(&[1.0, 0.0, -4.0], &[1.0, 0.5, -5.0], none);
        assert_eq!((found.differing, found.first), (2, Some(1)));
        assert_eq!((found.max_absolute, found.max_relative), (1.0, 1.0));
    }

    #[test]
    fn differences_within_the_tolerance_are_still_measured() {
        let wide = Tolerance { absolute: 0.5, relative: 0.0 };
        let found = of(&[1.0, 2.0], &[1.5, 2.625], wide);
        assert_eq!((found.differing, found.max_absolute), (1, 0.625));
        let relative = Tolerance { absolute: 0.0, relative: 0.1 };
        assert_eq!(of(&[100.0, -10.0], &[110.0, -9.0], relative).differing, 0);
        assert_eq!(of(&[f64::INFINITY], &[1.0], relative).differing, 1);
    }

    #[test]
    fn differences_of_the_largest_numbers_saturate() {
        let relative = |relative| Tolerance { absolute: 0.0, relative };
        let (a, b) = ([f64::MAX, 1e308], [-f64::MAX, -1e308]);
        let found = of(&a, &b, relative(1.99));
        assert_eq!((found.differing, found.max_absolute, found.max_relative), (2, f64::INFINITY, 2.0));
        assert_eq!(of(&a, &b, relative(2.0)).differing, 0);
        assert_eq!(of(&a, &b, Tolerance { absolute: f64::MAX, relative: 1.0 }).differing, 0);
        assert_eq!(of(&[1e-320], &[2e-320], relative(0.4)).max_relative, 0.5);
    }

    #[test]
    fn complex_numbers_beyond_float64_are_compared() {
        let infinite = f64::INFINITY;
        // For the first two the magnitude is infinite, as a sum of squares or directly.
        for (a, b, largest) in [
            ([1.7e308, 1.7e308], [1.7e308, 1e308], 1.7e308 - 1e308),
            ([infinite, 1.0], [infinite, 2.0], 1.0),
            ([1.7e308, -1.7e308], [-1.7e308, 1.7e308], infinite),
        ] {
            let mut found = Comparison::default();
            found.add_complex(3, a, b, Tolerance::default());
            assert_eq!((found.differing, found.first, found.max_absolute), (1, Some(3), largest));
            assert!(found.max_relative <= 2.0);
        }
    }

    #[test]
    fn wide_integers_are_compared_exactly() {
        let a = [i64::MAX, -1, i64::MIN].map(i64::to_le_bytes).concat();
        let b = [(1_u64 << 63) - 2, u64::MAX, 1 << 63].map(u64::to_le_bytes).concat();
        let mut found = Comparison::default();
        let none = Tolerance::default();
        Pair::default().compare((DType::Int64, &a), (DType::Uint64, &b), 0, 3, none, &mut found).unwrap();
        assert_eq!(found.differing, 3);
        assert_eq!(found.max_absolute.to_bits(), 2_f64.powi(64).to_bits());
        let narrow = [-1_i8, 2].map(i8::to_le_bytes).concat();
        let wide = [-1_i64, 3].map(i64::to_le_bytes).concat();
        let mut found = Comparison::default();
        Pair::default()
            .compare((DType::Int8, &narrow), (DType::Int64, &wide), 7, 2, none, &mut found)
            .unwrap();
        assert_eq!((found.differing, found.first), (1, Some(8)));
    }

    #[test]
    fn complex_numbers_are_single_elements() {
        let bytes = |numbers: &[f32]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
        let a = bytes(&[1.0, 2.0, f32::NAN, 0.0, f32::INFINITY, 1.0, 0.0, 0.0]);
        let b = bytes(&[4.0, 6.0, 0.0, f32::NAN, f32::INFINITY, 1.0, f32::NAN, 0.0]);
        let mut found = Comparison::default();
        let (a, b) = ((DType::Complex64, &*a), (DType::Complex64, &*b));
        Pair::default().compare(a, b, 0, 4, Tolerance::default(), &mut found).unwrap();
        assert_eq!((found.differing, found.unmatched_nan), (2, 1));
        assert_eq!(found.max_absolute.to_bits(), 5_f64.to_bits());
    }

    #[test]
    fn numbers_of_an_integer_and_a_float_type_are_compared() {
        let integers: Vec<u8> = [1_i64, -2, 3].iter().flat_map(|number| number.to_le_bytes()).collect();
        let floats: Vec<u8> = [1_f64, -2.0, 3.5].iter().flat_map(|number| number.to_le_bytes()).collect();
        let sides = [(DType::Int64, &*integers), (DType::Float64, &*floats)];
        for (a, b) in [(0, 1), (1, 0)] {
            let mut found = Comparison::default();
            Pair::default().compare(sides[a], sides[b], 0, 3, Tolerance::default(), &mut found).unwrap();
            assert_eq!((found.differing, found.first, found.max_absolute), (1, Some(2), 0.5));
        }
    }
}
