//! Writes one tensor: begins its blobs, fills them in pieces, and ends them.
#![forbid(unsafe_code)]

use std::fs::File;

use super::Writer;
use super::blob::{Outgoing, Target};
use super::destination::Destination;
use super::flush::WARM;
use super::open_tensor::Open;
use super::settings::{Spec, Stored};
use crate::codecs::digest::Digest;
use crate::error::{Code, Error, Result};
use crate::inject;
use crate::model::{self, Component, Data, Encoding, NewTensor};
use crate::sinks::kernel_copy;

impl Writer {
    /// Begins a tensor, after all checks that do not need its bytes.
    pub fn begin(&mut self, spec: Spec<'_>) -> Result<()> {
        if self.open.is_some() {
            return Err(Error::new(Code::InvalidArg, "another tensor is still being written"));
        }
        let mut open = self.reusable.take().unwrap_or_default();
        open.clear();
        match self.planned.take() {
            Some(mut planned) => {
                let begun = self.begin_planned(&mut planned, &spec, &mut open);
                self.planned = Some(planned);
                begun?;
            }
            None => {
                self.check_planned()
                    .and_then(|()| self.check(&spec, &mut open))
                    .map_err(|error| error.tensor(spec.name))?;
            }
        }
        let lengths = open.stored.iter().map(|&(.., length)| length);
        if self.shards.is_full(self.position, self.settings.alignment, lengths) {
            self.next_shard()?;
        }
        let length = open.stored.iter().fold(0_u64, |total, &(.., length)| total.saturating_add(length));
        let is_next = self.parts.as_ref().is_some_and(|parts| parts.is_full(self.position, length));
        let header = self.header_with(spec.name, if is_next { Some(0) } else { self.header })?;
        if is_next {
            self.next_part()?;
        }
        self.header = Some(header);
        self.doubles.add(spec.name, self.settings.format);
        let gathered = self.gathers(&open.stored);
        open.name.push_str(spec.name);
        open.shape.extend_from_slice(spec.shape);
        open.dtype = spec.dtype;
        open.attributes = spec.attributes.cloned();
        open.gathered = gathered;
        self.open = Some(open);
        match &mut self.gathering {
            Some(gathering) if gathered => gathering.raw.reserve(usize::try_from(length).unwrap_or(0))?,
            // The offset of the blob is not known yet, and this call must not wait for it.
            Some(gathering) if !gathering.is_idle() => return Ok(()),
            _ => {}
        }
        self.open_blob()
    }

    /// Adds a tensor of one component whose bytes are in memory and are not compressed on this thread. If the tensor is
    /// rejected, the file stays unchanged.
    pub fn add(&mut self, spec: Spec<'_>, bytes: &[u8]) -> Result<()> {
        let gathered = self.gathering.as_ref().map(|gathering| (gathering.raw.len(), self.unplaced));
        let header = self.header;
        self.begin(spec)?;
        let before = (self.buffer.len(), self.position);
        self.push(bytes).and_then(|()| self.end()).inspect_err(|_| {
            self.open = None;
            self.header = header;
            self.buffer.truncate(before.0);
            self.position = before.1;
            if let (Some(gathering), Some((raw, unplaced))) = (&mut self.gathering, gathered) {
                gathering.raw.truncate(raw);
                self.unplaced = unplaced;
            }
        })
    }

    /// Begins the first blob of a tensor that had to wait for others.
    fn ready(&mut self) -> Result<()> {
        if self.open.as_deref().is_some_and(Open::waits) {
            self.settle_packed()?;
            self.open_blob()?;
        }
        Ok(())
    }

