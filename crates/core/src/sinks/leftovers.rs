//! Removes temporary files that killed writers left in a folder: files with our names that no process locks.
#![forbid(unsafe_code)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::limits;
use crate::paths::folder_of;

/// `.ztensor-<process>-<number>.part`, with an additional `-<number>` for files that a set replaces, and for closed files of a set.
pub const PREFIX: &str = ".ztensor-";
pub const SUFFIX: &str = ".part";

/// Number of entries beyond which a folder is searched only once a minute: writing many files to it would otherwise take quadratic time.
const MANY: usize = 1000;
const PAUSE: Duration = Duration::from_secs(60);
/// Maximum folders remembered for that.
const REMEMBERED: usize = 64;

static LARGE: Mutex<Vec<(PathBuf, Instant)>> = Mutex::new(Vec::new());

/// Removes leftovers in a folder. Errors are ignored, because the next writer may succeed.
pub fn clear(folder: &Path) {
    let mut large = LARGE.lock().unwrap_or_else(PoisonError::into_inner);
    large.retain(|(_, seen)| seen.elapsed() < PAUSE);
    if large.iter().any(|(known, _)| known == folder) {
        return;
    }
    drop(large);
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut count = 0;
    for entry in entries.take(limits::FOLDER_ENTRIES).flatten() {
        count += 1;
        let name = entry.file_name();
        if let Some(guard) = name.to_str().and_then(guard)
            && !(cfg!(windows) && is_own(guard))
        {
            remove(&entry.path(), &folder.join(guard));
        }
    }
    if count > MANY {
        let mut large = LARGE.lock().unwrap_or_else(PoisonError::into_inner);
        large.truncate(REMEMBERED - 1);
        large.push((folder.to_owned(), Instant::now()));
    }
}

/// Returns the name of the file whose lock protects this one; `None` for a name that is not ours.
fn guard(name: &str) -> Option<&str> {
    let rest = name.strip_prefix(PREFIX)?;
    let (numbers, behind) = rest.split_once(SUFFIX)?;
    let (process, number) = numbers.split_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let known = behind.is_empty() || behind.strip_prefix('-').is_some_and(digits);
    let guard = name.get(..name.len() - behind.len())?;
    (digits(process) && digits(number) && known).then_some(guard)
}

/// Returns whether a name is that of a file of this process. Windows may show it for a moment after the file got its other name, and then
/// an exclusive handle would block that one.
fn is_own(guard: &str) -> bool {
    guard.strip_prefix(&format!("{PREFIX}{}-", std::process::id())).is_some()
}

/// Returns an unused temporary path that the locked file at `guard` protects: of a file that will be replaced, or of a closed one.
pub fn aside(guard: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (name, number) =
        (guard.file_name().unwrap_or_default().to_string_lossy(), NEXT.fetch_add(1, Ordering::Relaxed));
    folder_of(guard).join(format!("{name}-{number}"))
}

/// Removes the file at `path` unless the one at `guard` is locked.
fn remove(path: &Path, guard: &Path) {
    let regular = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_file());
    if path == guard {
        if regular(path) && claim(path).is_some() {
            let _ = std::fs::remove_file(path);
        }
    } else if guard.symlink_metadata().is_err() || (regular(guard) && claim(guard).is_some()) {
        let _ = std::fs::remove_file(path);
    }
}

/// Opens and locks a file unless it is locked. By then the name may refer to another file.
#[cfg(unix)]
fn claim(path: &Path) -> Option<File> {
    use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

    // Network file systems only lock files that are open for writing.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty()).ok()?);
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    is_at(&file, path).then_some(file)
}

/// Windows does not permit exclusive access to a file that is open.
#[cfg(windows)]
fn claim(path: &Path) -> Option<File> {
    use std::os::windows::fs::OpenOptionsExt;

    std::fs::OpenOptions::new().write(true).share_mode(0).open(path).ok()
}

#[cfg(not(any(unix, windows)))]
fn claim(_path: &Path) -> Option<File> {
    None
}

/// Locks a file while it is open. If the file system has no locks, no file counts as a leftover.
#[cfg(unix)]
pub fn lock(file: &File) {
    let _ = rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
}

