//! The tensors of a file to be converted: their selection, what the target cannot hold, and their copy.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ciborium::Value;
use napi::bindgen_prelude::{Object, Uint32Array, Unknown};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::codecs::digest::{Algorithm, Hasher};
use ztensor_core::convert::quantize::Target;
use ztensor_core::convert::{self, Casts, Chosen, Wanted};
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
use ztensor_core::kernels::quantize::Kind;
use ztensor_core::model::{Attributes, Catalog, DType, SetPart};
use ztensor_core::paths;
use ztensor_core::read::Reading;
use ztensor_core::read::staging::stored_bytes;
use ztensor_core::read::total::Work;
use ztensor_core::sources::filesystem::{Filesystem, LocalFiles};
use ztensor_core::sources::read_ahead::ReadAhead;
use ztensor_core::work::lanes::Lane;
use ztensor_core::work::{Stop, Watch};
use ztensor_core::write::{WriteFormat, Writer};
use ztensor_import::gguf::checkpoint::derived::{Derived, derive};
use ztensor_import::gguf::checkpoint::{Files, Given};

use crate::attributes::{self, FlatAttributes};
use crate::control::Control;
use crate::edit;
use crate::error::{NativeError, misuse, throw};
use crate::file::NativeFile;
use crate::index::number;
use crate::outflow::Outflow;
use crate::quantize;
use crate::remote::RemoteRequest;
use crate::stage::{self, Stage, StageBatch};
use crate::task::{spawn, spawn_aside};
use crate::value;
use crate::writer::{NativeWriter, dtype, format, with_writer};

/// Errors returned at once: each is a separate object.
const PAGE: usize = 1000;

#[derive(Default)]
struct Inner {
    /// The tensors as the target has them, instead of those of the file.
    derived: Option<Arc<Catalog>>,
    casts: Arc<Casts>,
    chosen: Arc<Chosen>,
    /// Positions and ordinals of the tensors whose data must be checked.
    judged: Arc<(Vec<usize>, Vec<u32>)>,
    /// What the target cannot hold, by position.
    refused: Vec<(usize, CoreError)>,
    /// Why it cannot hold the file's own attributes.
    attributes: Option<CoreError>,
    /// Tensors that are written without their attributes, by places, and why.
    bare: Vec<(usize, CoreError)>,
    /// Refusals that were passed to JavaScript.
    passed: usize,
    /// Errors of `bare` that were.
    bare_passed: usize,
    /// Stored bytes of the tensors that are copied.
    bytes: u64,
}

/// Tensors by their ordinals in a file, with their new names.
#[napi]
pub struct Selection {
    inner: Arc<Mutex<Inner>>,
}

/// Reads with the catalog of the target, if there is one.
fn of<'a>(derived: Option<&'a Catalog>, reading: Reading<'a>) -> Reading<'a> {
    Reading { catalog: derived.unwrap_or(reading.catalog), ..reading }
}

