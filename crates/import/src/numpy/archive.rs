//! Arrays in a zip archive.
#![forbid(unsafe_code)]

use super::header::Header;
use crate::zip::Member;

/// An array in an archive.
pub struct Array {
    pub name: String,
    pub member: Member,
    pub header: Header,
}
