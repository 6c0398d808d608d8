//! Sharing an open file between threads of this process: each has its own handle, and all use one index and one mapping.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use napi::bindgen_prelude::Unknown;
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::error::Result as CoreResult;
use ztensor_core::sources::file::FileSource;

use crate::js::buffer;
use crate::js::error::{misuse, throw};
use crate::read::file::NativeFile;
use crate::read::opened::Shared;

/// Shared files, by ticket. They are held by weak references.
fn shared() -> MutexGuard<'static, HashMap<u32, Weak<Shared>>> {
    static SHARED: OnceLock<Mutex<HashMap<u32, Weak<Shared>>>> = OnceLock::new();
    SHARED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Identifies this process, because a ticket may come from another one.
fn process() -> String {
    static PROCESS: OnceLock<String> = OnceLock::new();
    PROCESS.get_or_init(|| format!("{}-{:016x}", std::process::id(), RandomState::new().hash_one(0))).clone()
}

/// Identifies a file for another thread.
#[napi(object, object_from_js = false)]
pub struct Ticket {
    pub process: String,
    pub number: u32,
    /// The identity of each file when its index was read.
    pub identity: String,
}

#[napi]
impl NativeFile {
    /// Makes this file available to other threads.
    #[napi(catch_unwind)]
    pub fn share(&self, env: &Env) -> Result<Ticket> {
        let file = self.shared(env)?;
        let identity = throw(env, identity(&file))?;
        let identity = identity.ok_or_else(|| misuse("a share of memory"))?;
        let mut files = shared();
        files.retain(|_, file| file.strong_count() > 0);
        let known =
            files.iter().find(|(_, other)| other.as_ptr() == Arc::as_ptr(&file)).map(|(&number, _)| number);
        let number = known.unwrap_or_else(|| {
            static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            files.insert(number, Arc::downgrade(&file));
            number
        });
        Ok(Ticket { process: process(), number, identity })
    }

    /// A SharedArrayBuffer over the mapping of each file, by number; null if one of them has none.
    #[napi(ts_return_type = "SharedArrayBuffer[] | null", catch_unwind)]
    pub fn share_memory<'env>(&self, env: &'env Env) -> Result<Option<Vec<Unknown<'env>>>> {
        let shared = self.shared(env)?;
        let files = shared.files.as_ref().ok_or_else(|| misuse("a share of memory"))?;
        let mut buffers = Vec::with_capacity(files.len());
        for number in (0..).take(files.len()) {
            let mapping = throw(
                env,
                files.local(number).and_then(|local| local.map_or(Ok(None), FileSource::mapping)),
            )?;
            let Some(buffer) = mapping.and_then(|mapping| buffer::common(env, mapping)) else {
                return Ok(None);
            };
            buffers.push(buffer);
        }
        Ok(Some(buffers))
    }

    /// The identity of the file, for comparison with that of a ticket.
    #[napi(catch_unwind)]
    pub fn identity(&self, env: &Env) -> Result<Option<String>> {
        throw(env, identity(&*self.shared(env)?))
    }
}

fn identity(file: &Shared) -> CoreResult<Option<String>> {
    let Some(files) = &file.files else { return Ok(None) };
    Ok(Some(files.identities()?.join(",")))
}

/// The file of a ticket, if it belongs to this process and is still open in any thread.
#[napi(catch_unwind)]
pub fn open_shared(process_name: String, number: u32) -> Option<NativeFile> {
    if process_name != process() {
        return None;
    }
    let file = shared().get(&number)?.upgrade()?;
    // The last handle may be closing at this moment; then the mapping is gone, and the file is opened again.
    let open = |handles| if handles > 0 { Some(handles + 1) } else { None };
    file.handles.fetch_update(Ordering::AcqRel, Ordering::Acquire, open).ok()?;
    Some(NativeFile::of(file))
}
