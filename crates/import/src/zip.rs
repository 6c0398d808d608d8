//! zip archives: members and the locations of their bytes. `APPNOTE` is PKWARE's specification, 6.3.10.
//!
//! The central directory is authoritative. Each local header must match it, members must not overlap, and names must be unique and
//! unambiguous, so that every other reader finds the same members. rawzip finds and walks the directory; this module checks everything
//! else.
#![forbid(unsafe_code)]

mod end;
mod fields;
mod names;

use std::io;
use ztensor_core::arrange::Arrange;

use rawzip::{
    CompressionMethod, ErrorKind, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, RECOMMENDED_BUFFER_SIZE, ZipLocator,
};
use ztensor_core::checked::{end_within, exact, slice};
use ztensor_core::codecs::deflate;
use ztensor_core::codecs::digest::Digest;
use ztensor_core::codecs::frames::Size;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::Input;
use ztensor_core::formats::Probe;
use ztensor_core::model::{Blob, Builder, Encoding, Filter};
use ztensor_core::sources::owned::Owned;
use ztensor_core::work::Stop;

use crate::limits::ZIP_DIRECTORY_BYTES;
use fields::{RULE, bad, u16_at, u16_le, u32_at, u32_le, u64_le};
pub use names::plain;

use names::Names;

const LOCAL_RULE: &str = "APPNOTE 4.3.7 Local file header";
const DESCRIPTOR_RULE: &str = "APPNOTE 4.3.9 Data descriptor";

const LOCAL_SIGNATURE: &[u8] = b"PK\x03\x04";
/// The start of an archive without members.
const EMPTY_SIGNATURE: &[u8] = b"PK\x05\x06";
const DESCRIPTOR_SIGNATURE: &[u8] = b"PK\x07\x08";
/// The flag of UTF-8 names.
const UTF8: u16 = 1 << 11;
/// Bytes of a local header without name and extra fields.
const LOCAL_BYTES: u64 = 30;
/// Bytes of a data descriptor with signature and 64-bit sizes.
const DESCRIPTOR_BYTES: u64 = 24;
/// Bytes of the end of central directory record and the longest comment.
const END_BYTES: u64 = 22 + 0xffff;

/// How a member is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    Stored,
    Deflated,
    /// Encrypted, or an unsupported method.
    Other,
}

/// A file in an archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    pub name: String,
    pub method: Method,
    pub crc32: u32,
    /// Whether `crc32` is a checksum of the bytes. Some writers of PyTorch archives store 0 instead.
    pub has_crc32: bool,
    /// The offset of its stored bytes.
    pub offset: u64,
    /// Stored size in bytes.
    pub stored: u64,
    /// Decoded size in bytes, as stated by the directory.
    pub decoded: u64,
}

impl Member {
    /// Returns all of it as one blob, whose digest is the CRC-32 of the decoded bytes.
    pub fn blob(&self, builder: &mut Builder) -> Blob {
        let encoding = match self.method {
            Method::Stored => Encoding::RAW,
            Method::Deflated => {
                let deflate = Filter::named(builder.intern("deflate"));
                builder.encoding(&[deflate], true)
            }
            Method::Other => builder.unknown_encoding("zip"),
        };
        let digest = self.digest();
        let Self { offset, stored, decoded, .. } = *self;
        Blob { file: 0, encoding, offset, stored, decoded: Some(decoded), digest }
    }

    /// Returns up to the first `count` decoded bytes, without verifying the CRC-32.
    pub fn head(&self, input: &Input<'_>, count: u64) -> Result<Vec<u8>> {
        let count = count.min(self.decoded);
        match self.method {
            Method::Stored => input.read_vec(self.offset, count),
            Method::Other => Err(self.undecodable()),
            Method::Deflated => {
                // The first block may begin with a table of some 100 bytes.
                let mut taken = count.saturating_mul(2).saturating_add(512);
                loop {
                    taken = taken.min(self.stored);
                    let head = deflate::head(&input.read_vec(self.offset, taken)?, count)?;
                    if head.len() as u64 == count {
                        return Ok(head);
                    }
                    if taken == self.stored {
                        let message =
                            format!("the deflate stream holds {} bytes, not {}", head.len(), self.decoded);
                        return Err(Error::new(Code::Decode, message).at(self.offset));
                    }
                    taken = taken.saturating_mul(4);
                }
            }
        }
    }

