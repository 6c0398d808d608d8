//! Open files: sources, the index, loads, checks, comparisons.

pub mod compare;
pub mod file;
pub mod identity;
pub mod index;
pub mod memory;
pub mod nearest;
pub mod opened;
pub mod opening;
pub mod outflow;
pub mod quantized;
pub mod reading;
pub mod remote;
pub mod script;
pub mod share;
pub mod stage;
pub mod staging;
pub mod stats;
pub mod take;
pub mod verified;