fn locked(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A checkpoint as GGUF has it.
#[napi(object, object_from_js = false)]
pub struct CheckpointInfo {
    /// Tensors that GGUF does not have.
    pub left_out: Vec<LeftOut>,
    /// The dtype of most matrices.
    pub dtype: Option<String>,
    /// The names of all tensors of GGUF.
    pub names: Vec<String>,
    /// The codes of their dtypes, or a number that is none for those whose dtype is fixed.
    pub dtypes: Uint32Array,
    /// A digest of the files next to the weights that were read, and of the names of those that do not exist.
    pub digest: String,
}

#[napi(object, object_from_js = false)]
pub struct LeftOut {
    pub tensor: String,
    pub reason: String,
}

/// Returns the dtype of most bytes of matrices.
fn common_dtype(catalog: &Catalog) -> Option<String> {
    let mut bytes: HashMap<DType, u64> = HashMap::new();
    for tensor in catalog.iter().filter(|tensor| tensor.shape().len() > 1) {
        if let Some(dtype) = tensor.dtype() {
            *bytes.entry(dtype).or_default() += stored_bytes(tensor);
        }
    }
    bytes
        .into_iter()
        .max_by_key(|&(dtype, bytes)| (bytes, dtype as u8))
        .map(|(dtype, _)| dtype.name().to_owned())
}

/// The files next to the weights of a checkpoint.
struct CheckpointFiles {
    filesystem: Arc<dyn Filesystem>,
    folder: PathBuf,
    stop: Stop,
    /// Of what was read.
    hasher: Mutex<Hasher>,
}

impl CheckpointFiles {
    /// Returns `None` if no `config.json` of a model is there.
    fn of(
        location: &str,
        remote: Option<RemoteRequest>,
        is_sure: bool,
        stop: Stop,
    ) -> CoreResult<Option<Self>> {
        let (filesystem, path) = match remote {
            Some(remote) => ztensor_remote::filesystem(location, &remote.options(), &stop)?,
            None => (Arc::new(LocalFiles) as Arc<dyn Filesystem>, PathBuf::from(location)),
        };
        let folder = match path.parent() {
            Some(parent) if !filesystem.is_folder(&path, &stop) => parent.to_owned(),
            _ => path,
        };
        let files = Self { filesystem, folder, stop, hasher: Mutex::new(Algorithm::Sha256.hasher()) };
        let config = files.read("config.json", MOST_CONFIG)?;
        let names_model = |text: &Vec<u8>| String::from_utf8_lossy(text).contains("\"architectures\"");
        Ok(config.filter(|text| is_sure || names_model(text)).map(|_| files))
    }
}

impl CheckpointFiles {
    fn hash(&self, path: &str, bytes: Option<&[u8]>) {
        let mut hasher = self.hasher.lock().unwrap_or_else(PoisonError::into_inner);
        let length = bytes.map_or(-1, |bytes| i128::try_from(bytes.len()).unwrap_or(i128::MAX));
        for part in [path.as_bytes(), &[0], &length.to_le_bytes(), bytes.unwrap_or_default()] {
            hasher.update(part);
        }
    }

    /// The digest of what was read.
    fn digest(self) -> String {
        let hasher = self.hasher.into_inner().unwrap_or_else(PoisonError::into_inner);
        Algorithm::Sha256.digest(hasher).text().into_owned()
    }
}

/// The largest `config.json`, in bytes.
const MOST_CONFIG: u64 = 16 << 20;

impl Files for CheckpointFiles {
    fn read(&self, name: &str, most: u64) -> CoreResult<Option<Vec<u8>>> {
        let path = paths::join(&self.folder, name);
        let source = match self.filesystem.open(&path, &self.stop) {
            Ok(source) => source,
            Err(error) if error.is_absent() => {
                self.hash(name, None);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let length = source.length();
        if length > most {
            let message = format!("the file has {length} bytes, more than the {most} that are read of it");
            return Err(CoreError::new(Code::Limit, message).in_file(name, &path));
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        source.read_at(0, &mut bytes, &self.stop).map_err(|error| error.in_file(name, &path))?;
        self.hash(name, Some(&bytes));
        Ok(Some(bytes))
    }
}

/// The result of examining a selection.
#[napi(object, object_from_js = false)]
pub struct Selected {
    pub tensors: u32,
    /// Their stored bytes.
    pub bytes: f64,
    /// Number of items that the target cannot hold according to the index; the file's own attributes count as one more.
    pub refused: u32,
    /// Number of tensors whose data must be checked, and their stored bytes.
    pub judged: u32,
    pub judged_bytes: f64,
    /// Whether the target can hold the file's own attributes.
    pub attributes: bool,
}

#[napi]
impl Selection {
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
        let chosen = if numbered { Chosen::numbered() } else { Chosen::default() };
        let mut casts = pairs(&env, &casts)?;
        if let Some(dtype) = dtype(dequantized)? {
            casts = throw(&env, casts.dequantizing(dtype))?;
        }
        if !attributes {
            casts = casts.without_attributes();
        }
        let inner = Inner { casts: Arc::new(casts), chosen: Arc::new(chosen), ..Inner::default() };
        Ok(Self { inner: Arc::new(Mutex::new(inner)) })
    }

    /// Adds tensors; `names`: their new names, or none to keep their own names.
    #[napi(catch_unwind)]
    pub fn take(&self, ordinals: Uint32Array, names: Vec<String>) {
        Arc::make_mut(&mut locked(&self.inner).chosen).take(&ordinals, names);
    }

    /// Takes all tensors of a checkpoint of the Hugging Face hub as GGUF has them. `location` is the path or the URL of the weights or of
    /// their folder; with `remote` it is a URL. Null if no `config.json` is next to them, or if it is that of something else and not `is_sure`.
    /// `set`: metadata that takes precedence over that of the checkpoint.
    #[napi(ts_return_type = "Promise<CheckpointInfo | null>", catch_unwind)]
    #[allow(clippy::too_many_arguments)] // a file, where it is, and what changes
    pub fn take_checkpoint<'env>(
        &self,
        env: &'env Env,
        file: &NativeFile,
        location: String,
        remote: Option<RemoteRequest>,
        is_sure: bool,
        set: Unknown<'_>,
        control: &Control,
    ) -> Result<Object<'env>> {
        let source = file.reader(env, control, None)?;
        let given = Given::new(value::from_js_map(set)?);
        let lane = if remote.is_some() { Lane::Remote } else { Lane::Long };
        let (inner, stop) = (Arc::clone(&self.inner), control.watch.stop.clone());
        let job = move || {
            let Some(files) = CheckpointFiles::of(&location, remote, is_sure, stop)? else { return Ok(None) };
            let derived = source.read(|reading| derive(reading, &files, &given))?;
            let Derived { catalog, float32, scaled, mxfp4, left_out } = derived;
            let mut inner = locked(&inner);
            let ordinals: Vec<u32> = (0..).take(catalog.len()).collect();
            Arc::make_mut(&mut inner.chosen).take(&ordinals, Vec::new());
            let casts = Arc::make_mut(&mut inner.casts);
            let names = catalog.iter().map(|tensor| tensor.name().to_owned()).collect();
            let mut dtypes: Vec<u32> =
                catalog.iter().map(|tensor| tensor.dtype().map_or(u32::MAX, |dtype| dtype as u32)).collect();
            for (ordinal, dtype) in float32 {
                casts.cast_single(ordinal, dtype, DType::Float32)?;
                if let Some(fixed) = dtypes.get_mut(ordinal as usize) {
                    *fixed = u32::MAX;
                }
            }
            for (ordinal, scaling) in scaled {
                casts.scale(ordinal, Arc::new(scaling))?;
            }
            if let Some(kind) = Kind::of("mxfp4") {
                let target = Arc::new(Target::new(kind));
                for ordinal in mxfp4 {
                    casts.quantize(ordinal, &target, None);
                }
            }
            let dtype = common_dtype(&catalog);
            inner.derived = Some(Arc::new(catalog));
            let left = |(tensor, reason): (String, &str)| LeftOut { tensor, reason: reason.to_owned() };
            let left_out = left_out.into_iter().map(left).collect();
            let digest = files.digest();
            Ok(Some(CheckpointInfo { left_out, dtype, names, dtypes: dtypes.into(), digest }))
        };
        spawn(env, lane, control, job, |_, info| Ok(info))
    }

    /// Like `takeAttributes` of a writer, with the metadata of a checkpoint.
    #[napi(catch_unwind)]
    pub fn give_attributes(
        &self,
        env: Env,
        writer: &NativeWriter,
        set: Unknown<'_>,
        unset: Unknown<'_>,
    ) -> Result<()> {
        let changes = edit::changes(set, unset)?;
        let attributes = locked(&self.inner).derived.as_ref().map(|catalog| catalog.attributes.clone());
        let attributes = attributes.unwrap_or_default();
        throw(&env, with_writer(writer.slot(), |writer| writer.take_attributes(&attributes, changes)))
    }

    /// Determines from the index what a format cannot hold. Rejects tensors whose total size far exceeds that of their file, and duplicate
    /// names.
    #[napi(ts_return_type = "Promise<Selected>", catch_unwind)]
    pub fn look<'env>(
        &self,
        env: &'env Env,
        file: &NativeFile,
        name: String,
        canonical: bool,
        strict: bool,
        control: &Control,
    ) -> Result<Object<'env>> {
        let (source, format) = (file.reader(env, control, None)?, format(&name)?);
        let lane = source.shared.or_remote(Lane::Long);
        let inner = Arc::clone(&self.inner);
        let job = move || {
            let mut inner = locked(&inner);
            let derived = inner.derived.clone();
            let derived = derived.as_deref();
            let catalog = derived.unwrap_or(&source.shared.catalog);
            source.shared.check_total_of(catalog, inner.chosen.ordinals(), Work::Copy)?;
            source.read(|reading| inner.look(of(derived, reading), (format, canonical), strict))
        };
        spawn(env, lane, control, job, |_, selected| Ok(selected))
    }

    /// Casts single tensors, which takes precedence over the dtypes of the constructor: parallel lists of ordinals, dtypes and new dtypes.
    #[napi(catch_unwind)]
    #[allow(clippy::needless_pass_by_value)] // napi
    pub fn cast(&self, env: Env, ordinals: Uint32Array, from: Uint32Array, to: Uint32Array) -> Result<()> {
        let mut inner = locked(&self.inner);
        let casts = Arc::make_mut(&mut inner.casts);
        for ((&ordinal, from), to) in ordinals.iter().zip(from.iter()).zip(to.iter()) {
            let (from, to) = (named(*from)?, named(*to)?);
            throw(&env, casts.cast_single(ordinal, from, to))?;
        }
        Ok(())
    }

    /// Chooses the types of tensors by a mixture of llama.cpp, or by rules: names of patterns and types, of which the first that matches
    /// counts. Call it after `take` and before `look`. `set` and `unset` are changes of the source's attributes, which mixtures depend on.
    #[napi(ts_return_type = "Promise<Quantized>", catch_unwind)]
    #[allow(clippy::too_many_arguments)] // a file, what to choose, and what it depends on
    pub fn quantize<'env>(
        &self,
        env: &'env Env,
        file: &NativeFile,
        mixture: Option<String>,
        rules: Vec<String>,
        requantize: bool,
        imatrix: Option<String>,
        set: Unknown<'_>,
        unset: Unknown<'_>,
        control: &Control,
    ) -> Result<Object<'env>> {
        let source = file.reader(env, control, None)?;
        let lane = source.shared.or_remote(Lane::Long);
        let changes = edit::changes(set, unset)?;
        let inner = Arc::clone(&self.inner);
        let job = move || {
            let imatrix = imatrix.map(|path| quantize::read_importance(Path::new(&path))).transpose()?;
            let wanted = quantize::Wanted::new(mixture, &rules, requantize, imatrix)?;
            let Inner { chosen, casts, derived, .. } = &mut *locked(&inner);
            let catalog = derived.as_deref().unwrap_or(&source.shared.catalog);
            quantize::choose(catalog, &wanted, &changes, Arc::make_mut(chosen), Arc::make_mut(casts))
        };
        spawn(env, lane, control, job, |_, quantized| Ok(quantized))
    }

    /// A stage for some of the tensors, or of those whose data must be checked, from a position on.
    #[napi(catch_unwind)]
    pub fn stage_next(&self, env: &Env, file: &NativeFile, judged: bool, from: u32) -> Result<StageBatch> {
        let inner = locked(&self.inner);
        let ordinals = if judged { &inner.judged.1 } else { inner.chosen.ordinals() };
        stage::batch(env, file, ordinals, from)
    }

    /// Determines which of the tensors whose data must be checked cannot be held, in a range of positions.
    #[napi(ts_return_type = "Promise<void>", catch_unwind)]
    #[allow(clippy::too_many_arguments)] // a range and what reads it
    pub fn judge<'env>(
        &self,
        env: &'env Env,
        file: &NativeFile,
        writer: &NativeWriter,
        from: u32,
        end: u32,
        control: &Control,
        stage: Option<&Stage>,
    ) -> Result<Object<'env>> {
        let (slot, source) = (Arc::clone(writer.slot()), file.reader(env, control, stage)?);
        let lane = writer.or_remote(source.shared.or_remote(Lane::Long));
        let inner = Arc::clone(&self.inner);
        let job = move || {
            let (judged, casts, derived) = {
                let inner = locked(&inner);
                (Arc::clone(&inner.judged), Arc::clone(&inner.casts), inner.derived.clone())
            };
            let (from, end) = (from as usize, end as usize);
            let ordinals = judged.1.get(from..end).unwrap_or_default();
            let found = source.read(|reading| {
                let reading = of(derived.as_deref(), reading);
                with_writer(&slot, |writer| convert::unfit(reading, ordinals, &casts, writer))
            })?;
            let placed = |(at, error)| Some((*judged.0.get(from + at)?, error));
            locked(&inner).refused.extend(found.into_iter().filter_map(placed));
            Ok(())
        };
        spawn(env, lane, control, job, |_, ()| Ok(()))
    }

    /// The ordinals of the tensors whose data must be checked.
    #[napi(catch_unwind)]
    pub fn judged_ordinals(&self) -> Uint32Array {
        locked(&self.inner).judged.1.clone().into()
    }

    /// What cannot be held, page by page: in tensor order, and finally the file's own attributes if requested.
    #[napi(catch_unwind)]
    pub fn refusals(&self, attributes: bool) -> Vec<NativeError> {
        let mut inner = locked(&self.inner);
        if inner.passed == 0 {
            inner.refused.sort_by_key(|&(position, _)| position);
        }
        let tensors = inner.refused.iter().map(|(_, error)| error);
        let all = tensors.chain(inner.attributes.iter().filter(|_| attributes));
        let page: Vec<_> = all.skip(inner.passed).take(PAGE).map(NativeError::from).collect();
        inner.passed += page.len();
        page
    }

    /// The tensors that are written without their attributes, page by page, in their order.
    #[napi(catch_unwind)]
    pub fn without_attributes(&self) -> Vec<NativeError> {
        let mut inner = locked(&self.inner);
        let errors = inner.bare.iter().map(|(_, error)| error);
        let page: Vec<_> = errors.skip(inner.bare_passed).take(PAGE).map(NativeError::from).collect();
        inner.bare_passed += page.len();
        page
    }

    /// The tensors as they will be written, in order, without those that cannot be held. Call it after `look`.
    #[napi(ts_return_type = "Promise<TensorOutline[]>", catch_unwind)]
    pub fn outline<'env>(
        &self,
        env: &'env Env,
        file: &NativeFile,
        control: &Control,
    ) -> Result<Object<'env>> {
        let source = file.reader(env, control, None)?;
        let inner = Arc::clone(&self.inner);
        let job = move || {
            let inner = locked(&inner);
            let mut chosen = (*inner.chosen).clone();
            chosen.leave_out(&inner.refused_positions());
            source.read(|reading| {
                let reading = of(inner.derived.as_deref(), reading);
                let outline = |(at, tensor)| {
                    let outline = convert::outline(reading, tensor, &inner.casts)?;
                    Ok(TensorOutline {
                        name: chosen.name(at, tensor).into_owned(),
                        shape: tensor.shape().iter().map(|&dim| number(dim)).collect(),
                        layout: outline.layout.to_owned(),
                        dtype: outline.dtype.map(|dtype| dtype as u32),
                        byte_length: number(outline.byte_length),
                    })
                };
                chosen.tensors(reading.catalog).map(outline).collect::<CoreResult<Vec<_>>>()
            })
        };
        spawn(env, Lane::Long, control, job, |_, outlines| Ok(outlines))
    }

    /// Removes what cannot be held, and sorts the rest into the order that the writer needs. Sets the attributes of the writer. With
    /// `part`, only this part of the rest is written, as one file of a set.
    #[napi(ts_return_type = "Promise<Settled>", catch_unwind)]
    pub fn settle<'env>(
        &self,
        env: &'env Env,
        file: &NativeFile,
        writer: &NativeWriter,
        part: Option<PartRequest>,
        control: &Control,
    ) -> Result<Object<'env>> {
        let (slot, source) = (Arc::clone(writer.slot()), file.reader(env, control, None)?);
        let inner = Arc::clone(&self.inner);
        let job = move || {
            let mut inner = locked(&inner);
            let positions = inner.refused_positions();
            let Inner { chosen, casts, derived, .. } = &mut *inner;
            let catalog = derived.as_deref().unwrap_or(&source.shared.catalog);
            let selected = Arc::make_mut(chosen);
            selected.leave_out(&positions);
            let place = part.map(|part| part.take(selected)).transpose()?.flatten();
            source.read(|reading| {
                let reading = of(derived.as_deref(), reading);
                with_writer(&slot, |writer| {
                    if let Some(place) = place {
                        writer.set_part(place);
                    }
                    if writer.format().canonical.is_some() {
                        selected.sort(catalog);
                    }
                    convert::lay_out(reading, selected, casts, writer)
                })
            })?;
            let bytes = selected.stored(catalog);
            let tensors = selected.len();
            inner.bytes = bytes;
            Ok((tensors, bytes))
        };
        spawn(env, writer.or_remote(Lane::Long), control, job, |_, (tensors, bytes)| {
            Ok(Settled { tensors: number(tensors as u64), bytes: number(bytes) })
        })
    }

    /// Copies the tensors in a range of positions in sequence; blocks of a file that the wrapper writes go through `outflow`.
    #[napi(ts_return_type = "Promise<void>", catch_unwind)]
    #[allow(clippy::too_many_arguments)] // a range, what reads it and where it goes
    pub fn copy<'env>(
        &self,
        env: &'env Env,
        file: &NativeFile,
        writer: &NativeWriter,
        from: u32,
        end: u32,
        control: &Control,
        stage: Option<&Stage>,
        outflow: Option<&Outflow>,
    ) -> Result<Object<'env>> {
        let (slot, source) = (Arc::clone(writer.slot()), file.reader(env, control, stage)?);
        let lane = writer.or_remote(source.shared.or_remote(Lane::Long));
        let (chosen, casts, bytes, derived) = {
            let inner = locked(&self.inner);
            (Arc::clone(&inner.chosen), Arc::clone(&inner.casts), inner.bytes, inner.derived.clone())
        };
        let maker = throw(env, outflow.map(Outflow::maker).transpose())?;
        let aside = maker.is_some();
        let job = move || {
            source.read(|reading| {
                let reading = of(derived.as_deref(), reading);
                let range = Range { chosen: &chosen, from: from as usize, end: end as usize };
                let copy = |writer: &mut Writer| {
                    if from == 0 {
                        writer.expect(bytes);
                    }
                    range.copy(reading, &casts, writer)
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

/// A tensor as it will be written.
#[napi(object, object_from_js = false)]
pub struct TensorOutline {
    pub name: String,
    pub shape: Vec<f64>,
    pub layout: String,
    pub dtype: Option<u32>,
    /// The bytes of its components, before compression.
    pub byte_length: f64,
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

impl PartRequest {
    /// Keeps the tensors of the part. Returns the position of its file.
    fn take(&self, chosen: &mut Chosen) -> CoreResult<Option<SetPart>> {
        let total = chosen.len();
        if self.end as usize > total || self.from > self.end {
            let message = format!(
                "the tensors from {} to {} were to be written, of {total}: plan the job again",
                self.from, self.end
            );
            return Err(CoreError::new(Code::InvalidArg, message));
        }
        chosen.keep(self.from as usize, self.end as usize);
        let (number, count) = (u64::from(self.number), u64::from(self.count));
        Ok((count > 1).then_some(SetPart { number, count, tensors: Some(total as u64) }))
    }
}

/// The result of settling a selection.
#[napi(object, object_from_js = false)]
pub struct Settled {
    pub tensors: f64,
    pub bytes: f64,
}

impl Inner {
    /// The positions of the tensors that cannot be held, in ascending order.
    fn refused_positions(&self) -> Vec<usize> {
        let mut positions: Vec<_> = self.refused.iter().map(|&(position, _)| position).collect();
        positions.sort_unstable();
        positions
    }

    /// `strict`: attributes that the target cannot hold are a reason to refuse the tensor.
    fn look(
        &mut self,
        reading: Reading<'_>,
        (format, canonical): (&'static WriteFormat, bool),
        strict: bool,
    ) -> CoreResult<Selected> {
        let casts = Arc::make_mut(&mut self.casts);
        let (catalog, chosen) = (reading.catalog, Arc::clone(&self.chosen));
        chosen.check_names(catalog)?;
        let (mut positions, mut ordinals) = (Vec::new(), Vec::new());
        let (mut bytes, mut judged_bytes) = (0_u64, 0_u64);
        for (at, tensor) in chosen.tensors(catalog) {
            if at % 4096 == 0 {
                reading.watch.stop.check()?;
            }
            let stored = stored_bytes(tensor);
            bytes = bytes.saturating_add(stored);
            let name = chosen.name(at, tensor);
            let refusal =
                |casts: &Casts| convert::refusal(catalog, tensor, &name, Wanted { format, canonical, casts });
            let mut refused = refusal(casts);
            if !strict
                && casts.attributes(tensor).is_some()
                && let Some(error) = refused.take()
            {
                casts.set_bare(tensor, true);
                refused = refusal(casts);
                if refused.is_none() {
                    self.bare.push((at, error));
                } else {
                    casts.set_bare(tensor, false);
                }
            }
            if let Some(error) = refused {
                self.refused.push((at, error));
            } else if convert::is_judged(tensor, Wanted { format, canonical, casts }) {
                positions.push(at);
                ordinals.extend(chosen.ordinals().get(at));
                judged_bytes = judged_bytes.saturating_add(stored);
            }
        }
        self.attributes = convert::attribute_refusal(&catalog.attributes, format, canonical);
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let selected = Selected {
            tensors: count(chosen.len()),
            bytes: number(bytes),
            refused: count(self.refused.len()),
            judged: count(positions.len()),
            judged_bytes: number(judged_bytes),
            attributes: self.attributes.is_none(),
        };
        self.judged = Arc::new((positions, ordinals));
        Ok(selected)
    }
}

#[napi]
impl NativeFile {
    /// The attributes that a format cannot hold, with null for each value.
    #[napi(catch_unwind)]
    pub fn unheld_attributes<'env>(
        &self,
        env: &'env Env,
        write_format: String,
        canonical: bool,
    ) -> Result<FlatAttributes<'env>> {
        let format = format(&write_format)?;
        let unheld =
            self.with_catalog(env, |catalog| convert::unheld(&catalog.attributes, format, canonical))?;
        let unheld = throw(env, unheld)?;
        let unheld: Attributes = unheld.into_iter().map(|key| (key, Value::Null)).collect::<Vec<_>>().into();
        throw(env, attributes::to_js(env, Some(&unheld))?)
    }
}

/// Why a format cannot hold attributes of a file; null if it can.
#[napi(catch_unwind)]
pub fn attribute_refusal(
    write_format: String,
    canonical: bool,
    attributes: Unknown<'_>,
) -> Result<Option<NativeError>> {
    let (format, attributes) = (format(&write_format)?, value::attributes(attributes)?);
    Ok(convert::attribute_refusal(&attributes, format, canonical).as_ref().map(NativeError::from))
}

/// Some of the tensors.
struct Range<'a> {
    chosen: &'a Chosen,
    from: usize,
    end: usize,
}

impl Range<'_> {
    fn copy(&self, reading: Reading<'_>, casts: &Casts, writer: &mut Writer) -> CoreResult<()> {
        let count = self.end.saturating_sub(self.from);
        let tensors = self.chosen.tensors(reading.catalog).skip(self.from).take(count);
        self.expect(reading.watch, tensors.clone().map(|(_, tensor)| stored_bytes(tensor)));
        let ahead = ReadAhead::new(reading.sources, reading.catalog.shards.len());
        let reading = Reading { sources: &ahead, ..reading };
        for (at, tensor) in tensors {
            convert::copy(reading, tensor, &self.chosen.name(at, tensor), casts, writer)?;
            reading.watch.did_tensor();
        }
        Ok(())
    }

    fn expect(&self, watch: &Watch, stored: impl Iterator<Item = u64>) {
        watch.expect(stored.fold(0, u64::saturating_add), self.end.saturating_sub(self.from) as u64);
    }
}

/// The dtype of a code.
fn named(code: u32) -> Result<DType> {
    dtype(Some(code))?.ok_or_else(|| misuse("no such dtype"))
}

/// Parses dtype conversions: `[from, to, from, to, …]`.
fn pairs(env: &Env, codes: &[u32]) -> Result<Casts> {
    let pairs = codes.as_chunks::<2>().0.iter().map(|&[from, to]| Ok((named(from)?, named(to)?)));
    throw(env, Casts::new(pairs.collect::<Result<_>>()?))
}
