//! Objects of a file: their headers as messages, and the heaps that messages refer to (`HDF5 File Format Specification`, version 3.0,
//! IV.A).
//!
//! The library parses the content of most messages. This module walks headers itself, so that an unused or damaged message affects nothing
//! else, and so that datatypes retain fields that the library drops.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use hdf5_reader::btree_v2::{BTreeV2Header, BTreeV2Record, collect_btree_v2_records_storage};
use hdf5_reader::error::Error as Refusal;
use hdf5_reader::io::Cursor;
use hdf5_reader::messages::shared::{self, SharedMessage};
use ztensor_core::checked::slice;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::work::Stop;

use super::collection::{Collection, HEAP_RULE};
use super::heap::Heap;
use super::storage::{Bytes, DecodedFile, Sizes, bad, refusal};

/// Message type numbers (IV.A.2).
pub mod message {
    pub const DATASPACE: u16 = 0x01;
    pub const LINK_INFO: u16 = 0x02;
    pub const DATATYPE: u16 = 0x03;
    pub const FILL_VALUE_OLD: u16 = 0x04;
    pub const FILL_VALUE: u16 = 0x05;
    pub const LINK: u16 = 0x06;
    pub const EXTERNAL_FILES: u16 = 0x07;
    pub const LAYOUT: u16 = 0x08;
    pub const GROUP_INFO: u16 = 0x0a;
    pub const FILTERS: u16 = 0x0b;
    pub const ATTRIBUTE: u16 = 0x0c;
    pub const SHARED_TABLE: u16 = 0x0f;
    pub const CONTINUATION: u16 = 0x10;
    pub const SYMBOL_TABLE: u16 = 0x11;
    pub const ATTRIBUTE_INFO: u16 = 0x15;
}

/// The result type of the library.
pub type Parsed<T> = hdf5_reader::error::Result<T>;

/// A message of an object, with references to shared messages resolved.
#[derive(Debug)]
pub struct Message {
    pub kind: u16,
    pub bytes: Vec<u8>,
}

/// The messages of an object.
#[derive(Debug, Default)]
pub struct Object {
    pub messages: Vec<Message>,
    /// Errors while reading it.
    pub problems: Problems,
}

/// Errors about parts of an object whose other parts can be read.
#[derive(Debug, Default)]
pub struct Problems(Vec<Error>);

impl Problems {
    /// Maximum number of errors retained per object.
    const MAX: usize = 64;

    pub fn push(&mut self, error: Error) {
        if self.0.len() < Self::MAX {
            self.0.push(error);
        } else if self.0.len() == Self::MAX {
            self.0.push(bad("further parts of it cannot be read"));
        }
    }

    pub fn append(&mut self, others: Self) {
        others.0.into_iter().for_each(|error| self.push(error));
    }

    pub fn iter(&self) -> impl Iterator<Item = &Error> {
        self.0.iter()
    }

    pub fn first(&self) -> Option<&Error> {
        self.0.first()
    }

    pub fn take_first(&mut self) -> Option<Error> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }
}

impl Object {
    /// Returns the first message of a type.
    pub fn get(&self, kind: u16) -> Option<&[u8]> {
        self.all(kind).next()
    }

    pub fn all(&self, kind: u16) -> impl Iterator<Item = &[u8]> {
        self.messages.iter().filter(move |message| message.kind == kind).map(|message| &*message.bytes)
    }
}

/// An index of messages shared by several objects (III.G).
struct SharedIndex {
    kinds: u16,
    heap: u64,
}

/// A range of a header that remains to be read.
struct Run {
    bytes: Vec<u8>,
    /// The form of the prefix of each message.
    envelope: Envelope,
    /// The number of messages stated by a version 1 header.
    stated: u64,
}

#[derive(Clone, Copy)]
enum Envelope {
    /// 2-byte type and size, flags and 3 reserved bytes.
    First,
    /// 1-byte type, 2-byte size and flags; 2 more bytes if `ordered`.
    Second { ordered: bool },
}

pub struct Reader<'s> {
    pub bytes: Bytes<'s>,
    pub sizes: Sizes,
    /// The decoded bytes, if the file is compressed in another one.
    pub held: Option<DecodedFile>,
    /// Errors in the superblock extension.
    pub problems: Problems,
    stop: &'s Stop,
    shared: Vec<SharedIndex>,
    /// Global heap collections by address.
    collections: RefCell<HashMap<u64, Rc<Collection>>>,
}

