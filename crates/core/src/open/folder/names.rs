//! Names in a folder: extensions, numbered sets, lists for messages.
#![forbid(unsafe_code)]

use std::fmt::{Display, Formatter};

use crate::formats::Formats;

/// Maximum names listed in an error.
pub const SHOWN: usize = 20;

pub fn extension(name: &str, formats: Formats) -> Option<&str> {
    let (stem, extension) = name.rsplit_once('.')?;
    let known = || formats.endings().any(|ending| ending == extension);
    (!stem.is_empty() && !stem.starts_with('.') && known()).then_some(extension)
}

/// What the names of a set have in common: `<stem>-<number>-of-<total>.<extension>`. diffusers puts a variant before the extension:
/// `<stem>-<number>-of-<total>.fp16.<extension>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Set<'n> {
    pub stem: &'n str,
    pub total: u64,
    /// Empty, or with the dot that follows it.
    pub variant: &'n str,
    pub extension: &'n str,
}

impl Display for Set<'_> {
    fn fmt(&self, to: &mut Formatter<'_>) -> std::fmt::Result {
        write!(to, "the set {}-…-of-….{}{}", self.stem, self.variant, self.extension)
    }
}

/// The name of a file in a set.
pub struct Numbered<'n> {
    pub name: &'n str,
    pub number: u64,
    pub set: Set<'n>,
}

pub fn numbered(name: &str, formats: Formats) -> Option<Numbered<'_>> {
    let extension = extension(name, formats)?;
    let rest = name.strip_suffix(extension)?;
    let (rest, of) = rest.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let (total, variant) = of.split_once('.')?;
    let digits =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let set = Set { stem, total: digits(total)?, variant, extension };
    Some(Numbered { name, number: digits(number)?, set })
}

/// Returns the first of many names, quoted.
pub fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    let shown = names.iter().take(SHOWN).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}
