//! Small files that the wrapper has in memory.

use std::path::Path;

use napi::bindgen_prelude::{Object, Uint8ArraySlice};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::error::{Code, Result as CoreResult};
use ztensor_core::sinks::Warning;
use ztensor_core::sinks::store::check_free;
use ztensor_core::sinks::whole::{has_bytes, write_whole as write_local};
use ztensor_core::work::Stop;
use ztensor_core::work::lanes::Lane;
use ztensor_remote::Options;

use crate::js::control::Control;
use crate::js::task::spawn_lasting;
use crate::read::remote::RemoteRequest;
use crate::write::writer::{WriteWarning, write_warnings};

/// Writes a file, or with `store` the object of a URL, which appears complete or not at all. Fails with `ZT_EXISTS` if it exists with other
/// bytes, unless it may be overwritten.
#[napi(ts_return_type = "Promise<WriteWarning[]>", catch_unwind)]
pub fn write_whole<'env>(
    env: &'env Env,
    location: String,
    bytes: Uint8ArraySlice<'_>,
    overwrite: bool,
    store: Option<RemoteRequest>,
    control: &Control,
) -> Result<Object<'env>> {
    let (bytes, stop) = (bytes.to_vec(), control.watch.stop.clone());
    let lane = if store.is_some() { Lane::Remote } else { Lane::Short };
    let job = move || match store {
        Some(store) => put(&location, &bytes, &store.options(), overwrite, &stop),
        None => write_local(Path::new(&location), &bytes, overwrite, &stop),
    };
    spawn_lasting(env, lane, control, job, |_, warnings| Ok::<Vec<WriteWarning>, _>(write_warnings(warnings)))
}

/// Bytes that are sent at once.
const PIECE: usize = 8 << 20;

/// Uploads an object.
fn put(url: &str, bytes: &[u8], options: &Options, overwrite: bool, stop: &Stop) -> CoreResult<Vec<Warning>> {
    let (uploads, path) = ztensor_remote::uploads(url, options, overwrite)?;
    let upload = || {
        check_free(&*uploads, &path, stop)?;
        let mut object = uploads.begin(&path, stop)?;
        object.expect(bytes.len() as u64);
        for piece in bytes.chunks(PIECE) {
            object.write(piece)?;
        }
        object.complete()
    };
    let outcome = upload();
    uploads.settle();
    match outcome {
        Err(error) if error.code() == Code::Exists => {
            let (filesystem, path) = ztensor_remote::filesystem(url, options, stop)?;
            let is_same = has_bytes(&*filesystem.open(&path, stop)?, bytes, stop)?;
            if is_same { Ok(Vec::new()) } else { Err(error) }
        }
        outcome => outcome.map(|()| Vec::new()),
    }
}
