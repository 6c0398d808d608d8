//! Multipart uploads to a store, with several parts in flight. The object appears when the upload is completed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use object_store::path::Path as Key;
use object_store::{
    Error as StoreError, MultipartUpload, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutPayload,
};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::timeout;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::sinks::upload::{Upload, Uploads};
use ztensor_core::work::Stop;

use super::bucket::Bucket;
use super::failures::{denies, failure, status};
use crate::{errors, runtime};

/// Minimum size of an S3 part other than the last.
const MIN: usize = 5 << 20;
/// Maximum parts of an S3 object.
const PARTS: u64 = 10_000;
/// Target number of parts for a file of known length. A cast or a decompression may produce more than announced.
const DEFAULT: u64 = PARTS / 2;
/// If the length of a file is unknown, the part size doubles after this many parts: 10,000 of them are 8 TiB from 8 MiB on.
const DOUBLES: u64 = 1000;
/// Additional size of a file beyond its data: the index and the gaps between tensors.
const SLACK: u64 = 64 << 20;
/// Memory for parts in flight, unless a single part takes more.
const UNDER_WAY: usize = 64 << 20;
/// How long a store may take to abort one upload, and how long to wait for all of them.
const GIVE_UP: Duration = Duration::from_secs(30);
const SETTLE: Duration = Duration::from_secs(60);

/// A bucket for uploads.
pub struct Store {
    bucket: Bucket,
    overwrite: bool,
    given_up: Arc<GivenUp>,
}

impl Store {
    pub fn new(bucket: Bucket, overwrite: bool) -> Self {
        Self { bucket, overwrite, given_up: Arc::default() }
    }
}

impl Uploads for Store {
    fn overwrites(&self) -> bool {
        self.overwrite
    }

    fn begin(&self, path: &Path, stop: &Stop) -> Result<Box<dyn Upload>> {
        let key = self.bucket.key(path)?;
        let text = path.to_string_lossy().into_owned();
        if key.as_ref().is_empty() {
            let message = format!("'{text}' is a bucket: specify an object in it, such as {text}model.zt");
            return Err(Error::new(Code::InvalidArg, message));
        }
        let options = &self.bucket.options;
        Ok(Box::new(Sending {
            store: Arc::clone(&self.bucket.store),
            key,
            path: text,
            overwrite: self.overwrite,
            stop: stop.clone(),
            concurrency: options.concurrency,
            size: Size::new(options.piece_bytes),
            buffer: Vec::new(),
            length: 0,
            parts: 0,
            beginning: None,
            upload: None,
            under_way: JoinSet::new(),
            given_up: Arc::clone(&self.given_up),
        }))
    }

    fn is_there(&self, path: &Path, stop: &Stop) -> Result<bool> {
        let key = self.bucket.key(path)?;
        let text = path.to_string_lossy();
        runtime::wait(stop, async { length_of(&*self.bucket.store, &key, &text).await })
            .map(|found| found.is_some())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let key = self.bucket.key(path)?;
        let text = path.to_string_lossy();
        runtime::wait(Stop::never(), async {
            self.bucket.store.delete(&key).await.map_err(|error| failed(&text, &error))
        })
    }

    fn settle(&self) {
        self.given_up.wait();
    }
}

