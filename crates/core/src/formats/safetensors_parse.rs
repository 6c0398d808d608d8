//! safetensors: the size of a JSON header in 8 bytes, the header, and a byte buffer that the tensors fill without
//! holes. The parser is as strict as the reference implementation, and stricter where the specification is: it rejects
//! duplicate names and a header that does not begin with `{`.
#![forbid(unsafe_code)]

use super::Input;
use crate::arrange::Arrange;
use crate::checked::{exact, u64_le};
use crate::error::{Code, Error, Result};
use crate::layouts;
use crate::limits::{self, Limits};
use crate::model::{
    Attributes, Builder, Catalog, Component, Container, DType, Label, Layout, NewTensor, Tensor,
};
use crate::sources::owned::Owned;
use crate::syntax::Keys;
use crate::syntax::json::{Reader, Unique};
use crate::syntax::repeats::{Draft, Spellings};
use crate::syntax::values::Event;

/// The key of the metadata among the tensors.
pub const METADATA: &str = "__metadata__";
pub const CONTAINER: Container = Container::named("safetensors");
const RULE: &str = "safetensors Format";
const BUFFER_RULE: &str = "safetensors Format: the byte buffer is entirely indexed";
/// The number of bytes before the header.
pub(super) const PREFIX: u64 = 8;
/// The typical size in bytes of a header entry, to estimate the number of tensors: a name of 30 to 40 bytes and the
/// rest.
const ENTRY_BYTES: usize = 96;

/// Parses a safetensors file.
pub fn parse(input: &Input<'_>) -> Result<Catalog> {
    parse_index(&read_header(input)?, input.length(), input.limits)
}

/// Reads the header without the size before it.
pub(super) fn read_header(input: &Input<'_>) -> Result<Owned> {
    let (total, limits) = (input.length(), input.limits);
    if total < PREFIX {
        let message = format!(
            "{total} bytes are too few for a safetensors file, which begins with 8 bytes of header size"
        );
        return Err(Error::new(Code::Truncated, message).rule(RULE));
    }
    let size = u64_le(&input.read_vec(0, PREFIX)?, 0).unwrap_or_default();
    let limit = limits.max_index_bytes.unwrap_or(limits::SAFETENSORS_INDEX_BYTES);
    // Checked before the limit: raising the limit would not help here.
    if size > total - PREFIX {
        let message =
            format!("the header should be {size} bytes, the file has {} after its size", total - PREFIX);
        return Err(Error::new(Code::Truncated, message).at(0).rule(RULE));
    }
    if size > limit {
        let message = format!("the header is {size} bytes, more than the {limit} allowed");
        return Err(Error::new(Code::Limit, message).option("maxIndexBytes").at(0).rule(RULE));
    }
    input.read_owned(PREFIX, size)
}

/// Returns the catalog of the header `bytes` of a file of `total` bytes.
pub fn parse_index(bytes: &[u8], total: u64, limits: &Limits) -> Result<Catalog> {
    if bytes.first() != Some(&b'{') {
        return Err(Error::new(Code::BadIndex, "the header does not begin with '{'").at(PREFIX).rule(RULE));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = PREFIX + error.valid_up_to() as u64;
        Error::new(Code::BadIndex, "the header is not valid UTF-8").at(at).rule(RULE)
    })?;
    let data = PREFIX + bytes.len() as u64;
    let mut builder = Builder::new(CONTAINER, limits);
    builder.reserve(bytes.len() / ENTRY_BYTES);
    let mut entries = Entries::default();
    let mut has_metadata = false;
    let mut reader = Reader::new(text, PREFIX);
    let read = reader.object("'{'", Unique::ByCaller, |reader, name| {
        if name == METADATA {
            if std::mem::replace(&mut has_metadata, true) {
                return Err(reader
                    .error("\"__metadata__\" appears twice")
                    .rule("safetensors Format: duplicate keys"));
            }
            let attributes = metadata(reader, limits)?;
            builder.set_attributes(attributes);
            return Ok(());
        }
        let added = entries
            .next(reader, limits)
            .and_then(|entry| entry.add(&entries.shape, &mut builder, name, data));
        added.map_err(|error| error.tensor(name).rule(RULE))
    });
    read.and_then(|()| reader.end()).map_err(|error| error.rule(RULE))?;
    let catalog = builder.finish();
    without_holes(&catalog, data, total - data)?;
    Ok(catalog)
}

