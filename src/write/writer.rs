//! Files being written. The wrapper makes one call after another.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use napi::bindgen_prelude::{Object, Uint8ArraySlice, Uint32Array, Unknown};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::codecs::digest::{Algorithm, Digest};
use ztensor_core::convert::quantize;
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
use ztensor_core::kernels::quantize::BlockEncoder;
use ztensor_core::model::{SetPart, Shard};
use ztensor_core::sinks::Warning;
use ztensor_core::sinks::upload::Uploads;
use ztensor_core::sources::owned::Owned;
use ztensor_core::work::Stop;
use ztensor_core::work::lanes::{Lane, SHORT};
use ztensor_core::write::sparse::Arranged;
use ztensor_core::write::{ExpectedAttributes, Finished, Settings, Spec, Writer, shards};

use crate::js::control::Control;
use crate::js::error::{misuse, throw};
use crate::js::panic::contain;
use crate::js::task::{spawn, spawn_always, spawn_lasting};
use crate::read::file::NativeFile;
use crate::read::memory::Memory;
use crate::read::remote::RemoteRequest;
use crate::values::arguments::{alignment, compression, digest, dtype, format, size, unsigned};
use crate::values::formats::FORMATS;
use crate::values::input;
use crate::values::kernels;
use ztensor_handover::number;

/// Options for a new file.
#[napi(object, object_to_js = false)]
pub struct WriteRequest<'env> {
    /// The id of a format and version, from `formats()`.
    pub write_format: String,
    pub alignment: f64,
    pub digest: Option<String>,
    pub level: Option<i32>,
    pub min_savings: f64,
    /// zTensor 2: bytes per zstd frame.
    pub frame: u32,
    pub canonical: bool,
    /// zTensor 2: maximum bytes of a file.
    pub max_shard: Option<f64>,
    pub overwrite: bool,
    pub attributes: Unknown<'env>,
    pub generator: Option<String>,
}

impl WriteRequest<'_> {
    fn settings(&self, stop: Stop) -> Result<Settings> {
        Ok(Settings {
            format: format(&self.write_format)?,
            alignment: alignment(self.alignment)?,
            digest: digest(self.digest.as_deref())?,
            compression: compression(self.level, self.min_savings, self.frame),
            canonical: self.canonical,
            max_shard: self.max_shard.and_then(unsigned),
            overwrite: self.overwrite,
            attributes: input::attributes(self.attributes)?,
            generator: self.generator.clone(),
            stop,
        })
    }
}

/// The description of a component.
#[napi(object)]
pub struct ComponentSpec {
    pub role: String,
    pub dtype: Option<u32>,
    pub byte_length: f64,
}

/// The description of a tensor.
#[napi(object, object_to_js = false)]
pub struct TensorSpec<'env> {
    pub name: String,
    pub shape: Vec<f64>,
    pub layout: String,
    pub dtype: Option<u32>,
    pub attributes: Option<Unknown<'env>>,
    pub components: Vec<ComponentSpec>,
}

/// A linked file, by its identity.
#[napi(object)]
pub struct LinkedFile {
    pub name: String,
    /// Bytes of the whole file.
    pub size: f64,
    /// Digest of the whole file.
    pub digest: String,
}

/// Size and digest of an open file, which `name` will refer to. Only its index is linked to, not its shards.
#[napi(ts_return_type = "Promise<LinkedFile>", catch_unwind)]
pub fn identify<'env>(
    env: &'env Env,
    file: &NativeFile,
    name: String,
    algorithm: String,
    control: &Control,
) -> Result<Object<'env>> {
    let source = file.reader(env, control, None)?;
    let length = source.shared.length;
    let algorithm = digest(Some(&algorithm))?.unwrap_or(Algorithm::Xxh3);
    let job = move || {
        source.read(|reading| {
            let whole = reading.sources.source(0)?;
            reading.watch.expect(whole.length(), 0);
            let digest = shards::whole_digest(whole, algorithm, reading.watch)?;
            Ok((whole.length(), digest))
        })
    };
    spawn(env, Lane::of(length), control, job, |_, (size, digest)| {
        Ok(LinkedFile { name, size: number(size), digest: digest.text().into_owned() })
    })
}

