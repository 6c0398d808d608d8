//! The state of an open file that threads share, and how it is opened.

use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use napi_derive::napi;
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
use ztensor_core::formats::Formats;
use ztensor_core::limits::Limits;
use ztensor_core::model::{Catalog, Component, DType, Tensor};
use ztensor_core::open::detect;
use ztensor_core::open::memory::InMemory;
use ztensor_core::open::{self, Lookup, Opened, Request};
use ztensor_core::read::Reading;
use ztensor_core::read::total::{self, Work};
use ztensor_core::sources::files::Files;
use ztensor_core::sources::filesystem::Filesystem;
use ztensor_core::sources::io::Io;
use ztensor_core::sources::memory::Memory;
use ztensor_core::sources::staged::Staged;
use ztensor_core::sources::{ReadAt, Sources};
use ztensor_core::work::lanes::{Lane, SHORT};
use ztensor_core::work::{Stop, Watch};

use crate::values::arguments::unsigned;
use crate::values::formats::FORMATS;
use crate::values::kernels;
use ztensor_handover::Flat;

/// Options for opening a file.
#[napi(object)]
pub struct OpenRequest {
    pub format: Option<String>,
    /// The bytes of the path if it is not UTF-8, replacing the placeholder text.
    pub path_bytes: Option<Vec<u8>>,
    pub io: Option<String>,
    pub max_index_bytes: Option<f64>,
    pub max_decoded_bytes: Option<f64>,
    pub max_rank: Option<f64>,
    pub max_attribute_values: Option<f64>,
    /// Do not look up the files that an index names.
    pub unread: Option<bool>,
    /// Allow raw data files of an index to be links out of its folder.
    pub follow_links: Option<bool>,
    /// The locations of the files that an index names: the names, and a path for each.
    pub shard_names: Option<Vec<String>>,
    pub shard_paths: Option<Vec<String>>,
}

impl OpenRequest {
    pub fn limits(&self) -> Limits {
        let default = Limits::default();
        let small = |value: Option<f64>| {
            value.and_then(unsigned).map(|value| u32::try_from(value).unwrap_or(u32::MAX))
        };
        Limits {
            max_index_bytes: self.max_index_bytes.and_then(unsigned),
            // A limit set by the caller permits using all of it.
            max_repeated_bytes: self
                .max_decoded_bytes
                .and_then(unsigned)
                .unwrap_or(default.max_repeated_bytes),
            max_decoded_bytes: self.max_decoded_bytes.and_then(unsigned).unwrap_or(default.max_decoded_bytes),
            max_rank: small(self.max_rank).unwrap_or(default.max_rank),
            max_attribute_values: small(self.max_attribute_values).unwrap_or(default.max_attribute_values),
        }
    }

    /// Returns the path that `text` represents.
    fn path(&self, text: &str) -> PathBuf {
        #[cfg(unix)]
        if let Some(bytes) = &self.path_bytes {
            return <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes).into();
        }
        text.into()
    }

    fn io(&self) -> Io {
        self.io.as_deref().and_then(Io::from_name).unwrap_or_default()
    }

    fn formats(&self) -> Formats {
        self.format.as_deref().and_then(|name| FORMATS.only(name)).unwrap_or(FORMATS)
    }

    fn request(&self, stop: Stop) -> Request {
        let lookup = match (&self.shard_names, &self.shard_paths) {
            (Some(names), Some(paths)) => {
                Lookup::At(names.iter().cloned().zip(paths.iter().map(PathBuf::from)).collect())
            }
            _ if self.unread == Some(true) => Lookup::Unread,
            _ => Lookup::Siblings,
        };
        Request {
            formats: self.formats(),
            limits: self.limits(),
            lookup,
            stop,
            follow_links: self.follow_links == Some(true),
            ..Request::default()
        }
    }
}

/// From this number of tensors on, work per tensor is not done on the JavaScript thread.
const MANY: usize = 10_000;

