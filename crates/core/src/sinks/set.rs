//! Sets of files, the last of which names the others: either all of them appear, or the old ones remain.
#![forbid(unsafe_code)]

use std::io;
use std::path::{Path, PathBuf};

use super::complete::CompleteFiles;
use super::folder::Folder;
use super::{AtomicFile, Warning, leftovers};
use crate::error::{Code, Error, Result};

/// Old files of a set that is replaced. Missing ones are ignored.
#[derive(Default)]
pub struct Old {
    /// Removed, in this order, before the first new file appears, because a mixture of old and new files would be inconsistent.
    pub before: Vec<PathBuf>,
    /// Removed, in this order, when the last new file is in place.
    pub after: Vec<PathBuf>,
}

/// Renames files into place, then the one that names them. No name changes before every byte is synced. If a step fails, the previous ones
/// are undone; if the process dies in between, the result is the old set, the new one, or a set with missing files.
///
/// `old` is called while no other set is written to the folder. It is not called for a store, where no set replaces another.
pub fn put(
    mut files: CompleteFiles,
    mut last: AtomicFile,
    old: impl FnOnce() -> Result<Old>,
) -> Result<Vec<Warning>> {
    if let Some(store) = &last.place.store {
        let mut sent = Vec::with_capacity(files.len() + 1);
        files.for_each(|_, file| {
            sent.push(file.send(store)?);
            Ok(())
        })?;
        // Completed last, because it names the others.
        sent.push(last.send(store)?);
        return store.complete(sent, last.overwrites());
    }
    let folder = Folder::of(last.target())?;
    let mut replaced = Vec::new();
    files.for_each(|_, file| {
        if file.overwrites() {
            replaced.push(file.target().to_owned());
        }
        file.put_on_disk()
    })?;
    last.put_on_disk()?;
    folder.lock()?;
    let old = old()?;
    let mut before = old.before;
    before.extend(replaced);
    let mut change = Change { folder: &folder, aside: Vec::new(), placed: Vec::new() };
    if let Err(error) = change.make(&before, &mut files, &mut last) {
        return Err(change.undo(error));
    }
    let Change { aside, .. } = change;
    let mut warnings = folder.sync_behind(last.target());
    let gone: Vec<&Path> =
        aside.iter().map(|(_, aside)| &**aside).chain(old.after.iter().map(|path| &**path)).collect();
    let remaining: Vec<String> = gone.iter().filter_map(|path| still_there(path)).collect();
    if !remaining.is_empty() {
        let message = format!(
            "files of the old set could not be removed and are no longer needed: {}",
            remaining.join("; ")
        );
        warnings.push(Warning { code: "ZT_WARN_LEFT_OVER", message });
    }
    // In the worst case they reappear after a power failure.
    if !gone.is_empty() {
        let _ = folder.sync();
    }
    Ok(warnings)
}

/// Removes a file; returns the reason if that fails.
fn still_there(path: &Path) -> Option<String> {
    let error = std::fs::remove_file(path).err().filter(|error| error.kind() != io::ErrorKind::NotFound)?;
    Some(format!("'{}' ({error})", path.display()))
}

/// The steps done so far.
struct Change<'f> {
    folder: &'f Folder,
    /// Old files: their original and temporary paths.
    aside: Vec<(PathBuf, PathBuf)>,
    placed: Vec<PathBuf>,
}

impl Change<'_> {
    fn make(&mut self, before: &[PathBuf], files: &mut CompleteFiles, last: &mut AtomicFile) -> Result<()> {
        for path in before.iter().filter(|path| path.symlink_metadata().is_ok()) {
            // Until it is in place, the last file protects the temporary ones: see `leftovers`.
            let guard = last.temporary.name().map_err(|error| Error::io("link", &error))?;
            let aside = leftovers::aside(&guard);
            std::fs::rename(path, &aside).map_err(|error| Error::io("rename", &error).file(path))?;
            self.aside.push((path.clone(), aside));
        }
        if !self.aside.is_empty() {
            self.folder.sync()?;
        }
        // The first file guards the closed ones until all of them are in place.
        for index in (0..files.len()).rev() {
            files.with(index, |file| {
                file.rename_into_place().map_err(|error| error.file(file.target()))?;
                self.placed.push(file.target().to_owned());
                Ok(())
            })?;
        }
        if !self.placed.is_empty() {
            self.folder.sync()?;
        }
        last.rename_into_place()
    }

    /// Restores the previous state.
    fn undo(self, error: Error) -> Error {
        for path in &self.placed {
            // The restored file would replace it anyway.
            let _ = std::fs::remove_file(path);
        }
        let lost: Vec<String> =
            self.aside.iter().rev().filter_map(|(path, aside)| lost(path, aside)).collect();
        let _ = self.folder.sync();
        if lost.is_empty() {
            return error;
        }
        let message = format!(
            "{error}; and the old files could not be restored. Rename them before writing anything else to the folder: {}",
            lost.join("; ")
        );
        Error::new(Code::Io, message)
    }
}

fn lost(path: &Path, aside: &Path) -> Option<String> {
    let error = std::fs::rename(aside, path).err()?;
    Some(format!("'{}' is '{}' ({error})", path.display(), aside.display()))
}
