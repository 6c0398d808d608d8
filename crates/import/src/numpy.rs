//! NumPy files: `.npy` holds one array (`numpy.lib.format`), `.npz` is a zip archive of arrays. `scipy.sparse` stores its matrices in such
//! archives.
#![forbid(unsafe_code)]

mod archive;
mod array;
mod encode;
mod header;
mod literal;
pub mod npy;
pub mod npz;
mod scipy;

pub use header::Header;
