//! FlatBuffers tables (flatbuffers.dev, Internals), read field by field. Offsets must stay within the file, and every byte read counts
//! toward a limit, so that tables shared by many others have a bounded cost. Knows no schema.
#![forbid(unsafe_code)]

use ztensor_core::checked;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::sources::ReadAt;
use ztensor_core::work::Stop;

const RULE: &str = "FlatBuffers: internals";
/// Bytes per read, and number of cached reads: a table, its vtable, the vector that refers to it and the data it refers to.
const WINDOW: u64 = 8 << 10;
const WINDOWS: usize = 8;
/// Bytes charged for every access in addition to those read.
const LOOK: u64 = 8;

/// The location of a table and its fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Table {
    pub at: u64,
    /// Size of the table in bytes, starting at `at`.
    bytes: u64,
    vtable: u64,
    /// Size of the vtable in bytes.
    slots: u64,
}

/// A vector that lies entirely within the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vector {
    /// Position of the first element.
    pub at: u64,
    pub count: u64,
    /// Bytes per element.
    pub width: u64,
}

impl Vector {
    /// Iterates over the positions of the elements.
    pub fn positions(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |index| self.at + index * self.width)
    }

    /// Returns the position of an element, or `None` if the index is out of range.
    pub fn position(self, index: u64) -> Option<u64> {
        (index < self.count).then(|| self.at + index * self.width)
    }

    pub fn byte_length(self) -> u64 {
        self.count * self.width
    }
}

struct Window {
    from: u64,
    bytes: Vec<u8>,
}

/// Reads the tables of a source. Positions are relative to the source.
pub struct Flat<'s> {
    source: Option<&'s dyn ReadAt>,
    stop: &'s Stop,
    total: u64,
    /// The offset of the source in its file, for error messages.
    base: u64,
    max: u64,
    looked_at: u64,
    windows: Vec<Window>,
    last: usize,
    next: usize,
}

impl<'s> Flat<'s> {
    /// Creates a reader that fails with `ZT_LIMIT` after reading more than `max` bytes.
    pub fn new(source: &'s dyn ReadAt, stop: &'s Stop, max: u64) -> Self {
        Self {
            source: Some(source),
            stop,
            total: source.length(),
            base: 0,
            max,
            looked_at: 0,
            windows: Vec::new(),
            last: 0,
            next: 0,
        }
    }

    /// Creates a reader for a buffer at offset `base` of a file. It may be read 16 times on average.
    pub fn of_bytes(bytes: Vec<u8>, base: u64, stop: &'s Stop) -> Self {
        let total = bytes.len() as u64;
        let max = total.saturating_mul(16).saturating_add(WINDOW);
        let windows = vec![Window { from: 0, bytes }];
        Self { source: None, stop, total, base, max, looked_at: 0, windows, last: 0, next: 0 }
    }

    /// Returns the root table, which the first four bytes refer to. Fails with `ZT_BAD_INDEX` if there is none.
    pub fn root(&mut self) -> Result<Table> {
        self.table_at(0)
    }

    /// Returns the table that the offset at `position` refers to.
    pub fn table_at(&mut self, position: u64) -> Result<Table> {
        let at = self.follow(position)?;
        let back = i32::from_le_bytes(self.array(at)?);
        let vtable = at.checked_add_signed(-i64::from(back));
        let vtable =
            vtable.ok_or_else(|| self.bad(at, "the vtable of a table lies before the start of the file"))?;
        let slots = u64::from(u16::from_le_bytes(self.array(vtable)?));
        let bytes = u64::from(u16::from_le_bytes(self.array(vtable.saturating_add(2))?));
        let is_whole = checked::end_within(vtable, slots, self.total).is_some()
            && checked::end_within(at, bytes, self.total).is_some();
        if slots < 4 || bytes < 4 || !slots.is_multiple_of(2) || !is_whole {
            return Err(self.bad(at, "a table does not match its vtable"));
        }
        Ok(Table { at, bytes, vtable, slots })
    }

    /// Returns the position of a field of `width` bytes, or `None` if the table does not have it.
    pub fn position(&mut self, table: Table, field: u16, width: u64) -> Result<Option<u64>> {
        let slot = 4 + u64::from(field) * 2;
        if slot >= table.slots {
            return Ok(None);
        }
        let offset = u64::from(u16::from_le_bytes(self.array(table.vtable + slot)?));
        if offset == 0 {
            return Ok(None);
        }
        if offset < 4 || checked::end_within(offset, width, table.bytes).is_none() {
            return Err(self.bad(table.at, &format!("field {field} lies outside its table")));
        }
        Ok(Some(table.at + offset))
    }

