//! A schema (`Schema.fbs`), flattened: a slot for each field in the order of a batch's nodes, and a column for each resulting tensor.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashSet};
use ztensor_core::arrange::Arrange;

use ciborium::Value;
use ztensor_core::checked::product;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::limits::Limits;
use ztensor_core::model::{Builder, ByteOrder};
use ztensor_core::syntax::json::{Reader, Unique};

use super::dtypes::{self, Buffers, Element, SCHEMA, Type};
use crate::flatbuffer::{Flat, Table};
use crate::limits::{ARROW_DEPTH, ARROW_METADATA_BYTES, FLATBUFFER_NAME_BYTES};

/// Keys and values of metadata.
pub type Metadata = Vec<(Value, Value)>;

/// A field of a batch: one node and some buffers.
pub struct Slot {
    pub buffers: Buffers,
    pub parent: Option<usize>,
    pub each: Each,
    pub is_struct: bool,
    pub column: Option<usize>,
}

/// The number of elements of a child for each element of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Each {
    Count(u64),
    /// Stated by offsets of this many bytes.
    Offsets(u64),
    Varies,
}

/// A dimension of a column.
#[derive(Clone, Copy)]
pub enum Dim {
    Of(u64),
    /// The length of the lists of a slot, if all have the same.
    Lists(usize),
}

/// A column of numbers, or a part of a struct column.
pub struct Column {
    pub name: String,
    pub element: Element,
    /// Dimensions in storage order, without the rows.
    pub dims: Vec<Dim>,
    /// The index into `dims` of each dimension of the tensor.
    pub order: Vec<usize>,
    pub attributes: Metadata,
}

pub struct Schema {
    pub slots: Vec<Slot>,
    pub columns: Vec<Column>,
    /// The slots of lists that columns depend on, with their names.
    pub lists: BTreeMap<usize, String>,
    pub byte_order: ByteOrder,
    pub metadata: Metadata,
}

/// The position of a field in a schema.
struct Position<'p> {
    /// The path of the parent field, followed by a dot.
    path: &'p str,
    parent: Option<usize>,
    dims: Vec<Dim>,
    order: Vec<usize>,
    /// Whether it and all its parents have fixed-size values, or lists that may all have the same length.
    is_regular: bool,
    /// Whether its values belong to a parent list.
    is_item: bool,
    attributes: Metadata,
    depth: u32,
}

struct Walk<'w, 's> {
    flat: &'w mut Flat<'s>,
    builder: &'w mut Builder,
    limits: &'w Limits,
    slots: Vec<Slot>,
    columns: Vec<Column>,
    lists: BTreeMap<usize, String>,
}

impl Schema {
    /// Reads the table `Schema`. Fields that cannot be tensors yield a warning.
    pub fn read(flat: &mut Flat<'_>, table: Table, builder: &mut Builder) -> Result<Self> {
        let limits = *builder.limits();
        let byte_order = match flat.i16(table, 0)? {
            0 => ByteOrder::Little,
            1 => ByteOrder::Big,
            other => {
                let message = format!("the endianness {other} is neither little nor big");
                return Err(flat.error(Code::BadIndex, table.at, message));
            }
        };
        let metadata = metadata(flat, table, 2, builder)?;
        let fields = flat.positions(table, 1, 4)?;
        let (slots, columns, lists) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut walk = Walk { flat, builder, limits: &limits, slots, columns, lists };
        for parent in fields {
            let field = walk.flat.table_at(parent)?;
            let at = Position {
                path: "",
                parent: None,
                dims: Vec::new(),
                order: Vec::new(),
                is_regular: true,
                is_item: false,
                attributes: Vec::new(),
                depth: ARROW_DEPTH,
            };
            walk.field(field, at)?;
        }
        let Walk { slots, columns, mut lists, .. } = walk;
        let used = columns.iter().flat_map(|column| &column.dims);
        let used: HashSet<usize> =
            used.filter_map(|dim| if let Dim::Lists(slot) = dim { Some(*slot) } else { None }).collect();
        lists.retain(|slot, _| used.contains(slot));
        Ok(Self { slots, columns, lists, byte_order, metadata })
    }
}

