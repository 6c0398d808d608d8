//! Writes tensor files: what is added is validated as strictly as what is read, laid out as the format asks,
//! hashed and compressed on the way. Bytes are taken in pieces, so that nothing is ever held whole.
#![forbid(unsafe_code)]

mod append;
pub mod arrange;
mod blob;
mod dialect;
mod index_first;
mod out;
mod parts;
mod restore;
pub mod shards;
pub mod strict;
pub(crate) mod zt2;

use std::fs::File;
use std::path::Path;

use crate::catalog::{
    Attributes, Builder, ByteOrder, Catalog, Component, DType, DataRule, Label, Layout, NewTensor, Shard,
    Tensor,
};
use crate::codec::digest::Algorithm;
use crate::edit::Edit;
use crate::error::{Code, Error, Result};
use crate::format::zt2::{encode, manifest, vocabulary};
use crate::format::{zt_trailer, zt01_encode, zt1_encode};
use crate::inject;
use crate::layout;
use crate::limits::Limits;
use crate::sink::behind::Behind;
use crate::sink::block::{Block, FULL};
use crate::sink::{AtomicFile, Spool, kernel_copy};

pub use append::{Appending, Hashing};
use blob::Blob;
pub use blob::Compression;
pub use dialect::Dialect;
use out::Out;
use parts::Parts;
use shards::Shards;

/// How a file is written.
pub struct Settings {
    pub dialect: Dialect,
    /// Blobs begin at multiples of this; 64 at least, where the format aligns them.
    pub alignment: u64,
    pub digest: Option<Algorithm>,
    pub compression: Option<Compression>,
    pub overwrite: bool,
    /// zTensor 2: blobs in the order of their names, equal ones once (§6.3).
    pub canonical: bool,
    /// Bytes that a file may have before the next tensor goes into another one: in zTensor 2 (§7) of all, in safetensors of
    /// tensors.
    pub max_shard: Option<u64>,
    pub attributes: Attributes,
    pub generator: Option<String>,
}

/// A tensor about to be added.
pub struct Spec {
    pub name: String,
    pub shape: Vec<u64>,
    /// The layout's name.
    pub layout: String,
    pub dtype: Option<DType>,
    pub attributes: Option<Attributes>,
    /// Role, dtype and bytes of each component, in the order in which they will be pushed.
    pub components: Vec<(String, Option<DType>, u64)>,
}

/// Role, dtype and raw bytes of a blob, and what its elements must be.
type Stored = (Label, Option<DType>, Option<DataRule>, u64);

/// What is read straight into the block is passed on while it is in the processor's caches: from another core's, or from
/// memory, the copy into the file costs about twice the time.
const WARM: usize = 1 << 20;

/// A tensor being pushed.
struct Open {
    spec: Spec,
    layout: Layout,
    /// What is stored: the components, or one blob of them all.
    stored: Vec<Stored>,
    written: Vec<Component>,
    blob: Option<Blob>,
}

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
    open: Option<Open>,
    /// Where a file that is there is added to.
    edit: Option<Edit>,
}

impl Writer {
    /// Begins a file that appears at `target` with [`Writer::finish`].
    pub fn create(target: &Path, settings: Settings) -> Result<Self> {
        zt2::check_settings(&settings)?;
        let file = AtomicFile::create(target, settings.overwrite)?;
        let out = if settings.dialect.index_first() {
            Out::Spool(Spool::beside(target)?, file)
        } else {
            Out::File(file)
        };
        Self::new(out, settings)
    }

    /// Begins a file whose bytes the caller takes, in order, with [`Writer::take`] and [`Writer::finish`]. Formats
    /// whose index comes first cannot be written so: `ZT_INVALID_ARG`.
    pub fn taken(settings: Settings) -> Result<Self> {
        if settings.dialect.index_first() {
            let message = format!(
                "{} has its index before the data, so it cannot be written to a stream; write it to a path",
                settings.dialect.name()
            );
            return Err(Error::new(Code::InvalidArg, message));
        }
        zt2::check_settings(&settings)?;
        if settings.canonical {
            let message = "the blobs of a canonical file are put in order at the end, so it cannot be written to a \
                           stream; write it to a path, or with canonical: false";
            return Err(Error::new(Code::InvalidArg, message));
        }
        Self::new(Out::Taken, settings)
    }

