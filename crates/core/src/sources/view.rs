//! A private, copy-on-write view of a whole file.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::Result;

use memmap2::{MmapMut, MmapOptions};

#[cfg(windows)]
use super::placeholder;

/// What is mapped.
#[cfg(unix)]
pub(super) type View = MmapMut;

/// What is mapped: in a placeholder, if the system has them.
#[cfg(windows)]
pub(super) enum View {
    InPlaceholder(placeholder::View),
    Plain(MmapMut),
}

#[cfg(windows)]
impl View {
    pub(super) fn as_ptr(&self) -> *const u8 {
        match self {
            Self::InPlaceholder(view) => view.start(),
            Self::Plain(map) => map.as_ptr(),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::InPlaceholder(view) => view.length(),
            Self::Plain(map) => map.len(),
        }
    }
}

pub(super) fn map(file: &File, length: usize) -> Result<View> {
    #[cfg(windows)]
    if let Some(view) = placeholder::View::new(file, length) {
        return Ok(View::InPlaceholder(view));
    }
    let mut options = MmapOptions::new();
    options.len(length).no_reserve_swap();
    // SAFETY: the mapping is private and only passed on as raw memory that JavaScript may write and another process may change; no Rust
    // reference to its bytes is held across a call, and parsers and decoders read through the file instead.
    let map = unsafe { options.map_copy(file) };
    #[cfg(windows)]
    return map.map(View::Plain);
    #[cfg(unix)]
    map
}
