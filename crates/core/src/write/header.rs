//! How long an index that comes first becomes: a file that no reader accepts is refused at the tensor that is too many.
#![forbid(unsafe_code)]

use super::Writer;
use crate::error::Result;

impl Writer {
    /// Returns the bytes of the index of a file that has `before` of them and gets a tensor with this name. Fails if readers accept no such
    /// index.
    pub(super) fn header_with(&self, name: &str, before: Option<u64>) -> Result<u64> {
        let Some(bound) = self.settings.format.header else { return Ok(0) };
        let before = match before {
            Some(before) => before,
            None => (bound.of_attributes)(&self.settings.attributes.values()?)?,
        };
        let mut total = before;
        bound.add(&mut total, name).map(|()| total)
    }

    /// Returns whether the tensors may go into several files with an index each.
    pub fn is_set(&self) -> bool {
        self.parts.is_some()
    }

    /// Fails as `begin` would at the tensor that is too many. `tensors`: names, and the bytes of their data.
    pub fn foresee(&self, tensors: impl Iterator<Item = Result<(String, u64)>>) -> Result<()> {
        let (mut header, mut position) = (self.header, self.position);
        for tensor in tensors {
            let (name, length) = tensor?;
            if self.parts.as_ref().is_some_and(|parts| parts.is_full(position, length)) {
                // Not all files of a set have the attributes.
                (header, position) = (Some(0), 0);
            }
            header = Some(self.header_with(&name, header)?);
            position = position.saturating_add(length);
        }
        Ok(())
    }
}
