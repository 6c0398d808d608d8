//! Numeric analysis of elements: statistics, and comparison of tensors. Uses `read`, kernels and layouts.

pub mod compare;
mod csr_rows;
pub mod elements;
pub mod nearest;
pub mod numbers;
pub mod stats;
