//! A model in several files (zTensor 2 §7): the data shards of a root, and blobs of other models that a root refers to.
#![forbid(unsafe_code)]

use super::previous_root::OldRoot;
use super::shard_names::{own_name, shard_path};
use crate::arrange::Arrange;
use crate::codecs::digest::{Algorithm, Digest, Hasher};
use crate::error::{Code, Error, Result};
use crate::formats::{Sharding, WriteFormat};
use crate::model::{Blob, Catalog, Component, Shard, Tensor};
use crate::sinks::complete::CompleteFiles;
use crate::sinks::set::{self, Old};
use crate::sinks::{AtomicFile, Warning};
use crate::sources::ReadAt;
use crate::work::{PIECE, Watch};

/// A file that contains components.
enum Entry {
    /// A data shard: its position among the finished ones, or `None` while it is being written.
    Own(Option<usize>),
    /// An existing file that the root links to.
    Linked(Shard),
}

/// The files besides the root. A component's `file` is 0 for the root, and otherwise the index of an entry plus one.
pub struct Shards {
    format: &'static WriteFormat,
    /// The largest size of a shard in bytes. `None`: blobs go into the root.
    pub largest: Option<u64>,
    entries: Vec<Entry>,
    finished: CompleteFiles,
    /// The number of the file that blobs are written to.
    pub current: u32,
}

impl Shards {
    /// Formats without data shards ignore `largest`.
    pub fn new(format: &'static WriteFormat, largest: Option<u64>) -> Self {
        let largest = largest.filter(|_| matches!(format.shards, Sharding::Data(_)));
        let mut shards =
            Self { format, largest, entries: Vec::new(), finished: CompleteFiles::default(), current: 0 };
        if largest.is_some() {
            shards.open();
        }
        shards
    }

    /// Returns the bytes at the end of a data shard.
    pub fn footer(&self) -> &'static [u8] {
        match self.format.shards {
            Sharding::Data(shards) => shards.footer,
            Sharding::None | Sharding::Checkpoint(_) => &[],
        }
    }

    fn open(&mut self) {
        self.entries.push(Entry::Own(None));
        self.current = number(self.entries.len());
    }

    /// Returns whether a tensor with components of these `lengths` needs a new shard, given that the current one ends
    /// at `position`.
    pub fn is_full(&self, position: u64, alignment: u64, lengths: impl IntoIterator<Item = u64>) -> bool {
        let Some(largest) = self.largest else { return false };
        let start = self.format.magic.len() as u64;
        let end = lengths
            .into_iter()
            .fold(position, |end, length| end.saturating_next(alignment).saturating_add(length));
        position > start && end.saturating_add(self.footer().len() as u64) > largest
    }

    /// Stores the current shard, which is complete, and begins another one.
    pub fn next(&mut self, finished: AtomicFile) {
        self.keep(finished);
        self.open();
    }

    /// Stores the current shard.
    pub fn keep(&mut self, finished: AtomicFile) {
        if let Some(entry) = (self.current as usize).checked_sub(1).and_then(|at| self.entries.get_mut(at)) {
            *entry = Entry::Own(Some(self.finished.len()));
            self.finished.add(finished);
        }
    }

    /// Returns the number of files, with the root if there are data shards.
    pub fn count(&self) -> usize {
        self.entries.len() + 1
    }

    /// Returns whether any data shard is finished, so that the current one is not the only one.
    pub fn is_split(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry, Entry::Own(Some(_))))
    }

    /// Turns the only shard into the root, if all data went into one.
    pub fn join(&mut self, catalog: &mut Catalog) {
        let Some(own) = (self.current as usize).checked_sub(1) else { return };
        self.entries.remove(own);
        for component in catalog.components_mut() {
            let Some(Blob { file, .. }) = component.blob_mut() else { continue };
            match *file {
                own if own == self.current => *file = 0,
                other if other > self.current => *file = other - 1,
                _ => {}
            }
        }
        self.current = 0;
    }

    /// Returns the number of a linked file. Fails with `ZT_INVALID_ARG` if another file has the same name.
    fn linked(&mut self, shard: Shard) -> Result<u32> {
        let known = self
            .entries
            .iter()
            // Tensors of one file are linked one after the other.
            .rposition(|entry| matches!(entry, Entry::Linked(known) if known.name == shard.name));
        if let Some(at) = known {
            if matches!(&self.entries[at], Entry::Linked(known) if *known == shard) {
                return Ok(number(at + 1));
            }
            let message = format!("the shard {:?} is another file already", shard.name);
            return Err(Error::new(Code::InvalidArg, message));
        }
        self.entries.push(Entry::Linked(shard));
        Ok(number(self.entries.len()))
    }

    /// Returns the components of a tensor of the file `shard`, as this root refers to them. They were checked before.
    pub fn link(&mut self, tensor: Tensor<'_>, shard: Shard) -> Result<Vec<Component>> {
        let file = self.linked(shard)?;
        let mut linked = tensor.components().to_vec();
        linked.iter_mut().filter_map(Component::blob_mut).for_each(|blob| blob.file = file);
        Ok(linked)
    }

    /// Names and identifies all files. Data shards are named `00001-of-0000N`, in the order of writing. If `old` uses
    /// such a name, they are named `2-00001-of-0000N` and so on, so that the old set stays complete until the new root
    /// is published.
    pub fn table(&mut self, algorithm: Algorithm, old: &OldRoot) -> Result<Vec<Shard>> {
        let total = self.entries.iter().filter(|entry| matches!(entry, Entry::Own(_))).count();
        let mut table: Vec<Shard> = Vec::with_capacity(self.entries.len());
        let mut ordinal = 0;
        let round = old.free_round();
        for entry in &self.entries {
            table.push(match entry {
                Entry::Linked(shard) => shard.clone(),
                Entry::Own(file) => {
                    ordinal += 1;
                    let name = own_name(round, ordinal, total);
                    let Some(finished) = *file else {
                        return Err(Error::new(Code::Internal, "a shard is not complete"));
                    };
                    let (size, digest) = self.finished.with(finished, |file| file.whole(algorithm))?;
                    Shard { name: name.into(), size, digest }
                }
            });
        }
        let mut names: Vec<&str> = table.iter().map(|shard| &*shard.name).collect();
        names.arrange();
        let twice = names.iter().zip(names.iter().skip(1)).find(|(one, next)| one == next);
        if let Some((name, _)) = twice {
            let message = format!("the linked file and a shard of this one are both called {name:?}");
            return Err(Error::new(Code::InvalidArg, message));
        }
        Ok(table)
    }

    /// Publishes the data shards in the folder of the root, then the root: nothing refers to the shards before that.
    /// Removes the obsolete files of `old` afterwards.
    pub fn commit(self, table: &[Shard], root: AtomicFile, old: &OldRoot) -> Result<Vec<Warning>> {
        let mut own = self.finished;
        for (entry, shard) in self.entries.iter().zip(table) {
            if let Entry::Own(Some(finished)) = *entry {
                own.with(finished, |file| file.retarget(shard_path(root.target(), &shard.name)))?;
            }
        }
        let target = root.target().to_owned();
        set::put(own, root, || Ok(Old { before: Vec::new(), after: old.leaves(&target, table)? }))
    }
}

