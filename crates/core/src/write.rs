//! Writes tensor files. The writer validates tensors as strictly as a reader does, lays them out as the format
//! requires, and hashes and compresses them in pieces. Depends on layouts, codecs, the encoders in `formats`, edits and
//! sinks.
#![forbid(unsafe_code)]

mod append;
mod as_read;
mod blob;
mod canonical;
pub(crate) mod check;
pub mod compact;
mod compression_queue;
mod deduplicate;
mod destination;
mod division;
mod finish;
mod flush;
mod framing;
mod gathered;
mod header;
mod index_first;
mod join;
mod link;
mod open_tensor;
mod pack;
mod packers;
mod parts;
mod planned;
mod previous_root;
mod seekable;
mod settings;
mod shard_names;
pub mod shards;
pub mod sparse;
mod split;
mod tensor;
mod uncompress;

use std::path::Path;
use std::sync::Arc;

use crate::edit::{Edit, apply};
use crate::error::{Code, Error, Result};
pub use crate::formats::WriteFormat;
use crate::formats::{AttributeChanges, Doubles, NeededFirst, Sharding};
use crate::limits::Limits;
use crate::model::{Attributes, Builder, SetPart};
use crate::sinks::block::Block;
use crate::sinks::upload::Uploads;
use crate::sinks::write_behind::WriteBehind;
use crate::sinks::{AtomicFile, Spool, store};
pub use append::{Appending, Hashing};
pub use as_read::ExpectedAttributes;
use blob::Contents;
use compression_queue::CompressionQueue;
pub use destination::ByteStream;
use destination::Destination;
pub use division::Division;
pub use finish::Finished;
use framing::Planned;
pub use index_first::Assembly;
pub use join::SetFile;
use open_tensor::Open;
use parts::Parts;
pub use planned::Plan;
pub use settings::{Compression, Settings, Spec};
use shards::Shards;

/// A file being written. A block buffers the bytes, and goes into the file when it is full. A separate thread writes
/// the blocks if there is more than one.
pub struct Writer {
    /// Declared before `out`, because the thread has to end before the file is discarded.
    behind: Option<WriteBehind>,
    out: Destination,
    settings: Settings,
    builder: Builder,
    buffer: Block,
    /// The position of the end of the buffer in the file or spool.
    position: u64,
    shards: Shards,
    parts: Option<Parts>,
    /// The bytes that attributes and tensors take in the index of the current file, at least. `None` before the first tensor.
    header: Option<u64>,
    /// The names so far, where readers may take two for the same one.
    doubles: Doubles,
    open: Option<Box<Open>>,
    /// Tensors that other threads compress.
    gathering: Option<CompressionQueue>,
    /// The uncompressed bytes of all gathered blobs. They have no offset in the file when they are gathered.
    unplaced: u64,
    /// The memory of the previous tensor, for reuse: allocations took a third of the time of adding a small tensor.
    reusable: Option<Box<Open>>,
    /// The edit of an existing file, if the writer appends to one.
    edit: Option<Edit>,
    /// The plan of the file, if its index was planned out before the data.
    planned: Option<Box<Planned>>,
    /// The blobs already in the file, for the canonical form.
    contents: Contents,
}

impl Writer {
    /// Creates a file that appears at `target` with [`Writer::finish`].
    pub fn create(target: &Path, settings: Settings) -> Result<Self> {
        settings.check()?;
        let file = AtomicFile::create(target, settings.overwrite)?;
        let out = if settings.format.index_first() {
            Destination::Spool(Spool::in_folder_of(target)?, file)
        } else {
            Destination::File(file)
        };
        Self::new(out, settings)
    }

    /// Creates a file in a store. It appears at `target` with [`Writer::finish`]. A file that is written front to back
    /// is uploaded as it is written; any other file is first assembled in the folder for temporary files. Fails with
    /// `ZT_EXISTS` if the file exists, unless it may be overwritten. A set of files never replaces existing files.
    pub fn upload(uploads: &Arc<dyn Uploads>, target: &Path, settings: Settings) -> Result<Self> {
        settings.check()?;
        let stop = &settings.stop;
        let is_set = settings.max_shard.is_some();
        if is_set {
            let index = match settings.format.shards {
                Sharding::Checkpoint(checkpoint) if checkpoint.is_indexed => {
                    Some(parts::index_path(target, checkpoint))
                }
                _ => None,
            };
            for path in std::iter::once(target).chain(index.as_deref()) {
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
                Destination::Spool(Spool::in_temp_folder()?, AtomicFile::for_upload(uploads, target, stop)?)
            }
            (true, false) => Destination::SpoolUpload(Spool::in_temp_folder()?, uploads.begin(target, stop)?),
            (false, false) if !settings.canonical => Destination::Upload(uploads.begin(target, stop)?),
            (false, _) => Destination::File(AtomicFile::for_upload(uploads, target, stop)?),
        };
        Self::new(out, settings)
    }

