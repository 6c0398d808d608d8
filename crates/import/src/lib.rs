//! Formats that ztensor reads and did not invent. A format is one module and one row of [`IMPORT`].
//!
//! A module holds:
//! - `FORMAT`, its row: the name that [`Container`] carries, endings, `tell`, `parse`, and what it can hold when it is written
//!   (nothing, but for NumPy).
//! - `tell`, which looks at the first and last 64 KiB through [`Probe`] and says how sure it is. It parses nothing and never
//!   looks at a file's name. Formats in one kind of archive are told apart by the names of its members.
//! - `parse`, which reads the index through [`ReadAt`] and returns a [`Catalog`]. It opens no file. It says where bytes are
//!   ([`Data`], [`View`], [`ByteOrder`]) and reads no tensor data. `layouts::check` sees every tensor before it is added.
//!
//! Rules for all of them:
//! - Every number of a file goes through `ztensor_core::checked`. No allocation follows a claimed count. Depth and work are bounded.
//! - What is no tensor is never an error of the file: what is plain becomes an attribute, the rest a warning `ZT_WARN_SKIPPED`.
//! - One damaged item is no error of the file either, where the others are clear: `Builder::damaged` records it, and `verify` fails.
//! - A tensor of a type that zTensor does not have is listed without a dtype, with a warning, and its bytes can be read.
//! - Nothing in a file is executed, and nothing outside of its folder is opened.
//! - An error carries a stable code, the place, and the section of the format's specification.
//!
//! A format whose files stand in folders of its own, or beside files that hold nothing but bytes, has a row in [`COMPANIONS`], too.
//!
//! To add one: `npm run new -- format NAME TITLE`. ARCHITECTURE.md lists the steps.
//!
//! [`Container`]: ztensor_core::model::Container
//! [`Probe`]: ztensor_core::formats::Probe
//! [`ReadAt`]: ztensor_core::sources::ReadAt
//! [`Catalog`]: ztensor_core::model::Catalog
//! [`Data`]: ztensor_core::model::Data
//! [`View`]: ztensor_core::model::View
//! [`ByteOrder`]: ztensor_core::model::ByteOrder
#![forbid(unsafe_code)]

pub mod arrow;
mod damage;
pub mod flatbuffer;
pub mod flax;
pub mod gguf;
pub mod hdf5;
pub mod limits;
pub mod msgpack;
mod names;
pub mod numpy;
pub mod onnx;
pub mod openvino;
pub mod paddle;
pub mod pickle;
pub mod protobuf;
pub mod pytorch;
mod repr;
pub mod tensorflow;
pub mod tflite;
pub mod window;
pub mod zip;

use ztensor_core::formats::{Companions, Format};

/// The formats of this crate, in the order in which lists name them. `src/formats.rs` joins them to `ztensor_core::formats::CORE`.
pub const IMPORT: &[Format] = &[
    numpy::npy::FORMAT,
    numpy::npz::FORMAT,
    gguf::FORMAT,
    onnx::FORMAT,
    pytorch::FORMAT,
    hdf5::FORMAT,
    hdf5::keras::FORMAT,
    tensorflow::FORMAT,
    flax::FORMAT,
    paddle::FORMAT,
    arrow::FORMAT,
    tflite::FORMAT,
    openvino::FORMAT,
];

/// What stands beside the files of these formats: by what a folder says which file is meant, and files of bytes that have an index.
pub const COMPANIONS: &[Companions] = &[tensorflow::COMPANIONS, openvino::COMPANIONS];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use ztensor_core::formats::Formats;

    use super::*;

    #[test]
    fn names_and_endings_stand_once_in_all_tables() {
        let all = Formats::of(&[ztensor_core::formats::CORE, IMPORT]);
        let mut seen = HashSet::new();
        assert!(all.iter().all(|format| seen.insert(format.name) && !format.endings.is_empty()));
        let mut seen = HashSet::new();
        assert!(all.endings().all(|ending| seen.insert(ending)));
    }
}
