//! `gguf.<type>/1`: an array of unmodified ggml blocks, with the two numbers that determine its size.
#![forbid(unsafe_code)]

use ciborium::Value;

use super::parameters::{Parameters, bad, exactly, sized, typed};
use crate::checked::product;
use crate::error::{Code, Error, Result};
use crate::model::{Attributes, Component, DType, Label};

/// The attributes that are parameters of the layout.
pub const PARAMETERS: [&str; 2] = ["elems_per_block", "block_bytes"];

/// The types of blocks whose elements can be computed.
pub const DECODED: [&str; 23] = [
    "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq1_s", "iq1_m",
    "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs", "tq1_0", "tq2_0", "mxfp4", "nvfp4",
];

/// Returns the name of the layout for a type of blocks.
pub fn layout_of(kind: &str) -> String {
    format!("gguf.{kind}/1")
}

/// Returns the parameters for blocks of so many elements and bytes.
pub fn parameters_of(elements: u64, bytes: u64) -> Attributes {
    let values = PARAMETERS.into_iter().zip([elements, bytes]);
    values.map(|(name, value)| (Value::Text(name.to_owned()), Value::from(value))).collect::<Vec<_>>().into()
}

/// A tensor's parameters, which satisfy all metadata rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gguf {
    pub elems_per_block: u64,
    pub block_bytes: u64,
    pub blocks: u64,
}

impl Gguf {
    /// Reads and checks a tensor's entry.
    pub fn read(shape: &[u64], attributes: &Attributes, components: &[Component]) -> Result<Self> {
        let [data] = exactly(components, [(Label::DATA, "data")])
            .map_err(|error| error.rule("gguf.<type>/1 Parts"))?;
        typed(data, "data", "plain uint8", |dtype| dtype == DType::Uint8)
            .map_err(|error| error.rule("gguf.<type>/1 Parts"))?;
        let numbers = || {
            let values = attributes.values()?;
            let parameters = Parameters::new(&values);
            let (elems_per_block, block_bytes) =
                (parameters.uint("elems_per_block")?, parameters.uint("block_bytes")?);
            let elements =
                product(shape).ok_or_else(|| bad("the product of the dimensions exceeds a u64"))?;
            if block_bytes == 0 || elems_per_block == 0 || !elements.is_multiple_of(elems_per_block) {
                let message = format!(
                    "{elements} elements cannot be divided into blocks of {elems_per_block} elements in {block_bytes} bytes"
                );
                return Err(bad(message));
            }
            Ok(Self { elems_per_block, block_bytes, blocks: elements / elems_per_block })
        };
        let read = numbers().map_err(|error: Error| error.rule("gguf.<type>/1 Validation"))?;
        sized(data, "data", read.blocks.checked_mul(read.block_bytes), Code::BadShape)
            .map_err(|error| error.rule("gguf.<type>/1 Sizes"))?;
        Ok(read)
    }
}
