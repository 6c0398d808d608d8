//! What elements are like: statistics, and how far two tensors are apart. Uses what `read` gives.

pub mod compare;
pub mod elements;
pub mod numbers;
pub mod stats;
