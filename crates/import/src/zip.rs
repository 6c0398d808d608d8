//! zip archives: which members there are, and where their bytes stand. `APPNOTE` is PKWARE's specification, 6.3.10.
//!
//! The central directory counts. Each local header has to agree with it, no two members may share a byte, and no name may stand
//! twice or be read in two ways, so that every other reader finds the same members. rawzip finds and walks the directory; the rest
//! is checked here.
#![forbid(unsafe_code)]

mod end;
mod names;

use std::io;

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
use names::Names;

const RULE: &str = "APPNOTE 4.3.12 Central directory structure";
const LOCAL_RULE: &str = "APPNOTE 4.3.7 Local file header";
const DESCRIPTOR_RULE: &str = "APPNOTE 4.3.9 Data descriptor";

const LOCAL_SIGNATURE: &[u8] = b"PK\x03\x04";
/// What an archive without members begins with.
const EMPTY_SIGNATURE: &[u8] = b"PK\x05\x06";
const DESCRIPTOR_SIGNATURE: &[u8] = b"PK\x07\x08";
/// The flag of names in UTF-8.
const UTF8: u16 = 1 << 11;
/// Bytes of a local header without name and extra fields.
const LOCAL_BYTES: u64 = 30;
/// Bytes of a data descriptor with signature and sizes of 64 bits.
const DESCRIPTOR_BYTES: u64 = 24;
/// The end of central directory record and the longest comment.
const END_BYTES: u64 = 22 + 0xffff;

/// How a member is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    Stored,
    Deflated,
    /// Encrypted, or by a method that is not decoded here.
    Other,
}

/// A file in an archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    pub name: String,
    pub method: Method,
    pub crc32: u32,
    /// Whether `crc32` is a checksum of the bytes. Some writers of PyTorch's archives store 0 and compute none.
    pub has_crc32: bool,
    /// Where its stored bytes begin.
    pub offset: u64,
    /// Bytes in the archive.
    pub stored: u64,
    /// Bytes once decoded, as the directory says.
    pub decoded: u64,
}

impl Member {
    /// All of it as one blob, whose digest is the CRC-32 of the decoded bytes.
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

