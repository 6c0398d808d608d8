//! Digests: `algorithm:value`, as written by 0.1 (`checksum`), 1.0 §4.3, 1.2 §1 and 2 §3.4.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::hash::Hasher as _;

use sha2::Digest as _;
use twox_hash::XxHash3_64;

use crate::error::{Code, Error, Result};

/// A digest stated by a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Digest {
    pub expected: Expected,
    pub over: Over,
    /// The spelling in the file, if it differs from [`Expected::text`]. An index of 100,000 tensors has as many digests, and a string for
    /// each would cost more than reading it. Boxed twice, so that digests without one, almost all, are small.
    spelling: Option<Box<Box<str>>>,
}

/// The bytes that a digest covers: as stored (0.1 to 1.2), or decoded (2 §3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Over {
    Stored,
    Decoded,
}

/// The expected value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expected {
    Crc32c(u32),
    /// The CRC-32 of zip and gzip (RFC 1952 §8).
    Crc32(u32),
    Sha256(Box<[u8; 32]>),
    /// XXH3 of 64 bits without a seed. Only 2 §3.4 registers it.
    Xxh3(u64),
    /// An unknown algorithm. Never counts as verified.
    Unknown,
}

impl Expected {
    pub fn is_xxh3(&self) -> bool {
        matches!(self, Self::Xxh3(_))
    }

    /// Returns the spelling of other implementations.
    fn text(&self) -> String {
        match self {
            Self::Crc32c(crc) => spelled("crc32c:0x", &crc.to_be_bytes(), UPPER),
            Self::Crc32(crc) => spelled("crc32:0x", &crc.to_be_bytes(), UPPER),
            Self::Sha256(bytes) => spelled("sha256:", &bytes[..], LOWER),
            Self::Xxh3(hash) => spelled("xxh3:", &hash.to_be_bytes(), LOWER),
            Self::Unknown => String::new(),
        }
    }
}

/// The value of each byte as a hex digit; above 15 for other bytes.
const fn hex_values(digits: &[u8; 16]) -> [u8; 256] {
    let mut values = [u8::MAX; 256];
    let mut value: u8 = 0;
    while value < 16 {
        values[digits[value as usize] as usize] = value;
        value += 1;
    }
    values
}

static UPPER_VALUES: [u8; 256] = hex_values(UPPER);
static LOWER_VALUES: [u8; 256] = hex_values(LOWER);

/// Parses `DIGITS` hex digits; `None` if `text` is anything else. It has no branch per digit: whether a letter comes next is unpredictable,
/// and mispredictions took a seventh of the time to read a version 2 index.
fn hex_number<const DIGITS: usize>(text: &[u8], values: &[u8; 256]) -> Option<u64> {
    let digits: &[u8; DIGITS] = text.try_into().ok()?;
    let (mut number, mut all) = (0, 0);
    for &digit in digits {
        let value = values[usize::from(digit)];
        all |= value;
        number = number << 4 | u64::from(value & 15);
    }
    (all <= 15).then_some(number)
}

/// Parses SHA-256 in the digits that other implementations write.
fn plain_sha256(text: &[u8]) -> Option<Expected> {
    let (words, []) = text.strip_prefix(b"sha256:")?.as_chunks::<16>() else { return None };
    let words: &[_; 4] = words.try_into().ok()?;
    let mut bytes = [0; 32];
    for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = hex_number::<16>(word, &LOWER_VALUES)?.to_be_bytes();
    }
    Some(Expected::Sha256(Box::new(bytes)))
}

impl Digest {
    fn new(expected: Expected, over: Over) -> Self {
        Self { expected, over, spelling: None }
    }

    /// Creates the digest spelled `text` in a file.
    fn spelled(text: &str, expected: Expected, over: Over) -> Self {
        let spelling = (expected.text() != text).then(|| Box::new(text.into()));
        Self { expected, over, spelling }
    }

