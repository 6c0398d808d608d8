//! The header of a file: metadata, then tensor infos.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::Arc;
use ztensor_core::arrange::Arrange;

use ztensor_core::checked::{bytes_of, end_within, exact, product};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{Input, bad_magic};
use ztensor_core::layouts;
use ztensor_core::limits::Limits;
use ztensor_core::model::{
    Attributes, Builder, ByteOrder, Component, Container, DType, Label, Layout, NewTensor,
};
use ztensor_core::sources::ReadAt;
use ztensor_core::work::Stop;

use super::metadata::Metadata;
use super::value_types::{Blocks, Type};
use super::window::{Spelling, Window};

pub const NAME: &str = "gguf";
pub const MAGIC: &[u8; 4] = b"GGUF";
pub const HEADER: &str = "GGUF: header";
pub const INFOS: &str = "GGUF: tensor infos";
/// Alignment of tensor data if `general.alignment` is missing.
pub const ALIGNMENT: u64 = 32;
pub const ALIGNMENT_KEY: &str = "general.alignment";
/// The maximum length of a key in bytes, in the specification.
pub const MAX_KEY: usize = (1 << 16) - 1;
/// The maximum length of a tensor's name in bytes (`GGML_MAX_NAME` without its final zero).
pub const MAX_NAME: usize = 63;

/// Everything before the tensor data of one file.
pub struct Header {
    pub version: u32,
    pub big_endian: bool,
    pub metadata: Arc<Metadata>,
    pub infos: Vec<Info>,
    /// Where the tensor infos end.
    pub end: usize,
    pub alignment: u64,
    /// Where the tensor data begins.
    pub data: u64,
    /// Size of the file in bytes.
    pub total: u64,
}

pub struct Info {
    /// Where it begins.
    pub at: usize,
    pub name: Box<str>,
    /// Outermost dimension first.
    pub shape: Vec<u64>,
    pub kind: u32,
    /// Relative to the file.
    pub offset: u64,
}

impl Header {
    pub fn read(input: &Input<'_>) -> Result<Self> {
        let mut window = Window::new(*input);
        let (version, tensors, entries) = start(&mut window).map_err(|error| error.rule(HEADER))?;
        let metadata = Metadata::walk(&mut window, entries, input.limits)?;
        let mut infos = Vec::new();
        for _ in 0..tensors {
            infos.push(Info::read(&mut window, input.limits).map_err(|error| error.rule(INFOS))?);
        }
        let (end, big_endian, total) = (window.position(), window.spelling().big_endian, input.length());
        let metadata = metadata.keep(window.into_bytes());
        let alignment = alignment(&metadata)?;
        // Less than the size of an index and 2^63.
        let data = (end as u64).next_multiple_of(alignment);
        for info in &mut infos {
            let offset = info.offset;
            let position = data.checked_add(offset).filter(|_| offset.is_multiple_of(alignment));
            info.offset = position.ok_or_else(|| {
                let message =
                    format!("the data offset {offset} is not a multiple of the alignment {alignment}");
                Error::new(Code::BadIndex, message).tensor(&info.name).rule(INFOS)
            })?;
        }
        Ok(Self { version, big_endian, metadata: Arc::new(metadata), infos, end, alignment, data, total })
    }

    /// Adds the tensors, whose bytes are in the file with the given number.
    pub fn add(&self, builder: &mut Builder, file: u32) -> Result<()> {
        builder.reserve(self.infos.len());
        let mut ends = Vec::new();
        let mut attributes = HashMap::new();
        for info in &self.infos {
            let added = match Type::of(info.kind) {
                Some(Type::Plain(dtype)) => self.plain(builder, info, dtype, file),
                Some(Type::Blocks(blocks)) => {
                    let own = attributes
                        .entry(info.kind)
                        .or_insert_with(|| layouts::gguf::parameters_of(blocks.elements, blocks.bytes))
                        .clone();
                    self.blocks(builder, info, blocks, own, file)
                }
                None => {
                    if ends.is_empty() {
                        ends.extend(self.infos.iter().map(|info| info.offset));
                        ends.push(self.total);
                        ends.arrange();
                    }
                    self.unknown(builder, info, &ends, file)
                }
            };
            added.map_err(|error| error.tensor(&info.name).rule(INFOS))?;
            if info.name.contains('\0') {
                let message = "its name has a NUL: llama.cpp ends it there, and reads another name";
                builder.warn("ZT_WARN_NUL", message, Some(&info.name), None);
            }
        }
        Ok(())
    }

    fn plain(&self, builder: &mut Builder, info: &Info, dtype: DType, file: u32) -> Result<()> {
        let bytes = product(&info.shape).and_then(|elements| bytes_of(elements, dtype.bits()));
        let mut data = self.component(info, Some(dtype), bytes, file)?;
        if self.big_endian {
            data.byte_order = ByteOrder::Big;
        }
        add(builder, info, Layout::Dense, Some(dtype), data, None)
    }

    fn blocks(
        &self,
        builder: &mut Builder,
        info: &Info,
        blocks: Blocks,
        attributes: Attributes,
        file: u32,
    ) -> Result<()> {
        let row = info.shape.last().copied().unwrap_or(1);
        if !row.is_multiple_of(blocks.elements) {
            let message =
                format!("rows of {row} elements are not a multiple of the block size {}", blocks.elements);
            return Err(Error::new(Code::BadShape, message));
        }
        let bytes =
            product(&info.shape).and_then(|elements| (elements / blocks.elements).checked_mul(blocks.bytes));
        let data = self.component(info, Some(DType::Uint8), bytes, file)?;
        let swapped = self.big_endian && blocks.ordered;
        let layout = format!("gguf{}.{}/1", if swapped { "_be" } else { "" }, blocks.name);
        let layout = Layout::from_label(builder.intern(&layout));
        add(builder, info, layout, None, data, Some(attributes))?;
        if swapped {
            let message = "the numbers in its blocks are big-endian, so the tensor is listed but not decoded";
            builder.warn("ZT_WARN_BYTE_ORDER", message, Some(&info.name), None);
        }
        Ok(())
    }

