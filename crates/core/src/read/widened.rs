//! Widening to float32: unencoded data is converted piece by piece as it is read.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Reading, claimable, compare, parallel, stored_hasher, too_many};
use crate::codecs::digest::Hasher;
use crate::error::{Code, Error, Result};
use crate::kernels::widen;
use crate::model::slice::TensorSlice;
use crate::model::{Component, DType, Tensor};
use crate::sources::owned::Owned;
use crate::work;

/// Bytes widened by one core between two checks of the stop flag: for 16-bit elements a huge page of float32.
const STEP: usize = 1 << 20;
/// Bytes of one read from memory. They are still in the core's own cache when they are widened.
const READ: usize = 256 << 10;

/// Bytes of a file to convert to float32.
pub(crate) struct Stored {
    offset: u64,
    length: u64,
    /// Hasher of all of them, if they must be verified.
    hasher: Option<Hasher>,
}

impl Stored {
    /// Returns offset and length, if nothing must be hashed.
    pub(crate) fn unhashed(&self) -> Option<(u64, u64)> {
        self.hasher.is_none().then_some((self.offset, self.length))
    }
}

/// The smallest convertible number of bytes, and the resulting bytes of float32.
#[derive(Clone, Copy)]
pub(crate) struct Unit {
    pub input: usize,
    pub output: usize,
}

impl Unit {
    fn of(dtype: DType) -> Self {
        Self { input: dtype.bits().div_ceil(8) as usize, output: if dtype.bits() < 8 { 8 } else { 4 } }
    }

    /// Returns at most `max` bytes, in whole units, but at least one unit.
    fn whole(self, max: usize) -> usize {
        (max / self.input).max(1) * self.input
    }

    fn converted(self, input: usize) -> usize {
        input / self.input * self.output
    }
}

impl Reading<'_> {
    /// Returns `elements` elements of a component, or of a slice of it, as float32 in the byte order of the host. The digest of a whole
    /// component is verified.
    pub fn float32(
        &self,
        tensor: Tensor<'_>,
        component: &Component,
        slice: Option<&TensorSlice>,
        dtype: DType,
        elements: u64,
    ) -> Result<Owned> {
        if let Some(stored) = stored(component, slice) {
            // The type is checked even if there are no elements.
            widen::to_float32(dtype, &[], &mut []).map_err(|error| self.name(error, tensor, component))?;
            let widen = |input: &[u8], out: &mut [u8]| widen::to_float32(dtype, input, out);
            // The type is checked even if there are no elements.
            let widened = widen(&[], &mut [])
                .and_then(|()| self.convert_stored(component, stored, Unit::of(dtype), elements, widen));
            return widened.map_err(|error| self.name(error, tensor, component));
        }
        if slice.is_none()
            && let Some(widened) = self.widened_pieces(tensor, component, dtype, elements)?
        {
            return Ok(widened);
        }
        let bytes = match slice {
            Some(slice) => self.slice(tensor, component, slice),
            None => self.component(tensor, component),
        }?;
        let mut output = Owned::to_fill(float32_bytes(elements)?)?;
        let widened = widen::to_float32_divided(dtype, &bytes, &mut output, &self.watch.stop);
        widened.map_err(|error| error.tensor(tensor.name()))?;
        Ok(output)
    }

    /// Returns `elements` float32 elements that `convert` produces from stored bytes, unit by unit, as they are read.
    pub(crate) fn convert_stored(
        &self,
        component: &Component,
        stored: Stored,
        unit: Unit,
        elements: u64,
        convert: impl Fn(&[u8], &mut [u8]) -> Result<()> + Sync,
    ) -> Result<Owned> {
        let Stored { offset, length, hasher } = stored;
        let checksum = hasher.as_ref().and_then(Hasher::checksum);
        let source = self.source(component)?;
        claimable(source, offset, length)?;
        let mut output = Owned::to_fill(float32_bytes(elements)?)?;
        let cached = source.is_cached(offset, length);
        let step = unit.whole(STEP);
        let read = if cached { unit.whole(READ) } else { step };
        let steps = usize::try_from(length.div_ceil(step as u64)).map_err(|_| too_many())?;
        let outputs: Vec<_> =
            output.chunks_mut(unit.converted(step)).map(|out| Mutex::new(Some(out))).collect();
        let hashes: Vec<_> = (0..steps).map(|_| AtomicU32::new(0)).collect();
        let buffers = Mutex::new(Vec::new());
        let lock = || buffers.lock().unwrap_or_else(PoisonError::into_inner);
        work::try_each_on(parallel::threads(source, offset, length), steps.max(outputs.len()), |at| {
            self.watch.stop.check()?;
            let start = at as u64 * step as u64;
            let end = length.min(start.saturating_add(step as u64));
            if start >= end {
                // Recycled memory must not be returned unwritten.
                return Err(Error::new(Code::InvalidArg, "the data has fewer elements than requested"));
            }
            let mut output = outputs.get(at).and_then(|out| out.lock().ok()?.take()).unwrap_or_default();
            let mut buffer: Vec<u8> = lock().pop().unwrap_or_else(|| vec![0; read]);
            let mut sum = 0;
            for from in (start..end).step_by(read) {
                let bytes = usize::try_from(end - from).unwrap_or(read).min(read);
                let input = &mut buffer[..bytes];
                source.read_bulk(offset.saturating_add(from), input, &self.watch.stop)?;
                if let Some(checksum) = checksum {
                    sum = checksum.append(sum, input);
                }
                let last = from.saturating_add(bytes as u64) >= end;
                let taken = if last { output.len() } else { unit.converted(bytes) };
                let (out, rest) = output.split_at_mut_checked(taken).unwrap_or_default();
                convert(input, out)?;
                output = rest;
                self.watch.did_bytes(bytes as u64);
            }
            lock().push(buffer);
            if let Some(hash) = hashes.get(at) {
                hash.store(sum, Ordering::Relaxed);
            }
            Ok(())
        })?;
        drop(outputs);
        if let (Some(mut hasher), Some(checksum)) = (hasher, checksum) {
            hasher.combine(parallel::combined(checksum, &hashes, step, length), length);
            component.blob().map_or(Ok(()), |blob| compare(blob, Some(hasher)))?;
        }
        Ok(output)
    }
}

