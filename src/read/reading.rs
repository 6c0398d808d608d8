//! Operations that read the data of an open file: loads, slices, verification, plans.

use std::sync::Arc;
use std::thread;

use napi::bindgen_prelude::{Float64Array, Int32Array, Object, Uint8ArraySlice, Uint32Array};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::checked;
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
use ztensor_core::model::slice::TensorSlice;
use ztensor_core::model::{Component, DType, Span, Tensor};
use ztensor_core::read::Reading;
use ztensor_core::read::batch::{self, Batch, Division, Location};
use ztensor_core::read::deferred::{Deferred, Reach};
use ztensor_core::read::plan::{self, Placement, Plan, Rank};
use ztensor_core::read::staging::stored_bytes;
use ztensor_core::read::total::Work;
use ztensor_core::sources::files::Files;
use ztensor_core::sources::owned::Owned;
use ztensor_core::sources::{ReadAt, Sources};
use ztensor_core::verify;
use ztensor_core::work::{Stop, Watch};
use ztensor_core::write::ByteStream as _;

use crate::js::buffer;
use crate::js::control::Control;
use crate::js::error::{misuse, throw};
use crate::js::panic::contain;
use crate::js::task::spawn;
use crate::read::file::NativeFile;
use crate::read::memory::{JobResult, Memory};
use crate::read::outflow::Outflow;
use crate::read::stage::Stage;
use crate::read::verified::Verified;
use crate::values::arguments::unsigned;
use crate::values::kernels;
use ztensor_handover::number;

/// Bytes that are read, checked and decoded in less time than it takes to wake a thread.
const SMALL: usize = 64 << 10;

/// Decoded bytes that are passed on together.
const PASSED: usize = 1 << 20;

/// Options for loading.
#[napi(object)]
pub struct LoadRequest {
    /// `[start, stop]` of each dimension, flat.
    pub ranges: Option<Vec<f64>>,
    /// Widen to float32.
    pub widen: bool,
    /// Defer the work until the memory is copied, if possible.
    pub deferred: Option<bool>,
}

/// How tensors that are loaded together are divided.
#[napi(object, object_to_js = false)]
pub struct DivisionRequest {
    /// The divided dimension of each tensor, -1 for one that is loaded whole.
    pub dims: Int32Array,
    pub rank: f64,
    pub world_size: f64,
}

impl DivisionRequest {
    fn parsed(self) -> Result<(Vec<Option<usize>>, Rank)> {
        let numbers = unsigned(self.rank).zip(unsigned(self.world_size));
        let (rank, world_size) = numbers.ok_or_else(|| misuse("a plan with an invalid rank"))?;
        let dims = self.dims.iter().map(|&dim| usize::try_from(dim).ok()).collect();
        Ok((dims, Rank { rank, world_size }))
    }
}

/// Tensors that were loaded together. `locations` holds for each its block, or -1 if it has no bytes, and its offset in the block.
#[napi(object, object_from_js = false)]
pub struct Loaded {
    pub blocks: Vec<Memory>,
    pub locations: Float64Array,
}

impl From<Batch> for Loaded {
    fn from(batch: Batch) -> Self {
        let location = |at: &Location| [at.block.map_or(-1.0, f64::from), number(at.offset)];
        let locations: Vec<f64> = batch.locations.iter().flat_map(location).collect();
        Self { blocks: batch.blocks.into_iter().map(Memory::from).collect(), locations: locations.into() }
    }
}

/// The part of a file that a rank needs.
#[napi(object, object_from_js = false)]
pub struct NativePlan {
    /// The divided dimension of each tensor, -1 for one that is not divided.
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
        _ => return Err(misuse("an unknown kind of work")),
    })
}

