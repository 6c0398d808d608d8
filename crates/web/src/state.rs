//! What an instance of the module has: one file, or two that are compared.
#![forbid(unsafe_code)]

use std::sync::Arc;

use ztensor_core::codecs::digest::{Digest, Hasher};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::limits::Limits;
use ztensor_core::model::{Component, Tensor};
use ztensor_core::open::Opened;
use ztensor_core::read::Reading;
use ztensor_core::read::deferred::Deferred;
use ztensor_core::sources::owned::Owned;
use ztensor_core::work::Watch;

use crate::files::Host;
use crate::message::Message;
use crate::reply::Reply;

/// Performs one kind of call.
pub type Operation = fn(&mut State, &mut Message) -> Result<Owned>;

#[derive(Default)]
pub struct State {
    pub files: [File; 2],
    /// Stops nothing: the host ends a call between two operations.
    pub watch: Watch,
    #[cfg(feature = "write")]
    pub writing: crate::writing::Writing,
}

/// A file that is being opened, or open.
#[derive(Default)]
pub struct File {
    pub host: Arc<Host>,
    pub opened: Option<Opened>,
    pub limits: Limits,
    /// Elements that are decoded piece by piece.
    pub deferred: Option<Deferred>,
    /// The digest of data that the host reads by itself.
    pub hashing: Option<(Digest, Hasher)>,
}

impl State {
    /// Returns the file with the number that a message begins with.
    pub fn file(&mut self, message: &mut Message) -> Result<&mut File> {
        let number = message.index()?;
        self.files.get_mut(number).ok_or_else(|| Error::new(Code::Internal, "no such file"))
    }

    /// Returns what the last operation missed, for each file: names, and ranges of named files.
    pub fn missing(&self) -> Option<Reply> {
        let mut reply = Reply::default();
        let mut any = false;
        for file in &self.files {
            let (names, ranges) = file.host.missing();
            any |= !names.is_empty() || !ranges.is_empty();
            reply.list(&names, |reply, name| reply.text(name));
            reply.list(&ranges, |reply, (name, offset, length)| {
                reply.text(name);
                reply.whole(*offset);
                reply.whole(*length);
            });
        }
        any.then_some(reply)
    }
}

impl File {
    pub fn opened(&self) -> Result<&Opened> {
        self.opened.as_ref().ok_or_else(|| Error::new(Code::Closed, "the file is closed"))
    }

    pub fn tensor(&self, ordinal: usize) -> Result<Tensor<'_>> {
        let tensor = self.opened()?.catalog.tensor(ordinal);
        tensor.ok_or_else(|| Error::new(Code::Internal, "no such tensor"))
    }

    pub fn part(&self, ordinal: usize, component: usize) -> Result<(Tensor<'_>, &Component)> {
        let tensor = self.tensor(ordinal)?;
        let component = tensor.components().get(component);
        Ok((tensor, component.ok_or_else(|| Error::new(Code::Internal, "no such component"))?))
    }

    pub fn reading<'f>(&'f self, watch: &'f Watch) -> Result<Reading<'f>> {
        let opened = self.opened()?;
        Ok(Reading { sources: &opened.files, catalog: &opened.catalog, limits: &self.limits, watch })
    }
}