    /// Creates the digest for the CRC-32 of a member's decoded bytes in an archive.
    pub fn crc32(crc: u32) -> Self {
        Self::new(Expected::Crc32(crc), Over::Decoded)
    }

    /// Creates the digest for the CRC-32C of stored bytes in LevelDB's formats, masked so that the checksum of bytes that include checksums
    /// is not degenerate (LevelDB's `util/crc32c.h`: Mask).
    pub fn masked_crc32c(masked: u32) -> Self {
        let crc = masked.wrapping_sub(0xa282_ead8).rotate_left(15);
        Self::new(Expected::Crc32c(crc), Over::Stored)
    }

    /// Returns the spelling in the file.
    pub fn text(&self) -> Cow<'_, str> {
        match &self.spelling {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(self.expected.text()),
        }
    }

    /// Parses a digest in the spelling of other implementations. Anything else is left to [`Digest::parse`].
    pub fn plain(text: &[u8]) -> Option<Self> {
        let crc = || hex_number::<8>(text.strip_prefix(b"crc32c:0x")?, &UPPER_VALUES);
        let crc = || Some(Expected::Crc32c(u32::try_from(crc()?).ok()?));
        Some(Self::new(crc().or_else(|| plain_sha256(text))?, Over::Stored))
    }

    /// Parses a digest in its usual spelling. Anything else is left to [`Digest::parse_registered`].
    pub fn plain_registered(text: &[u8]) -> Option<Self> {
        let hash = || hex_number::<16>(text.strip_prefix(b"xxh3:")?, &LOWER_VALUES);
        Some(Self::new(hash().map(Expected::Xxh3).or_else(|| plain_sha256(text))?, Over::Decoded))
    }

    /// Parses `crc32c:0x1A2B3C4D` (the `0x` and leading zeros are optional, as in other implementations) or `sha256:` and 64 hex digits.
    /// Hex is case-insensitive.
    pub fn parse(text: &str) -> Result<Self> {
        if let Some(digest) = Self::plain(text.as_bytes()) {
            return Ok(digest);
        }
        let malformed = |what: &str| {
            Error::new(Code::BadDigest, format!("the digest {text:?} {what}"))
                .rule("digest = algorithm:value")
        };
        let (algorithm, value) =
            text.split_once(':').ok_or_else(|| malformed("has no algorithm before a ':'"))?;
        let expected = match algorithm {
            "crc32c" => {
                let digits = value.strip_prefix("0x").or_else(|| value.strip_prefix("0X")).unwrap_or(value);
                if digits.is_empty()
                    || digits.len() > 8
                    || !digits.bytes().all(|digit| digit.is_ascii_hexdigit())
                {
                    return Err(malformed("needs 1 to 8 hex digits"));
                }
                let value = u32::from_str_radix(digits, 16);
                Expected::Crc32c(value.map_err(|_| malformed("needs 1 to 8 hex digits"))?)
            }
            "sha256" => {
                Expected::Sha256(Box::new(hex32(value).ok_or_else(|| malformed("needs 64 hex digits"))?))
            }
            "" => return Err(malformed("has no algorithm before the ':'")),
            _ => Expected::Unknown,
        };
        Ok(Self::spelled(text, expected, Over::Stored))
    }

    /// Parses the form of 2 §3.4: `xxh3:` and 16 or `sha256:` and 64 lowercase hex digits. Accepts other algorithm
    /// names of lowercase letters and digits, with hex values, as unknown.
    pub fn parse_registered(text: &str) -> Result<Self> {
        if let Some(digest) = Self::plain_registered(text.as_bytes()) {
            return Ok(digest);
        }
        let malformed = |what: &str| {
            Error::new(Code::BadDigest, format!("the digest {text:?} {what}")).rule("zTensor 2 §3.4 Part")
        };
        let (algorithm, value) =
            text.split_once(':').ok_or_else(|| malformed("has no algorithm before a ':'"))?;
        if algorithm.is_empty()
            || !algorithm.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        {
            return Err(malformed("has no algorithm of lower-case letters and digits before the ':'"));
        }
        if value.is_empty() || !value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(malformed("has no lower-case hex digits after the ':'"));
        }
        let expected = match algorithm {
            "xxh3" => return Err(malformed("needs 16 hex digits")),
            "sha256" => {
                Expected::Sha256(Box::new(hex32(value).ok_or_else(|| malformed("needs 64 hex digits"))?))
            }
            _ => Expected::Unknown,
        };
        Ok(Self::spelled(text, expected, Over::Decoded))
    }

    /// Returns a hasher for this digest's algorithm, if it is known.
    pub fn hasher(&self) -> Option<Hasher> {
        match self.expected {
            Expected::Crc32c(_) => Some(Hasher::Sum(Checksum::Crc32c, 0)),
            Expected::Crc32(_) => Some(Hasher::Sum(Checksum::Crc32, 0)),
            Expected::Sha256(_) => Some(Hasher::Sha256(Box::default())),
            Expected::Xxh3(_) => Some(Hasher::Xxh3(Box::default())),
            Expected::Unknown => None,
        }
    }

    /// Compares the hash with the stated digest.
    pub fn check(&self, hasher: Hasher) -> Result<()> {
        let found = hasher.finish();
        if found == self.expected {
            return Ok(());
        }
        let found = found.text();
        let message =
            format!("the bytes hash to {found}, but the index states {}: the file is damaged", self.text());
        let error = Error::new(Code::DigestMismatch, message);
        Err(match (&self.expected, self.over) {
            (Expected::Crc32(_), _) => error.rule("APPNOTE 4.4.7 CRC-32"),
            (_, Over::Decoded) => error.rule("zTensor 2 §3.4 Part"),
            (_, Over::Stored) => error,
        })
    }

    /// Hashes `bytes` and compares. An unknown algorithm passes: a warning was emitted when the file was opened.
    pub fn check_bytes(&self, bytes: &[u8]) -> Result<()> {
        let Some(mut hasher) = self.hasher() else { return Ok(()) };
        hasher.update(bytes);
        self.check(hasher)
    }
}