/// The position of a file in a set.
#[napi(object, object_to_js = false)]
pub struct SetPosition {
    /// Number of the file, from 0 on, and of all files.
    pub number: u32,
    pub count: u32,
    /// Number of tensors of all files.
    pub tensors: f64,
}

impl SetPosition {
    fn part(self) -> SetPart {
        let (number, count) = (u64::from(self.number), u64::from(self.count));
        SetPart { number, count, tensors: unsigned(self.tensors) }
    }
}

/// The attributes that a file is expected to have.
#[napi]
pub struct NativeAttributes(ExpectedAttributes);

#[napi]
impl NativeAttributes {
    /// Throws if a file has other attributes, or the same with numbers of other types. `position`: the place in a set that it states. The
    /// message lacks its subject, the file.
    #[napi(catch_unwind)]
    pub fn check(&self, env: &Env, file: &NativeFile, position: Option<SetPosition>) -> Result<()> {
        let found = file.with_catalog(env, |catalog| catalog.attributes.clone())?;
        throw(env, self.0.check(&found, position.map(SetPosition::part)))
    }
}

/// A problem that occurred after a file was renamed into place.
#[napi(object, object_from_js = false)]
pub struct WriteWarning {
    pub code: String,
    pub message: String,
}

/// What finishing a file leaves to the wrapper.
#[napi(object, object_from_js = false)]
pub struct FinishedFile {
    /// Bytes that remain to be written.
    pub rest: Memory,
    pub warnings: Vec<WriteWarning>,
    /// The name of the file that opens a set, if it is not that of the target.
    pub name: Option<String>,
}

pub fn write_warnings(warnings: Vec<Warning>) -> Vec<WriteWarning> {
    let given = |Warning { code, message }| WriteWarning { code: code.to_owned(), message };
    warnings.into_iter().map(given).collect()
}

/// The rest of a sparse tensor while the wrapper takes bytes.
pub type Rest = Arc<Mutex<Option<Arranged>>>;

/// The writer; gone after it finished, or after an error that left the file incomplete.
pub type Slot = Arc<Mutex<Option<Writer>>>;

#[napi]
pub struct NativeWriter {
    slot: Slot,
    rest: Rest,
    /// The store that receives the file, if it is uploaded.
    uploads: Option<Arc<dyn Uploads>>,
}

/// Runs `work` on the writer; if it fails, the file is aborted.
pub fn with_writer<T>(slot: &Slot, work: impl FnOnce(&mut Writer) -> CoreResult<T>) -> CoreResult<T> {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    let writer = slot.as_mut().ok_or_else(gone)?;
    let result = contain(|| work(writer));
    if result.is_err() {
        *slot = None;
    }
    result
}

pub fn gone() -> CoreError {
    CoreError::new(Code::Closed, "the writer has ended; create another one")
}

/// Begins a file at `path`, or one whose bytes the wrapper takes if there is no path. With `remote`, the path is a URL.
#[napi(ts_return_type = "Promise<NativeWriter>", catch_unwind)]
pub fn create_writer<'env>(
    env: &'env Env,
    path: Option<String>,
    request: WriteRequest<'_>,
    control: &Control,
    remote: Option<RemoteRequest>,
) -> Result<Object<'env>> {
    let settings = request.settings(control.watch.stop.clone())?;
    if let (Some(url), Some(remote)) = (&path, remote) {
        let url = url.clone();
        let job = move || {
            let (uploads, path) = ztensor_remote::uploads(&url, &remote.options(), settings.overwrite)?;
            let writer = Writer::upload(&uploads, &path, settings)?;
            Ok((writer, uploads))
        };
        return spawn(env, Lane::Remote, control, job, |_, (writer, uploads)| {
            Ok(NativeWriter { uploads: Some(uploads), ..NativeWriter::new(writer) })
        });
    }
    let job = move || match path {
        Some(path) => Writer::create(Path::new(&path), settings),
        None => Writer::taken(settings),
    };
    spawn(env, Lane::Short, control, job, |_, writer| Ok(NativeWriter::new(writer)))
}

