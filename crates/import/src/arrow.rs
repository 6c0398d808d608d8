//! Arrow IPC (arrow.apache.org, Columnar Format): files with a footer, also known as Feather 2, and streams of messages, such as tensor
//! messages. Columns of numbers and of lists of one length are read as tensors.
#![forbid(unsafe_code)]

mod batch;
mod dtypes;
mod lists;
mod message;
mod schema;
mod sparse_tensor;
mod tensor;

use std::collections::HashSet;
use ztensor_core::arrange::Arrange;

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{Confidence, Format, Input, Probe, bad_magic};
use ztensor_core::model::{Builder, Catalog, Container};
use ztensor_core::work::Stop;

use crate::damage;
use crate::flatbuffer::Flat;
use crate::names::Names;
use batch::Columns;
use message::{CONTINUATION, Message, MessageType, Messages};
use schema::{Metadata, Schema};

const NAME: &str = "arrow";
const MISSING: &str = "no Arrow magic and no Arrow message";
const MAGIC: &[u8; 6] = b"ARROW1";
/// The magic of Feather 1, a different format.
const FEATHER: &[u8; 4] = b"FEA1";
/// Bytes after the footer: its length and the magic.
const TAIL: u64 = 10;
const FILE: &str = "Arrow Columnar Format: IPC File Format";

const STREAM: &str = "Arrow Columnar Format: IPC Streaming Format";
/// Bytes of a footer block.
const BLOCK: u64 = 24;
/// Bytes of a message read during detection; its schema may extend past them.
const DETECTION_BYTES: u64 = 4096;
/// Maximum padding between messages.
const PADDING: u64 = 64;

pub const FORMAT: Format = Format {
    name: NAME,
    title: "Arrow",
    endings: &["arrow", "feather"],
    missing: MISSING,
    detect,
    parse,
    writes: &[],
    header: None,
};

fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    let first = probe.first(8)?;
    if first.starts_with(MAGIC) || first.starts_with(FEATHER) {
        return Ok(Confidence::Certain);
    }
    let (prefix, length) = match first.first_chunk::<4>() {
        Some(&CONTINUATION) => (8_u64, first.get(4..).and_then(<[u8]>::first_chunk::<4>)),
        length => (4, length),
    };
    let length = length.and_then(|&length| u64::try_from(i32::from_le_bytes(length)).ok());
    let Some(length) = length.filter(|&length| length >= 16 && length.is_multiple_of(4)) else {
        return Ok(Confidence::No);
    };
    let from = usize::try_from(prefix).unwrap_or(usize::MAX);
    let bytes = probe.first(prefix + length.min(DETECTION_BYTES))?.get(from..).unwrap_or_default();
    let mut flat = Flat::of_bytes(bytes.to_vec(), prefix, Stop::never());
    let is_message = |flat: &mut Flat<'_>| -> Result<bool> {
        let table = flat.root()?;
        let known = (0..=4).contains(&flat.i16(table, 0)?) && matches!(flat.u8(table, 1)?, 1 | 4 | 5);
        Ok(known && flat.position(table, 2, 4)?.is_some() && flat.i64(table, 3)? >= 0)
    };
    Ok(if is_message(&mut flat).unwrap_or(false) { Confidence::Likely } else { Confidence::No })
}

fn parse(input: &Input<'_>) -> Result<Catalog> {
    let first = input.read_vec(0, input.length().min(8))?;
    if first.starts_with(FEATHER) {
        let message =
            "this is Feather 1, a different format: rewrite it with pyarrow.feather.write_feather(version=2)";
        return Err(Error::new(Code::UnsupportedVersion, message).at(0));
    }
    let mut reader = Reading {
        messages: Messages::new(input),
        builder: Builder::new(Container::named(NAME), input.limits),
        names: Names::default(),
        columns: None,
        attributes: Metadata::new(),
        tensors: 0,
        is_legacy: !first.starts_with(&CONTINUATION),
    };
    if first.starts_with(MAGIC) {
        reader.file().map_err(|error| error.rule(FILE))?;
    } else {
        reader.stream().map_err(|error| error.rule(STREAM))?;
    }
    reader.finish()
}

