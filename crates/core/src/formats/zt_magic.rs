//! What all versions of zTensor have in common: the name of the container, and the magics of versions before 2.
#![forbid(unsafe_code)]

use crate::model::Container;

pub const CONTAINER: Container = Container::named("zt");
/// The magic at the beginning of a 0.1 file.
pub const MAGIC_01: &[u8; 8] = b"ZTEN0001";
/// The magic at the beginning of a 1.0 to 1.2 file, and again at the end in 1.1 and 1.2.
pub const MAGIC_1: &[u8; 8] = b"ZTEN1000";
