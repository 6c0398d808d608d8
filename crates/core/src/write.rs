//! Writes tensor files: what is added is validated as strictly as what is read, laid out as the format asks, hashed and
//! compressed on the way, in pieces. Uses layouts, codecs, the encoders of `formats`, edits and sinks.
#![forbid(unsafe_code)]

mod append;
mod blob;
mod canonical;
pub(crate) mod check;
pub mod compact;
mod finish;
mod flush;
mod gather;
mod index_first;
mod link;
mod once;
mod out;
mod pack;
mod packers;
mod parts;
mod planned;
mod previous_root;
mod restore;
mod seekable;
pub mod shards;
pub mod sparse;
mod split;
mod tensor;

use std::path::Path;
use std::sync::Arc;

use crate::codecs::digest::Algorithm;
use crate::edit::Edit;
use crate::error::{Code, Error, Result};
pub use crate::formats::WriteFormat;
use crate::formats::{Asked, Sharding};
use crate::limits::Limits;
use crate::model::{Attributes, Builder, DType, DataRule, Label};
use crate::sinks::behind::Behind;
use crate::sinks::block::Block;
use crate::sinks::upload::Uploads;
use crate::sinks::{AtomicFile, Spool, store};
use crate::work::Stop;

pub use append::{Appending, Hashing};
pub use finish::Finished;
use gather::Gathering;
use once::Contents;
use out::Out;
pub use out::Passing;
pub use pack::Compression;
use parts::Parts;
pub use planned::Plan;
use planned::Planned;
use shards::Shards;
use tensor::Open;

/// How a file is written.
pub struct Settings {
    pub format: &'static WriteFormat,
    /// Blobs begin at multiples of this; 64 at least, where the format aligns them.
    pub alignment: u64,
    pub digest: Option<Algorithm>,
    pub compression: Option<Compression>,
    pub overwrite: bool,
    /// In the format's canonical form: blobs in the order of their names, equal ones once.
    pub canonical: bool,
    /// Bytes that a file may have before the next tensor goes into another one: in zTensor 2 (§7) of all, in safetensors of
    /// tensors.
    pub max_shard: Option<u64>,
    pub attributes: Attributes,
    pub generator: Option<String>,
    /// Ends the work, up to the moment in which the file gets its name.
    pub stop: Stop,
}

impl Settings {
    fn check(&self) -> Result<()> {
        (self.format.check_settings)(&Asked {
            alignment: self.alignment,
            digest: self.digest,
            compressed: self.compression.is_some(),
            canonical: self.canonical,
            divided: self.max_shard.is_some(),
            attributes: &self.attributes,
        })
    }
}

/// A tensor about to be added.
#[derive(Clone, Copy)]
pub struct Spec<'a> {
    pub name: &'a str,
    pub shape: &'a [u64],
    /// The layout's name.
    pub layout: &'a str,
    pub dtype: Option<DType>,
    pub attributes: Option<&'a Attributes>,
    /// Role, dtype and bytes of each component, in the order in which they will be pushed.
    pub components: &'a [(&'a str, Option<DType>, u64)],
}

/// Role, dtype and raw bytes of a blob, and what its elements must be.
type Stored = (Label, Option<DType>, Option<DataRule>, u64);

/// A file being written. Bytes gather in a block, which goes into the file when it is full, by a thread of its own where
/// there is more than one of them.
pub struct Writer {
    /// Before `out`: the thread has to end before the file is given up.
    behind: Option<Behind>,
    out: Out,
    settings: Settings,
    builder: Builder,
    buffer: Block,
    /// The end of the buffer, in the file or spool.
    position: u64,
    shards: Shards,
    parts: Option<Parts>,
    open: Option<Box<Open>>,
    /// What other threads compress.
    gathering: Option<Gathering>,
    /// Bytes of gathered blobs, which have no place yet, are counted here.
    unplaced: u64,
    /// The memory of the last tensor, for the next: allocations were a third of the time of adding a small one.
    spare: Option<Box<Open>>,
    /// Where a file that is there is added to.
    edit: Option<Edit>,
    /// Where the index stands before the data already.
    laid: Option<Box<Planned>>,
    /// Of canonical form: what is in the file already.
    contents: Contents,
}

impl Writer {
    /// Begins a file that appears at `target` with [`Writer::finish`].
    pub fn create(target: &Path, settings: Settings) -> Result<Self> {
        settings.check()?;
        let file = AtomicFile::create(target, settings.overwrite)?;
        let out = if settings.format.index_first() {
            Out::Spool(Spool::in_folder_of(target)?, file)
        } else {
            Out::File(file)
        };
        Self::new(out, settings)
    }

