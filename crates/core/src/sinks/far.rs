//! Files for a store that are put together on this machine first, and sent when they are complete.
#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::Arc;

use super::upload::{Upload, Uploads};
use super::{AtomicFile, Temporary, Warning, exists};
use crate::error::{Error, Result};
use crate::sources::file::read_at;
use crate::work::Stop;

/// Bytes that are read and sent at once.
const PIECE: usize = 1 << 20;

/// The store that a file is for.
#[derive(Clone)]
pub(super) struct Far {
    uploads: Arc<dyn Uploads>,
    stop: Stop,
}

impl AtomicFile {
    /// Begins a file for a store: in the folder for temporary files, without a name where the system can do that. Fails with
    /// `ZT_EXISTS` where it is there already, unless it may be overwritten.
    pub fn for_upload(uploads: &Arc<dyn Uploads>, target: &Path, stop: &Stop) -> Result<Self> {
        check_free(&**uploads, target, stop)?;
        Self::far(Far { uploads: Arc::clone(uploads), stop: stop.clone() }, target)
    }

    pub(super) fn far(far: Far, target: &Path) -> Result<Self> {
        let mut temporary = Temporary::apart()?;
        temporary.hide();
        Ok(Self {
            temporary,
            target: target.to_owned(),
            overwrite: far.uploads.overwrites(),
            old: None,
            usual: None,
            reserved: false,
            far: Some(far),
        })
    }

    /// Whether it is for a store.
    pub fn is_far(&self) -> bool {
        self.far.is_some()
    }

    /// Sends all bytes. Nobody sees them before the upload is complete.
    fn send(&self, far: &Far) -> Result<Box<dyn Upload>> {
        let length = self.file().metadata().map_err(|error| Error::io("fstat", &error))?.len();
        let mut upload = far.uploads.begin(&self.target, &far.stop)?;
        upload.expect(length);
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while at < length {
            far.stop.check()?;
            let count = usize::try_from(length - at).unwrap_or(PIECE).min(PIECE);
            let bytes = piece.get_mut(..count).unwrap_or_default();
            read_at(self.file(), at, bytes)?;
            upload.write(bytes)?;
            at += count as u64;
        }
        upload.flush()?;
        Ok(upload)
    }
}

/// Refuses a path that is taken, unless it may be overwritten.
pub fn check_free(uploads: &dyn Uploads, target: &Path, stop: &Stop) -> Result<()> {
    if !uploads.overwrites() && uploads.is_there(target, stop)? {
        return Err(exists(target));
    }
    Ok(())
}

/// Sends the files, then puts one after the other under its name, the last one last. Where one is refused, those before it go
/// again, unless they may have replaced others.
pub(super) fn put(far: &Far, files: &[AtomicFile], last: &AtomicFile) -> Result<Vec<Warning>> {
    let files: Vec<&AtomicFile> = files.iter().chain([last]).collect();
    let sent: Vec<Box<dyn Upload>> = files.iter().map(|file| file.send(far)).collect::<Result<_>>()?;
    far.stop.check()?;
    for (at, upload) in sent.into_iter().enumerate() {
        if let Err(error) = upload.complete() {
            for file in files.iter().take(at).filter(|file| !file.overwrite) {
                // The first error counts.
                let _ = far.uploads.remove(&file.target);
            }
            return Err(error);
        }
    }
    Ok(Vec::new())
}
