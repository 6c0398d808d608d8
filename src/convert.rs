//! Conversions: their tensors, what the target cannot hold, and their copy.

mod job;
mod plan;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use ztensor_core::arrange::Arrange;

use napi::bindgen_prelude::{Object, Uint32Array, Unknown};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::convert::{self, Casts, Conversion, Part, Selection};
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
use ztensor_core::model::{DType, Tensor};
use ztensor_core::read::Reading;
use ztensor_core::sources::filesystem::{Filesystem, LocalFiles};
use ztensor_core::sources::siblings::Links;
use ztensor_core::work::Stop;
use ztensor_core::work::lanes::Lane;
use ztensor_core::write::{SetFile, Writer};
use ztensor_gguf::checkpoint::MetadataOverrides;
use ztensor_gguf::checkpoint::derived::{Selected, derive};
use ztensor_gguf::checkpoint::folder::Folder;
use ztensor_gguf::checkpoint::name::model_name;

use crate::js::control::Control;
use crate::js::error::{NativeError, misuse, throw};
use crate::js::task::{spawn, spawn_aside};
use crate::read::file::NativeFile;
use crate::read::outflow::Outflow;
use crate::read::remote::RemoteRequest;
use crate::read::stage::Stage;
use crate::read::staging::{self, StageBatch};
use crate::values::arguments::{dtype, format};
use crate::values::input;
use crate::write::writer::{NativeWriter, Slot, with_writer};
use ztensor_handover::number;

/// Errors returned at once: each is a separate object.
const PAGE: usize = 1000;

#[derive(Default)]
pub struct State {
    pub conversion: Conversion,
    /// Refusals that were passed to JavaScript.
    passed: usize,
    /// Those of tensors without their attributes that were.
    passed_without_attributes: usize,
    /// Stored bytes of the tensors that are copied.
    bytes: u64,
    /// The files of a set that were checked, by their numbers.
    pub checked: BTreeMap<u32, SetFile>,
}

/// A conversion, from the selection of its tensors to their copy.
#[napi]
pub struct NativeConversion {
    pub(crate) inner: Arc<Mutex<State>>,
}

pub fn locked(inner: &Mutex<State>) -> MutexGuard<'_, State> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A checkpoint as GGUF has it.
#[napi(object, object_from_js = false)]
pub struct CheckpointInfo {
    /// Tensors that GGUF does not have.
    pub left_out: Vec<LeftOut>,
    /// What else GGUF does not have.
    pub lost: Vec<String>,
    /// Peculiarities of the files.
    pub warnings: Vec<String>,
    /// The names of all tensors of GGUF.
    pub names: Vec<String>,
    /// The codes of their dtypes, or an invalid number for those without.
    pub dtypes: Uint32Array,
    /// A digest of the files next to the weights that were read, and of the names of those that do not exist.
    pub digest: String,
}

#[napi(object, object_from_js = false)]
pub struct LeftOut {
    pub tensor: String,
    pub reason: String,
}

#[napi]
impl NativeConversion {
    /// Which dtypes become which: `[from, to, …]`; the dtype that quantized tensors get; whether tensors keep attributes; `numbered`:
    /// the target has no names.
    #[napi(constructor, catch_unwind)]
    pub fn new(
        env: Env,
        casts: Vec<u32>,
        dequantized: Option<u32>,
        attributes: bool,
        numbered: bool,
    ) -> Result<Self> {
        let selection = if numbered { Selection::numbered() } else { Selection::default() };
        let mut casts = pairs(&env, &casts)?;
        if let Some(dtype) = dtype(dequantized)? {
            casts = throw(&env, casts.dequantizing(dtype))?;
        }
        if !attributes {
            casts = casts.without_attributes();
        }
        let conversion =
            Conversion { casts: Arc::new(casts), selection: Arc::new(selection), ..Conversion::default() };
        let inner = State { conversion, ..State::default() };
        Ok(Self { inner: Arc::new(Mutex::new(inner)) })
    }

    /// Adds tensors; `names`: their new names, or none to keep their own names.
    #[napi(catch_unwind)]
    pub fn select(&self, ordinals: Uint32Array, names: Vec<String>) {
        Arc::make_mut(&mut locked(&self.inner).conversion.selection).add(&ordinals, names);
    }

