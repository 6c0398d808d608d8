//! Conversions: their plan, and the file that they write. An instance has one.
#![forbid(unsafe_code)]

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use ztensor_core::arrange::Arrange;

use ciborium::Value;
use ztensor_core::codecs::digest::Algorithm;
use ztensor_core::convert::{self, Casts, Conversion, Plan, PlanRequest, Selection};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::NeededFirst;
use ztensor_core::model::{DType, Span, Tensor};
use ztensor_core::read::Reading;
use ztensor_core::read::staging::stored_bytes;
use ztensor_core::sources::owned::Owned;
use ztensor_core::sources::siblings::Links;
use ztensor_core::work::Stop;
use ztensor_core::write::sparse::Arranged;
use ztensor_core::write::{Assembly, ByteStream, Compression, Finished, Settings, WriteFormat, Writer};
use ztensor_gguf::checkpoint::MetadataOverrides;
use ztensor_gguf::checkpoint::derived::{Selected, derive};
use ztensor_gguf::checkpoint::folder::Folder;
use ztensor_gguf::checkpoint::name::model_name;
use ztensor_gguf::quantization::{self, Quantization, Quantized};
use ztensor_handover::number;

use crate::files::HostFiles;
use crate::message::Message;
use crate::opening::FORMATS;
use crate::reply::Reply;
use crate::state::{File, State};
use crate::tensors::put_spans;
use crate::values::{changes, entries};

/// Errors returned at once.
const PAGE: usize = 1000;
/// Stored bytes of tensors that are copied at once, not counting the last one, and their number.
const BATCH: u64 = 4 << 20;
const MANY: usize = 10_000;
/// Minimum bytes of a tensor whose pieces are dropped after each read.
const LARGE: u64 = 32 << 20;

/// A conversion and its target.
#[derive(Default)]
pub struct Writing {
    conversion: Conversion,
    /// `None` before the target begins, and after an error that left it incomplete.
    pub writer: Option<Writer>,
    /// The rest of a sparse tensor of the host, while the host takes bytes.
    pub rest: Option<Arranged>,
    /// Refusals that were passed on, and those of tensors without their attributes that were.
    passed: [usize; 2],
    /// Bytes of the file that the host has not taken.
    blocks: Blocks,
}

/// Blocks of the file, in order.
type Blocks = Arc<Mutex<VecDeque<Vec<u8>>>>;

struct Collected(Blocks);

impl ByteStream for Collected {
    fn pass(&mut self, block: Vec<u8>) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(block);
        Ok(())
    }
}

impl Writing {
    /// Runs `work` on the writer; if it fails, the file is given up.
    fn with_writer<T>(
        &mut self,
        work: impl FnOnce(&mut Conversion, &mut Writer, Blocks) -> Result<T>,
    ) -> Result<T> {
        let writer = self.writer.as_mut().ok_or_else(gone)?;
        let done = work(&mut self.conversion, writer, Arc::clone(&self.blocks));
        if done.is_err() {
            self.writer = None;
        }
        done
    }
}

pub fn gone() -> Error {
    Error::new(Code::Closed, "the writer has ended; create another one")
}

pub fn nothing() -> Owned {
    Reply::default().into()
}

fn dtype(code: u64) -> Result<DType> {
    let code = u8::try_from(code).ok().and_then(DType::from_code);
    code.ok_or_else(|| Error::new(Code::Internal, "no such dtype code"))
}

fn format(id: &str) -> Result<&'static WriteFormat> {
    FORMATS.write_format(id).ok_or_else(|| Error::new(Code::Internal, "no such write format"))
}

/// Splits the state into the file with a number, what reads it, and the conversion.
fn parts<'s>(
    state: &'s mut State,
    message: &mut Message,
) -> Result<(&'s File, Reading<'s>, &'s mut Writing)> {
    let State { files, watch, writing } = state;
    let file = files.get(message.index()?).ok_or_else(|| Error::new(Code::Internal, "no such file"))?;
    Ok((file, file.reading(watch)?, writing))
}

