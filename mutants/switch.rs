//! Which mutant is on: the one that `ZTENSOR_MUTANT` names. Whoever asks is marked in the file `ZTENSOR_MUTANTS_REACHED`, a byte each.
#![allow(unsafe_code)]

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

static ON: AtomicU32 = AtomicU32::new(u32::MAX);
static REACHED: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static BEGUN: Once = Once::new();
const MOST: u32 = 1 << 16;

/// Deprecated, so that the compiler can be asked to name its uses: those in code of other systems it never sees.
#[deprecated]
#[inline]
pub fn on(mutant: u32) -> bool {
    let mut number = ON.load(Ordering::Relaxed);
    if number == u32::MAX {
        BEGUN.call_once(begin);
        number = ON.load(Ordering::Relaxed);
    }
    let reached = REACHED.load(Ordering::Relaxed);
    if !reached.is_null() && mutant < MOST {
        // SAFETY: the mapping has room for all numbers and stays; everybody writes the same.
        unsafe { reached.add(mutant as usize).write_volatile(1) };
    }
    number == mutant
}

fn begin() {
    if let Some(path) = std::env::var_os("ZTENSOR_MUTANTS_REACHED")
        && let Ok(file) = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
        && file.set_len(u64::from(MOST)).is_ok()
    {
        // SAFETY: a fresh mapping of a file of that length, which is never unmapped.
        let mapping = unsafe {
            libc::mmap(
                ptr::null_mut(),
                MOST as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if mapping != libc::MAP_FAILED {
            REACHED.store(mapping.cast(), Ordering::Relaxed);
        }
    }
    let number = std::env::var("ZTENSOR_MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(0);
    ON.store(number, Ordering::Relaxed);
}