struct Reading<'i> {
    messages: Messages<'i>,
    builder: Builder,
    names: Names,
    columns: Option<Columns>,
    attributes: Metadata,
    /// Tensor messages read so far.
    tensors: u64,
    /// Messages have no continuation marker.
    is_legacy: bool,
}

/// A message, as described by the footer.
struct Block {
    at: u64,
    /// Bytes before its body.
    before: u64,
    body: u64,
}

impl Reading<'_> {
    fn file(&mut self) -> Result<()> {
        let total = self.messages.input.length();
        let start = total
            .checked_sub(TAIL)
            .filter(|&start| start >= 8)
            .ok_or_else(|| Error::new(Code::Truncated, "the file ends before its footer").at(total))?;
        let tail = self.messages.read(start, TAIL)?;
        if !tail.ends_with(MAGIC) {
            let message =
                "the file does not end with ARROW1: it is truncated, or its writer did not close it";
            return Err(Error::new(Code::Truncated, message).at(total));
        }
        let length = tail.first_chunk::<4>().map_or(0, |&length| i32::from_le_bytes(length));
        let length = u64::try_from(length)
            .ok()
            .filter(|&length| length > 0 && length <= start - 8)
            .ok_or_else(|| Error::new(Code::BadIndex, format!("the footer has {length} bytes")).at(start))?;
        let at = start - length;
        let mut flat = Flat::of_bytes(self.messages.read(at, length)?, at, self.messages.input.stop);
        let footer = flat.root()?;
        let version = flat.i16(footer, 0)?;
        if !(3..=4).contains(&version) {
            let message =
                format!("the metadata has version {}, supported are 4 and 5", i32::from(version) + 1);
            return Err(Error::new(Code::UnsupportedVersion, message).at(at));
        }
        let mut version = version.unsigned_abs() + 1;
        let Some(schema) = flat.table(footer, 1)? else {
            return Err(flat.error(Code::BadIndex, footer.at, "the footer has no schema"));
        };
        let mut schema = Schema::read(&mut flat, schema, &mut self.builder)?;
        let mut seen: HashSet<_> =
            schema.metadata.iter().filter_map(|(key, _)| key.as_text().map(str::to_owned)).collect();
        self.attributes.append(&mut schema.metadata);
        for (key, value) in schema::metadata(&mut flat, footer, 4, &mut self.builder)? {
            if key.as_text().is_some_and(|key| seen.insert(key.to_owned())) {
                self.attributes.push((key, value));
            }
        }
        let mut columns = Columns::new(schema);
        let blocks = blocks(&mut flat, footer, at)?;
        for block in &blocks {
            let message = self.messages.next(block.at, Some(block.before))?;
            let Some(mut message) = message.filter(|message| message.kind == MessageType::Batch) else {
                return Err(Error::new(Code::BadIndex, "the footer points to a message that is not a batch")
                    .at(block.at));
            };
            if message.body.length > block.body {
                let text = format!(
                    "a body of {} bytes does not match its block of {}",
                    message.body.length, block.body
                );
                return Err(Error::new(Code::BadIndex, text).at(block.at));
            }
            // pyarrow writes version 5 to the footer regardless of the version of the batches.
            version = message.version;
            columns.add(self.messages.input, &mut message, &mut self.builder)?;
        }
        self.builder.set_version(version.to_string());
        self.columns = Some(columns);
        Ok(())
    }

    fn stream(&mut self) -> Result<()> {
        let (mut at, total) = (0, self.messages.input.length());
        while at < total {
            let Some(mut message) = self.messages.next(at, None)? else {
                if total - at > PADDING {
                    let message = format!("{} bytes follow the end of the stream", total - at);
                    self.builder.warn("ZT_WARN_SKIPPED", message, None, None);
                }
                return Ok(());
            };
            self.message(&mut message)?;
            at = self.padded(message.body.end())?;
        }
        Ok(())
    }

    /// Returns the position of the next message, after zero padding to a multiple of 8 or 64 bytes. Before Arrow 0.15 a message may begin
    /// with a zero.
    fn padded(&mut self, at: u64) -> Result<u64> {
        let total = self.messages.input.length();
        if self.is_legacy {
            return Ok(at.next_multiple_of(8).min(total));
        }
        let next = at.next_multiple_of(PADDING).min(total);
        let between = self.messages.input.read_vec(at, next - at)?;
        let zeros = between.iter().take_while(|&&byte| byte == 0).count() as u64;
        Ok(at + zeros)
    }

    fn message(&mut self, message: &mut Message<'_>) -> Result<()> {
        if self.tensors == 0 && self.columns.is_none() {
            self.builder.set_version(message.version.to_string());
        }
        match message.kind {
            MessageType::Tensor | MessageType::Sparse => {
                let name =
                    if self.tensors == 0 { "tensor".to_owned() } else { format!("tensor.{}", self.tensors) };
                self.tensors += 1;
                let name = self.names.unique(&mut self.builder, &name);
                // Damage in one tensor does not extend past its message.
                let added = if message.kind == MessageType::Tensor {
                    tensor::add(message, &mut self.builder, &name)
                } else {
                    sparse_tensor::add(message, &mut self.builder, &name)
                };
                return damage::recover(&mut self.builder, &name, added).map(drop);
            }
            MessageType::Schema if self.columns.is_none() => {
                let mut schema = Schema::read(&mut message.flat, message.header, &mut self.builder)?;
                self.attributes.append(&mut schema.metadata);
                self.columns = Some(Columns::new(schema));
            }
            MessageType::Schema => {
                let text = "a second schema: a file has one table";
                return Err(Error::new(Code::BadIndex, text).at(message.at));
            }
            MessageType::Batch => match &mut self.columns {
                Some(columns) => columns.add(self.messages.input, message, &mut self.builder)?,
                None => return Err(Error::new(Code::BadIndex, "a batch without a schema").at(message.at)),
            },
            MessageType::Dictionary => {}
            MessageType::Other(kind) => {
                let text = format!("a message has the unknown type {kind}");
                self.builder.warn("ZT_WARN_SKIPPED", text, None, None);
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Catalog> {
        if self.columns.is_none() && self.tensors == 0 {
            return Err(bad_magic(MISSING));
        }
        if let Some(columns) = self.columns {
            self.builder.set_table();
            columns.finish(&mut self.builder, &mut self.names)?;
        }
        self.builder.set_attributes(self.attributes.into());
        Ok(self.builder.finish())
    }
}

/// Returns the batches. No two may share bytes, so that their total size never exceeds the file.
fn blocks(flat: &mut Flat<'_>, footer: crate::flatbuffer::Table, end: u64) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    for position in flat.positions(footer, 3, BLOCK)? {
        let bytes: [u8; 24] = flat.array(position)?;
        let word = |from: usize| {
            bytes.get(from..).and_then(<[u8]>::first_chunk::<8>).map_or(0, |&word| i64::from_le_bytes(word))
        };
        let before = i32::try_from(word(8) & 0xffff_ffff).unwrap_or(-1);
        let numbers =
            u64::try_from(word(0)).ok().zip(u64::try_from(before).ok()).zip(u64::try_from(word(16)).ok());
        let Some(((at, before), body)) = numbers else {
            return Err(flat.error(Code::BadIndex, position, "a batch has a negative offset"));
        };
        blocks.push(Block { at, before, body });
    }
    let mut sorted: Vec<_> =
        blocks.iter().map(|block| (block.at, block.before.saturating_add(block.body))).collect();
    sorted.arrange();
    let mut last = 8;
    for (at, length) in sorted {
        let next = at.checked_add(length).filter(|&next| at >= last && next <= end);
        last = next.ok_or_else(|| {
            let message =
                format!("a batch of {length} bytes at {at} shares bytes with another, or with the footer");
            Error::new(Code::BadIndex, message).at(at)
        })?;
    }
    Ok(blocks)
}
