//! Open files.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use napi::bindgen_prelude::{Object, ToNapiValue, Uint32Array, Unknown};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::error::{Code, Error as CoreError};
use ztensor_core::model::{Catalog, Component, Span, similar};
use ztensor_core::read::{Reading, prefetch};
use ztensor_core::sources::files::{Files, Member};
use ztensor_core::work::Watch;
use ztensor_core::work::lanes::Lane;

use crate::js::buffer::{self, Share};
use crate::js::control::Control;
use crate::js::error::{misuse, throw};
use crate::js::loss;
use crate::js::panic::contain;
use crate::js::task::spawn;
use crate::read::index::{self, ComponentInfo, FileInfo, FlatIndex, NativeWarning};
use crate::read::opened::{Reader, Shared};
use crate::read::stage::Stage;
use crate::values::arguments::unsigned;
use crate::values::attributes::{self, AttributeOutline, FlatAttributes, OutlineRequest};
use ztensor_handover::{Flat, components, number};

/// An open file.
#[napi]
pub struct NativeFile {
    /// `None` once closed; running work retains its own reference until it stops.
    shared: RefCell<Option<Arc<Shared>>>,
    /// The references of aliases, in creation order.
    shares: RefCell<Vec<Arc<Share>>>,
    /// Whether JavaScript was notified of a loss.
    is_reported: Cell<bool>,
}

impl NativeFile {
    pub fn new(shared: Shared) -> Self {
        shared.handles.store(1, Ordering::Release);
        Self::of(Arc::new(shared))
    }

    /// Creates a handle that is already counted.
    pub fn of(shared: Arc<Shared>) -> Self {
        Self { shared: RefCell::new(Some(shared)), shares: RefCell::default(), is_reported: Cell::new(false) }
    }

    /// Takes the file out of this handle. Returns it if no other thread has it open.
    fn leave(&self) -> Option<Arc<Shared>> {
        let shared = self.shared.take()?;
        (shared.handles.fetch_sub(1, Ordering::AcqRel) == 1).then_some(shared)
    }

    /// Returns what another thread needs to read the file.
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
            self.is_reported.set(true);
        }
        throw(env, checked)
    }
}

impl Drop for NativeFile {
    /// Aliases may outlive a file that was never closed.
    fn drop(&mut self) {
        let Some(shared) = self.leave() else { return };
        if let Some(files) = &shared.files {
            loss::abandon(files, self.is_reported.get());
        }
        shared.end();
    }
}

#[napi]
impl NativeFile {
    /// The name of a format of the table, or `mixed`.
    #[napi(getter, catch_unwind)]
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