    fn new(out: Out, settings: Settings) -> Result<Self> {
        let magic: &[u8] = match settings.dialect {
            Dialect::Zt01 => b"ZTEN0001",
            Dialect::Zt10 | Dialect::Zt11 | Dialect::Zt12 => b"ZTEN1000",
            Dialect::Zt2 => &encode::MAGIC,
            Dialect::Safetensors | Dialect::Btf => b"",
        };
        let mut writer = Self::at(0, out, settings);
        writer.buffer.extend(magic)?;
        writer.position = magic.len() as u64;
        Ok(writer)
    }

    /// A writer whose first byte is the file's at `position`.
    fn at(position: u64, out: Out, settings: Settings) -> Self {
        let builder = Builder::new(settings.dialect.container(), &Limits::default());
        let buffer = Block::default();
        let largest = |dialect| settings.max_shard.filter(|_| settings.dialect == dialect);
        let shards = Shards::new(largest(Dialect::Zt2));
        let parts = largest(Dialect::Safetensors).map(Parts::new);
        Self { behind: None, out, settings, builder, buffer, position, shards, parts, open: None, edit: None }
    }

    /// Gives the file attributes, in place of those of its settings.
    pub fn set_attributes(&mut self, attributes: Attributes) -> Result<()> {
        if self.settings.dialect == Dialect::Zt2 {
            zt2::check_attributes(&attributes, self.settings.canonical)?;
        }
        self.settings.attributes = attributes;
        Ok(())
    }

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

    /// Ends the current data shard and begins another one.
    fn next_shard(&mut self) -> Result<()> {
        let finished = self.end_shard()?;
        self.shards.next(finished);
        self.buffer.extend(&encode::MAGIC)?;
        self.position = self.buffer.len() as u64;
        Ok(())
    }

    /// Writes all that was pushed, so that the file can be looked at or changed.
    fn settle(&mut self) -> Result<()> {
        if let Some(mut behind) = self.behind.take() {
            behind.drain()?;
        }
        self.out.drain(&mut self.buffer)
    }

    /// Ends the current file of a checkpoint and begins another one.
    fn next_part(&mut self) -> Result<()> {
        self.settle()?;
        let dialect = self.settings.dialect;
        let (Out::Spool(spool, file), Some(parts)) = (&mut self.out, &mut self.parts) else { return Ok(()) };
        self.position = 0;
        let empty = Builder::new(dialect.container(), &Limits::default());
        let mut builder = std::mem::replace(&mut self.builder, empty);
        builder.attributes(self.settings.attributes.clone());
        let catalog = builder.finish();
        index_first::assemble(dialect, &catalog, spool, file)?;
        *spool = file.spool()?;
        let next = file.another()?;
        parts.keep(std::mem::replace(file, next), catalog);
        Ok(())
    }

    /// The current data shard, to its last byte; another file has taken its place.
    fn end_shard(&mut self) -> Result<AtomicFile> {
        self.buffer.extend(&encode::footer(None))?;
        self.settle()?;
        let Out::File(file) = &mut self.out else {
            return Err(Error::new(Code::InvalidArg, "several files cannot be written to a stream"));
        };
        let next = file.another()?;
        Ok(std::mem::replace(file, next))
    }

