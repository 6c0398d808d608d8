//! Requirements of a profile on the entry of a tensor: attributes, and components with roles, types and sizes.
#![forbid(unsafe_code)]

use ciborium::Value;

use crate::error::{Code, Error, Result};
use crate::model::{Component, DType, Label};

/// The attributes of a profile, or a map in one of them.
#[derive(Clone, Copy)]
pub struct Parameters<'a> {
    entries: &'a [(Value, Value)],
}

impl<'a> Parameters<'a> {
    pub fn new(entries: &'a [(Value, Value)]) -> Self {
        Self { entries }
    }

    pub fn get(self, key: &str) -> Option<&'a Value> {
        self.entries.iter().find(|(name, _)| name.as_text() == Some(key)).map(|(_, value)| value)
    }

    fn required(self, key: &str) -> Result<&'a Value> {
        self.get(key).ok_or_else(|| bad(format!("the attribute {key:?} is missing")))
    }

    pub fn uint(self, key: &str) -> Result<u64> {
        uint(self.required(key)?)
            .ok_or_else(|| bad(format!("the attribute {key:?} must be an unsigned integer")))
    }

    pub fn integer(self, key: &str) -> Result<i128> {
        let value = self.required(key)?.as_integer().map(i128::from);
        value.ok_or_else(|| bad(format!("the attribute {key:?} must be an integer")))
    }

    pub fn text(self, key: &str) -> Result<&'a str> {
        let text = self.required(key)?.as_text();
        text.ok_or_else(|| bad(format!("the attribute {key:?} must be a text")))
    }

    pub fn map(self, key: &str) -> Result<Self> {
        let map = self.required(key)?.as_map();
        map.map(|entries| Self { entries }).ok_or_else(|| bad(format!("the attribute {key:?} must be a map")))
    }
}

pub fn uint(value: &Value) -> Option<u64> {
    value.as_integer().and_then(|integer| u64::try_from(i128::from(integer)).ok())
}

/// Builds the error for a tensor that violates its layout.
pub fn bad(message: impl Into<String>) -> Error {
    Error::new(Code::BadLayout, message)
}

/// Returns the components with these roles, in order. Fails if one is missing, or there are others.
pub fn exactly<'a, const N: usize>(
    components: &'a [Component],
    roles: [(Label, &'static str); N],
) -> Result<[&'a Component; N]> {
    let mut found = Vec::with_capacity(N);
    for (role, name) in roles {
        let component = components.iter().find(|component| component.role == role);
        found.push(
            component.ok_or_else(|| bad(format!("the component {name:?} is missing")).component(name))?,
        );
    }
    if components.len() != N {
        let names: Vec<_> = roles.iter().map(|(_, name)| *name).collect();
        let message = format!(
            "the layout requires the components {}, but there are {}",
            names.join(", "),
            components.len()
        );
        return Err(bad(message));
    }
    found.try_into().map_err(|_| bad("the components do not match the layout"))
}

/// Checks that a component decodes to `bytes`, if the index records its length; `None` means a size beyond u64.
pub fn sized(component: &Component, role: &str, bytes: Option<u64>, code: Code) -> Result<()> {
    if bytes.is_some() && component.byte_length().is_none_or(|found| Some(found) == bytes) {
        return Ok(());
    }
    let wanted = bytes.map_or("more than 2^64 bytes".to_owned(), |bytes| format!("{bytes} bytes"));
    let found = component.byte_length().unwrap_or_default();
    let message = format!("{role} must have {wanted} for this shape and these attributes, but has {found}");
    Err(Error::new(code, message).component(role).at(component.offset()))
}

/// Checks a component's type.
pub fn typed(component: &Component, role: &str, wanted: &str, fits: impl Fn(DType) -> bool) -> Result<DType> {
    component.dtype.filter(|&dtype| fits(dtype)).ok_or_else(|| {
        let found = component.dtype.map_or("of an unknown type", DType::name);
        Error::new(Code::BadDtype, format!("{role} must be {wanted}, not {found}")).component(role)
    })
}
