//! Record batches (`Message.fbs`, `RecordBatch`): locates the values of each column, batch by batch.
#![forbid(unsafe_code)]

use ciborium::Value;
use ztensor_core::checked::{exact, product};
use ztensor_core::codecs::prefixed::PrefixedCodec;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::Input;
use ztensor_core::layouts;
use ztensor_core::model::{
    Blob, Builder, ByteOrder, Component, DType, Data, Encoding, Filter, Label, Layout, NewTensor, Piece,
    Strided, View,
};

use super::dtypes::{Buffers, Element};
use super::lists::{Compression, Lists, Offsets};
use super::message::{Buffer, Message};
use super::schema::{Column, Dim, Each, Schema, Slot};
use crate::damage;
use crate::flatbuffer::{Flat, Table, Vector};
use crate::names::Names;

const RULE: &str = "Arrow Columnar Format: RecordBatch message";

/// What was found for a column.
#[derive(Default)]
struct ColumnData {
    pieces: Vec<Piece>,
    elements: u64,
    nulls: Nulls,
    /// Why its values cannot be located in a batch.
    lost: Option<Error>,
}

/// The nulls of a column.
#[derive(Default)]
struct Nulls {
    /// Number of values that are null by themselves.
    own: u64,
    /// Number of lists, and of structs, around the values that are null.
    lists: u64,
    structs: u64,
    /// The validity bitmaps of a single batch: of the values, and of the lists and structs around them, from inside out.
    validity: Option<Blob>,
    validity_around: Vec<Option<Blob>>,
}

/// A slot of the current batch.
struct Filled {
    length: u64,
    /// The number of elements of a child for each of its own; `None` if that varies.
    times: Option<u64>,
    nulls: u64,
    /// Its bitmap, if it has nulls.
    validity: Option<Blob>,
}

/// The columns of a table.
pub struct Columns {
    schema: Schema,
    found: Vec<ColumnData>,
    lists: Lists,
    slots: Vec<Filled>,
    rows: u64,
    batches: u64,
    /// Whether the warning about batch metadata was emitted.
    has_warned: bool,
}

/// The compression of a batch.
struct Packing {
    values: Encoding,
    bits: Encoding,
    /// `None` if it is unknown.
    inner: Option<PrefixedCodec>,
}

impl Columns {
    pub fn new(mut schema: Schema) -> Self {
        let lists = Lists::new(std::mem::take(&mut schema.lists));
        let found = schema.columns.iter().map(|_| ColumnData::default()).collect();
        Self { schema, found, lists, slots: Vec::new(), rows: 0, batches: 0, has_warned: false }
    }

    /// Adds the locations of a batch's values.
    pub fn add(&mut self, input: &Input<'_>, message: &mut Message<'_>, builder: &mut Builder) -> Result<()> {
        let at = message.at;
        if message.has_metadata && !self.has_warned {
            self.has_warned = true;
            builder.warn("ZT_WARN_SKIPPED", "batches have custom metadata, which is not read", None, None);
        }
        self.batch(input, message, builder).map_err(|error| error.rule(RULE).at(at))
    }

