//! Links of a group, in whichever of the ways that the versions of the library have stored them
//! (`HDF5 File Format Specification` III.B, III.C, IV.A.2.c and IV.A.2.g).
#![forbid(unsafe_code)]

use std::cell::OnceCell;
use std::collections::HashMap;

use hdf5_reader::btree_v1::collect_btree_v1_leaves_storage;
use hdf5_reader::btree_v2::BTreeV2Record;
use hdf5_reader::error::Error as Refusal;
use hdf5_reader::local_heap::LocalHeap;
use hdf5_reader::messages::link::{self, LinkTarget};
use hdf5_reader::messages::{link_info, symbol_table_msg};
use hdf5_reader::symbol_table::SymbolTableNode;
use ztensor_core::error::Result;

use super::heap::Heap;
use super::reader::{Object, Reader, bad, message};

/// Where a link leads.
#[derive(Clone, Debug)]
pub enum Target {
    /// To the object at an address.
    Hard(u64),
    /// To a path of the same file.
    Soft(String),
    /// To a path of another file.
    External { file: String, path: String },
    /// Only the program that made it knows.
    Unknown,
}

impl Target {
    /// Bytes of what it says.
    pub fn length(&self) -> u64 {
        let bytes = match self {
            Self::Hard(_) | Self::Unknown => 0,
            Self::Soft(path) => path.len(),
            Self::External { file, path } => file.len().saturating_add(path.len()),
        };
        bytes as u64
    }
}

#[derive(Clone, Debug)]
pub struct Link {
    pub name: String,
    pub target: Target,
    /// Its number in its group, where the group counts its links.
    order: Option<u64>,
}

/// The links of a group, by their order where they have one, else by their names.
#[derive(Debug, Default)]
pub struct Group {
    pub links: Vec<Link>,
    names: OnceCell<HashMap<String, usize>>,
}

impl Group {
    /// Whether an object is a group.
    pub fn is(object: &Object) -> bool {
        [message::SYMBOL_TABLE, message::LINK_INFO, message::LINK, message::GROUP_INFO]
            .iter()
            .any(|&kind| object.get(kind).is_some())
    }

    pub fn read(reader: &Reader<'_>, object: &Object) -> Result<Self> {
        let mut links = Vec::new();
        if let Some(table) = object.get(message::SYMBOL_TABLE) {
            symbols(reader, table, &mut links)?;
        }
        for bytes in object.all(message::LINK) {
            links.push(one(reader, bytes)?);
        }
        if let Some(info) = object.get(message::LINK_INFO) {
            dense(reader, info, &mut links)?;
        }
        if links.iter().all(|link| link.order.is_some()) {
            links.sort_by_key(|link| link.order);
        } else {
            links.sort_by(|one, other| one.name.cmp(&other.name));
        }
        Ok(Self { links, names: OnceCell::new() })
    }

    /// The link of a name.
    pub fn find(&self, name: &str) -> Option<&Link> {
        let names = self.names.get_or_init(|| {
            self.links.iter().enumerate().map(|(at, link)| (link.name.clone(), at)).collect()
        });
        self.links.get(*names.get(name)?)
    }
}

/// Reads a link message.
fn one(reader: &Reader<'_>, bytes: &[u8]) -> Result<Link> {
    let parsed = reader.parse(bytes, "a link", |cursor, address, length, size| {
        match link::parse(cursor, address, length, size) {
            Err(Refusal::UnsupportedLinkType(_)) => Ok(None),
            parsed => parsed.map(Some),
        }
    })?;
    Ok(match parsed {
        None => Link { name: String::new(), target: Target::Unknown, order: None },
        Some(found) => Link {
            name: found.name,
            order: found.creation_order,
            target: match found.target {
                LinkTarget::Hard { address } => Target::Hard(address),
                LinkTarget::Soft { path } => Target::Soft(path),
                LinkTarget::External { filename, path } => Target::External { file: filename, path },
            },
        },
    })
}

/// Links in a heap, which a B-tree of version 2 names.
fn dense(reader: &Reader<'_>, info: &[u8], links: &mut Vec<Link>) -> Result<()> {
    let info = reader.parse(info, "the links of a group", link_info::parse)?;
    if !reader.is_defined(info.fractal_heap_address) {
        return Ok(());
    }
    let mut heap = Heap::read(reader, info.fractal_heap_address)?;
    for record in reader.records(info.btree_name_index_address)? {
        let BTreeV2Record::LinkNameHash { heap_id, .. } = record else {
            return Err(bad("the index of a group has records of another kind"));
        };
        links.push(one(reader, &heap.get(reader, &heap_id)?)?);
    }
    Ok(())
}

/// Links of a group of the first version: names in a heap, addresses in the leaves of a B-tree.
fn symbols(reader: &Reader<'_>, table: &[u8], links: &mut Vec<Link>) -> Result<()> {
    /// The entry is a soft link, whose path is in the heap.
    const SOFT: u32 = 2;
    let what = "the symbol table of a group";
    let table = reader.parse(table, what, symbol_table_msg::parse)?;
    let (width, length) = (reader.sizes.address, reader.sizes.length);
    let refused = |error| reader.bytes.refusal(&error, what, table.btree_address);
    let heap =
        LocalHeap::parse_at_storage(&reader.bytes, table.heap_address, width, length).map_err(refused)?;
    let names = reader.bytes.at(heap.data_segment_address, heap.data_segment_size)?;
    let text = |offset: u64| -> Result<String> {
        let rest = usize::try_from(offset).ok().and_then(|at| names.get(at..));
        let text = rest.and_then(|rest| rest.split(|&byte| byte == 0).next());
        let text = text.ok_or_else(|| bad("a name lies beyond the heap of its group"))?;
        reader.bytes.charge(text.len() as u64)?;
        Ok(String::from_utf8_lossy(text).into_owned())
    };
    let leaves =
        collect_btree_v1_leaves_storage(&reader.bytes, table.btree_address, width, length, None, &[], None)
            .map_err(refused)?;
    for (_, address) in leaves {
        let [.., low, high] = *reader.bytes.at(address, 8)? else {
            return Err(bad("a symbol table node ends"));
        };
        let entry = 24 + 2 * u64::from(width);
        let node = reader.bytes.at(address, 8 + entry * u64::from(u16::from_le_bytes([low, high])))?;
        let node = reader
            .parse(&node, what, |cursor, width, length, _| SymbolTableNode::parse(cursor, width, length));
        for entry in node.map_err(|error| error.at(reader.bytes.offset(address)))?.entries {
            let target = if entry.cache_type == SOFT {
                let [a, b, c, d, ..] = entry.scratch;
                Target::Soft(text(u32::from_le_bytes([a, b, c, d]).into())?)
            } else {
                Target::Hard(entry.object_header_address)
            };
            links.push(Link { name: text(entry.link_name_offset)?, target, order: None });
        }
    }
    Ok(())
}