    /// Selects all tensors of a checkpoint of the Hugging Face hub as GGUF has them. `location` is the path or the URL of the weights or of
    /// their folder; with `remote` it is a URL. Null if no `config.json` is next to them, or if it is that of something else and not `is_sure`.
    /// `set`: metadata that takes precedence over that of the checkpoint. `follow_links`: the files next to the weights may be links out of
    /// their folder.
    #[napi(ts_return_type = "Promise<CheckpointInfo | null>", catch_unwind)]
    #[allow(clippy::too_many_arguments)] // a file, where it is, and what changes
    pub fn select_checkpoint<'env>(
        &self,
        env: &'env Env,
        file: &NativeFile,
        location: String,
        remote: Option<RemoteRequest>,
        follow_links: bool,
        is_sure: bool,
        set: Unknown<'_>,
        control: &Control,
    ) -> Result<Object<'env>> {
        let source = file.reader(env, control, None)?;
        let given = MetadataOverrides::new(input::from_js_map(set)?).of_model(model_name(&location));
        let lane = if remote.is_some() { Lane::Remote } else { Lane::Long };
        let links = links(follow_links);
        let (inner, stop) = (Arc::clone(&self.inner), control.watch.stop.clone());
        let job = move || {
            let folder = folder(&location, remote, links, is_sure, stop)?;
            let mut inner = locked(&inner);
            let conversion = &mut inner.conversion;
            let folder = match folder {
                Ok(folder) => folder,
                Err(lack) => {
                    conversion.lack = Some(lack.into());
                    return Ok(None);
                }
            };
            if let Some(lacking) = source.shared.catalog.lacking() {
                let message = format!("a GGUF file of a model needs all of its tensors. {}", lacking.message);
                let error = CoreError::new(Code::Incomplete, message);
                return Err(
                    error.hint("checkpoint", ". To copy the tensors that are open: checkpoint: false")
                );
            }
            let derived = source.read(|reading| derive(reading, &folder, &given))?.select(conversion)?;
            let Selected { catalog, left_out, lost, warnings } = derived;
            let names = catalog.iter().map(|tensor| tensor.name().to_owned()).collect();
            let dtypes: Vec<u32> =
                catalog.iter().map(|tensor| tensor.dtype().map_or(u32::MAX, |dtype| dtype as u32)).collect();
            let left = |(tensor, reason): (String, &str)| LeftOut { tensor, reason: reason.to_owned() };
            let left_out = left_out.into_iter().map(left).collect();
            let digest = folder.digest();
            Ok(Some(CheckpointInfo { left_out, lost, warnings, names, dtypes: dtypes.into(), digest }))
        };
        spawn(env, lane, control, job, |_, info| Ok(info))
    }

    /// A stage for some of the tensors, or of those whose data must be checked, from a position on.
    #[napi(catch_unwind)]
    pub fn stage_next(&self, env: &Env, file: &NativeFile, inspected: bool, from: u32) -> Result<StageBatch> {
        let inner = locked(&self.inner);
        let ordinals =
            if inspected { &inner.conversion.inspected.1 } else { inner.conversion.selection.ordinals() };
        staging::batch(env, file, ordinals, from)
    }

    /// What cannot be held, page by page: in tensor order, and finally the file's own attributes if requested. With `without_attributes`, the tensors that
    /// are written without their attributes instead.
    #[napi(catch_unwind)]
    pub fn refusals(&self, attributes: bool, without_attributes: bool) -> Vec<NativeError> {
        let State { conversion, passed, passed_without_attributes, .. } = &mut *locked(&self.inner);
        if *passed == 0 {
            conversion.refused.arrange_by_key(|&(position, _)| position);
        }
        let (errors, passed) = if without_attributes {
            (&conversion.without_attributes, passed_without_attributes)
        } else {
            (&conversion.refused, passed)
        };
        let all = errors.iter().map(|(_, error)| error);
        let all = all.chain(conversion.attributes.iter().filter(|_| attributes && !without_attributes));
        let page: Vec<_> = all.skip(*passed).take(PAGE).map(NativeError::from).collect();
        *passed += page.len();
        page
    }

    /// Hands the attributes to the writer, without passing them through JavaScript, which has only one kind of number: those that the plan
    /// keeps, the metadata of a checkpoint, or those of the file, with changes. Then removes the tensors that cannot be held, and sorts the
    /// rest into the order that the writer needs.
    #[napi(ts_return_type = "Promise<Begun>", catch_unwind)]
    pub fn begin<'env>(
        &self,
        env: &'env Env,
        file: &NativeFile,
        writer: &NativeWriter,
        request: BeginRequest<'_>,
        control: &Control,
    ) -> Result<Object<'env>> {
        let (slot, source) = (Arc::clone(writer.slot()), file.reader(env, control, None)?);
        let BeginRequest { set, unset, tensors, part, outlines } = request;
        let changes = set.zip(unset).map(|(set, unset)| input::changes(set, unset)).transpose()?;
        let inner = Arc::clone(&self.inner);
        let job = move || {
            let inner = &mut *locked(&inner);
            let catalog = &source.shared.catalog;
            if let Some(changes) = changes {
                let own = inner.conversion.attributes_of(catalog);
                with_writer(&slot, |writer| writer.take_attributes(&own, changes))?;
            }
            if !tensors {
                return Ok(Begun::default());
            }
            source.read(|reading| {
                let part = part.map(Part::from);
                let start = |writer: &mut Writer| inner.conversion.begin(reading, writer, part.as_ref());
                let begun = with_writer(&slot, start)?;
                inner.bytes = begun.stored;
                let listed = || outlined(&inner.conversion, reading, &slot);
                let outlines = outlines.then(listed).transpose()?;
                Ok(Begun {
                    tensors: number(begun.tensors as u64),
                    bytes: number(begun.stored),
                    readers: begun.readers.into_iter().map(str::to_owned).collect(),
                    outlines,
                })
            })
        };
        spawn(env, writer.or_remote(Lane::Long), control, job, |_, begun| Ok(begun))
    }

    /// Copies the tensors in a range of positions, in sequence; blocks of a file that the wrapper writes go through `outflow`. Or determines
    /// which of the tensors whose data must be checked cannot be held, in a range of their positions.
    #[napi(ts_return_type = "Promise<void>", catch_unwind)]
    #[allow(clippy::too_many_arguments)] // a range, what reads it and where it goes
    pub fn write<'env>(
        &self,
        env: &'env Env,
        file: &NativeFile,
        writer: &NativeWriter,
        tensors: TensorRange,
        control: &Control,
        stage: Option<&Stage>,
        outflow: Option<&Outflow>,
    ) -> Result<Object<'env>> {
        let (slot, source) = (Arc::clone(writer.slot()), file.reader(env, control, stage)?);
        let lane = writer.or_remote(source.shared.or_remote(Lane::Long));
        let (from, end) = (tensors.from as usize, tensors.end as usize);
        let inner = Arc::clone(&self.inner);
        let (inspected, selection, casts, derived, bytes) = {
            let State { conversion, bytes, .. } = &*locked(&inner);
            let Conversion { inspected, selection, casts, derived, .. } = conversion;
            (Arc::clone(inspected), Arc::clone(selection), Arc::clone(casts), derived.clone(), *bytes)
        };
        if tensors.inspected {
            let job = move || {
                let ordinals = inspected.1.get(from..end).unwrap_or_default();
                let found = source.read(|reading| {
                    let reading = convert::derived(derived.as_deref(), reading);
                    with_writer(&slot, |writer| convert::unsupported(reading, ordinals, &casts, writer))
                })?;
                let placed = |(at, error)| Some((*inspected.0.get(from + at)?, error));
                locked(&inner).conversion.refused.extend(found.into_iter().filter_map(placed));
                Ok(())
            };
            return spawn(env, lane, control, job, |_, ()| Ok(()));
        }
        let maker = throw(env, outflow.map(Outflow::maker).transpose())?;
        let aside = maker.is_some();
        let job = move || {
            source.read(|reading| {
                let reading = convert::derived(derived.as_deref(), reading);
                let copy = |writer: &mut Writer| {
                    if from == 0 {
                        writer.expect(bytes);
                    }
                    convert::copy_range(reading, &selection, &casts, from..end, writer)
                };
                with_writer(&slot, |writer| match maker {
                    Some(maker) => writer.passing(Box::new(maker), copy),
                    None => copy(writer),
                })
            })
        };
        if aside {
            spawn_aside(env, control, job, |_, ()| Ok(()))
        } else {
            spawn(env, lane, control, job, |_, ()| Ok(()))
        }
    }
}