const RULE: &str = "HDF5 IV.A Data Object Headers";
/// Bytes charged for a part that cannot be read: its error takes some 300. Many objects may share such parts.
const PROBLEM: u64 = 256;

impl<'s> Reader<'s> {
    /// `extension`: the address of the superblock extension, if there is one.
    pub fn new(
        bytes: Bytes<'s>,
        sizes: Sizes,
        extension: Option<u64>,
        held: Option<DecodedFile>,
        stop: &'s Stop,
    ) -> Result<Self> {
        let (shared, collections, problems) = Default::default();
        let mut reader = Self { bytes, sizes, held, problems, stop, shared, collections };
        if let Some(address) = extension.filter(|&address| reader.is_defined(address)) {
            let mut problems = Problems::default();
            let object = reader.recover(reader.object(address), &mut problems)?.unwrap_or_default();
            if let Some(table) = object.get(message::SHARED_TABLE) {
                let shared = reader.recover(reader.shared_indexes(table), &mut problems)?;
                reader.shared = shared.unwrap_or_default();
            }
            problems.append(object.problems);
            reader.problems = problems;
        }
        Ok(reader)
    }

    /// Returns whether an address is defined; all bits set means undefined.
    pub fn is_defined(&self, address: u64) -> bool {
        !Cursor::is_undefined_offset(address, self.sizes.address)
    }