fn number(ordinal: usize) -> u32 {
    u32::try_from(ordinal).unwrap_or(u32::MAX)
}

trait SaturatingNext {
    fn saturating_next(self, multiple: u64) -> u64;
}

impl SaturatingNext for u64 {
    fn saturating_next(self, multiple: u64) -> u64 {
        self.checked_next_multiple_of(multiple).unwrap_or(Self::MAX)
    }
}

/// Returns the digest over all bytes of a source.
pub fn whole_digest(source: &dyn ReadAt, algorithm: Algorithm, watch: &Watch) -> Result<Digest> {
    let mut hasher: Hasher = algorithm.hasher();
    let (mut at, total) = (0, source.length());
    let mut piece = vec![0; usize::try_from(total).unwrap_or(PIECE).min(PIECE)];
    while at < total {
        watch.stop.check()?;
        let count = usize::try_from(total - at).unwrap_or(PIECE).min(PIECE);
        let piece = piece.get_mut(..count).unwrap_or_default();
        source.read_at(at, piece, &watch.stop)?;
        hasher.update(piece);
        at += count as u64;
        watch.did_bytes(count as u64);
    }
    Ok(algorithm.digest(hasher))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_full_when_a_tensor_would_exceed_it() {
        let new = |largest| Shards::new(WriteFormat::ZT2, largest);
        let shards = new(Some(3 * 4096 + 40));
        assert!(!shards.is_full(8, 4096, [1 << 40]));
        assert!(!shards.is_full(4096 + 1, 4096, [4096]));
        assert!(shards.is_full(4096 + 1, 4096, [4096 + 1]));
        assert!(shards.is_full(4096 + 1, 4096, [1, 1]));
        assert!(shards.is_full(4096 + 1, 4096, [u64::MAX]));
        assert!(!new(None).is_full(1 << 40, 4096, [1]));
    }
}
