//! Little-endian fields of records, and errors about the directory.
#![forbid(unsafe_code)]

use ztensor_core::checked::slice;
use ztensor_core::error::{Code, Error};

pub const RULE: &str = "APPNOTE 4.3.12 Central directory structure";

pub fn bytes_at<const N: usize>(bytes: &[u8], at: u64) -> Option<[u8; N]> {
    slice(bytes, at, N as u64)?.try_into().ok()
}

pub fn u16_at(bytes: &[u8], at: u64) -> Option<u16> {
    bytes_at(bytes, at).map(u16::from_le_bytes)
}

pub fn u16_le(bytes: &[u8], at: u64) -> u16 {
    u16_at(bytes, at).unwrap_or_default()
}

pub fn u32_at(bytes: &[u8], at: u64) -> Option<u64> {
    bytes_at(bytes, at).map(u32::from_le_bytes).map(u64::from)
}

pub fn u32_le(bytes: &[u8], at: u64) -> u32 {
    bytes_at(bytes, at).map(u32::from_le_bytes).unwrap_or_default()
}

pub fn u64_le(bytes: &[u8], at: u64) -> Option<u64> {
    bytes_at(bytes, at).map(u64::from_le_bytes)
}

pub fn bad(message: impl Into<String>, at: u64) -> Error {
    Error::new(Code::BadIndex, message).at(at).rule(RULE)
}