#[napi]
impl NativeFile {
    /// The bytes of a component, decoded on this thread.
    #[napi(catch_unwind)]
    pub fn decode(&self, env: Env, ordinal: u32, component: u32, stage: Option<&Stage>) -> Result<Memory> {
        let shared = self.shared(&env)?;
        let staged = stage.map(Stage::share).transpose()?;
        let decoded = contain(|| {
            let which = (ordinal, Some(component));
            shared.reading_tensor_here(staged.as_deref(), &Watch::default(), which, |reading| {
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
        let offset = unsigned(offset).ok_or_else(|| misuse("a read with an invalid offset"))?;
        let shared = self.shared(&env)?;
        let files = shared.files.as_ref().ok_or_else(|| misuse("a read of memory"))?;
        let target = buffer::writable(&mut target, &[])?;
        let read = || {
            let span = Span { file, offset, length: target.len() as u64 };
            if let Some(copy) = files.copied(span)? {
                return copy.read_at(offset, target, Stop::never());
            }
            shared.check_near()?;
            files.source(file)?.read_at(offset, target, Stop::never())
        };
        throw(&env, contain(read))
    }

    /// The bytes of a slice of a dense component, read on this thread.
    #[napi(catch_unwind)]
    pub fn slice(
        &self,
        env: Env,
        ordinal: u32,
        component: u32,
        ranges: Vec<f64>,
        stage: Option<&Stage>,
    ) -> Result<Memory> {
        let shared = self.shared(&env)?;
        let staged = stage.map(Stage::share).transpose()?;
        let request = LoadRequest { ranges: Some(ranges), widen: false, deferred: None };
        let packed = contain(|| {
            let which = (ordinal, Some(component));
            shared.reading_tensor_here(staged.as_deref(), &Watch::default(), which, |reading| {
                let (tensor, component) = shared.part(ordinal, component)?;
                load(reading, tensor, component, &request)
            })
        });
        throw(&env, packed).map(Memory::from)
    }

    /// The elements of a component as stored or as float32, or without a component those of a quantized tensor as float32, to be copied to
    /// their destination: only if they are in the page cache and need no validation. Null otherwise: this call does not wait for a disk.
    #[napi(catch_unwind)]
    pub fn at_hand(
        &self,
        env: Env,
        ordinal: u32,
        component: Option<u32>,
        widen: bool,
    ) -> Result<Option<Memory>> {
        let shared = self.shared(&env)?;
        let Some(files) = shared.files.as_ref().filter(|_| !shared.is_remote) else { return Ok(None) };
        let look = |reading: Reading<'_>| {
            let parts = shared.tensor(ordinal)?.components();
            if parts.iter().any(|part| files.opened(part.file()).is_none()) {
                return Ok(None);
            }
            let Some(component) = component else {
                return reading.deferred_blocks(shared.tensor(ordinal)?, Reach::Cached);
            };
            deferred(reading, shared.part(ordinal, component)?, widen, Reach::Cached)
        };
        let found = throw(&env, contain(|| shared.reading(None, &Watch::default(), look)))?;
        Ok(found.map(|deferred| Memory::from(JobResult::Deferred(deferred, Arc::clone(&shared)))))
    }

    /// Loads into `target` on this thread, like `load`, or without a component like `dequantize`: only data of a local file that is in the
    /// page cache and small before and after decoding. Returns whether it did.
    #[napi(catch_unwind)]
    pub fn load_cached(
        &self,
        env: Env,
        ordinal: u32,
        component: Option<u32>,
        request: LoadRequest,
        mut target: Uint8ArraySlice<'_>,
    ) -> Result<bool> {
        let shared = self.shared(&env)?;
        let target = buffer::writable(&mut target, &[])?;
        let Some(files) = shared.files.as_ref().filter(|_| !shared.is_remote && target.len() <= SMALL) else {
            return Ok(false);
        };
        let read = |reading: Reading<'_>| {
            let tensor = shared.tensor(ordinal)?;
            let part = component.map(|component| shared.part(ordinal, component)).transpose()?;
            let parts = part.as_ref().map_or(tensor.components(), |(_, part)| std::slice::from_ref(*part));
            if let (Some((_, part)), false) = (&part, request.widen)
                && (request.ranges.is_some() || part.digest().is_none())
                && let Some(span) =
                    plain_span(tensor, part, request.ranges.as_deref()).filter(|_| part.rule.is_none())
                && span.length == target.len() as u64
                && let Some(source) = files.opened(span.file)
            {
                let read = source.read_cached(span.offset, target)?;
                kernels::to_host_order(part.dtype, target);
                return Ok(read);
            }
            if !is_small_and_cached(files, tensor, parts, request.ranges.as_deref()) {
                return Ok(false);
            }
            let bytes = if let Some((tensor, component)) = part {
                load(reading, tensor, component, &request)?
            } else {
                let ranges = request.ranges.as_deref().map(kernels::ranges).transpose()?;
                reading.dequantize(tensor, ranges.as_deref())?
            };
            if bytes.len() != target.len() {
                return Err(
                    CoreError::new(Code::Decode, "the data does not match the shape").tensor(tensor.name())
                );
            }
            target.copy_from_slice(&bytes);
            Ok(true)
        };
        throw(&env, contain(|| shared.reading(None, &Watch::default(), read)))
    }

    /// Loads a component, or a slice of it, or its elements as float32.
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
                if request.deferred == Some(true)
                    && let Some(deferred) =
                        deferred(reading, (tensor, component), request.widen, Reach::Anywhere)?
                {
                    return Ok(JobResult::Deferred(deferred, Arc::clone(&source.shared)));
                }
                load(reading, tensor, component, &request).map(JobResult::Block)
            })
        };
        spawn(env, lane, control, job, |_, made| Ok(Memory::from(made)))
    }

    /// Passes on the decoded elements of a component in order, little-endian, on a separate thread. Errors are those of `outflow`. Nothing
    /// keeps the process from ending while no reader takes them.
    #[napi(catch_unwind)]
    pub fn pass_pieces(
        &self,
        env: Env,
        ordinal: u32,
        component: u32,
        outflow: &Outflow,
        control: &Control,
        stage: Option<&Stage>,
    ) -> Result<()> {
        let source = self.reader(&env, control, stage)?;
        let mut blocks = throw(&env, outflow.maker())?;
        let work = move || {
            let passed = contain(|| {
                source.read(|reading| {
                    let (tensor, component) = source.shared.part(ordinal, component)?;
                    reading.pieces(tensor, component, |piece| {
                        piece.chunks(PASSED).try_for_each(|part| blocks.pass(part.to_vec()))
                    })
                })
            });
            if let Err(error) = passed {
                blocks.fail(error);
            }
        };
        let started = thread::Builder::new().name("ztensor-pieces".to_owned()).spawn(work);
        let failed =
            |error| CoreError::new(Code::Limit, format!("the system has no thread for the work: {error}"));
        throw(&env, started.map(drop).map_err(failed))
    }

    /// Rejects work on tensors whose total size far exceeds that of the file.
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

    /// Performs the check off this thread, for very many tensors.
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

    /// Loads dense tensors, at most `at_once` at a time; for divided tensors only the part of a rank.
    #[napi(ts_return_type = "Promise<Loaded>", catch_unwind)]
    pub fn load_batch<'env>(
        &self,
        env: &'env Env,
        ordinals: Uint32Array,
        at_once: u32,
        control: &Control,
        stage: Option<&Stage>,
        division: Option<DivisionRequest>,
    ) -> Result<Object<'env>> {
        let source = self.reader(env, control, stage)?;
        let (lane, ordinals) = (source.shared.lane(&ordinals), ordinals.to_vec());
        let division = division.map(DivisionRequest::parsed).transpose()?;
        let job = move || {
            let division = division.as_ref().map(|(dims, rank)| Division { dims, rank: *rank });
            source.read(|reading| {
                batch::load(reading, &ordinals, division.as_ref(), at_once as usize, kernels::to_host_order)
            })
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

    /// Verifies on this thread.
    #[napi(catch_unwind)]
    pub fn verify_sync(&self, env: Env, ordinals: Uint32Array, stage: Option<&Stage>) -> Result<Verified> {
        let shared = self.shared(&env)?;
        let staged = stage.map(Stage::share).transpose()?;
        let verified =
            contain(|| shared.reading_here(staged.as_deref(), |reading| verify::verify(reading, &ordinals)));
        throw(&env, verified).map(Verified::from)
    }

    /// The damage of these tensors, and with `whole` of the file, that was found in the index.
    #[napi(catch_unwind)]
    pub fn damage(&self, env: Env, ordinals: Uint32Array, whole: bool) -> Result<Verified> {
        let shared = self.shared(&env)?;
        throw(&env, contain(|| Ok(verify::damage(&shared.catalog, &ordinals, whole)))).map(Verified::from)
    }

    /// The part of the file that a rank needs. Each name is matched against the patterns in order; `placements`: a dimension for each, or
    /// -1 for a tensor replicated to every rank, -2 for columns, -3 for rows.
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
        let (rank, world_size) = rank.ok_or_else(|| misuse("a plan with an invalid rank"))?;
        let placed = patterns.iter().zip(placements);
        let rules: Vec<_> = placed.map(|(pattern, code)| plan::Rule::new(pattern, placement(code))).collect();
        let plan = contain(|| plan::plan(&shared.catalog, &rules, Rank { rank, world_size }));
        throw(&env, plan).map(NativePlan::from)
    }
}