    /// Returns all decoded bytes after verifying the CRC-32. For members that are part of an index; `max` limits the size.
    pub fn read(&self, input: &Input<'_>, max: u64) -> Result<Vec<u8>> {
        if self.decoded > max {
            let message =
                format!("the member {:?} has {} bytes, the maximum is {max}", self.name, self.decoded);
            return Err(Error::new(Code::Limit, message).of_item().at(self.offset));
        }
        let stored = match self.method {
            Method::Other => return Err(self.undecodable()),
            _ => input.read_vec(self.offset, self.stored)?,
        };
        let bytes = if self.method == Method::Deflated {
            deflate::decode(&stored, false, Size::Exactly(self.decoded), &Stop::default())?
        } else {
            stored
        };
        if let Some(digest) = self.digest() {
            digest.check_bytes(&bytes).map_err(|error| error.at(self.offset))?;
        }
        Ok(bytes)
    }

    fn digest(&self) -> Option<Digest> {
        self.has_crc32.then(|| Digest::crc32(self.crc32))
    }

    /// Returns all decoded bytes after verifying the CRC-32, up to the limit for a component. Memory is allocated page by page as data
    /// arrives.
    pub fn read_owned(&self, input: &Input<'_>) -> Result<Owned> {
        let max = input.limits.max_decoded_bytes;
        if self.method == Method::Other {
            return Err(self.undecodable());
        }
        if self.decoded > max {
            let message =
                format!("the member {:?} decodes to {} bytes, the maximum is {max}", self.name, self.decoded);
            return Err(Error::new(Code::Limit, message).option("maxDecodedBytes").at(self.offset));
        }
        let stored = input.read_owned(self.offset, self.stored)?;
        let digest = self.digest();
        if self.method == Method::Stored {
            let checked = digest.map_or(Ok(()), |digest| digest.check_bytes(&stored));
            return checked.map(|()| stored).map_err(|error| error.at(self.offset));
        }
        let mut bytes = Owned::to_fill(self.decoded)?;
        let mut hasher = digest.as_ref().and_then(Digest::hasher);
        deflate::decode_into(&stored, false, &mut bytes, input.stop, |piece| {
            if let Some(hasher) = &mut hasher {
                hasher.update(piece);
            }
        })
        .and_then(|()| match (digest, hasher) {
            (Some(digest), Some(hasher)) => digest.check(hasher),
            _ => Ok(()),
        })
        .map_err(|error| error.at(self.offset))?;
        Ok(bytes)
    }

    /// Returns the error for a member that cannot be decoded.
    pub fn undecodable(&self) -> Error {
        let message =
            format!("the member {:?} is encrypted, or compressed with an unsupported method", self.name);
        Error::new(Code::UnsupportedEncoding, message).at(self.offset)
    }
}

/// Returns the name of the first member, as far as the sample contains it. `None` if the file is not a zip archive; empty if it has no
/// members.
pub fn first_name<'s>(sample: &'s Probe<'_>) -> Result<Option<&'s [u8]>> {
    let first = sample.first(LOCAL_BYTES + 0xffff)?;
    if first.starts_with(EMPTY_SIGNATURE) {
        return Ok(Some(b""));
    }
    let name = slice(first, LOCAL_BYTES, u64::from(u16_le(first, 26)));
    Ok(first.starts_with(LOCAL_SIGNATURE).then(|| name.unwrap_or_default()))
}

/// A zip archive.
pub struct Archive {
    /// All members except empty folders, in the order of the central directory.
    pub members: Vec<Member>,
    /// Damage that does not affect the members.
    pub damage: Option<Error>,
}