/// An algorithm for writing digests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    Crc32c,
    /// For formats that use it everywhere; no option names it.
    Crc32,
    Sha256,
    Xxh3,
}

impl Algorithm {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc32c => "crc32c",
            Self::Crc32 => "crc32",
            Self::Sha256 => "sha256",
            Self::Xxh3 => "xxh3",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Crc32c, Self::Sha256, Self::Xxh3].into_iter().find(|algorithm| algorithm.name() == name)
    }

    pub fn hasher(self) -> Hasher {
        match self {
            Self::Crc32c => Hasher::Sum(Checksum::Crc32c, 0),
            Self::Crc32 => Hasher::Sum(Checksum::Crc32, 0),
            Self::Sha256 => Hasher::Sha256(Box::default()),
            Self::Xxh3 => Hasher::Xxh3(Box::default()),
        }
    }

    /// Returns the digest of the bytes fed to `hasher`.
    pub fn digest(self, hasher: Hasher) -> Digest {
        // A writer only formats it.
        Digest::new(hasher.finish(), Over::Stored)
    }
}

/// A checksum that can be combined from those of parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checksum {
    Crc32c,
    Crc32,
}

impl Checksum {
    /// Extends the checksum `sum` by `bytes`.
    pub fn append(self, sum: u32, bytes: &[u8]) -> u32 {
        match self {
            Self::Crc32c => crc32c::crc32c_append(sum, bytes),
            Self::Crc32 => zlib_rs::crc32::crc32(sum, bytes),
        }
    }

    /// Extends the checksum `sum` by `length` bytes with the checksum `part`.
    pub fn combine(self, sum: u32, part: u32, length: usize) -> u32 {
        match self {
            Self::Crc32c => crc32c::crc32c_combine(sum, part, length),
            Self::Crc32 => zlib_rs::crc32::crc32_combine(sum, part, length as u64),
        }
    }
}