/// Returns the location of all unencoded elements, or of a contiguous slice of them.
fn plain_span(tensor: Tensor<'_>, part: &Component, ranges: Option<&[f64]>) -> Option<Span> {
    let (offset, length) = part.plain_range()?;
    let Some(ranges) = ranges else { return Some(Span { file: part.file(), offset, length }) };
    let slice = kernels::slice(tensor.shape(), ranges, part.dtype?.bits()).ok()?;
    let (start, bytes) =
        slice.contiguous().filter(|&(start, bytes)| start.saturating_add(bytes) <= length)?;
    Some(Span { file: part.file(), offset: offset.checked_add(start)?, length: bytes })
}

/// Returns whether components, or a slice of one, are in the page cache and so small that reading and decoding them takes less time than
/// starting a thread.
fn is_small_and_cached(
    files: &Files,
    tensor: Tensor<'_>,
    parts: &[Component],
    ranges: Option<&[f64]>,
) -> bool {
    let span = |part: &Component| match (ranges, part.blob()) {
        (Some(_), _) if parts.len() == 1 && part.plain_range().is_some() => plain_span(tensor, part, ranges),
        (_, Some(blob)) if part.byte_length().is_some_and(|length| length <= SMALL as u64) => {
            Some(blob.span())
        }
        _ => None,
    };
    let mut total = 0_u64;
    parts.iter().all(|part| {
        let Some(span) = span(part) else { return false };
        total = total.saturating_add(span.length);
        let source = files.opened(span.file).filter(|_| total <= SMALL as u64);
        source.is_some_and(|source| source.is_cached(span.offset, span.length))
    })
}