#[cfg(unix)]
pub fn unlock(file: &File) {
    let _ = rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingUnlock);
}

/// Returns whether a path refers to an open file.
#[cfg(unix)]
pub fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    let (Ok(file), Ok(named)) = (file.metadata(), path.symlink_metadata()) else { return false };
    (file.dev(), file.ino()) == (named.dev(), named.ino())
}

#[cfg(not(unix))]
pub fn lock(_file: &File) {}

#[cfg(not(unix))]
pub fn unlock(_file: &File) {}

#[cfg(not(unix))]
pub fn is_at(_file: &File, _path: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_temporary_files_have_a_guard() {
        assert_eq!(guard(".ztensor-12-3.part"), Some(".ztensor-12-3.part"));
        assert_eq!(guard(".ztensor-12-3.part-4"), Some(".ztensor-12-3.part"));
        for name in [
            "ztensor-1-2.part",
            ".ztensor-1.part",
            ".ztensor-1-2.part.zt",
            ".ztensor--2.part",
            ".ztensor-1-2.part-",
            ".ztensor-1-2",
            ".ztensor-a-2.part",
            ".ztensor-1-2.part-x",
        ] {
            assert_eq!(guard(name), None, "{name}");
        }
        let path = Path::new("/a/.ztensor-1-2.part");
        let [one, other] = [aside(path), aside(path)];
        assert!(one != other && one.parent() == path.parent());
        assert_eq!(guard(one.file_name().unwrap().to_str().unwrap()), Some(".ztensor-1-2.part"));
    }

    #[cfg(unix)]
    #[test]
    fn only_unlocked_leftovers_are_removed() {
        let folder = std::env::temp_dir().join(format!("ztensor-leftovers-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let make = |name: &str| File::create(folder.join(name)).unwrap();
        let held = make(".ztensor-1-0.part");
        lock(&held);
        for name in [
            ".ztensor-1-0.part-0",
            ".ztensor-2-0.part",
            ".ztensor-2-0.part-1",
            ".ztensor-3-0.part-0",
            "model.zt",
        ] {
            drop(make(name));
        }
        std::os::unix::fs::symlink("model.zt", folder.join(".ztensor-4-0.part")).unwrap();
        clear(&folder);
        let mut names: Vec<_> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, [".ztensor-1-0.part", ".ztensor-1-0.part-0", ".ztensor-4-0.part", "model.zt"]);
        drop(held);
        clear(&folder);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_large_folder_is_not_searched_again_at_once() {
        for (count, again) in [(MANY, true), (MANY + 1, false)] {
            let folder = std::env::temp_dir().join(format!("ztensor-many-{count}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            for name in 0..count {
                File::create(folder.join(name.to_string())).unwrap();
            }
            clear(&folder);
            // Rename instead of create, so that the number of files stays the same.
            std::fs::rename(folder.join("0"), folder.join(".ztensor-1-0.part")).unwrap();
            clear(&folder);
            assert_eq!(folder.join(".ztensor-1-0.part").exists(), !again, "{count}");
            std::fs::remove_dir_all(folder).unwrap();
        }
        // Only a limited number of such folders is remembered.
        let others = (0..2 * REMEMBERED).map(|name| (PathBuf::from(name.to_string()), Instant::now()));
        LARGE.lock().unwrap().extend(others);
        let folder = std::env::temp_dir().join(format!("ztensor-many-more-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        (0..=MANY).for_each(|name| drop(File::create(folder.join(name.to_string())).unwrap()));
        clear(&folder);
        let remembered = LARGE.lock().unwrap();
        assert_eq!((remembered.len(), &remembered.last().unwrap().0), (REMEMBERED, &folder));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn is_at_compares_the_file_at_the_path() {
        let folder = std::env::temp_dir().join(format!("ztensor-named-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.join(name));
        let (file, _) = (File::create(&one).unwrap(), File::create(&other).unwrap());
        assert!(is_at(&file, &one));
        std::fs::rename(&other, &one).unwrap();
        assert!(!is_at(&file, &one));
        assert!(!is_at(&file, &other));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
