//! Typed values of GGUF metadata (`gguf.md`, `gguf_metadata_value_type`).
#![forbid(unsafe_code)]

use ztensor_core::error::Result;
use ztensor_core::syntax::values::{Event, Visit};

/// The keys of a value that states its type: `{ "type": "uint32", "value": 7 }`.
pub const TYPE: &str = "type";
pub const VALUE: &str = "value";

/// The type of a value. The discriminant is its number in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u32)]
pub enum ValueType {
    Uint8 = 0,
    Int8 = 1,
    Uint16 = 2,
    Int16 = 3,
    Uint32 = 4,
    Int32 = 5,
    Float32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    Uint64 = 10,
    Int64 = 11,
    Float64 = 12,
}

impl ValueType {
    /// Every type, in the order of its number.
    pub const ALL: [Self; 13] = [
        Self::Uint8,
        Self::Int8,
        Self::Uint16,
        Self::Int16,
        Self::Uint32,
        Self::Int32,
        Self::Float32,
        Self::Bool,
        Self::String,
        Self::Array,
        Self::Uint64,
        Self::Int64,
        Self::Float64,
    ];

    /// Returns the number in a file.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Returns the type with this number, or `None` if it is unknown.
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Returns the type with this name, or `None` if there is none.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the name, as users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uint8 => "uint8",
            Self::Int8 => "int8",
            Self::Uint16 => "uint16",
            Self::Int16 => "int16",
            Self::Uint32 => "uint32",
            Self::Int32 => "int32",
            Self::Float32 => "float32",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Array => "array",
            Self::Uint64 => "uint64",
            Self::Int64 => "int64",
            Self::Float64 => "float64",
        }
    }
}

/// Visits a value in the form that states its type: a map of "type" and "value".
pub fn typed(
    kind: ValueType,
    to: &mut dyn Visit,
    value: impl FnOnce(&mut dyn Visit) -> Result<()>,
) -> Result<()> {
    to.visit(Event::Map)?;
    to.visit(Event::Text(TYPE))?;
    to.visit(Event::Text(kind.name()))?;
    to.visit(Event::Text(VALUE))?;
    value(to)?;
    to.visit(Event::End)
}

/// Calls a macro with each type of a single value: variant and Rust type.
macro_rules! scalars {
    ($each:ident) => {
        $each! {
            Uint8: u8, Int8: i8, Uint16: u16, Int16: i16, Uint32: u32, Int32: i32, Float32: f32, Bool: bool, String: String,
            Uint64: u64, Int64: i64, Float64: f64
        }
    };
}

macro_rules! define {
    ($($variant:ident: $type:ty),*) => {
        /// A value of the metadata.
        #[derive(Clone, PartialEq, Debug)]
        pub enum Value {
            $($variant($type),)*
            Array(Array),
        }

        /// An array of single values of one type. Arrays of arrays are not written, as in gguf-py.
        #[derive(Clone, PartialEq, Debug)]
        pub enum Array {
            $($variant(Vec<$type>),)*
        }

        impl Value {
            /// Returns the type of the value.
            pub const fn kind(&self) -> ValueType {
                match self {
                    $(Self::$variant(_) => ValueType::$variant,)*
                    Self::Array(_) => ValueType::Array,
                }
            }
        }

        impl Array {
            /// Returns the type of the items.
            pub const fn kind(&self) -> ValueType {
                match self {
                    $(Self::$variant(_) => ValueType::$variant,)*
                }
            }

            /// Returns the number of items.
            pub fn len(&self) -> usize {
                match self {
                    $(Self::$variant(items) => items.len(),)*
                }
            }

            /// Returns whether there are no items.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }

        $(
            impl From<$type> for Value {
                fn from(value: $type) -> Self {
                    Self::$variant(value)
                }
            }

            impl From<Vec<$type>> for Value {
                fn from(items: Vec<$type>) -> Self {
                    Self::Array(Array::$variant(items))
                }
            }
        )*
    };
}

scalars!(define);

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_specification() {
        for (number, kind) in (0..).zip(ValueType::ALL) {
            assert_eq!((kind.number(), ValueType::of(number)), (number, Some(kind)));
        }
        assert_eq!(ValueType::of(13), None);
        assert_eq!((ValueType::String.number(), ValueType::Float64.number()), (8, 12));
    }

    #[test]
    fn values_know_their_types() {
        assert_eq!(Value::from(1_u32).kind(), ValueType::Uint32);
        assert_eq!(Value::from("text").kind(), ValueType::String);
        let array = Value::from(vec![1_f32, 2.0]);
        assert_eq!(array.kind(), ValueType::Array);
        let Value::Array(array) = array else { panic!("not an array") };
        assert_eq!((array.kind(), array.len(), array.is_empty()), (ValueType::Float32, 2, false));
    }
}
