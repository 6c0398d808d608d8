//! Editing of existing files.

use std::path::Path;

use napi::bindgen_prelude::{Object, Unknown};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::edit::metadata::{Editing, edit_metadata as edit_header};
use ztensor_core::formats::{HeaderChanges, Setting};
use ztensor_core::work::lanes::Lane;
use ztensor_core::write::compact::compact;
use ztensor_core::write::{Appending, Hashing, Writer};

use crate::js::control::Control;
use crate::js::error::misuse;
use crate::js::task::{spawn, spawn_lasting};
use crate::read::opened::OpenRequest;
use crate::values::arguments::{alignment, compression, digest};
use crate::values::formats::FORMATS;
use crate::values::input;
use crate::write::writer::{NativeWriter, WriteWarning, write_warnings};
use ztensor_handover::number;

/// Options for editing a file.
#[napi(object, object_to_js = false)]
pub struct AppendRequest {
    pub in_place: bool,
    pub alignment: Option<f64>,
    /// `default` for the default digest of the file's version; none by default.
    pub digest: Option<String>,
    pub level: Option<i32>,
    pub min_savings: f64,
    /// 0 if not set.
    pub frame: u32,
    pub limits: OpenRequest,
}

/// Creates a writer that starts from the file at `path`.
#[napi(ts_return_type = "Promise<NativeWriter>", catch_unwind)]
pub fn append_writer<'env>(
    env: &'env Env,
    path: String,
    request: AppendRequest,
    control: &Control,
) -> Result<Object<'env>> {
    let request = Appending {
        in_place: request.in_place,
        alignment: request.alignment.map(alignment).transpose()?,
        digest: match request.digest.as_deref() {
            Some("default") => Hashing::Default,
            name => digest(name)?.map_or(Hashing::Without, Hashing::With),
        },
        compression: compression(request.level, request.min_savings, request.frame),
        formats: FORMATS,
        limits: request.limits.limits(),
        stop: control.watch.stop.clone(),
    };
    let job = move || Writer::append(Path::new(&path), request);
    spawn(env, Lane::Short, control, job, |_, writer| Ok(NativeWriter::new(writer)))
}

/// The size of a compacted file.
#[napi(object, object_from_js = false)]
pub struct CompactedFile {
    pub before: f64,
    pub after: f64,
    pub warnings: Vec<WriteWarning>,
}

/// Rewrites a file without data that its index no longer refers to.
#[napi(ts_return_type = "Promise<CompactedFile>", catch_unwind)]
pub fn compact_file<'env>(
    env: &'env Env,
    path: String,
    limits: OpenRequest,
    control: &Control,
) -> Result<Object<'env>> {
    let (limits, watch) = (limits.limits(), control.watch.clone());
    let job = move || compact(Path::new(&path), FORMATS, &limits, &watch);
    spawn_lasting(env, Lane::Long, control, job, |_, done| {
        let warnings = write_warnings(done.warnings);
        Ok(CompactedFile { before: number(done.before), after: number(done.after), warnings })
    })
}

/// Changes to the metadata of a file and to the names of its tensors.
#[napi(object, object_to_js = false)]
pub struct MetadataRequest {
    pub in_place: bool,
    /// The keys to set, in the order of the map that is passed with this.
    pub types: Vec<SettingType>,
    pub remove: Vec<String>,
    /// Alternating old and new names of tensors.
    pub rename: Vec<String>,
    pub drop: Vec<String>,
    pub limits: OpenRequest,
}

/// The requested type of a value, and its text for a format that only has text.
#[napi(object, object_to_js = false)]
pub struct SettingType {
    pub kind: Option<String>,
    pub text: Option<String>,
}

/// The result of an edit of metadata.
#[napi(object, object_from_js = false)]
pub struct EditedFile {
    pub byte_length: f64,
    #[napi(ts_type = "'unchanged' | 'in-place' | 'inserted' | 'cloned' | 'copied'")]
    pub method: String,
    pub warnings: Vec<WriteWarning>,
}

/// Edits the metadata of the file at `path`: sets the keys of `set` and makes the changes of `request`.
#[napi(ts_return_type = "Promise<EditedFile>", catch_unwind)]
pub fn edit_metadata<'env>(
    env: &'env Env,
    path: String,
    set: Unknown<'_>,
    request: MetadataRequest,
    control: &Control,
) -> Result<Object<'env>> {
    let set = input::from_js_map(set)?.into_iter().zip(request.types);
    let set = set.map(|((key, value), SettingType { kind, text })| {
        let key = key.into_text().map_err(|_| misuse("a key that is not text"))?;
        Ok(Setting { key, value, kind, text })
    });
    let set = set.collect::<Result<_>>()?;
    let mut names = request.rename.into_iter();
    let rename = std::iter::from_fn(|| names.next().zip(names.next())).collect();
    let changes = HeaderChanges { set, remove: request.remove, rename, drop: request.drop };
    let how = Editing { in_place: request.in_place, formats: FORMATS, limits: request.limits.limits() };
    let watch = control.watch.clone();
    let job = move || edit_header(Path::new(&path), &changes, &how, &watch);
    spawn_lasting(env, Lane::Long, control, job, |_, done| {
        let warnings = write_warnings(done.warnings);
        let method = done.method.name().to_owned();
        Ok(EditedFile { byte_length: number(done.length), method, warnings })
    })
}

#[napi]
impl NativeWriter {
    /// The version that the file is written in.
    #[napi(getter, catch_unwind)]
    pub fn version(&self, env: &Env) -> Result<&'static str> {
        self.harmlessly(env, |writer| Ok(writer.format().id()))
    }

    #[napi(catch_unwind)]
    pub fn rename(&self, env: Env, name: String, to: String) -> Result<()> {
        self.harmlessly(&env, |writer| writer.rename(&name, &to))
    }

    #[napi(catch_unwind)]
    pub fn remove(&self, env: Env, name: String) -> Result<()> {
        self.harmlessly(&env, |writer| writer.remove(&name))
    }

    /// Sets attributes of a tensor, or of the file, and removes those with keys in `unset`.
    #[napi(catch_unwind)]
    pub fn change_attributes(
        &self,
        env: Env,
        name: Option<String>,
        set: Unknown<'_>,
        unset: Unknown<'_>,
    ) -> Result<()> {
        let changes = input::changes(set, unset)?;
        self.harmlessly(&env, |writer| writer.change_attributes(name.as_deref(), changes))
    }
}
