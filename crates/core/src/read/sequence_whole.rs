//! The elements of an encoded component in order. WebAssembly has no thread that could decode ahead of their consumer: all are decoded
//! first.
#![forbid(unsafe_code)]

use super::Reading;
use crate::error::{Code, Error, Result};
use crate::model::{Component, Tensor};

/// Fills memory with the next bytes.
pub type Next<'n> = &'n mut dyn FnMut(&mut [u8]) -> Result<()>;

impl Reading<'_> {
    /// Calls `work` with a function that returns the elements of a component from the first to the last, little-endian.
    pub fn sequence<T>(
        &self,
        tensor: Tensor<'_>,
        component: &Component,
        work: impl FnOnce(Next<'_>) -> Result<T>,
    ) -> Result<T> {
        let decoded = self.component(tensor, component)?;
        let mut rest = &*decoded;
        let ended = || Error::new(Code::Decode, "the decoded data ends before its elements do");
        work(&mut |out| {
            let (now, later) = rest.split_at_checked(out.len()).ok_or_else(ended)?;
            out.copy_from_slice(now);
            rest = later;
            Ok(())
        })
    }
}