/// An incremental hasher.
pub enum Hasher {
    Sum(Checksum, u32),
    Sha256(Box<sha2::Sha256>),
    Xxh3(Box<XxHash3_64>),
}

impl Hasher {
    fn finish(self) -> Expected {
        match self {
            Self::Sum(Checksum::Crc32c, sum) => Expected::Crc32c(sum),
            Self::Sum(Checksum::Crc32, sum) => Expected::Crc32(sum),
            Self::Sha256(state) => Expected::Sha256(Box::new(state.finalize().into())),
            Self::Xxh3(state) => Expected::Xxh3(state.finish()),
        }
    }

    /// Returns its checksum algorithm, if checksums of parts can be combined.
    pub fn checksum(&self) -> Option<Checksum> {
        match self {
            Self::Sum(checksum, _) => Some(*checksum),
            Self::Sha256(_) | Self::Xxh3(_) => None,
        }
    }

    /// Returns whether hashes of parts can be combined.
    pub fn combines(&self) -> bool {
        self.checksum().is_some()
    }

    /// Returns the current hash, for [`Hasher::combine`]. Only for a hasher that combines.
    pub fn combined(&self) -> Option<u32> {
        match self {
            Self::Sum(_, sum) => Some(*sum),
            Self::Sha256(_) | Self::Xxh3(_) => None,
        }
    }

    /// Appends `length` bytes of which only the checksum is known. Only for a hasher that combines.
    pub fn combine(&mut self, part: u32, length: u64) {
        if let (Self::Sum(checksum, sum), Ok(length)) = (self, usize::try_from(length)) {
            *sum = checksum.combine(*sum, part, length);
        }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sum(checksum, sum) => *sum = checksum.append(*sum, bytes),
            Self::Sha256(state) => state.update(bytes),
            Self::Xxh3(state) => state.write(bytes),
        }
    }
}

