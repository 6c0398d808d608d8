//! Encodes a catalog as a safetensors file: the header and the byte buffer after it.
#![forbid(unsafe_code)]

use crate::arrange::Arrange;
use std::fmt::Write;

use ciborium::Value;

use super::safetensors_parse::name_of;
use super::write_format::{Assembler, HeaderBound};
use crate::error::{Code, Error, Result};
use crate::limits::SAFETENSORS_INDEX_BYTES;
use crate::model::{Catalog, DType};

/// Writes header and data in the order of the reference implementation: wide elements first, so that all stay aligned,
/// then by name.
pub fn put(catalog: &Catalog, file: &mut dyn Assembler) -> Result<()> {
    let mut blobs = catalog.blobs();
    blobs.arrange_by_key(|(tensor, _)| {
        (std::cmp::Reverse(tensor.dtype().map_or(0, DType::bits)), tensor.name())
    });
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
    if header.len() as u64 > SAFETENSORS_INDEX_BYTES {
        return Err(too_long());
    }
    file.expect(8 + header.len() as u64 + end);
    file.bytes(&(header.len() as u64).to_le_bytes())?;
    file.bytes(header.as_bytes())?;
    blobs.iter().try_for_each(|(_, blob)| file.blob(blob))
}

fn too_long() -> Error {
    let message = format!(
        "the header has more than {SAFETENSORS_INDEX_BYTES} bytes, more than are read of a safetensors file"
    );
    Error::new(Code::Limit, message)
}

/// The header as readers accept it.
pub static HEADER: HeaderBound = HeaderBound {
    max: SAFETENSORS_INDEX_BYTES,
    of_attributes: |attributes| Ok(attribute_bytes(attributes)),
    // At least: escaped characters take more.
    of_tensor: |name| (2 + name.len() + SHORTEST.len()) as u64,
    too_long,
};

/// The rest of the shortest entry.
const SHORTEST: &str = r#":{"dtype":"I8","shape":[],"data_offsets":[0,1]}"#;

/// Fails if the attributes alone make the header longer than readers accept.
pub fn check_attributes(attributes: &[(Value, Value)], _: bool) -> Result<()> {
    if attribute_bytes(attributes) > SAFETENSORS_INDEX_BYTES { Err(too_long()) } else { Ok(()) }
}

fn attribute_bytes(attributes: &[(Value, Value)]) -> u64 {
    let (mut text, mut total) = (String::new(), 0_u64);
    for part in attributes.iter().flat_map(|(key, value)| [key, value]) {
        text.clear();
        quote(&mut text, part.as_text().unwrap_or_default());
        total = total.saturating_add(text.len() as u64 + 1);
    }
    total
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
