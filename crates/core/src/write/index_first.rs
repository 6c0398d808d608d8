//! Files whose index comes before their data: the data was spooled, and is copied behind the index.
#![forbid(unsafe_code)]

use std::fmt::Write;

use super::Dialect;
use crate::error::Result;
use crate::formats::{btf, safetensors};
use crate::model::{Catalog, Component, DType, Layout, Tensor};
use crate::sinks::{AtomicFile, Spool};
use crate::work::Stop;

/// Writes index and data to the file.
pub fn assemble(
    dialect: Dialect,
    catalog: &Catalog,
    spool: &Spool,
    file: &mut AtomicFile,
    stop: &Stop,
) -> Result<()> {
    let data = Data { spool, file, waiting: Vec::new(), stop };
    if dialect == Dialect::Safetensors { write_safetensors(catalog, data) } else { write_btf(catalog, data) }
}

/// The tensors, each with the one blob that it is in these formats.
fn blobs(catalog: &Catalog) -> Vec<(Tensor<'_>, &Component)> {
    catalog.iter().filter_map(|tensor| Some((tensor, tensor.components().first()?))).collect()
}

/// As the reference implementation orders them: wide elements first, so that all stay aligned, then by name.
fn write_safetensors(catalog: &Catalog, mut data: Data<'_>) -> Result<()> {
    let mut blobs = blobs(catalog);
    blobs
        .sort_by_key(|(tensor, _)| (std::cmp::Reverse(tensor.dtype().map_or(0, DType::bits)), tensor.name()));
    let mut header = String::from("{");
    if !catalog.attributes.is_empty() {
        header.push_str("\"__metadata__\":{");
        for (at, (key, value)) in catalog.attributes.values()?.iter().enumerate() {
            header.push_str(if at == 0 { "" } else { "," });
            quote(&mut header, key.as_text().unwrap_or_default());
            header.push(':');
            quote(&mut header, value.as_text().unwrap_or_default());
        }
        header.push_str(if blobs.is_empty() { "}" } else { "}," });
    }
    let mut end = 0;
    for (at, (tensor, blob)) in blobs.iter().enumerate() {
        let begin = end;
        end += blob.stored_length();
        header.push_str(if at == 0 { "" } else { "," });
        quote(&mut header, tensor.name());
        let dtype = tensor.dtype().and_then(safetensors::name_of).unwrap_or_default();
        let shape = tensor.shape().iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        // Writing to a String cannot fail.
        let _ =
            write!(header, ":{{\"dtype\":\"{dtype}\",\"shape\":[{shape}],\"data_offsets\":[{begin},{end}]}}");
    }
    header.push('}');
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    data.file.reserve(8 + header.len() as u64 + end);
    data.file.write(&(header.len() as u64).to_le_bytes())?;
    data.file.write(header.as_bytes())?;
    blobs.iter().try_for_each(|(_, blob)| data.blob(blob))?;
    data.flush()
}

/// Blobs below this are read and written together with their neighbours: to have the kernel copy one takes several calls.
const SMALL: u64 = 64 << 10;
/// Bytes written at once.
const PIECE: usize = 1 << 20;

/// What stands behind the index, in its order.
struct Data<'a> {
    spool: &'a Spool,
    file: &'a mut AtomicFile,
    waiting: Vec<u8>,
    stop: &'a Stop,
}

impl Data<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() < PIECE { Ok(()) } else { self.flush() }
    }

    fn blob(&mut self, blob: &Component) -> Result<()> {
        match usize::try_from(blob.stored_length()) {
            Ok(length) if blob.stored_length() < SMALL => {
                let start = self.waiting.len();
                self.waiting.resize(start + length, 0);
                self.spool.read_at(blob.offset(), self.waiting.get_mut(start..).unwrap_or_default())?;
                self.bytes(&[])
            }
            _ => {
                self.flush()?;
                let (from, stop) = (self.spool.file(), self.stop);
                self.file.copy_pieces(from, blob.offset(), blob.stored_length(), |_| stop.check())
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write(&self.waiting)?;
        self.waiting.clear();
        Ok(())
    }
}

/// A JSON string.
pub(super) fn quote(header: &mut String, text: &str) {
    header.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                header.push('\\');
                header.push(character);
            }
            '\0'..='\x1f' => {
                let _ = write!(header, "\\u{:04x}", u32::from(character));
            }
            _ => header.push(character),
        }
    }
    header.push('"');
}

fn write_btf(catalog: &Catalog, mut data: Data<'_>) -> Result<()> {
    let blobs = blobs(catalog);
    let mut table = (blobs.len() as u64).to_le_bytes().to_vec();
    let mut offset = 8 + 8 * blobs.len() as u64;
    for (tensor, blob) in &blobs {
        table.extend_from_slice(&offset.to_le_bytes());
        offset += (16 + 8 * tensor.shape().len() as u64 + blob.stored_length()).next_multiple_of(8);
    }
    data.file.reserve(offset);
    data.waiting = table;
    for (tensor, blob) in &blobs {
        let layout = if tensor.layout() == Layout::SparseCoo { 2 } else { 0 };
        let mut head = (tensor.shape().len() as u64).to_le_bytes().to_vec();
        head.extend_from_slice(&[
            tensor.dtype().and_then(btf::code_of).unwrap_or_default(),
            layout,
            0,
            0,
            0,
            0,
            0,
            0,
        ]);
        tensor.shape().iter().for_each(|dim| head.extend_from_slice(&dim.to_le_bytes()));
        data.bytes(&head)?;
        data.blob(blob)?;
        let padding = (8 - blob.stored_length() % 8) % 8;
        data.bytes(&[0; 8][..usize::try_from(padding).unwrap_or_default()])?;
    }
    data.flush()
}
