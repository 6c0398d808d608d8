//! Joins the files of a set that other writers have written.
#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::Arc;

use super::Writer;
use super::destination::Destination;
use super::parts;
use super::shard_names::own_name;
use crate::codecs::digest::Digest;
use crate::error::Result;
use crate::formats::Sharding;
use crate::model::{Catalog, Shard};

/// A complete file of a set.
pub struct SetFile {
    pub catalog: Arc<Catalog>,
    /// Bytes of the whole file, and their digest.
    pub size: u64,
    pub digest: Digest,
}

impl Writer {
    /// Returns the bytes of the file that refers to the files of a set, in order: the root, with the attributes of this writer, or the
    /// index. `None` for a set without such a file. `target` is the path after which the files are named.
    pub fn join(mut self, target: &Path, files: &[SetFile]) -> Result<Option<Vec<u8>>> {
        let total = files.len();
        match self.settings.format.shards {
            Sharding::Checkpoint(set) if set.is_indexed => {
                let paths = (1..=total).map(|number| parts::part_path(target, set, number, total));
                let files = files.iter().map(|file| &*file.catalog);
                Ok(Some(parts::index_of(&paths.zip(files).collect::<Vec<_>>()).into_bytes()))
            }
            Sharding::None | Sharding::Checkpoint(_) => Ok(None),
            Sharding::Data(_) => {
                self.out = Destination::Taken;
                for (at, SetFile { catalog, size, digest }) in files.iter().enumerate() {
                    let name: Box<str> = own_name(1, at + 1, total).into();
                    for tensor in catalog.iter() {
                        self.settings.stop.check()?;
                        let shard = Shard { name: name.clone(), size: *size, digest: digest.clone() };
                        self.link(tensor.name(), tensor, catalog, shard)?;
                    }
                }
                self.finish().map(|finished| Some(finished.rest))
            }
        }
    }
}
