//! One module a container, named as its specification names things. `parse` turns the bytes of an index into a catalog.
//! Uses syntax, layouts and codecs, reads through `ReadAt` and opens no file.
#![forbid(unsafe_code)]

pub mod btf;
mod overlap;
pub mod safetensors;
mod single_blob;
pub mod zt01;
pub(crate) mod zt01_encode;
mod zt1;
pub mod zt10;
pub mod zt12;
pub(crate) mod zt1_edit;
pub(crate) mod zt1_encode;
pub mod zt2;
pub(crate) mod zt_trailer;
