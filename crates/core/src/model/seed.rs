//! WebAssembly has no source of random numbers. The host sets the keys of the table of names, so that a file cannot aim at it.
#![forbid(unsafe_code)]

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

static KEYS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Sets the keys of the files that are opened from now on.
pub fn set(keys: [u64; 2]) {
    for (key, value) in KEYS.iter().zip(keys) {
        key.store(value, Ordering::Relaxed);
    }
}

/// Stands for `RandomState`.
#[derive(Clone, Debug)]
pub struct Seeded([u64; 2]);

impl Seeded {
    #[allow(clippy::new_without_default)] // as RandomState is used
    pub fn new() -> Self {
        Self(KEYS.each_ref().map(|key| key.load(Ordering::Relaxed)))
    }
}

#[allow(deprecated)] // the only hasher of the standard library with keys
impl BuildHasher for Seeded {
    type Hasher = std::hash::SipHasher;

    fn build_hasher(&self) -> Self::Hasher {
        let Self([first, second]) = *self;
        std::hash::SipHasher::new_with_keys(first, second)
    }
}
