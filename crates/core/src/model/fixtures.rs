//! Catalogs of many tensors, for tests.

use super::{Builder, Catalog, Component, Container, DType, Label, Layout, NewTensor};
use crate::limits::Limits;

/// Returns a catalog of `count` tensors of 16 bytes, named by their ordinals, at a fixed stride.
pub fn row(count: u64, stride: u64) -> Catalog {
    let mut builder = Builder::new(Container::named("zt"), &Limits::default());
    for at in 0..count {
        let components = vec![Component::raw(Label::DATA, Some(DType::Uint8), at * stride, 16)];
        let (layout, dtype) = (Layout::Dense, Some(DType::Uint8));
        let name = &at.to_string();
        builder
            .add_tensor(NewTensor { name, shape: &[16], layout, dtype, components, attributes: None })
            .unwrap();
    }
    builder.finish()
}