/// Reads the directory and every local header. Rejects archives whose parts disagree, overlap or share a name, and names that readers
/// interpret differently.
pub fn read(input: &Input<'_>) -> Result<Archive> {
    let total = input.length();
    let mut buffer = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let locator = ZipLocator::new().max_search_space(END_BYTES);
    let search = buffer.get_mut(..RECOMMENDED_BUFFER_SIZE).unwrap_or_default();
    let archive =
        locator.locate_in_reader(Reader(input), search, total).map_err(|(_, error)| refusal(error))?;
    let directory = archive.directory_offset();
    let bytes = archive.eocd_offset().saturating_sub(directory);
    let max = input.limits.max_index_bytes.unwrap_or(ZIP_DIRECTORY_BYTES);
    if bytes > max {
        let message = format!("the central directory has {bytes} bytes, the maximum is {max}");
        return Err(Error::new(Code::Limit, message).option("maxIndexBytes").at(directory).rule(RULE));
    }
    let mut found = Vec::new();
    let mut entries = archive.entries(&mut buffer);
    while let Some(entry) = entries.next_entry().map_err(refusal)? {
        let at = entry.central_directory_offset();
        let encrypted = entry.flags().is_encrypted() || entry.flags().is_masked();
        let method = match entry.compression_method() {
            _ if encrypted => Method::Other,
            CompressionMethod::STORE => Method::Stored,
            CompressionMethod::DEFLATE => Method::Deflated,
            _ => Method::Other,
        };
        let raw: &[u8] = entry.file_path().as_bytes();
        let is_utf8 = entry.flags().is_utf8();
        let name = text(raw, is_utf8).ok_or_else(|| bad("a member's name is not valid UTF-8", at))?;
        names::check(raw, &name, entry.extra_fields().remaining_bytes()).map_err(|why| bad(why, at))?;
        let [stored, decoded] = [entry.compressed_size_hint(), entry.uncompressed_size_hint()];
        let member = Member {
            name,
            method,
            crc32: entry.crc32(),
            has_crc32: true,
            offset: 0,
            stored: exact(stored, "a member's size").map_err(|error| error.at(at).rule(RULE))?,
            decoded: exact(decoded, "a member's size").map_err(|error| error.at(at).rule(RULE))?,
        };
        let lies = match method {
            Method::Stored => stored != decoded,
            Method::Deflated => decoded / deflate::RATIO > stored,
            Method::Other => false,
        };
        if lies {
            let message =
                format!("{:?} cannot have {decoded} bytes when {stored} bytes are stored", member.name);
            return Err(bad(message, at));
        }
        let (local, described) = (entry.local_header_offset(), entry.flags().has_data_descriptor());
        found.push(DirectoryRecord {
            member,
            raw: raw.into(),
            is_utf8,
            method: entry.compression_method().as_u16(),
            local,
            described,
            at,
        });
    }
    if found.len() as u64 != archive.entries_hint() {
        let message = format!(
            "the archive states {} members, but its directory has {}",
            archive.entries_hint(),
            found.len()
        );
        return Err(bad(message, directory));
    }
    locate(input, &mut found, directory)?;
    let mut names = Names::default();
    for (nth, DirectoryRecord { member, raw, at, .. }) in found.iter().enumerate() {
        if !names.add(nth, raw, &member.name) {
            return Err(bad(format!("some readers see two members named {:?}", member.name), *at));
        }
    }
    drop(names);
    let damage = end::check(input, archive.eocd_offset(), directory)?;
    let is_file = |member: &Member| !member.name.ends_with('/') || member.decoded > 0;
    let members = found.into_iter().map(|found| found.member).filter(is_file).collect();
    Ok(Archive { members, damage })
}

/// A central directory record.
struct DirectoryRecord {
    member: Member,
    raw: Box<[u8]>,
    /// Whether its flag marks the name as UTF-8.
    is_utf8: bool,
    method: u16,
    local: u64,
    /// Whether a data descriptor follows the data.
    described: bool,
    at: u64,
}