/// Returns the length of an object, or `None` if it does not exist or the credentials only permit writing.
async fn length_of(store: &dyn ObjectStore, key: &Key, path: &str) -> Result<Option<u64>> {
    match store.head(key).await {
        Ok(found) => Ok(Some(found.size)),
        Err(
            StoreError::NotFound { .. }
            | StoreError::PermissionDenied { .. }
            | StoreError::Unauthenticated { .. },
        ) => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}

/// The size of the next part.
struct Size {
    min: usize,
    next: usize,
    /// The length of the file is known: all parts but the last have the same size, as some stores require.
    fixed: bool,
}

impl Size {
    fn new(piece: usize) -> Self {
        let min = piece.max(MIN);
        Self { min, next: min, fixed: false }
    }

    /// Chooses the part size for this many bytes of data.
    fn expect(&mut self, length: u64) {
        let max = length.saturating_add(length / 64).saturating_add(SLACK);
        let part = usize::try_from(max.div_ceil(DEFAULT)).unwrap_or(usize::MAX);
        self.next = part.next_multiple_of(1 << 20).max(self.min);
        self.fixed = true;
    }

    /// Updates the part size after this many parts.
    fn after(&mut self, parts: u64) {
        // More than expected: continue as with an unknown length.
        let grows = !self.fixed || parts >= DEFAULT;
        if grows && parts.is_multiple_of(DOUBLES) {
            self.next = self.next.saturating_mul(2);
        }
    }
}

/// An upload in progress.
struct Sending {
    store: Arc<dyn ObjectStore>,
    key: Key,
    path: String,
    overwrite: bool,
    stop: Stop,
    concurrency: usize,
    size: Size,
    /// The part being filled.
    buffer: Vec<u8>,
    /// Bytes written.
    length: u64,
    parts: u64,
    /// The request that begins the upload, until it is answered: a canceled wait must still know what to abort.
    beginning: Option<JoinHandle<Begun>>,
    /// The upload in the store: none before the first part.
    upload: Option<Box<dyn MultipartUpload>>,
    under_way: JoinSet<object_store::Result<()>>,
    given_up: Arc<GivenUp>,
}

impl Sending {
    /// Sends the filled part, once few enough are in flight.
    fn send(&mut self) -> Result<()> {
        let part = std::mem::take(&mut self.buffer);
        let max = (UNDER_WAY / part.len().max(1)).clamp(1, self.concurrency);
        while self.under_way.len() >= max {
            self.next_done()?;
        }
        if self.upload.is_none() {
            self.upload = Some(self.begun()?);
        }
        let Some(upload) = &mut self.upload else {
            return Err(Error::new(Code::Internal, "the upload has not begun"));
        };
        self.under_way.spawn_on(upload.put_part(PutPayload::from(part)), &runtime::handle()?);
        self.parts += 1;
        self.size.after(self.parts);
        Ok(())
    }

    /// Waits for the store to begin the upload.
    fn begun(&mut self) -> Result<Box<dyn MultipartUpload>> {
        let (store, key) = (Arc::clone(&self.store), self.key.clone());
        let request = async move { store.put_multipart_opts(&key, PutMultipartOptions::default()).await };
        let beginning = self.beginning.insert(runtime::handle()?.spawn(request));
        let begun = runtime::wait(&self.stop, async { beginning.await.map_err(|error| lost(&error)) })?;
        self.beginning = None;
        begun.map_err(|error| failed(&self.path, &error))
    }

    /// Waits for one part.
    fn next_done(&mut self) -> Result<()> {
        let (path, under_way) = (&self.path, &mut self.under_way);
        runtime::wait(&self.stop, async {
            match under_way.join_next().await {
                None | Some(Ok(Ok(()))) => Ok(()),
                Some(Ok(Err(error))) => Err(failed(path, &error)),
                Some(Err(error)) => Err(lost(&error)),
            }
        })
    }

    /// Determines the result of an upload whose completion failed. The response may have been lost and the request retried: an upload
    /// unknown to the store is complete.
    async fn outcome(&self, upload: &mut dyn MultipartUpload, error: StoreError) -> Result<()> {
        let gone = matches!(upload.abort().await, Err(StoreError::NotFound { .. }));
        if gone && length_of(&*self.store, &self.key, &self.path).await? == Some(self.length) {
            return Ok(());
        }
        Err(match error {
            StoreError::AlreadyExists { .. }
            | StoreError::Precondition { .. }
            | StoreError::NotModified { .. } => taken_by_another(&self.path),
            error => failed(&self.path, &error),
        })
    }
}

impl Upload for Sending {
    fn expect(&mut self, length: u64) {
        if self.parts == 0 {
            self.size.expect(length);
        }
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.length += bytes.len() as u64;
        while !bytes.is_empty() {
            let part = self.size.next;
            if self.buffer.is_empty() {
                let size = part.min(self.size.min);
                self.buffer.try_reserve_exact(size).map_err(|_| {
                    Error::new(Code::Limit, format!("not enough memory for a part of {size} bytes"))
                })?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(part - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() >= part {
                self.send()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        // An object has at least one part, even if empty.
        if !self.buffer.is_empty() || self.parts == 0 {
            self.send()?;
        }
        while !self.under_way.is_empty() {
            self.next_done()?;
        }
        Ok(())
    }

    fn complete(mut self: Box<Self>) -> Result<()> {
        self.flush()?;
        let found = runtime::wait(&self.stop, async {
            if self.overwrite { Ok(None) } else { length_of(&*self.store, &self.key, &self.path).await }
        })?;
        if found.is_some() {
            return Err(taken_by_another(&self.path));
        }
        let Some(mut upload) = self.upload.take() else {
            return Err(Error::new(Code::Internal, "the upload has no parts"));
        };
        // From here on the result matters even if the caller stops waiting.
        runtime::wait(Stop::never(), async {
            match upload.complete().await {
                Ok(_) => Ok(()),
                Err(error) => self.outcome(&mut *upload, error).await,
            }
        })
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let (beginning, upload) = (self.beginning.take(), self.upload.take());
        if beginning.is_none() && upload.is_none() {
            return;
        }
        let Ok(handle) = runtime::handle() else { return };
        let mut under_way = std::mem::take(&mut self.under_way);
        let given_up = Arc::clone(&self.given_up);
        *given_up.count() += 1;
        handle.spawn(async move {
            // No part may arrive after the upload is aborted: the store would retain it.
            under_way.shutdown().await;
            let ending = async {
                let upload = match (upload, beginning) {
                    (None, Some(beginning)) => beginning.await.ok().and_then(std::result::Result::ok),
                    (upload, _) => upload,
                };
                if let Some(mut upload) = upload {
                    // If this fails, a lifecycle rule of the bucket removes the parts.
                    let _ = upload.abort().await;
                }
            };
            let _ = timeout(GIVE_UP, ending).await;
            *given_up.count() -= 1;
            given_up.none.notify_all();
        });
    }
}

type Begun = object_store::Result<Box<dyn MultipartUpload>>;

fn lost(error: &JoinError) -> Error {
    Error::new(Code::Internal, format!("a request was lost: {error}"))
}

/// Uploads that are aborted on runtime threads, so that dropping one does not block.
#[derive(Default)]
struct GivenUp {
    count: Mutex<usize>,
    none: Condvar,
}

impl GivenUp {
    fn count(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) {
        let waited = self.none.wait_timeout_while(self.count(), SETTLE, |count| *count > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

fn taken_by_another(path: &str) -> Error {
    let message = format!("'{path}' exists already");
    Error::new(Code::Exists, message).option("overwrite").file(&PathBuf::from(path))
}

/// Describes a store's error for an upload without secrets.
fn failed(path: &str, error: &StoreError) -> Error {
    match error {
        StoreError::NotFound { .. } => {
            errors::about(path, "there is no such bucket: check the name").answered(status(error))
        }
        denied if denies(denied) => errors::about(
            path,
            "the store denies access: check the credentials, and that they may write the object",
        )
        .answered(status(error)),
        other => failure(path, other),
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;
    use crate::client::Pool;
    use crate::options::Options;

    fn store(overwrite: bool) -> (Arc<InMemory>, Store) {
        let memory = Arc::new(InMemory::new());
        let store: Arc<dyn ObjectStore> = Arc::<InMemory>::clone(&memory);
        let options = Options { piece_bytes: MIN, ..Options::default() };
        let pool = Pool::of(&options).unwrap();
        let (root, blocks) = ("s3://b/".to_owned(), Arc::default());
        let (lists, unlisted, unopened) = (None, Mutex::default(), Mutex::default());
        let bucket = Bucket { store, lists, root, options, blocks, unlisted, unopened, pool };
        (memory, Store::new(bucket, overwrite))
    }

    fn content(memory: &InMemory, key: &str) -> Option<Vec<u8>> {
        runtime::wait(Stop::never(), async {
            match memory.get(&Key::from(key)).await {
                Ok(found) => Ok(Some(found.bytes().await.unwrap().to_vec())),
                Err(_) => Ok(None),
            }
        })
        .unwrap()
    }

    #[test]
    fn parts_suffice_whatever_the_length() {
        let total = |mut size: Size, length: u64| {
            let (mut sent, mut parts) = (0_u64, 0);
            while sent < length {
                sent += size.next as u64;
                parts += 1;
                size.after(parts);
            }
            parts
        };
        let known = |length| {
            let mut size = Size::new(8 << 20);
            size.expect(length);
            size
        };
        for length in [1, 100 << 20, 80 << 30, 5 << 40] {
            assert!(total(Size::new(8 << 20), length) <= PARTS, "{length}");
            assert!(total(known(length), length + length / 64 + SLACK) <= PARTS, "{length}");
            // More than announced.
            assert!(total(known(length), 3 * length) <= PARTS, "{length}");
        }
        assert_eq!(known(1).next, 8 << 20);
        assert_eq!(Size::new(1).next, MIN);
        let (mut size, first) = (known(1 << 40), known(1 << 40).next);
        (1..DEFAULT).for_each(|parts| size.after(parts));
        assert_eq!(size.next, first, "some stores want parts of one size");
    }

    #[test]
    fn an_object_appears_when_it_is_complete() {
        let (memory, store) = store(false);
        let path = Path::new("s3://b/folder/m.zt");
        let bytes: Vec<u8> = (0..12_000_000_u32).map(|at| at.to_le_bytes()[1]).collect();
        let mut upload = store.begin(path, Stop::never()).unwrap();
        for piece in bytes.chunks(700_001) {
            upload.write(piece).unwrap();
        }
        upload.flush().unwrap();
        assert_eq!(content(&memory, "folder/m.zt"), None);
        assert!(!store.is_there(path, Stop::never()).unwrap());
        upload.complete().unwrap();
        assert!(content(&memory, "folder/m.zt").unwrap() == bytes);
        assert!(store.is_there(path, Stop::never()).unwrap());
        let mut other = store.begin(path, Stop::never()).unwrap();
        other.write(b"other").unwrap();
        assert_eq!(other.complete().unwrap_err().code(), Code::Exists);
        assert!(content(&memory, "folder/m.zt").unwrap() == bytes);
        store.remove(path).unwrap();
        assert_eq!(content(&memory, "folder/m.zt"), None);
    }

    #[test]
    fn an_abandoned_upload_leaves_no_object() {
        let (memory, store) = store(true);
        let stop = Stop::default();
        let mut upload = store.begin(Path::new("s3://b/m"), &stop).unwrap();
        upload.write(&vec![1; 2 * MIN]).unwrap();
        drop(upload);
        store.settle();
        assert_eq!(*store.given_up.count(), 0);
        let mut upload = store.begin(Path::new("s3://b/m"), &stop).unwrap();
        upload.write(&[1]).unwrap();
        stop.set();
        assert_eq!(upload.complete().unwrap_err().code(), Code::Aborted);
        assert_eq!(content(&memory, "m"), None);
        assert_eq!(store.begin(Path::new("s3://b/"), &stop).err().unwrap().code(), Code::InvalidArg);
    }
}
