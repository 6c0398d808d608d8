//! An open file, as the wrapper sees it.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use napi::bindgen_prelude::{
    Float64Array, Int32Array, Object, ToNapiValue, Uint8ArraySlice, Uint32Array, Unknown,
};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::checked;
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
use ztensor_core::model::cut::Cut;
use ztensor_core::model::glob::Glob;
use ztensor_core::model::similar;
use ztensor_core::model::{Catalog, Component, DType, Span, Tensor};
use ztensor_core::read::Reading;
use ztensor_core::read::batch::{self, Batch, Place};
use ztensor_core::read::plan::{self, Placement, Plan, Rank};
use ztensor_core::read::prefetch;
use ztensor_core::read::total::Work;
use ztensor_core::sources::ReadAt;
use ztensor_core::sources::files::{Files, Part};
use ztensor_core::sources::owned::Owned;
use ztensor_core::sources::partial::Partial;
use ztensor_core::sources::staging::stored_bytes;
use ztensor_core::verify;
use ztensor_core::work::lanes::Lane;
use ztensor_core::work::{Stop, Watch};

use crate::attributes::{self, FlatAttributes};
use crate::buffer::{self, Share};
use crate::control::Control;
use crate::error::{misuse, throw};
use crate::index::{self, ComponentInfo, FileInfo, Flat, FlatIndex, NativeWarning, number, unsigned};
use crate::memory::Memory;
use crate::opened::{self, OpenRequest, Reader, Shared};
use crate::panic::contain;
use crate::stage::{Stage, StageBuilder};
use crate::task::spawn;
use crate::verified::Verified;
use crate::{kernels, loss};

/// What a load does with the bytes.
#[napi(object)]
pub struct LoadRequest {
    /// `[start, stop]` of each dimension, flat.
    pub ranges: Option<Vec<f64>>,
    /// Widen to float32.
    pub widen: bool,
}

/// Tensors that were loaded at once. `places` holds for each its block, or -1 where it has no bytes, and where in the
/// block it begins.
#[napi(object, object_from_js = false)]
pub struct Loaded {
    pub blocks: Vec<Memory>,
    pub places: Float64Array,
}

impl From<Batch> for Loaded {
    fn from(batch: Batch) -> Self {
        let place = |place: &Place| [place.block.map_or(-1.0, f64::from), number(place.offset)];
        let places: Vec<f64> = batch.places.iter().flat_map(place).collect();
        Self { blocks: batch.blocks.into_iter().map(Memory::from).collect(), places: places.into() }
    }
}

/// What a rank needs of a file.
#[napi(object, object_from_js = false)]
pub struct NativePlan {
    /// The dimension that is divided of each tensor, -1 for one that is not.
    pub dims: Int32Array,
    /// `[file, offset, length, …]`.
    pub spans: Float64Array,
}

impl From<Plan> for NativePlan {
    fn from(plan: Plan) -> Self {
        let dim = |dim: Option<usize>| dim.and_then(|dim| i32::try_from(dim).ok()).unwrap_or(-1);
        let span = |span: &Span| [f64::from(span.file), number(span.offset), number(span.length)];
        Self {
            dims: plan.dims.into_iter().map(dim).collect::<Vec<_>>().into(),
            spans: plan.spans.iter().flat_map(span).collect::<Vec<_>>().into(),
        }
    }
}

fn placement(code: f64) -> Placement {
    match unsigned(code) {
        Some(dim) => Placement::Dim(usize::try_from(dim).unwrap_or(usize::MAX)),
        None if code < -2.5 => Placement::Row,
        None if code < -1.5 => Placement::Column,
        None => Placement::Replicate,
    }
}

fn total_work(name: &str) -> Result<Work> {
    Ok(match name {
        "load" => Work::Load,
        "copy" => Work::Copy,
        "verify" => Work::Verify,
        _ => return Err(misuse("work of no known kind")),
    })
}

