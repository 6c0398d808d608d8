//! What every call needs of napi: errors, tasks, panics, controls, buffers, and notices of lost mappings.

pub mod buffer;
pub mod control;
pub mod error;
pub mod loss;
pub mod panic;
pub mod task;