impl Walk<'_, '_> {
    fn field(&mut self, field: Table, mut at: Position<'_>) -> Result<()> {
        let Some(depth) = at.depth.checked_sub(1) else {
            let message = format!("fields are nested more than {ARROW_DEPTH} deep");
            return Err(self.flat.error(Code::Limit, field.at, message));
        };
        let own = self.flat.text(field, 0, FLATBUFFER_NAME_BYTES)?.unwrap_or_default();
        let name = if at.is_item { at.path.to_owned() } else { format!("{}{own}", at.path) };
        // The paths of nested fields repeat the names of their parents.
        self.flat.charge(name.len() as u64)?;
        let mut kind = dtypes::read(self.flat, field, 2)?;
        let encoded = self.flat.table(field, 4)?.is_some();
        if encoded {
            kind = Type::Other(Buffers::Count(2), "dictionary-encoded");
        }
        let own = metadata(self.flat, field, 6, self.builder)?;
        let shaped = at.is_regular.then(|| fixed_shape(&own)).flatten();
        at.attributes.extend(own);
        let slot = self.slots.len();
        let buffers = match kind {
            Type::Plain(_) | Type::List(_) => Buffers::Count(2),
            Type::FixedSizeList(_) | Type::Struct => Buffers::Count(1),
            Type::Other(buffers, _) => buffers,
        };
        let each = match kind {
            Type::FixedSizeList(size) => Each::Count(size),
            Type::Struct => Each::Count(1),
            Type::List(width) => Each::Offsets(width),
            Type::Plain(_) | Type::Other(..) => Each::Varies,
        };
        let is_struct = matches!(kind, Type::Struct);
        self.slots.push(Slot { buffers, parent: at.parent, each, is_struct, column: None });
        let (mut is_regular, mut is_item) = (at.is_regular, false);
        match kind {
            Type::Plain(element) if is_regular => return self.column(name, element, at),
            Type::FixedSizeList(size) => {
                is_item = true;
                self.dims(&mut at, size, shaped, &name)?;
            }
            Type::List(_) if is_regular => {
                is_item = true;
                self.lists.insert(slot, name.clone());
                at.order.push(at.order.len());
                at.dims.push(Dim::Lists(slot));
                self.check_rank(&at, &name)?;
            }
            Type::Struct => {
                if at.is_item || !at.dims.is_empty() {
                    at.attributes.clear();
                }
            }
            Type::Other(_, what) if is_regular => {
                let message = format!("the column {name:?} is {what}: it is not a tensor");
                self.builder.warn("ZT_WARN_SKIPPED", message, None, None);
                is_regular = false;
            }
            Type::Plain(_) | Type::List(_) | Type::Other(..) => is_regular = false,
        }
        // The values of a dictionary are in separate batches.
        if encoded {
            return Ok(());
        }
        let path = if is_item { name } else { format!("{name}.") };
        for parent in self.flat.positions(field, 5, 4)? {
            let child = self.flat.table_at(parent)?;
            let at = Position {
                path: &path,
                parent: Some(slot),
                dims: at.dims.clone(),
                order: at.order.clone(),
                is_regular,
                is_item,
                attributes: if is_item { at.attributes.clone() } else { Vec::new() },
                depth,
            };
            self.field(child, at)?;
        }
        Ok(())
    }

    fn column(&mut self, name: String, element: Element, at: Position<'_>) -> Result<()> {
        if let Some(slot) = self.slots.last_mut() {
            slot.column = Some(self.columns.len());
        }
        if at.dims.len() >= self.limits.max_rank as usize {
            let message = format!("a column has more than {} dimensions", self.limits.max_rank);
            return Err(Error::new(Code::Limit, message).option("maxRank").tensor(&name).rule(SCHEMA));
        }
        let Position { dims, order, attributes, .. } = at;
        self.columns.push(Column { name, element, dims, order, attributes });
        Ok(())
    }

