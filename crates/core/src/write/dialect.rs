//! What each container and version that can be written can hold.
#![forbid(unsafe_code)]

use crate::formats::{btf, safetensors, zt1_encode, zt2};
use crate::model::{Container, DType, Layout};

/// A container and version that can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    Zt01,
    Zt10,
    /// Only where a file of 1.1 is added to: a new one is of 1.2.
    Zt11,
    Zt12,
    Zt2,
    Safetensors,
    Btf,
}

impl Dialect {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zt01 => "zTensor 0.1",
            Self::Zt10 => "zTensor 1.0",
            Self::Zt11 => "zTensor 1.1",
            Self::Zt12 => "zTensor 1.2",
            Self::Zt2 => "zTensor 2",
            Self::Safetensors => "safetensors",
            Self::Btf => "BTF",
        }
    }

    pub(super) const fn container(self) -> Container {
        match self {
            Self::Safetensors => Container::Safetensors,
            Self::Btf => Container::Btf,
            _ => Container::Zt,
        }
    }

    /// Whether the index stands before the data, which is then spooled.
    pub(super) const fn index_first(self) -> bool {
        matches!(self, Self::Safetensors | Self::Btf)
    }

    /// Whether tensors of a sparse layout are one blob here.
    pub(super) const fn packs(self) -> bool {
        matches!(self, Self::Zt01 | Self::Btf)
    }

    /// Whether elements of this type can be stored.
    pub fn holds(self, dtype: DType) -> bool {
        match self {
            Self::Zt01 | Self::Zt10 => (dtype as u8) <= DType::Bool as u8,
            Self::Zt11 => zt1_encode::primitive(dtype).is_some(),
            Self::Zt12 => zt1_encode::types(dtype).is_some(),
            Self::Zt2 => zt2::vocabulary::spelling(dtype).is_some(),
            Self::Safetensors => safetensors::name_of(dtype).is_some(),
            Self::Btf => btf::code_of(dtype).is_some(),
        }
    }

    /// Whether tensors can have attributes of their own.
    pub const fn holds_tensor_attributes(self) -> bool {
        !self.index_first()
    }

    /// Whether a dense or sparse tensor can have components beside those of its layout.
    pub const fn holds_other_components(self) -> bool {
        matches!(self, Self::Zt10 | Self::Zt11 | Self::Zt12)
    }

    /// Whether tensors of this layout can be stored.
    pub fn holds_layout(self, layout: Layout) -> bool {
        match self {
            Self::Zt10 | Self::Zt11 | Self::Zt12 | Self::Zt2 => true,
            Self::Zt01 => matches!(layout, Layout::Dense | Layout::SparseCsr | Layout::SparseCoo),
            Self::Safetensors => layout == Layout::Dense,
            Self::Btf => matches!(layout, Layout::Dense | Layout::SparseCoo),
        }
    }
}