/// The open file.
#[napi]
pub struct NativeFile {
    /// `None` once closed; work under way keeps its own share until it stops.
    shared: RefCell<Option<Arc<Shared>>>,
    /// The aliases' shares, in the order in which they were made.
    shares: RefCell<Vec<Arc<Share>>>,
    /// Whether JavaScript was told of a loss.
    told: Cell<bool>,
}

impl NativeFile {
    fn new(shared: Shared) -> Self {
        shared.handles.store(1, Ordering::Release);
        Self::of(Arc::new(shared))
    }

    /// A handle that is counted already.
    pub fn of(shared: Arc<Shared>) -> Self {
        Self { shared: RefCell::new(Some(shared)), shares: RefCell::default(), told: Cell::new(false) }
    }

    /// Takes the file out of this handle. Gives it where no other thread has it open.
    fn leave(&self) -> Option<Arc<Shared>> {
        let shared = self.shared.take()?;
        (shared.handles.fetch_sub(1, Ordering::AcqRel) == 1).then_some(shared)
    }

    /// What another thread needs to read the file.
    pub fn reader(&self, env: &Env, control: &Control, stage: Option<&Stage>) -> Result<Reader> {
        let staged = stage.map(Stage::share).transpose()?;
        Ok(Reader { shared: self.shared(env)?, staged, watch: control.watch.clone() })
    }

    pub fn with_catalog<T>(&self, env: &Env, look: impl FnOnce(&Catalog) -> T) -> Result<T> {
        Ok(look(&self.shared(env)?.catalog))
    }

    pub fn shared(&self, env: &Env) -> Result<Arc<Shared>> {
        let shared = self.shared.borrow().as_ref().map(Arc::clone);
        let shared = shared.ok_or_else(|| CoreError::new(Code::Closed, "the file is closed"));
        let checked = shared.and_then(|shared| shared.check().map(|()| shared));
        if checked.as_ref().is_err_and(|error| error.code() == Code::MappingLost) {
            self.told.set(true);
        }
        throw(env, checked)
    }
}

impl Drop for NativeFile {
    /// Aliases can outlive a file that was never closed.
    fn drop(&mut self) {
        let Some(shared) = self.leave() else { return };
        if let Some(files) = &shared.files {
            loss::abandon(files, self.told.get());
        }
        shared.end();
    }
}

#[napi(catch_unwind)]
pub fn open_path_sync(env: Env, path: String, request: OpenRequest) -> Result<NativeFile> {
    throw(&env, contain(|| Shared::open(&path, &request, Stop::default()))).map(NativeFile::new)
}

#[napi(ts_return_type = "Promise<NativeFile>", catch_unwind)]
pub fn open_path<'env>(
    env: &'env Env,
    path: String,
    request: OpenRequest,
    control: &Control,
) -> Result<Object<'env>> {
    let stop = control.watch.stop.clone();
    let job = move || Shared::open(&path, &request, stop);
    spawn(env, Lane::Short, control, job, |_, shared| Ok(NativeFile::new(shared)))
}

#[napi(catch_unwind)]
pub fn open_paths_sync(env: Env, paths: Vec<String>, request: OpenRequest) -> Result<NativeFile> {
    throw(&env, contain(|| Shared::open_all(paths, &request, Stop::default()))).map(NativeFile::new)
}

#[napi(ts_return_type = "Promise<NativeFile>", catch_unwind)]
pub fn open_paths<'env>(
    env: &'env Env,
    paths: Vec<String>,
    request: OpenRequest,
    control: &Control,
) -> Result<Object<'env>> {
    let stop = control.watch.stop.clone();
    let job = move || Shared::open_all(paths, &request, stop);
    spawn(env, Lane::Short, control, job, |_, shared| Ok(NativeFile::new(shared)))
}

/// The names of the files that an index, or a folder with one, wants resolved.
#[napi(catch_unwind)]
pub fn shard_names_sync(env: Env, path: String, request: OpenRequest) -> Result<Vec<String>> {
    throw(&env, contain(|| opened::shard_names(&path, &request)))
}