/// Locates the data of all members: reads their local headers in file order and compares them with the directory.
fn locate(input: &Input<'_>, found: &mut [DirectoryRecord], directory: u64) -> Result<()> {
    let mut order: Vec<&mut DirectoryRecord> = found.iter_mut().collect();
    order.arrange_by_key(|found| found.local);
    let mut window = Window { input, end: directory, start: 0, bytes: Vec::new() };
    let mut free = 0;
    for found in order {
        let local = found.local;
        if local < free {
            let message = format!("the member {:?} overlaps the previous one", found.member.name);
            return Err(bad(message, found.at));
        }
        free = window.locate(found).map_err(|error| error.at(local).rule(LOCAL_RULE))?;
    }
    Ok(())
}

/// Buffered bytes of the file, so that one read covers the headers of several small members.
struct Window<'s> {
    input: &'s Input<'s>,
    /// The start of the central directory, which no member may extend past.
    end: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// Read sizes for small members and for others.
    const NEAR: u64 = 64 << 10;
    const FAR: u64 = 512;

    /// Records where the member's data begins, and returns the offset after it.
    fn locate(&mut self, found: &mut DirectoryRecord) -> Result<u64> {
        let ahead = if found.member.stored < Self::NEAR / 4 { Self::NEAR } else { Self::FAR };
        let fixed = self.get(found.local, LOCAL_BYTES, ahead)?.to_vec();
        let member = &found.member;
        let disagrees = |what: &str| {
            let message =
                format!("the local header of {:?} disagrees with the central directory: {what}", member.name);
            Error::new(Code::BadIndex, message)
        };
        if !fixed.starts_with(LOCAL_SIGNATURE) {
            return Err(disagrees("it is missing"));
        }
        let [names, extras] = [26, 28].map(|at| u64::from(u16_le(&fixed, at)));
        let rest = self.get(found.local + LOCAL_BYTES, names + extras, ahead)?;
        if slice(rest, 0, names) != Some(&*found.raw) {
            return Err(disagrees("different name"));
        }
        let flags = u16_le(&fixed, 6);
        if !found.raw.is_ascii() && (flags & UTF8 != 0) != found.is_utf8 {
            return Err(disagrees("different encoding of the name"));
        }
        let extra = slice(rest, names, extras).unwrap_or_default();
        names::check(&found.raw, &member.name, extra).map_err(|why| Error::new(Code::BadIndex, why))?;
        if u16_le(&fixed, 8) != found.method {
            return Err(disagrees("different method"));
        }
        let [crc32, stored, decoded] = [14, 18, 22].map(|at| u32_le(&fixed, at));
        let described = flags & 8 != 0;
        if described != found.described {
            return Err(disagrees("different data descriptor flag"));
        }
        let long = zip64(extra);
        let size = |short: u32, nth: u64| match long {
            Some(field) if short == u32::MAX => u64_le(field, 8 * nth).unwrap_or(u64::MAX),
            _ => u64::from(short),
        };
        let sizes = (crc32, size(stored, 1), size(decoded, 0));
        if !described && sizes != (member.crc32, member.stored, member.decoded) {
            return Err(disagrees("different size or CRC-32"));
        }
        let offset = found.local + LOCAL_BYTES + names + extras;
        let beyond = || {
            Error::new(Code::Truncated, format!("{:?} extends past the end of the data", found.member.name))
        };
        let end = end_within(offset, member.stored, self.end).ok_or_else(beyond)?;
        let end = if described { self.descriptor(&found.member, end)? } else { end };
        found.member.offset = offset;
        Ok(end)
    }

    /// Returns the end of the data descriptor at `at`. Its signature is optional, and its sizes have 32 or 64 bits.
    fn descriptor(&mut self, member: &Member, at: u64) -> Result<u64> {
        let held = DESCRIPTOR_BYTES.min(self.end.saturating_sub(at));
        let bytes = self.get(at, held, Self::FAR)?;
        for signature in [DESCRIPTOR_SIGNATURE, b""] {
            let Some(numbers) = bytes.strip_prefix(signature) else { continue };
            let crc32 = u32_le(numbers, 0);
            let long = (u64_le(numbers, 4), u64_le(numbers, 12), 20);
            let short = (u32_at(numbers, 4), u32_at(numbers, 8), 12);
            for (stored, decoded, length) in [long, short] {
                if (crc32, stored, decoded) == (member.crc32, Some(member.stored), Some(member.decoded)) {
                    return Ok(at + signature.len() as u64 + length);
                }
            }
        }
        let message =
            format!("the data descriptor of {:?} disagrees with the central directory", member.name);
        Err(Error::new(Code::BadIndex, message).at(at).rule(DESCRIPTOR_RULE))
    }

    fn get(&mut self, offset: u64, length: u64, ahead: u64) -> Result<&[u8]> {
        if end_within(offset, length, self.end).is_none() {
            let message =
                format!("{length} bytes are needed at offset {offset}, the data ends at {}", self.end);
            return Err(Error::new(Code::Truncated, message).at(offset));
        }
        let held = offset.checked_sub(self.start).filter(|&at| slice(&self.bytes, at, length).is_some());
        let at = if let Some(at) = held {
            at
        } else {
            self.bytes = self.input.read_vec(offset, ahead.max(length).min(self.end - offset))?;
            self.start = offset;
            0
        };
        Ok(slice(&self.bytes, at, length).unwrap_or_default())
    }
}

