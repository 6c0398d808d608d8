//! ggml's tensor types by number (`ggml.h`, `enum ggml_type`; the sizes are those of `ggml-common.h` and of the `gguf` package).
#![forbid(unsafe_code)]

use ztensor_core::model::DType;

/// The type of a tensor's elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    Plain(DType),
    Blocks(Blocks),
}

/// Records of `bytes` bytes, each holding `elements` elements of one row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    pub name: &'static str,
    pub elements: u64,
    pub bytes: u64,
    /// Whether they contain multibyte numbers, which are in the byte order of the file.
    pub ordered: bool,
}

const fn blocks(name: &'static str, elements: u64, bytes: u64) -> Type {
    Type::Blocks(Blocks { name, elements, bytes, ordered: true })
}

const fn of_bytes(name: &'static str, elements: u64, bytes: u64) -> Type {
    Type::Blocks(Blocks { name, elements, bytes, ordered: false })
}

const TYPES: [(u32, Type); 34] = [
    (0, Type::Plain(DType::Float32)),
    (1, Type::Plain(DType::Float16)),
    (2, blocks("q4_0", 32, 18)),
    (3, blocks("q4_1", 32, 20)),
    (6, blocks("q5_0", 32, 22)),
    (7, blocks("q5_1", 32, 24)),
    (8, blocks("q8_0", 32, 34)),
    (9, blocks("q8_1", 32, 36)),
    (10, blocks("q2_k", 256, 84)),
    (11, blocks("q3_k", 256, 110)),
    (12, blocks("q4_k", 256, 144)),
    (13, blocks("q5_k", 256, 176)),
    (14, blocks("q6_k", 256, 210)),
    (15, blocks("q8_k", 256, 292)),
    (16, blocks("iq2_xxs", 256, 66)),
    (17, blocks("iq2_xs", 256, 74)),
    (18, blocks("iq3_xxs", 256, 98)),
    (19, blocks("iq1_s", 256, 50)),
    (20, blocks("iq4_nl", 32, 18)),
    (21, blocks("iq3_s", 256, 110)),
    (22, blocks("iq2_s", 256, 82)),
    (23, blocks("iq4_xs", 256, 136)),
    (24, Type::Plain(DType::Int8)),
    (25, Type::Plain(DType::Int16)),
    (26, Type::Plain(DType::Int32)),
    (27, Type::Plain(DType::Int64)),
    (28, Type::Plain(DType::Float64)),
    (29, blocks("iq1_m", 256, 56)),
    (30, Type::Plain(DType::BFloat16)),
    (34, blocks("tq1_0", 256, 54)),
    (35, blocks("tq2_0", 256, 66)),
    (39, of_bytes("mxfp4", 32, 17)),
    (40, of_bytes("nvfp4", 64, 36)),
    (41, blocks("q1_0", 128, 18)),
];

impl Type {
    /// Returns the type with this number, or `None` if it is unknown or was removed from ggml.
    pub fn of(number: u32) -> Option<Self> {
        TYPES.iter().find(|&&(known, _)| known == number).map(|&(_, kind)| kind)
    }

    /// Returns the number of a type.
    pub fn number_of(wanted: Self) -> Option<u32> {
        TYPES.iter().find(|&&(_, kind)| kind == wanted).map(|&(number, _)| number)
    }

    /// Returns the block type with a name.
    pub fn named(name: &str) -> Option<Blocks> {
        TYPES.iter().find_map(|&(_, kind)| match kind {
            Self::Blocks(blocks) if blocks.name == name => Some(blocks),
            _ => None,
        })
    }
}