/// Returns the names of the files that an index refers to.
pub fn shard_names(path: &str, request: &OpenRequest) -> CoreResult<Vec<String>> {
    open::names(&request.path(path), &request.request(Stop::default()))
}

/// Copies a file into memory, to resolve the files that its index names.
pub fn in_memory(bytes: &[u8], request: &OpenRequest) -> CoreResult<InMemory> {
    InMemory::new(Arc::new(Memory::copy_of(bytes)?), &request.request(Stop::default()))
}

/// Returns the names of the files that it refers to.
pub fn names_in_memory(file: &InMemory, request: &OpenRequest) -> CoreResult<Vec<String>> {
    file.names(&request.request(Stop::default()))
}

/// The cost of a tensor in addition to its bytes, as the number of bytes that take as long.
const TENSOR: u64 = 4096;

/// Returns the number of bytes that must be read or produced.
fn weight(component: &Component) -> u64 {
    component.byte_length().map_or(u64::MAX, |decoded| decoded.max(component.stored_length()))
}

/// The shared state of an open file.
pub struct Shared {
    pub catalog: Arc<Catalog>,
    /// `None` for the caller's memory, parts of which are staged for each call.
    pub files: Option<Files>,
    /// Bytes of all files.
    pub length: u64,
    /// JavaScript handles of this file in all threads. The last one to close releases the mappings.
    pub handles: AtomicUsize,
    /// The index in flat form, if it was prepared in advance.
    pub flat: Mutex<Option<Flat>>,
    /// Whether reading waits for another machine, or for the caller's code.
    pub is_remote: bool,
    /// The URL of a remote file, as shown to users.
    pub location: Option<String>,
    /// Whether the first file is a copy of the caller's memory.
    pub in_memory: bool,
    limits: Limits,
    /// Set by a panic in work on the file.
    broken: AtomicBool,
}

impl Shared {
    pub fn open(path: &str, request: &OpenRequest, stop: Stop) -> CoreResult<Self> {
        let (io, path, request) = (request.io(), request.path(path), request.request(stop));
        Ok(Self::new(open::open(&path, &request)?, request.limits, io))
    }

    /// Opens one file of a remote filesystem, or several as one.
    pub fn open_at(
        filesystem: Arc<dyn Filesystem>,
        paths: &[PathBuf],
        request: &OpenRequest,
        stop: Stop,
    ) -> CoreResult<Self> {
        let (io, request) = (request.io(), Request { filesystem, ..request.request(stop) });
        let location = if let [path] = paths { Some(path.to_string_lossy().into_owned()) } else { None };
        let shared = Self::new(open::open_all(paths, &request)?, request.limits, io);
        Ok(Self { location, ..shared }.prepared())
    }

    /// Opens several files as one.
    pub fn open_all(paths: Vec<String>, request: &OpenRequest, stop: Stop) -> CoreResult<Self> {
        let (io, request) = (request.io(), request.request(stop));
        let paths: Vec<_> = paths.into_iter().map(PathBuf::from).collect();
        Ok(Self::new(open::open_all(&paths, &request)?, request.limits, io))
    }

    /// Opens a file in memory, with the files that the request gives for the names in it.
    pub fn open_in_memory(file: &InMemory, request: &OpenRequest, stop: Stop) -> CoreResult<Self> {
        let (io, request) = (request.io(), request.request(stop));
        let shared = Self::new(file.open(&request)?, request.limits, io);
        Ok(Self { in_memory: true, ..shared })
    }

    fn new(opened: Opened, limits: Limits, io: Io) -> Self {
        let Opened { catalog, files } = opened;
        files.set_io(io);
        Self {
            catalog: Arc::new(catalog),
            length: files.total_length(),
            is_remote: files.are_remote(),
            location: None,
            in_memory: false,
            files: Some(files),
            handles: AtomicUsize::new(0),
            flat: Mutex::default(),
            limits,
            broken: AtomicBool::default(),
        }
    }