    fn batch(&mut self, input: &Input<'_>, message: &mut Message<'_>, builder: &mut Builder) -> Result<()> {
        let (flat, table, body) = (&mut message.flat, message.header, message.body);
        let bad = |message: String| Error::new(Code::BadIndex, message);
        let rows = u64::try_from(flat.i64(table, 0)?)
            .map_err(|_| bad("a batch has a negative length".to_owned()))?;
        let nothing = Vector { at: 0, count: 0, width: 16 };
        let nodes = flat.vector(table, 1, 16)?.unwrap_or(nothing);
        let buffers = flat.vector(table, 2, 16)?.unwrap_or(nothing);
        let packing = packing(flat, table, builder)?;
        if nodes.count != self.schema.slots.len() as u64 {
            let message =
                format!("a batch has {} nodes, the schema {}", nodes.count, self.schema.slots.len());
            return Err(bad(message));
        }
        let mut views = flat.positions(table, 4, 8)?;
        let mut next = 0_u64;
        self.slots.clear();
        for (slot, position) in self.schema.slots.iter().zip(nodes.positions()) {
            let node: [u8; 16] = flat.array(position)?;
            let (length, nulls) = pair(node);
            let length =
                u64::try_from(length).map_err(|_| bad("a column has a negative length".to_owned()))?;
            let expected = match slot.parent.and_then(|parent| self.slots.get(parent)) {
                None => Some(rows),
                Some(&Filled { times: None, .. }) => None,
                Some(outer) => {
                    let all = outer.times.and_then(|times| outer.length.checked_mul(times));
                    Some(all.ok_or_else(|| bad("a list has more than 2^64 values".to_owned()))?)
                }
            };
            let lists = above(&self.schema.slots, slot).filter(|&outer| {
                matches!(self.schema.slots.get(outer), Some(Slot { each: Each::Offsets(_), .. }))
            });
            if let Some(expected) = expected.filter(|&expected| expected != length) {
                match lists.clone().next() {
                    Some(list) => self.lists.reject(list),
                    None => {
                        return Err(bad(format!("a column has {length} values in a batch, not {expected}")));
                    }
                }
            }
            let is_irregular = lists.clone().any(|list| self.lists.is_irregular(list));
            let first = next;
            next += match slot.buffers {
                Buffers::Count(count) => count,
                Buffers::Union(count) => count + u64::from(message.version < 5),
                Buffers::Views => {
                    let count = views
                        .next()
                        .map(|position| flat.array(position).map(i64::from_le_bytes))
                        .transpose()?;
                    let count = count.and_then(|count| u64::try_from(count).ok());
                    let count = count.filter(|&count| count <= buffers.count);
                    2 + count.ok_or_else(|| {
                        bad("a column of views does not state its number of buffers".to_owned())
                    })?
                }
            };
            if next > buffers.count {
                return Err(bad(format!(
                    "a batch has {} buffers, fewer than the schema requires",
                    buffers.count
                )));
            }
            let validity = match slot.buffers {
                Buffers::Count(0) | Buffers::Union(_) => Buffer::default(),
                _ => body.buffer(flat.array(buffers.at + first * 16)?)?,
            };
            // Without a validity bitmap nothing is null. A negative count means that nulls were not counted.
            let own = if validity.length == 0 || nulls == 0 { 0 } else { nulls.unsigned_abs() };
            let bits = packing.as_ref().map(|packing| packing.values);
            let bitmap = (own > 0).then(|| blob(validity, length.div_ceil(8), bits));
            let times = match slot.each {
                Each::Count(times) => Some(times),
                Each::Varies => None,
                Each::Offsets(_) if is_irregular => None,
                Each::Offsets(width) => {
                    let buffer = body.buffer(flat.array(buffers.at + (first + 1) * 16)?)?;
                    let compression = match &packing {
                        None => Compression::None,
                        Some(packing) => packing.inner.map_or(Compression::Unknown, Compression::Known),
                    };
                    let is_big = self.schema.byte_order == ByteOrder::Big;
                    let offsets = Offsets { buffer, width, is_big, compression };
                    self.lists.add(self.slots.len(), length, offsets, input)?
                }
            };
            self.slots.push(Filled { length, times, nulls: own, validity: bitmap });
            let Some(column) = slot.column.filter(|_| !is_irregular) else { continue };
            let values = body.buffer(flat.array(buffers.at + (first + 1) * 16)?);
            let (Some(found), Some(Column { element, name, .. })) =
                (self.found.get_mut(column), self.schema.columns.get(column))
            else {
                continue;
            };
            let slots = &self.schema.slots;
            let outer =
                above(slots, slot).filter_map(|outer| Some((self.slots.get(outer)?, slots.get(outer)?)));
            found.nulls.add(self.slots.last(), outer, self.batches == 0);
            found.elements = found
                .elements
                .checked_add(length)
                .ok_or_else(|| bad("a column has more than 2^64 values".to_owned()))?;
            let piece = values.and_then(|values| piece(*element, values, length, packing.as_ref(), builder));
            match piece {
                Ok(piece) => found.pieces.extend(piece),
                Err(error) if error.is_of_item() => {
                    found.lost.get_or_insert(error);
                }
                Err(error) => return Err(error.tensor(name)),
            }
        }
        if next != buffers.count {
            return Err(bad(format!("a batch has {} buffers, the schema requires {next}", buffers.count)));
        }
        self.rows =
            self.rows.checked_add(rows).ok_or_else(|| bad("the table has more than 2^64 rows".to_owned()))?;
        self.batches += 1;
        exact(self.rows, "the number of rows").map(drop)
    }

    /// Adds a tensor for each column.
    pub fn finish(self, builder: &mut Builder, names: &mut Names) -> Result<()> {
        let Self { schema, found, lists, rows, .. } = self;
        builder.reserve(schema.columns.len());
        lists.warn(builder);
        for (column, found) in schema.columns.into_iter().zip(found) {
            let dims = column.dims.iter().map(|&dim| match dim {
                Dim::Of(size) => Some(size),
                Dim::Lists(slot) => lists.length(slot),
            });
            let Some(dims) = std::iter::once(Some(rows)).chain(dims).collect::<Option<Vec<u64>>>() else {
                continue;
            };
            let name = names.unique(builder, &column.name);
            if let Some(error) = found.lost {
                damage::report(builder, &name, &error.rule(RULE));
                continue;
            }
            let order = schema.byte_order;
            let added = tensor(builder, &name, column, found, &dims, |component| {
                component.byte_order = order;
            });
            added.map_err(|error| error.tensor(&name).rule(RULE))?;
        }
        Ok(())
    }
}

