//! The Binary Tensor Format: a count, the offsets of that many records, then the records. The format has neither a
//! magic nor names, so tensors are called `0`, `1`, … in file order. As the grammar requires, the records follow each
//! other in the order of their offsets.
#![forbid(unsafe_code)]

use super::Input;
use crate::checked::{self, MAX_EXACT, bytes_of, exact, product};
use crate::error::{Code, Error, Result};
use crate::layouts;
use crate::model::{Builder, Catalog, Component, Container, DType, Label, Layout, NewTensor, View};

const CONTAINER: Container = Container::named("btf");
const RULE: &str = "BTF";
/// RANK, DTYPE, LAYOUT and 6 reserved bytes.
const RECORD_HEADER: u64 = 16;
const ALIGNMENT: u64 = 8;
const WORD: u64 = 8;

/// Reads the header of the file and of every record. They must account for every byte of the file.
pub fn parse(input: &Input<'_>) -> Result<Catalog> {
    Parser { window: Window { input, start: 0, bytes: Vec::new() } }.parse().map_err(|error| error.rule(RULE))
}

struct Parser<'s> {
    window: Window<'s>,
}

impl Parser<'_> {
    fn parse(&mut self) -> Result<Catalog> {
        let total = self.window.input.length();
        let count = self.window.word(0)?;
        let table =
            count.checked_add(1).and_then(|words| words.checked_mul(WORD)).filter(|&end| end <= total);
        let Some(first_record) = table else {
            let message =
                format!("the header says {count} tensors, whose offsets do not fit into {total} bytes");
            return Err(Error::new(Code::Truncated, message).at(0));
        };
        let offsets = self.window.input.read_vec(WORD, first_record - WORD)?;
        let mut builder = Builder::new(CONTAINER, self.window.input.limits);
        let mut expected = first_record;
        for ordinal in 0..count {
            let offset = checked::u64_le(&offsets, ordinal * WORD).unwrap_or_default();
            let name = ordinal.to_string();
            if offset != expected {
                let message =
                    format!("the record's offset is {offset}, what comes before ends at {expected}");
                return Err(bad(message, WORD + ordinal * WORD).tensor(&name));
            }
            let end = self.record(&mut builder, &name, offset).map_err(|error| error.tensor(&name))?;
            expected = self.padded(end, ordinal + 1 == count).map_err(|error| error.tensor(&name))?;
        }
        if expected != total {
            return Err(bad(format!("{} bytes follow the last record", total - expected), expected));
        }
        Ok(builder.finish())
    }

    /// Returns the end of a record's padding. Records are padded with zeros to a multiple of 8; only the last one may
    /// omit the padding.
    fn padded(&mut self, end: u64, last: bool) -> Result<u64> {
        let padded = end.next_multiple_of(ALIGNMENT);
        let stop = if last { padded.min(self.window.input.length()) } else { padded };
        if self.window.get(end, stop.saturating_sub(end))?.iter().any(|&byte| byte != 0) {
            return Err(bad("the padding of a record is not zero".to_owned(), end));
        }
        Ok(stop)
    }

    /// Adds the tensor of the record at `offset`, and returns the end of its payload.
    fn record(&mut self, builder: &mut Builder, name: &str, offset: u64) -> Result<u64> {
        let rank = self.window.word(offset)?;
        let kind = self.window.get(offset + WORD, WORD)?;
        let (&[dtype, layout], reserved) = kind.split_first_chunk::<2>().unwrap_or((&[0xff; 2], &[]));
        if reserved.iter().any(|&byte| byte != 0) {
            return Err(bad("the 6 reserved bytes of the record are not zero".to_owned(), offset + WORD + 2));
        }
        let dtype = dtype_of(dtype).map_err(|error| error.at(offset + WORD))?;
        if rank > u64::from(self.window.input.limits.max_rank) {
            let message = format!("{rank} dimensions, more than {}", self.window.input.limits.max_rank);
            return Err(Error::new(Code::Limit, message).option("maxRank").at(offset));
        }
        let mut at = offset + RECORD_HEADER;
        let mut shape = Vec::new();
        for _ in 0..rank {
            shape.push(exact(self.window.word(at)?, "a dimension")?);
            at += WORD;
        }
        let (layout, components, end) = match layout {
            0 => self.dense(dtype, &shape, at)?,
            2 => self.coo(dtype, &shape, at)?,
            other => {
                let message = format!("{other} is no BTF layout: 0 is dense, 2 is coordinates");
                return Err(Error::new(Code::BadLayout, message).at(offset + WORD + 1));
            }
        };
        let mut tensor =
            NewTensor { name, shape: &shape, layout, dtype: Some(dtype), components, attributes: None };
        layouts::check(&mut tensor)?;
        builder.add_tensor(tensor)?;
        Ok(end)
    }

    fn dense(&self, dtype: DType, shape: &[u64], at: u64) -> Result<(Layout, Vec<Component>, u64)> {
        let elements = product(shape).filter(|&elements| elements <= MAX_EXACT);
        let bytes = elements.and_then(|elements| bytes_of(elements, dtype.bits()));
        let bytes = bytes.filter(|&bytes| bytes <= MAX_EXACT).ok_or_else(|| {
            let message =
                format!("the shape {shape:?} of {} has more than 2^53 - 1 elements or bytes", dtype.name());
            Error::new(Code::Limit, message)
        })?;
        let end = self.fits(at, bytes)?;
        Ok((Layout::Dense, vec![Component::raw(Label::DATA, Some(dtype), at, bytes)], end))
    }

    /// Reads `DIMS INDICES VALUES`: the indices have dims (N, RANK) and u64 tuples, the values have dims (N) and
    /// elements.
    fn coo(&mut self, dtype: DType, shape: &[u64], at: u64) -> Result<(Layout, Vec<Component>, u64)> {
        let rank = shape.len() as u64;
        let nnz = exact(self.window.word(at)?, "the number of values")?;
        let tuple = self.window.word(at + WORD)?;
        if tuple != rank {
            let message = format!("the indices are of dims ({nnz}, {tuple}), the tensor's rank is {rank}");
            return Err(Error::new(Code::BadSparse, message).component("coords").at(at + WORD));
        }
        let coords_at = at + 2 * WORD;
        let too_large = || Error::new(Code::Limit, format!("{nnz} values need more than 2^53 - 1 bytes"));
        let exact_bytes = |count: Option<u64>, bits| {
            count
                .and_then(|count| bytes_of(count, bits))
                .filter(|&bytes| bytes <= MAX_EXACT)
                .ok_or_else(too_large)
        };
        let coords_bytes = exact_bytes(nnz.checked_mul(rank), 64)?;
        let count_at = self.fits(coords_at, coords_bytes)?;
        let count = self.window.word(count_at)?;
        if count != nnz {
            let message = format!("there are {nnz} indices and {count} values");
            return Err(Error::new(Code::BadSparse, message).component("values").at(count_at));
        }
        let values_at = count_at + WORD;
        let values_bytes = exact_bytes(Some(nnz), dtype.bits())?;
        let end = self.fits(values_at, values_bytes)?;
        let mut coords = Component::raw(Label::COORDS, Some(DType::Uint64), coords_at, coords_bytes);
        // Tuples of one coordinate are identical in both orders.
        if rank > 1 {
            coords.view = View::records(0, rank * WORD, rank, WORD, nnz);
        }
        let values = Component::raw(Label::VALUES, Some(dtype), values_at, values_bytes);
        Ok((Layout::SparseCoo, vec![values, coords], end))
    }

    fn fits(&self, at: u64, bytes: u64) -> Result<u64> {
        let total = self.window.input.length();
        checked::end_within(at, bytes, total).ok_or_else(|| {
            let message = format!("{bytes} bytes of data at offset {at} go beyond the file's {total}");
            Error::new(Code::Truncated, message).at(at)
        })
    }
}

