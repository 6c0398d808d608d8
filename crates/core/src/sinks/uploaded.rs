//! Files for a store that are first assembled locally, and uploaded when they are complete.
#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::Arc;

use super::store::{Sent, Store, check_free};
use super::upload::Uploads;
use super::{AtomicFile, Place, Temporary};
use crate::error::{Error, Result};
use crate::sources::file::read_at;
use crate::work::Stop;

/// Bytes that are read and sent at once.
const PIECE: usize = 1 << 20;

impl AtomicFile {
    /// Begins a file for a store: in the temporary folder, unnamed if supported. Fails with `ZT_EXISTS` if it exists, unless it may be
    /// overwritten.
    pub fn for_upload(uploads: &Arc<dyn Uploads>, target: &Path, stop: &Stop) -> Result<Self> {
        check_free(&**uploads, target, stop)?;
        Self::store(Store { uploads: Arc::clone(uploads), stop: stop.clone() }, target)
    }

    pub(super) fn store(store: Store, target: &Path) -> Result<Self> {
        let mut temporary = Temporary::in_temp_folder()?;
        temporary.hide();
        let overwrite = store.uploads.overwrites();
        let place = Place { target: target.to_owned(), overwrite, store: Some(store), ..Place::default() };
        Ok(Self { temporary, place: Box::new(place) })
    }

    /// Returns whether the file is for a store.
    pub fn is_remote(&self) -> bool {
        self.place.store.is_some()
    }

    /// Uploads all bytes. They are not visible before the upload is completed.
    pub(super) fn send(&self, store: &Store) -> Result<Sent> {
        let length = self.file().metadata().map_err(|error| Error::io("fstat", &error))?.len();
        let mut upload = store.uploads.begin(self.target(), &store.stop)?;
        upload.expect(length);
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while at < length {
            store.stop.check()?;
            let count = usize::try_from(length - at).unwrap_or(PIECE).min(PIECE);
            let bytes = piece.get_mut(..count).unwrap_or_default();
            read_at(self.file(), at, bytes)?;
            upload.write(bytes)?;
            at += count as u64;
        }
        upload.flush()?;
        Ok((self.target().to_owned(), upload))
    }
}
