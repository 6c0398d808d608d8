//! One array of a sparse tensor in a nameless file, read block by block.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::sync::Arc;

use crate::checked;
use crate::error::{Code, Error, Result};
use crate::kernels::swap::swap_bytes;
use crate::layouts::records::{self, Records};
use crate::model::{ByteOrder, Component, DType, Part};
use crate::sinks::Spool;
use crate::write::sparse::Array;

/// Bytes of records read at once.
const RECORDS: u64 = 4 << 20;

/// One array of the tensor, wherever it lies in the spool.
pub struct Column {
    spool: Arc<Spool>,
    /// The blob in the spool.
    start: u64,
    end: u64,
    part: Part,
    dtype: DType,
    big: bool,
    /// Bytes of the array.
    length: u64,
}

impl Column {
    /// The array that a component is of the blob that stands in a spool from `start` to `end`.
    pub fn new(spool: Arc<Spool>, part: &Component, (start, end): (u64, u64)) -> Result<Self> {
        let total = end - start;
        let place = match part.part.as_deref() {
            None => Part::Range { start: 0, length: total },
            Some(Part::InBlob(array)) => array.place(total)?.0,
            Some(place) => *place,
        };
        let length = match place {
            Part::Range { length, .. } => Some(length),
            Part::Records(records) => records.byte_length(),
            Part::InBlob(_) => None,
        };
        let dtype =
            part.dtype.ok_or_else(|| Error::new(Code::BadDtype, "the type of an array is not known"))?;
        let length = length.ok_or_else(outside)?;
        let big = part.byte_order == ByteOrder::Big && part.inline.is_none();
        Ok(Self { spool, start, end, part: place, dtype, big, length })
    }

    fn fill(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        let at = self.start.checked_add(at).ok_or_else(outside)?;
        checked::end_within(at, bytes.len() as u64, self.end).ok_or_else(outside)?;
        self.spool.read_at(at, bytes)
    }

    /// Elements stand field by field, each field in `count` records.
    fn gather(&self, records: Records, first: u64, mut out: &mut [u8]) -> Result<()> {
        let mut at = first;
        while !out.is_empty() {
            let (field, record) = (at / records.count.max(1), at % records.count.max(1));
            let wanted = out.len() as u64 / records.width.max(1);
            let room = (RECORDS / records.stride.max(1)).max(1);
            let count = (records.count - record).min(wanted).min(room);
            let begin = record.checked_mul(records.stride).and_then(|at| at.checked_add(records.start));
            let begin = begin.and_then(|at| at.checked_add(field * records.width)).ok_or_else(outside)?;
            let length = (count - 1) * records.stride + records.width;
            let mut input = vec![0; checked::index(length, "records")?];
            self.fill(begin, &mut input)?;
            let (now, later) = out.split_at_mut(checked::index(count * records.width, "a block")?);
            records::from_records(&input, Records { start: 0, fields: 1, count, ..records }, now)?;
            out = later;
            at += count;
        }
        Ok(())
    }
}

impl Array for Column {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn read(&self, first: u64, count: u64) -> Result<Cow<'_, [u8]>> {
        let bits = u64::from(self.dtype.bits());
        let mut bytes = vec![0; checked::index((count * bits).div_ceil(8), "a block")?];
        match self.part {
            Part::Records(records) => self.gather(records, first, &mut bytes)?,
            Part::Range { start, .. } => self.fill(start.saturating_add(first * bits / 8), &mut bytes)?,
            Part::InBlob(_) => return Err(outside()),
        }
        if self.big {
            swap_bytes(&mut bytes, self.dtype.element_bytes());
        }
        Ok(Cow::Owned(bytes))
    }
}

fn outside() -> Error {
    Error::new(Code::Decode, "the decoded blob is shorter than its parts")
}