#[napi(ts_return_type = "Promise<string[]>", catch_unwind)]
pub fn shard_names<'env>(
    env: &'env Env,
    path: String,
    request: OpenRequest,
    control: &Control,
) -> Result<Object<'env>> {
    let job = move || opened::shard_names(&path, &request);
    spawn(env, Lane::Short, control, job, |_, names| Ok(names))
}

#[napi(catch_unwind)]
pub fn open_memory(env: Env, bytes: Uint8ArraySlice<'_>, request: OpenRequest) -> Result<NativeFile> {
    throw(&env, contain(|| Shared::from_memory(&&*bytes, &request))).map(NativeFile::new)
}

/// A file in the caller's memory that is opened off the event loop, with copies of what its index takes.
#[napi]
pub struct MemoryOpening {
    partial: Arc<Mutex<Partial>>,
    request: Arc<OpenRequest>,
}

#[napi]
impl MemoryOpening {
    #[napi(constructor, catch_unwind)]
    pub fn new(byte_length: f64, request: OpenRequest) -> Result<Self> {
        let total = unsigned(byte_length).ok_or_else(|| misuse("no length"))?;
        Ok(Self { partial: Arc::new(Mutex::new(Partial::new(total))), request: Arc::new(request) })
    }

    /// A stage for what the next attempt needs.
    #[napi(catch_unwind)]
    pub fn stage(&self, env: Env) -> Result<StageBuilder> {
        let partial = self.partial.lock().unwrap_or_else(PoisonError::into_inner);
        throw(&env, StageBuilder::new(partial.wanted(), partial.length()))
    }

    /// Reads the index with what was staged so far; null where more is needed.
    #[napi(ts_return_type = "Promise<NativeFile | null>", catch_unwind)]
    pub fn attempt<'env>(&self, env: &'env Env, stage: &Stage, control: &Control) -> Result<Object<'env>> {
        let (partial, request, part) = (Arc::clone(&self.partial), Arc::clone(&self.request), stage.share()?);
        let job = move || {
            let mut partial = partial.lock().unwrap_or_else(PoisonError::into_inner);
            partial.add(part);
            partial.attempt(|source| Shared::from_memory(source, &request))
        };
        spawn(env, Lane::Short, control, job, |_, shared| Ok(shared.map(NativeFile::new)))
    }
}