/// Returns the 64-bit XXH3 of `bytes`, without a seed.
pub fn xxh3(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// Formats bytes as hex digits after `head`, in exactly sized memory: a writer does this for each blob.
fn spelled(head: &str, bytes: &[u8], digits: &[u8; 16]) -> String {
    let mut text = String::with_capacity(head.len() + 2 * bytes.len());
    text.push_str(head);
    for byte in bytes {
        text.push(char::from(digits[usize::from(byte >> 4)]));
        text.push(char::from(digits[usize::from(byte & 15)]));
    }
    text
}

fn hex32(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // RFC 3720 B.4 and FIPS 180-2 B.1.
        Digest::parse("crc32c:0x8A9136AA").unwrap().check_bytes(&[0; 32]).unwrap();
        let abc = "sha256:BA7816BF8F01CFEA414140DE5DAE2223b00361a396177a9cb410ff61f20015ad";
        Digest::parse(abc).unwrap().check_bytes(b"abc").unwrap();
        let error = Digest::parse(abc).unwrap().check_bytes(b"abd").unwrap_err();
        assert_eq!(error.code(), Code::DigestMismatch);
    }

    #[test]
    fn xxh3_answers() {
        // The reference implementation's test vectors, for no bytes, and for pieces at once and one by one.
        let empty = Digest::parse_registered("xxh3:2d06800538d394c2").unwrap();
        empty.check_bytes(b"").unwrap();
        assert_eq!(empty.check_bytes(b"a").unwrap_err().code(), Code::DigestMismatch);
        let bytes: Vec<u8> = (0..100_000_u32).map(|i| i.to_le_bytes()[0] ^ i.to_le_bytes()[1]).collect();
        let mut hasher = Algorithm::Xxh3.hasher();
        bytes.chunks(977).for_each(|piece| hasher.update(piece));
        assert_eq!(Algorithm::Xxh3.digest(hasher).expected, Expected::Xxh3(xxh3(&bytes)));
    }

    #[test]
    fn masked_checksums() {
        // The checksum of no bytes is 0; that of 32 zeros is 0x8A9136AA in RFC 3720 B.4.
        assert_eq!(Digest::masked_crc32c(0xa282_ead8).expected, Expected::Crc32c(0));
        let masked = 0x8a91_36aa_u32.rotate_right(15).wrapping_add(0xa282_ead8);
        Digest::masked_crc32c(masked).check_bytes(&[0; 32]).unwrap();
        assert_eq!(Digest::masked_crc32c(masked).text(), "crc32c:0x8A9136AA");
    }

    #[test]
    fn checksums_combine() {
        // The check value of CRC-32/ISO-HDLC.
        Digest::crc32(0xcbf4_3926).check_bytes(b"123456789").unwrap();
        assert_eq!(Digest::crc32(7).text(), "crc32:0x00000007");
        let bytes: Vec<u8> = (0..10_000_u32).map(|i| i.to_le_bytes()[0] ^ i.to_le_bytes()[1]).collect();
        for checksum in [Checksum::Crc32c, Checksum::Crc32] {
            let whole = checksum.append(0, &bytes);
            for middle in [0, 1, 4096, 10_000] {
                let (head, tail) = bytes.split_at(middle);
                assert_eq!(checksum.append(checksum.append(0, head), tail), whole);
                let [first, last] = [head, tail].map(|part| checksum.append(0, part));
                assert_eq!(checksum.combine(first, last, tail.len()), whole);
            }
        }
    }

    #[test]
    fn the_spelling_of_a_digest_is_preserved() {
        let sha = |case: &str| format!("sha256:{}", case.repeat(32));
        for text in [
            "crc32c:0x0A2B3C4D",
            "crc32c:0x0a2b3c4d",
            "crc32c:A2B3C4D",
            "crc32c:0X0A2B3C4D",
            "md5:x",
            &sha("ab"),
            &sha("aB"),
        ] {
            assert_eq!(Digest::parse(text).unwrap().text(), text);
        }
        for text in ["xxh3:00000000000000ff", &sha("0f"), "blake3:00"] {
            assert_eq!(Digest::parse_registered(text).unwrap().text(), text);
        }
        let crc = |text: &str| Digest::parse(text).unwrap().expected;
        for same in ["crc32c:0x0A2B3C4D", "crc32c:0x0a2b3c4d", "crc32c:A2B3C4D", "crc32c:0X0A2B3c4D"] {
            assert_eq!(crc(same), Expected::Crc32c(0x0a2b_3c4d), "{same}");
        }
    }

    #[test]
    fn registered_spellings_are_strict() {
        let sha = format!("sha256:{}", "0a".repeat(32));
        for (good, known) in [("xxh3:00000000000000ff", true), (&*sha, true), ("blake3:00", false)] {
            let digest = Digest::parse_registered(good).unwrap();
            assert_eq!(digest.expected != Expected::Unknown, known, "{good}");
        }
        for bad in [
            "xxh3:ff",
            "xxh3:00000000000000FF",
            "xxh3:",
            ":00",
            "xxh3",
            "XXH3:00",
            "sha256:00",
            "a-b:00",
            "a:0g",
        ] {
            assert_eq!(Digest::parse_registered(bad).unwrap_err().code(), Code::BadDigest, "{bad}");
        }
        let older = Digest::parse("xxh3:00000000000000ff").unwrap();
        assert_eq!(older.expected, Expected::Unknown);
    }

    #[test]
    fn spellings_of_older_versions_are_lenient() {
        for good in ["crc32c:1a2b3c4d", "crc32c:0X1", "xxh3:whatever", "sha512:"] {
            assert!(Digest::parse(good).is_ok(), "{good}");
        }
        let short = "sha256:ab";
        for bad in [
            "",
            "crc32c",
            "crc32c:",
            "crc32c:0x",
            "crc32c:0x123456789",
            "crc32c:000000001",
            "crc32c:+1",
            "crc32c:zz",
            short,
            ":ab",
        ] {
            assert_eq!(Digest::parse(bad).unwrap_err().code(), Code::BadDigest, "{bad}");
        }
    }
}