/// The extra field of 64-bit sizes (APPNOTE 4.5.3).
fn zip64(mut extras: &[u8]) -> Option<&[u8]> {
    loop {
        let length = u64::from(u16_at(extras, 2)?);
        let field = slice(extras, 4, length)?;
        if u16_le(extras, 0) == 1 {
            return Some(field);
        }
        extras = extras.get(4 + field.len()..)?;
    }
}

/// Decodes a name as UTF-8 if the flag is set, otherwise as code page 437 (APPNOTE Appendix D), like Python's zipfile.
fn text(raw: &[u8], utf8: bool) -> Option<String> {
    if utf8 || raw.is_ascii() {
        return std::str::from_utf8(raw).ok().map(str::to_owned);
    }
    let of = |&byte: &u8| match byte.checked_sub(0x80) {
        None => char::from(byte),
        Some(high) => CP437.chars().nth(usize::from(high)).unwrap_or('\u{fffd}'),
    };
    Some(raw.iter().map(of).collect())
}

/// The upper half of code page 437.
const CP437: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";

/// Adapts a source for rawzip. Errors of the source are passed on inside its errors.
struct Reader<'s>(&'s Input<'s>);

impl rawzip::ReaderAt for Reader<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = self.0.length().saturating_sub(offset);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let filled = buffer.get_mut(..count).unwrap_or_default();
        if filled.is_empty() {
            // Sources differ in what they return past their end.
            return Ok(0);
        }
        self.0.read_at(offset, filled).map_err(io::Error::other)?;
        Ok(count)
    }
}

fn refusal(error: rawzip::Error) -> Error {
    let error = match error.into_kind() {
        ErrorKind::IO(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Error::new(Code::Truncated, "the archive ends within its directory")
        }
        ErrorKind::IO(error) => match error.downcast::<Error>() {
            Ok(error) => return error,
            Err(error) => Error::io("read", &error),
        },
        ErrorKind::Eof => Error::new(Code::Truncated, "the archive ends within its directory"),
        ErrorKind::MissingEndOfCentralDirectory => Error::new(
            Code::Truncated,
            "the archive has no end of central directory: it was truncated, or it is not a zip file",
        ),
        other => Error::new(
            Code::BadIndex,
            format!("the central directory is damaged: {}", rawzip::Error::from(other)),
        ),
    };
    error.rule(RULE)
}
