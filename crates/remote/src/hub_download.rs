//! Downloads of whole files of the hub, by which its own clients find them: under a lock that they take, too, into a file whose bytes are
//! always a prefix of the content, so that a later download continues it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ztensor_core::checked;
use ztensor_core::codecs::digest::{Algorithm, Hasher};
use ztensor_core::error::{Code, Error, Result, short};
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
}

/// A file to download.
pub struct Wanted {
    /// The size that the hub lists.
    pub length: Option<u64>,
    /// The SHA-256 in hexadecimal digits, if the hub states it.
    pub sha256: Option<String>,
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

/// Downloads a file, unless it exists with the listed size. Returns the entity tag of the hub, if it was asked, and the length of the file.
///
/// Fails with `ZT_DIGEST_MISMATCH` if the bytes do not have the digest: then nothing of them remains.
pub fn download(
    url: &str,
    wanted: &Wanted,
    options: &Options,
    watch: &Watch,
) -> Result<(Option<String>, u64)> {
    let address = address_of(url)?;
    let stop = &watch.stop;
    let _lock = wanted.place.as_ref().map(|place| lock(&place.lock, stop)).transpose()?;
    if let Some(place) = wanted.place.as_ref().filter(|_| !wanted.replaces)
        && let Some(file) = fs::metadata(&place.file).ok().filter(fs::Metadata::is_file)
        && wanted.length.is_none_or(|length| length == file.len())
    {
        return Ok((None, file.len()));
    }
    if is_offline(options) {
        return Err(not_cached(&address));
    }
    let hub = Hub::new(options)?;
    let target = hub.file(&address)?;
    let (file, head, _) = opening::request(&hub.client, &target, stop)?;
    let tag = file.hub_tag.as_ref().map(|tag| String::from_utf8_lossy(tag.as_bytes()).into_owned());
    if let Some(listed) = wanted.length.filter(|&listed| listed != file.length) {
        let message = format!("the server sends {} bytes, but the hub lists {listed}", file.length);
        return Err(errors::about(&target.path, message));
    }
    if let Some(place) = &wanted.place {
        fill(&file, &head, place, wanted, watch)?;
    }
    Ok((tag, file.length))
}

/// Appends the missing bytes to the incomplete file, checks it and gives it its name.
fn fill(file: &Opened, head: &[u8], place: &Place, wanted: &Wanted, watch: &Watch) -> Result<()> {
    let failed = |error: &std::io::Error| failed(&place.incomplete, error);
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let mut output = options.open(&place.incomplete).map_err(|error| failed(&error))?;
    let mut hasher = wanted.sha256.as_ref().map(|_| Algorithm::Sha256.hasher());
    let from = output.metadata().map_err(|error| failed(&error))?.len();
    let from = if from > file.length { 0 } else { from };
    output.set_len(from).map_err(|error| failed(&error))?;
    watch.expect(file.length, 0);
    match &mut hasher {
        Some(hasher) => hash(&output, from, hasher, watch).map_err(|error| error.file(&place.incomplete))?,
        None => watch.did_bytes(from),
    }
    output.seek(std::io::SeekFrom::Start(from)).map_err(|error| failed(&error))?;
    let (mut at, mut coming) = (from, Vec::new());
    let mut ready = usize::try_from(from).ok().and_then(|from| head.get(from..)).unwrap_or_default().to_vec();
    while at < file.length {
        let next = at + ready.len() as u64;
        let count = usize::try_from(file.length - next).unwrap_or(usize::MAX).min(wanted.window);
        coming.clear();
        coming.try_reserve_exact(count).map_err(|_| Error::new(Code::Limit, "not enough memory for a download"))?;
        coming.resize(count, 0);
        // The next bytes arrive while these are hashed and written.
        let (came, wrote) = thread::scope(|scope| {
            let coming = &mut coming;
            let fetch = scope.spawn(move || {
                if coming.is_empty() { Ok(()) } else { file.fill(next, coming, &watch.stop) }
            });
            let wrote = output.write_all(&ready);
            if let Some(hasher) = &mut hasher {
                hasher.update(&ready);
            }
            (fetch.join(), wrote)
        });
        wrote.map_err(|error| failed(&error))?;
        watch.did_bytes(ready.len() as u64);
        at = next;
        came.map_err(|_| Error::new(Code::Internal, "a download panicked"))??;
        std::mem::swap(&mut ready, &mut coming);
    }
    if let (Some(hasher), Some(sha256)) = (hasher, &wanted.sha256) {
        check(hasher, sha256, &file.target.path).inspect_err(|_| _ = fs::remove_file(&place.incomplete))?;
    }
    fs::rename(&place.incomplete, &place.file).map_err(|error| failed(&error))
}

/// Hashes the bytes that an earlier download left.
fn hash(mut file: &File, length: u64, hasher: &mut Hasher, watch: &Watch) -> Result<()> {
    let mut piece = vec![0; PIECE];
    let mut left = length;
    while left > 0 {
        watch.stop.check()?;
        let count = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        let part = piece.get_mut(..count).unwrap_or_default();
        file.read_exact(part).map_err(|error| Error::io("read", &error))?;
        hasher.update(part);
        watch.did_bytes(count as u64);
        left = checked::exact(left - count as u64, "the length of the file")?;
    }
    Ok(())
}

fn check(hasher: Hasher, sha256: &str, path: &str) -> Result<()> {
    let digest = Algorithm::Sha256.digest(hasher);
    if digest.text().rsplit(':').next().is_some_and(|hex| hex.eq_ignore_ascii_case(sha256)) {
        return Ok(());
    }
    let message = format!(
        "the bytes that arrived have {}, but the hub states sha256:{}: download the file again",
        digest.text(),
        short(sha256, 80)
    );
    Err(Error::new(Code::DigestMismatch, message).in_file(path, Path::new(path)))
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
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