    /// The first `count` decoded bytes, or all where there are fewer. They are not checked against the CRC-32.
    pub fn head(&self, input: &Input<'_>, count: u64) -> Result<Vec<u8>> {
        let count = count.min(self.decoded);
        match self.method {
            Method::Stored => input.read_vec(self.offset, count),
            Method::Other => Err(self.undecodable()),
            Method::Deflated => {
                // A first block may begin with a table of some 100 bytes.
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

    /// All decoded bytes, checked against the CRC-32. For members that are a part of an index; `most` bounds them.
    pub fn read(&self, input: &Input<'_>, most: u64) -> Result<Vec<u8>> {
        if self.decoded > most {
            let message = format!("the member {:?} has {} bytes, more than {most}", self.name, self.decoded);
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

    /// All decoded bytes, checked against the CRC-32, however many they are: as many as a component may decode to. Memory is claimed page by
    /// page, as they come.
    pub fn read_owned(&self, input: &Input<'_>) -> Result<Owned> {
        let most = input.limits.max_decoded_bytes;
        if self.method == Method::Other {
            return Err(self.undecodable());
        }
        if self.decoded > most {
            let message = format!(
                "the member {:?} decodes to {} bytes, more than {most} (option maxDecodedBytes)",
                self.name, self.decoded
            );
            return Err(Error::new(Code::Limit, message).at(self.offset));
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

    /// The refusal of a member whose bytes cannot be decoded.
    pub fn undecodable(&self) -> Error {
        let message = format!(
            "the member {:?} is encrypted, or compressed by a method that is not known here",
            self.name
        );
        Error::new(Code::UnsupportedEncoding, message).at(self.offset)
    }
}

/// The name of the first member, as far as the beginning of a file tells; `None` where the file is no zip archive. Empty where
/// there is no member.
pub fn first_name<'s>(sample: &'s Probe<'_>) -> Result<Option<&'s [u8]>> {
    let first = sample.first(LOCAL_BYTES + 0xffff)?;
    if first.starts_with(EMPTY_SIGNATURE) {
        return Ok(Some(b""));
    }
    let name = slice(first, LOCAL_BYTES, u64::from(u16_le(first, 26)));
    Ok(first.starts_with(LOCAL_SIGNATURE).then(|| name.unwrap_or_default()))
}

/// An archive.
pub struct Archive {
    /// All members but empty folders, in the order of the central directory.
    pub members: Vec<Member>,
    /// What is wrong with the archive while its members are clear.
    pub damage: Option<Error>,
}

/// Reads the directory and every local header. Refuses an archive whose parts disagree, overlap or share a name, and one with a name
/// that readers read in two ways.
pub fn read(input: &Input<'_>) -> Result<Archive> {
    let total = input.length();
    let mut buffer = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let locator = ZipLocator::new().max_search_space(END_BYTES);
    let search = buffer.get_mut(..RECOMMENDED_BUFFER_SIZE).unwrap_or_default();
    let archive =
        locator.locate_in_reader(Reader(input), search, total).map_err(|(_, error)| refusal(error))?;
    let directory = archive.directory_offset();
    let bytes = archive.eocd_offset().saturating_sub(directory);
    let most = input.limits.max_index_bytes.unwrap_or(ZIP_DIRECTORY_BYTES);
    if bytes > most {
        let message =
            format!("the central directory has {bytes} bytes, more than {most} (option maxIndexBytes)");
        return Err(Error::new(Code::Limit, message).at(directory).rule(RULE));
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
            let message = format!("{:?} cannot have {decoded} bytes in {stored} stored ones", member.name);
            return Err(bad(message, at));
        }
        let (local, described) = (entry.local_header_offset(), entry.flags().has_data_descriptor());
        found.push(Found {
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
        let message =
            format!("the archive says {} members, its directory has {}", archive.entries_hint(), found.len());
        return Err(bad(message, directory));
    }
    locate(input, &mut found, directory)?;
    let mut names = Names::default();
    for (nth, Found { member, raw, at, .. }) in found.iter().enumerate() {
        if !names.add(nth, raw, &member.name) {
            return Err(bad(
                format!("two members are called {:?}, as some readers see it", member.name),
                *at,
            ));
        }
    }
    drop(names);
    let damage = end::check(input, archive.eocd_offset(), directory)?;
    let is_file = |member: &Member| !member.name.ends_with('/') || member.decoded > 0;
    let members = found.into_iter().map(|found| found.member).filter(is_file).collect();
    Ok(Archive { members, damage })
}

/// A record of the central directory.
struct Found {
    member: Member,
    raw: Box<[u8]>,
    /// Whether the name is in UTF-8 by its flag.
    is_utf8: bool,
    method: u16,
    local: u64,
    /// Whether a data descriptor follows the data.
    described: bool,
    at: u64,
}

/// Finds the data of all members: reads their local headers in the order of the file, and compares them with the directory.
fn locate(input: &Input<'_>, found: &mut [Found], directory: u64) -> Result<()> {
    let mut order: Vec<&mut Found> = found.iter_mut().collect();
    order.sort_by_key(|found| found.local);
    let mut window = Window { input, end: directory, start: 0, bytes: Vec::new() };
    let mut free = 0;
    for found in order {
        let local = found.local;
        if local < free {
            let message = format!("the member {:?} overlaps the one before it", found.member.name);
            return Err(bad(message, found.at));
        }
        free = window.locate(found).map_err(|error| error.at(local).rule(LOCAL_RULE))?;
    }
    Ok(())
}

/// Bytes of the file in memory, so that the headers of small members come in one read.
struct Window<'s> {
    input: &'s Input<'s>,
    /// Where the central directory begins: no member goes beyond it.
    end: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// Bytes of a read where members are small, and where they are not.
    const NEAR: u64 = 64 << 10;
    const FAR: u64 = 512;

    /// Notes where the member's data begins, and gives the offset behind all of it.
    fn locate(&mut self, found: &mut Found) -> Result<u64> {
        let ahead = if found.member.stored < Self::NEAR / 4 { Self::NEAR } else { Self::FAR };
        let fixed = self.get(found.local, LOCAL_BYTES, ahead)?.to_vec();
        let member = &found.member;
        let disagrees = |what: &str| {
            let message =
                format!("the local header of {:?} disagrees with the central directory: {what}", member.name);
            Error::new(Code::BadIndex, message)
        };
        if !fixed.starts_with(LOCAL_SIGNATURE) {
            return Err(disagrees("there is none"));
        }
        let [names, extras] = [26, 28].map(|at| u64::from(u16_le(&fixed, at)));
        let rest = self.get(found.local + LOCAL_BYTES, names + extras, ahead)?;
        if slice(rest, 0, names) != Some(&*found.raw) {
            return Err(disagrees("another name"));
        }
        let flags = u16_le(&fixed, 6);
        if !found.raw.is_ascii() && (flags & UTF8 != 0) != found.is_utf8 {
            return Err(disagrees("another encoding of the name"));
        }
        let extra = slice(rest, names, extras).unwrap_or_default();
        names::check(&found.raw, &member.name, extra).map_err(|why| Error::new(Code::BadIndex, why))?;
        if u16_le(&fixed, 8) != found.method {
            return Err(disagrees("another method"));
        }
        let [crc32, stored, decoded] = [14, 18, 22].map(|at| u32_le(&fixed, at));
        let described = flags & 8 != 0;
        if described != found.described {
            return Err(disagrees("a data descriptor"));
        }
        let long = zip64(extra);
        let size = |short: u32, nth: u64| match long {
            Some(field) if short == u32::MAX => u64_le(field, 8 * nth).unwrap_or(u64::MAX),
            _ => u64::from(short),
        };
        let sizes = (crc32, size(stored, 1), size(decoded, 0));
        if !described && sizes != (member.crc32, member.stored, member.decoded) {
            return Err(disagrees("another size or CRC-32"));
        }
        let offset = found.local + LOCAL_BYTES + names + extras;
        let beyond = || {
            Error::new(Code::Truncated, format!("{:?} goes beyond the end of the data", found.member.name))
        };
        let end = end_within(offset, member.stored, self.end).ok_or_else(beyond)?;
        let end = if described { self.descriptor(&found.member, end)? } else { end };
        found.member.offset = offset;
        Ok(end)
    }

    /// The end of the data descriptor at `at`: its signature may lack, and its sizes have 32 or 64 bits.
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

fn bytes_at<const N: usize>(bytes: &[u8], at: u64) -> Option<[u8; N]> {
    slice(bytes, at, N as u64)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: u64) -> Option<u16> {
    bytes_at(bytes, at).map(u16::from_le_bytes)
}

fn u16_le(bytes: &[u8], at: u64) -> u16 {
    u16_at(bytes, at).unwrap_or_default()
}

fn u32_at(bytes: &[u8], at: u64) -> Option<u64> {
    bytes_at(bytes, at).map(u32::from_le_bytes).map(u64::from)
}

fn u32_le(bytes: &[u8], at: u64) -> u32 {
    bytes_at(bytes, at).map(u32::from_le_bytes).unwrap_or_default()
}

fn u64_le(bytes: &[u8], at: u64) -> Option<u64> {
    bytes_at(bytes, at).map(u64::from_le_bytes)
}

/// A name in UTF-8 where its flag says so, else in code page 437 (APPNOTE Appendix D), as Python's zipfile reads it.
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

/// A source as rawzip reads it. What the source says when it fails travels in the error.
struct Reader<'s>(&'s Input<'s>);

impl rawzip::ReaderAt for Reader<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = self.0.length().saturating_sub(offset);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let filled = buffer.get_mut(..count).unwrap_or_default();
        if filled.is_empty() {
            // Sources differ in what they say of nothing beyond their end.
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
            "the archive has no end of central directory: it was cut off, or is not a zip file",
        ),
        other => Error::new(
            Code::BadIndex,
            format!("the central directory is damaged: {}", rawzip::Error::from(other)),
        ),
    };
    error.rule(RULE)
}

fn bad(message: impl Into<String>, at: u64) -> Error {
    Error::new(Code::BadIndex, message).at(at).rule(RULE)
}
