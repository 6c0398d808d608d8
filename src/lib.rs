//! The Node addon: it hands the core's results to JavaScript and knows no format. Everything that it
//! exports is private to the TypeScript wrapper, which checks arguments and builds the public objects.

mod accounting;
mod buffer;
mod control;
mod error;
mod file;
mod index;
mod kernels;
mod memory;
mod task;
mod value;
