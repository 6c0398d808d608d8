//! Downloads of whole files of the hub, by which its own clients find them: under a lock that they take, too, into a file whose bytes are
//! always a prefix of the content, so that a later download continues it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ztensor_core::codecs::digest::{Digest, Hasher};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::work::{Stop, Watch};

use crate::errors;
use crate::hub::{address_of, is_offline, not_cached};
use crate::hub_api;
use crate::hub_endpoint::Hub;
use crate::opening;
use crate::options::Options;
use crate::range::Opened;
use crate::source::Ranges;

/// How often a lock that another process holds is tried again.
const TRY: Duration = Duration::from_millis(50);
/// Bytes of the downloaded part that are read at once to hash it.
const PIECE: usize = 1 << 20;

/// The paths of a download. Their folders exist.
pub struct Place {
    /// Locked during the download.
    pub lock: PathBuf,
    /// The bytes that arrived; a prefix of the file.
    pub incomplete: PathBuf,
    /// The complete file.
    pub file: PathBuf,
    /// The SHA-256 of the file in hexadecimal digits; empty if the hub does not state it.
    pub sha256: String,
}

/// A file to download.
pub struct Wanted {
    /// The size that the hub lists.
    pub length: Option<u64>,
    /// Whether an existing file of this size is replaced.
    pub replaces: bool,
    /// Bytes to request at once. Twice as many are held in memory.
    pub window: usize,
    /// `None` requests the entity tag and the length of the file, and downloads nothing.
    pub place: Option<Place>,
}

/// Requests the description of the revision that a URL names: the JSON text of the hub.
pub fn description(url: &str, options: &Options, stop: &Stop) -> Result<String> {
    let address = address_of(url)?;
    if is_offline(options) {
        return Err(not_cached(&address));
    }
    Ok(hub_api::description(&Hub::new(options)?, &address, stop)?.1)
}

/// Downloads a file, unless it exists with the listed size. Returns the length of the file, and the entity tag if the hub was asked.
///
/// Fails with `ZT_DIGEST_MISMATCH` if the bytes do not have the digest: then nothing of them remains.
pub fn download(url: &str, wanted: Wanted, options: &Options, watch: &Watch) -> Result<Vec<String>> {
    let address = address_of(url)?;
    let stop = &watch.stop;
    let Wanted { length, replaces, window, place } = wanted;
    let _lock = place.as_ref().map(|place| lock(&place.lock, stop)).transpose()?;
    if let Some(place) = place.as_ref().filter(|_| !replaces)
        && let Ok(file) = fs::metadata(&place.file)
        && file.is_file()
        && length.is_none_or(|length| length == file.len())
    {
        return Ok(vec![file.len().to_string()]);
    }
    if is_offline(options) {
        return Err(not_cached(&address));
    }
    let hub = Hub::new(options)?;
    let target = hub.file(&address)?;
    let (file, head, _) = opening::request(&hub.client, &target, stop)?;
    if let Some(listed) = length.filter(|&listed| listed != file.length) {
        let message = format!("the server sends {} bytes, but the hub lists {listed}", file.length);
        return Err(errors::about(&target.path, message));
    }
    if let Some(place) = &place {
        fill(&file, head, place, window, watch)?;
    }
    let tag = file.hub_tag.as_ref().and_then(|tag| tag.to_str().ok()).unwrap_or_default();
    Ok(vec![file.length.to_string(), tag.to_owned()])
}

/// Appends the missing bytes to the incomplete file, checks it and gives it its name.
fn fill(file: &Opened, head: Vec<u8>, place: &Place, window: usize, watch: &Watch) -> Result<()> {
    let failed = |error| failed(&place.incomplete, &error);
    let digest = match &*place.sha256 {
        "" => None,
        sha256 => Some(Digest::parse(&format!("sha256:{sha256}"))?),
    };
    let mut hasher = digest.as_ref().and_then(Digest::hasher);
    watch.expect(file.length, 0);
    let (mut output, from) = resume(&place.incomplete, file.length, &mut hasher, watch).map_err(failed)?;
    let mut ready = head;
    ready.drain(..usize::try_from(from).unwrap_or(usize::MAX).min(ready.len()));
    let (mut at, mut coming) = (from, Vec::new());
    while at < file.length {
        watch.stop.check()?;
        let next = at + ready.len() as u64;
        coming.clear();
        coming.resize(usize::try_from(file.length - next).unwrap_or(usize::MAX).min(window), 0);
        // The next bytes arrive while these are hashed and written.
        let (came, wrote) = thread::scope(|scope| {
            let (coming, stop) = (&mut *coming, &watch.stop);
            let fetch = (!coming.is_empty()).then(|| scope.spawn(move || file.fill(next, coming, stop)));
            let wrote = put(&mut output, &ready, &mut hasher, watch);
            (fetch.map(thread::ScopedJoinHandle::join), wrote)
        });
        wrote.map_err(failed)?;
        at = next;
        came.transpose().map_err(|_| Error::new(Code::Internal, "a download panicked"))?.transpose()?;
        std::mem::swap(&mut ready, &mut coming);
    }
    if let (Some(hasher), Some(digest)) = (hasher, digest) {
        // The next download must not continue these bytes.
        digest.check(hasher).map_err(|error| {
            let _ = fs::remove_file(&place.incomplete);
            error.in_file(&file.target.path, Path::new(&file.target.path))
        })?;
    }
    fs::rename(&place.incomplete, &place.file).map_err(failed)
}

/// Opens the bytes that an earlier download left, and hashes them. Returns how many there are.
fn resume(path: &Path, length: u64, hasher: &mut Option<Hasher>, watch: &Watch) -> io::Result<(File, u64)> {
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let mut left = file.metadata()?.len();
    if left > length {
        left = 0;
        file.set_len(0)?;
    }
    let (from, mut piece) = (left, vec![0; PIECE]);
    while left > 0 && !watch.stop.is_set() {
        let count = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        let part = piece.get_mut(..count).unwrap_or_default();
        file.read_exact(part)?;
        note(part, hasher, watch);
        left = left.saturating_sub(count as u64);
    }
    Ok((file, from))
}

/// Appends bytes.
fn put(file: &mut File, bytes: &[u8], hasher: &mut Option<Hasher>, watch: &Watch) -> io::Result<()> {
    file.write_all(bytes)?;
    note(bytes, hasher, watch);
    Ok(())
}

fn note(bytes: &[u8], hasher: &mut Option<Hasher>, watch: &Watch) {
    if let Some(hasher) = hasher {
        hasher.update(bytes);
    }
    watch.did_bytes(bytes.len() as u64);
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::io("write", error).in_file(&path.to_string_lossy(), path)
}

/// Locks a file as `filelock` of Python does: `flock`, or the equivalent of Windows. `None` on a file system without locks, where Python
/// continues without, too: the lock only avoids that two processes fetch the same file.
fn lock(path: &Path, stop: &Stop) -> Result<Option<File>> {
    loop {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(options, 0o664);
        let file = options.open(path).map_err(|error| failed(path, &error))?;
        match file.try_lock() {
            Ok(()) if is_at(&file, path) => return Ok(Some(file)),
            // Another process removed the file when it released its lock.
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => thread::sleep(TRY),
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(failed(path, &error)),
        }
        stop.check()?;
    }
}

/// Returns whether an open file is still the one at a path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let number = |file: fs::Metadata| (file.dev(), file.ino());
    file.metadata().ok().map(number) == fs::metadata(path).ok().map(number)
}

/// An open file cannot be removed here.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> bool {
    true
}
