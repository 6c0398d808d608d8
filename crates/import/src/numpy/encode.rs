//! Writes arrays as NumPy does: `.npy` with one tensor, `.npz` with stored or deflated members. Stored data begins at a multiple of 64
//! bytes, so that it can be read without a copy.
#![forbid(unsafe_code)]

use ztensor_core::codecs::deflate_encode::stored;
use ztensor_core::codecs::digest::{Checksum, Expected};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{Assembler, NameKeys, TensorHeader};
use ztensor_core::model::{Blob, Catalog, DType, Encoding, Tensor};

use super::array::SUFFIX;
use super::header::MAGIC;
use crate::zip::plain;

/// Alignment of data: NumPy's own `ARRAY_ALIGN`, and more than any dtype needs.
const ALIGNMENT: u64 = 64;
/// Bytes of a local header (APPNOTE 4.3.7) without name and extra fields.
const LOCAL_BYTES: u64 = 30;
/// Bytes of the header of an extra field: its type and its length.
const FIELD_BYTES: usize = 4;
/// The padding extra field of Android's zipalign: the alignment in two bytes, then zeros.
const FILLER: u16 = 0xd935;
/// The first day of DOS time, for reproducible output.
const DOS_DATE: u16 = 0x21;
/// The deflate method (APPNOTE 4.4.5).
const DEFLATED: u16 = 8;
/// The flag of UTF-8 names (APPNOTE 4.4.4, bit 11).
const UTF8: u16 = 0x800;

/// Returns NumPy's name of a dtype, or `None` if NumPy does not have it.
pub fn name_of(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Bool => "|b1",
        DType::Int8 => "|i1",
        DType::Int16 => "<i2",
        DType::Int32 => "<i4",
        DType::Int64 => "<i8",
        DType::Uint8 => "|u1",
        DType::Uint16 => "<u2",
        DType::Uint32 => "<u4",
        DType::Uint64 => "<u8",
        DType::Float16 => "<f2",
        DType::Float32 => "<f4",
        DType::Float64 => "<f8",
        DType::Complex64 => "<c8",
        DType::Complex128 => "<c16",
        _ => return None,
    })
}

/// Rejects names that zip, or Python's zipfile, would change.
pub fn check_name(announced: &TensorHeader<'_>) -> Result<()> {
    let name = announced.name;
    if name.contains('\0') || name.len() + SUFFIX.len() > usize::from(u16::MAX) {
        let message = "the name of an array in an npz has at most 65,531 bytes, and none of them 0";
        return Err(Error::new(Code::InvalidArg, message).tensor(name));
    }
    Ok(())
}

/// Returns the name of a member as readers of zip archives compare it, and the member that NumPy takes for the same array.
pub fn name_keys(name: &str) -> NameKeys {
    let other = name.ends_with(SUFFIX).then(|| plain(name).into_owned());
    NameKeys { own: plain(&format!("{name}{SUFFIX}")).into_owned(), other }
}