    /// Adds a tensor whose bytes stay in `shard`, the file that `catalog` is of.
    pub fn link(&mut self, name: &str, tensor: Tensor<'_>, catalog: &Catalog, shard: Shard) -> Result<()> {
        if self.open.is_some() {
            return Err(Error::new(Code::InvalidArg, "another tensor is still being written"));
        }
        if self.settings.dialect != Dialect::Zt2 || self.settings.canonical {
            let message =
                "only zTensor 2 links to other files, with canonical: false: a canonical file is one file";
            return Err(Error::new(Code::InvalidArg, message).tensor(name));
        }
        if self.edit.is_some() {
            let message = "a file that is edited takes no links: write a new root that links to both files";
            return Err(Error::new(Code::InvalidArg, message).tensor(name));
        }
        let spec = Spec {
            name: name.to_owned(),
            shape: tensor.shape().to_vec(),
            layout: tensor.layout_name().to_owned(),
            dtype: tensor.dtype(),
            attributes: tensor.attributes().cloned(),
            components: Vec::new(),
        };
        let linked = zt2::check_link(&spec).and_then(|()| {
            if self.builder.contains(name) {
                return Err(Error::new(Code::BadIndex, "a tensor of this name was added already"));
            }
            shards::link(&mut self.shards, tensor, catalog, shard)
        });
        let mut components = linked.map_err(|error| error.tensor(name))?;
        for component in &mut components {
            component.role = self.builder.intern(catalog.label(component.role));
        }
        let layout = Layout::from_label(self.builder.intern(&spec.layout));
        let Spec { shape, dtype, attributes, .. } = spec;
        self.builder.tensor(NewTensor { name, shape: &shape, layout, dtype, components, attributes })
    }

    fn check(&mut self, spec: &Spec) -> Result<(Layout, Vec<Stored>)> {
        let dialect = self.settings.dialect;
        if self.has(&spec.name) {
            return Err(Error::new(Code::BadIndex, "a tensor of this name is there already"));
        }
        if dialect == Dialect::Btf && spec.name != self.builder.len().to_string() {
            let message = format!("BTF has no names: this tensor must be called \"{}\"", self.builder.len());
            return Err(Error::new(Code::InvalidArg, message));
        }
        if dialect == Dialect::Safetensors && spec.name == "__metadata__" {
            return Err(Error::new(Code::InvalidArg, "safetensors keeps this name for its metadata"));
        }
        let layout = Layout::from_label(self.builder.intern(&spec.layout));
        if !dialect.holds_layout(layout) {
            let message = format!("{} cannot hold the layout {:?}", dialect.name(), spec.layout);
            return Err(Error::new(Code::BadLayout, message));
        }
        // BTF's coordinates are uint64, a type that its tensors cannot have.
        let coords = |role: &str| dialect == Dialect::Btf && role == "coords";
        let parts =
            spec.components.iter().filter(|(role, ..)| !coords(role)).filter_map(|(_, dtype, _)| *dtype);
        if let Some(dtype) = parts.chain(spec.dtype).find(|&dtype| !dialect.holds(dtype)) {
            let message = format!("{} cannot hold {}", dialect.name(), dtype.name());
            return Err(Error::new(Code::BadDtype, message));
        }
        if spec.attributes.as_ref().is_some_and(|list| !list.is_empty()) && !dialect.holds_tensor_attributes()
        {
            let message = format!("{} has no attributes of a tensor", dialect.name());
            return Err(Error::new(Code::InvalidArg, message));
        }
        let one_blob = !matches!(dialect, Dialect::Zt10 | Dialect::Zt12);
        if layout == Layout::Dense && one_blob && spec.components.len() > 1 {
            let message = format!("{} stores one component of a dense tensor, \"data\"", dialect.name());
            return Err(Error::new(Code::BadLayout, message));
        }
        if dialect == Dialect::Zt2 {
            zt2::check_spec(spec, self.settings.canonical)?;
        }
        if dialect == Dialect::Zt01 {
            zt01_encode::check_custom(spec.attributes.as_deref().unwrap_or_default())?;
        }
        let mut components = Vec::new();
        for (role, dtype, length) in &spec.components {
            let role = self.builder.intern(role);
            if components.iter().any(|component: &Component| component.role == role) {
                return Err(
                    Error::new(Code::BadIndex, "the role stands twice").component(self.builder.label(role))
                );
            }
            components.push(Component::raw(role, *dtype, 0, *length));
        }
        let elements = if layout == Layout::Dense { Label::DATA } else { Label::VALUES };
        let known = matches!(layout, Layout::Dense | Layout::SparseCsr | Layout::SparseCoo);
        let own = components.iter().find(|component| known && component.role == elements);
        if let Some(own) = own.filter(|own| own.dtype != spec.dtype) {
            let (own, tensor) =
                (own.dtype.map_or("bytes", DType::name), spec.dtype.map_or("of no type", DType::name));
            return Err(Error::new(
                Code::BadDtype,
                format!("the tensor is {tensor}, its elements are {own}"),
            ));
        }
        let (name, shape, dtype) = (spec.name.as_str(), spec.shape.as_slice(), spec.dtype);
        let attributes = spec.attributes.clone().filter(|_| dialect == Dialect::Zt2);
        let mut tensor = NewTensor { name, shape, layout, dtype, components, attributes };
        if dialect == Dialect::Zt2 {
            manifest::check(vocabulary::profile(vocabulary::layout_id(&spec.layout)), &mut tensor)?;
        } else {
            layout::check(&mut tensor)?;
        }
        self.builder.check_shape(shape)?;
        if layout != Layout::Dense && dialect.packs() {
            let framing = if dialect == Dialect::Btf { arrange::BTF_FRAMING } else { 0 };
            let length = spec.components.iter().map(|(.., length)| length).sum::<u64>() + framing;
            return Ok((layout, vec![(Label::DATA, dtype, None, length)]));
        }
        // A layout's own rules are on all of its components together; those are the reader's to check.
        let rule = |part: &Component| match part.data_rule {
            None if part.dtype == Some(DType::Bool) => Some(DataRule::Bool),
            rule => rule,
        };
        let stored = tensor
            .components
            .iter()
            .map(|part| (part.role, part.dtype, rule(part), part.stored_length))
            .collect();
        Ok((layout, stored))
    }