#[napi]
impl NativeFile {
    #[napi(getter, ts_return_type = "'zt' | 'safetensors' | 'btf' | 'mixed'", catch_unwind)]
    pub fn format(&self, env: &Env) -> Result<&'static str> {
        Ok(self.shared(env)?.catalog.container.name())
    }

    #[napi(getter, catch_unwind)]
    pub fn version(&self, env: &Env) -> Result<Option<String>> {
        Ok(self.shared(env)?.catalog.version.clone())
    }

    #[napi(getter, catch_unwind)]
    pub fn generator(&self, env: &Env) -> Result<Option<String>> {
        Ok(self.shared(env)?.catalog.generator.clone())
    }

    #[napi(getter, catch_unwind)]
    pub fn byte_length(&self, env: &Env) -> Result<f64> {
        Ok(number(self.shared(env)?.length))
    }

    #[napi(getter, catch_unwind)]
    pub fn size(&self, env: &Env) -> Result<f64> {
        Ok(number(self.shared(env)?.catalog.len() as u64))
    }

    #[napi(catch_unwind)]
    pub fn attributes<'env>(&self, env: &'env Env) -> Result<FlatAttributes<'env>> {
        throw(env, attributes::to_js(env, Some(&self.shared(env)?.catalog.attributes))?)
    }

    #[napi(catch_unwind)]
    pub fn tensor_attributes<'env>(&self, env: &'env Env, ordinal: u32) -> Result<FlatAttributes<'env>> {
        let shared = self.shared(env)?;
        let tensor = throw(env, shared.tensor(ordinal))?;
        throw(env, attributes::to_js(env, tensor.attributes())?)
    }

    #[napi(catch_unwind)]
    pub fn warnings(&self, env: &Env) -> Result<Vec<NativeWarning>> {
        Ok(self.shared(env)?.catalog.warnings.iter().map(NativeWarning::from).collect())
    }

    #[napi(catch_unwind)]
    pub fn index<'env>(&self, env: &'env Env) -> Result<FlatIndex<'env>> {
        let shared = self.shared(env)?;
        let flat = shared.flat.lock().unwrap_or_else(PoisonError::into_inner).take();
        flat.unwrap_or_else(|| Flat::of(&shared.catalog)).hand(env, &shared.catalog)
    }

    /// Flattens it off this thread, for the next call of `index`: of a million tensors that takes 100 ms.
    #[napi(ts_return_type = "Promise<void>", catch_unwind)]
    pub fn prepare_index<'env>(&self, env: &'env Env, control: &Control) -> Result<Object<'env>> {
        let shared = self.shared(env)?;
        let job = move || {
            *shared.flat.lock().unwrap_or_else(PoisonError::into_inner) = Some(Flat::of(&shared.catalog));
            Ok(())
        };
        spawn(env, Lane::Short, control, job, |_, ()| Ok(()))
    }

    /// The ordinal of the tensor called `name`, or -1.
    #[napi(catch_unwind)]
    pub fn find(&self, env: &Env, name: String) -> Result<f64> {
        Ok(self.shared(env)?.catalog.find(&name).map_or(-1.0, |ordinal| number(ordinal as u64)))
    }

    /// The ordinals of the tensors with these names, which stand one after the other with a zero character between. None where a
    /// name is of no tensor.
    #[napi(catch_unwind)]
    pub fn find_all(&self, env: &Env, names: String) -> Result<Option<Uint32Array>> {
        let shared = self.shared(env)?;
        let find = |name| shared.catalog.find(name).and_then(|ordinal| u32::try_from(ordinal).ok());
        Ok(names.split('\0').map(find).collect::<Option<Vec<_>>>().map(Uint32Array::from))
    }

    /// Names like `name`, the closest first.
    #[napi(catch_unwind)]
    pub fn similar(&self, env: &Env, name: String) -> Result<Vec<String>> {
        Ok(similar::to(&self.shared(env)?.catalog, &name).into_iter().map(str::to_owned).collect())
    }

    #[napi(catch_unwind)]
    pub fn components(&self, env: Env, ordinal: u32) -> Result<Vec<ComponentInfo>> {
        let shared = self.shared(&env)?;
        let tensor = throw(&env, shared.tensor(ordinal))?;
        Ok(index::components(&shared.catalog, tensor))
    }

    /// An ArrayBuffer over a range of the mapping; a text saying why there is none.
    #[napi(ts_return_type = "ArrayBuffer | 'runtime' | 'map-failed' | 'io'", catch_unwind)]
    pub fn alias<'env>(&self, env: &'env Env, file: u32, offset: f64, length: f64) -> Result<Unknown<'env>> {
        let range = unsigned(offset).zip(unsigned(length));
        let (offset, length) = range.ok_or_else(|| misuse("an alias without bounds"))?;
        let shared = self.shared(env)?;
        let files = shared.files.as_ref().ok_or_else(|| misuse("an alias of memory"))?;
        let source = throw(env, files.file(file))?;
        let Some(mapping) = throw(env, source.mapping())? else {
            return if source.maps() { "map-failed" } else { "io" }.into_unknown(env);
        };
        match buffer::alias(env, mapping, offset, length)? {
            Some((array, share)) => {
                self.shares.borrow_mut().push(share);
                Ok(array)
            }
            None => "runtime".into_unknown(env),
        }
    }

    /// Detaches the aliases, given in the order in which they were made, and lets go of the mappings unless another
    /// thread has the file open.
    #[napi(catch_unwind)]
    pub fn close(&self, env: &Env, #[napi(ts_arg_type = "ArrayBuffer[]")] aliases: Vec<Unknown<'_>>) {
        buffer::close(env, &aliases, &self.shares.take());
        let Some(last) = self.leave() else { return };
        if let Some(files) = &last.files {
            loss::abandon(files, self.told.get());
            files.close();
        }
        last.end();
    }

    /// The path of the first file that was cut short while it was mapped. Whoever asks tells of it.
    #[napi(catch_unwind)]
    pub fn lost_file(&self) -> Option<String> {
        let shared = self.shared.borrow();
        let lost = shared.as_ref()?.files.as_ref()?.lost()?;
        self.told.set(true);
        Some(lost.display().to_string())
    }

    /// The bytes of a component, decoded on this thread.
    #[napi(catch_unwind)]
    pub fn decode(&self, env: Env, ordinal: u32, component: u32, stage: Option<&Stage>) -> Result<Memory> {
        let shared = self.shared(&env)?;
        let staged = stage.map(Stage::share).transpose()?;
        let decoded = contain(|| {
            shared.reading(staged.as_deref(), &Watch::default(), |reading| {
                let (tensor, component) = shared.part(ordinal, component)?;
                let mut bytes = reading.component(tensor, component)?;
                kernels::to_host_order(component.dtype, &mut bytes);
                Ok(bytes)
            })
        });
        throw(&env, decoded).map(Memory::from)
    }

    /// Copies a range of a file into `target` on this thread.
    #[napi(catch_unwind)]
    pub fn read_into(&self, env: Env, file: u32, offset: f64, mut target: Uint8ArraySlice<'_>) -> Result<()> {
        let offset = unsigned(offset).ok_or_else(|| misuse("a read without bounds"))?;
        let shared = self.shared(&env)?;
        let files = shared.files.as_ref().ok_or_else(|| misuse("a read of memory"))?;
        let target = buffer::writable(&mut target, &[])?;
        throw(&env, contain(|| files.file(file)?.read_at(offset, target)))
    }

    /// The bytes of a cut of a dense component, read on this thread.
    #[napi(catch_unwind)]
    pub fn cut(
        &self,
        env: Env,
        ordinal: u32,
        component: u32,
        ranges: Vec<f64>,
        stage: Option<&Stage>,
    ) -> Result<Memory> {
        let shared = self.shared(&env)?;
        let staged = stage.map(Stage::share).transpose()?;
        let request = LoadRequest { ranges: Some(ranges), widen: false };
        let packed = contain(|| {
            shared.reading(staged.as_deref(), &Watch::default(), |reading| {
                let (tensor, component) = shared.part(ordinal, component)?;
                load(reading, tensor, component, &request)
            })
        });
        throw(&env, packed).map(Memory::from)
    }

    /// Loads a component, or a cut of it, or its elements as float32.
    #[napi(ts_return_type = "Promise<Memory>", catch_unwind)]
    pub fn load<'env>(
        &self,
        env: &'env Env,
        ordinal: u32,
        component: u32,
        request: LoadRequest,
        control: &Control,
        stage: Option<&Stage>,
    ) -> Result<Object<'env>> {
        let source = self.reader(env, control, stage)?;
        let lane = source.shared.component_lane(ordinal, component, request.ranges.as_deref());
        let job = move || {
            source.read(|reading| {
                let (tensor, component) = source.shared.part(ordinal, component)?;
                load(reading, tensor, component, &request)
            })
        };
        spawn(env, lane, control, job, |_, block| Ok(Memory::from(block)))
    }

    /// Refuses work on tensors that come to far more than the file holds.
    #[napi(catch_unwind)]
    pub fn check_total(
        &self,
        env: Env,
        ordinals: Uint32Array,
        #[napi(ts_arg_type = "'load' | 'copy' | 'verify'")] work: String,
    ) -> Result<()> {
        let shared = self.shared(&env)?;
        let work = total_work(&work)?;
        throw(&env, contain(|| shared.check_total(&ordinals, work)))
    }

    /// The same off this thread, for very many.
    #[napi(ts_return_type = "Promise<void>", catch_unwind)]
    pub fn check_total_async<'env>(
        &self,
        env: &'env Env,
        ordinals: Uint32Array,
        #[napi(ts_arg_type = "'load' | 'copy' | 'verify'")] work: String,
        control: &Control,
    ) -> Result<Object<'env>> {
        let (shared, ordinals, work) = (self.shared(env)?, ordinals.to_vec(), total_work(&work)?);
        let lane = shared.lane(&ordinals);
        spawn(env, lane, control, move || shared.check_total(&ordinals, work), |_, ()| Ok(()))
    }

    /// Bytes of tensors in their files.
    #[napi(catch_unwind)]
    pub fn stored_bytes(&self, env: &Env, ordinals: Uint32Array) -> Result<f64> {
        let shared = self.shared(env)?;
        let tensors = ordinals.iter().filter_map(|&ordinal| shared.catalog.tensor(ordinal as usize));
        Ok(number(tensors.map(stored_bytes).fold(0, u64::saturating_add)))
    }

    /// Loads dense tensors, at most `at_once` at a time.
    #[napi(ts_return_type = "Promise<Loaded>", catch_unwind)]
    pub fn load_batch<'env>(
        &self,
        env: &'env Env,
        ordinals: Uint32Array,
        at_once: u32,
        control: &Control,
        stage: Option<&Stage>,
    ) -> Result<Object<'env>> {
        let source = self.reader(env, control, stage)?;
        let (lane, ordinals) = (source.shared.lane(&ordinals), ordinals.to_vec());
        let job = move || {
            source.read(|reading| batch::load(reading, &ordinals, at_once as usize, kernels::to_host_order))
        };
        spawn(env, lane, control, job, |_, batch| Ok(Loaded::from(batch)))
    }

    /// Loads the arrays of a sparse tensor and checks them.
    #[napi(ts_return_type = "Promise<Memory[]>", catch_unwind)]
    pub fn load_sparse<'env>(
        &self,
        env: &'env Env,
        ordinal: u32,
        control: &Control,
        stage: Option<&Stage>,
    ) -> Result<Object<'env>> {
        let source = self.reader(env, control, stage)?;
        let lane = source.shared.lane(&[ordinal]);
        let job = move || {
            source.read(|reading| {
                let tensor = source.shared.tensor(ordinal)?;
                let mut arrays = reading.sparse(tensor)?;
                let parts = ztensor_core::read::sparse_parts(tensor)?;
                for (array, part) in arrays.iter_mut().zip(parts) {
                    kernels::to_host_order(part.dtype, array);
                }
                Ok(arrays)
            })
        };
        let finish = |_, arrays: Vec<Owned>| Ok(arrays.into_iter().map(Memory::from).collect::<Vec<_>>());
        spawn(env, lane, control, job, finish)
    }

    /// Checks digests, lengths and data rules.
    #[napi(ts_return_type = "Promise<Verified>", catch_unwind)]
    pub fn verify<'env>(
        &self,
        env: &'env Env,
        ordinals: Uint32Array,
        control: &Control,
        stage: Option<&Stage>,
    ) -> Result<Object<'env>> {
        let source = self.reader(env, control, stage)?;
        let (lane, ordinals) = (source.shared.lane(&ordinals), ordinals.to_vec());
        let job = move || source.read(|reading| verify::verify(reading, &ordinals));
        spawn(env, lane, control, job, |_, outcome| Ok(Verified::from(outcome)))
    }

    /// The same on this thread.
    #[napi(catch_unwind)]
    pub fn verify_sync(&self, env: Env, ordinals: Uint32Array, stage: Option<&Stage>) -> Result<Verified> {
        let shared = self.shared(&env)?;
        let staged = stage.map(Stage::share).transpose()?;
        let verified = contain(|| {
            shared.reading(staged.as_deref(), &Watch::default(), |reading| verify::verify(reading, &ordinals))
        });
        throw(&env, verified).map(Verified::from)
    }

    /// What a rank needs. Each name is held against the patterns in their order; `placements`: a dimension for each, or -1 for a
    /// tensor that every rank has whole, -2 for columns, -3 for rows.
    #[napi(catch_unwind)]
    pub fn plan(
        &self,
        env: Env,
        patterns: Vec<String>,
        placements: Vec<f64>,
        rank: f64,
        world_size: f64,
    ) -> Result<NativePlan> {
        let shared = self.shared(&env)?;
        let rank = unsigned(rank).zip(unsigned(world_size));
        let (rank, world_size) = rank.ok_or_else(|| misuse("a plan without a rank"))?;
        let placed = patterns.iter().zip(placements);
        let rules: Vec<_> = placed.map(|(pattern, code)| (Glob::new(pattern), placement(code))).collect();
        let plan = contain(|| plan::plan(&shared.catalog, &rules, Rank { rank, world_size }));
        throw(&env, plan).map(NativePlan::from)
    }

    /// Path and bytes of each file, in the order of their numbers. Empty for memory.
    #[napi(catch_unwind)]
    pub fn files(&self, env: &Env) -> Result<Vec<FileInfo>> {
        let shared = self.shared(env)?;
        let info = |part: &Part| FileInfo {
            path: part.path().map(|path| path.to_string_lossy().into_owned()),
            name: part.name().map(str::to_owned),
            byte_length: number(part.length()),
        };
        Ok(shared.files.iter().flat_map(Files::iter).map(info).collect())
    }

    /// Brings the tensors' pages into memory.
    #[napi(ts_return_type = "Promise<void>", catch_unwind)]
    pub fn prefetch<'env>(
        &self,
        env: &'env Env,
        ordinals: Uint32Array,
        in_flight: Option<f64>,
        control: &Control,
    ) -> Result<Object<'env>> {
        let (shared, watch) = (self.shared(env)?, control.watch.clone());
        let (lane, ordinals) = (shared.lane(&ordinals), ordinals.to_vec());
        let in_flight = in_flight.and_then(unsigned).unwrap_or(prefetch::IN_FLIGHT);
        let job = move || match &shared.files {
            Some(files) => prefetch::prefetch(files, &shared.catalog, &ordinals, in_flight, &watch),
            None => Ok(()),
        };
        spawn(env, lane, control, job, |_, ()| Ok(()))
    }

    /// Lets the kernel have the tensors' pages back.
    #[napi(catch_unwind)]
    pub fn evict(&self, env: &Env, ordinals: Uint32Array) -> Result<()> {
        let shared = self.shared(env)?;
        if let Some(files) = &shared.files {
            prefetch::evict(files, &shared.catalog, &ordinals);
        }
        Ok(())
    }
}

fn load(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    component: &Component,
    request: &LoadRequest,
) -> CoreResult<Owned> {
    let cut = match &request.ranges {
        None => None,
        Some(ranges) => {
            let bits = component.dtype.map_or(8, DType::bits);
            Some(Cut::new(tensor.shape(), &kernels::pairs(ranges)?, bits)?)
        }
    };
    let elements = checked::product(&cut.as_ref().map_or_else(|| tensor.shape().to_vec(), Cut::shape));
    if let (true, Some(dtype), Some(elements)) = (request.widen, component.dtype, elements) {
        return reading.float32(tensor, component, cut.as_ref(), dtype, elements);
    }
    let mut bytes = match &cut {
        None => reading.component(tensor, component)?,
        Some(cut) => reading.cut(tensor, component, cut)?,
    };
    kernels::to_host_order(component.dtype, &mut bytes);
    Ok(bytes)
}
