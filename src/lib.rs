//! The Node addon: it passes the core's results to JavaScript and knows no format. All exports are private to the TypeScript wrapper, which
//! checks arguments and builds the public objects.

// Arguments have the types that the binding generator produces: owned, and the environment by reference.
#![allow(clippy::needless_pass_by_value, clippy::trivially_copy_pass_by_ref)]

mod accounting;
mod attributes;
mod block_types;
mod buffer;
mod compare;
mod control;
mod convert;
mod edit;
mod error;
mod file;
mod formats;
mod identity;
mod index;
mod kernels;
mod loss;
mod memory;
mod opened;
mod opening;
mod outflow;
mod packet;
mod panic;
mod quantized;
mod reading;
mod remote;
mod script;
mod share;
mod sparse_input;
mod stage;
mod stats;
mod take;
mod task;
mod value;
mod verified;
mod whole;
mod writer;