impl NativeWriter {
    pub fn new(writer: Writer) -> Self {
        Self { slot: Arc::new(Mutex::new(Some(writer))), rest: Rest::default(), uploads: None }
    }

    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    pub fn rest(&self) -> &Rest {
        &self.rest
    }

    /// A lane, or the one for work that waits for a store.
    pub fn or_remote(&self, lane: Lane) -> Lane {
        if self.uploads.is_some() { Lane::Remote } else { lane }
    }

    /// Bytes of the file so far.
    fn written(&self) -> u64 {
        let slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.as_ref().map_or(0, Writer::written)
    }

    /// Runs `work`, which leaves the file unchanged if it fails.
    pub fn harmlessly<T>(&self, env: &Env, work: impl FnOnce(&mut Writer) -> CoreResult<T>) -> Result<T> {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        throw(env, slot.as_mut().ok_or_else(gone).and_then(|writer| contain(|| work(writer))))
    }
}

#[napi]
impl NativeWriter {
    /// Announces a tensor. If it is rejected, the file is unchanged.
    #[napi(catch_unwind)]
    pub fn begin(&self, env: Env, tensor: TensorSpec<'_>) -> Result<()> {
        let component = |part: &ComponentSpec| Ok((dtype(part.dtype)?, size(part.byte_length)?));
        let stored = tensor.components.iter().map(component).collect::<Result<Vec<_>>>()?;
        let roles = tensor.components.iter().map(|part| part.role.as_str());
        let components: Vec<_> =
            roles.zip(stored).map(|(role, (dtype, length))| (role, dtype, length)).collect();
        let shape = tensor.shape.iter().copied().map(size).collect::<Result<Vec<_>>>()?;
        let attributes = tensor.attributes.map(input::attributes).transpose()?;
        let spec = Spec {
            name: &tensor.name,
            shape: &shape,
            layout: &tensor.layout,
            dtype: dtype(tensor.dtype)?,
            attributes: attributes.as_ref(),
            components: &components,
        };
        self.harmlessly(&env, |writer| writer.begin(spec))
    }

    /// Adds a small piece on this thread and returns the number of bytes that wait to be flushed.
    #[napi(catch_unwind)]
    pub fn push(&self, env: Env, bytes: Uint8ArraySlice<'_>) -> Result<f64> {
        let pending = with_writer(&self.slot, |writer| {
            writer.push(&bytes)?;
            writer.pass_on()?;
            Ok(writer.pending())
        });
        throw(&env, pending).map(|pending| number(pending as u64))
    }