    /// Adds a tensor of unknown type. Its bytes extend to the next tensor or to the end of the file.
    fn unknown(&self, builder: &mut Builder, info: &Info, ends: &[u64], file: u32) -> Result<()> {
        let next = ends.partition_point(|&end| end <= info.offset);
        let bytes = ends.get(next).map_or(0, |end| end - info.offset);
        let data = self.component(info, None, Some(bytes), file)?;
        let layout = Layout::from_label(builder.intern(&format!("gguf.type_{}", info.kind)));
        add(builder, info, layout, None, data, None)?;
        let message = format!(
            "the ggml type {} is unknown: the bytes extend to the next tensor and include padding",
            info.kind
        );
        builder.warn("ZT_WARN_UNKNOWN_LAYOUT", message, Some(&info.name), None);
        Ok(())
    }

    fn component(
        &self,
        info: &Info,
        dtype: Option<DType>,
        bytes: Option<u64>,
        file: u32,
    ) -> Result<Component> {
        let bytes = bytes.ok_or_else(|| {
            Error::new(Code::Limit, format!("the shape {:?} needs more than 2^64 bytes", info.shape))
        })?;
        let bytes = exact(bytes, "the data")?;
        if end_within(info.offset, bytes, self.total).is_none() {
            let message = format!(
                "{bytes} bytes of data at offset {} extend past the file's {}",
                info.offset, self.total
            );
            return Err(Error::new(Code::Truncated, message).at(info.offset));
        }
        let mut data = Component::raw(Label::DATA, dtype, info.offset, bytes);
        if let Some(blob) = data.blob_mut() {
            blob.file = file;
        }
        Ok(data)
    }
}

/// Fails unless the data of each tensor follows that of the one before, padded with zeros, and nothing follows the last.
pub fn check_packed(source: &dyn ReadAt, limits: &Limits, stop: &Stop) -> Result<()> {
    let header = Header::read(&Input::alone(source, limits, stop))?;
    let mut builder = Builder::new(Container::named(NAME), limits);
    header.add(&mut builder, 0)?;
    let catalog = builder.finish();
    let loose = |at: u64| Error::new(Code::BadIndex, "has bytes that belong to no tensor").at(at).rule(INFOS);
    let zeros = |from: u64, to: u64| {
        let padding = source.read_vec(from, to.saturating_sub(from), stop)?;
        if padding.iter().all(|&byte| byte == 0) { Ok(()) } else { Err(loose(from)) }
    };
    zeros(header.end as u64, header.data)?;
    let mut expected = header.data;
    for (tensor, data) in catalog.blobs() {
        if data.offset() != expected {
            return Err(loose(expected).tensor(tensor.name()));
        }
        let end = expected.saturating_add(data.stored_length());
        expected = end.next_multiple_of(header.alignment).min(header.total);
        zeros(end, expected)?;
    }
    if expected == header.total { Ok(()) } else { Err(loose(expected)) }
}

fn add(
    builder: &mut Builder,
    info: &Info,
    layout: Layout,
    dtype: Option<DType>,
    data: Component,
    attributes: Option<Attributes>,
) -> Result<()> {
    let mut components = builder.no_components();
    components.push(data);
    let mut tensor =
        NewTensor { name: &info.name, shape: &info.shape, layout, dtype, components, attributes };
    layouts::check(&mut tensor)?;
    builder.add_tensor(tensor)
}

/// Reads the magic, the version, and the numbers of tensors and metadata entries.
fn start(window: &mut Window<'_>) -> Result<(u32, u64, u64)> {
    if window.take(4)? != MAGIC {
        return Err(bad_magic("no GGUF magic"));
    }
    let version = window.u32()?;
    // Versions are small, so in the other byte order the two low bytes are zero.
    let big_endian = version.trailing_zeros() >= 16;
    let version = if big_endian { version.swap_bytes() } else { version };
    if !(1..=3).contains(&version) {
        let message = format!("this is GGUF version {version}; versions 1 to 3 are supported");
        return Err(Error::new(Code::UnsupportedVersion, message).at(4));
    }
    window.spell(Spelling { big_endian, short: version == 1 });
    Ok((version, window.count()?, window.count()?))
}

impl Info {
    fn read(window: &mut Window<'_>, limits: &Limits) -> Result<Self> {
        let at = window.position();
        let name: Box<str> = window.text("a tensor's name")?.into();
        let rest = |window: &mut Window<'_>| {
            let rank = window.u32()?;
            let mut shape = Vec::new();
            for _ in 0..rank {
                let dim = window.count()?;
                limits.push_dim(&mut shape, dim)?;
            }
            // ggml counts dimensions from the innermost.
            shape.reverse();
            Ok((shape, window.u32()?, window.u64()?))
        };
        let (shape, kind, offset) = rest(window).map_err(|error: Error| error.tensor(&name))?;
        Ok(Self { at, name, shape, kind, offset })
    }
}

fn alignment(metadata: &Metadata) -> Result<u64> {
    let alignment = metadata.uint("general.alignment")?.unwrap_or(ALIGNMENT);
    if alignment.is_power_of_two() && u32::try_from(alignment).is_ok() {
        return Ok(alignment);
    }
    let message = format!("general.alignment is {alignment}, not a 32-bit power of two");
    Err(Error::new(Code::BadIndex, message).rule("GGUF: general.alignment"))
}
