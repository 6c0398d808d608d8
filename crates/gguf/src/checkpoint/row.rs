//! The vocabulary of the tables of architectures.
#![forbid(unsafe_code)]

use super::config::Config;
use ztensor_core::error::Result;

/// A value of the metadata.
pub struct Parameter {
    /// The key after the name of the architecture.
    pub key: &'static str,
    pub kind: ParameterType,
    /// Keys of the configuration, of which the first present one counts.
    pub from: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ParameterType {
    Uint,
    /// An integer for all layers, or a list with one for each.
    UintOrList,
    Float,
    /// Integers and fractions whose absence is an error.
    NeededUint,
    NeededFloat,
}

pub const fn uint(key: &'static str, from: &'static [&'static str]) -> Parameter {
    Parameter { key, kind: ParameterType::Uint, from }
}

pub const fn list(key: &'static str, from: &'static [&'static str]) -> Parameter {
    Parameter { key, kind: ParameterType::UintOrList, from }
}

pub const fn float(key: &'static str, from: &'static [&'static str]) -> Parameter {
    Parameter { key, kind: ParameterType::Float, from }
}

pub const fn needed(key: &'static str, from: &'static [&'static str]) -> Parameter {
    Parameter { key, kind: ParameterType::NeededUint, from }
}

pub const fn needed_float(key: &'static str, from: &'static [&'static str]) -> Parameter {
    Parameter { key, kind: ParameterType::NeededFloat, from }
}

/// The tensors that one tensor becomes. `{}` stands for the number of a layer, and the second one for that of an expert. A name without
/// ending stands for `.weight` and `.bias`.
pub struct Row {
    pub from: &'static str,
    pub to: &'static [To],
}

pub struct To {
    pub name: &'static str,
    pub change: Change,
}

/// What happens to the elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    None,
    /// The halves of the rows of each head are interleaved: rotary embeddings rotate pairs of neighbors in ggml.
    Interleave(Heads),
    /// Norms of Gemma multiply by 1 + weight.
    AddOne,
    /// One half of the second-to-last axis.
    Half(u64),
    /// Each second element of the last axis, from 0 or 1 on.
    EverySecond(u64),
    /// The last two axes exchanged.
    Transpose,
    /// The last two axes exchanged, then each second row.
    TransposeEverySecond(u64),
    /// The rows of each head that make keys, transposed, or values, of a projection that makes both.
    LatentKeys,
    LatentValues,
    /// Rows before the first position of a text are left out.
    Positions,
    /// Rows beyond the vocabulary are left out.
    Vocabulary,
    /// Blocks of four-bit elements, whose scales are another tensor; all rows, or each second from 0 or 1 on.
    Blocks(Option<u64>),
    /// The scales of `Blocks`.
    Scales,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heads {
    Query,
    Key,
}

/// Tensors that GGUF does not have.
pub struct Ignored {
    pub name: Match,
    pub reason: &'static str,
}

#[derive(Clone, Copy)]
pub enum Match {
    Is(&'static str),
    Starts(&'static str),
    Ends(&'static str),
    Contains(&'static str),
    /// The output with this name, where the configuration says that it is the embeddings.
    Tied(&'static str),
    /// Layers beyond the number in the configuration. Their numbers follow this prefix.
    LaterLayer(&'static str),
}

impl Match {
    /// `layers`: their number in the configuration.
    pub fn fits(self, name: &str, config: &Config<'_>, layers: u32) -> Result<bool> {
        Ok(match self {
            Self::Is(text) => name == text,
            Self::Starts(text) => name.starts_with(text),
            Self::Ends(text) => name.ends_with(text),
            Self::Contains(text) => name.contains(text),
            Self::Tied(output) => name == output && config.flag("tie_word_embeddings")?,
            Self::LaterLayer(prefix) => {
                let number = name.strip_prefix(prefix).and_then(|rest| rest.split('.').next());
                let layer = number.and_then(|number| number.parse::<u64>().ok());
                layer.is_some_and(|layer| layer >= u64::from(layers))
            }
        })
    }
}

/// A row without change of the elements.
macro_rules! rows {
    ($($from:literal => $($to:literal $(: $change:expr)?),+;)*) => {
        &[$($crate::checkpoint::row::Row {
            from: $from,
            to: &[$($crate::checkpoint::row::To {
                name: $to,
                change: $crate::checkpoint::row::change!($($change)?),
            }),+],
        }),*]
    };
}

macro_rules! change {
    () => {
        $crate::checkpoint::row::Change::None
    };
    ($change:expr) => {
        $change
    };
}

pub(crate) use {change, rows};
