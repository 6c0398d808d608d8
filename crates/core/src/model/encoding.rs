//! Encodings of stored bytes: lists of named filters with parameters, stored once per catalog and referred to by number.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use super::{Label, Labels};

/// One step, by the name of its codec.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Filter {
    pub name: Label,
    /// The parameters stored by the format, if the codec takes any.
    pub parameters: Box<[u32]>,
}

impl Filter {
    /// Creates a filter without parameters.
    pub fn named(name: Label) -> Self {
        Self { name, parameters: Box::default() }
    }
}

/// The number of a list of filters in [`Encodings`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Encoding(u32);

/// Set in the number of an unsupported encoding.
const UNKNOWN: u32 = 1 << 31;

impl Encoding {
    /// No filters.
    pub const RAW: Self = Self(0);
    pub const ZSTD: Self = Self(1);
    /// Zstd frames with a seek table (`zt.zstd-seekable/1`).
    pub const ZSTD_SEEKABLE: Self = Self(2);
    /// A bare deflate stream (RFC 1951).
    pub const DEFLATE: Self = Self(3);

    /// Returns whether it can be decoded; otherwise it is only listed.
    pub const fn is_known(self) -> bool {
        self.0 & UNKNOWN == 0
    }

    /// Returns whether the stored bytes must be decoded.
    pub const fn is_encoded(self) -> bool {
        self.0 != Self::RAW.0
    }
}

/// The lists of filters of one catalog; the constants of [`Encoding`] are always present.
#[derive(Clone, Debug)]
pub struct Encodings(Vec<Box<[Filter]>>);

impl Default for Encodings {
    fn default() -> Self {
        let one = |name| Box::from([Filter::named(name)]);
        Self(vec![Box::default(), one(Label::ZSTD), one(Label::ZSTD_SEEKABLE), one(Label::DEFLATE)])
    }
}

impl Encodings {
    /// Returns the encoding of a list of filters. `known` states whether all of them are supported.
    pub fn intern(&mut self, filters: &[Filter], known: bool) -> Encoding {
        let at = self.0.iter().position(|other| **other == *filters).unwrap_or_else(|| {
            self.0.push(filters.into());
            self.0.len() - 1
        });
        // A format has a handful of lists; at most as many as names fit in an index.
        let id = u32::try_from(at).unwrap_or(UNKNOWN - 1);
        Encoding(if known { id } else { id | UNKNOWN })
    }

    /// Returns the filters in the order in which they were applied for writing.
    pub fn filters(&self, encoding: Encoding) -> &[Filter] {
        self.0.get((encoding.0 & !UNKNOWN) as usize).map_or(&[], |filters| filters)
    }

    /// Returns the names of the filters, as shown to users.
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
