//! All integration tests of the crate in one program, since each program links the whole crate.
#![allow(clippy::unwrap_used)] // a test that cannot set itself up has failed

mod agreement;
mod checkpoint;
mod fixtures;
mod gguf_edit;
mod numpy;
mod pytorch;
