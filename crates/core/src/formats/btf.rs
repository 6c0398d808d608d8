//! The Binary Tensor Format: its row, and how it is written.
#![forbid(unsafe_code)]

use super::btf_encode;
use super::btf_parse::{code_of, parse};
use super::format::{Confidence, Format};
use super::write_format::{Index, Names, SparseForm, WriteFormat};

const NAME: &str = "btf";

pub const FORMAT: Format = Format {
    name: NAME,
    title: "BTF",
    endings: &["btf"],
    missing: "its lengths are not those of a BTF file",
    // BTF has no magic. In a valid file, the header and the records account for every byte.
    detect: |_| Ok(Confidence::Possible),
    parse,
    writes: &[&WRITE_FORMAT],
    header: None,
};

pub static WRITE_FORMAT: WriteFormat = WriteFormat {
    format: NAME,
    title: "BTF",
    readers: &["readers of BTF", "ztensor"],
    index: Index::First(btf_encode::put),
    sparse: SparseForm::Tuples,
    holds: |dtype| code_of(dtype).is_some(),
    holds_layout: |layout| matches!(layout, "dense" | "sparse_coo"),
    names: Names::Numbers,
    ..WriteFormat::DENSE
};
