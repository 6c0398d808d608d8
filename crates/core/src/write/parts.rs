//! A safetensors checkpoint in several files, as the Hugging Face hub has them: `model-00001-of-00003.safetensors` and so
//! on, and `model.safetensors.index.json`, which says which tensor is in which.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::formats::safetensors_encode::quote;
use crate::model::{Catalog, Tensor};
use crate::open::{Request, read_index};
use crate::sinks::set::{self, Old};
use crate::sinks::{AtomicFile, Warning};

/// The complete files of a checkpoint; none is under its name before the last one is there.
pub struct Parts {
    /// Bytes of tensors that a file may have.
    largest: u64,
    complete: Vec<(AtomicFile, Catalog)>,
}

impl Parts {
    pub fn new(largest: u64) -> Self {
        Self { largest, complete: Vec::new() }
    }

    /// Whether a tensor of `length` bytes has to go into a new file, when the current one has `position` bytes. One that is
    /// larger than any file may be has a file of its own.
    pub fn is_full(&self, position: u64, length: u64) -> bool {
        position > 0 && position.saturating_add(length) > self.largest
    }

    pub fn contains(&self, name: &str) -> bool {
        self.complete.iter().any(|(_, catalog)| catalog.find(name).is_some())
    }

    pub fn is_empty(&self) -> bool {
        self.complete.is_empty()
    }

    pub fn keep(&mut self, file: AtomicFile, catalog: Catalog) {
        self.complete.push((file, catalog));
    }

    /// Puts the files under their names beside `target`, the index last: before it is there, nothing refers to the others.
    pub fn commit(self, target: &Path, overwrite: bool) -> Result<Vec<Warning>> {
        let total = self.complete.len();
        let mut named = Vec::with_capacity(total);
        for (place, (mut file, catalog)) in self.complete.into_iter().enumerate() {
            file.retarget(part_path(target, place + 1, total))?;
            named.push((file, catalog));
        }
        let Some((first, _)) = named.first() else { return Ok(Vec::new()) };
        let mut index = first.sibling(&index_path(target))?;
        index.write(index_of(&named).as_bytes())?;
        let files = named.into_iter().map(|(file, _)| file).collect();
        // Opened as a folder, a numbered set needs no index: no old part may be there beside a new one.
        let before =
            || if overwrite { [vec![index_path(target)], old_set(target)].concat() } else { Vec::new() };
        set::put(files, index, || Ok(Old { before: before(), after: Vec::new() }))
    }
}

/// Puts a file under its name that could have been a set, in the place of the set that is there, if it may be.
pub fn commit_one(file: AtomicFile) -> Result<Vec<Warning>> {
    let (target, overwrite) = (file.target().to_owned(), file.overwrites());
    let after = || if overwrite { old_set(&target) } else { Vec::new() };
    set::put(Vec::new(), file, || Ok(Old { before: Vec::new(), after: after() }))
}

/// The files of the set that stands beside `target`: its index, and what that names of the set's own numbered files. An index
/// that cannot be read names nothing.
fn old_set(target: &Path) -> Vec<PathBuf> {
    let path = index_path(target);
    let Ok(map) = read_index(&path, &Request::default()) else { return Vec::new() };
    let parts = map.files.iter().filter(|name| is_part(name, &stem(target)));
    let parts = parts.map(|name| target.with_file_name(name));
    std::iter::once(path.clone()).chain(parts).collect()
}

/// Whether a file is called as those are that [`Parts`] makes for this stem: any other may belong to somebody else.
fn is_part(name: &str, stem: &str) -> bool {
    let numbers =
        name.strip_prefix(stem).and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".safetensors"));
    let digits = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers
        .and_then(|numbers| numbers.split_once("-of-"))
        .is_some_and(|(one, all)| digits(one) && digits(all))
}

fn stem(target: &Path) -> String {
    target.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn part_path(target: &Path, place: usize, total: usize) -> PathBuf {
    target.with_file_name(format!("{}-{place:05}-of-{total:05}.safetensors", stem(target)))
}

/// Where the index of a set stands.
pub fn index_path(target: &Path) -> PathBuf {
    target.with_file_name(format!("{}.safetensors.index.json", stem(target)))
}

/// The text of the index: the bytes of all tensors, and the file of each, by name.
fn index_of(named: &[(AtomicFile, Catalog)]) -> String {
    let mut tensors: Vec<(Tensor<'_>, &Path)> = named
        .iter()
        .flat_map(|(file, catalog)| catalog.iter().map(move |tensor| (tensor, file.target())))
        .collect();
    tensors.sort_unstable_by_key(|(tensor, _)| tensor.name());
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

    #[test]
    fn a_file_is_full_when_a_tensor_would_exceed_it() {
        let parts = Parts::new(100);
        assert!(!parts.is_full(0, 1000));
        assert!(!parts.is_full(60, 40));
        assert!(parts.is_full(60, 41));
        assert!(parts.is_full(60, u64::MAX));
    }

    #[test]
    fn only_numbered_files_of_the_stem_are_parts() {
        assert!(is_part("m-00001-of-00003.safetensors", "m"));
        assert!(is_part("m-100001-of-100003.safetensors", "m"));
        for name in [
            "n-00001-of-00003.safetensors",
            "m.safetensors",
            "m-00001-of-00003.zt",
            "m-1-of-3.safetensors",
            "m-x-00001-of-00003.safetensors",
            "m-00001-of-.safetensors",
            "m-base.safetensors",
        ] {
            assert!(!is_part(name, "m"), "{name}");
        }
    }

    #[test]
    fn files_stand_beside_their_index() {
        let target = Path::new("/a/model.safetensors");
        assert_eq!(part_path(target, 2, 3), Path::new("/a/model-00002-of-00003.safetensors"));
        assert_eq!(index_path(target), Path::new("/a/model.safetensors.index.json"));
    }
}
