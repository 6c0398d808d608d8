//! The descriptor of a file: open as long as the file is, or one of the last that were used. A set may have more files than a process may
//! open, so each of its files is opened again when it is needed, and must then be the same file.
#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::ops::Deref;
use std::path::{Path, PathBuf};
#[cfg(target_os = "linux")]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

#[cfg(target_os = "linux")]
use super::direct::Direct;
use super::identity::Identity;
use crate::error::{Code, Error, Result};

/// Fewest and most descriptors of sets in a process. Between these it is a quarter of what the process may open: the rest is for sockets,
/// targets and the program itself.
const FEWEST: u64 = 8;
const MOST: u64 = 512;

/// An open file.
pub struct OpenFile {
    file: File,
    /// The handle for long reads that bypass the page cache.
    #[cfg(target_os = "linux")]
    direct: OnceLock<Option<Direct>>,
}

impl OpenFile {
    fn new(file: File) -> Self {
        Self {
            file,
            #[cfg(target_os = "linux")]
            direct: OnceLock::new(),
        }
    }

    /// Returns the handle for direct reads, if `wanted` and the file system supports them. Decided by the first call.
    #[cfg(target_os = "linux")]
    pub fn direct(&self, wanted: impl FnOnce(&File) -> bool) -> Option<&Direct> {
        let open = || if wanted(&self.file) { Direct::new(&self.file) } else { None };
        self.direct.get_or_init(open).as_ref()
    }
}

impl Deref for OpenFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

/// An open file for the time of a use.
pub enum FileRef<'h> {
    Kept(&'h OpenFile),
    Shared(Arc<OpenFile>),
}

impl Deref for FileRef<'_> {
    type Target = OpenFile;

    fn deref(&self) -> &OpenFile {
        match self {
            Self::Kept(file) => file,
            Self::Shared(file) => file,
        }
    }
}

/// How to get at an open file.
pub enum Handle {
    Kept(Arc<OpenFile>),
    Reopened(Arc<Reopened>),
}

impl Handle {
    pub fn kept(file: File) -> Self {
        Self::Kept(Arc::new(OpenFile::new(file)))
    }

    /// For an open file that may be closed and opened again at its path.
    pub fn reopened(file: File, path: &Path, identity: Identity) -> Self {
        let reopened = Arc::new(Reopened {
            path: path.to_owned(),
            identity,
            open: Mutex::new(Some(Arc::new(OpenFile::new(file)))),
            used: AtomicU64::new(0),
        });
        reopened.note();
        RECENT.add(&reopened);
        Self::Reopened(reopened)
    }

    /// Returns the open file. Fails with `ZT_IO` if it was closed, and another or a changed file is at its path by now.
    pub fn get(&self) -> Result<FileRef<'_>> {
        match self {
            Self::Kept(file) => Ok(FileRef::Kept(file)),
            Self::Reopened(reopened) => reopened.get().map(FileRef::Shared),
        }
    }
}

/// A file that is closed if others are used more.
pub struct Reopened {
    path: PathBuf,
    identity: Identity,
    open: Mutex<Option<Arc<OpenFile>>>,
    /// When it was used last, as a number that rises.
    used: AtomicU64,
}

impl Reopened {
    fn note(&self) {
        static TIMES: AtomicU64 = AtomicU64::new(0);
        self.used.store(TIMES.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }

    fn get(self: &Arc<Self>) -> Result<Arc<OpenFile>> {
        self.note();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &*open {
            return Ok(Arc::clone(file));
        }
        let file = open_to_read(&self.path).map_err(|error| error.file(&self.path))?;
        check(&file, &self.path, self.identity)?;
        let file = Arc::clone(open.insert(Arc::new(OpenFile::new(file))));
        drop(open);
        RECENT.add(self);
        Ok(file)
    }

    fn close(&self) {
        let file = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Closing may take time on a network, and nothing needs to wait for it.
        drop(file);
    }
}

/// Fails with `ZT_IO` unless an opened file is the expected one, unchanged.
pub fn check(file: &File, path: &Path, expected: Identity) -> Result<()> {
    let metadata = file.metadata().map_err(|error| Error::io("fstat", &error).file(path))?;
    if Identity::of(&metadata) == expected {
        return Ok(());
    }
    let message = "the file was replaced or changed since its index was read; open it again";
    Err(Error::new(Code::Io, format!("'{}': {message}", path.display())).file(path))
}

/// Closes the files of sets that are not in use. Called if the process may not open another file; returns whether that may help.
pub fn close_unused() -> bool {
    RECENT.keep(0)
}

static RECENT: LazyLock<Recent> =
    LazyLock::new(|| Recent { files: Mutex::default(), most: most(descriptors()) });

/// The files of sets that are open.
struct Recent {
    files: Mutex<Vec<Weak<Reopened>>>,
    most: usize,
}

impl Recent {
    /// Adds a file that was just opened, and closes those that were used least recently.
    fn add(&self, file: &Arc<Reopened>) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(file));
        self.keep(self.most);
    }

    /// Closes all but the `most` files that were used last. Returns whether it closed any.
    fn keep(&self, most: usize) -> bool {
        let mut closed = Vec::new();
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() > most {
            let mut known: Vec<_> = files.iter().filter_map(Weak::upgrade).collect();
            let more = known.len().saturating_sub(most);
            if more > 0 {
                let used = |file: &Arc<Reopened>| file.used.load(Ordering::Relaxed);
                known.sort_by_cached_key(used);
                closed = known.drain(..more).collect();
            }
            *files = known.iter().map(Arc::downgrade).collect();
        }
        // Opening holds the lock of one file and then takes this one.
        drop(files);
        for file in &closed {
            file.close();
        }
        !closed.is_empty()
    }
}

