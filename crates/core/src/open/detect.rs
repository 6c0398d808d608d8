//! Which container a file is. A new format is one module and one line here.
#![forbid(unsafe_code)]

use crate::error::{Code, Error, Result};
use crate::formats::{btf, safetensors, zt01, zt2, zt10, zt12};
use crate::inject;
use crate::limits::Limits;
use crate::model::{Catalog, Container};
use crate::sources::ReadAt;

const ZT01: &[u8] = b"ZTEN0001";
const ZT1: &[u8] = b"ZTEN1000";

/// Reads the index of a file, of the container that `wanted` names or of the one that its bytes tell.
pub fn parse(source: &dyn ReadAt, wanted: Option<Container>, limits: &Limits) -> Result<Catalog> {
    inject::panic_at("open");
    match wanted {
        Some(Container::Btf) => btf::parse(source, limits),
        Some(Container::Safetensors) => safetensors::parse(source, limits),
        Some(Container::Zt) => {
            zt(source, limits)?.ok_or_else(|| bad_magic("it does not begin with a zTensor magic"))?
        }
        None | Some(Container::Mixed) => detect(source, limits),
    }
}

/// zTensor and safetensors are told by their first bytes. BTF has no magic, so it comes last, and only where
/// header and records account for every byte.
fn detect(source: &dyn ReadAt, limits: &Limits) -> Result<Catalog> {
    if source.length() < 8 {
        let message = format!("{} bytes are too few for any tensor file", source.length());
        return Err(Error::new(Code::Truncated, message));
    }
    if let Some(parsed) = zt(source, limits)? {
        return parsed;
    }
    // A BTF file has an offset, a multiple of 8, where a safetensors header has its '{' (0x7b).
    if source.length() > 8 && source.read_vec(8, 1)? == b"{" {
        return safetensors::parse(source, limits);
    }
    btf::parse(source, limits).map_err(|error| match error.code() {
        Code::Io => error,
        _ => bad_magic("no zTensor magic, no safetensors header, and as BTF it does not add up"),
    })
}

/// Reads a zTensor file; `None` where the magic is none of zTensor's.
fn zt(source: &dyn ReadAt, limits: &Limits) -> Result<Option<Result<Catalog>>> {
    let total = source.length();
    if total < 8 {
        let message = format!("{total} bytes are too few for a zTensor file, whose magic alone is 8");
        return Err(Error::new(Code::Truncated, message));
    }
    let magic = source.read_vec(0, 8)?;
    if magic == ZT01 {
        return Ok(Some(zt01::parse(source, limits)));
    }
    if magic == ZT1 {
        // 1.0 ends in the size of its manifest, which cannot be as large as the magic read as a number.
        let has_footer = total >= 16 && source.read_vec(total - 8, 8)? == ZT1;
        return Ok(Some(if has_footer { zt12::parse(source, limits) } else { zt10::parse(source, limits) }));
    }
    if magic == zt2::MAGIC {
        return Ok(Some(zt2::parse(source, limits)));
    }
    Ok(None)
}

fn bad_magic(what: &str) -> Error {
    let message =
        format!("this is no tensor file known here: {what}. If it is one, name its format in the options");
    Error::new(Code::BadMagic, message).at(0)
}