/// Begins a conversion: which dtypes become which, the dtype that quantized tensors get, whether tensors keep attributes, and whether the
/// target has no names.
pub fn conversion(state: &mut State, message: &mut Message) -> Result<Owned> {
    let pairs = message.wholes()?;
    let pairs = pairs.as_chunks::<2>().0.iter().map(|&[from, to]| Ok((dtype(from)?, dtype(to)?)));
    let mut casts = Casts::new(pairs.collect::<Result<_>>()?)?;
    if let Some(code) = message.maybe()? {
        casts = casts.dequantizing(dtype(code)?)?;
    }
    if !message.flag()? {
        casts = casts.without_attributes();
    }
    let selection = if message.flag()? { Selection::numbered() } else { Selection::default() };
    let conversion =
        Conversion { casts: Arc::new(casts), selection: Arc::new(selection), ..Conversion::default() };
    state.writing = Writing { conversion, ..Writing::default() };
    Ok(nothing())
}

/// Adds tensors, and their new names, if they have some.
pub fn select(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (ordinals, names) = (message.smalls()?, message.texts()?);
    Arc::make_mut(&mut state.writing.conversion.selection).add(&ordinals, names);
    Ok(nothing())
}

/// Selects all tensors of a checkpoint as GGUF has them. The reply is empty if no `config.json` is next to the weights.
pub fn checkpoint(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (file, reading, writing) = parts(state, message)?;
    let (location, is_sure) = (message.text()?, message.flag()?);
    let given = MetadataOverrides::new(entries(message)?).of_model(model_name(&location));
    let filesystem = Arc::new(HostFiles(Arc::clone(&file.host)));
    let path = PathBuf::from(&location);
    let found = Folder::open(filesystem, path, &location, Links::Inside, is_sure, Stop::default())?;
    let folder = match found {
        Ok(folder) => folder,
        Err(lack) => {
            writing.conversion.lack = Some(lack.into());
            return Ok(nothing());
        }
    };
    if let Some(lacking) = reading.catalog.lacking() {
        let message = format!("a GGUF file of a model needs all of its tensors. {}", lacking.message);
        let error = Error::new(Code::Incomplete, message);
        return Err(error.hint("checkpoint", ". To copy the tensors that are open: checkpoint: false"));
    }
    let derived = derive(reading, &folder, &given)?;
    if file.host.is_missing() {
        // The call is made again with the bytes.
        return Ok(nothing());
    }
    let Selected { catalog, left_out, lost, warnings } = derived.select(&mut writing.conversion)?;
    let mut reply = Reply::default();
    reply.list(left_out, |reply, (tensor, reason)| {
        reply.text(&tensor);
        reply.text(reason);
    });
    reply.list(&lost, |reply, text| reply.text(text));
    reply.list(&warnings, |reply, text| reply.text(text));
    reply.list(0..catalog.len(), |reply, at| {
        reply.text(catalog.tensor(at).map_or("", |tensor| tensor.name()));
    });
    let code = |tensor: Tensor<'_>| tensor.dtype().map_or(u32::MAX, |dtype| dtype as u32);
    reply.smalls(&catalog.iter().map(code).collect::<Vec<_>>());
    reply.text(&folder.digest());
    Ok(reply.into())
}

/// A flag, and a text if it is set.
pub fn maybe_text(message: &mut Message) -> Result<Option<String>> {
    if message.flag()? { message.text().map(Some) } else { Ok(None) }
}

