//! Statistics of the elements of a tensor: extremes, mean, spread, counts, a histogram.
//!
//! Sums are computed in float64, of differences from the first element of each block of 1024, and combined pairwise like those of Chan,
//! Golub and `LeVeque`, in the order of the elements: the result does not depend on the number of threads. Elements of 8 and 16 bits are
//! counted by bit pattern instead.
#![forbid(unsafe_code)]

mod histogram;
mod moments;
mod patterns;
mod walks;

pub use histogram::Histogram;

use std::sync::{Mutex, PoisonError};

use histogram::Bins;
use moments::Moments;
use patterns::{Patterns, Sum};

use crate::analysis::elements::{Elements, chunks};
use crate::analysis::numbers::{Decoder, Numbers};
use crate::error::{Code, Error, Result};
use crate::inject;
use crate::model::{DType, Tensor};
use crate::read::Reading;
use crate::read::staging::stored_bytes;

/// What to compute in addition to the moments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request {
    /// Bins of the histogram; 0 for none.
    pub bins: u32,
    /// The range of the bins, first and last edge; by default that of the finite elements, which takes a second pass.
    pub range: Option<(f64, f64)>,
}

/// The result. Extremes, mean and spread are those of the finite elements, NaN if there are none.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    pub count: u64,
    pub nan: u64,
    pub positive_infinite: u64,
    pub negative_infinite: u64,
    pub zeros: u64,
    pub min: f64,
    pub max: f64,
    pub mean: f64,
    /// The population standard deviation (divided by the count, NumPy's default).
    pub std: f64,
    pub histogram: Option<Histogram>,
}

impl Reading<'_> {
    /// Returns statistics of a tensor: of the stored values if it is sparse, of the float32 values if it is quantized. Fails with
    /// `BadDtype` for complex and 6-bit types.
    pub fn stats(&self, tensor: Tensor<'_>, request: &Request) -> Result<Stats> {
        inject::panic_at("stats");
        // An estimate, while encoded data is decoded.
        self.watch.expect(stored_bytes(tensor).saturating_add(tensor.byte_length()), 1);
        let elements = Elements::stored_of_tensor(self, tensor)?;
        self.stats_of(&elements, request).map_err(|error| error.tensor(tensor.name()))
    }

    fn stats_of(&self, elements: &Elements<'_>, request: &Request) -> Result<Stats> {
        if let DType::Complex64 | DType::Complex128 | DType::Float6E2M3Fn | DType::Float6E3M2Fn =
            elements.dtype
        {
            let message = format!("{} has no order and no mean here", elements.dtype.name());
            return Err(Error::new(Code::BadDtype, message));
        }
        if let Some(bits) = patterns::counted_bits(elements.dtype, elements.count) {
            return self.stats_by_pattern(elements, bits, request);
        }
        let (bins, range) = (request.bins, request.range);
        let passes = if bins > 0 && range.is_none() { 2 } else { 1 };
        self.watch.expect_more(elements.byte_length().saturating_mul(passes), 1);

        let early = range.filter(|_| bins > 0).map(|range| Bins::new(bins, range));
        let found = self.pass(elements, |chunk: &mut (Moments, Vec<u64>), numbers| {
            match numbers {
                Numbers::Single(numbers) => chunk.0.add(numbers),
                Numbers::Double(numbers) => chunk.0.add(numbers),
            }
            if let Some(bins) = &early {
                bins.count(numbers, &mut chunk.1);
            }
        })?;
        let mut all = (Moments::default(), Vec::new());
        for (moments, counts) in found {
            all.0.join(&moments);
            histogram::add(&mut all.1, &counts);
        }
        let (moments, counts) = all;
        let histogram = match early {
            Some(bins) => Some(bins.finish(counts)),
            None if bins == 0 => None,
            None => {
                let bins = Bins::new(bins, moments.range());
                let mut counts = Vec::new();
                for chunk in
                    self.pass(elements, |chunk: &mut Vec<u64>, numbers| bins.count(numbers, chunk))?
                {
                    histogram::add(&mut counts, &chunk);
                }
                Some(bins.finish(counts))
            }
        };
        self.watch.did_tensor();
        Ok(moments.finish(elements.count, histogram))
    }

    fn stats_by_pattern(&self, elements: &Elements<'_>, bits: u32, request: &Request) -> Result<Stats> {
        self.watch.expect_more(elements.byte_length(), 1);
        let sum = Mutex::new(Sum::new(bits));
        chunks(elements, self.watch, |view, first, count| {
            let mut patterns = Patterns::new(bits);
            view.pieces(first, count, self.watch, |bytes, _| {
                patterns.add(bytes);
                Ok(())
            })?;
            sum.lock().unwrap_or_else(PoisonError::into_inner).add(&patterns);
            Ok(())
        })?;
        let sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
        let values = sum.values(elements.dtype)?;
        let moments = Moments::of_values(&values);
        let covered = || request.range.unwrap_or_else(|| moments.range());
        let histogram = (request.bins > 0).then(|| Bins::new(request.bins, covered()).of_values(&values));
        self.watch.did_tensor();
        Ok(moments.finish(elements.count, histogram))
    }

    /// Performs one pass over all elements: returns a `T` for each chunk.
    fn pass<T: Default + Send>(
        &self,
        elements: &Elements<'_>,
        take: impl Fn(&mut T, Numbers<'_>) + Sync,
    ) -> Result<Vec<T>> {
        chunks(elements, self.watch, |view, first, count| {
            let (mut chunk, mut decoder) = (T::default(), Decoder::default());
            view.pieces(first, count, self.watch, |bytes, count| {
                decoder.each(elements.dtype, bytes, count, |numbers| {
                    take(&mut chunk, numbers);
                    Ok(())
                })
            })?;
            Ok(chunk)
        })
    }
}
