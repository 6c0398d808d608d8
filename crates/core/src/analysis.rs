//! Elements as numbers: statistics, and how far two tensors are apart. Uses `read`, kernels and layouts.

pub mod compare;
pub mod elements;
pub mod numbers;
pub mod stats;
