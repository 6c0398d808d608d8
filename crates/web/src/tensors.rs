//! What the index says of tensors. Reads no data.
#![forbid(unsafe_code)]

use ztensor_core::codecs::digest::Digest;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::model::{Attributes, Component, DType, Span, similar};
use ztensor_core::read::plan::{self as plans, Placement, Rank, Rule};
use ztensor_core::read::staging::stored_bytes as stored;
use ztensor_core::read::take::{self, Form};
use ztensor_core::read::total::{self, Work};
use ztensor_core::sources::owned::Owned;
use ztensor_core::verify;
use ztensor_handover::{Extent, FlatAttributes, FlatComponent, number};

use crate::kernels;
use crate::message::Message;
use crate::reply::Reply;
use crate::state::{File, State};

/// Stored bytes of tensors that are processed together, not counting the last one, and their number.
const BATCH: u64 = 16 << 20;
const MANY: usize = 10_000;

pub fn components(state: &mut State, message: &mut Message) -> Result<Owned> {
    let file = state.file(message)?;
    let tensor = file.tensor(message.index()?)?;
    // Nothing is fetched to find out whether frames can be decoded independently.
    let all = ztensor_handover::components(&file.opened()?.catalog, tensor, |_| false);
    let mut reply = Reply::default();
    reply.list(all, |reply, component: FlatComponent<'_>| {
        reply.text(component.role);
        reply.number(component.file.into());
        reply.maybe_number(component.dtype.map(f64::from));
        reply.maybe_number(component.byte_length);
        reply.number(component.stored_length);
        reply.maybe_number(component.offset);
        reply.text(&component.encoding);
        reply.maybe_text(component.digest.as_deref());
        reply.maybe_number(component.plain_offset);
        reply.maybe_text(component.copy_reason);
        reply.flag(component.is_sliceable);
        reply.flag(component.is_framed);
        reply.flag(component.is_strict);
        reply.flag(component.is_own);
    });
    Ok(reply.into())
}

fn flat(reply: &mut Reply, attributes: FlatAttributes) {
    reply.numbers(attributes.tape.into_iter());
    reply.list(&attributes.texts, |reply, text| reply.text(text));
    reply.bytes(&attributes.bytes);
    reply.list(attributes.bigints, |reply, bigint| {
        reply.flag(bigint.is_negative);
        let bytes: Vec<u8> = bigint.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        reply.bytes(&bytes);
    });
}

/// The attributes of a tensor, or those of the file.
pub fn attributes(state: &mut State, message: &mut Message) -> Result<Owned> {
    let file = state.file(message)?;
    let attributes = match message.maybe()? {
        Some(ordinal) => file.tensor(usize::try_from(ordinal).unwrap_or(usize::MAX))?.attributes(),
        None => Some(&file.opened()?.catalog.attributes),
    };
    let mut reply = Reply::default();
    flat(&mut reply, FlatAttributes::of(attributes)?);
    Ok(reply.into())
}

pub fn outline(state: &mut State, message: &mut Message) -> Result<Owned> {
    let file = state.file(message)?;
    let attributes: &Attributes = &file.opened()?.catalog.attributes;
    let extent = Extent { keys: message.small()?, items: message.small()?, units: message.small()? };
    let (attributes, keys) = FlatAttributes::outline(attributes, extent)?;
    let mut reply = Reply::default();
    reply.whole(keys);
    flat(&mut reply, attributes);
    Ok(reply.into())
}

/// The ordinal of a name, or -1.
pub fn find(state: &mut State, message: &mut Message) -> Result<Owned> {
    let catalog = &state.file(message)?.opened()?.catalog;
    let mut reply = Reply::default();
    reply.number(catalog.find(&message.text()?).map_or(-1.0, |ordinal| number(ordinal as u64)));
    Ok(reply.into())
}

/// The ordinals of names that are joined with a zero character. None if a name does not exist.
pub fn find_all(state: &mut State, message: &mut Message) -> Result<Owned> {
    let catalog = &state.file(message)?.opened()?.catalog;
    let names = message.text()?;
    let find = |name| catalog.find(name).and_then(|ordinal| u32::try_from(ordinal).ok());
    let mut reply = Reply::default();
    reply.maybe(names.split('\0').map(find).collect::<Option<Vec<_>>>(), |reply, all| reply.smalls(&all));
    Ok(reply.into())
}

pub fn similar(state: &mut State, message: &mut Message) -> Result<Owned> {
    let catalog = &state.file(message)?.opened()?.catalog;
    let mut reply = Reply::default();
    reply.list(similar::to(catalog, &message.text()?), Reply::text);
    Ok(reply.into())
}

/// The range of a component, or of a slice of it, that the host can read by itself: its bytes are the elements, and follow no rule but a
/// digest. The reply says whether there is a digest to check; it is empty if the component must be decoded.
pub fn direct(state: &mut State, message: &mut Message) -> Result<Owned> {
    let file = state.file(message)?;
    let (tensor, component) = file.part(message.index()?, message.index()?)?;
    let bits = component.dtype.map_or(8, DType::bits);
    let ranges = message.maybe_numbers()?;
    let slice = ranges.map(|ranges| kernels::slice(tensor.shape(), &ranges, bits)).transpose()?;
    let is_hashed = slice.is_none() && component.digest().and_then(Digest::hasher).is_some();
    let number = component.file();
    let is_whole = |&(offset, length): &(u64, u64)| {
        component.blob().is_some_and(|blob| (blob.offset, blob.stored) == (offset, length))
    };
    let plain = component.plain_range().filter(|_| component.rule.is_none()).filter(is_whole);
    let range = match (plain, slice) {
        (Some((offset, length)), Some(slice)) => {
            let part = slice.contiguous().filter(|&(start, bytes)| start.saturating_add(bytes) <= length);
            part.map(|(start, bytes)| (offset + start, bytes))
        }
        (plain, _) => plain,
    };
    let mut reply = Reply::default();
    if let Some((offset, length)) = range {
        for value in [u64::from(number), offset, length] {
            reply.whole(value);
        }
        reply.flag(is_hashed);
    }
    Ok(reply.into())
}

