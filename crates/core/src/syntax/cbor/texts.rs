//! The short texts that a reader has seen: an index repeats a few keys for each tensor, and validating them again took a quarter of the
//! time to read it.
#![forbid(unsafe_code)]

/// Maximum remembered texts.
const SLOTS: usize = 32;
/// Maximum bytes of a remembered text: the limit of a one-byte head.
pub const REMEMBERED: usize = 23;

/// Valid UTF-8 texts, each in its [`slot`].
#[derive(Clone, Default)]
pub struct Texts<'a>([&'a str; SLOTS]);

/// Returns the slot of a text. Any hash would do; these factors avoid collisions between the keys of each version.
fn slot(bytes: &[u8]) -> usize {
    let first = bytes.first().copied().unwrap_or_default();
    let middle = bytes.get(bytes.len() / 2).copied().unwrap_or_default();
    (usize::from(first) * 3 + usize::from(middle) * 16 + bytes.len() * 4) % SLOTS
}

impl<'a> Texts<'a> {
    /// Returns the text of these bytes, if it was seen.
    #[inline]
    pub fn find(&self, bytes: &[u8]) -> Option<&'a str> {
        let known = *self.0.get(slot(bytes))?;
        same(known.as_bytes(), bytes).then_some(known)
    }

    /// Remembers a text that is short enough.
    #[inline]
    pub fn remember(&mut self, text: &'a str) {
        if text.len() <= REMEMBERED
            && let Some(entry) = self.0.get_mut(slot(text.as_bytes()))
        {
            *entry = text;
        }
    }
}

/// Returns whether two short texts are equal. The library's call costs more than the rest of reading a key.
#[inline]
fn same(one: &[u8], other: &[u8]) -> bool {
    /// Compares both beginnings and ends; `None` if they are shorter than that or more than twice as long.
    fn ends<const BYTES: usize>(one: &[u8], other: &[u8]) -> Option<bool> {
        let starts = one.first_chunk::<BYTES>()? == other.first_chunk()?;
        (one.len() <= 2 * BYTES).then_some(starts && one.last_chunk::<BYTES>() == other.last_chunk())
    }
    one.len() == other.len()
        && ends::<4>(one, other)
            .or_else(|| ends::<8>(one, other))
            .unwrap_or_else(|| if one.len() < 4 { one.iter().eq(other) } else { one == other })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_are_distinguished() {
        let texts: Vec<Vec<u8>> = (0..=24)
            .flat_map(|length| {
                let plain = vec![b'a'; length];
                let changed = (0..length).map(move |at| {
                    let mut text = vec![b'a'; length];
                    text[at] = b'b';
                    text
                });
                std::iter::once(plain).chain(changed)
            })
            .collect();
        for (at, one) in texts.iter().enumerate() {
            for (other_at, other) in texts.iter().enumerate() {
                assert_eq!(same(one, other), at == other_at, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn remembered_texts_are_found() {
        let mut texts = Texts::default();
        assert_eq!(texts.find(b""), Some(""));
        assert_eq!(texts.find(b"shape"), None);
        texts.remember("shape");
        texts.remember("a text that has more bytes than are remembered");
        assert_eq!(texts.find(b"shape"), Some("shape"));
        assert_eq!(texts.find(b"a text that has more bytes than are remembered"), None);
    }
}
