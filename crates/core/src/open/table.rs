//! The files behind a shard table (zTensor 2 §7): where they are by convention, by identity, or by the caller's word. Each is
//! looked at when the root is opened, as its format asks. Its digest is for `verify()`.
#![forbid(unsafe_code)]

use crate::arrange::Arrange;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::request::{Lookup, Request, wanted_by};
use crate::error::{Code, Error, Result};
use crate::formats::{DataShards, Sharding, WriteFormat};
use crate::limits;
use crate::model::{Catalog, Shard};
use crate::sources::files::Member;
use crate::sources::siblings::Folder;
use crate::verify;
use crate::work::Watch;

/// The members of a root's shards, in the order of its table; one error for all that cannot be found.
pub fn resolve(root: &Path, catalog: &Catalog, request: &Request) -> Result<Vec<Member>> {
    let shards = &catalog.shards;
    if shards.len() > limits::FILES {
        return Err(Error::new(Code::Limit, format!("{} shards, more than {}", shards.len(), limits::FILES)));
    }
    let Some(Sharding::Data(data)) = WriteFormat::of(catalog).map(|format| format.shards) else {
        return Ok(Vec::new());
    };
    let (mut members, mut problems) = (Vec::new(), Vec::new());
    let mut by_identity = ByIdentity { root, sized: None, request, data };
    for shard in shards {
        request.stop.check()?;
        match find(root, shard, &mut by_identity) {
            Ok(member) => members.push(member.of_shard(shard)),
            Err(error) => problems.push(error),
        }
    }
    // A shard that was not looked for to the end is no problem of the set.
    request.stop.check()?;
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    match Error::all(&format!("the shards of the root '{name}'"), problems) {
        Some(error) if error.causes().is_empty() => Err(wanted_by(error, "root", &name).of_set()),
        Some(error) => Err(error.of_set()),
        None => Ok(members),
    }
}

fn find(root: &Path, shard: &Shard, by_identity: &mut ByIdentity<'_>) -> Result<Member> {
    let ByIdentity { request, data, .. } = *by_identity;
    let given = match &request.lookup {
        Lookup::Unread => return Ok(Member::unread(None, shard.size)),
        Lookup::At(paths) => paths.get(&*shard.name),
        Lookup::Siblings => None,
    };
    if let Some(path) = given {
        return look(path, shard, data, request);
    }
    // Under its conventional name, or elsewhere as the file of its size and digest.
    let default = Folder::of(root, &*request.filesystem).find(&positional(root, &shard.name));
    default.and_then(|path| look(&path, shard, data, request)).or_else(|error| {
        by_identity.find(shard).and_then(|path| look(&path, shard, data, request).ok()).ok_or(error)
    })
}

/// `<stem>-<name>.zt` next to `<stem>.zt` (Appendix B). The name is safe in a path: the format admits no other.
fn positional(root: &Path, name: &str) -> String {
    let stem = root.file_name().unwrap_or_default().to_string_lossy();
    let stem = stem.strip_suffix(".zt").unwrap_or(&stem);
    format!("{stem}-{name}.zt")
}

/// A file as a shard, if it can be that one.
fn look(path: &Path, shard: &Shard, data: &DataShards, request: &Request) -> Result<Member> {
    let named =
        |error: Error| error.in_file(&path.file_name().unwrap_or(path.as_os_str()).to_string_lossy(), path);
    let source = request.filesystem.open(path, &request.stop).map_err(named)?;
    let member = Member::one_of_many(path, Arc::clone(&source), &*request.filesystem).map_err(named)?;
    (data.check)(&*source, shard, &request.stop).map_err(named)?;
    Ok(member)
}

/// Looks for a shard under any name in the root's folder.
struct ByIdentity<'r> {
    root: &'r Path,
    /// Files of the folder and their sizes, read once.
    sized: Option<Vec<(PathBuf, u64)>>,
    request: &'r Request,
    data: &'static DataShards,
}

impl ByIdentity<'_> {
    /// The file that has the size and the digest of the shard. Files of its size are read whole, so that none is looked for where
    /// reading takes long.
    fn find(&mut self, shard: &Shard) -> Option<PathBuf> {
        if !self.request.filesystem.is_local() {
            return None;
        }
        let (root, watch) = (self.root, Watch::stopped_by(&self.request.stop));
        let sized = self.sized.get_or_insert_with(|| sized(root));
        let candidates = sized.iter().filter(|(_, size)| *size == shard.size);
        let same = |path: &&PathBuf| {
            let opened = self.request.filesystem.open(path, &watch.stop);
            let hashed = opened.and_then(|source| verify::whole(&*source, &shard.digest, &watch));
            hashed.is_ok_and(|known| known)
        };
        candidates.map(|(path, _)| path).find(same).cloned()
    }
}

fn sized(root: &Path) -> Vec<(PathBuf, u64)> {
    let folder = root.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let entries = entries.filter_map(std::result::Result::ok).take(limits::FOLDER_ENTRIES);
    let files = entries.filter_map(|entry| {
        let path = entry.path();
        // Through links: a store of blobs is often linked to.
        let metadata = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some((path, metadata.len()))
    });
    let mut files: Vec<_> = files.collect();
    files.arrange();
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::digest::Digest;
    use crate::formats::zt_magic;
    use crate::model::Builder;

    #[test]
    fn a_root_has_as_many_shards_as_a_set_has_files() {
        let shard =
            Shard { name: "a".into(), size: 8, digest: Digest::parse("xxh3:0011223344556677").unwrap() };
        let request = Request { lookup: Lookup::Unread, ..Request::default() };
        for (count, refused) in [(limits::FILES, None), (limits::FILES + 1, Some(Code::Limit))] {
            let mut builder = Builder::new(zt_magic::CONTAINER, &limits::Limits::default());
            builder.set_version("2");
            let mut catalog = builder.finish();
            catalog.shards = vec![shard.clone(); count];
            let resolved = resolve(Path::new("root.zt"), &catalog, &request);
            assert_eq!(resolved.err().map(|error| error.code()), refused, "{count}");
        }
    }
}
