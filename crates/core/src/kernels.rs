//! Kernels for elements in memory: casts, byte order, strides, quantized layouts. Depends on dtypes and layouts, and on
//! no file.

pub mod cast;
pub mod dequantize;
pub mod distance;
mod pack;
pub mod quantize;
mod scalar;
pub(crate) mod strided;
pub mod swap;
pub mod widen;