    pub fn from_memory(bytes: &dyn ReadAt, request: &OpenRequest) -> CoreResult<Self> {
        let limits = request.limits();
        let catalog = detect::parse_alone(bytes, &request.request(Stop::default()))?;
        if !catalog.shards.is_empty() && request.unread != Some(true) {
            let message =
                "the file has shards, which cannot be located for a file in memory: open it by its path";
            return Err(CoreError::new(Code::Incomplete, message).hint("shards", " (or with shards: 'none')"));
        }
        Ok(Self {
            catalog: Arc::new(catalog),
            length: bytes.length(),
            files: None,
            is_remote: false,
            location: None,
            in_memory: false,
            handles: AtomicUsize::new(0),
            flat: Mutex::default(),
            limits,
            broken: AtomicBool::default(),
        })
    }

    /// Flattens the index if it has very many tensors. Called off the JavaScript thread, which this would block for 50 ms per million
    /// tensors.
    pub fn prepared(mut self) -> Self {
        if self.catalog.len() >= MANY {
            self.flat = Mutex::new(Some(Flat::of(&self.catalog)));
        }
        self
    }

    /// Releases the file. An index of very many tensors is freed on another thread, because this takes 100 ms.
    pub fn end(self: Arc<Self>) {
        let Some(Self { catalog, files, .. }) = Arc::into_inner(self) else { return };
        drop(files);
        if catalog.len() >= MANY
            && let Ok(lane) = Lane::Short.ready()
        {
            lane.spawn(move || drop(catalog));
        }
    }

    pub fn part(&self, ordinal: u32, component: u32) -> CoreResult<(Tensor<'_>, &Component)> {
        let tensor = self.tensor(ordinal)?;
        let component = tensor.components().get(component as usize);
        Ok((tensor, component.ok_or_else(|| CoreError::new(Code::Internal, "no such component"))?))
    }