/// The dtypes, indexed by their codes.
const DTYPES: [DType; 6] =
    [DType::Int8, DType::Int16, DType::Int32, DType::Int64, DType::Float32, DType::Float64];

fn dtype_of(code: u8) -> Result<DType> {
    let found = DTYPES.get(usize::from(code)).copied();
    found.ok_or_else(|| Error::new(Code::BadDtype, format!("{code} is no BTF dtype, which are 0 to 5")))
}

/// Returns BTF's code of a dtype; `None` if BTF does not support it.
pub fn code_of(dtype: DType) -> Option<u8> {
    (0_u8..).zip(DTYPES).find_map(|(code, known)| (known == dtype).then_some(code))
}

fn bad(message: String, offset: u64) -> Error {
    Error::new(Code::BadIndex, message).at(offset)
}

/// A part of the source in memory, so that small adjacent records take a single read.
struct Window<'s> {
    input: &'s Input<'s>,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    const BYTES: u64 = 64 << 10;

    fn get(&mut self, offset: u64, length: u64) -> Result<&[u8]> {
        let total = self.input.length();
        if checked::end_within(offset, length, total).is_none() {
            let message =
                format!("{length} bytes are needed at offset {offset}, the file has {total} in all");
            return Err(Error::new(Code::Truncated, message).at(offset));
        }
        let held = offset.checked_sub(self.start).filter(|at| at + length <= self.bytes.len() as u64);
        let at = if let Some(at) = held {
            at
        } else {
            self.bytes = self.input.read_vec(offset, (total - offset).min(Self::BYTES.max(length)))?;
            self.start = offset;
            0
        };
        Ok(checked::slice(&self.bytes, at, length).unwrap_or_default())
    }

    fn word(&mut self, offset: u64) -> Result<u64> {
        Ok(checked::u64_le(self.get(offset, WORD)?, 0).unwrap_or_default())
    }
}
