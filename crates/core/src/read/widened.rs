//! Elements as float32: what is stored as it is in memory is widened piece by piece as it is read.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Reading, claimable, compare, parallel, stored_hasher, too_many};
use crate::codecs::digest::Hasher;
use crate::error::{Code, Error, Result};
use crate::kernels::widen;
use crate::model::cut::Cut;
use crate::model::{Component, DType, Tensor};
use crate::sources::owned::Owned;
use crate::work;

/// Bytes widened by one core between two looks at the stop flag: of 16-bit elements a huge page of float32.
const STEP: usize = 1 << 20;
/// Bytes of one read from memory. They are still in the core's own cache when they are widened.
const READ: usize = 256 << 10;

/// Bytes of a file to widen.
struct Stored {
    offset: u64,
    length: u64,
    /// Of all of them, where they have to be hashed.
    hasher: Option<Hasher>,
}

impl Reading<'_> {
    /// `elements` elements of a component, or of a cut through it, as float32 in the byte order of the host. The digest
    /// of a whole component is checked.
    pub fn float32(
        &self,
        tensor: Tensor<'_>,
        component: &Component,
        cut: Option<&Cut>,
        dtype: DType,
        elements: u64,
    ) -> Result<Owned> {
        if let Some(stored) = stored(component, cut) {
            let widened = self.widen_stored(component, stored, dtype, elements);
            return widened.map_err(|error| self.name(error, tensor, component));
        }
        let bytes = match cut {
            Some(cut) => self.cut(tensor, component, cut),
            None => self.component(tensor, component),
        }?;
        let mut output = Owned::to_fill(float32_bytes(elements)?)?;
        let widened = widen::to_float32_divided(dtype, &bytes, &mut output, &self.watch.stop);
        widened.map_err(|error| error.tensor(tensor.name()))?;
        Ok(output)
    }

    fn widen_stored(
        &self,
        component: &Component,
        stored: Stored,
        dtype: DType,
        elements: u64,
    ) -> Result<Owned> {
        // Of no elements at all the type is refused, too.
        widen::to_float32(dtype, &[], &mut [])?;
        let Stored { offset, length, hasher } = stored;
        let checksum = hasher.as_ref().and_then(Hasher::checksum);
        let source = self.source(component)?;
        claimable(source, offset, length)?;
        let mut output = Owned::to_fill(float32_bytes(elements)?)?;
        let cached = source.is_cached(offset, length);
        let read = if cached { READ } else { STEP };
        let steps = usize::try_from(length.div_ceil(STEP as u64)).map_err(|_| too_many())?;
        let widened = |bytes: usize| bytes * 8 / dtype.bits() as usize * 4;
        let outputs: Vec<_> = output.chunks_mut(widened(STEP)).map(|out| Mutex::new(Some(out))).collect();
        let hashes: Vec<_> = (0..steps).map(|_| AtomicU32::new(0)).collect();
        let buffers = Mutex::new(Vec::new());
        let lock = || buffers.lock().unwrap_or_else(PoisonError::into_inner);
        work::try_each_on(parallel::threads(source, offset, length), steps.max(outputs.len()), |at| {
            self.watch.stop.check()?;
            let start = at as u64 * STEP as u64;
            let end = length.min(start.saturating_add(STEP as u64));
            if start >= end {
                // Memory that was used before must not be given away unwritten.
                return Err(Error::new(
                    Code::InvalidArg,
                    "the data has less elements than are to be widened",
                ));
            }
            let mut output = outputs.get(at).and_then(|out| out.lock().ok()?.take()).unwrap_or_default();
            let mut buffer: Vec<u8> = lock().pop().unwrap_or_else(|| vec![0; read]);
            let mut sum = 0;
            for from in (start..end).step_by(read) {
                let bytes = usize::try_from(end - from).unwrap_or(read).min(read);
                let input = &mut buffer[..bytes];
                source.read_bulk(offset.saturating_add(from), input)?;
                if let Some(checksum) = checksum {
                    sum = checksum.append(sum, input);
                }
                let last = from.saturating_add(bytes as u64) >= end;
                let taken = if last { output.len() } else { widened(bytes) };
                let (out, rest) = output.split_at_mut_checked(taken).unwrap_or_default();
                widen::to_float32(dtype, input, out)?;
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
            hasher.combine(parallel::combined(checksum, &hashes, STEP, length), length);
            component.blob().map_or(Ok(()), |blob| compare(blob, Some(hasher)))?;
        }
        Ok(output)
    }
}

/// Where the bytes stand that can be widened as they are read.
fn stored(component: &Component, cut: Option<&Cut>) -> Option<Stored> {
    let (offset, length) = component.plain_range().filter(|_| component.rule.is_none())?;
    if let Some(cut) = cut {
        let (start, length) = cut.contiguous()?;
        return Some(Stored { offset: offset.checked_add(start)?, length, hasher: None });
    }
    let hasher = component.blob().and_then(stored_hasher);
    // A digest is over the whole blob, of which a part is not all.
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
            reading.widen_stored(&component, stored, DType::BFloat16, elements as u64)
        };
        let whole = bytes.len() / 2;
        assert_eq!(widened(whole).unwrap().len(), whole * 4);
        for elements in [0, 1, whole - 1, whole + 1, whole + STEP, 2 * whole] {
            assert!(widened(elements).is_err(), "{elements}");
        }
    }
}
