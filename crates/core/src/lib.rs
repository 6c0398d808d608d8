//! Reads and writes tensor files. A path becomes sources ([`sources`]), [`open`] finds the container, one of [`formats`] parses the
//! index into a catalog ([`model`]) that [`layouts`] has checked, and [`read`] loads and decodes the data.

pub mod analysis;
pub mod arrange;
pub mod checked;
pub mod codecs;
pub mod convert;
pub mod edit;
pub mod error;
pub mod formats;
mod inject;
pub mod kernels;
pub mod layouts;
pub mod limits;
#[cfg(any(unix, windows))]
mod loaded;
pub mod model;
pub mod open;
pub mod paths;
pub mod read;
pub mod sinks;
pub mod sources;
pub mod syntax;
pub mod verify;
pub mod work;
pub mod write;
