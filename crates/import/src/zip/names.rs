//! Member names that zip readers interpret differently. They are rejected, because another reader would find a different member.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::HashMap;

use ztensor_core::checked::slice;
use ztensor_core::codecs::digest::Checksum;

use super::fields::{bytes_at, u16_at, u16_le};

/// The extra field that has the name in UTF-8 (APPNOTE 4.6.9).
const UNICODE_PATH: u16 = 0x7075;

/// Checks the name in a header. Returns the reason for rejecting it.
pub fn check(raw: &[u8], name: &str, extras: &[u8]) -> Result<(), String> {
    if raw.contains(&0) {
        // Python's zipfile and C programs end the name there, others do not.
        return Err(format!("the name {name:?} contains a NUL"));
    }
    match unicode_path(raw, extras) {
        Some(other) if other != name.as_bytes() => {
            let other = String::from_utf8_lossy(other).into_owned();
            Err(format!("the name {name:?} is {other:?} in a Unicode path extra field"))
        }
        _ => Ok(()),
    }
}

/// Returns the name in a Unicode path extra field. Readers ignore the field if its CRC-32 does not match the name in the header.
fn unicode_path<'e>(raw: &[u8], mut extras: &'e [u8]) -> Option<&'e [u8]> {
    loop {
        let field = slice(extras, 4, u64::from(u16_at(extras, 2)?))?;
        if u16_le(extras, 0) == UNICODE_PATH
            && field.first() == Some(&1)
            && bytes_at(field, 1).map(u32::from_le_bytes) == Some(Checksum::Crc32.append(0, raw))
        {
            return field.get(5..).filter(|name| !name.is_empty());
        }
        extras = extras.get(4 + field.len()..)?;
    }
}

/// The names that readers may give the members of an archive.
#[derive(Default)]
pub struct Names<'a> {
    /// Each normalized name, and its member.
    members: HashMap<Cow<'a, str>, usize>,
}

impl<'a> Names<'a> {
    /// Records the names of a member, and returns whether they are unique.
    pub fn add(&mut self, member: usize, raw: &'a [u8], name: &'a str) -> bool {
        // Without the UTF-8 flag some readers decode the bytes as UTF-8 anyway.
        let bytes = std::str::from_utf8(raw).ok().filter(|bytes| *bytes != name);
        [Some(name), bytes]
            .into_iter()
            .flatten()
            .all(|name| *self.members.entry(plain(name)).or_insert(member) == member)
    }
}

/// Normalizes a name the way some readers do: a backslash is a separator, and `.` and empty components are dropped.
pub fn plain(name: &str) -> Cow<'_, str> {
    let odd = |part: &str| matches!(part, "" | ".");
    if !name.contains('\\') && !name.split('/').any(odd) {
        return Cow::Borrowed(name);
    }
    let parts: Vec<_> = name.split(['/', '\\']).filter(|part| !odd(part)).collect();
    Cow::Owned(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(version: u8, of: &[u8], name: &str) -> Vec<u8> {
        let mut field = vec![version];
        field.extend(Checksum::Crc32.append(0, of).to_le_bytes());
        field.extend(name.as_bytes());
        let mut extras = vec![0x99, 0x99, 1, 0, 7];
        extras.extend(UNICODE_PATH.to_le_bytes());
        extras.extend(u16::try_from(field.len()).unwrap().to_le_bytes());
        extras.extend(field);
        extras
    }

    #[test]
    fn ambiguous_names_in_one_header() {
        let check = |raw: &[u8], extras: &[u8]| check(raw, &String::from_utf8_lossy(raw), extras).is_ok();
        assert!(check(b"a.npy", &[]));
        assert!(!check(b"a.npy\0x", &[]));
        assert!(check(b"a.npy", &field(1, b"a.npy", "a.npy")));
        assert!(!check(b"a.npy", &field(1, b"a.npy", "b.npy")));
        // Fields that readers ignore: another version, a checksum of another name, no name, a truncated field.
        assert!(check(b"a.npy", &field(2, b"a.npy", "b.npy")));
        assert!(check(b"a.npy", &field(1, b"b.npy", "b.npy")));
        assert!(check(b"a.npy", &field(1, b"a.npy", "")));
        let truncated = field(1, b"a.npy", "b.npy");
        assert!(check(b"a.npy", &truncated[..truncated.len() - 1]));
    }

    #[test]
    fn names_of_two_members_that_some_reader_takes_as_one() {
        let are_distinct = |names: &[(&[u8], &str)]| {
            let mut all = Names::default();
            names.iter().enumerate().all(|(at, (raw, name))| all.add(at, raw, name))
        };
        let plain = |names: &[&str]| {
            are_distinct(&names.iter().map(|name| (name.as_bytes(), *name)).collect::<Vec<_>>())
        };
        assert!(plain(&["a", "b", "a/b", "A", "a.npy", "..", "a/../b"]));
        for pair in [
            ["a", "a"],
            ["a/b", "a\\b"],
            ["a/b", "a//b"],
            ["a", "./a"],
            ["a", "/a"],
            ["a", "a/"],
            ["a/b", "a/./b"],
        ] {
            assert!(!plain(&pair), "{pair:?}");
        }
        // "é" with the UTF-8 flag, and the same bytes without it.
        assert!(!are_distinct(&[(b"\xc3\xa9", "\u{e9}"), (b"\xc3\xa9", "├⌐")]));
        assert!(are_distinct(&[(b"\xc3\xa9", "├⌐")]));
    }
}