/// Reads the metadata: a map of strings to strings.
fn metadata(reader: &mut Reader<'_>, limits: &Limits) -> Result<Attributes> {
    if reader.null() {
        return Ok(Attributes::default());
    }
    let start = reader.position();
    let mut count = 0;
    texts(reader, Unique::Here, |_, _| {
        if count >= limits.max_attribute_values {
            return Err(Error::new(Code::Limit, "too many entries of metadata").option("maxAttributeValues"));
        }
        count += 1;
        Ok(())
    })?;
    if count == 0 {
        return Ok(Attributes::default());
    }
    let object: Box<str> = reader.text_from(start).into();
    Ok(Attributes::lazy(move |to| {
        texts(&mut Reader::new(&object, 0), Unique::ByCaller, |key, value| {
            to.visit(Event::Text(key))?;
            to.visit(Event::Text(value))
        })
    }))
}

/// Calls `each` for each key and value of an object of strings.
fn texts(
    reader: &mut Reader<'_>,
    unique: Unique,
    mut each: impl FnMut(&str, &str) -> Result<()>,
) -> Result<()> {
    reader.object("the object of \"__metadata__\"", unique, |reader, key| {
        each(key, &reader.string("a string, as all metadata is")?)
    })
}

/// Reads the entries of tensors. Most of them are spelled like an earlier one.
#[derive(Default)]
struct Entries<'a> {
    /// The shape of the last entry, in memory shared by all of them.
    shape: Vec<u64>,
    draft: Draft,
    known: Spellings<'a, (DType, Vec<u64>)>,
}

/// The numbers that differ between entries of one spelling.
const BEGIN: usize = 0;
const END: usize = 1;

impl<'a> Entries<'a> {
    /// Reads the next entry and its shape.
    fn next(&mut self, reader: &mut Reader<'a>, limits: &Limits) -> Result<Entry> {
        if let Some((&(dtype, ref shape), filling)) = self.known.read(reader)
            && let [Some(begin), Some(end), _] = filling.numbers
        {
            self.shape.clone_from(shape);
            return Ok(Entry { dtype, begin, end });
        }
        self.draft.begin(reader);
        let entry = Entry::read(reader, &mut self.shape, &mut self.draft, limits)?;
        if let Some(spelling) = self.draft.spelling(reader) {
            self.known.add(spelling, (entry.dtype, self.shape.clone()));
        }
        Ok(entry)
    }
}

/// The entry of a tensor without its shape.
struct Entry {
    dtype: DType,
    begin: u64,
    end: u64,
}

impl Entry {
    fn read(
        reader: &mut Reader<'_>,
        shape: &mut Vec<u64>,
        draft: &mut Draft,
        limits: &Limits,
    ) -> Result<Self> {
        let (mut dtype, mut has_shape, mut offsets) = (None, false, None);
        let mut unknown = Keys::default();
        reader.object("the object of a tensor", Unique::ByCaller, |reader, key| {
            let twice = match &**key {
                "dtype" => dtype.replace(dtype_of(&reader.string("a dtype")?)?).is_some(),
                "shape" => {
                    dims(reader, shape, limits)?;
                    std::mem::replace(&mut has_shape, true)
                }
                "data_offsets" => offsets.replace(span(reader, draft)?).is_some(),
                _ => {
                    reader.skip()?;
                    !unknown.insert(key.clone())
                }
            };
            if twice { Err(reader.twice(key)) } else { Ok(()) }
        })?;
        let missing = |key: &str| reader.error(format!("the tensor has no {key:?}"));
        let (begin, end) = offsets.ok_or_else(|| missing("data_offsets"))?;
        let dtype = dtype.ok_or_else(|| missing("dtype"))?;
        if !has_shape {
            return Err(missing("shape"));
        }
        Ok(Self { dtype, begin, end })
    }

    fn add(self, shape: &[u64], builder: &mut Builder, name: &str, data: u64) -> Result<()> {
        let offset = data.checked_add(self.begin);
        let (Some(offset), Some(length)) = (offset, self.end.checked_sub(self.begin)) else {
            let message = format!("data_offsets [{}, {}] are no range", self.begin, self.end);
            return Err(Error::new(Code::BadIndex, message).rule(BUFFER_RULE));
        };
        let dtype = Some(self.dtype);
        let mut components = builder.no_components();
        components.push(Component::raw(Label::DATA, dtype, offset, exact(length, "the data")?));
        let mut tensor =
            NewTensor { name, shape, layout: Layout::Dense, dtype, components, attributes: None };
        layouts::check(&mut tensor)?;
        builder.add_tensor(tensor)
    }
}

