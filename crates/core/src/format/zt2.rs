//! zTensor 2 (Draft 4): aligned blobs, a manifest in deterministic CBOR, and a footer of 40 bytes that points at it.
#![forbid(unsafe_code)]

pub mod encode;
pub mod vocabulary;
