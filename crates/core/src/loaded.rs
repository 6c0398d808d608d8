//! Keeps this library's code in memory.
#![allow(unsafe_code)]

use std::sync::Once;

/// Keeps this library in memory when the host unloads it (at the end of the only worker that used it): handlers, threads
/// that watch or wait, and those of the lanes run its code.
pub fn stay() {
    static ONCE: Once = Once::new();
    ONCE.call_once(keep);
}

#[cfg(unix)]
fn keep() {
    use std::ffi::c_void;
    use std::mem;

    // SAFETY: all zeros is a valid value; the address is one of this library's.
    unsafe {
        let mut info: libc::Dl_info = mem::zeroed();
        if libc::dladdr(stay as fn() as *const c_void, &raw mut info) != 0 {
            libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        }
    }
}

#[cfg(windows)]
fn keep() {
    use std::ptr;

    use windows_sys::Win32::System::LibraryLoader::{
        GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW,
    };

    let flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN;
    let mut module = ptr::null_mut();
    // SAFETY: with these flags the name is an address, one of this library's.
    unsafe { GetModuleHandleExW(flags, stay as fn() as *const u16, &raw mut module) };
}