/// Tensors by their positions.
#[napi(object, object_to_js = false)]
pub struct TensorRange {
    /// Whether they are those whose data must be checked.
    pub inspected: bool,
    pub from: u32,
    pub end: u32,
}

/// What a writer gets before the data.
#[napi(object, object_to_js = false)]
pub struct BeginRequest<'env> {
    /// Changes of the attributes; without them, none are handed over.
    pub set: Option<Unknown<'env>>,
    pub unset: Option<Unknown<'env>>,
    /// Whether tensors follow.
    pub tensors: bool,
    /// The part of the tensors that is written, as one file of a set.
    pub part: Option<PartRequest>,
    /// Whether to return the tensors as they will be written.
    pub outlines: bool,
}

/// The tensors that follow.
#[derive(Default)]
#[napi(object, object_from_js = false)]
pub struct Begun {
    pub tensors: f64,
    /// Their stored bytes.
    pub bytes: f64,
    /// The programs that can read the file.
    pub readers: Vec<String>,
    pub outlines: Option<Vec<TensorOutline>>,
}

/// Returns ordered tensors as they will be written, with the numbers of their files.
fn outlined(conversion: &Conversion, reading: Reading<'_>, slot: &Slot) -> CoreResult<Vec<TensorOutline>> {
    let Conversion { selection, casts, derived, .. } = conversion;
    let reading = convert::derived(derived.as_deref(), reading);
    let mut division = with_writer(slot, |writer| Ok(writer.division()))?;
    let mut outline = |(at, tensor): (usize, Tensor<'_>)| {
        let outline = convert::outline(reading, tensor, casts)?;
        let name = selection.name(at, tensor).into_owned();
        Ok(TensorOutline {
            shape: tensor.shape().iter().map(|&dim| number(dim)).collect(),
            layout: outline.layout.to_owned(),
            dtype: outline.dtype.map(|dtype| dtype as u32),
            byte_length: number(outline.byte_length()),
            file: division.next(&name, &outline.lengths),
            name,
        })
    };
    selection.tensors(reading.catalog).map(&mut outline).collect()
}

