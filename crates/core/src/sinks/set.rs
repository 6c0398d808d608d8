//! Files that belong together, the last of which names the others: all of them appear, or what was there stays.
#![forbid(unsafe_code)]

use std::io;
use std::path::{Path, PathBuf};

use super::folder::Folder;
use super::{AtomicFile, Warning, leftovers, store};
use crate::error::{Code, Error, Result};

/// Old files of a set that is replaced. Those that are not there are passed over.
#[derive(Default)]
pub struct Old {
    /// They go, in this order, before the first of the new ones appears: what old and new files would say together would be
    /// a mixture.
    pub before: Vec<PathBuf>,
    /// They go, in this order, when the last of the new ones is there.
    pub after: Vec<PathBuf>,
}

/// Puts files under their names, then the one that names them. No step changes a name before every byte is on the disk.
/// Where one fails, the steps before are undone; where the process dies in between, there is the old set, the new one, or a
/// set with missing files.
///
/// What is `old` is asked when no other set of the folder is put there at the same time. Of a store it is not: there no set
/// replaces another.
pub fn put(
    mut files: Vec<AtomicFile>,
    mut last: AtomicFile,
    old: impl FnOnce() -> Result<Old>,
) -> Result<Vec<Warning>> {
    if let Some(store) = &last.store {
        return store::put(store, &files, &last);
    }
    let folder = Folder::of(&last.target)?;
    for file in files.iter_mut().chain([&mut last]) {
        file.put_on_disk()?;
    }
    folder.lock()?;
    let old = old()?;
    let mut before = old.before;
    before.extend(files.iter().filter(|file| file.overwrite).map(|file| file.target.clone()));
    let mut change = Change { folder: &folder, aside: Vec::new(), placed: Vec::new() };
    if let Err(error) = change.make(&before, &mut files, &mut last) {
        return Err(change.undo(error));
    }
    let Change { aside, .. } = change;
    let mut warnings = folder.sync_behind(&last.target);
    let gone: Vec<&Path> =
        aside.iter().map(|(_, aside)| &**aside).chain(old.after.iter().map(|path| &**path)).collect();
    let kept: Vec<String> = gone.iter().filter_map(|path| still_there(path)).collect();
    if !kept.is_empty() {
        let message = format!("files of the old set are left over and can be removed: {}", kept.join("; "));
        warnings.push(Warning { code: "ZT_WARN_LEFT_OVER", message });
    }
    // They come back after a loss of power at worst.
    if !gone.is_empty() {
        let _ = folder.sync();
    }
    Ok(warnings)
}

/// Removes a file; says why where that fails.
fn still_there(path: &Path) -> Option<String> {
    let error = std::fs::remove_file(path).err().filter(|error| error.kind() != io::ErrorKind::NotFound)?;
    Some(format!("'{}' ({error})", path.display()))
}

/// What was done so store.
struct Change<'f> {
    folder: &'f Folder,
    /// Old files: where each belongs, and where it waits.
    aside: Vec<(PathBuf, PathBuf)>,
    placed: Vec<PathBuf>,
}

impl Change<'_> {
    fn make(&mut self, before: &[PathBuf], files: &mut [AtomicFile], last: &mut AtomicFile) -> Result<()> {
        for path in before.iter().filter(|path| path.symlink_metadata().is_ok()) {
            // As long as it is not placed, the last file holds what waits: see `leftovers`.
            let guard = last.temporary.name().map_err(|error| Error::io("link", &error))?;
            let aside = leftovers::aside(&guard, self.aside.len());
            std::fs::rename(path, &aside).map_err(|error| Error::io("rename", &error).file(path))?;
            self.aside.push((path.clone(), aside));
        }
        if !self.aside.is_empty() {
            self.folder.sync()?;
        }
        for file in &mut *files {
            file.place().map_err(|error| error.file(&file.target))?;
            self.placed.push(file.target.clone());
        }
        if !self.placed.is_empty() {
            self.folder.sync()?;
        }
        last.place()
    }

    /// Puts back what was there before.
    fn undo(self, error: Error) -> Error {
        for path in &self.placed {
            // What waits is put over it at any rate.
            let _ = std::fs::remove_file(path);
        }
        let lost: Vec<String> =
            self.aside.iter().rev().filter_map(|(path, aside)| lost(path, aside)).collect();
        let _ = self.folder.sync();
        if lost.is_empty() {
            return error;
        }
        let message = format!(
            "{error}; and the old files could not be put back. Rename them before anything else is written into the folder: {}",
            lost.join("; ")
        );
        Error::new(Code::Io, message)
    }
}

fn lost(path: &Path, aside: &Path) -> Option<String> {
    let error = std::fs::rename(aside, path).err()?;
    Some(format!("'{}' is '{}' ({error})", path.display(), aside.display()))
}
