//! Opens a file: its index, and what the wrapper reads of it at once.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::sync::Arc;

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{CORE, Formats};
#[cfg(not(feature = "write"))]
use ztensor_core::formats::{Format, WriteFormat};
use ztensor_core::limits::Limits;
use ztensor_core::model::{Warning, seed as names};
use ztensor_core::open::{Lookup, Opened, Request, open_all};
use ztensor_core::sources::files::Member;
use ztensor_core::sources::owned::Owned;
use ztensor_handover::Flat;
use ztensor_import::{COMPANIONS, IMPORT};

use crate::files::HostFiles;
use crate::message::Message;
use crate::reply::Reply;
use crate::state::{File, State};

#[cfg(feature = "write")]
pub const FORMATS: Formats =
    Formats::of(&[CORE, &[ztensor_gguf::FORMAT], IMPORT]).with_companions(COMPANIONS);
#[cfg(not(feature = "write"))]
pub const FORMATS: Formats = Formats::of(&[CORE, READ_GGUF, &READ_IMPORT]).with_companions(COMPANIONS);

// The same formats without their writers, which would be a tenth of the module.
// What remains of that of GGUF is how the files of a set are named.
#[cfg(not(feature = "write"))]
const READ_GGUF: &[Format] = &[Format {
    writes: &[&WriteFormat { shards: ztensor_gguf::FORMAT.writes[0].shards, ..WriteFormat::DENSE }],
    ..reading(&ztensor_gguf::FORMAT)
}];
#[cfg(not(feature = "write"))]
const READ_IMPORT: [Format; IMPORT.len()] = {
    let mut rows = [const { reading(&IMPORT[0]) }; IMPORT.len()];
    let mut at = 0;
    while at < rows.len() {
        rows[at] = reading(&IMPORT[at]);
        at += 1;
    }
    rows
};

#[cfg(not(feature = "write"))]
const fn reading(format: &Format) -> Format {
    Format { writes: &[], header: None, ..*format }
}

fn nothing() -> Owned {
    Owned::from(Vec::new())
}

/// The first call: two random numbers.
pub fn seed(_state: &mut State, message: &mut Message) -> Result<Owned> {
    crate::keep_panic();
    names::set([message.number()?.to_bits(), message.number()?.to_bits()]);
    Ok(nothing())
}

/// Adds the length of a file, negative if there is no such file.
pub fn tell(state: &mut State, message: &mut Message) -> Result<Owned> {
    let file = state.file(message)?;
    file.host.tell(&message.text()?, message.maybe()?);
    Ok(nothing())
}

/// Adds a folder with its names.
pub fn tell_folder(state: &mut State, message: &mut Message) -> Result<Owned> {
    let file = state.file(message)?;
    file.host.tell_folder(&message.text()?, message.texts()?);
    Ok(nothing())
}

/// Adds bytes of a file.
pub fn add(state: &mut State, message: &mut Message) -> Result<Owned> {
    let file = state.file(message)?;
    let (name, offset) = (message.text()?, message.whole()?);
    let known = file.host.file(&name).ok_or_else(|| Error::new(Code::Internal, "bytes of no file"))?;
    known.add(offset, message.take_rest()?);
    Ok(nothing())
}

/// Opens one file, or several as one. The reply describes it.
pub fn open(state: &mut State, message: &mut Message) -> Result<Owned> {
    let file = state.file(message)?;
    let roots = message.texts()?;
    let format = message.text()?;
    let default = Limits::default();
    let max_index_bytes = message.maybe()?;
    let max_decoded_bytes = message.whole()?;
    // A limit set by the caller permits using all of it.
    let max_repeated_bytes = if message.flag()? { max_decoded_bytes } else { default.max_repeated_bytes };
    let mut small = || message.maybe().map(|max| max.map(|max| u32::try_from(max).unwrap_or(u32::MAX)));
    let max_rank = small()?.unwrap_or(default.max_rank);
    let max_attribute_values = small()?.unwrap_or(default.max_attribute_values);
    file.limits =
        Limits { max_index_bytes, max_decoded_bytes, max_repeated_bytes, max_rank, max_attribute_values };
    let request = Request {
        formats: FORMATS.only(&format).unwrap_or(FORMATS),
        limits: file.limits,
        lookup: if message.flag()? { Lookup::Unread } else { Lookup::Siblings },
        filesystem: Arc::new(HostFiles(Arc::clone(&file.host))),
        ..Request::default()
    };
    let paths: Vec<PathBuf> = roots.iter().map(PathBuf::from).collect();
    let opened = open_all(&paths, &request)?;
    let mut reply = Reply::default();
    describe(&opened, &mut reply);
    file.opened = Some(opened);
    Ok(reply.into())
}

fn describe(Opened { catalog, files }: &Opened, reply: &mut Reply) {
    reply.text(catalog.container.name());
    reply.maybe_text(catalog.version.as_deref());
    reply.maybe_text(catalog.generator.as_deref());
    reply.whole(files.total_length());
    reply.count(catalog.len());
    reply.list(&catalog.warnings, warning);
    let members: Vec<&Member> = files.iter().collect();
    reply.list(members, |reply, member| {
        reply.maybe_text(member.path().map(|path| path.to_string_lossy()).as_deref());
        reply.maybe_text(member.name());
        reply.whole(member.length());
    });
}

fn warning(reply: &mut Reply, warning: &Warning) {
    reply.text(warning.code);
    reply.text(&warning.message);
    reply.maybe_text(warning.tensor.as_deref());
    reply.maybe_text(warning.component.as_deref());
    reply.maybe_text(warning.path.as_deref());
}

/// The index in flat arrays.
pub fn index(state: &mut State, message: &mut Message) -> Result<Owned> {
    let catalog = &state.file(message)?.opened()?.catalog;
    let flat = Flat::of(catalog);
    let mut reply = Reply::default();
    reply.text(catalog.names());
    reply.smalls(&flat.records);
    reply.numbers(flat.numbers.into_iter());
    reply.smalls(&flat.files);
    reply.smalls(&flat.shape_ends);
    reply.numbers(flat.shape_dims.into_iter());
    let labels: Vec<&str> = catalog.labels().iter().collect();
    reply.list(labels, Reply::text);
    Ok(reply.into())
}

pub fn close(state: &mut State, message: &mut Message) -> Result<Owned> {
    *state.file(message)? = File::default();
    Ok(nothing())
}

/// Drops the bytes and what was made of them at the end of a call.
pub fn forget(state: &mut State, message: &mut Message) -> Result<Owned> {
    let file = state.file(message)?;
    file.host.forget();
    file.deferred = None;
    file.hashing = None;
    Ok(nothing())
}
