//! Writes a file whose index comes first and is fully known before the first byte of data: every byte then goes
//! directly to its offset. Other data has to be spooled (see `index_first`).
#![forbid(unsafe_code)]

use super::Writer;
use super::destination::Destination;
use super::framing::{Framing, Planned};
use super::open_tensor::Open;
use super::settings::{Spec, Stored};
use crate::error::{Code, Error, Result};
use crate::formats::Index;
use crate::limits::Limits;
use crate::model::{Builder, Component, NewTensor};

/// The tensors of a file, announced before the first byte of data.
pub struct Plan<'w> {
    writer: &'w mut Writer,
    stored: Vec<Stored>,
}

impl Plan<'_> {
    /// Announces a dense tensor with one component.
    pub fn add(&mut self, spec: Spec<'_>) -> Result<()> {
        let mut open = Open::default();
        self.writer.check(&spec, &mut open).map_err(|error| error.tensor(spec.name))?;
        let &[stored] = open.stored.as_slice() else {
            return Err(Error::new(Code::Internal, "a planned tensor has one blob").tensor(spec.name));
        };
        let (role, dtype, _, length) = stored;
        let component = Component::raw(role, dtype, self.stored.len() as u64, length);
        self.stored.push(stored);
        self.writer.builder.add_tensor(NewTensor {
            name: spec.name,
            shape: spec.shape,
            layout: open.layout,
            dtype: spec.dtype,
            components: vec![component],
            attributes: None,
        })
    }

    /// Lays the file out, and returns the order in which the tensors must be written, as indices into the order of
    /// announcement.
    pub fn lay_out(self) -> Result<Vec<usize>> {
        let Self { writer, stored } = self;
        let format = writer.settings.format;
        let Index::First(put) = format.index else {
            return Err(Error::new(Code::Internal, "the index comes behind the data"));
        };
        let empty = Builder::new(format.container(), &Limits::default());
        let mut builder = std::mem::replace(&mut writer.builder, empty);
        builder.set_attributes(std::mem::take(&mut writer.settings.attributes));
        let (catalog, mut framing) = (builder.finish(), Framing::default());
        put(&catalog, &mut framing)?;
        writer.out = match std::mem::replace(&mut writer.out, Destination::Taken) {
            Destination::Spool(_, file) => Destination::File(file),
            Destination::SpoolUpload(_, upload) => Destination::Upload(upload),
            out => out,
        };
        writer.expect(framing.length);
        let order = framing.blobs.iter().map(|&(_, position)| position).collect();
        writer.planned = Some(Box::new(Planned { catalog, stored, framing }));
        Ok(order)
    }
}

impl Writer {
    /// Returns a plan of the whole file if its index can be written first: nothing in it may depend on the data, as
    /// digests, compression and a set of files do.
    pub fn plan(&mut self) -> Option<Plan<'_>> {
        let is_new = match self.out {
            Destination::Spool(..) | Destination::SpoolUpload(..) => true,
            Destination::Taken => self.settings.format.index_first() && self.planned.is_none(),
            _ => false,
        };
        let can = is_new
            && self.settings.digest.is_none()
            && self.gathering.is_none()
            && self.parts.is_none()
            && self.builder.is_empty();
        can.then(|| Plan { writer: self, stored: Vec::new() })
    }

    /// Fails if the index should have been written before the tensor that comes now.
    pub(super) fn check_planned(&self) -> Result<()> {
        if self.settings.format.index_first()
            && matches!(self.out, Destination::Taken | Destination::Passed { is_kept: false, .. })
        {
            let message = format!(
                "{} has its index before the data, so the sizes of all tensors must be known before it is written to a \
                 stream, a pipe or a device; write it to a file",
                self.settings.format.title
            );
            return Err(Error::new(Code::InvalidArg, message));
        }
        Ok(())
    }

    /// Begins the next announced tensor.
    pub(super) fn begin_planned(
        &mut self,
        planned: &mut Planned,
        spec: &Spec<'_>,
        open: &mut Open,
    ) -> Result<()> {
        let unexpected = || Error::new(Code::Internal, "another tensor was to come").tensor(spec.name);
        let &(end, position) = planned.framing.blobs.front().ok_or_else(unexpected)?;
        let (Some(tensor), Some(&stored)) = (planned.catalog.tensor(position), planned.stored.get(position))
        else {
            return Err(unexpected());
        };
        let &[(_, dtype, length)] = spec.components else { return Err(unexpected()) };
        let (_, its_dtype, _, its_length) = stored;
        let is_it =
            tensor.name() == spec.name && tensor.shape() == spec.shape && tensor.dtype() == spec.dtype;
        if !is_it || (dtype, length) != (its_dtype, its_length) {
            return Err(unexpected());
        }
        open.layout = tensor.layout();
        open.stored.push(stored);
        self.frame(planned, end)
    }

    /// Writes the bytes after the last blob.
    pub(super) fn finish_planned(&mut self, planned: &mut Planned) -> Result<()> {
        if !planned.framing.blobs.is_empty() {
            return Err(Error::new(Code::Internal, "a tensor that was announced did not come"));
        }
        let end = planned.framing.bytes.len();
        self.frame(planned, end)
    }

    fn frame(&mut self, planned: &mut Planned, end: usize) -> Result<()> {
        let bytes = planned.framing.take(end);
        self.buffer.extend(bytes)?;
        self.position += bytes.len() as u64;
        Ok(())
    }
}