    /// Adds the dimensions of a list of `size` values to a parent.
    fn dims(&mut self, at: &mut Position<'_>, size: u64, shaped: Option<Shaped>, name: &str) -> Result<()> {
        let first = at.order.len();
        match shaped {
            Some(Shaped::Is(dims, order)) if product(&dims) == Some(size) => {
                at.order.extend(order.iter().map(|&dim| first + dim));
                at.dims.extend(dims.into_iter().map(Dim::Of));
            }
            other => {
                if other.is_some() {
                    let message = format!("its shape does not have {size} values: it is read as lists");
                    self.builder.warn("ZT_WARN_SKIPPED", message, Some(name), None);
                }
                at.order.push(first);
                at.dims.push(Dim::Of(size));
            }
        }
        self.check_rank(at, name)
    }

    fn check_rank(&self, at: &Position<'_>, name: &str) -> Result<()> {
        if at.dims.len() > self.limits.max_rank as usize {
            let message = format!("a column has more than {} dimensions", self.limits.max_rank);
            return Err(Error::new(Code::Limit, message).option("maxRank").tensor(name).rule(SCHEMA));
        }
        Ok(())
    }
}

/// The shape stated by the extension type `arrow.fixed_shape_tensor`.
enum Shaped {
    Is(Vec<u64>, Vec<usize>),
    /// Its metadata is invalid.
    Bad,
}

fn fixed_shape(metadata: &Metadata) -> Option<Shaped> {
    let text = |key: &str| {
        let found = metadata.iter().find(|(name, _)| name.as_text() == Some(key));
        found.and_then(|(_, value)| value.as_text())
    };
    if text("ARROW:extension:name") != Some("arrow.fixed_shape_tensor") {
        return None;
    }
    let read = text("ARROW:extension:metadata").and_then(|text| shape_of(text).ok());
    let Some((dims, order)) = read else { return Some(Shaped::Bad) };
    let order = if order.is_empty() { (0..dims.len()).collect() } else { order };
    let mut sorted = order.clone();
    sorted.arrange();
    let is_order = sorted.iter().copied().eq(0..dims.len());
    Some(if is_order { Shaped::Is(dims, order) } else { Shaped::Bad })
}

fn shape_of(text: &str) -> Result<(Vec<u64>, Vec<usize>)> {
    let (mut dims, mut order) = (Vec::new(), Vec::new());
    let mut json = Reader::new(text, 0);
    json.object("the metadata", Unique::Here, |json, key| match &**key {
        "shape" => json.array("a shape", |json| json.uint("a dimension").map(|dim| dims.push(dim))),
        "permutation" => json.array("a permutation", |json| {
            let dim = json.uint("a dimension")?;
            order.push(usize::try_from(dim).unwrap_or(usize::MAX));
            Ok(())
        }),
        _ => json.skip(),
    })?;
    json.end()?;
    Ok((dims, order))
}

/// Returns keys and values. The first value of a duplicate key wins.
pub fn metadata(flat: &mut Flat<'_>, table: Table, field: u16, builder: &mut Builder) -> Result<Metadata> {
    let mut entries = Vec::new();
    let mut seen = HashSet::new();
    for parent in flat.positions(table, field, 4)? {
        let entry = flat.table_at(parent)?;
        if entries.len() >= builder.limits().max_attribute_values as usize {
            let message = "the metadata has more values than allowed";
            return Err(flat.error(Code::Limit, entry.at, message).option("maxAttributeValues"));
        }
        let key = flat.text(entry, 0, FLATBUFFER_NAME_BYTES)?.unwrap_or_default();
        let value = flat.bytes(entry, 1, ARROW_METADATA_BYTES)?.unwrap_or_default();
        if !seen.insert(key.clone()) {
            let message = format!("the metadata key {key:?} occurs twice: the first value is used");
            builder.warn("ZT_WARN_SKIPPED", message, None, None);
            continue;
        }
        let value =
            String::from_utf8(value).map_or_else(|bytes| Value::Bytes(bytes.into_bytes()), Value::Text);
        entries.push((Value::Text(key), value));
    }
    Ok(entries)
}