    /// Begins a file of a store, which appears at `target` with [`Writer::finish`]. What is written front to back is sent as it
    /// comes; anything else is put together in the folder for temporary files first. A set of files replaces none.
    pub fn upload(uploads: &Arc<dyn Uploads>, target: &Path, settings: Settings) -> Result<Self> {
        settings.check()?;
        let stop = &settings.stop;
        let is_set = settings.max_shard.is_some();
        if is_set {
            for path in [target, &parts::index_path(target)] {
                if uploads.is_there(path, stop)? {
                    let message = format!(
                        "'{}' exists, and in a store no set of files is replaced as a whole: remove it first, or write to \
                         another folder",
                        path.display()
                    );
                    return Err(Error::new(Code::Exists, message));
                }
            }
        } else {
            store::check_free(&**uploads, target, stop)?;
        }
        let out = match (settings.format.index_first(), is_set) {
            (true, true) => {
                Out::Spool(Spool::in_temp_folder()?, AtomicFile::for_upload(uploads, target, stop)?)
            }
            (true, false) => Out::SpoolUpload(Spool::in_temp_folder()?, uploads.begin(target, stop)?),
            (false, false) if !settings.canonical => Out::Upload(uploads.begin(target, stop)?),
            (false, _) => Out::File(AtomicFile::for_upload(uploads, target, stop)?),
        };
        Self::new(out, settings)
    }

    /// Begins a file whose bytes the caller takes, in order, with [`Writer::take`] and [`Writer::finish`]. Formats
    /// whose index comes first cannot be written so: `ZT_INVALID_ARG`.
    pub fn taken(settings: Settings) -> Result<Self> {
        if settings.format.index_first() {
            let message = format!(
                "{} has its index before the data, so it cannot be written to a stream, a pipe or a device; write it to a file",
                settings.format.title
            );
            return Err(Error::new(Code::InvalidArg, message));
        }
        settings.check()?;
        if settings.canonical {
            let message = "the blobs of a canonical file are put in order at the end, so it cannot be written to a \
                           stream, a pipe or a device; write it to a file, or with canonical: false";
            return Err(Error::new(Code::InvalidArg, message));
        }
        Self::new(Out::Taken, settings)
    }

    fn new(out: Out, settings: Settings) -> Result<Self> {
        let magic = settings.format.magic;
        let mut writer = Self::at(0, out, settings);
        writer.buffer.extend(magic)?;
        writer.position = magic.len() as u64;
        Ok(writer)
    }

    /// A writer whose first byte is the file's at `position`.
    fn at(position: u64, out: Out, mut settings: Settings) -> Self {
        settings.digest = settings.format.checksum.or(settings.digest);
        let builder = Builder::new(settings.format.container(), &Limits::default());
        let buffer = Block::default();
        let shards = Shards::new(settings.format, settings.max_shard);
        let is_checkpoint = matches!(settings.format.shards, Sharding::Checkpoint);
        let parts = settings.max_shard.filter(|_| is_checkpoint).map(Parts::new);
        let gathering = Gathering::new(&settings);
        Self {
            behind: None,
            out,
            settings,
            builder,
            buffer,
            position,
            shards,
            parts,
            open: None,
            gathering,
            unplaced: 0,
            spare: None,
            edit: None,
            laid: None,
            contents: Contents::default(),
        }
    }

    /// Gives the file attributes, in place of those of its settings.
    pub fn set_attributes(&mut self, attributes: &Attributes) -> Result<()> {
        let values = attributes.values()?;
        (self.settings.format.check_attributes)(&values, self.settings.canonical)?;
        // Made now: what is empty shall be known to be.
        self.settings.attributes = values.into_owned().into();
        Ok(())
    }

    /// Says how many bytes of data are to come in all, so that the file system can lay the file out in large pieces. Only
    /// a hint; what is not used is given back at the end.
    pub fn expect(&mut self, length: u64) {
        match (&mut self.out, self.settings.compression) {
            (Out::File(file), None) => file.reserve(length),
            (Out::Upload(upload), _) => upload.expect(length),
            _ => {}
        }
    }

    /// A nameless file beside the one being written, for what has to be put in another order first.
    pub fn spool(&self) -> Result<Spool> {
        match &self.out {
            Out::File(file) | Out::Spool(_, file) => file.spool(),
            _ => Spool::in_temp_folder(),
        }
    }

    /// Bytes of the file so far, and those that are compressed yet.
    pub fn written(&self) -> u64 {
        self.position + self.unplaced
    }

    pub fn format(&self) -> &'static WriteFormat {
        self.settings.format
    }
}
