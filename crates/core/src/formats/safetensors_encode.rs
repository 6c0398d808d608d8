//! Encodes a catalog as a safetensors file: the header and the byte buffer after it.
#![forbid(unsafe_code)]

use std::fmt::Write;

use super::safetensors::name_of;
use super::write_format::Assemble;
use crate::error::Result;
use crate::model::{Catalog, DType};

/// Writes header and data in the order of the reference implementation: wide elements first, so that all stay aligned,
/// then by name.
pub fn put(catalog: &Catalog, file: &mut dyn Assemble) -> Result<()> {
    let mut blobs = catalog.blobs();
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
        let dtype = tensor.dtype().and_then(name_of).unwrap_or_default();
        let shape = tensor.shape().iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        // Writing to a String cannot fail.
        let _ =
            write!(header, ":{{\"dtype\":\"{dtype}\",\"shape\":[{shape}],\"data_offsets\":[{begin},{end}]}}");
    }
    header.push('}');
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    file.expect(8 + header.len() as u64 + end);
    file.bytes(&(header.len() as u64).to_le_bytes())?;
    file.bytes(header.as_bytes())?;
    blobs.iter().try_for_each(|(_, blob)| file.blob(blob))
}

/// Appends `text` as a JSON string.
pub fn quote(header: &mut String, text: &str) {
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
