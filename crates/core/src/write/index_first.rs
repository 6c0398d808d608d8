//! Files whose index comes before their data: the data was spooled, and is copied behind the index.
#![forbid(unsafe_code)]

use std::fmt::Write;

use super::Dialect;
use crate::catalog::{Catalog, Component, DType, Layout, Tensor};
use crate::error::Result;
use crate::sink::{AtomicFile, Spool};

pub fn safetensors_dtype(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Bool => "BOOL",
        DType::Float4E2M1Fn => "F4",
        DType::Float6E2M3Fn => "F6_E2M3",
        DType::Float6E3M2Fn => "F6_E3M2",
        DType::Uint8 => "U8",
        DType::Int8 => "I8",
        DType::Float8E5M2 => "F8_E5M2",
        DType::Float8E4M3Fn => "F8_E4M3",
        DType::Float8E8M0Fnu => "F8_E8M0",
        DType::Float8E4M3Fnuz => "F8_E4M3FNUZ",
        DType::Float8E5M2Fnuz => "F8_E5M2FNUZ",
        DType::Int16 => "I16",
        DType::Uint16 => "U16",
        DType::Float16 => "F16",
        DType::BFloat16 => "BF16",
        DType::Int32 => "I32",
        DType::Uint32 => "U32",
        DType::Float32 => "F32",
        DType::Complex64 => "C64",
        DType::Float64 => "F64",
        DType::Int64 => "I64",
        DType::Uint64 => "U64",
        DType::Complex128 => return None,
    })
}

pub fn btf_dtype(dtype: DType) -> Option<u8> {
    Some(match dtype {
        DType::Int8 => 0,
        DType::Int16 => 1,
        DType::Int32 => 2,
        DType::Int64 => 3,
        DType::Float32 => 4,
        DType::Float64 => 5,
        _ => return None,
    })
}

/// Writes index and data to the file.
pub fn assemble(dialect: Dialect, catalog: &Catalog, spool: &Spool, file: &mut AtomicFile) -> Result<()> {
    if dialect == Dialect::Safetensors {
        safetensors(catalog, spool, file)
    } else {
        btf(catalog, spool, file)
    }
}

/// The tensors, each with the one blob that it is in these formats.
fn blobs(catalog: &Catalog) -> Vec<(Tensor<'_>, &Component)> {
    catalog.iter().filter_map(|tensor| Some((tensor, tensor.components().first()?))).collect()
}

/// As the reference implementation orders them: wide elements first, so that all stay aligned, then by name.
fn safetensors(catalog: &Catalog, spool: &Spool, file: &mut AtomicFile) -> Result<()> {
    let mut blobs = blobs(catalog);
    blobs
        .sort_by_key(|(tensor, _)| (std::cmp::Reverse(tensor.dtype().map_or(0, DType::bits)), tensor.name()));
    let mut header = String::from("{");
    if !catalog.attributes.is_empty() {
        header.push_str("\"__metadata__\":{");
        for (at, (key, value)) in catalog.attributes.iter().enumerate() {
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
        end += blob.stored_length;
        header.push_str(if at == 0 { "" } else { "," });
        quote(&mut header, tensor.name());
        let dtype = tensor.dtype().and_then(safetensors_dtype).unwrap_or_default();
        let shape = tensor.shape().iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        // Writing to a String cannot fail.
        let _ =
            write!(header, ":{{\"dtype\":\"{dtype}\",\"shape\":[{shape}],\"data_offsets\":[{begin},{end}]}}");
    }
    header.push('}');
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    file.reserve(8 + header.len() as u64 + end);
    file.write(&(header.len() as u64).to_le_bytes())?;
    file.write(header.as_bytes())?;
    blobs.iter().try_for_each(|(_, blob)| file.copy_from(spool.file(), blob.offset, blob.stored_length))
}

/// A JSON string.
fn quote(header: &mut String, text: &str) {
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

fn btf(catalog: &Catalog, spool: &Spool, file: &mut AtomicFile) -> Result<()> {
    let blobs = blobs(catalog);
    let mut table = (blobs.len() as u64).to_le_bytes().to_vec();
    let mut offset = 8 + 8 * blobs.len() as u64;
    for (tensor, blob) in &blobs {
        table.extend_from_slice(&offset.to_le_bytes());
        offset += (16 + 8 * tensor.shape().len() as u64 + blob.stored_length).next_multiple_of(8);
    }
    file.reserve(offset);
    file.write(&table)?;
    for (tensor, blob) in &blobs {
        let layout = if tensor.layout() == Layout::SparseCoo { 2 } else { 0 };
        let mut head = (tensor.shape().len() as u64).to_le_bytes().to_vec();
        head.extend_from_slice(&[
            tensor.dtype().and_then(btf_dtype).unwrap_or_default(),
            layout,
            0,
            0,
            0,
            0,
            0,
            0,
        ]);
        tensor.shape().iter().for_each(|dim| head.extend_from_slice(&dim.to_le_bytes()));
        file.write(&head)?;
        file.copy_from(spool.file(), blob.offset, blob.stored_length)?;
        let padding = (8 - blob.stored_length % 8) % 8;
        file.write(&[0; 8][..usize::try_from(padding).unwrap_or_default()])?;
    }
    Ok(())
}
