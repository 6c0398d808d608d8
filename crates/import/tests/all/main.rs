//! All integration tests of the crate in one program, since each program links the whole crate.
#![allow(clippy::unwrap_used)] // a test that cannot set itself up has failed

mod agreement;
#[path = "../../../core/tests/all/cases.rs"]
mod cases;
mod fixtures;
mod numpy;
mod pytorch;
