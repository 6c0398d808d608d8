//! Checksums of arrays that index chunks (`HDF5 File Format Specification` VII.C and VII.D). The library verifies only those of the
//! headers.
#![forbid(unsafe_code)]

use hdf5_reader::checksum::jenkins_lookup3;
use hdf5_reader::io::Cursor;
use ztensor_core::checked::end_within;
use ztensor_core::error::{Code, Error, Result};

use super::storage::bad;
use super::storage::{Bytes, refusal};

/// Bytes charged for a page that was never written: skipping it takes some 2 ns.
const PAGE: u64 = 8;

/// The chunk index as described by the dataset.
#[derive(Clone, Copy)]
pub struct Index<'b, 's> {
    pub bytes: &'b Bytes<'s>,
    /// Bytes of an address and of a length.
    pub address: u8,
    pub length: u8,
    /// Sizes of the fields of an array element: an address and, if filtered, the size and filter mask. Newer files may have wider sizes.
    pub element: [u64; 2],
    pub filtered: bool,
}

impl Index<'_, '_> {
    /// Reads the header of an array and returns the description of its elements and its other fields.
    fn header<const N: usize>(&self, at: u64, signature: [u8; 4], lengths: u64) -> Result<Header<N>> {
        let width = u64::from(self.address);
        let size = 7 + N as u64 + lengths * u64::from(self.length) + width;
        if self.bytes.at(at, 4)? != signature {
            return Err(bad("the index of chunks has no header").at(self.bytes.offset(at)));
        }
        let bytes = self.checked(at, size)?;
        let parse = |cursor: &mut Cursor<'_>| {
            cursor.skip(5)?;
            let (client, element) = (cursor.read_u8()?, cursor.read_u8()?);
            let mut fields = [0; N];
            for field in &mut fields {
                *field = cursor.read_u8()?;
            }
            let mut last = 0;
            for _ in 0..lengths {
                last = cursor.read_length(self.length)?;
            }
            Ok(Header {
                client,
                element: element.into(),
                fields,
                last,
                block: cursor.read_offset(self.address)?,
            })
        };
        let header =
            parse(&mut Cursor::new(&bytes)).map_err(|error| refusal(&error, "the index of chunks"))?;
        if (header.client == 1) != self.filtered || !self.element.contains(&header.element) {
            let message = format!(
                "the index of chunks has elements of {} bytes, the dataset requires {}",
                header.element,
                self.element.first().copied().unwrap_or_default()
            );
            return Err(bad(message).at(self.bytes.offset(at)));
        }
        Ok(header)
    }

    /// Returns `length` bytes after verifying the checksum that follows them.
    fn checked(&self, at: u64, length: u64) -> Result<Vec<u8>> {
        let mut bytes = self.bytes.at(at, length.checked_add(4).ok_or_else(too_long)?)?;
        let sum = bytes.split_off(bytes.len().saturating_sub(4));
        if jenkins_lookup3(&bytes).to_le_bytes() == *sum {
            return Ok(bytes);
        }
        let message = "a checksum of the index of chunks does not match";
        Err(Error::new(Code::DigestMismatch, message).at(self.bytes.offset(at)))
    }

    fn is_defined(&self, address: u64) -> bool {
        !Cursor::is_undefined_offset(address, self.address)
    }

    /// Verifies the checksums of a fixed array, which has an element for each of the `chunks`.
    pub fn fixed(&self, at: u64, chunks: Option<u64>) -> Result<()> {
        let Header { element, fields: [page_bits], last: count, block, .. } =
            self.header::<1>(at, *b"FAHD", 1)?;
        if Some(count) != chunks {
            let message =
                format!("the index of chunks has {count} elements, which does not match the dataset");
            return Err(bad(message).at(self.bytes.offset(at)));
        }
        if !self.is_defined(block) {
            return Ok(());
        }
        let head = 6 + u64::from(self.address);
        let page = paged(page_bits, count);
        let Some(page) = page else {
            let length = count.checked_mul(element).and_then(|bytes| bytes.checked_add(head));
            return self.checked(block, length.ok_or_else(too_long)?).map(drop);
        };
        let pages = count.div_ceil(page);
        let bits = self.checked(block, head.saturating_add(pages.div_ceil(8)))?;
        let bits = bits.get(usize::try_from(head).unwrap_or(usize::MAX)..).unwrap_or_default();
        let first = head.saturating_add(pages.div_ceil(8)).saturating_add(4);
        self.pages(block.saturating_add(first), bits, 0, pages, |nth| {
            let count = page.min(count - nth * page);
            count.checked_mul(element)
        })
    }

    /// Verifies the checksums of consecutive pages that are marked as written. `size`: bytes of the elements of a page.
    fn pages(
        &self,
        at: u64,
        written: &[u8],
        first_bit: u64,
        count: u64,
        size: impl Fn(u64) -> Option<u64>,
    ) -> Result<()> {
        let mut at = at;
        for nth in 0..count {
            // Pages outside the file are rejected when they are read.
            if end_within(at, 0, self.bytes.range().length).is_none() {
                return Ok(());
            }
            self.bytes.charge(PAGE)?;
            let length = size(nth).ok_or_else(too_long)?;
            let bit = first_bit.saturating_add(nth);
            let byte =
                usize::try_from(bit / 8).ok().and_then(|at| written.get(at)).copied().unwrap_or_default();
            if byte & (0x80 >> (bit % 8)) != 0 {
                self.checked(at, length)?;
            }
            at = at.checked_add(length).and_then(|at| at.checked_add(4)).ok_or_else(too_long)?;
        }
        Ok(())
    }

    /// Verifies the checksums of an extensible array.
    pub fn extensible(&self, at: u64) -> Result<()> {
        let Header { element, fields, block, .. } = self.header::<5>(at, *b"EAHD", 6)?;
        if !self.is_defined(block) {
            return Ok(());
        }
        let [max_bits, in_index, min, pointers, page_bits] = fields;
        if !min.is_power_of_two() || !pointers.is_power_of_two() || max_bits > 64 {
            return Err(bad("the index of chunks has invalid sizes").at(self.bytes.offset(at)));
        }
        let width = u64::from(self.address);
        let rows = u64::from(max_bits).checked_sub(u64::from(min.trailing_zeros()));
        let rows = 1 + rows.ok_or_else(too_long)?;
        let direct_rows = (2 * u64::from(pointers.trailing_zeros())).min(rows);
        let direct = 2 * (u64::from(pointers) - 1);
        let shape = Extensible {
            element,
            min: min.into(),
            // Every block stores the number of its first element.
            head: 6 + width + u64::from(max_bits).div_ceil(8),
            page_bits,
        };
        let inner = 6 + width + u64::from(in_index) * element;
        let index = self.checked(block, inner + (direct + rows - direct_rows) * width)?;
        let address = |bytes: &[u8], at: u64| {
            let mut cursor = Cursor::new(bytes);
            cursor.set_position(at);
            cursor.read_offset(self.address).map_err(|error| refusal(&error, "the index of chunks"))
        };
        let mut nth = 0;
        for row in 0..rows {
            let (blocks, elements) = shape.row(row)?;
            if row < direct_rows {
                for _ in 0..blocks {
                    if nth >= direct {
                        break;
                    }
                    let block = address(&index, inner + nth * width)?;
                    nth += 1;
                    if self.is_defined(block) {
                        self.data_block(&shape, block, elements, None)?;
                    }
                }
                continue;
            }
            let secondary = address(&index, inner + (direct + row - direct_rows) * width)?;
            if !self.is_defined(secondary) {
                continue;
            }
            let pages = paged(page_bits, elements).map_or(0, |page| elements.div_ceil(page));
            let bits = pages.div_ceil(8).checked_mul(blocks).ok_or_else(too_long)?;
            let length = blocks.checked_mul(width).and_then(|bytes| bytes.checked_add(bits));
            let length = length.and_then(|bytes| bytes.checked_add(shape.head)).ok_or_else(too_long)?;
            let bytes = self.checked(secondary, length)?;
            let written = usize::try_from(shape.head).ok().zip(usize::try_from(shape.head + bits).ok());
            let written = written.and_then(|(from, to)| bytes.get(from..to)).unwrap_or_default();
            for nth in 0..blocks {
                let block = address(&bytes, shape.head + bits + nth * width)?;
                if self.is_defined(block) {
                    self.data_block(&shape, block, elements, Some((written, nth * pages)))?;
                }
            }
        }
        Ok(())
    }

    fn data_block(
        &self,
        shape: &Extensible,
        at: u64,
        elements: u64,
        written: Option<(&[u8], u64)>,
    ) -> Result<()> {
        let whole = elements.checked_mul(shape.element).and_then(|bytes| bytes.checked_add(shape.head));
        let Some(page) = paged(shape.page_bits, elements) else {
            return self.checked(at, whole.ok_or_else(too_long)?).map(drop);
        };
        self.checked(at, shape.head)?;
        let Some((written, first)) = written else { return Ok(()) };
        let start = at.checked_add(shape.head + 4).ok_or_else(too_long)?;
        self.pages(start, written, first, elements.div_ceil(page), |_| page.checked_mul(shape.element))
    }
}

struct Header<const N: usize> {
    client: u8,
    element: u64,
    fields: [u8; N],
    /// The last of the header's lengths.
    last: u64,
    block: u64,
}

/// The sizes of an extensible array.
struct Extensible {
    element: u64,
    /// Elements of the smallest block.
    min: u64,
    /// Bytes before the elements of a block.
    head: u64,
    page_bits: u8,
}

impl Extensible {
    /// Returns the number of data blocks in a row and of elements per block: both double every other row.
    fn row(&self, row: u64) -> Result<(u64, u64)> {
        let times = |bits: u64| u32::try_from(bits).ok().and_then(|bits| 1_u64.checked_shl(bits));
        let blocks = times(row / 2).ok_or_else(too_long)?;
        let elements = times(row.div_ceil(2)).and_then(|times| times.checked_mul(self.min));
        Ok((blocks, elements.ok_or_else(too_long)?))
    }
}

/// Returns the elements per page, or `None` if there are too few elements for pages.
fn paged(bits: u8, count: u64) -> Option<u64> {
    let page = 1_u64.checked_shl(bits.into()).filter(|_| bits > 0)?;
    (count > page).then_some(page)
}

fn too_long() -> Error {
    bad("the index of chunks is an array of 2^64 bytes")
}
