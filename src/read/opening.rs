//! Opening files: by path, as a list, in memory.

use std::sync::{Arc, Mutex, PoisonError};

use napi::bindgen_prelude::{Object, Uint8ArraySlice};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::open::memory::InMemory;
use ztensor_core::sources::ReadAt;
use ztensor_core::sources::partial::Partial;
use ztensor_core::work::Stop;
use ztensor_core::work::lanes::Lane;

use crate::js::control::Control;
use crate::js::error::{misuse, throw};
use crate::js::panic::contain;
use crate::js::task::spawn;
use crate::read::file::NativeFile;
use crate::read::opened::{self, OpenRequest, Shared};
use crate::read::stage::{Stage, StageBuilder};
use crate::values::arguments::unsigned;

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
    let job = move || Shared::open(&path, &request, stop).map(Shared::prepared);
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
    let job = move || Shared::open_all(paths, &request, stop).map(Shared::prepared);
    spawn(env, Lane::Short, control, job, |_, shared| Ok(NativeFile::new(shared)))
}

/// The names of the files that an index, or a folder with one, refers to.
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

/// A file in memory whose index names other files, which the caller provides.
#[napi]
pub struct MemorySet {
    file: Arc<InMemory>,
}

#[napi]
impl MemorySet {
    /// Copies the bytes.
    #[napi(constructor, catch_unwind)]
    pub fn new(env: Env, bytes: Uint8ArraySlice<'_>, request: OpenRequest) -> Result<Self> {
        let file = throw(&env, contain(|| opened::in_memory(&bytes, &request)))?;
        Ok(Self { file: Arc::new(file) })
    }

    /// The names of the files that it refers to.
    #[napi(catch_unwind)]
    pub fn names(&self, env: Env, request: OpenRequest) -> Result<Vec<String>> {
        throw(&env, contain(|| opened::names_in_memory(&self.file, &request)))
    }

    #[napi(catch_unwind)]
    pub fn open_sync(&self, env: Env, request: OpenRequest) -> Result<NativeFile> {
        throw(&env, contain(|| Shared::open_in_memory(&self.file, &request, Stop::default())))
            .map(NativeFile::new)
    }

    #[napi(ts_return_type = "Promise<NativeFile>", catch_unwind)]
    pub fn open<'env>(
        &self,
        env: &'env Env,
        request: OpenRequest,
        control: &Control,
    ) -> Result<Object<'env>> {
        let (file, stop) = (Arc::clone(&self.file), control.watch.stop.clone());
        let job = move || Shared::open_in_memory(&file, &request, stop).map(Shared::prepared);
        spawn(env, Lane::Short, control, job, |_, shared| Ok(NativeFile::new(shared)))
    }
}

/// Opens a file in the caller's memory off the event loop, with copies of the parts that its index needs.
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

    /// Creates a stage for what the next attempt needs.
    #[napi(catch_unwind)]
    pub fn stage(&self, env: Env) -> Result<StageBuilder> {
        let partial = self.partial.lock().unwrap_or_else(PoisonError::into_inner);
        throw(&env, StageBuilder::new(partial.wanted(), partial.length()))
    }

    /// Reads the index with what was staged so far; null if more is needed.
    #[napi(ts_return_type = "Promise<NativeFile | null>", catch_unwind)]
    pub fn attempt<'env>(&self, env: &'env Env, stage: &Stage, control: &Control) -> Result<Object<'env>> {
        let (partial, request, part) = (Arc::clone(&self.partial), Arc::clone(&self.request), stage.share()?);
        let job = move || {
            let mut partial = partial.lock().unwrap_or_else(PoisonError::into_inner);
            partial.add(part);
            partial.attempt(|source| Shared::from_memory(source, &request).map(Shared::prepared))
        };
        spawn(env, Lane::Short, control, job, |_, shared| Ok(shared.map(NativeFile::new)))
    }
}
