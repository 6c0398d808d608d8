//! One tensor on its way: its blobs are begun, filled in pieces and ended.
#![forbid(unsafe_code)]

use std::fs::File;

use super::blob::Blob;
use super::out::Out;
use super::{Spec, Stored, Writer};
use crate::catalog::{ByteOrder, Component, Layout, NewTensor};
use crate::error::{Code, Error, Result};
use crate::inject;
use crate::sink::block::FULL;
use crate::sink::kernel_copy;

/// What is read straight into the block is passed on while it is in the processor's caches: from another core's, or from
/// memory, the copy into the file costs about twice the time.
const WARM: usize = 1 << 20;

/// A tensor being pushed.
pub(super) struct Open {
    pub(super) spec: Spec,
    layout: Layout,
    /// What is stored: the components, or one blob of them all.
    stored: Vec<Stored>,
    written: Vec<Component>,
    blob: Option<Blob>,
}

impl Writer {
    /// Begins a tensor, after checking all that can be checked before its bytes are known.
    pub fn begin(&mut self, spec: Spec) -> Result<()> {
        if self.open.is_some() {
            return Err(Error::new(Code::InvalidArg, "another tensor is still being written"));
        }
        let (layout, stored) = self.check(&spec).map_err(|error| error.tensor(&spec.name))?;
        let lengths = stored.iter().map(|&(.., length)| length);
        if self.shards.is_full(self.position, self.settings.alignment, lengths) {
            self.next_shard()?;
        }
        let length = stored.iter().fold(0_u64, |total, &(.., length)| total.saturating_add(length));
        if self.parts.as_ref().is_some_and(|parts| parts.is_full(self.position, length)) {
            self.next_part()?;
        }
        self.open = Some(Open { spec, layout, stored, written: Vec::new(), blob: None });
        self.open_blob()
    }

    /// Begins the next blob, at its alignment.
    pub(super) fn open_blob(&mut self) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let Some(&(.., rule, length)) = open.stored.get(open.written.len()) else { return Ok(()) };
        // Empty blobs too: the peers refuse any offset that is not aligned.
        if !self.settings.dialect.index_first() {
            let aligned = self.position.next_multiple_of(self.settings.alignment);
            let padding = usize::try_from(aligned - self.position).unwrap_or(0);
            self.buffer.zeros(padding)?;
            self.position = aligned;
        }
        open.blob = Some(Blob::new(length, self.position, rule, &self.settings));
        Ok(())
    }

    /// Takes the next bytes of the open tensor. They are in the buffer, not in the file yet.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        inject::panic_at("write");
        loop {
            let Some(Open { blob: Some(blob), .. }) = &mut self.open else {
                let message = format!("{} bytes more than the tensor has", bytes.len());
                return if bytes.is_empty() {
                    Ok(())
                } else {
                    Err(self.named(Error::new(Code::BadShape, message)))
                };
            };
            let taken = match blob.take(bytes, &mut self.buffer, &mut self.position) {
                Ok(taken) => taken,
                Err(error) => return Err(self.named(error)),
            };
            bytes = bytes.get(taken..).unwrap_or_default();
            if !blob.is_full() {
                return Ok(());
            }
            self.close_blob()?;
        }
    }

    /// Whether the open tensor's next bytes are stored as they come, so that [`Writer::fill`] takes them.
    pub fn takes_raw(&self) -> bool {
        self.open.as_ref().and_then(|open| open.blob.as_ref()).is_some_and(Blob::is_raw)
    }

    /// Lets `read` put the next bytes of the open tensor, `limit` of its blob at most, where they will be written from.
    pub fn fill(&mut self, limit: u64, read: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
        if self.pending() >= WARM && !matches!(self.out, Out::Taken) {
            self.write_block(self.pending().min(FULL))?;
        }
        let room =
            WARM.saturating_sub(self.buffer.len()).max(64 << 10).min(usize::try_from(limit).unwrap_or(WARM));
        let Some(Open { blob: Some(blob), .. }) = &mut self.open else {
            return Err(Error::new(Code::BadShape, "more bytes than the tensor has"));
        };
        if let Err(error) = blob.fill(room, &mut self.buffer, &mut self.position, read) {
            return Err(self.named(error));
        }
        if blob.is_full() { self.close_blob() } else { Ok(()) }
    }

    /// Has the kernel append the next bytes of the open tensor, `limit` at most, from `offset` of `source` on. Says how many
    /// it did: none where it cannot, or where they have to be hashed or compressed on the way.
    pub fn copy_range(&mut self, source: &File, offset: u64, limit: u64) -> Result<u64> {
        let Some(Open { blob: Some(blob), .. }) = &mut self.open else { return Ok(0) };
        if !blob.is_unseen() || !matches!(self.out, Out::File(_) | Out::Spool(..)) {
            return Ok(0);
        }
        if let Some(behind) = &mut self.behind {
            behind.drain()?;
        }
        self.out.drain(&mut self.buffer)?;
        let Some(target) = self.out.file() else { return Ok(0) };
        let copied = kernel_copy::append(source, offset, target, limit.min(blob.left()));
        blob.skip(copied, &mut self.position);
        if blob.is_full() {
            self.close_blob()?;
        }
        Ok(copied)
    }

    pub(super) fn close_blob(&mut self) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let (Some(blob), Some(&(role, dtype, _, length))) =
            (open.blob.take(), open.stored.get(open.written.len()))
        else {
            return Ok(());
        };
        let done = blob
            .finish(&mut self.buffer, &mut self.position)
            .map_err(|error| error.tensor(&open.spec.name))?;
        let done = self.judged(done, length)?;
        let mut component = Component::raw(role, dtype, done.offset, self.position - done.offset);
        component.file = self.shards.current;
        component.byte_order = ByteOrder::Little;
        component.encoding = done.encoding;
        component.decoded_length = Some(length);
        component.digest = done.digest.map(Box::new);
        if let Some(open) = &mut self.open {
            open.written.push(component);
        }
        self.open_blob()
    }

    pub(super) fn named(&self, error: Error) -> Error {
        self.open.as_ref().map_or(error.clone(), |open| error.tensor(&open.spec.name))
    }

    /// Ends the open tensor, of which every byte must have been pushed.
    pub fn end(&mut self) -> Result<()> {
        self.push(&[])?;
        let Some(open) = self.open.take() else {
            return Err(Error::new(Code::InvalidArg, "no tensor is being written"));
        };
        if let Some(blob) = &open.blob {
            let message = format!("{} bytes fewer than the tensor has", blob.left());
            return Err(Error::new(Code::BadShape, message).tensor(&open.spec.name));
        }
        let Spec { name, shape, dtype, attributes, .. } = &open.spec;
        self.builder.tensor(NewTensor {
            name,
            shape,
            layout: open.layout,
            dtype: *dtype,
            components: open.written,
            attributes: attributes.clone(),
        })
    }
}