    /// Returns a number of `N` bytes, or `default` if the field is missing.
    fn number<const N: usize, T>(
        &mut self,
        t: Table,
        field: u16,
        of: fn([u8; N]) -> T,
        default: T,
    ) -> Result<T> {
        match self.position(t, field, N as u64)? {
            Some(position) => self.array(position).map(of),
            None => Ok(default),
        }
    }

    pub fn u8(&mut self, table: Table, field: u16) -> Result<u8> {
        self.number(table, field, u8::from_le_bytes, 0)
    }

    pub fn i16(&mut self, table: Table, field: u16) -> Result<i16> {
        self.number(table, field, i16::from_le_bytes, 0)
    }

    pub fn i32(&mut self, table: Table, field: u16) -> Result<i32> {
        self.number(table, field, i32::from_le_bytes, 0)
    }

    pub fn u32(&mut self, table: Table, field: u16) -> Result<u32> {
        self.number(table, field, u32::from_le_bytes, 0)
    }

    pub fn i64(&mut self, table: Table, field: u16) -> Result<i64> {
        self.number(table, field, i64::from_le_bytes, 0)
    }

    pub fn u64(&mut self, table: Table, field: u16) -> Result<u64> {
        self.number(table, field, u64::from_le_bytes, 0)
    }

    pub fn table(&mut self, table: Table, field: u16) -> Result<Option<Table>> {
        self.position(table, field, 4)?.map(|position| self.table_at(position)).transpose()
    }

    /// Returns a vector with elements of `width` bytes. Fails with `ZT_TRUNCATED` if it extends past the end of the file.
    pub fn vector(&mut self, table: Table, field: u16, width: u64) -> Result<Option<Vector>> {
        let Some(position) = self.position(table, field, 4)? else { return Ok(None) };
        let head = self.follow(position)?;
        let count = u64::from(u32::from_le_bytes(self.array(head)?));
        let at = head + 4;
        let bytes = count.checked_mul(width);
        if bytes.and_then(|bytes| checked::end_within(at, bytes, self.total)).is_none() {
            let message = format!("a vector of {count} elements goes beyond the end");
            return Err(self.error(Code::Truncated, head, message));
        }
        Ok(Some(Vector { at, count, width }))
    }

    /// Iterates over the positions of a vector's elements. A missing vector has none.
    pub fn positions(
        &mut self,
        table: Table,
        field: u16,
        width: u64,
    ) -> Result<impl Iterator<Item = u64> + use<>> {
        let none = Vector { at: 0, count: 0, width };
        Ok(self.vector(table, field, width)?.unwrap_or(none).positions())
    }

    /// Returns a string. Fails with `ZT_BAD_INDEX` if it is not UTF-8, and with `ZT_LIMIT` if it is longer than `max` bytes.
    pub fn text(&mut self, table: Table, field: u16, max: u64) -> Result<Option<String>> {
        let Some(bytes) = self.bytes(table, field, max)? else { return Ok(None) };
        let text = String::from_utf8(bytes).map_err(|_| self.bad(table.at, "a string is not valid UTF-8"))?;
        Ok(Some(text))
    }

    /// Returns the bytes of a string or byte vector.
    pub fn bytes(&mut self, table: Table, field: u16, max: u64) -> Result<Option<Vec<u8>>> {
        let Some(vector) = self.vector(table, field, 1)? else { return Ok(None) };
        if vector.count > max {
            let message = format!("a string has {} bytes, the maximum is {max}", vector.count);
            return Err(self.error(Code::Limit, vector.at, message));
        }
        self.look(vector.at, vector.count).map(|bytes| Some(bytes.to_vec()))
    }

    /// Returns `length` bytes at a position.
    pub fn run(&mut self, at: u64, length: u64) -> Result<Vec<u8>> {
        self.look(at, length).map(<[u8]>::to_vec)
    }

    /// Returns `N` bytes at a position.
    pub fn array<const N: usize>(&mut self, at: u64) -> Result<[u8; N]> {
        let bytes = self.look(at, N as u64)?;
        Ok(bytes.try_into().unwrap_or([0; N]))
    }

    fn follow(&mut self, position: u64) -> Result<u64> {
        let offset = u64::from(u32::from_le_bytes(self.array(position)?));
        let at = position.checked_add(offset).filter(|&at| at < self.total && offset > 0);
        at.ok_or_else(|| {
            let message = format!("an offset of {offset} points outside the file");
            self.error(if offset > 0 { Code::Truncated } else { Code::BadIndex }, position, message)
        })
    }

