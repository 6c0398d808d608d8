//! A model in several numbered files, as on the Hugging Face Hub: `model-00001-of-00003.safetensors` and so on, and
//! `model.safetensors.index.json`, which maps each tensor to its file. GGUF has the numbers in its metadata instead.
#![forbid(unsafe_code)]

use crate::arrange::Arrange;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::formats::Checkpoint;
use crate::formats::safetensors_encode::quote;
use crate::model::{Catalog, SetPart, Tensor};
use crate::open::{Request, read_index};
use crate::paths;
use crate::paths::folder_of;
use crate::sinks::complete::CompleteFiles;
use crate::sinks::set::{self, Old};
use crate::sinks::{AtomicFile, Warning, exists};

/// The complete files of a checkpoint. None gets its name before all of them are complete.
pub struct Parts {
    checkpoint: &'static Checkpoint,
    /// The largest number of tensor bytes in one file.
    largest: u64,
    files: CompleteFiles,
    /// The contents of each file.
    catalogs: Vec<Catalog>,
}

impl Parts {
    pub fn new(checkpoint: &'static Checkpoint, largest: u64) -> Self {
        Self { checkpoint, largest, files: CompleteFiles::default(), catalogs: Vec::new() }
    }

    /// Returns whether a tensor of `length` bytes needs a new file, given that the current one has `position` bytes. A
    /// tensor larger than the limit gets a file of its own.
    pub fn is_full(&self, position: u64, length: u64) -> bool {
        is_full(position, length, self.largest)
    }

    /// Returns the largest number of tensor bytes in one file.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    pub fn contains(&self, name: &str) -> bool {
        self.catalogs.iter().any(|catalog| catalog.find(name).is_some())
    }

    pub fn is_empty(&self) -> bool {
        self.catalogs.is_empty()
    }

    /// Returns the number of complete files.
    pub fn count(&self) -> usize {
        self.catalogs.len()
    }

    /// Returns the position of the current file. The number of files is not known yet.
    pub fn next(&self) -> SetPart {
        SetPart { number: self.catalogs.len() as u64, count: 0, tensors: None }
    }

    pub fn keep(&mut self, file: AtomicFile, catalog: Catalog) {
        self.files.add(file);
        self.catalogs.push(catalog);
    }

    /// Returns the path of the file that opens the set: the index, or the first file.
    pub fn entry(&self, target: &Path) -> PathBuf {
        if self.checkpoint.is_indexed {
            index_path(target, self.checkpoint)
        } else {
            part_path(target, self.checkpoint, 1, self.catalogs.len())
        }
    }

    /// Publishes the files in the folder of `target`, the index, or else the first file, last: nothing refers to the other files before
    /// that.
    pub fn commit(self, target: &Path, overwrite: bool) -> Result<Vec<Warning>> {
        let Self { checkpoint, mut files, catalogs, .. } = self;
        let total = catalogs.len();
        let tensors = catalogs.iter().map(|catalog| catalog.len() as u64).sum();
        files.for_each(|index, file| {
            file.retarget(part_path(target, checkpoint, index + 1, total))?;
            let part = SetPart { number: index as u64, count: total as u64, tensors: Some(tensors) };
            for (offset, bytes) in (checkpoint.stated)(part)? {
                file.write_at(offset, &bytes)?;
            }
            Ok(())
        })?;
        let last = if checkpoint.is_indexed {
            let mut index = files.with(0, |first| first.sibling(&index_path(target, checkpoint)))?;
            let paths = (1..=total).map(|number| part_path(target, checkpoint, number, total));
            index.write(index_of(&paths.zip(&catalogs).collect::<Vec<_>>()).as_bytes())?;
            index
        } else {
            let Some(first) = files.take_first() else { return Ok(Vec::new()) };
            first
        };
        // A numbered set opens as a folder even without its index, so no old part may remain among the new ones.
        let before = || {
            let mut old =
                if overwrite || !checkpoint.is_indexed { old_set(target, checkpoint)? } else { Vec::new() };
            if !overwrite {
                // Files without an index are one set with the existing ones.
                return old.first().map_or(Ok(Vec::new()), |path| Err(exists(path)));
            }
            if checkpoint.is_indexed {
                old.insert(0, index_path(target, checkpoint));
            }
            Ok(old)
        };
        set::put(files, last, || Ok(Old { before: before()?, after: Vec::new() }))
    }

    /// Publishes a single file that could have been a set. It replaces the existing set if overwriting is allowed.
    pub fn commit_one(self, file: AtomicFile) -> Result<Vec<Warning>> {
        let (target, overwrite) = (file.target().to_owned(), file.overwrites());
        let after = || if overwrite { old_set(&target, self.checkpoint) } else { Ok(Vec::new()) };
        set::put(CompleteFiles::default(), file, || Ok(Old { before: Vec::new(), after: after()? }))
    }
}

/// See [`Parts::is_full`].
pub fn is_full(position: u64, length: u64, largest: u64) -> bool {
    position > 0 && position.saturating_add(length) > largest
}

