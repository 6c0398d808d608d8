//! Reads tensor files. A path becomes a [`source`], [`detect`] finds the container, a [`format`] parses the
//! index into a [`catalog`] that [`layout`] has checked, and [`read`] loads, decodes and verifies the data.

pub mod canonical;
pub mod cast;
pub mod catalog;
pub mod checked;
pub mod codec;
pub mod compact;
pub mod compare;
pub mod convert;
pub mod cut;
pub mod dequantize;
pub mod detect;
pub mod edit;
pub mod elements;
pub mod error;
pub mod format;
pub mod glob;
mod inject;
pub mod layout;
pub mod limits;
pub mod numbers;
pub mod plan;
pub mod prefetch;
pub mod read;
pub mod shard;
pub mod similar;
pub mod sink;
pub mod source;
pub mod stats;
mod strided;
pub mod swap;
pub mod syntax;
pub mod total;
pub mod verify;
pub mod widen;
pub mod work;
pub mod write;
