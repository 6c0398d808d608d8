//! NumPy's files: `.npy` holds one array (`numpy.lib.format`), `.npz` a zip archive of them, which SciPy stores sparse matrices in.
#![forbid(unsafe_code)]

mod array;
mod header;
mod literal;
pub mod npy;
pub mod npz;
mod scipy;

pub use header::Header;