/// Returns the files of the existing set of `target`: its index, and the numbered files of the set that the index names; or all
/// numbered files in the folder if sets have no index. An unreadable index names no files.
fn old_set(target: &Path, checkpoint: &Checkpoint) -> Result<Vec<PathBuf>> {
    let is_part = |name: &str| is_part(name, &stem(target), checkpoint.ending);
    if checkpoint.is_indexed {
        let path = index_path(target, checkpoint);
        let Ok(map) = read_index(&path, &Request::default()) else { return Ok(Vec::new()) };
        let parts = map.files.iter().filter(|name| is_part(name));
        let parts = parts.map(|name| paths::with_file_name(target, name));
        return Ok(std::iter::once(path.clone()).chain(parts).collect());
    }
    let folder = folder_of(target);
    let entries = folder.read_dir().map_err(|error| Error::io("scandir", &error).file(folder))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut parts: Vec<_> = names.filter(|name| is_part(name)).map(|name| folder.join(name)).collect();
    parts.arrange();
    Ok(parts)
}

/// Returns whether [`Parts`] could have given a file this name for this stem. Other files may belong to something else.
fn is_part(name: &str, stem: &str, ending: &str) -> bool {
    let rest = name.strip_prefix(stem).and_then(|rest| rest.strip_prefix('-'));
    let numbers = rest.and_then(|rest| rest.strip_suffix(ending)?.strip_suffix('.'));
    let digits = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers
        .and_then(|numbers| numbers.split_once("-of-"))
        .is_some_and(|(one, all)| digits(one) && digits(all))
}

fn stem(target: &Path) -> String {
    target.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

pub fn part_path(target: &Path, checkpoint: &Checkpoint, number: usize, total: usize) -> PathBuf {
    paths::with_file_name(
        target,
        &format!("{}-{number:05}-of-{total:05}.{}", stem(target), checkpoint.ending),
    )
}

/// Returns the path of the index of a set.
pub fn index_path(target: &Path, checkpoint: &Checkpoint) -> PathBuf {
    paths::with_file_name(target, &format!("{}.{}.index.json", stem(target), checkpoint.ending))
}

/// Returns the text of the index: the total bytes of all tensors, and the file of each tensor by name.
pub fn index_of(files: &[(PathBuf, &Catalog)]) -> String {
    let mut tensors: Vec<(Tensor<'_>, &Path)> = files
        .iter()
        .flat_map(|(path, catalog)| catalog.iter().map(move |tensor| (tensor, &**path)))
        .collect();
    tensors.arrange_by_key(|(tensor, _)| tensor.name());
    let blobs = tensors.iter().flat_map(|(tensor, _)| tensor.components());
    let size = blobs.fold(0_u64, |total, blob| total.saturating_add(blob.stored_length()));
    let mut text = format!("{{\n  \"metadata\": {{\n    \"total_size\": {size}\n  }},\n  \"weight_map\": {{");
    for (at, (tensor, path)) in tensors.iter().enumerate() {
        text.push_str(if at == 0 { "\n    " } else { ",\n    " });
        quote(&mut text, tensor.name());
        text.push_str(": ");
        quote(&mut text, &path.file_name().unwrap_or_default().to_string_lossy());
    }
    text.push_str("\n  }\n}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::{Sharding, WriteFormat};

    fn checkpoint() -> &'static Checkpoint {
        let Sharding::Checkpoint(checkpoint) = WriteFormat::SAFETENSORS.shards else { panic!("no set") };
        checkpoint
    }

    #[test]
    fn a_file_is_full_when_a_tensor_would_exceed_it() {
        let parts = Parts::new(checkpoint(), 100);
        assert!(!parts.is_full(0, 1000));
        assert!(!parts.is_full(60, 40));
        assert!(parts.is_full(60, 41));
        assert!(parts.is_full(60, u64::MAX));
    }

    #[test]
    fn only_numbered_files_of_the_stem_are_parts() {
        assert!(is_part("m-00001-of-00003.safetensors", "m", "safetensors"));
        assert!(is_part("m-100001-of-100003.safetensors", "m", "safetensors"));
        for name in [
            "n-00001-of-00003.safetensors",
            "m.safetensors",
            "m-00001-of-00003.zt",
            "m-1-of-3.safetensors",
            "m-x-00001-of-00003.safetensors",
            "m-00001-of-.safetensors",
            "m-base.safetensors",
        ] {
            assert!(!is_part(name, "m", "safetensors"), "{name}");
        }
    }

    #[test]
    fn parts_and_their_index_are_in_the_folder_of_the_target() {
        let target = Path::new("/a/model.safetensors");
        assert_eq!(part_path(target, checkpoint(), 2, 3), Path::new("/a/model-00002-of-00003.safetensors"));
        assert_eq!(index_path(target, checkpoint()), Path::new("/a/model.safetensors.index.json"));
        let other =
            Checkpoint { ending: "other", is_indexed: true, stated: |_| Ok(Vec::new()), position: &[] };
        assert_eq!(index_path(target, &other), Path::new("/a/model.other.index.json"));
    }
}