/// A tensor as it will be written.
#[napi(object, object_from_js = false)]
pub struct TensorOutline {
    pub name: String,
    pub shape: Vec<f64>,
    pub layout: String,
    pub dtype: Option<u32>,
    /// The bytes of its components, before compression.
    pub byte_length: f64,
    /// The number of its file in a set, from 0 on.
    pub file: u32,
}

/// A part of the tensors that are written, and the position of its file in a set. A set of one file has no positions.
#[napi(object, object_to_js = false)]
pub struct PartRequest {
    /// Positions of tensors in the order of writing.
    pub from: u32,
    pub end: u32,
    /// Number of the file, from 0 on, and of all files.
    pub number: u32,
    pub count: u32,
}

impl From<PartRequest> for Part {
    fn from(part: PartRequest) -> Self {
        let positions = part.from as usize..part.end as usize;
        Self { positions, number: part.number.into(), count: part.count.into() }
    }
}

/// Whether a `config.json` of a model is next to weights, as `selectCheckpoint` wants it.
#[napi(ts_return_type = "Promise<boolean>", catch_unwind)]
pub fn is_checkpoint<'env>(
    env: &'env Env,
    location: String,
    remote: Option<RemoteRequest>,
    follow_links: bool,
    control: &Control,
) -> Result<Object<'env>> {
    let lane = if remote.is_some() { Lane::Remote } else { Lane::Long };
    let (links, stop) = (links(follow_links), control.watch.stop.clone());
    let job = move || Ok(folder(&location, remote, links, false, stop)?.is_ok());
    spawn(env, lane, control, job, |_, found| Ok(found))
}

/// The files next to the weights at a path or a URL, or why they are not those of a checkpoint.
fn folder(
    location: &str,
    remote: Option<RemoteRequest>,
    links: Links,
    is_sure: bool,
    stop: Stop,
) -> CoreResult<std::result::Result<Folder, &'static str>> {
    let (filesystem, path) = match remote {
        Some(remote) => ztensor_remote::filesystem(location, &remote.options(), &stop)?,
        None => (Arc::new(LocalFiles) as Arc<dyn Filesystem>, PathBuf::from(location)),
    };
    Folder::open(filesystem, path, location, links, is_sure, stop)
}

fn links(follow: bool) -> Links {
    if follow { Links::Anywhere } else { Links::Inside }
}

/// Why a writer rejects attributes of a file; null if it does not.
#[napi(catch_unwind)]
pub fn attribute_refusal(
    write_format: String,
    canonical: bool,
    attributes: Unknown<'_>,
) -> Result<Option<NativeError>> {
    let (format, attributes) = (format(&write_format)?, input::attributes(attributes)?);
    Ok(convert::check_attributes(&attributes, format, canonical).err().as_ref().map(NativeError::from))
}

/// The dtype of a code.
pub fn named(code: u32) -> Result<DType> {
    dtype(Some(code))?.ok_or_else(|| misuse("no such dtype"))
}

/// Parses dtype conversions: `[from, to, from, to, …]`.
fn pairs(env: &Env, codes: &[u32]) -> Result<Casts> {
    let pairs = codes.as_chunks::<2>().0.iter().map(|&[from, to]| Ok((named(from)?, named(to)?)));
    throw(env, Casts::new(pairs.collect::<Result<_>>()?))
}