    /// Parses the bytes of a message with the library.
    pub fn parse<T>(
        &self,
        bytes: &[u8],
        what: &str,
        parse: impl FnOnce(&mut Cursor<'_>, u8, u8, usize) -> Parsed<T>,
    ) -> Result<T> {
        parse(&mut Cursor::new(bytes), self.sizes.address, self.sizes.length, bytes.len())
            .map_err(|error| refusal(&error, what))
    }

    /// Returns the object whose header is at an address.
    pub fn object(&self, address: u64) -> Result<Object> {
        self.header(address, true)
    }

    /// `resolve`: whether to look up shared messages. The lookup itself does not resolve further references.
    fn header(&self, address: u64, resolve: bool) -> Result<Object> {
        self.stop.check()?;
        let named = |error: Error| error.at(self.bytes.offset(address)).rule(RULE);
        let mut object = Object::default();
        let mut visited = HashSet::new();
        let first = self.first_run(address).map_err(named)?;
        let (mut found, stated) = (0, first.stated);
        let mut runs = vec![first];
        while let Some(run) = runs.pop() {
            let mut at = 0;
            // A message that cannot be read hides only those after it.
            while let Some((kind, flags, bytes, next)) =
                self.recover(Self::next_message(&run, at).map_err(named), &mut object.problems)?.flatten()
            {
                (at, found) = (next, found + 1);
                if kind == message::CONTINUATION {
                    let run = self.follow(bytes, run.envelope, &mut visited).map_err(named);
                    runs.extend(self.recover(run, &mut object.problems)?);
                } else if flags & 2 == 0 {
                    object.messages.push(Message { kind, bytes: bytes.to_vec() });
                } else if resolve {
                    let shared = self.shared(kind, bytes).map_err(named);
                    match self.recover(shared, &mut object.problems)? {
                        Some(Some(bytes)) => object.messages.push(Message { kind, bytes }),
                        Some(None) => {
                            let message =
                                format!("a message of kind {kind} is shared with an object that has none");
                            object.problems.push(named(bad(message)));
                        }
                        None => {}
                    }
                }
            }
        }
        if found < stated && object.problems.first().is_none() {
            let message = format!("an object header states {stated} messages, but has {found}");
            object.problems.push(named(bad(message)));
        }
        Ok(object)
    }

    /// Returns what was read, or nothing if the error concerns only this object, in which case it is added to the problems. Fails if the
    /// error concerns the file.
    pub fn recover<T>(&self, read: Result<T>, problems: &mut Problems) -> Result<Option<T>> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error) if self.bytes.is_of_item(&error) => {
                self.bytes.charge(PROBLEM)?;
                problems.push(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the range of messages that a continuation refers to.
    fn follow(&self, bytes: &[u8], envelope: Envelope, visited: &mut HashSet<u64>) -> Result<Run> {
        let (from, length) = self.parse(bytes, "a continuation", |cursor, address, length, _| {
            Ok((cursor.read_offset(address)?, cursor.read_length(length)?))
        })?;
        if !visited.insert(from) {
            return Err(bad("an object header has circular continuations"));
        }
        self.continued(from, length, envelope)
    }

    fn first_run(&self, address: u64) -> Result<Run> {
        let head = self.bytes.at(address, 16)?;
        if !head.starts_with(b"OHDR") {
            let [version, _, low, high, _, _, _, _, a, b, c, d, ..] = *head else {
                return Err(bad("there is no object header"));
            };
            if version != 1 {
                let message =
                    format!("there is no object header, or one of the unsupported version {version}");
                return Err(bad(message));
            }
            let length = u32::from_le_bytes([a, b, c, d]);
            let bytes = self.bytes.at(address.saturating_add(16), length.into())?;
            let stated = u16::from_le_bytes([low, high]).into();
            return Ok(Run { bytes, envelope: Envelope::First, stated });
        }
        let [_, _, _, _, version, flags, ..] = *head else { return Err(bad("there is no object header")) };
        if version != 2 {
            return Err(Error::new(
                Code::UnsupportedVersion,
                format!("an object header of version {version}"),
            ));
        }
        let width = 1_u64 << (flags & 3);
        let before = 6 + if flags & 0x20 == 0 { 0 } else { 16 } + if flags & 0x10 == 0 { 0 } else { 4 };
        let field = self.bytes.at(address.saturating_add(before), width)?;
        let length = field.iter().rev().fold(0_u64, |length, &byte| length << 8 | u64::from(byte));
        let end = length.checked_add(before + width).ok_or_else(|| bad("an object header of 2^64 bytes"))?;
        let mut bytes = self.bytes.checked(address, end)?;
        bytes.drain(..usize::try_from(before + width).unwrap_or_default().min(bytes.len()));
        Ok(Run { bytes, envelope: Envelope::Second { ordered: flags & 4 != 0 }, stated: 0 })
    }

    /// Returns a continuation of a header.
    fn continued(&self, address: u64, length: u64, envelope: Envelope) -> Result<Run> {
        let Envelope::Second { .. } = envelope else {
            return Ok(Run { bytes: self.bytes.at(address, length)?, envelope, stated: 0 });
        };
        let held =
            length.checked_sub(4).ok_or_else(|| bad("a continuation of an object header is too short"))?;
        let mut bytes = self.bytes.checked(address, held)?;
        if !bytes.starts_with(b"OCHK") {
            return Err(bad("a continuation of an object header has no signature"));
        }
        bytes.drain(..4);
        Ok(Run { bytes, envelope, stated: 0 })
    }

    /// Returns type, flags and bytes of the message at `at` and the position of the next; `None` after the last.
    #[allow(clippy::type_complexity)] // destructured by the only caller
    fn next_message(run: &Run, at: u64) -> Result<Option<(u16, u8, &[u8], u64)>> {
        let (head, kind, size, flags) = match run.envelope {
            Envelope::First => {
                let Some(&[a, b, c, d, flags, ..]) = slice(&run.bytes, at, 8) else { return Ok(None) };
                (8, u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]), flags)
            }
            Envelope::Second { ordered } => {
                let head = if ordered { 6 } else { 4 };
                let Some(&[kind, a, b, flags, ..]) = slice(&run.bytes, at, head) else { return Ok(None) };
                (head, kind.into(), u16::from_le_bytes([a, b]), flags)
            }
        };
        let bytes = slice(&run.bytes, at + head, size.into())
            .ok_or_else(|| bad(format!("a message of {size} bytes extends past its object header")))?;
        Ok(Some((kind, flags, bytes, at + head + u64::from(size))))
    }

