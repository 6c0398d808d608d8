//! A repeated field of numbers or strings: its location and its possible number of entries. Nothing is decoded.
#![forbid(unsafe_code)]

use ztensor_core::codecs::protobuf::{BYTES, FIXED32, FIXED64, LONGEST, NAME, VARINT};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::model::{Blob, Builder, Data, Filter};

use super::dtypes::Listed;
use crate::protobuf::{Field, Run, Value};

pub struct List {
    pub listed: Listed,
    /// From the first entry's tag to the end of the last; other fields may lie between.
    pub whole: Run,
    /// The numbers, if they are contiguous and fixed-size.
    plain: Option<Run>,
    /// Minimum and maximum number of entries: varints have one to ten bytes.
    pub min: u64,
    pub max: u64,
}

impl List {
    pub fn new(listed: Listed) -> Self {
        Self { listed, whole: Run::default(), plain: None, min: 0, max: 0 }
    }

    /// Adds the entries of a field. As in all protobuf libraries, a field with a different wire type is not part of the list.
    pub fn add(&mut self, field: &Field) -> Result<()> {
        let (run, min, max) = match (field.value, self.listed.wire) {
            (Value::Varint(_), VARINT) | (Value::Bytes(_), BYTES) => (None, 1, 1),
            (Value::Fixed(run), FIXED32) if run.length() == 4 => (Some(run), 1, 1),
            (Value::Fixed(run), FIXED64) if run.length() == 8 => (Some(run), 1, 1),
            (Value::Bytes(run), VARINT) => (None, run.length().div_ceil(LONGEST as u64), run.length()),
            (Value::Bytes(run), FIXED32 | FIXED64) => {
                let width = u64::from(self.listed.bits / 8);
                if !run.length().is_multiple_of(width) {
                    let message = format!("{} bytes are not a multiple of {width} bytes", run.length());
                    return Err(Error::new(Code::BadIndex, message).at(run.at));
                }
                (Some(run), run.length() / width, run.length() / width)
            }
            _ => return Ok(()),
        };
        let first = self.whole == Run::default();
        self.plain = run.filter(|_| first);
        self.whole = Run { at: if first { field.whole.at } else { self.whole.at }, end: field.whole.end };
        // Each is at most the size of the file.
        self.min += min;
        self.max += max;
        Ok(())
    }

    /// Records the number of entries in `bytes` bytes of packed varints that were added.
    pub fn counted(&mut self, bytes: u64, entries: u64) {
        self.min = self.min.saturating_sub(bytes.div_ceil(LONGEST as u64)).saturating_add(entries);
        self.max = self.max.saturating_sub(bytes).saturating_add(entries);
    }

    /// Returns whether it may have this many entries.
    pub fn may_have(&self, entries: u64) -> bool {
        (self.min..=self.max).contains(&entries)
    }

    /// Returns the data of the entries, `bits` of each, `bytes` in total: a range if they are contiguous, otherwise for the codec to
    /// extract.
    pub fn data(&self, builder: &mut Builder, bits: u32, bytes: u64) -> Data {
        let Run { at, .. } = self.whole;
        if self.listed.wire == BYTES {
            return Data::Blob(Blob::raw(at, self.whole.length()));
        }
        if let Some(run) = self.plain {
            return Data::Blob(Blob::raw(run.at, run.length()));
        }
        let Listed { field, wire, .. } = self.listed;
        let filter = Filter { name: builder.intern(NAME), parameters: Box::new([field, wire, bits]) };
        let encoding = builder.encoding(&[filter], true);
        Data::Blob(Blob { encoding, decoded: Some(bytes), ..Blob::raw(at, self.whole.length()) })
    }
}