/// Plans each tensor.
pub fn plan_conversion(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (file, reading, Writing { conversion, .. }) = parts(state, message)?;
    let format = format(&message.text()?)?;
    let (canonical, strict, copies) = (message.flag()?, message.flag()?, message.flag()?);
    let (ordinals, from, to) = (message.smalls()?, message.smalls()?, message.smalls()?);
    let casts = ordinals.iter().zip(from).zip(to);
    let casts = casts.map(|((&ordinal, from), to)| Ok((ordinal, dtype(from.into())?, dtype(to.into())?)));
    let casts = casts.collect::<Result<_>>()?;
    let own = if message.flag()? { Some(entries(message)?.into()) } else { None };
    let (changes, is_any) = (changes(message)?, message.flag()?);
    let wanted = if message.flag()? {
        Some(Quantization::new(maybe_text(message)?, &message.texts()?, message.flag()?, None)?)
    } else {
        None
    };
    let lack = maybe_text(message)?;
    let request = PlanRequest { format, canonical, strict, copies, casts, own, changes, is_any, lack };
    let held = file.opened()?.files.total_length();
    let plan = conversion.plan(reading, FORMATS, held, request, |conversion, catalog, changes| {
        let choose = |wanted| {
            let casts = (Arc::make_mut(&mut conversion.casts), &*conversion.float32);
            quantization::choose(catalog, &wanted, changes, Arc::make_mut(&mut conversion.selection), casts)
        };
        wanted.map(choose).transpose()
    })?;
    let Plan { examined, left_out, quantized, is_copy, dequantizes, missing, stated_type } = plan;
    let mut reply = Reply::default();
    reply.count(conversion.selection.len());
    reply.whole(examined.bytes);
    reply.count(conversion.inspected.1.len());
    reply.whole(examined.inspected_bytes);
    reply.flag(examined.is_sized);
    reply.flag(conversion.attributes.is_none());
    reply.maybe(left_out, |reply, left_out| {
        reply.count(left_out.count);
        reply.list(&left_out.first, |reply, key| reply.text(key));
        reply.maybe(left_out.refused.as_ref(), Reply::error);
    });
    reply.list(&conversion.readers, |reply, reader| reply.text(reader));
    reply.smalls(&conversion.float32);
    reply.maybe(quantized, put_quantized);
    reply.flag(is_copy);
    reply.flag(dequantizes);
    reply.maybe_text(missing.as_deref());
    reply.maybe(stated_type, |reply, (key, number)| {
        let value = number.map(|number| Value::from(u64::from(number)));
        put_stated(reply, key, value.as_ref());
    });
    Ok(reply.into())
}

/// An attribute that states what is written: its text, or its number. Without either it is removed.
fn put_stated(reply: &mut Reply, key: &str, value: Option<&Value>) {
    reply.text(key);
    reply.maybe_text(value.and_then(Value::as_text));
    let whole = value.and_then(Value::as_integer).and_then(|value| u32::try_from(value).ok());
    reply.maybe_number(whole.map(f64::from));
}

fn put_quantized(reply: &mut Reply, quantized: Quantized) {
    let Quantized { stated, types, fallbacks, unweighted, ordinals } = quantized;
    reply.list(&stated, |reply, (key, value)| put_stated(reply, key, Some(value)));
    reply.list(types, |reply, (kind, tensors)| {
        reply.text(kind);
        reply.number(tensors.into());
    });
    reply.list(fallbacks, |reply, (tensor, wanted, kind)| {
        reply.text(&tensor);
        reply.text(wanted);
        reply.text(kind);
    });
    reply.list(&unweighted, |reply, name| reply.text(name));
    reply.smalls(&ordinals);
}

/// What cannot be held, page by page: in tensor order, and finally the file's own attributes if requested. Or the tensors that are written
/// without their attributes.
pub fn refusals(state: &mut State, message: &mut Message) -> Result<Owned> {
    let Writing { conversion, passed, .. } = &mut state.writing;
    let (attributes, is_bare) = (message.flag()?, message.flag()?);
    if passed[0] == 0 {
        conversion.refused.arrange_by_key(|&(position, _)| position);
    }
    let errors = if is_bare { &conversion.without_attributes } else { &conversion.refused };
    let all = errors.iter().map(|(_, error)| error);
    let all = all.chain(conversion.attributes.iter().filter(|_| attributes && !is_bare));
    let passed = &mut passed[usize::from(is_bare)];
    let page: Vec<&Error> = all.skip(*passed).take(PAGE).collect();
    *passed += page.len();
    let mut reply = Reply::default();
    reply.list(page, Reply::error);
    Ok(reply.into())
}

