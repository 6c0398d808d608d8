//! Links of a group, in any of the storage forms used by versions of the library (`HDF5 File Format Specification` III.B, III.C, IV.A.2.c
//! and IV.A.2.g).
#![forbid(unsafe_code)]

use std::cell::OnceCell;
use std::collections::HashMap;
use ztensor_core::arrange::Arrange;

use hdf5_reader::btree_v2::BTreeV2Record;
use hdf5_reader::error::Error as Refusal;
use hdf5_reader::local_heap::LocalHeap;
use hdf5_reader::messages::link::{self, LinkTarget};
use hdf5_reader::messages::{link_info, symbol_table_msg};
use ztensor_core::error::{NAME, Result, short};

use super::heap::Heap;
use super::reader::{Object, Problems, Reader, message};
use super::storage::bad;
use super::tree;

/// The target of a link.
#[derive(Clone, Debug)]
pub enum Target {
    /// The object at an address.
    Hard(u64),
    /// A path in the same file.
    Soft(String),
    /// A path in another file.
    External { file: String, path: String },
    /// A user-defined link, whose meaning is unknown.
    Unknown,
}

impl Target {
    /// Returns the size of its path in bytes.
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
    /// Its number in its group, if the group tracks creation order.
    order: Option<u64>,
}

/// The links of a group, in creation order if tracked, otherwise by name.
#[derive(Debug, Default)]
pub struct Group {
    pub links: Vec<Link>,
    names: OnceCell<HashMap<String, usize>>,
}

impl Group {
    /// Returns whether an object is a group. Messages about new groups count only if nothing marks the object as a dataset.
    pub fn is(object: &Object) -> bool {
        let has = |kind| object.get(kind).is_some();
        let links = [message::SYMBOL_TABLE, message::LINK_INFO, message::LINK];
        let dataset = [message::DATASPACE, message::LAYOUT];
        links.into_iter().any(has) || has(message::GROUP_INFO) && !dataset.into_iter().any(has)
    }

    /// Reads all readable links; errors are added to the problems.
    pub fn read(reader: &Reader<'_>, object: &Object, problems: &mut Problems) -> Result<Self> {
        let mut links = Vec::new();
        if let Some(table) = object.get(message::SYMBOL_TABLE) {
            let read = symbols(reader, table, &mut links, problems);
            reader.recover(read, problems)?;
        }
        for bytes in object.all(message::LINK) {
            links.extend(reader.recover(one(reader, bytes), problems)?);
        }
        if let Some(info) = object.get(message::LINK_INFO) {
            let read = dense(reader, info, &mut links, problems);
            reader.recover(read, problems)?;
        }
        if links.iter().all(|link| link.order.is_some()) {
            links.arrange_by_key(|link| link.order);
        } else {
            links.arrange_by(|one, other| one.name.cmp(&other.name));
        }
        Ok(Self { links, names: OnceCell::new() })
    }

    /// Returns the link with this name.
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

/// Reads links in a heap, which a version 2 B-tree indexes.
fn dense(reader: &Reader<'_>, info: &[u8], links: &mut Vec<Link>, problems: &mut Problems) -> Result<()> {
    let info = reader.parse(info, "the links of a group", link_info::parse)?;
    if !reader.is_defined(info.fractal_heap_address) {
        return Ok(());
    }
    let mut heap = Heap::read(&reader.bytes, reader.sizes, info.fractal_heap_address)?;
    for record in reader.records(info.btree_name_index_address)? {
        let BTreeV2Record::LinkNameHash { heap_id, .. } = record else {
            return Err(bad("the index of a group has records of the wrong type"));
        };
        let link = heap.get(&reader.bytes, &heap_id).and_then(|bytes| one(reader, &bytes));
        links.extend(reader.recover(link, problems)?);
    }
    Ok(())
}

/// Reads the links of a version 1 group: names in a heap, addresses in the leaves of a B-tree.
fn symbols(reader: &Reader<'_>, table: &[u8], links: &mut Vec<Link>, problems: &mut Problems) -> Result<()> {
    /// The entry is a soft link, whose path is in the heap.
    const SOFT: u32 = 2;
    let table = reader.parse(table, "the symbol table of a group", symbol_table_msg::parse)?;
    let (width, length) = (reader.sizes.address, reader.sizes.length);
    let heap = LocalHeap::parse_at_storage(&reader.bytes, table.heap_address, width, length)
        .map_err(|error| reader.bytes.refusal(&error, "the names of a group", table.heap_address))?;
    let names = reader.bytes.at(heap.data_segment_address, heap.data_segment_size)?;
    let text = |offset: u64| -> Result<String> {
        let rest = usize::try_from(offset).ok().and_then(|at| names.get(at..));
        let text = rest.and_then(|rest| rest.split(|&byte| byte == 0).next());
        let text = text.filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| bad("a link of a group has no name in its heap"))?;
        reader.bytes.charge(text.len() as u64)?;
        Ok(String::from_utf8_lossy(text).into_owned())
    };
    let leaves = tree::leaves(&reader.bytes, reader.sizes, table.btree_address, None)?;
    leaves.problem.into_iter().for_each(|problem| problems.push(problem));
    for ((_, address), last) in leaves.entries.into_iter().zip(leaves.last) {
        let Some(entries) = reader.recover(node(reader, address), problems)? else { continue };
        // The tree stores the last name of each node, without which lookups fail.
        let behind = entries.last().map(|entry| text(entry.name));
        if let (Ok(last), Some(Ok(name))) = (text(last), behind)
            && name.as_bytes() < last.as_bytes()
        {
            let message = format!("a node of a group ends before its last name, {:?}", short(&last, NAME));
            problems.push(bad(message).at(reader.bytes.offset(address)));
        }
        for entry in entries {
            let link = text(entry.name).and_then(|name| {
                let target = if entry.cache_type == SOFT {
                    Target::Soft(text(entry.scratch.into())?)
                } else {
                    Target::Hard(entry.address)
                };
                Ok(Link { name, target, order: None })
            });
            let link = link.map_err(|error| error.at(reader.bytes.offset(address)));
            links.extend(reader.recover(link, problems)?);
        }
    }
    Ok(())
}

/// A symbol table entry (III.C). The offset of its name is as wide as a length, as written by the HDF Group's library; the specification
/// and `hdf5-reader` define it as an address.
struct Entry {
    name: u64,
    address: u64,
    cache_type: u32,
    scratch: u32,
}

/// Returns the entries of the symbol table node at an address.
fn node(reader: &Reader<'_>, address: u64) -> Result<Vec<Entry>> {
    let &[b'S', b'N', b'O', b'D', version, _, low, high] = &*reader.bytes.at(address, 8)? else {
        return Err(bad("a node of a group has no signature").at(reader.bytes.offset(address)));
    };
    if version != 1 {
        let message = format!("a node of a group has the unsupported version {version}");
        return Err(bad(message).at(reader.bytes.offset(address)));
    }
    let count = u64::from(u16::from_le_bytes([low, high]));
    let width = 24 + u64::from(reader.sizes.address) + u64::from(reader.sizes.length);
    let bytes = reader.bytes.at(address.saturating_add(8), width * count)?;
    reader.parse(&bytes, "the symbol table of a group", |cursor, address, length, _| {
        let entry = |_| {
            let (name, address) = (cursor.read_length(length)?, cursor.read_offset(address)?);
            let cache_type = cursor.read_u32_le()?;
            cursor.skip(4)?;
            let scratch = cursor.read_u32_le()?;
            cursor.skip(12)?;
            Ok(Entry { name, address, cache_type, scratch })
        };
        (0..count).map(entry).collect()
    })
}