    /// Creates a writer whose bytes the caller takes, in order, with [`Writer::take`] and [`Writer::finish`]. If the
    /// index comes first, it must be planned with [`Writer::plan`]. Fails with `ZT_INVALID_ARG` if it cannot be,
    /// because checksums or several files depend on the data, and for the canonical form.
    pub fn taken(settings: Settings) -> Result<Self> {
        let format = settings.format;
        if format.index_first() {
            let reason = if settings.max_shard.is_some() {
                Some("a model in several files cannot be".to_owned())
            } else if format.needs_first() == NeededFirst::Data {
                Some(format!(
                    "{} has the checksum of each tensor before its data, so it cannot be",
                    format.title
                ))
            } else {
                None
            };
            if let Some(reason) = reason {
                let message = format!("{reason} written to a stream, a pipe or a device; write it to a file");
                return Err(Error::new(Code::InvalidArg, message));
            }
        }
        settings.check()?;
        if settings.canonical {
            let message = "the blobs of a canonical file are put in order at the end, so it cannot be written to a \
                           stream, a pipe or a device; write it to a file";
            return Err(Error::new(Code::InvalidArg, message).hint("canonical", ", or with canonical: false"));
        }
        Self::new(Destination::Taken, settings)
    }

    /// Creates a writer as [`Writer::taken`] does. If the index comes first, the caller keeps the bytes that it takes, and puts
    /// the file together as [`Finished::assembly`] says.
    pub fn kept(settings: Settings) -> Result<Self> {
        if !settings.format.index_first() || settings.max_shard.is_some() {
            return Self::taken(settings);
        }
        settings.check()?;
        Self::new(Destination::Kept, settings)
    }

    fn new(out: Destination, settings: Settings) -> Result<Self> {
        let magic = settings.format.magic;
        let mut writer = Self::at(0, out, settings);
        writer.buffer.extend(magic)?;
        writer.position = magic.len() as u64;
        Ok(writer)
    }

    /// Creates a writer whose first byte has the offset `position` in the file.
    fn at(position: u64, out: Destination, mut settings: Settings) -> Self {
        settings.digest = settings.format.checksum.or(settings.digest);
        let builder = Builder::new(settings.format.container(), &Limits::default());
        let buffer = Block::default();
        let shards = Shards::new(settings.format, settings.max_shard);
        let parts = match (settings.format.shards, settings.max_shard) {
            (Sharding::Checkpoint(checkpoint), Some(largest)) => Some(Parts::new(checkpoint, largest)),
            _ => None,
        };
        let gathering = CompressionQueue::new(&settings);
        Self {
            behind: None,
            out,
            settings,
            builder,
            buffer,
            position,
            shards,
            parts,
            header: None,
            doubles: Doubles::default(),
            open: None,
            gathering,
            unplaced: 0,
            reusable: None,
            edit: None,
            planned: None,
            contents: Contents::default(),
        }
    }

    /// Replaces the attributes of the file's settings by those of another file, with changes.
    pub fn take_attributes(&mut self, attributes: &Attributes, changes: AttributeChanges) -> Result<()> {
        let mut values = self.settings.format.values_of(attributes)?.into_owned();
        apply(&mut values, changes);
        (self.settings.format.check_attributes)(&values, self.settings.canonical)?;
        // Converted now, so that an empty map is recognized as empty.
        self.settings.attributes = values.into();
        Ok(())
    }

    /// Returns the attributes of the file.
    pub fn attributes(&self) -> &Attributes {
        &self.settings.attributes
    }

    /// States that the file is one of a set whose other files are written elsewhere.
    pub fn set_part(&mut self, part: SetPart) {
        self.builder.set_part(part);
    }

    /// Announces the total length of the data in bytes, so that the file system can allocate large extents. Only a
    /// hint: unused space is released at the end.
    pub fn expect(&mut self, length: u64) {
        match (&mut self.out, self.settings.compression) {
            (Destination::File(file), None) => file.reserve(length),
            (Destination::Upload(upload), _) => upload.expect(length),
            _ => {}
        }
    }

    /// Creates an unnamed file in the same folder as the one being written, for data that has to be reordered first.
    pub fn spool(&self) -> Result<Spool> {
        match &self.out {
            Destination::File(file) | Destination::Spool(_, file) => file.spool(),
            _ => Spool::in_temp_folder(),
        }
    }

    /// Returns the size of the file so far in bytes, plus the uncompressed bytes of all gathered tensors. Never less
    /// than the size of the file.
    pub fn written(&self) -> u64 {
        self.position + self.unplaced
    }

    pub fn format(&self) -> &'static WriteFormat {
        self.settings.format
    }
}