/// Returns how many files of sets may be open in a process that may open a number of files.
fn most(descriptors: Option<u64>) -> usize {
    let share = descriptors.map_or(MOST, |descriptors| descriptors / 4);
    usize::try_from(share.clamp(FEWEST, MOST)).unwrap_or(usize::MAX)
}

/// Returns how many files the process may open, if there is a limit.
#[cfg(unix)]
fn descriptors() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

#[cfg(not(unix))]
fn descriptors() -> Option<u64> {
    None
}

/// Opens a file to read it.
pub(super) fn open_to_read(path: &Path) -> Result<File> {
    open_file(path, OpenOptions::new().read(true))
}

pub(super) fn open_file(path: &Path, options: &mut OpenOptions) -> Result<File> {
    // A named pipe must not block opening before it is recognized as one.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_NONBLOCK);
    let opened = opened(|| options.open(path));
    // On Windows, opening a folder fails with a permission error.
    #[cfg(windows)]
    let opened = opened.map_err(|error| if path.is_dir() { is_a_directory() } else { error });
    opened.map_err(|error| Error::io("open", &error))
}

/// Opens a file. If there are too many, closes those of sets and tries again.
pub(super) fn opened(open: impl Fn() -> std::io::Result<File>) -> std::io::Result<File> {
    match open() {
        Err(error) if is_limit(&error) && close_unused() => open(),
        opened => opened,
    }
}

/// Returns whether the process or the system has too many open files.
fn is_limit(error: &std::io::Error) -> bool {
    #[cfg(unix)]
    let limits = [libc::EMFILE, libc::ENFILE];
    // ERROR_TOO_MANY_OPEN_FILES.
    #[cfg(not(unix))]
    let limits = [4];
    error.raw_os_error().is_some_and(|number| limits.contains(&number))
}

pub(super) fn is_a_directory() -> std::io::Error {
    #[cfg(unix)]
    let number = libc::EISDIR;
    // ERROR_INVALID_FUNCTION, as in libuv: the system has no specific code.
    #[cfg(not(unix))]
    let number = 1;
    std::io::Error::from_raw_os_error(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_take_a_part_of_the_descriptors() {
        let found = [Some(0), Some(64), Some(256), Some(1024), Some(1 << 20), None].map(most);
        assert_eq!(found, [8, 16, 64, 256, 512, 512]);
    }

    #[test]
    fn a_closed_file_is_opened_again_only_if_it_is_the_same() {
        let path = std::env::temp_dir().join(format!("ztensor-handle-{}", std::process::id()));
        std::fs::write(&path, b"0123456789").unwrap();
        let file = File::open(&path).unwrap();
        let identity = Identity::of(&file.metadata().unwrap());
        let handle = Handle::reopened(file, &path, identity);
        let is_open = || match &handle {
            Handle::Reopened(reopened) => reopened.open.lock().unwrap().is_some(),
            Handle::Kept(_) => true,
        };
        let used = handle.get().unwrap();
        close_unused();
        assert!(!is_open());
        // It stays open for its user.
        assert_eq!(used.metadata().unwrap().len(), 10);
        drop(handle.get().unwrap());
        let other = path.with_extension("other");
        std::fs::write(&other, b"9876543210").unwrap();
        std::fs::rename(&other, &path).unwrap();
        close_unused();
        let error = handle.get().err().unwrap();
        assert_eq!((error.code(), error.path()), (Code::Io, Some(&*path)));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(handle.get().err().unwrap().code(), Code::Io);
    }

    #[test]
    fn the_files_used_last_stay_open() {
        let folder = std::env::temp_dir().join(format!("ztensor-recent-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let recent = Recent { files: Mutex::default(), most: 2 };
        let files: Vec<_> = ["a", "b", "c"]
            .map(|name| {
                let path = folder.join(name);
                std::fs::write(&path, name).unwrap();
                let file = File::open(&path).unwrap();
                let identity = Identity::of(&file.metadata().unwrap());
                let open = Mutex::new(Some(Arc::new(OpenFile::new(file))));
                Arc::new(Reopened { path, identity, open, used: AtomicU64::new(0) })
            })
            .into();
        let open = || files.iter().map(|file| file.open.lock().unwrap().is_some()).collect::<Vec<_>>();
        for file in files.iter().take(2) {
            file.note();
            recent.add(file);
        }
        assert_eq!(open(), [true, true, true]);
        files[0].note();
        files[2].note();
        recent.add(&files[2]);
        assert_eq!(open(), [true, false, true]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