    /// Returns the message that another refers to, or `None` if it does not exist.
    pub fn shared(&self, kind: u16, bytes: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.parse(bytes, "a shared message", |cursor, address, length, size| {
            shared::parse(cursor, kind, address, length, size)
        })?;
        match found {
            SharedMessage::SharedInOhdr { address, .. } => {
                Ok(self.header(address, false)?.get(kind).map(<[u8]>::to_vec))
            }
            SharedMessage::SharedInSohm { heap_id, .. } => {
                let bit = match kind {
                    message::DATASPACE => 0,
                    message::DATATYPE => 1,
                    message::FILL_VALUE | message::FILL_VALUE_OLD => 2,
                    message::FILTERS => 3,
                    message::ATTRIBUTE => 4,
                    _ => return Ok(None),
                };
                let index = self.shared.iter().find(|index| index.kinds & (1 << bit) != 0);
                let index = index
                    .ok_or_else(|| bad("a message is shared, but the file has no shared message table"))?;
                let mut heap = Heap::read(&self.bytes, self.sizes, index.heap)?;
                heap.get(&self.bytes, &heap_id).map(Some)
            }
        }
    }

    /// Reads the shared message table.
    fn shared_indexes(&self, bytes: &[u8]) -> Result<Vec<SharedIndex>> {
        let what = "the shared message table";
        let (address, count) = self.parse(bytes, what, |cursor, width, _, _| {
            cursor.skip(1)?;
            Ok((cursor.read_offset(width)?, u64::from(cursor.read_u8()?)))
        })?;
        let entry = 14 + 2 * u64::from(self.sizes.address);
        let bytes = self.bytes.checked(address, 4 + count * entry)?;
        let parse = |cursor: &mut Cursor<'_>, width: u8, _, _| {
            if cursor.read_bytes(4)? != b"SMTB" {
                return Err(Refusal::InvalidData("it has no signature".to_owned()));
            }
            (0..count)
                .map(|_| {
                    cursor.skip(2)?;
                    let kinds = cursor.read_u16_le()?;
                    cursor.skip(10)?;
                    cursor.read_offset(width)?;
                    Ok(SharedIndex { kinds, heap: cursor.read_offset(width)? })
                })
                .collect()
        };
        self.parse(&bytes, what, parse).map_err(|error| error.at(self.bytes.offset(address)))
    }

    /// Returns all records of the version 2 B-tree at an address (III.A.2).
    pub fn records(&self, address: u64) -> Result<Vec<BTreeV2Record>> {
        let Sizes { address: width, length } = self.sizes;
        let (stated, records) = BTreeV2Header::parse_at_storage(&self.bytes, address, width, length)
            .and_then(|header| {
                let records =
                    collect_btree_v2_records_storage(&self.bytes, &header, width, length, None, &[], None)?;
                Ok((header.total_records, records))
            })
            .map_err(|error| self.bytes.refusal(&error, "a B-tree", address))?;
        if stated != records.len() as u64 {
            let message = format!("a B-tree states {stated} records, but has {}", records.len());
            return Err(bad(message).at(self.bytes.offset(address)));
        }
        Ok(records)
    }

    /// Returns the target of a variable-length reference (III.E), a string or elements, or `None` if the reference is null.
    pub fn referred(&self, reference: &[u8]) -> Result<Option<Vec<u8>>> {
        let (length, address, index) =
            self.parse(reference, "a reference to the global heap", |cursor, width, _, _| {
                Ok((cursor.read_u32_le()?, cursor.read_offset(width)?, cursor.read_u32_le()?))
            })?;
        if length == 0 || address == 0 || !self.is_defined(address) {
            return Ok(None);
        }
        self.bytes.charge(length.into())?;
        let known = self.collections.borrow().get(&address).cloned();
        let collection = if let Some(known) = known {
            known
        } else {
            let read = Collection::read(&self.bytes, address, self.sizes.length);
            let read = Rc::new(read.map_err(|error| error.at(self.bytes.offset(address)).rule(HEAP_RULE))?);
            self.collections.borrow_mut().insert(address, Rc::clone(&read));
            read
        };
        let object = u16::try_from(index).ok().and_then(|index| collection.object(index));
        let bytes = object.and_then(|object| slice(object, 0, length.into()));
        let bytes = bytes.ok_or_else(|| {
            bad(format!("the global heap has no object {index} of {length} bytes"))
                .at(self.bytes.offset(address))
        })?;
        Ok(Some(bytes.to_vec()))
    }
}
