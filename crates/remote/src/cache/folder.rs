//! The folder of copies. It and its files are the user's alone, links in it are not followed, and all names are ours.

use std::collections::HashMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ztensor_core::error::{Code, Error, Result};

use super::key;
use super::table::{self, Table};

/// Files of the folder that are looked at for what may go.
const LOOKED_AT: usize = 1 << 20;
/// How old a file must be that was never given its name, to be one whose process was killed.
const ABANDONED: Duration = Duration::from_secs(3600);
/// How often a copy is opened that others make and remove meanwhile.
const ATTEMPTS: usize = 8;

pub struct Folder {
    path: PathBuf,
    /// Bytes of all copies together, as the disk counts them.
    most: u64,
}

impl Folder {
    pub fn new(path: PathBuf, most: u64) -> Self {
        Self { path, most }
    }

    pub fn most(&self) -> u64 {
        self.most
    }

    /// The copy of a name.
    pub fn data(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.data"))
    }

    fn table(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.blocks"))
    }

    fn failed(&self, error: &io::Error) -> Error {
        let said = error.to_string();
        let said = said.rsplit_once(" (os error ").map_or(&*said, |(words, _)| words);
        let message = format!(
            "the cache '{}' cannot be used ({said}): choose another folder (remote: {{ cache }}), or await load(), which needs none",
            self.path.display()
        );
        Error::new(Code::Io, message).file(&self.path)
    }

    /// Opens a copy and its table. `None` where there is none and none is to be made.
    pub fn open(&self, name: &str, length: u64, make: bool) -> Result<Option<(File, Table)>> {
        if make {
            make_folder(&self.path).map_err(|error| self.failed(&error))?;
        }
        self.check()?;
        let data = self.one(&self.data(name), make, length, &|file| file.set_len(length));
        let Some(data) = data.map_err(|error| self.failed(&error))? else { return Ok(None) };
        let prepare = |file: &File| {
            write_at(file, &table::header(length), 0)?;
            file.set_len(table::size(length))
        };
        let path = self.table(name);
        let mut opened = self.one(&path, make, table::size(length), &prepare);
        // A table that does not begin as one is made anew.
        if let Ok(Some(file)) = &opened
            && file.try_clone().ok().and_then(|file| Table::of(file, length)).is_none()
        {
            opened = if make { self.make(&path, &prepare, true).map(Some) } else { Ok(None) };
        }
        let opened = opened.map_err(|error| self.failed(&error))?;
        Ok(opened.and_then(|file| Table::of(file, length)).map(|table| (data, table)))
    }

    /// Refuses a folder in which others could put what we would take for a copy.
    fn check(&self) -> Result<()> {
        #[cfg(unix)]
        if let Ok(metadata) = fs::metadata(&self.path)
            && std::os::unix::fs::MetadataExt::mode(&metadata) & 0o002 != 0
        {
            let message = format!(
                "the cache '{}' can be written by every user of this machine: choose a folder of your own (mode 0700)",
                self.path.display()
            );
            return Err(Error::new(Code::Io, message).file(&self.path));
        }
        Ok(())
    }