    /// Whether a tensor of this name is in the file, or was added to it.
    fn has(&self, name: &str) -> bool {
        self.builder.contains(name)
            || self.parts.as_ref().is_some_and(|parts| parts.contains(name))
            || self.edit.as_ref().is_some_and(|edit| edit.contains(name))
    }

    /// Begins the next blob, at its alignment.
    fn open_blob(&mut self) -> Result<()> {
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

    /// Says how many bytes of data are to come in all, so that the file system can lay the file out in large pieces. Only
    /// a hint; what is not used is given back at the end.
    pub fn expect(&mut self, length: u64) {
        if let (Out::File(file), None) = (&mut self.out, self.settings.compression) {
            file.reserve(length);
        }
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

    fn close_blob(&mut self) -> Result<()> {
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

    fn named(&self, error: Error) -> Error {
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

    /// Bytes that wait in the buffer.
    pub fn pending(&self) -> usize {
        self.buffer.len()
    }

    /// A nameless file beside the one being written, for what has to be put in another order first.
    pub fn spool(&self) -> Result<Spool> {
        match &self.out {
            Out::File(file) | Out::Spool(_, file) => file.spool(),
            Out::Replacement(_) | Out::Grown(_) | Out::Taken => {
                Spool::beside(&std::env::temp_dir().join("ztensor"))
            }
        }
    }

    pub fn dialect(&self) -> Dialect {
        self.settings.dialect
    }

    /// Passes full blocks on to be written, as far as that takes no waiting. What is pending then waits for
    /// [`Writer::flush_if_full`].
    pub fn pass_on(&mut self) -> Result<()> {
        while self.pending() >= FULL && self.behind().is_some_and(Behind::has_room) {
            self.write_block(FULL)?;
        }
        Ok(())
    }

    /// Passes full blocks on to be written; waits where too many of them wait already.
    pub fn flush_if_full(&mut self) -> Result<()> {
        while self.pending() >= FULL && !matches!(self.out, Out::Taken) {
            self.write_block(FULL)?;
        }
        Ok(())
    }

    fn write_block(&mut self, count: usize) -> Result<()> {
        self.behind();
        match &mut self.behind {
            Some(behind) => behind.write(&mut self.buffer, count),
            None => self.out.drain(&mut self.buffer),
        }
    }

    /// The thread that writes, from the first full block on.
    fn behind(&mut self) -> Option<&mut Behind> {
        if self.behind.is_none() {
            self.behind = self.out.file().and_then(Behind::new);
        }
        self.behind.as_mut()
    }

    /// The bytes that wait in the buffer, for a file that nobody else writes.
    pub fn take(&mut self) -> Vec<u8> {
        self.buffer.take()
    }

    /// Writes the index and puts the file under its name. Gives what the caller has to take yet.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        if let Some(open) = &self.open {
            return Err(Error::new(Code::InvalidArg, "the tensor is not complete").tensor(&open.spec.name));
        }
        self.builder.attributes(std::mem::take(&mut self.settings.attributes));
        if let Some(generator) = self.settings.generator.take() {
            self.builder.generator(generator);
        }
        if self.edit.as_ref().is_some_and(Edit::is_empty) && self.builder.is_empty() {
            return Ok(Vec::new());
        }
        let dialect = self.settings.dialect;
        if let Some(mut behind) = self.behind.take() {
            behind.drain()?;
        }
        if dialect == Dialect::Zt2 && self.edit.is_none() {
            return self.finish_zt2();
        }
        let catalog = self.builder.finish();
        if let Out::Spool(mut spool, mut file) = self.out {
            spool.write(self.buffer.from(0))?;
            index_first::assemble(dialect, &catalog, &spool, &mut file)?;
            match self.parts.filter(|parts| !parts.is_empty()) {
                Some(mut parts) => {
                    let target = file.target().to_owned();
                    parts.keep(file, catalog);
                    parts.commit(&target, self.settings.overwrite)?;
                }
                None => file.commit()?,
            }
            return Ok(Vec::new());
        }
        let tail = match (&self.edit, dialect) {
            (Some(edit), _) => edit.tail(&catalog, self.position)?,
            (None, Dialect::Zt01) => zt_trailer::tail(&zt01_encode::encode(&catalog), b""),
            (None, Dialect::Zt10) => zt_trailer::tail(&zt1_encode::zt10(&catalog), b""),
            (None, _) => zt_trailer::tail(&zt1_encode::zt12(&catalog), b"ZTEN1000"),
        };
        self.buffer.extend(&tail)?;
        self.out.drain(&mut self.buffer)?;
        self.out.commit()?;
        Ok(self.buffer.take())
    }

    fn finish_zt2(mut self) -> Result<Vec<u8>> {
        let split = self.shards.is_split();
        if split {
            let last = self.end_shard()?;
            self.shards.keep(last);
            self.buffer.extend(&encode::MAGIC)?;
            self.position = self.buffer.len() as u64;
        }
        let mut catalog = self.builder.finish();
        if !split {
            self.shards.join(&mut catalog);
        }
        let mut end = self.position;
        if let Out::File(file) = &mut self.out
            && self.settings.canonical
        {
            file.write(self.buffer.from(0))?;
            self.buffer.truncate(0);
            end = zt2::arrange(file, &mut catalog)?;
        }
        let algorithm = self.settings.digest.unwrap_or(Algorithm::Xxh3);
        let table = self.shards.table(algorithm)?;
        zt2::close(&catalog, &table, self.settings.alignment, end, &mut self.buffer)?;
        self.out.drain(&mut self.buffer)?;
        if let Out::File(root) = self.out {
            // The root comes last: before it is there, nothing refers to the shards.
            let beside = self.shards.commit(&table, &root)?;
            root.commit().inspect_err(|_| shards::withdraw(&beside))?;
        }
        Ok(self.buffer.take())
    }
}
