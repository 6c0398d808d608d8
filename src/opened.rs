//! What threads share of an open file, and how it is opened.

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

use crate::formats::FORMATS;
use crate::index::{Flat, unsigned};
use crate::kernels;

/// What the wrapper asks of an opening.
#[napi(object)]
pub struct OpenRequest {
    pub format: Option<String>,
    /// The bytes of the path where they are not UTF-8, in place of the text that stands for them.
    pub path_bytes: Option<Vec<u8>>,
    pub io: Option<String>,
    pub max_index_bytes: Option<f64>,
    pub max_decoded_bytes: Option<f64>,
    pub max_rank: Option<f64>,
    pub max_attribute_values: Option<f64>,
    /// Do not look for the files that an index names.
    pub unread: Option<bool>,
    /// Raw data beside an index may be a link out of its folder.
    pub follow_links: Option<bool>,
    /// Where the files are that an index names: the names, and a path for each.
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
            // A bound that the caller sets is permission to come to it.
            max_repeated_bytes: self
                .max_decoded_bytes
                .and_then(unsigned)
                .unwrap_or(default.max_repeated_bytes),
            max_decoded_bytes: self.max_decoded_bytes.and_then(unsigned).unwrap_or(default.max_decoded_bytes),
            max_rank: small(self.max_rank).unwrap_or(default.max_rank),
            max_attribute_values: small(self.max_attribute_values).unwrap_or(default.max_attribute_values),
        }
    }

    /// The path that `text` stands for.
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

/// From so many tensors on, what takes a time for each is not done on the JavaScript thread.
const MANY: usize = 10_000;

/// The names of the files that an index wants resolved.
pub fn shard_names(path: &str, request: &OpenRequest) -> CoreResult<Vec<String>> {
    open::names(&request.path(path), &request.request(Stop::default()))
}

/// A copy of a file in memory, for the files that its index names.
pub fn in_memory(bytes: &[u8], request: &OpenRequest) -> CoreResult<InMemory> {
    InMemory::new(Arc::new(Memory::copy_of(bytes)?), &request.request(Stop::default()))
}

/// The names of the files that it wants resolved.
pub fn names_in_memory(file: &InMemory, request: &OpenRequest) -> CoreResult<Vec<String>> {
    file.names(&request.request(Stop::default()))
}

/// What a tensor costs beside its bytes, in bytes that take as long.
const TENSOR: u64 = 4096;

/// The bytes that have to be read, or made.
fn weight(component: &Component) -> u64 {
    component.byte_length().map_or(u64::MAX, |decoded| decoded.max(component.stored_length()))
}

/// What threads share of an open file.
pub struct Shared {
    pub catalog: Catalog,
    /// `None` for memory of the caller's, of which pieces are staged for each call.
    pub files: Option<Files>,
    /// Bytes of all files.
    pub length: u64,
    /// Open files of JavaScript's that are this one, in all threads. The last to close lets go of the mappings.
    pub handles: AtomicUsize,
    /// The index on its way to JavaScript, where it was flattened beforehand.
    pub flat: Mutex<Option<Flat>>,
    /// Whether reading waits for another machine, or for code of the caller's.
    pub is_remote: bool,
    /// What is elsewhere, as users see it.
    pub location: Option<String>,
    /// Whether the first of the files is a copy of memory of the caller's.
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

    /// A file of a tree that is elsewhere, or several as one.
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

    /// Several files as one.
    pub fn open_all(paths: Vec<String>, request: &OpenRequest, stop: Stop) -> CoreResult<Self> {
        let (io, request) = (request.io(), request.request(stop));
        let paths: Vec<_> = paths.into_iter().map(PathBuf::from).collect();
        Ok(Self::new(open::open_all(&paths, &request)?, request.limits, io))
    }

    /// A file in memory, with the files that the request gives for the names in it.
    pub fn open_in_memory(file: &InMemory, request: &OpenRequest, stop: Stop) -> CoreResult<Self> {
        let (io, request) = (request.io(), request.request(stop));
        let shared = Self::new(file.open(&request)?, request.limits, io);
        Ok(Self { in_memory: true, ..shared })
    }

    fn new(opened: Opened, limits: Limits, io: Io) -> Self {
        let Opened { catalog, files } = opened;
        files.set_io(io);
        Self {
            catalog,
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
            let message = "the file has shards, which cannot be found from memory: open it by its path (or with shards: 'none')";
            return Err(CoreError::new(Code::Incomplete, message));
        }
        Ok(Self {
            catalog,
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

    /// The same with the index of very many tensors flattened, for whoever is not on the JavaScript thread: there that would take a turn
    /// of 50 ms for a million.
    pub fn prepared(mut self) -> Self {
        if self.catalog.len() >= MANY {
            self.flat = Mutex::new(Some(Flat::of(&self.catalog)));
        }
        self
    }

    /// Lets go of the file. The index of very many tensors goes on another thread: giving back all of its pieces takes 100 ms.
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

    /// A lane, or the one for work that waits for somebody else.
    pub fn or_remote(&self, lane: Lane) -> Lane {
        if self.is_remote { Lane::Far } else { lane }
    }

    /// The lane for work on tensors.
    pub fn lane(&self, ordinals: &[u32]) -> Lane {
        if self.is_remote {
            return Lane::Far;
        }
        // Of so many the weights alone would take a while to add up.
        if ordinals.len() as u64 > SHORT / TENSOR {
            return Lane::Long;
        }
        let tensors = ordinals.iter().filter_map(|&ordinal| self.catalog.tensor(ordinal as usize));
        let weights = tensors.flat_map(Tensor::components).map(weight);
        Lane::of(weights.fold(ordinals.len() as u64 * TENSOR, u64::saturating_add))
    }

    /// The lane for work on a component, or on a cut of it.
    pub fn component_lane(&self, ordinal: u32, component: u32, ranges: Option<&[f64]>) -> Lane {
        if self.is_remote {
            return Lane::Far;
        }
        let Ok((tensor, component)) = self.part(ordinal, component) else { return Lane::Short };
        let bits = component.dtype.map_or(8, DType::bits);
        let cut = ranges.and_then(|ranges| kernels::slice(tensor.shape(), ranges, bits).ok());
        // One run of what stands as it is; anything else takes more than its own bytes.
        let run = cut.filter(|_| component.plain_range().is_some()).and_then(|cut| cut.contiguous());
        Lane::of(run.map_or_else(|| weight(component), |(_, length)| length))
    }

    /// Refuses work on tensors that come to far more than the file holds.
    pub fn check_total(&self, ordinals: &[u32], work: Work) -> CoreResult<()> {
        total::check(&self.catalog, &self.limits, ordinals, self.length, work)
    }

    /// Refuses a file in whose work a defect of ours was met: nobody knows what state that left.
    pub fn check(&self) -> CoreResult<()> {
        if self.broken.load(Ordering::Relaxed) {
            let message = "an earlier call met a bug in ztensor; close the file";
            return Err(CoreError::new(Code::Internal, message));
        }
        Ok(())
    }

    /// Refuses to have the JavaScript thread wait for what is far away.
    pub fn check_near(&self) -> CoreResult<()> {
        if self.is_remote {
            let message = "the data is not on this machine, and nothing here waits for a network: await load(), or open the URL with remote: { cache: folder } and await prefetch() first";
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

    /// The same of a tensor, or one component of it, that may be far away and kept here.
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

    /// Whether all of a tensor, or of one component of it, is on this machine.
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
        let nothing: &[u8] = &[]; // enough for what stands in the index
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

/// An open file on its way to another thread.
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