/// The settings of a file.
pub fn settings(message: &mut Message) -> Result<Settings> {
    let (format, alignment) = (format(&message.text()?)?, message.whole()?);
    let digest = maybe_text(message)?;
    let digest = digest
        .map(|name| Algorithm::from_name(&name).ok_or_else(|| Error::new(Code::Internal, "no such digest")));
    let level = message.maybe()?.and_then(|level| i32::try_from(level).ok());
    let (min_savings, frame) = (message.number()?, message.small()?);
    let compression = level.map(|level| Compression { level, min_savings, threads: 1, frame });
    Ok(Settings {
        format,
        alignment,
        digest: digest.transpose()?,
        compression,
        canonical: message.flag()?,
        max_shard: message.maybe()?,
        overwrite: false,
        attributes: entries(message)?.into(),
        generator: maybe_text(message)?,
        stop: Stop::default(),
    })
}

/// Creates the writer of the target. The message says whether the sizes of all tensors are known before their data; the reply is whether the
/// host keeps the data until `finish` says how to put the file together.
pub fn writer(state: &mut State, message: &mut Message) -> Result<Owned> {
    let settings = settings(message)?;
    let is_sized = message.flag()?;
    let is_kept = match settings.format.needs_first() {
        NeededFirst::Nothing => false,
        NeededFirst::Sizes => !is_sized,
        NeededFirst::Data => true,
    };
    let writer = if is_kept { Writer::kept(settings)? } else { Writer::taken(settings)? };
    state.writing.writer = Some(writer);
    let mut reply = Reply::default();
    reply.flag(is_kept);
    Ok(reply.into())
}

/// Gives up the file.
#[allow(clippy::unnecessary_wraps)] // as all operations
pub fn abort(state: &mut State, _message: &mut Message) -> Result<Owned> {
    state.writing.writer = None;
    state.writing.rest = None;
    state.writing.blocks = Blocks::default();
    Ok(nothing())
}

/// Hands over the attributes and, unless only they are asked for, the tensors.
pub fn begin(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (file, reading, writing) = parts(state, message)?;
    let catalog = &file.opened()?.catalog;
    let changes = if message.flag()? { Some(changes(message)?) } else { None };
    let tensors = message.flag()?;
    let outlines = message.flag()?;
    writing.with_writer(|conversion, writer, _| {
        if let Some(changes) = changes {
            writer.take_attributes(&conversion.attributes_of(catalog), changes)?;
        }
        if !tensors {
            return Ok(nothing());
        }
        let begun = conversion.begin(reading, writer, None)?;
        let mut reply = Reply::default();
        reply.count(begun.tensors);
        reply.whole(begun.stored);
        reply.list(&begun.readers, |reply, reader| reply.text(reader));
        reply.flag(outlines);
        if outlines {
            put_outlines(&mut reply, conversion, reading, writer)?;
        }
        Ok(reply.into())
    })
}

/// The tensors as they will be written.
fn put_outlines(
    reply: &mut Reply,
    conversion: &Conversion,
    reading: Reading<'_>,
    writer: &Writer,
) -> Result<()> {
    let Conversion { selection, casts, derived, .. } = conversion;
    let reading = convert::derived(derived.as_deref(), reading);
    let mut division = writer.division();
    reply.count(selection.len());
    for (at, tensor) in selection.tensors(reading.catalog) {
        let outline = convert::outline(reading, tensor, casts)?;
        let name = selection.name(at, tensor);
        reply.text(&name);
        reply.numbers(tensor.shape().iter().map(|&dim| number(dim)));
        reply.text(outline.layout);
        reply.maybe_number(outline.dtype.map(|dtype| f64::from(dtype as u8)));
        reply.whole(outline.byte_length());
        reply.number(division.next(&name, &outline.lengths).into());
    }
    Ok(())
}

/// Tensors that are copied or inspected together, from a position on: the position after the last, their stored bytes, and their ranges.
pub fn next_written(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (_, reading, Writing { conversion, .. }) = parts(state, message)?;
    let (inspected, from) = (message.flag()?, message.index()?);
    let Conversion { selection, derived, inspected: checked, .. } = &*conversion;
    let reading = convert::derived(derived.as_deref(), reading);
    let ordinals = if inspected { &checked.1 } else { selection.ordinals() };
    let (mut end, mut bytes) = (from, 0_u64);
    let mut spans: HashSet<(u32, u64, u64)> = HashSet::new();
    for &ordinal in ordinals.iter().skip(from).take(MANY) {
        end += 1;
        let Some(tensor) = reading.catalog.tensor(ordinal as usize) else { continue };
        spans.extend(tensor.spans().map(|span| (span.file, span.offset, span.length)));
        bytes = bytes.saturating_add(stored_bytes(tensor));
        if bytes >= BATCH {
            break;
        }
    }
    let spans = spans.into_iter().map(|(file, offset, length)| Span { file, offset, length }).collect();
    let mut reply = Reply::default();
    reply.count(end);
    reply.whole(bytes);
    put_spans(&mut reply, Span::joined(spans));
    Ok(reply.into())
}