/// Elements of a component as stored or as float32, which [`Memory`] produces when they are copied.
fn deferred(
    reading: Reading<'_>,
    (tensor, component): (Tensor<'_>, &Component),
    widen: bool,
    reach: Reach,
) -> CoreResult<Option<Deferred>> {
    if widen {
        reading.deferred_float32(tensor, component, reach)
    } else {
        Ok(reading.deferred(tensor, component))
    }
}

fn load(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    component: &Component,
    request: &LoadRequest,
) -> CoreResult<Owned> {
    let slice = match &request.ranges {
        None => None,
        Some(ranges) => {
            let bits = component.dtype.map_or(8, DType::bits);
            Some(kernels::slice(tensor.shape(), ranges, bits)?)
        }
    };
    let elements =
        checked::product(&slice.as_ref().map_or_else(|| tensor.shape().to_vec(), TensorSlice::shape));
    if let (true, Some(dtype), Some(elements)) = (request.widen, component.dtype, elements) {
        return reading.float32(tensor, component, slice.as_ref(), dtype, elements);
    }
    let mut bytes = match &slice {
        None => reading.component(tensor, component)?,
        Some(slice) => reading.slice(tensor, component, slice)?,
    };
    kernels::to_host_order(component.dtype, &mut bytes);
    Ok(bytes)
}
