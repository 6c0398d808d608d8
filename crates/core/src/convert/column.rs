//! One array of a sparse tensor in an unnamed temporary file, read block by block.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::sync::Arc;

use crate::checked;
use crate::error::{Code, Error, Result};
use crate::kernels::swap::swap_bytes;
use crate::model::slice::TensorSlice;
use crate::model::{Component, DType, Strided, View};
use crate::sinks::Spool;
use crate::write::sparse::Array;

/// The number of bytes of records read at once.
const RECORDS: u64 = 4 << 20;

/// The location of the array in its blob.
#[derive(Clone, Copy)]
enum Layout {
    /// Contiguous, beginning at this byte.
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

/// One array of the tensor in the spool.
pub struct Column {
    spool: Arc<Spool>,
    /// The range of the blob in the spool.
    start: u64,
    end: u64,
    layout: Layout,
    dtype: DType,
    big: bool,
    /// Bytes of the array.
    length: u64,
}

impl Column {
    /// Creates the array for a component whose blob is at `start` to `end` of a spool.
    pub fn new(spool: Arc<Spool>, part: &Component, (start, end): (u64, u64)) -> Result<Self> {
        let total = end - start;
        let view = match &part.view {
            View::Counted(counted) => counted.view(total)?,
            view => view.clone(),
        };
        let (layout, length) = match &view {
            View::Strided(strided) => (Self::layout(strided)?, strided.byte_length()),
            View::Whole | View::Counted(_) => (Layout::Run(0), Some(total)),
        };
        let dtype =
            part.dtype.ok_or_else(|| Error::new(Code::BadDtype, "the type of an array is unknown"))?;
        let length = length.ok_or_else(outside)?;
        Ok(Self { spool, start, end, layout, dtype, big: part.is_swapped(), length })
    }

    /// Returns the location of an array. Fails unless the array is contiguous or consists of fields of records, field
    /// by field: no format stores sparse tensors in another way.
    fn layout(strided: &Strided) -> Result<Layout> {
        if let Some((start, _)) = strided.run() {
            return Ok(Layout::Run(start));
        }
        match *strided.loops {
            [(_, width), (count, stride)] if width == strided.run => {
                Ok(Layout::Records(Records { start: strided.start, stride, width, count }))
            }
            _ => Err(Error::new(Code::Internal, "the indices of a sparse tensor have an unsupported order")),
        }
    }

    fn fill(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        let at = self.start.checked_add(at).ok_or_else(outside)?;
        checked::end_within(at, bytes.len() as u64, self.end).ok_or_else(outside)?;
        self.spool.read_at(at, bytes)
    }

    /// Reads elements that are stored field by field, each field in `count` records.
    fn gather(&self, records: Records, first: u64, mut out: &mut [u8]) -> Result<()> {
        let mut at = first;
        while !out.is_empty() {
            let (field, record) = (at / records.count.max(1), at % records.count.max(1));
            let wanted = out.len() as u64 / records.width.max(1);
            let capacity = (RECORDS / records.stride.max(1)).max(1);
            let count = (records.count - record).min(wanted).min(capacity);
            let begin = record.checked_mul(records.stride).and_then(|at| at.checked_add(records.start));
            let begin = begin.and_then(|at| at.checked_add(field * records.width)).ok_or_else(outside)?;
            let length = (count - 1) * records.stride + records.width;
            let mut input = vec![0; checked::index(length, "records")?];
            self.fill(begin, &mut input)?;
            let (now, later) = out.split_at_mut(checked::index(count * records.width, "a block")?);
            let loops = Box::new([(count, records.stride)]);
            TensorSlice::strided(&Strided { start: 0, run: records.width, loops })?.pack(&input, now)?;
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
        match self.layout {
            Layout::Records(records) => self.gather(records, first, &mut bytes)?,
            Layout::Run(start) => self.fill(start.saturating_add(first * bits / 8), &mut bytes)?,
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