/// Finds the tensors, in a range of the positions of those whose data must be checked, that cannot be held.
pub fn inspect(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (file, reading, writing) = parts(state, message)?;
    let (from, end) = (message.index()?, message.index()?);
    let found = writing.with_writer(|conversion, writer, _| {
        let reading = convert::derived(conversion.derived.as_deref(), reading);
        let ordinals = conversion.inspected.1.get(from..end).unwrap_or_default();
        convert::unsupported(reading, ordinals, &conversion.casts, writer)
    });
    if file.host.is_missing() {
        return Err(unannounced());
    }
    let Conversion { inspected, refused, .. } = &mut writing.conversion;
    let placed = found?.into_iter().filter_map(|(at, error)| Some((*inspected.0.get(from + at)?, error)));
    refused.extend(placed);
    Ok(nothing())
}

fn unannounced() -> Error {
    Error::new(Code::Internal, "a tensor needs bytes that its index does not name")
}

/// Returns whether a large tensor is read once, from its first byte to its last.
fn is_read_in_order(tensor: Tensor<'_>) -> bool {
    let [part] = tensor.components() else { return false };
    part.is_raw_blob() && part.plain_range().is_some_and(|(_, length)| length >= LARGE)
}

/// Copies the tensors in a range of positions, whose bytes are there. The host then takes the blocks of the file.
pub fn copy(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (file, reading, writing) = parts(state, message)?;
    let (from, end) = (message.index()?, message.index()?);
    let copied = writing.with_writer(|conversion, writer, blocks| {
        let Conversion { selection, casts, derived, .. } = &*conversion;
        let reading = convert::derived(derived.as_deref(), reading);
        let mut tensors = (from..end).filter_map(|at| selection.tensor(reading.catalog, at));
        if let (Some(tensor), None) = (tensors.next(), tensors.next())
            && is_read_in_order(tensor)
        {
            file.host.drain();
        }
        writer.passing(Box::new(Collected(blocks)), |writer| {
            convert::copy_range(reading, selection, casts, from..end, writer)
        })
    });
    // What was written cannot be written again.
    if file.host.is_missing() {
        drop(file.host.missing());
        return Err(copied.err().filter(|error| error.code() != Code::Io).unwrap_or_else(unannounced));
    }
    copied.map(|()| nothing())
}

/// The next block of the file; empty if there is none.
#[allow(clippy::unnecessary_wraps)] // as all operations
pub fn block(state: &mut State, _message: &mut Message) -> Result<Owned> {
    let next = state.writing.blocks.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    Ok(next.map_or_else(nothing, Owned::from))
}

/// Ends the file. The rest of its bytes are blocks. The reply is how the host puts the file together if it keeps its data.
pub fn finish(state: &mut State, _message: &mut Message) -> Result<Owned> {
    let Writing { writer, blocks, .. } = &mut state.writing;
    let writer = writer.take().ok_or_else(gone)?;
    let Finished { rest, assembly, .. } = writer.finish()?;
    if !rest.is_empty() {
        blocks.lock().unwrap_or_else(PoisonError::into_inner).push_back(rest);
    }
    let mut reply = Reply::default();
    reply.maybe(assembly, put_assembly);
    Ok(reply.into())
}

/// How the host puts a file together: bytes, and of each blob the end of the bytes before it, its offset and its length.
pub fn put_assembly(reply: &mut Reply, Assembly { bytes, blobs }: Assembly) {
    reply.bytes(&bytes);
    reply.list(blobs, |reply, blob| blob.into_iter().for_each(|number| reply.whole(number)));
}