    /// Adds a large piece: copied here; cast, hashed, compressed and written on worker threads. `cast`: the codes of the dtype of the piece
    /// and of the dtype to write, if they differ, or the code of the dtype of the piece, which is quantized to the block type `blocks`.
    /// Returns the number of waiting bytes.
    #[napi(ts_return_type = "Promise<number>", catch_unwind)]
    pub fn push_async<'env>(
        &self,
        env: &'env Env,
        bytes: Uint8ArraySlice<'_>,
        cast: Option<Uint32Array>,
        blocks: Option<String>,
        control: &Control,
    ) -> Result<Object<'env>> {
        let mut copy = throw(env, Owned::to_fill(bytes.len() as u64))?;
        copy.copy_from_slice(&bytes);
        let cast = cast.as_deref().map(kernels::Cast::new).transpose()?;
        let kind = blocks
            .map(|name| BlockEncoder::of(&name).ok_or_else(|| misuse("no such block type")))
            .transpose()?;
        let slot = Arc::clone(&self.slot);
        let job = move || {
            let piece = match (cast, kind) {
                (Some(cast), None) => cast.of(&copy)?,
                _ => copy,
            };
            with_writer(&slot, |writer| {
                match (cast, kind) {
                    (Some(cast), Some(kind)) => quantize::push(writer, cast.from, &piece, kind)?,
                    _ => writer.push(&piece)?,
                }
                writer.flush_if_full()?;
                Ok(writer.pending())
            })
        };
        spawn(env, self.or_remote(Lane::Step), control, job, |_, pending| Ok(number(pending as u64)))
    }

    /// The waiting bytes of a file that the wrapper writes.
    #[napi(catch_unwind)]
    pub fn take(&self, env: Env) -> Result<Memory> {
        let taken = with_writer(&self.slot, |writer| Ok(writer.take()));
        throw(&env, taken).map(|bytes| Owned::from(bytes).into())
    }

    /// Fails if the index of a file of tensors with these names would be longer than readers accept.
    #[napi(catch_unwind)]
    pub fn foresee(&self, env: Env, names: Vec<String>) -> Result<()> {
        let empty = names.into_iter().map(|name| Ok((name, 0)));
        self.harmlessly(&env, |writer| if writer.is_set() { Ok(()) } else { writer.foresee(empty) })
    }

    /// The attributes that readers will find in the file.
    #[napi(catch_unwind)]
    pub fn expected_attributes(&self, env: Env) -> Result<NativeAttributes> {
        let expected = with_writer(&self.slot, |writer| Ok(writer.expected_attributes(FORMATS)));
        throw(&env, expected).map(NativeAttributes)
    }

    /// Adds a tensor whose bytes remain in its file, which `shard` names and the digest identifies.
    #[napi(catch_unwind)]
    pub fn link(
        &self,
        env: Env,
        file: &NativeFile,
        ordinal: u32,
        name: String,
        shard: LinkedFile,
    ) -> Result<()> {
        let linked = file.with_catalog(&env, |catalog| {
            let tensor = catalog.tensor(ordinal as usize);
            let tensor = tensor.ok_or_else(|| CoreError::new(Code::Internal, "no such tensor"))?;
            let digest = Digest::parse_registered(&shard.digest)?;
            let size = unsigned(shard.size).unwrap_or_default();
            let shard = Shard { name: shard.name.as_str().into(), size, digest };
            let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
            let writer = slot.as_mut().ok_or_else(gone)?;
            contain(|| writer.link(&name, tensor, catalog, shard))
        })?;
        throw(&env, linked)
    }

    /// Ends the announced tensor.
    #[napi(catch_unwind)]
    pub fn end(&self, env: Env) -> Result<()> {
        throw(&env, with_writer(&self.slot, Writer::end))
    }

    /// Passes on waiting bytes once they can be accepted.
    #[napi(ts_return_type = "Promise<void>", catch_unwind)]
    pub fn flush<'env>(&self, env: &'env Env, control: &Control) -> Result<Object<'env>> {
        let slot = Arc::clone(&self.slot);
        let job = move || with_writer(&slot, Writer::flush_if_full);
        spawn(env, self.or_remote(Lane::Step), control, job, |_, ()| Ok(()))
    }

    /// Writes the index and renames the file into place. Returns what the wrapper has yet to write, and warnings.
    #[napi(ts_return_type = "Promise<FinishedFile>", catch_unwind)]
    pub fn finish<'env>(&self, env: &'env Env, control: &Control) -> Result<Object<'env>> {
        let slot = Arc::clone(&self.slot);
        let lane = self.or_remote(if self.written() <= SHORT { Lane::Short } else { Lane::Step });
        let job = move || {
            let writer = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            writer.ok_or_else(gone).and_then(Writer::finish)
        };
        spawn_lasting(env, lane, control, job, |_, Finished { rest, warnings, name, .. }| {
            let rest = Memory::from(Owned::from(rest));
            Ok(FinishedFile { rest, warnings: write_warnings(warnings), name })
        })
    }

    /// Aborts the file; nothing is left behind.
    #[napi(ts_return_type = "Promise<void>", catch_unwind)]
    pub fn abort<'env>(&self, env: &'env Env) -> Result<Object<'env>> {
        let (slot, rest, uploads) = (Arc::clone(&self.slot), Arc::clone(&self.rest), self.uploads.clone());
        let job = move || {
            drop(slot.lock().unwrap_or_else(PoisonError::into_inner).take());
            drop(rest.lock().unwrap_or_else(PoisonError::into_inner).take());
            if let Some(uploads) = uploads {
                uploads.settle();
            }
            Ok(())
        };
        spawn_always(env, self.or_remote(Lane::Short), job, |_, ()| Ok(()))
    }
}