/// Returns the slots around a slot, from inside out.
fn above<'s>(slots: &'s [Slot], slot: &Slot) -> impl Iterator<Item = usize> + Clone + use<'s> {
    std::iter::successors(slot.parent, |&outer| slots.get(outer)?.parent)
}

impl Nulls {
    /// Adds those of a batch. Bitmaps of several batches are no single component, so there are none then.
    fn add<'f>(
        &mut self,
        own: Option<&Filled>,
        around: impl Iterator<Item = (&'f Filled, &'f Slot)>,
        is_first: bool,
    ) {
        (self.validity, self.validity_around) = (None, Vec::new());
        self.own = self.own.saturating_add(own.map_or(0, |own| own.nulls));
        if is_first {
            self.validity = own.and_then(|own| own.validity.clone());
        }
        for (outer, slot) in around {
            let count = if slot.is_struct { &mut self.structs } else { &mut self.lists };
            *count = count.saturating_add(outer.nulls);
            if is_first {
                self.validity_around.push(outer.validity.clone());
            }
        }
    }

    /// Returns the number of lists and structs around the values that are null.
    fn around(&self) -> u64 {
        self.lists.saturating_add(self.structs)
    }

    /// Returns a message, or `None` if nothing is null.
    fn message(&self) -> Option<String> {
        let counts = [(self.own, "value"), (self.lists, "list"), (self.structs, "struct")];
        let all = counts.iter().fold(0_u64, |sum, &(count, _)| sum.saturating_add(count));
        let counts = counts.into_iter().filter(|&(count, _)| count > 0);
        let named =
            counts.map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }));
        let named: Vec<String> = named.collect();
        let verb = if all == 1 { "is" } else { "are" };
        (all > 0).then(|| {
            format!(
                "{} of the column {verb} null, and the bytes there are undefined: it has no values here, and its components can be read",
                named.join(" and ")
            )
        })
    }
}

fn tensor(
    builder: &mut Builder,
    name: &str,
    column: Column,
    found: ColumnData,
    dims: &[u64],
    arrange: impl Fn(&mut Component),
) -> Result<()> {
    let Column { element, order, mut attributes, .. } = column;
    let shape: Vec<u64> = std::iter::once(0)
        .chain(order.iter().map(|&dim| dim + 1))
        .map(|dim| dims.get(dim).copied().unwrap_or_default())
        .collect();
    let data = Data::pieces(1, found.pieces)?;
    let data = match data {
        Data::Pieces(pieces) if pieces.all().is_empty() => Data::Blob(Blob::raw(0, 0)),
        data => data,
    };
    let (mut dtype, width) = match element {
        Element::Of(dtype) => (Some(dtype), u64::from(dtype.bits() / 8)),
        Element::Bool => (Some(DType::Bool), 1),
        Element::Untyped(width, kind) => {
            let message = format!("{kind} has no dtype here; the bytes can be read");
            builder.warn("ZT_WARN_UNKNOWN_TYPE", message, Some(name), None);
            attributes.push((Value::from("type"), Value::from(kind)));
            (None, width)
        }
    };
    let mut component = Component::new(Label::DATA, dtype, data);
    arrange(&mut component);
    if order.iter().enumerate().any(|(at, &dim)| at != dim) {
        component.view = permuted(dims, &order, width)?;
    }
    let mut components = builder.no_components();
    let mut layout = Layout::Dense;
    if let Some(message) = found.nulls.message() {
        let around = found.nulls.around();
        let Nulls { own, validity, validity_around, .. } = found.nulls;
        builder.warn("ZT_WARN_UNKNOWN_LAYOUT", message, Some(name), None);
        attributes.push((Value::from("nulls"), Value::from(own)));
        if around > 0 {
            attributes.push((Value::from("outer_nulls"), Value::from(around)));
        }
        component.role = Label::VALUES;
        (layout, dtype) = (Layout::Other(builder.intern("arrow.nullable/1")), None);
        components.push(component);
        let roles = ["validity".to_owned(), "outer_validity".to_owned()].into_iter();
        let roles = roles.chain((2..).map(|level| format!("outer_validity.{level}")));
        let bitmaps = std::iter::once(validity).chain(validity_around);
        for (role, bitmap) in roles.zip(bitmaps) {
            if let Some(bitmap) = bitmap {
                components.push(Component::new(builder.intern(&role), None, Data::Blob(bitmap)));
            }
        }
    } else {
        components.push(component);
    }
    let attributes = (!attributes.is_empty()).then(|| attributes.into());
    let mut tensor = NewTensor { name, shape: &shape, layout, dtype, components, attributes };
    layouts::check(&mut tensor)?;
    builder.add_tensor(tensor)
}