    pub fn tensor(&self, ordinal: u32) -> CoreResult<Tensor<'_>> {
        self.catalog.tensor(ordinal as usize).ok_or_else(|| CoreError::new(Code::Internal, "no such tensor"))
    }

    /// Returns a lane, or the lane for work that waits for something external.
    pub fn or_remote(&self, lane: Lane) -> Lane {
        if self.is_remote { Lane::Remote } else { lane }
    }

    /// Returns the lane for work on tensors.
    pub fn lane(&self, ordinals: &[u32]) -> Lane {
        if self.is_remote {
            return Lane::Remote;
        }
        // For that many the sum of the weights alone would take a while.
        if ordinals.len() as u64 > SHORT / TENSOR {
            return Lane::Long;
        }
        let tensors = ordinals.iter().filter_map(|&ordinal| self.catalog.tensor(ordinal as usize));
        let weights = tensors.flat_map(Tensor::components).map(weight);
        Lane::of(weights.fold(ordinals.len() as u64 * TENSOR, u64::saturating_add))
    }

    /// Returns the lane for work on a component or on a slice of it.
    pub fn component_lane(&self, ordinal: u32, component: u32, ranges: Option<&[f64]>) -> Lane {
        if self.is_remote {
            return Lane::Remote;
        }
        let Ok((tensor, component)) = self.part(ordinal, component) else { return Lane::Short };
        let bits = component.dtype.map_or(8, DType::bits);
        let slice = ranges.and_then(|ranges| kernels::slice(tensor.shape(), ranges, bits).ok());
        // A contiguous range without conversion; anything else takes more than its own bytes.
        let run = slice.filter(|_| component.plain_range().is_some()).and_then(|slice| slice.contiguous());
        Lane::of(run.map_or_else(|| weight(component), |(_, length)| length))
    }

    /// Rejects work on tensors whose total size far exceeds that of the file.
    pub fn check_total(&self, ordinals: &[u32], work: Work) -> CoreResult<()> {
        total::check(&self.catalog, &self.limits, ordinals, self.length, work)
    }

    /// Like `check_total`, for another catalog of the same files.
    pub fn check_total_of(&self, catalog: &Catalog, ordinals: &[u32], work: Work) -> CoreResult<()> {
        total::check(catalog, &self.limits, ordinals, self.length, work)
    }

    /// Rejects a file after a panic during work on it, because its state is unknown.
    pub fn check(&self) -> CoreResult<()> {
        if self.broken.load(Ordering::Relaxed) {
            let message = "an earlier call met a bug in ztensor; close the file";
            return Err(CoreError::new(Code::Internal, message));
        }
        Ok(())
    }

    /// Prevents the JavaScript thread from waiting for remote data.
    pub fn check_near(&self) -> CoreResult<()> {
        if self.is_remote {
            let message = "the data is remote, and synchronous calls do not wait for the network: await load(), or open the URL with remote: { cache: folder } and await prefetch() first";
            return Err(CoreError::new(Code::NotLocal, message));
        }
        Ok(())
    }

    /// Calls `read` on the JavaScript thread.
    pub fn reading_here<T>(
        &self,
        staged: Option<&Staged>,
        read: impl FnOnce(Reading<'_>) -> CoreResult<T>,
    ) -> CoreResult<T> {
        self.check_near()?;
        self.reading(staged, &Watch::default(), read)
    }

    /// Calls `read` on the JavaScript thread for a tensor or one component, which may be remote but cached locally.
    pub fn reading_tensor_here<T>(
        &self,
        staged: Option<&Staged>,
        watch: &Watch,
        (ordinal, component): (u32, Option<u32>),
        read: impl FnOnce(Reading<'_>) -> CoreResult<T>,
    ) -> CoreResult<T> {
        let Some(files) = self.files.as_ref().filter(|_| self.is_remote) else {
            return self.reading(staged, watch, read);
        };
        if !self.is_near(ordinal, component)? {
            return self.check_near().and_then(|()| self.reading(staged, watch, read));
        }
        self.reading_from(&files.near(), watch, read)
    }

    /// Returns whether all of a tensor, or of one of its components, is available locally.
    pub fn is_near(&self, ordinal: u32, component: Option<u32>) -> CoreResult<bool> {
        let Some(files) = self.files.as_ref().filter(|_| self.is_remote) else { return Ok(true) };
        let tensor = self.tensor(ordinal)?;
        let only = component.map(|component| self.part(ordinal, component)).transpose()?;
        let parts =
            tensor.components().iter().filter(|part| only.is_none_or(|(_, only)| std::ptr::eq(*part, only)));
        for span in parts.flat_map(Component::spans).filter(|span| span.length > 0) {
            if files.copied(span)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Calls `read` with the file, or with what the caller staged of its memory.
    pub fn reading<T>(
        &self,
        staged: Option<&Staged>,
        watch: &Watch,
        read: impl FnOnce(Reading<'_>) -> CoreResult<T>,
    ) -> CoreResult<T> {
        let nothing: &[u8] = &[]; // sufficient for data in the index
        let sources: &dyn Sources = match (&self.files, staged) {
            (Some(files), _) => files,
            (None, Some(staged)) => staged,
            (None, None) => &nothing,
        };
        self.reading_from(sources, watch, read)
    }

    fn reading_from<T>(
        &self,
        sources: &dyn Sources,
        watch: &Watch,
        read: impl FnOnce(Reading<'_>) -> CoreResult<T>,
    ) -> CoreResult<T> {
        let reading = Reading { sources, catalog: &self.catalog, limits: &self.limits, watch };
        self.check()?;
        panic::catch_unwind(AssertUnwindSafe(|| read(reading))).unwrap_or_else(|panic| {
            self.broken.store(true, Ordering::Relaxed);
            panic::resume_unwind(panic)
        })
    }
}

/// A reference to an open file for another thread.
pub struct Reader {
    pub shared: Arc<Shared>,
    pub staged: Option<Arc<Staged>>,
    pub watch: Watch,
}

impl Reader {
    pub fn read<T>(&self, read: impl FnOnce(Reading<'_>) -> CoreResult<T>) -> CoreResult<T> {
        self.shared.reading(self.staged.as_deref(), &self.watch, read)
    }
}
