//! Version 1 B-trees (`HDF5 File Format Specification` III.A.1) of groups and of chunks, which have no checksums.
//!
//! The library parses nodes. This module walks the tree, because the library skips children without an address and nodes of a wrong level.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use hdf5_reader::btree_v1::{BTreeV1Key, BTreeV1Node};
use hdf5_reader::io::Cursor;
use ztensor_core::error::{Error, Result};

use super::storage::{Bytes, refusal};
use super::storage::{Sizes, bad};

/// The entries of the leaves of a tree, in order.
pub struct Leaves {
    /// The key before each child, and its address.
    pub entries: Vec<(BTreeV1Key, u64)>,
    /// For a group, the key after each child, which refers to its last name.
    pub last: Vec<u64>,
    /// The error of the first node that cannot be read.
    pub problem: Option<Error>,
}

/// Reads a tree. `rank`: dimensions of a dataset for chunks; `None` for a group.
pub fn leaves(bytes: &Bytes<'_>, sizes: Sizes, root: u64, rank: Option<u32>) -> Result<Leaves> {
    let mut all = Leaves { entries: Vec::new(), last: Vec::new(), problem: None };
    let mut visited = HashSet::new();
    // Each with the level stated by its parent.
    let mut next = vec![(root, None)];
    while let Some((address, level)) = next.pop() {
        let node = if visited.insert(address) {
            node(bytes, sizes, address, rank, level)
        } else {
            Err(bad("a B-tree contains a node twice"))
        };
        let node = match node {
            Ok(node) => node,
            Err(error) if bytes.is_of_item(&error) => {
                all.problem.get_or_insert(error.at(bytes.offset(address)));
                continue;
            }
            Err(error) => return Err(error),
        };
        if let Some(below) = node.level.checked_sub(1) {
            next.extend(node.children.iter().rev().map(|&child| (child, Some(below))));
        } else {
            all.last.extend(node.keys.iter().skip(1).filter_map(|key| match key {
                BTreeV1Key::Group { local_heap_offset } => Some(*local_heap_offset),
                BTreeV1Key::RawData { .. } => None,
            }));
            all.entries.extend(node.keys.into_iter().zip(node.children));
        }
    }
    Ok(all)
}

fn node(
    bytes: &Bytes<'_>,
    sizes: Sizes,
    address: u64,
    rank: Option<u32>,
    level: Option<u8>,
) -> Result<BTreeV1Node> {
    if Cursor::is_undefined_offset(address, sizes.address) {
        return Err(bad("a B-tree has a node without an address"));
    }
    let width = u64::from(sizes.address);
    let head = bytes.at(address, 8 + 2 * width)?;
    let &[b'T', b'R', b'E', b'E', kind, found, low, high, ..] = &*head else {
        return Err(bad("a node of a B-tree has no signature"));
    };
    if kind != u8::from(rank.is_some()) {
        return Err(bad(format!("a B-tree has the wrong type {kind}")));
    }
    if level.is_some_and(|level| level != found) {
        return Err(bad(format!("a node of a B-tree has level {found}, which does not match its parent")));
    }
    // A chunk key consists of a size, a filter mask and 8-byte offsets, including one within an element.
    let key = rank.map_or(u64::from(sizes.length), |rank| 8 + 8 * (u64::from(rank) + 1));
    let count = u64::from(u16::from_le_bytes([low, high]));
    let all = bytes.at(address, 8 + 2 * width + (count + 1) * key + count * width)?;
    BTreeV1Node::parse(&mut Cursor::new(&all), sizes.address, sizes.length, rank)
        .map_err(|error| refusal(&error, "a B-tree"))
}
