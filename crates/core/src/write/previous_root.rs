//! The root that a new one replaces, and the data shards that become obsolete.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::shard_names::{round_of, shard_path};
use crate::error::{Code, Error, Result};
use crate::formats::{DataShards, Input};
use crate::limits::{self, Limits};
use crate::model::Shard;
use crate::sources::file::FileSource;
use crate::sources::identity::Identity;
use crate::work::Stop;

/// The old root; empty if it does not exist or cannot be read.
#[derive(Default)]
pub struct OldRoot {
    /// How to read it; `None` if it was not read.
    data: Option<&'static DataShards>,
    identity: Option<Identity>,
    shards: Vec<Shard>,
}

impl OldRoot {
    /// Reads the root at `path`, which is about to be replaced.
    pub fn of(path: &Path, data: &'static DataShards) -> Self {
        let shards = shards_of(path, data).unwrap_or_default();
        Self { data: Some(data), identity: identity(path), shards }
    }

    /// Returns the first round of shard names that the old root does not use.
    pub fn free_round(&self) -> u32 {
        let used: HashSet<u32> = self.shards.iter().filter_map(|shard| round_of(&shard.name)).collect();
        (1..u32::MAX).find(|round| !used.contains(round)).unwrap_or(u32::MAX)
    }

    /// Returns the files that are obsolete once a root with the shards `new` is at `path`. Fails with `ZT_IO` if
    /// another process replaced the old root meanwhile: its shards may have the names of the new ones.
    pub fn leaves(&self, path: &Path, new: &[Shard]) -> Result<Vec<PathBuf>> {
        let Some(data) = self.data else { return Ok(Vec::new()) };
        if identity(path) != self.identity {
            let message = "the file was changed or replaced by another process while the new one was written";
            return Err(Error::new(Code::Io, message));
        }
        let new: HashSet<&str> = new.iter().map(|shard| &*shard.name).collect();
        let own = |shard: &&Shard| round_of(&shard.name).is_some() && !new.contains(&*shard.name);
        let own: Vec<&Shard> = self.shards.iter().filter(own).collect();
        if own.is_empty() {
            return Ok(Vec::new());
        }
        let others = Others::in_folder_of(path, data);
        let files = own.into_iter().filter(|shard| !others.may_need(shard));
        let files = files.map(|shard| (shard_path(path, &shard.name), shard));
        Ok(files.filter(|(path, shard)| is_data_shard(path, shard, data)).map(|(path, _)| path).collect())
    }
}

fn identity(path: &Path) -> Option<Identity> {
    path.metadata().ok().map(|metadata| Identity::of(&metadata))
}

fn shards_of(path: &Path, data: &DataShards) -> Option<Vec<Shard>> {
    let source = FileSource::open(path).ok()?;
    (data.read)(&Input::alone(&source, &Limits::default(), Stop::never())).ok()
}

/// Sizes, algorithms and digests of the shards of all other roots in a folder. A root can find a shard by these,
/// whatever its name.
struct Others(HashMap<u64, HashMap<String, HashSet<String>>>);

impl Others {
    fn in_folder_of(root: &Path, data: &DataShards) -> Self {
        let mut found = Self(HashMap::new());
        let Ok(entries) = std::fs::read_dir(root.parent().unwrap_or(Path::new("."))) else { return found };
        let paths = entries.take(limits::FOLDER_ENTRIES).filter_map(|entry| Some(entry.ok()?.path()));
        let is_file = |path: &PathBuf| path != root && path.extension().is_some_and(|found| found == "zt");
        for shard in paths.filter(is_file).filter_map(|path| shards_of(&path, data)).flatten() {
            let (algorithm, digest) = digest_of(&shard);
            found.0.entry(shard.size).or_default().entry(algorithm).or_default().insert(digest);
        }
        found
    }

    /// Returns whether another root may refer to the shard. Digests of different algorithms cannot be compared, so they
    /// count as a match.
    fn may_need(&self, shard: &Shard) -> bool {
        let (own, digest) = digest_of(shard);
        let sized = self.0.get(&shard.size).into_iter().flatten();
        sized.into_iter().any(|(algorithm, digests)| *algorithm != own || digests.contains(&digest))
    }
}

/// Returns the algorithm and the value of the digest.
fn digest_of(shard: &Shard) -> (String, String) {
    let text = shard.digest.text();
    let (algorithm, digest) = text.split_once(':').unwrap_or(("", &text));
    (algorithm.to_owned(), digest.to_owned())
}

/// Returns whether the file matches the entry in the root, and has no tensors of its own.
fn is_data_shard(path: &Path, shard: &Shard, data: &DataShards) -> bool {
    let Ok(source) = FileSource::open(path) else { return false };
    matches!((data.check)(&source, shard, Stop::never()), Ok(true))
}
