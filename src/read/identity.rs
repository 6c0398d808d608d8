//! The content digest of a zTensor 2 file, which is independent of its layout, and a check for the canonical layout.

use napi::bindgen_prelude::Object;
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::codecs::digest::Algorithm;
use ztensor_core::error::{Code, Error as CoreError};
use ztensor_core::formats::WriteFormat;
use ztensor_core::verify::canonical;
use ztensor_core::work::lanes::Lane;

use crate::js::control::Control;
use crate::js::error::misuse;
use crate::js::task::spawn;
use crate::read::file::NativeFile;
use crate::read::stage::Stage;
use crate::read::verified::Verified;
use crate::values::arguments::format;

#[napi]
impl NativeFile {
    /// The content digest with `xxh3` or `sha256`.
    #[napi(ts_return_type = "Promise<string>", catch_unwind)]
    pub fn content_digest<'env>(
        &self,
        env: &'env Env,
        algorithm: String,
        control: &Control,
        stage: Option<&Stage>,
    ) -> Result<Object<'env>> {
        let algorithm = match algorithm.as_str() {
            "xxh3" => Algorithm::Xxh3,
            "sha256" => Algorithm::Sha256,
            _ => return Err(misuse("no such digest")),
        };
        let reader = self.reader(env, control, stage)?;
        // Only the index is read: entries of some 100 bytes.
        let lane = reader.shared.or_remote(Lane::of(reader.shared.catalog.len() as u64 * 256));
        let job = move || {
            reader.read(|reading| {
                let format = WriteFormat::of(reading.catalog);
                let Some(digest) = format.and_then(|format| format.content_digest) else {
                    let message = "only zTensor 2 defines a content digest";
                    return Err(CoreError::new(Code::UnsupportedVersion, message));
                };
                let source = reading.sources.source(0)?;
                let digest = digest(source, algorithm, reading.limits, &reading.watch.stop)?;
                Ok(digest.text().into_owned())
            })
        };
        spawn(env, lane, control, job, |_, digest| Ok(digest))
    }

    /// Rejects with `ZT_BAD_INDEX` if the file has bytes that neither its index nor its tensors account for, as far as the format defines it.
    #[napi(ts_return_type = "Promise<void>", catch_unwind)]
    pub fn check_packed<'env>(
        &self,
        env: &'env Env,
        write_format: String,
        control: &Control,
    ) -> Result<Object<'env>> {
        let (reader, check) = (self.reader(env, control, None)?, format(&write_format)?.check_packed);
        let lane = reader.shared.or_remote(Lane::of(reader.shared.catalog.len() as u64 * 256));
        let job = move || {
            reader.read(|reading| match check {
                Some(check) => check(reading.sources.source(0)?, reading.limits, &reading.watch.stop),
                None => Ok(()),
            })
        };
        spawn(env, lane, control, job, |_, ()| Ok(()))
    }

    /// Checks the rules of the canonical form. Digests are checked by `verify`.
    #[napi(ts_return_type = "Promise<Verified>", catch_unwind)]
    pub fn canonical<'env>(
        &self,
        env: &'env Env,
        control: &Control,
        stage: Option<&Stage>,
    ) -> Result<Object<'env>> {
        let reader = self.reader(env, control, stage)?;
        let lane = reader.shared.or_remote(Lane::of(reader.shared.length));
        let job = move || reader.read(canonical::check);
        spawn(env, lane, control, job, |_, outcome| Ok(Verified::from(outcome)))
    }
}
