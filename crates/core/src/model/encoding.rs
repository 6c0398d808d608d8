//! What stored bytes went through: a list of named filters with parameters, kept once a catalog and named by a number.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use super::{Label, Labels};

/// One step, by the name of its codec.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Filter {
    pub name: Label,
    /// As the format has them, where the codec takes any.
    pub parameters: Box<[u32]>,
}

impl Filter {
    /// A filter without parameters.
    pub fn named(name: Label) -> Self {
        Self { name, parameters: Box::default() }
    }
}

/// A list of filters in [`Encodings`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Encoding(u32);

/// Set in the number of an encoding that cannot be decoded here.
const UNKNOWN: u32 = 1 << 31;

impl Encoding {
    /// As the bytes are: no filter at all.
    pub const RAW: Self = Self(0);
    pub const ZSTD: Self = Self(1);
    /// Frames of zstd and a table of where they are (`zt.zstd-seekable/1`).
    pub const ZSTD_SEEKABLE: Self = Self(2);
    /// A bare deflate stream (RFC 1951).
    pub const DEFLATE: Self = Self(3);

    /// Whether it can be decoded here; otherwise it is only listed.
    pub const fn is_known(self) -> bool {
        self.0 & UNKNOWN == 0
    }

    /// Whether the stored bytes have to be decoded, by whatever there is for that.
    pub const fn is_encoded(self) -> bool {
        self.0 != Self::RAW.0
    }
}

/// The lists of filters of one catalog; the constants of [`Encoding`] are always there.
#[derive(Clone, Debug)]
pub struct Encodings(Vec<Box<[Filter]>>);

impl Default for Encodings {
    fn default() -> Self {
        let one = |name| Box::from([Filter::named(name)]);
        Self(vec![Box::default(), one(Label::ZSTD), one(Label::ZSTD_SEEKABLE), one(Label::DEFLATE)])
    }
}

impl Encodings {
    /// The encoding of a list of filters. `known` says whether all of them can be decoded here.
    pub fn intern(&mut self, filters: &[Filter], known: bool) -> Encoding {
        let at = self.0.iter().position(|other| **other == *filters).unwrap_or_else(|| {
            self.0.push(filters.into());
            self.0.len() - 1
        });
        // A format has a handful of lists; as many as names fit in an index.
        let id = u32::try_from(at).unwrap_or(UNKNOWN - 1);
        Encoding(if known { id } else { id | UNKNOWN })
    }

    /// In the order in which they were applied when the bytes were written.
    pub fn filters(&self, encoding: Encoding) -> &[Filter] {
        self.0.get((encoding.0 & !UNKNOWN) as usize).map_or(&[], |filters| filters)
    }

    /// The names of the filters, as users see them.
    pub fn name<'l>(&self, encoding: Encoding, labels: &'l Labels) -> Cow<'l, str> {
        match self.filters(encoding) {
            [] => Cow::Borrowed("raw"),
            [one] => Cow::Borrowed(labels.text(one.name)),
            several => {
                let names: Vec<_> = several.iter().map(|filter| labels.text(filter.name)).collect();
                Cow::Owned(names.join("+"))
            }
        }
    }
}