    /// Opens a file of a length, or makes one. One that is not as it must be is replaced and never mended: whoever has it open would
    /// see zeros where bytes were.
    fn one(
        &self,
        path: &Path,
        make: bool,
        length: u64,
        prepare: &dyn Fn(&File) -> io::Result<()>,
    ) -> io::Result<Option<File>> {
        for _ in 0..ATTEMPTS {
            let opened = match options().write(true).open(path) {
                // What is there may still serve where nothing can be written.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
                    ) =>
                {
                    options().open(path)
                }
                opened => opened,
            };
            let replace = match opened {
                Ok(file) if is_ours(&file.metadata()?, length) => return Ok(Some(file)),
                Ok(_) => true,
                Err(error) if error.kind() == ErrorKind::NotFound => false,
                Err(_) if is_link(path) || !make => true,
                Err(error) => return Err(error),
            };
            if !make {
                return Ok(None);
            }
            match self.make(path, prepare, replace) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                done => return done.map(Some),
            }
        }
        Err(io::Error::other("others make and remove it again and again"))
    }

    /// Makes a file that appears whole.
    fn make(
        &self,
        path: &Path,
        prepare: &dyn Fn(&File) -> io::Result<()>,
        replace: bool,
    ) -> io::Result<File> {
        let number = RandomState::new().hash_one(std::process::id());
        let new = self.path.join(format!("{number:016x}.new"));
        let file = options().write(true).create_new(true).open(&new)?;
        let named = prepare(&file).and_then(|()| {
            if replace {
                return fs::rename(&new, path);
            }
            match fs::hard_link(&new, path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(error),
                // Some file systems have no links; then the last one to come wins.
                Err(_) => fs::rename(&new, path),
                Ok(()) => fs::remove_file(&new),
            }
        });
        if named.is_err() {
            let _ = fs::remove_file(&new);
        }
        named.map(|()| file)
    }

    /// Removes the copies that were used least recently, until all of them are within the bound. Those that are open elsewhere go on
    /// until they are closed. Waits for nobody: whoever is at it already does it for all.
    pub fn evict(&self) {
        let Ok(lock) = options().write(true).create(true).truncate(false).open(self.path.join("lock")) else {
            return;
        };
        if !is_locked(&lock) {
            return;
        }
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        let mut copies = HashMap::<String, (SystemTime, u64)>::new();
        for entry in entries.take(LOOKED_AT).flatten() {
            let (Ok(metadata), Ok(file)) = (entry.metadata(), entry.file_name().into_string()) else {
                continue;
            };
            let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if is_new(&file) && modified.elapsed().is_ok_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(entry.path());
            }
            let Some((name, kind)) = file.split_once('.').filter(|(name, _)| key::is_name(name)) else {
                continue;
            };
            if !matches!(kind, "data" | "blocks") {
                continue;
            }
            let (used, bytes) = copies.entry(name.to_owned()).or_insert((SystemTime::UNIX_EPOCH, 0));
            *bytes = bytes.saturating_add(allocated(&metadata));
            if kind == "blocks" {
                *used = modified;
            }
        }
        let mut total = copies.values().fold(0, |total: u64, (_, bytes)| total.saturating_add(*bytes));
        let mut oldest: Vec<_> =
            copies.into_iter().map(|(name, (used, bytes))| (used, name, bytes)).collect();
        oldest.sort();
        for (_, name, bytes) in oldest {
            if total <= self.most {
                break;
            }
            // Windows keeps what is mapped.
            if fs::remove_file(self.data(&name)).is_ok_and(|()| fs::remove_file(self.table(&name)).is_ok()) {
                total -= bytes;
            }
        }
    }
}

/// Bytes that a file takes of the disk.
pub fn allocated(metadata: &Metadata) -> u64 {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::blocks(metadata).saturating_mul(512);
    #[cfg(not(unix))]
    metadata.len()
}

fn is_new(name: &str) -> bool {
    name.strip_suffix(".new")
        .is_some_and(|number| number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Options that follow no link, for files that are the user's alone.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits().cast_signed());
    }
    options
}

/// Whether a file is one that this user made, of a length.
fn is_ours(metadata: &Metadata, length: u64) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let user = rustix::process::geteuid().as_raw();
        if metadata.uid() != user || metadata.mode() & 0o022 != 0 {
            return false;
        }
    }
    metadata.is_file() && metadata.len() == length
}

#[cfg(unix)]
fn is_locked(file: &File) -> bool {
    use rustix::fs::{FlockOperation, flock};
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Two that remove the same copies there do no harm.
#[cfg(not(unix))]
fn is_locked(_file: &File) -> bool {
    true
}

#[cfg(unix)]
pub fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(unix)]
pub fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
pub fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match std::os::windows::fs::FileExt::seek_read(file, rest, offset + done as u64)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => done += count,
        }
    }
    Ok(())
}

#[cfg(windows)]
pub fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match std::os::windows::fs::FileExt::seek_write(file, rest, offset + done as u64)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            count => done += count,
        }
    }
    Ok(())
}
