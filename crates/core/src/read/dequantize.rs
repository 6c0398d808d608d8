//! Quantized tensors as float32: their components are read here and decoded by `kernels`.
#![forbid(unsafe_code)]

use std::sync::{Mutex, PoisonError};

use super::Reading;
use crate::error::{Code, Error, Result};
use crate::kernels::dequantize::{PIECE, Quantized};
use crate::model::{Label, Tensor};
use crate::sources::owned::Owned;
use crate::work;

impl Reading<'_> {
    /// The elements of a quantized tensor as float32, in the byte order of the host, after the digests of
    /// its components were checked.
    ///
    /// Fails with `BadLayout` for other layouts and for parameters that contradict each other, with `BadShape` where
    /// a component's length is not what they ask for, and with `Limit` where the result would exceed
    /// `maxDecodedBytes`.
    pub fn dequantize(&self, tensor: Tensor<'_>) -> Result<Owned> {
        self.dequantized(tensor).map_err(|error| error.tensor(tensor.name()))
    }

    fn dequantized(&self, tensor: Tensor<'_>) -> Result<Owned> {
        let quantized = Quantized::new(tensor)?;
        let bytes = quantized.elements.checked_mul(4).filter(|&bytes| bytes <= self.limits.max_decoded_bytes);
        let bytes = bytes.ok_or_else(|| {
            let most = self.limits.max_decoded_bytes;
            let message =
                format!("{} float32 are more than {most} bytes (option maxDecodedBytes)", quantized.elements);
            Error::new(Code::Limit, message)
        })?;
        let parts = quantized.parts().into_iter();
        let parts =
            parts.map(|(role, expected)| self.part(tensor, role, expected)).collect::<Result<Vec<_>>>()?;
        let mut output = Owned::zeroed(bytes)?;
        let pieces: Vec<_> = output.as_chunks_mut::<4>().0.chunks_mut(PIECE).map(Mutex::new).collect();
        let failure = Mutex::new(None);
        work::for_each(pieces.len(), |at| {
            let Some(piece) = pieces.get(at) else { return };
            let mut piece = piece.lock().unwrap_or_else(PoisonError::into_inner);
            let first = at as u64 * PIECE as u64;
            let decoded = self.watch.stop.check().and_then(|()| quantized.decode(&parts, first, &mut piece));
            if let Err(error) = decoded {
                failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        });
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        drop(pieces);
        failure.map_or(Ok(output), Err)
    }

    fn part(&self, tensor: Tensor<'_>, role: Label, expected: Option<u64>) -> Result<Owned> {
        let name = self.catalog.label(role);
        let missing =
            || Error::new(Code::BadLayout, format!("the component {name:?} is missing")).component(name);
        let component = tensor.component(role).ok_or_else(missing)?;
        let bytes = self.component(tensor, component)?;
        if Some(bytes.len() as u64) == expected {
            return Ok(bytes);
        }
        let message =
            format!("{name} has {} bytes, not what the shape and the attributes ask for", bytes.len());
        Err(Error::new(Code::BadShape, message).component(name))
    }
}