    /// Begins the next blob, at its alignment.
    pub(super) fn open_blob(&mut self) -> Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let Some(&(.., rule, length)) = open.stored.get(open.written.len()) else { return Ok(()) };
        if open.gathered {
            open.blob = Some(Outgoing::gathered(length, rule, &self.settings));
            return Ok(());
        }
        self.align()?;
        let blob = Outgoing::new(length, self.position, rule, &self.settings, self.gathering.is_some());
        if let Some(open) = &mut self.open {
            open.blob = Some(blob);
        }
        Ok(())
    }

    /// Pads up to the offset of the next blob, even for an empty one: other readers reject any unaligned offset.
    pub(super) fn align(&mut self) -> Result<()> {
        if !self.settings.format.index_first() {
            let aligned = self.position.next_multiple_of(self.settings.alignment);
            let padding = usize::try_from(aligned - self.position).unwrap_or(0);
            match self.out {
                Destination::File(_) => self.buffer.hole(padding)?,
                _ => self.buffer.zeros(padding)?,
            }
            self.position = aligned;
        }
        Ok(())
    }

    /// Returns the open blob and its destination.
    fn blob(&mut self) -> Option<(&mut Outgoing, Target<'_>)> {
        let Self { open, buffer, position, gathering, unplaced, .. } = self;
        let Open { blob: Some(blob), gathered, .. } = open.as_deref_mut()? else { return None };
        let target = match gathering.as_mut() {
            Some(gathering) if *gathered => {
                Target { buffer: &mut gathering.raw, position: unplaced, packers: None }
            }
            gathering => Target { buffer, position, packers: gathering.map(|queue| &mut queue.packers) },
        };
        Some((blob, target))
    }

    /// Takes the next bytes of the open tensor. They are buffered, and not in the file yet.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        inject::panic_at("write");
        self.ready()?;
        loop {
            let Some((blob, mut target)) = self.blob() else {
                if bytes.is_empty() {
                    return Ok(());
                }
                let message = format!("{} bytes more than the tensor has", bytes.len());
                return Err(self.named(Error::new(Code::BadShape, message)));
            };
            let (taken, full) = match blob.take(bytes, &mut target) {
                Ok(taken) => (taken, blob.is_full()),
                Err(error) => return Err(self.named(error)),
            };
            bytes = bytes.get(taken..).unwrap_or_default();
            if !full {
                return Ok(());
            }
            self.close_blob()?;
        }
    }

    /// Returns the number of bytes of the component that were pushed so far.
    pub(crate) fn pushed(&self) -> u64 {
        self.open.as_ref().and_then(|open| open.blob.as_ref()).map_or(0, Outgoing::taken)
    }

    /// Returns whether the next bytes of the open tensor are stored unchanged, so that [`Writer::fill`] accepts them.
    pub fn takes_raw(&self) -> bool {
        self.open.as_ref().and_then(|open| open.blob.as_ref()).is_some_and(Outgoing::is_raw)
    }

    /// Lets `read` write the next bytes of the open tensor directly into the buffer: at most `limit` bytes, and within
    /// one blob.
    pub fn fill(&mut self, limit: u64, read: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
        self.write_full_blocks()?;
        let limit = usize::try_from(limit).unwrap_or(WARM);
        let free = WARM.saturating_sub(self.buffer.len()).max(64 << 10).min(limit);
        let gathered = self.open.as_ref().is_some_and(|open| open.gathered);
        let Some((blob, mut target)) = self.blob() else {
            return Err(Error::new(Code::BadShape, "more bytes than the tensor has"));
        };
        let filled = blob.fill(if gathered { limit } else { free }, &mut target, read);
        let full = blob.is_full();
        if let Err(error) = filled {
            return Err(self.named(error));
        }
        if full { self.close_blob() } else { Ok(()) }
    }

    /// Lets the kernel append up to `limit` next bytes of the open tensor, from `offset` in `source`. Returns the
    /// number of bytes copied: 0 if the kernel cannot copy, or the bytes must be hashed, checked or compressed.
    pub fn copy_range(&mut self, source: &File, offset: u64, limit: u64) -> Result<u64> {
        let unseen = match self.open.as_deref() {
            Some(Open { blob: Some(blob), gathered: false, .. }) => blob.is_unseen(),
            _ => false,
        };
        if !unseen
            || !matches!(
                self.out,
                Destination::File(_) | Destination::Spool(..) | Destination::SpoolUpload(..)
            )
        {
            return Ok(0);
        }
        self.flush()?;
        let (Some(target), Some(Open { blob: Some(blob), .. })) = (self.out.file(), self.open.as_deref_mut())
        else {
            return Ok(0);
        };
        let copied = kernel_copy::append(source, offset, target, limit.min(blob.left()));
        blob.skip(copied, &mut self.position);
        if blob.is_full() {
            self.close_blob()?;
        }
        Ok(copied)
    }

    pub(super) fn close_blob(&mut self) -> Result<()> {
        let Some(Open { blob, stored, written, gathered, .. }) = self.open.as_deref_mut() else {
            return Ok(());
        };
        let (Some(blob), Some(&stored)) = (blob.take(), stored.get(written.len())) else { return Ok(()) };
        let gathered = *gathered;
        let (role, dtype, _, length) = stored;
        let Self { buffer, position, gathering, .. } = self;
        let finished = blob.finish(&mut Target {
            buffer,
            position,
            packers: gathering.as_mut().map(|queue| &mut queue.packers),
        });
        let done = finished.map_err(|error| self.named(error))?;
        let component = if gathered {
            Component::raw(role, dtype, 0, length)
        } else {
            let done = self.judged(done, length)?;
            let stored_length = self.position - done.offset;
            let offset = self.once(&done, length)?;
            self.component(stored, offset, stored_length, done.encoding, done.digest)
        };
        if let Some(open) = &mut self.open {
            open.written.push(component);
        }
        self.open_blob()
    }

    /// Names the open tensor in an error.
    pub(crate) fn named(&self, error: Error) -> Error {
        self.open.as_ref().map_or(error.clone(), |open| error.tensor(&open.name))
    }

    /// Ends the open tensor. Fails with `ZT_BAD_SHAPE` unless every byte was pushed.
    pub fn end(&mut self) -> Result<()> {
        self.push(&[])?;
        let Some(mut open) = self.open.take() else {
            return Err(Error::new(Code::InvalidArg, "no tensor is being written"));
        };
        if let Some(blob) = &open.blob {
            let message = format!("{} bytes fewer than the tensor has", blob.left());
            return Err(Error::new(Code::BadShape, message).tensor(&open.name));
        }
        match &mut self.gathering {
            Some(gathering) if open.gathered => gathering.keep(*open),
            _ => {
                self.add_to_index(&mut open)?;
                self.reusable = Some(open);
                Ok(())
            }
        }
    }

    /// Adds a tensor to the index once all of its blobs have offsets.
    pub(super) fn add_to_index(&mut self, open: &mut Open) -> Result<()> {
        if let Some(planned) = &mut self.planned {
            planned.end();
            return Ok(());
        }
        self.builder.add_tensor(NewTensor {
            name: &open.name,
            shape: &open.shape,
            layout: open.layout,
            dtype: open.dtype,
            components: std::mem::take(&mut open.written),
            attributes: open.attributes.take(),
        })?;
        open.written = self.builder.no_components();
        Ok(())
    }

    /// Returns the index entry of a blob.
    pub(super) fn component(
        &self,
        (role, dtype, _, length): Stored,
        offset: u64,
        stored_length: u64,
        encoding: Encoding,
        digest: Option<Digest>,
    ) -> Component {
        let file = self.shards.current;
        let blob =
            model::Blob { file, encoding, offset, stored: stored_length, decoded: Some(length), digest };
        Component::new(role, dtype, Data::Blob(blob))
    }
}