    /// The beginnings of the attributes, for a program that shows or looks up some of them.
    #[napi(catch_unwind)]
    #[allow(clippy::needless_pass_by_value)] // napi
    pub fn attribute_outline<'env>(
        &self,
        env: &'env Env,
        request: OutlineRequest,
    ) -> Result<AttributeOutline<'env>> {
        throw(env, attributes::outline(env, &self.shared(env)?.catalog.attributes, &request)?)
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
        index::hand_over(flat.unwrap_or_else(|| Flat::of(&shared.catalog)), env, &shared.catalog)
    }

    /// Flattens the index off this thread, for the next call of `index`: for a million tensors this takes 100 ms.
    #[napi(ts_return_type = "Promise<void>", catch_unwind)]
    pub fn prepare_index<'env>(&self, env: &'env Env, control: &Control) -> Result<Object<'env>> {
        let shared = self.shared(env)?;
        let job = move || {
            *shared.flat.lock().unwrap_or_else(PoisonError::into_inner) = Some(Flat::of(&shared.catalog));
            Ok(())
        };
        spawn(env, Lane::Short, control, job, |_, ()| Ok(()))
    }

    /// The ordinal of the tensor named `name`, or -1.
    #[napi(catch_unwind)]
    pub fn find(&self, env: &Env, name: String) -> Result<f64> {
        Ok(self.shared(env)?.catalog.find(&name).map_or(-1.0, |ordinal| number(ordinal as u64)))
    }

    /// The ordinals of the tensors with these names, which are joined with a zero character. None if a name does not exist.
    #[napi(catch_unwind)]
    pub fn find_all(&self, env: &Env, names: String) -> Result<Option<Uint32Array>> {
        let shared = self.shared(env)?;
        let find = |name| shared.catalog.find(name).and_then(|ordinal| u32::try_from(ordinal).ok());
        Ok(names.split('\0').map(find).collect::<Option<Vec<_>>>().map(Uint32Array::from))
    }

    /// Names similar to `name`, closest first.
    #[napi(catch_unwind)]
    pub fn similar(&self, env: &Env, name: String) -> Result<Vec<String>> {
        Ok(similar::to(&self.shared(env)?.catalog, &name).into_iter().map(str::to_owned).collect())
    }

    #[napi(catch_unwind)]
    pub fn components(&self, env: Env, ordinal: u32) -> Result<Vec<ComponentInfo>> {
        let shared = self.shared(&env)?;
        let tensor = throw(&env, shared.tensor(ordinal))?;
        // Nothing is fetched from a remote file to find out.
        let is_framed = |component: &Component| {
            let framed = |reading: Reading<'_>| {
                component
                    .blob()
                    .map_or(Ok(false), |blob| reading.frames_of(blob).map(|frames| frames.is_some()))
            };
            shared.files.is_some()
                && !shared.is_remote
                && component.is_whole_blob()
                && shared.reading(None, &Watch::default(), framed).unwrap_or_default()
        };
        let flat = throw(&env, contain(|| Ok(components(&shared.catalog, tensor, is_framed))))?;
        Ok(flat.into_iter().map(ComponentInfo::from).collect())
    }

    /// An ArrayBuffer over a range of the mapping of the file or of its local copy, or a string that states why there is none.
    #[napi(ts_return_type = "ArrayBuffer | 'runtime' | 'map-failed' | 'io' | 'remote'", catch_unwind)]
    pub fn alias<'env>(&self, env: &'env Env, file: u32, offset: f64, length: f64) -> Result<Unknown<'env>> {
        let range = unsigned(offset).zip(unsigned(length));
        let (offset, length) = range.ok_or_else(|| misuse("an alias without bounds"))?;
        let shared = self.shared(env)?;
        let files = shared.files.as_ref().ok_or_else(|| misuse("an alias of memory"))?;
        let Some(copy) = throw(env, files.copied(Span { file, offset, length }))? else {
            return if shared.is_remote { "remote" } else { "io" }.into_unknown(env);
        };
        let Some(mapping) = throw(env, copy.mapping())? else {
            return if copy.maps() { "map-failed" } else { "io" }.into_unknown(env);
        };
        match buffer::alias(env, mapping, offset, length)? {
            Some((array, share)) => {
                self.shares.borrow_mut().push(share);
                Ok(array)
            }
            None => "runtime".into_unknown(env),
        }
    }

    /// Detaches the aliases, given in creation order, and releases the mappings unless another thread has the file open.
    #[napi(catch_unwind)]
    pub fn close(&self, env: &Env, #[napi(ts_arg_type = "ArrayBuffer[]")] aliases: Vec<Unknown<'_>>) {
        buffer::close(env, &aliases, &self.shares.take());
        let Some(last) = self.leave() else { return };
        if let Some(files) = &last.files {
            loss::abandon(files, self.is_reported.get());
            files.close();
        }
        last.end();
    }

    /// The path of the first file that was truncated while it was mapped. Marks the loss as reported.
    #[napi(catch_unwind)]
    pub fn lost_file(&self) -> Option<String> {
        let shared = self.shared.borrow();
        let lost = shared.as_ref()?.files.as_ref()?.lost()?;
        self.is_reported.set(true);
        Some(lost.display().to_string())
    }

    /// Path and size of each file, by number. Empty for memory.
    #[napi(catch_unwind)]
    pub fn files(&self, env: &Env) -> Result<Vec<FileInfo>> {
        let shared = self.shared(env)?;
        let info = |(at, part): (usize, &Member)| FileInfo {
            path: part
                .path()
                .filter(|_| !shared.in_memory || at > 0)
                .map(|path| path.to_string_lossy().into_owned()),
            name: part.name().map(str::to_owned),
            byte_length: number(part.length()),
        };
        Ok(shared.files.iter().flat_map(Files::iter).enumerate().map(info).collect())
    }

    /// Whether reading waits for another machine, or for the caller's code.
    #[napi(getter, catch_unwind)]
    pub fn is_remote(&self, env: &Env) -> Result<bool> {
        Ok(self.shared(env)?.is_remote)
    }

    /// Whether a range of a file is available locally.
    #[napi(catch_unwind)]
    pub fn is_copied(&self, env: &Env, file: u32, offset: f64, length: f64) -> Result<bool> {
        let range = unsigned(offset).zip(unsigned(length));
        let (offset, length) = range.ok_or_else(|| misuse("a range without bounds"))?;
        let shared = self.shared(env)?;
        let Some(files) = &shared.files else { return Ok(true) };
        Ok(throw(env, files.copied(Span { file, offset, length }))?.is_some())
    }

    /// Whether all of a component is available locally.
    #[napi(catch_unwind)]
    pub fn is_near(&self, env: &Env, ordinal: u32, component: u32) -> Result<bool> {
        throw(env, self.shared(env)?.is_near(ordinal, Some(component)))
    }

    /// The URL of a remote file, without query and credentials.
    #[napi(getter, catch_unwind)]
    pub fn location(&self, env: &Env) -> Result<Option<String>> {
        Ok(self.shared(env)?.location.clone())
    }

    /// Reads the tensors' pages into memory.
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

    /// Allows the kernel to evict the tensors' pages.
    #[napi(catch_unwind)]
    pub fn evict(&self, env: &Env, ordinals: Uint32Array) -> Result<()> {
        let shared = self.shared(env)?;
        if let Some(files) = &shared.files {
            prefetch::evict(files, &shared.catalog, &ordinals);
        }
        Ok(())
    }
}