pub fn put_spans(reply: &mut Reply, spans: Vec<Span>) {
    reply.list(spans, |reply, span| {
        reply.number(span.file.into());
        reply.whole(span.offset);
        reply.whole(span.length);
    });
}

/// The ranges that reading a tensor, one of its components, or some of its rows needs.
pub fn spans(state: &mut State, message: &mut Message) -> Result<Owned> {
    let file = state.file(message)?;
    let ordinal = message.index()?;
    let tensor = file.tensor(ordinal)?;
    let component = message.maybe()?.and_then(|component| usize::try_from(component).ok());
    let part = component.map(|component| file.part(ordinal, component)).transpose()?;
    let (widen, axis) = (message.flag()?, message.maybe()?);
    let indices = message.wholes()?;
    let rows = match axis.and_then(|axis| usize::try_from(axis).ok()) {
        Some(axis) => take::ranges(tensor, form(part.map(|(_, part)| part), widen)?, axis, &indices),
        None => None,
    };
    let spans = match (rows, part) {
        (Some(rows), _) => {
            rows.into_iter().map(|(offset, length)| Span { file: 0, offset, length }).collect()
        }
        (None, Some((_, part))) => Span::joined(part.spans().collect()),
        (None, None) => Span::joined(tensor.spans().collect()),
    };
    let mut reply = Reply::default();
    put_spans(&mut reply, spans);
    Ok(reply.into())
}

/// The form in which elements are taken: without a component those of a quantized tensor.
pub fn form(component: Option<&Component>, widen: bool) -> Result<Form<'_>> {
    let Some(component) = component else { return Ok(Form::Dequantized) };
    if !widen {
        return Ok(Form::Stored(component));
    }
    let unknown = || Error::new(Code::BadDtype, "the element type is unknown");
    Ok(Form::Widened(component, component.dtype.ok_or_else(unknown)?))
}

/// Tensors that are processed together, from a position on: the position after the last of them, their stored bytes and their ranges.
pub fn next(state: &mut State, message: &mut Message) -> Result<Owned> {
    let file = state.file(message)?;
    let (ordinals, from) = (message.smalls()?, message.index()?);
    let (mut end, mut bytes, mut spans) = (from, 0_u64, Vec::new());
    for &ordinal in ordinals.iter().skip(from).take(MANY) {
        end += 1;
        let tensor = file.tensor(ordinal as usize)?;
        spans.extend(tensor.spans());
        bytes = bytes.saturating_add(stored(tensor));
        if bytes >= BATCH {
            break;
        }
    }
    let mut reply = Reply::default();
    reply.count(end);
    reply.whole(bytes);
    put_spans(&mut reply, Span::joined(spans));
    Ok(reply.into())
}

/// Rejects work on tensors whose total size far exceeds that of the file.
pub fn check_total(state: &mut State, message: &mut Message) -> Result<Owned> {
    let file = state.file(message)?;
    let ordinals = message.smalls()?;
    let work = match &*message.text()? {
        "load" => Work::Load,
        "copy" => Work::Copy,
        "verify" => Work::Verify,
        _ => return Err(Error::new(Code::Internal, "an unknown kind of work")),
    };
    let opened = file.opened()?;
    total::check(&opened.catalog, &file.limits, &ordinals, opened.files.total_length(), work)?;
    Ok(Reply::default().into())
}

pub fn stored_bytes(state: &mut State, message: &mut Message) -> Result<Owned> {
    let file: &File = state.file(message)?;
    let mut all = 0_u64;
    for ordinal in message.smalls()? {
        all = all.saturating_add(stored(file.tensor(ordinal as usize)?));
    }
    let mut reply = Reply::default();
    reply.whole(all);
    Ok(reply.into())
}

fn placement(code: f64) -> Placement {
    match code {
        ..-2.5 => Placement::Row,
        ..-1.5 => Placement::Column,
        ..0.0 => Placement::Replicate,
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // not negative
        dim => Placement::Dim(dim as usize),
    }
}

pub fn plan(state: &mut State, message: &mut Message) -> Result<Owned> {
    let catalog = &state.file(message)?.opened()?.catalog;
    let (patterns, placements) = (message.texts()?, message.numbers()?);
    let placed = patterns.iter().zip(placements);
    let rules: Vec<_> = placed.map(|(pattern, code)| Rule::new(pattern, placement(code))).collect();
    let rank = Rank { rank: message.whole()?, world_size: message.whole()? };
    let plan = plans::plan(catalog, &rules, rank)?;
    let mut reply = Reply::default();
    let dim = |dim: Option<usize>| dim.map_or(-1.0, |dim| number(dim as u64));
    reply.numbers(plan.dims.into_iter().map(dim));
    put_spans(&mut reply, plan.spans);
    Ok(reply.into())
}

/// The damage of tensors, and perhaps of the file, that was found in the index.
pub fn damage(state: &mut State, message: &mut Message) -> Result<Owned> {
    let catalog = &state.file(message)?.opened()?.catalog;
    let (ordinals, whole) = (message.smalls()?, message.flag()?);
    Ok(verified(&verify::damage(catalog, &ordinals, whole)).into())
}

pub fn verified(outcome: &verify::Outcome) -> Reply {
    let mut reply = Reply::default();
    for count in [outcome.checked, outcome.undigested, outcome.failed] {
        reply.whole(count);
    }
    reply.list(&outcome.failures, Reply::error);
    reply
}
