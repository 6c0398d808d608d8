//! All integration tests of the crate in one program, since each program links the whole crate.
#![allow(clippy::unwrap_used)] // a test that cannot set itself up has failed

mod analysis;
mod atomic_files;
mod boundaries;
mod cases;
mod child;
mod codecs;
mod compaction;
mod conversion;
mod custom_format;
mod custom_format_writer;
mod dequantization;
mod edits;
mod exception;
mod external_format;
mod fault;
mod layouts;
mod metadata;
mod older_versions;
mod ownership;
mod parsers;
mod quantize;
mod read_consistency;
mod repeated_entries;
mod resource_limits;
mod reusable_memory;
mod sets;
mod settings;
mod siblings;
mod source;
mod sparse;
mod streaming;
mod threads;
mod writer;
mod zt2;