/// Returns the location of bytes that can be converted as they are read.
pub(crate) fn stored(component: &Component, slice: Option<&TensorSlice>) -> Option<Stored> {
    let (offset, length) = component.plain_range().filter(|_| component.rule.is_none())?;
    if let Some(slice) = slice {
        let (start, length) = slice.contiguous()?;
        return Some(Stored { offset: offset.checked_add(start)?, length, hasher: None });
    }
    let hasher = component.blob().and_then(stored_hasher);
    // A digest covers the whole blob, so a part cannot be verified.
    let combines = |hasher: &Hasher| hasher.combines() && component.is_whole_blob();
    hasher.as_ref().is_none_or(combines).then_some(Stored { offset, length, hasher })
}

fn float32_bytes(elements: u64) -> Result<u64> {
    elements.checked_mul(4).ok_or_else(too_many)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::model::{Builder, Container, Label};
    use crate::work::Watch;

    #[test]
    fn a_count_of_elements_that_does_not_fit_is_refused() {
        let bytes: Vec<u8> = vec![0; 3 * STEP];
        let (limits, watch) = (Limits::default(), Watch::default());
        let catalog = Builder::new(Container::named("safetensors"), &limits).finish();
        let reading = Reading { sources: &&*bytes, catalog: &catalog, limits: &limits, watch: &watch };
        let component = Component::raw(Label::DATA, Some(DType::BFloat16), 0, bytes.len() as u64);
        let widened = |elements: usize| {
            let stored = Stored { offset: 0, length: bytes.len() as u64, hasher: None };
            let widen = |input: &[u8], out: &mut [u8]| widen::to_float32(DType::BFloat16, input, out);
            reading.convert_stored(&component, stored, Unit::of(DType::BFloat16), elements as u64, widen)
        };
        let whole = bytes.len() / 2;
        assert_eq!(widened(whole).unwrap().len(), whole * 4);
        for elements in [0, 1, whole - 1, whole + 1, whole + STEP, 2 * whole] {
            assert!(widened(elements).is_err(), "{elements}");
        }
    }
}
