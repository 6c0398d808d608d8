//! Encodes a catalog as a BTF file: its header and its records.
#![forbid(unsafe_code)]

use super::btf_parse::code_of;
use super::write_format::Assembler;
use crate::error::Result;
use crate::model::{Catalog, Layout};

/// Writes the header and the records.
pub fn put(catalog: &Catalog, file: &mut dyn Assembler) -> Result<()> {
    let blobs = catalog.blobs();
    let mut table = (blobs.len() as u64).to_le_bytes().to_vec();
    let mut offset = 8 + 8 * blobs.len() as u64;
    for (tensor, blob) in &blobs {
        table.extend_from_slice(&offset.to_le_bytes());
        offset += (16 + 8 * tensor.shape().len() as u64 + blob.stored_length()).next_multiple_of(8);
    }
    file.expect(offset);
    file.bytes(&table)?;
    for (tensor, blob) in &blobs {
        let layout = if tensor.layout() == Layout::SparseCoo { 2 } else { 0 };
        let mut head = (tensor.shape().len() as u64).to_le_bytes().to_vec();
        head.extend_from_slice(&[
            tensor.dtype().and_then(code_of).unwrap_or_default(),
            layout,
            0,
            0,
            0,
            0,
            0,
            0,
        ]);
        tensor.shape().iter().for_each(|dim| head.extend_from_slice(&dim.to_le_bytes()));
        file.bytes(&head)?;
        file.blob(blob)?;
        let padding = (8 - blob.stored_length() % 8) % 8;
        file.bytes(&[0; 8][..usize::try_from(padding).unwrap_or_default()])?;
    }
    Ok(())
}
