//! One array of a sparse tensor in a nameless file, read block by block.
#![forbid(unsafe_code)]

use crate::checked;
use crate::error::{Code, Error, Result};
use crate::kernels::swap::swap_bytes;
use crate::layouts::indices::Indices;
use crate::model::cut::Cut;
use crate::model::{Component, DType, Strided, View};
use crate::sinks::Spool;

/// Elements handled at a time: so many of any type end at a whole byte.
pub const BLOCK: u64 = 64 << 10;
/// Bytes of records read at once.
const RECORDS: u64 = 4 << 20;

/// Where the array stands in its blob.
#[derive(Clone, Copy)]
enum Place {
    /// From this byte on.
    Run(u64),
    Records(Records),
}

/// Fields of `width` bytes in each of `count` records, which begin `stride` bytes apart.
#[derive(Clone, Copy)]
struct Records {
    start: u64,
    stride: u64,
    width: u64,
    count: u64,
}

/// One array of the tensor, wherever it lies in the spool.
pub struct Column<'a> {
    spool: &'a Spool,
    /// The blob in the spool.
    start: u64,
    end: u64,
    place: Place,
    pub dtype: DType,
    big: bool,
    /// Bytes of the array.
    pub length: u64,
}

impl<'a> Column<'a> {
    /// The array that a component is of the blob that stands in a spool from `start` to `end`.
    pub fn new(spool: &'a Spool, part: &Component, (start, end): (u64, u64)) -> Result<Self> {
        let total = end - start;
        let view = match &part.view {
            View::Counted(counted) => counted.view(total)?,
            view => view.clone(),
        };
        let (place, length) = match &view {
            View::Strided(strided) => (Self::place(strided)?, strided.byte_length()),
            View::Whole | View::Counted(_) => (Place::Run(0), Some(total)),
        };
        let dtype =
            part.dtype.ok_or_else(|| Error::new(Code::BadDtype, "the type of an array is not known"))?;
        let length = length.ok_or_else(outside)?;
        if dtype.bits() >= 8 && !length.is_multiple_of(u64::from(dtype.bits()) / 8) {
            let message = format!("{length} bytes are not whole elements of {}", dtype.name());
            return Err(Error::new(Code::BadSparse, message));
        }
        Ok(Self { spool, start, end, place, dtype, big: part.is_swapped(), length })
    }

    /// Fails where the array is neither a run nor fields of records, field by field: no format has sparse tensors so.
    fn place(strided: &Strided) -> Result<Place> {
        if let Some((start, _)) = strided.run() {
            return Ok(Place::Run(start));
        }
        match *strided.loops {
            [(_, width), (count, stride)] if width == strided.run => {
                Ok(Place::Records(Records { start: strided.start, stride, width, count }))
            }
            _ => Err(Error::new(Code::Internal, "the indices of a sparse tensor stand in another order")),
        }
    }

    /// An array that is all of a spool, of `elements` of a type of whole bytes.
    pub fn whole(spool: &'a Spool, dtype: DType, elements: u64) -> Self {
        let length = elements * u64::from(dtype.bits()) / 8;
        Self { spool, start: 0, end: length, place: Place::Run(0), dtype, big: false, length }
    }

    /// Bytes of `count` elements from element `first` on, which for packed types is at a whole byte.
    pub fn read(&self, first: u64, count: u64) -> Result<Vec<u8>> {
        let bits = u64::from(self.dtype.bits());
        let mut bytes = vec![0; checked::index((count * bits).div_ceil(8), "a block")?];
        match self.place {
            Place::Records(records) => self.gather(records, first, &mut bytes)?,
            Place::Run(start) => self.fill(start.saturating_add(first * bits / 8), &mut bytes)?,
        }
        if self.big {
            swap_bytes(&mut bytes, self.dtype.element_bytes());
        }
        Ok(bytes)
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
            let loops = Box::new([(count, records.stride)]);
            Cut::strided(&Strided { start: 0, run: records.width, loops })?.pack(&input, now)?;
            out = later;
            at += count;
        }
        Ok(())
    }

    /// Elements of the array; of packed types as many as its bytes have room for.
    pub fn elements(&self) -> u64 {
        let bits = u128::from(self.dtype.bits());
        u64::try_from(u128::from(self.length) * 8 / bits).unwrap_or(u64::MAX)
    }

    /// Bytes of an element of a type of whole bytes.
    pub fn width(&self) -> usize {
        self.dtype.bits() as usize / 8
    }

    /// The indices that `bytes` of it are.
    pub fn decode(&self, bytes: &[u8]) -> Result<Vec<u64>> {
        let indices = Indices::new(self.dtype, bytes)?;
        let mut numbers = vec![0; indices.len()];
        if indices.decode(0, &mut numbers) < numbers.len() {
            return Err(Error::new(Code::BadSparse, "an index is negative or too large"));
        }
        Ok(numbers)
    }

    /// `count` indices from element `first` on.
    pub fn numbers(&self, first: u64, count: u64) -> Result<Vec<u64>> {
        self.decode(&self.read(first, count)?)
    }

    /// Calls `each` with the position of the first element and the bytes of each block from `first` to `end`.
    pub fn blocks(
        &self,
        first: u64,
        end: u64,
        mut each: impl FnMut(u64, Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let mut at = first;
        while at < end {
            let count = BLOCK.min(end - at);
            each(at, self.read(at, count)?)?;
            at += count;
        }
        Ok(())
    }
}

fn outside() -> Error {
    Error::new(Code::Decode, "the decoded blob is shorter than its parts")
}
