//! The block types that tensors can be quantized to.

use napi_derive::napi;
use ztensor_core::convert::quantize::Target;
use ztensor_core::kernels::quantize::BlockEncoder;

/// A block type that tensors can be quantized to.
#[napi(object, object_from_js = false)]
pub struct BlockType {
    /// Elements of a block.
    pub elements: u32,
    /// Bytes of a block.
    pub bytes: u32,
    /// The layout of tensors, and its parameters.
    pub layout: String,
    pub parameters: Vec<Parameter>,
}

/// A parameter of a layout.
#[napi(object, object_from_js = false)]
pub struct Parameter {
    pub name: String,
    pub value: u32,
}

/// The block type with a name; null if tensors cannot be quantized to it.
#[napi(catch_unwind)]
#[allow(clippy::needless_pass_by_value, clippy::cast_possible_truncation)] // napi; at most 292 bytes
pub fn block_type(name: String) -> Option<BlockType> {
    let kind = BlockEncoder::of(&name)?;
    let target = Target::new(kind);
    let values = target.parameters().values().unwrap_or_default();
    let parameters = values.iter().filter_map(|(name, value)| {
        let value = u32::try_from(value.as_integer()?).ok()?;
        Some(Parameter { name: name.as_text()?.to_owned(), value })
    });
    Some(BlockType {
        elements: kind.elements() as u32,
        bytes: kind.bytes() as u32,
        layout: (*target.layout).to_owned(),
        parameters: parameters.collect(),
    })
}

/// The names of the block types that tensors can be quantized to.
#[napi(catch_unwind)]
pub fn block_types() -> Vec<String> {
    BlockEncoder::names().map(str::to_owned).collect()
}
