//! Formats other than zTensor's own and GGUF that ztensor reads. A format is one module and one row of [`IMPORT`].
//!
//! A module holds:
//! - `FORMAT`, its row: the name used by [`Container`], file extensions, `detect`, `parse`, and `writes`: a [`WriteFormat`] for each version
//!   that is written, or nothing for a format that is only read.
//! - `detect`, which reads the first and last 64 KiB through [`Probe`] and returns its confidence. It parses nothing and never
//!   uses a file's name. Formats that share a kind of archive are distinguished by the names of its members.
//! - `parse`, which reads the index through [`ReadAt`] and returns a [`Catalog`]. It opens no file. It returns where bytes are
//!   ([`Data`], [`View`], [`ByteOrder`]) and reads no tensor data. `layouts::check` sees every tensor before it is added.
//!
//! Rules for all formats:
//! - Every number in a file is checked by `ztensor_core::checked`. No allocation depends on an unchecked count. Depth and work are bounded.
//! - An item that is not a tensor is never an error: plain values become attributes, anything else a warning `ZT_WARN_SKIPPED`.
//! - A single damaged item is not an error of the file if the others are intact: `Builder::damaged` records it, and `verify` fails.
//! - A tensor of a type that zTensor does not have is listed without a dtype and with a warning, and its bytes can be read.
//! - Nothing in a file is executed, and nothing outside its folder is opened.
//! - An error carries a stable code, the offset, and the section of the format's specification.
//!
//! A format with its own folder structure, or with sibling files that hold raw bytes, also has a row in [`COMPANIONS`].
//!
//! To add one: `npm run new -- format NAME TITLE`. ARCHITECTURE.md lists the steps.
//!
//! [`Container`]: ztensor_core::model::Container
//! [`Probe`]: ztensor_core::formats::Probe
//! [`WriteFormat`]: ztensor_core::formats::WriteFormat
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

/// The formats of this crate, in display order. `src/values/formats.rs` appends them to `ztensor_core::formats::CORE` and `ztensor_gguf::GGUF`.
pub const IMPORT: &[Format] = &[
    numpy::npy::FORMAT,
    numpy::npz::FORMAT,
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

/// Companion files of these formats: those that identify the main file of a folder, and sibling files of raw bytes that have an index.
pub const COMPANIONS: &[Companions] = &[tensorflow::COMPANIONS, openvino::COMPANIONS];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use ztensor_core::formats::Formats;

    use super::*;

    #[test]
    fn names_and_extensions_are_unique_across_tables() {
        let all = Formats::of(&[ztensor_core::formats::CORE, IMPORT]);
        let mut seen = HashSet::new();
        assert!(all.iter().all(|format| seen.insert(format.name) && !format.endings.is_empty()));
        let mut seen = HashSet::new();
        assert!(all.endings().all(|ending| seen.insert(ending)));
    }
}