fn dims(reader: &mut Reader<'_>, dims: &mut Vec<u64>, limits: &Limits) -> Result<()> {
    dims.clear();
    reader.array("the array of a shape", |reader| limits.push_dim(dims, reader.uint("a dimension")?))
}

fn span(reader: &mut Reader<'_>, draft: &mut Draft) -> Result<(u64, u64)> {
    let mut offsets = [0; 2];
    let mut count = 0;
    reader.array("the array of data_offsets", |reader| {
        let offset = draft.number(reader, if count == 0 { BEGIN } else { END }, "an offset")?;
        *offsets.get_mut(count).ok_or_else(|| reader.error("data_offsets holds more than 2 offsets"))? =
            offset;
        count += 1;
        Ok(())
    })?;
    if count < 2 {
        return Err(reader.error("data_offsets holds fewer than 2 offsets"));
    }
    Ok((offsets[0], offsets[1]))
}

/// The names of the reference implementation 0.8, the most common ones first.
const DTYPES: [(&str, DType); 22] = [
    ("BF16", DType::BFloat16),
    ("F32", DType::Float32),
    ("F16", DType::Float16),
    ("I64", DType::Int64),
    ("U8", DType::Uint8),
    ("I32", DType::Int32),
    ("F8_E4M3", DType::Float8E4M3Fn),
    ("F8_E5M2", DType::Float8E5M2),
    ("F8_E8M0", DType::Float8E8M0Fnu),
    ("BOOL", DType::Bool),
    ("F4", DType::Float4E2M1Fn),
    ("F6_E2M3", DType::Float6E2M3Fn),
    ("F6_E3M2", DType::Float6E3M2Fn),
    ("I8", DType::Int8),
    ("F8_E4M3FNUZ", DType::Float8E4M3Fnuz),
    ("F8_E5M2FNUZ", DType::Float8E5M2Fnuz),
    ("I16", DType::Int16),
    ("U16", DType::Uint16),
    ("U32", DType::Uint32),
    ("C64", DType::Complex64),
    ("F64", DType::Float64),
    ("U64", DType::Uint64),
];

fn dtype_of(text: &str) -> Result<DType> {
    let found = DTYPES.iter().find(|(name, _)| *name == text).map(|&(_, dtype)| dtype);
    found.ok_or_else(|| Error::new(Code::BadDtype, format!("{text:?} is not a dtype of safetensors")))
}

/// Returns the safetensors name of a dtype; `None` if the format does not support it.
pub fn name_of(dtype: DType) -> Option<&'static str> {
    DTYPES.iter().find(|(_, known)| *known == dtype).map(|&(name, _)| name)
}

/// Checks that the tensors, sorted by offset, follow each other from the first byte of the buffer, which begins at
/// `data`, to the last.
fn without_holes(catalog: &Catalog, data: u64, buffer: u64) -> Result<()> {
    let span = |tensor: Tensor<'_>| {
        let component = tensor.components().first();
        component.map_or((0, 0), |component| (component.offset() - data, component.stored_length()))
    };
    // Both are offsets from the header, so the sum cannot overflow.
    let follow = |expected, tensor| {
        let (begin, length) = span(tensor);
        if begin == expected { Ok(begin + length) } else { Err((expected, begin, tensor)) }
    };
    // Nearly all headers list the tensors in this order.
    let expected = catalog.iter().try_fold(0, follow).or_else(|_| {
        let mut tensors: Vec<_> = catalog.iter().collect();
        tensors.arrange_by_key(|&tensor| span(tensor));
        tensors.into_iter().try_fold(0, follow)
    });
    let expected = expected.map_err(|(expected, begin, tensor)| {
        let what = if begin > expected { "leaves a hole behind" } else { "overlaps" };
        let message = format!("begins at {begin} of the byte buffer and {what} what ends at {expected}");
        Error::new(Code::BadIndex, message).tensor(tensor.name()).rule(BUFFER_RULE)
    })?;
    if expected > buffer {
        let message =
            format!("the tensors need {expected} bytes of data, the file has {buffer}: it is truncated");
        return Err(Error::new(Code::Truncated, message).rule(BUFFER_RULE));
    }
    if expected < buffer {
        let message = format!("{} bytes follow the data of the last tensor", buffer - expected);
        return Err(Error::new(Code::BadIndex, message).rule(BUFFER_RULE));
    }
    Ok(())
}
