//! Kernels for elements in memory: other types, byte order, strides, quantized layouts. Knows dtypes and layouts, and no file.

pub mod cast;
pub mod dequantize;
mod pack;
pub(crate) mod strided;
pub mod swap;
pub mod widen;