/// Returns the header of an array, padded to a multiple of [`ALIGNMENT`].
fn header(tensor: Tensor<'_>) -> Vec<u8> {
    let descr = tensor.dtype().and_then(name_of).unwrap_or_default();
    let shape = match tensor.shape() {
        &[one] => format!("({one},)"),
        dims => format!("({})", dims.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    // The magic, the version, and the length of the text in two or four bytes.
    let short = text.len() < usize::from(u16::MAX) - 64;
    let prefix = if short { 10 } else { 12 };
    while !(prefix + text.len() + 1).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = MAGIC.to_vec();
    match u16::try_from(text.len()) {
        Ok(length) if short => {
            bytes.extend([1, 0]);
            bytes.extend(length.to_le_bytes());
        }
        _ => {
            bytes.extend([2, 0]);
            bytes.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        }
    }
    bytes.extend(text.as_bytes());
    bytes
}

/// Writes the only tensor of a catalog. An `.npy` file does not store its name.
pub fn put_npy(catalog: &Catalog, file: &mut dyn Assembler) -> Result<()> {
    let blobs = catalog.blobs();
    let &[(tensor, blob)] = &*blobs else {
        let message = format!("an npy holds one tensor, not {}: write an npz", blobs.len());
        return Err(Error::new(Code::InvalidArg, message));
    };
    let header = header(tensor);
    file.expect(header.len() as u64 + blob.stored_length());
    file.bytes(&header)?;
    file.blob(blob)
}

/// Writes an archive of all tensors.
pub fn put_npz(catalog: &Catalog, file: &mut dyn Assembler) -> Result<()> {
    let (mut at, mut directory, mut count) = (0_u64, Vec::new(), 0_u64);
    for (tensor, blob) in catalog.blobs() {
        let data =
            blob.blob().ok_or_else(|| Error::new(Code::Internal, "an array was written that is no blob"))?;
        let member = Member::of(tensor, data, at)?;
        let local = member.local();
        at += local.len() as u64 + member.stored;
        file.bytes(&local)?;
        file.bytes(&member.header)?;
        file.blob(blob)?;
        directory.extend(member.record());
        count += 1;
    }
    file.bytes(&directory)?;
    file.bytes(&end(at, directory.len() as u64, count))
}

/// The metadata of a member.
struct Member {
    name: String,
    /// The header as stored in the file.
    header: Vec<u8>,
    deflated: bool,
    crc32: u32,
    /// Bytes of the header and the elements, decoded and stored.
    size: u64,
    stored: u64,
    /// The offset of the local header.
    at: u64,
}

impl Member {
    fn of(tensor: Tensor<'_>, blob: &Blob, at: u64) -> Result<Self> {
        let Some(Expected::Crc32(crc32)) = blob.digest.as_ref().map(|digest| &digest.expected) else {
            return Err(Error::new(Code::Internal, "an array was written without its CRC-32"));
        };
        let header = header(tensor);
        let length = blob.decoded.unwrap_or(blob.stored);
        let size = header.len() as u64 + length;
        let crc32 = Checksum::Crc32.combine(
            Checksum::Crc32.append(0, &header),
            *crc32,
            usize::try_from(length).unwrap_or(usize::MAX),
        );
        let deflated = blob.encoding == Encoding::DEFLATE;
        // The deflate stream of the elements continues after the header.
        let header = if deflated { stored(&header) } else { header };
        let stored = header.len() as u64 + blob.stored;
        Ok(Self { name: format!("{}{SUFFIX}", tensor.name()), header, deflated, crc32, size, stored, at })
    }

    /// Returns whether its sizes are in an extra field.
    fn is_long(&self) -> bool {
        long(self.size) || long(self.stored)
    }

    /// Version, flags, method, time, date, CRC-32, sizes and the lengths of name and extra fields (APPNOTE 4.4).
    fn fields(&self, extra: usize) -> Vec<u8> {
        let version = if self.is_long() || long(self.at) { 45 } else { 20 };
        let flags = if self.name.is_ascii() { 0 } else { UTF8 };
        let method = if self.deflated { DEFLATED } else { 0 };
        let mut bytes = Vec::new();
        for number in [version, flags, method, 0, DOS_DATE] {
            bytes.extend(number.to_le_bytes());
        }
        let sizes = [self.stored, self.size].map(|size| if self.is_long() { u32::MAX } else { short(size) });
        for number in [self.crc32].into_iter().chain(sizes) {
            bytes.extend(number.to_le_bytes());
        }
        for length in [self.name.len(), extra] {
            bytes.extend(u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes());
        }
        bytes
    }

    /// Returns the local header, padded so that a stored array begins at a multiple of [`ALIGNMENT`].
    fn local(&self) -> Vec<u8> {
        let mut extra = if self.is_long() { zip64(&[self.size, self.stored]) } else { Vec::new() };
        let begin = self.at + LOCAL_BYTES + self.name.len() as u64 + extra.len() as u64;
        let mut filling = if self.deflated { 0 } else { begin.next_multiple_of(ALIGNMENT) - begin };
        if filling > 0 {
            // The field needs a header and the alignment.
            while filling < FIELD_BYTES as u64 + 2 {
                filling += ALIGNMENT;
            }
            let length = u16::try_from(filling).unwrap_or(u16::MAX) - 4;
            let field = [FILLER, length, 64].map(u16::to_le_bytes).concat();
            extra.extend(field);
            extra.extend(std::iter::repeat_n(0, usize::from(length) - 2));
        }
        let mut bytes = b"PK\x03\x04".to_vec();
        bytes.extend(self.fields(extra.len()));
        bytes.extend(self.name.as_bytes());
        bytes.extend(extra);
        bytes
    }

    /// Returns the central directory record (APPNOTE 4.3.12).
    fn record(&self) -> Vec<u8> {
        let sizes = [self.size, self.stored].into_iter().filter(|_| self.is_long());
        let numbers: Vec<u64> = sizes.chain(Some(self.at).filter(|&at| long(at))).collect();
        let extra = if numbers.is_empty() { Vec::new() } else { zip64(&numbers) };
        let mut bytes = b"PK\x01\x02\x2d\x00".to_vec();
        bytes.extend(self.fields(extra.len()));
        // No comment, the first disk, no attributes.
        bytes.extend([0; 10]);
        bytes.extend(short(self.at).to_le_bytes());
        bytes.extend(self.name.as_bytes());
        bytes.extend(extra);
        bytes
    }
}

/// Returns whether a number needs 64 bits, which all ones indicate.
fn long(number: u64) -> bool {
    number >= u64::from(u32::MAX)
}

fn short(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Returns the extra field of 64-bit numbers (APPNOTE 4.5.3).
fn zip64(numbers: &[u64]) -> Vec<u8> {
    let length = u16::try_from(8 * numbers.len()).unwrap_or(u16::MAX);
    let mut bytes = [1, length].map(u16::to_le_bytes).concat();
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    bytes
}

/// Returns the records after the directory (APPNOTE 4.3.14 to 4.3.16).
fn end(directory: u64, length: u64, count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let few = u16::try_from(count).unwrap_or(u16::MAX);
    if long(directory) || long(length) || few == u16::MAX {
        bytes.extend(b"PK\x06\x06");
        bytes.extend(44_u64.to_le_bytes());
        bytes.extend([45_u16, 45].map(u16::to_le_bytes).concat());
        bytes.extend([0; 8]);
        bytes.extend([count, count, length, directory].map(u64::to_le_bytes).concat());
        bytes.extend(b"PK\x06\x07\0\0\0\0");
        bytes.extend((directory + length).to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
    }
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([few, few].map(u16::to_le_bytes).concat());
    bytes.extend([short(length), short(directory)].map(u32::to_le_bytes).concat());
    bytes.extend([0; 2]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zip;
    use ztensor_core::error::Code;
    use ztensor_core::formats::Input;
    use ztensor_core::limits::Limits;
    use ztensor_core::sources::ReadAt;
    use ztensor_core::work::Stop;

    /// Data at an offset after gigabytes of zeros.
    struct Sparse {
        parts: Vec<(u64, Vec<u8>)>,
        length: u64,
    }

    impl ReadAt for Sparse {
        fn length(&self) -> u64 {
            self.length
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8], _: &Stop) -> Result<()> {
            buffer.fill(0);
            for (start, bytes) in &self.parts {
                for (at, &byte) in (*start..).zip(bytes) {
                    let index = at.checked_sub(offset).and_then(|at| usize::try_from(at).ok());
                    if let Some(index) = index.and_then(|at| buffer.get_mut(at)) {
                        *index = byte;
                    }
                }
            }
            Ok(())
        }
    }

    fn members(source: &dyn ReadAt) -> Result<Vec<zip::Member>> {
        Ok(zip::read(&Input::alone(source, &Limits::default(), &Stop::default()))?.members)
    }

    #[test]
    fn members_beyond_4_gib_are_found() {
        let member = |name: &str, size, stored, at| {
            let deflated = size != stored;
            Member { name: name.to_owned(), header: Vec::new(), deflated, crc32: 7, size, stored, at }
        };
        let large = member("a.npy", 5 << 30, 5 << 30, 0);
        let behind = member("größe.npy", 100, 100, (5 << 30) + 128);
        let deflated = member("zeros.npy", 5 << 30, 6 << 20, behind.at + 1000);
        let directory = [large.record(), behind.record(), deflated.record()].concat();
        let at = deflated.at + (6 << 20) + 1000;
        let tail = [directory.clone(), end(at, directory.len() as u64, 3)].concat();
        let length = at + tail.len() as u64;
        let mut parts = vec![
            (0, large.local()),
            (behind.at, behind.local()),
            (deflated.at, deflated.local()),
            (at, tail),
        ];
        let found = members(&Sparse { parts: parts.clone(), length }).unwrap();
        let read: Vec<_> = found.iter().map(|found| (&*found.name, found.stored, found.decoded)).collect();
        let sizes = [("a.npy", 5 << 30, 5 << 30), ("größe.npy", 100, 100), ("zeros.npy", 6 << 20, 5 << 30)];
        assert_eq!(read, sizes);
        assert!(found.iter().all(|found| found.method == zip::Method::Deflated || found.offset % 64 == 0));
        // Give the local header of the large one a different size.
        let size = &mut parts[0].1;
        let index = size.windows(8).position(|bytes| bytes == (5_u64 << 30).to_le_bytes()).unwrap();
        size[index] ^= 1;
        let refused = members(&Sparse { parts, length }).unwrap_err();
        assert_eq!(refused.code(), Code::BadIndex);
    }

    #[test]
    fn more_members_than_16_bits_count_are_found() {
        let (mut bytes, mut directory, count) = (Vec::new(), Vec::new(), 70_000);
        for nth in 0..count {
            let name = format!("{nth}.npy");
            let (header, at) = (Vec::new(), bytes.len() as u64);
            let member = Member { name, header, deflated: false, crc32: 0, size: 0, stored: 0, at };
            bytes.extend(member.local());
            directory.extend(member.record());
        }
        let at = bytes.len() as u64;
        bytes.extend(&directory);
        bytes.extend(end(at, directory.len() as u64, count));
        assert_eq!(members(&&*bytes).unwrap().len() as u64, count);
    }
}
