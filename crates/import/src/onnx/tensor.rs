//! `TensorProto`: its fields, and the location of its data.
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::limits::Limits;

use super::dtypes::{ElementType, Listed};
use super::list::List;
use crate::damage;
use crate::limits::ONNX_NAME_BYTES;
use crate::protobuf::{Field, Run, Value, Walker};

/// The field of its name.
const NAME: u32 = 8;

#[derive(Default)]
pub struct Proto {
    pub name: Box<str>,
    pub shape: Vec<u64>,
    /// The number of its type.
    pub kind: u64,
    /// The offset of its message.
    pub at: u64,
    pub raw: Option<Run>,
    /// Its lists of elements.
    lists: Vec<List>,
    /// Whether its only list belongs to an attribute, which has different fields.
    attribute: bool,
    /// Whether it is a segment of a tensor.
    pub segment: bool,
    /// Whether its data is in another file.
    pub external: bool,
    pub location: Option<Box<str>>,
    pub offset: Option<u64>,
    pub length: Option<u64>,
    /// The first error in it. Its name is valid nevertheless.
    pub wrong: Option<Error>,
}

impl Proto {
    /// Fails if the file cannot be read or a limit is exceeded. Other errors are recorded in [`Proto::wrong`].
    pub fn read(walker: &mut Walker<'_>, run: Run, limits: &Limits) -> Result<Self> {
        let mut proto = Self { at: run.at, ..Self::default() };
        let mut message = run;
        while let Some(field) = damage::noted(walker.next(&mut message), &mut proto.wrong)?.flatten() {
            // If it is invalid only the name is needed.
            if proto.wrong.is_none() || field.number == NAME {
                let read = proto.field(walker, &field, limits);
                damage::noted(read, &mut proto.wrong)?;
            }
        }
        Ok(proto)
    }

    fn field(&mut self, walker: &mut Walker<'_>, field: &Field, limits: &Limits) -> Result<()> {
        match (field.number, field.value) {
            (1, Value::Varint(dim)) => self.push(dim, limits)?,
            (1, Value::Bytes(mut dims)) => {
                while dims.at < dims.end {
                    let dim = walker.varint(&mut dims)?;
                    self.push(dim, limits)?;
                }
            }
            (2, Value::Varint(kind)) => self.kind = kind,
            (3, Value::Bytes(_)) => self.segment = true,
            (NAME, Value::Bytes(name)) => {
                self.name = walker.text(name, ONNX_NAME_BYTES, "the name of a tensor")?.into();
            }
            (9, Value::Bytes(raw)) => self.raw = Some(raw),
            (13, Value::Bytes(entry)) => self.entry(walker, entry)?,
            (14, Value::Varint(location)) => self.external = location == 1,
            _ => self.list(field)?,
        }
        Ok(())
    }

    /// Creates a tensor from a list attribute.
    pub fn of(kind: u64, shape: Vec<u64>, list: List) -> Self {
        Self { kind, shape, at: list.whole.at, lists: vec![list], attribute: true, ..Self::default() }
    }

    /// Returns the list that has elements of a type.
    pub fn list_of(&self, kind: &ElementType) -> Option<&List> {
        self.lists.iter().find(|list| self.attribute || list.listed.field == kind.list.field)
    }

    /// Returns the location of any list.
    pub fn first_list(&self) -> Option<Run> {
        self.lists.first().map(|list| list.whole)
    }

    pub fn push(&mut self, dim: u64, limits: &Limits) -> Result<()> {
        push_dim(&mut self.shape, dim, limits)
    }

    fn list(&mut self, field: &Field) -> Result<()> {
        let Some(listed) = Listed::of(field.number) else { return Ok(()) };
        let at = self.lists.iter().position(|list| list.listed.field == field.number);
        let at = at.unwrap_or_else(|| {
            self.lists.push(List::new(listed));
            self.lists.len() - 1
        });
        self.lists.get_mut(at).map_or(Ok(()), |list| list.add(field))
    }

    /// Reads a key and a value of the location of external data.
    fn entry(&mut self, walker: &mut Walker<'_>, entry: Run) -> Result<()> {
        let (mut message, mut key, mut value) = (entry, Run::default(), Run::default());
        while let Some(field) = walker.next(&mut message)? {
            match (field.number, field.value) {
                (1, Value::Bytes(run)) => key = run,
                (2, Value::Bytes(run)) => value = run,
                _ => {}
            }
        }
        let key: Box<[u8]> = if key.length() > 16 { Box::default() } else { walker.bytes(key)?.into() };
        let text = |walker: &mut Walker<'_>| -> Result<Box<str>> {
            Ok(walker.text(value, ONNX_NAME_BYTES, "a value of external_data")?.into())
        };
        match &*key {
            b"location" => self.location = Some(text(walker)?),
            b"offset" => self.offset = Some(number(&text(walker)?, "offset", value)?),
            b"length" => self.length = Some(number(&text(walker)?, "length", value)?),
            _ => {}
        }
        Ok(())
    }

    /// Returns whether it has no content to read.
    pub fn is_nothing(&self) -> bool {
        ElementType::of(self.kind).is_none()
            && self.raw.is_none()
            && self.lists.is_empty()
            && !self.external
            && !self.segment
    }
}

/// Adds a dimension, a signed 64-bit number.
pub fn push_dim(shape: &mut Vec<u64>, dim: u64, limits: &Limits) -> Result<()> {
    if dim.cast_signed() < 0 {
        let message = format!("a dimension is {}", dim.cast_signed());
        return Err(Error::new(Code::BadShape, message));
    }
    limits.push_dim(shape, dim)
}

fn number(text: &str, what: &str, run: Run) -> Result<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or_else(|| {
        let message = format!("the {what} of external data is {text:?}, not a 64-bit number");
        Error::new(Code::BadIndex, message).at(run.at)
    })
}