    /// Reads bytes that must exist in the source and counts them toward the limit.
    fn look(&mut self, at: u64, count: u64) -> Result<&[u8]> {
        self.charge(count.saturating_add(LOOK))?;
        if checked::end_within(at, count, self.total).is_none() {
            return Err(self.error(Code::Truncated, at, format!("{count} bytes are beyond the end")));
        }
        let holds = |window: &Window| {
            at.checked_sub(window.from).is_some_and(|skipped| {
                checked::end_within(skipped, count, window.bytes.len() as u64).is_some()
            })
        };
        if !self.windows.get(self.last).is_some_and(holds) {
            self.last = match self.windows.iter().position(holds) {
                Some(found) => found,
                None => self.fetch(at, count)?,
            };
        }
        let window = self.windows.get(self.last);
        Ok(window
            .and_then(|window| checked::slice(&window.bytes, at - window.from, count))
            .unwrap_or_default())
    }

    #[cold]
    fn fetch(&mut self, at: u64, count: u64) -> Result<usize> {
        self.stop.check()?;
        let Some(source) = self.source else {
            return Err(self.bad(at, "bytes are missing from the buffer"));
        };
        let length = WINDOW.max(count).min(self.total - at);
        let mut bytes = vec![0; checked::index(length, "a part of the index")?];
        source.read_at(at, &mut bytes, self.stop)?;
        let window = Window { from: at, bytes };
        let slot = self.next;
        self.next = (slot + 1) % WINDOWS;
        match self.windows.get_mut(slot) {
            Some(old) => *old = window,
            None => self.windows.push(window),
        }
        Ok(slot)
    }

    /// Counts bytes as read.
    pub fn charge(&mut self, bytes: u64) -> Result<()> {
        self.looked_at = self.looked_at.saturating_add(bytes);
        if self.looked_at <= self.max {
            return Ok(());
        }
        let message = format!(
            "reading the tables takes more than {} bytes: many tables share the same parts, or the index is larger than \
             allowed",
            self.max
        );
        Err(self.error(Code::Limit, 0, message).option("maxIndexBytes"))
    }

    fn bad(&self, at: u64, message: &str) -> Error {
        self.error(Code::BadIndex, at, message)
    }

    /// Builds an error at a position of the source.
    pub fn error(&self, code: Code, at: u64, message: impl Into<String>) -> Error {
        Error::new(code, message).at(self.base.saturating_add(at)).rule(RULE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root table with two fields: a 2-byte number and a string.
    const SMALL: [u8; 32] = [
        12, 0, 0, 0, // root
        8, 0, 12, 0, 8, 0, 4, 0, // vtable: 8 bytes, table of 12, fields at 8 and 4
        8, 0, 0, 0, // table at 12: vtable 8 before
        8, 0, 0, 0, // offset of the text: 16 + 8
        7, 0, 0, 0, // the number
        2, 0, 0, 0, b'h', b'i', 0, 0, // the text
    ];

    #[test]
    fn present_and_absent_fields() {
        let mut flat = Flat::of_bytes(SMALL.to_vec(), 0, Stop::never());
        let root = flat.root().unwrap();
        assert_eq!(flat.i16(root, 0).unwrap(), 7);
        assert_eq!(flat.i64(root, 9).unwrap(), 0);
        assert_eq!(flat.text(root, 1, 10).unwrap().unwrap(), "hi");
        assert_eq!(flat.text(root, 1, 1).unwrap_err().code(), Code::Limit);
        assert_eq!(flat.i64(root, 0).unwrap_err().code(), Code::BadIndex);
        let source = &SMALL[..];
        let mut flat = Flat::new(&source, Stop::never(), 1000);
        let root = flat.root().unwrap();
        assert_eq!(flat.text(root, 1, 10).unwrap().unwrap(), "hi");
    }

    #[test]
    fn any_damage_is_an_error_and_none_is_a_panic() {
        let read = |bytes: &[u8]| {
            let mut flat = Flat::of_bytes(bytes.to_vec(), 100, Stop::never());
            let root = flat.root()?;
            flat.i16(root, 0)?;
            flat.vector(root, 1, 8)?;
            flat.table(root, 1)?;
            flat.text(root, 1, 10)
        };
        for at in 0..SMALL.len() {
            assert!(read(&SMALL[..at]).is_err());
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = SMALL;
                damaged[at] = value;
                drop(read(&damaged));
            }
        }
    }

    #[test]
    fn inspections_are_limited() {
        let mut flat = Flat::of_bytes(SMALL.to_vec(), 0, Stop::never());
        let mut looks = std::iter::repeat_with(|| flat.root()).take(10_000);
        assert_eq!(looks.find_map(Result::err).unwrap().code(), Code::Limit);
    }
}
