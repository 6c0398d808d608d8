//! Keeps this library's code in memory.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::mem;
use std::sync::Once;

/// Keeps this library in memory when the host unloads it (at the end of the only worker that used it): signal
/// handlers, threads that watch or wait, and the pool of threads run its code.
pub fn stay() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: all zeros is a valid value; the address is one of this library's.
        unsafe {
            let mut info: libc::Dl_info = mem::zeroed();
            if libc::dladdr(stay as fn() as *const c_void, &raw mut info) != 0 {
                libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
            }
        }
    });
}
