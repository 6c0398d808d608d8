//! All integration tests of the crate in one program, since each program links the whole crate.
#![allow(clippy::unwrap_used)] // a test that cannot set itself up has failed

mod alike;
mod analyzed;
mod beyond;
mod child;
mod codecs;
mod compacted;
mod converted;
mod dequantized;
mod edited;
mod edits;
mod exception;
mod fault;
mod joined;
mod layouts;
mod made_up;
mod made_up_written;
mod metadata;
mod named;
mod old;
mod owner;
mod parsers;
mod passed;
mod quantize;
mod reusable_memory;
mod scarce;
mod sets;
mod settings;
mod siblings;
mod source;
mod sparse;
mod threads;
mod ways;
mod writer;
mod zt2;
