//! Values that cross the boundary: arguments, attributes, arrays, the format table. Knows no file.

pub mod arguments;
pub mod attributes;
pub mod block_types;
pub mod formats;
pub mod input;
pub mod kernels;