/// Returns the view of a tensor whose dimensions are stored in another order; the first is the rows.
fn permuted(dims: &[u64], order: &[usize], width: u64) -> Result<View> {
    let too_large = || Error::new(Code::Limit, "the tensor has more than 2^64 bytes").of_item();
    let stride = |dim: usize| {
        product(dims.get(dim + 1..).unwrap_or_default())
            .and_then(|inner| inner.checked_mul(width))
            .ok_or_else(too_large)
    };
    let all = std::iter::once(0).chain(order.iter().map(|&dim| dim + 1));
    let loops = all.map(|dim| Ok((dims.get(dim).copied().unwrap_or_default(), stride(dim)?)));
    Ok(View::Strided(Box::new(Strided { start: 0, run: width, loops: loops.collect::<Result<_>>()? })))
}

/// Returns where the values of a column are in a batch, or `None` if there are none.
fn piece(
    element: Element,
    values: Buffer,
    length: u64,
    packing: Option<&Packing>,
    builder: &mut Builder,
) -> Result<Option<Piece>> {
    let (bytes, stored) = match element {
        Element::Of(dtype) => {
            let bytes = length.checked_mul(u64::from(dtype.bits() / 8));
            (bytes, bytes)
        }
        Element::Bool => (Some(length), Some(length.div_ceil(8))),
        Element::Untyped(width, _) => (length.checked_mul(width), length.checked_mul(width)),
    };
    let (Some(bytes), Some(stored)) = (bytes, stored) else {
        return Err(Error::new(Code::Limit, "a column has more than 2^64 bytes").of_item());
    };
    exact(bytes, "the number of bytes")?;
    if bytes == 0 {
        return Ok(None);
    }
    let is_bool = element == Element::Bool;
    let encoding = match packing {
        Some(packing) => Some(if is_bool { packing.bits } else { packing.values }),
        None => is_bool.then(|| {
            let bits = Filter::named(builder.intern("bits"));
            builder.encoding(&[bits], true)
        }),
    };
    let held = if packing.is_some() { u64::from(values.length > 8) } else { values.length };
    let needed = if packing.is_some() { 1 } else { stored };
    if held < needed {
        let message = format!("{length} values need {stored} bytes, their buffer has {}", values.length);
        return Err(Error::new(Code::BadShape, message).at(values.at));
    }
    let stored = if packing.is_some() { values.length } else { stored };
    let blob = blob(Buffer { length: stored, ..values }, bytes, encoding);
    Ok(Some(Piece { blob, run: bytes }))
}

/// Returns a blob that decodes to this many bytes.
fn blob(buffer: Buffer, bytes: u64, encoding: Option<Encoding>) -> Blob {
    match encoding {
        Some(encoding) => Blob { encoding, decoded: Some(bytes), ..Blob::raw(buffer.at, buffer.length) },
        None => Blob::raw(buffer.at, bytes.min(buffer.length)),
    }
}

fn packing(flat: &mut Flat<'_>, table: Table, builder: &mut Builder) -> Result<Option<Packing>> {
    let Some(compression) = flat.table(table, 3)? else { return Ok(None) };
    let (name, inner) = match (flat.u8(compression, 0)?, flat.u8(compression, 1)?) {
        (0, 0) => ("arrow.lz4", Some(PrefixedCodec::Lz4)),
        (1, 0) => ("arrow.zstd", Some(PrefixedCodec::Zstd)),
        _ => ("arrow.unknown", None),
    };
    let known = inner.is_some();
    let (packed, bits) = (Filter::named(builder.intern(name)), Filter::named(builder.intern("bits")));
    let values = builder.encoding(std::slice::from_ref(&packed), known);
    Ok(Some(Packing { values, inner, bits: builder.encoding(&[bits, packed], known) }))
}

/// Returns the two numbers of a node.
fn pair(bytes: [u8; 16]) -> (i64, i64) {
    let both = u128::from_le_bytes(bytes);
    #[expect(clippy::cast_possible_truncation)] // each half by itself
    ((both as u64).cast_signed(), ((both >> 64) as u64).cast_signed())
}
