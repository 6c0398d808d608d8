//! Views of files in placeholders (Windows 10 version 1803 and later). A placeholder reserves addresses before the file is mapped there, and
//! again in the step that ends the view, so no other thread can allocate them in between.
//!
//! Source: the documentation of `VirtualAlloc2`, `MapViewOfFile3` and `UnmapViewOfFile2` in the Windows SDK. They are loaded at run time,
//! because Windows Server 2016 does not have them.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::ops::Range;
use std::os::windows::io::AsRawHandle;
use std::ptr::{self, null, null_mut};
use std::sync::OnceLock;

use windows_sys::Win32::Foundation::{CloseHandle, FARPROC, HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress};
use windows_sys::Win32::System::Memory::{
    CreateFileMappingW, MEM_EXTENDED_PARAMETER, MEM_PRESERVE_PLACEHOLDER, MEM_RELEASE,
    MEM_REPLACE_PLACEHOLDER, MEM_RESERVE, MEM_RESERVE_PLACEHOLDER, MEMORY_MAPPED_VIEW_ADDRESS, PAGE_NOACCESS,
    PAGE_READWRITE, PAGE_WRITECOPY, UnmapViewOfFile, VirtualFree,
};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

use super::fault::page_size;

/// Bytes of memory that are mapped and unmapped to try the functions: not a multiple of a page, as most files.
const PROBE: u32 = 5000;

type VirtualAlloc2 = unsafe extern "system" fn(
    process: HANDLE,
    start: *const c_void,
    size: usize,
    kind: u32,
    protection: u32,
    parameters: *mut MEM_EXTENDED_PARAMETER,
    count: u32,
) -> *mut c_void;

type MapViewOfFile3 = unsafe extern "system" fn(
    section: HANDLE,
    process: HANDLE,
    start: *const c_void,
    offset: u64,
    size: usize,
    kind: u32,
    protection: u32,
    parameters: *mut MEM_EXTENDED_PARAMETER,
    count: u32,
) -> MEMORY_MAPPED_VIEW_ADDRESS;

type UnmapViewOfFile2 =
    unsafe extern "system" fn(process: HANDLE, start: MEMORY_MAPPED_VIEW_ADDRESS, flags: u32) -> i32;

struct Functions {
    allocate: VirtualAlloc2,
    map: MapViewOfFile3,
    unmap: UnmapViewOfFile2,
}

static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();

fn load() -> Option<Functions> {
    // SAFETY: every process has this module for all of its life, and functions of these names have these signatures.
    let functions = unsafe {
        let module = GetModuleHandleA(c"kernelbase.dll".as_ptr().cast());
        if module.is_null() {
            return None;
        }
        let named = |name: &std::ffi::CStr| GetProcAddress(module, name.as_ptr().cast());
        let (allocate, map, unmap) =
            (named(c"VirtualAlloc2"), named(c"MapViewOfFile3"), named(c"UnmapViewOfFile2"));
        Functions {
            allocate: std::mem::transmute::<FARPROC, Option<VirtualAlloc2>>(allocate)?,
            map: std::mem::transmute::<FARPROC, Option<MapViewOfFile3>>(map)?,
            unmap: std::mem::transmute::<FARPROC, Option<UnmapViewOfFile2>>(unmap)?,
        }
    };
    functions.work().then_some(functions)
}

impl Functions {
    /// Returns whether all steps succeed with memory. A system can have the functions and refuse their flags.
    fn work(&self) -> bool {
        // SAFETY: memory of the page file, without a name.
        let section =
            unsafe { CreateFileMappingW(INVALID_HANDLE_VALUE, null(), PAGE_READWRITE, 0, PROBE, null()) };
        if section.is_null() {
            return false;
        }
        let length = PROBE as usize;
        let start = self.view(section, length);
        // SAFETY: created above. A view retains the section.
        unsafe { CloseHandle(section) };
        let Some(start) = start else { return false };
        let replaced = self.replace(&(start.addr()..start.addr() + length));
        if replaced {
            release(start);
        } else {
            unmap(start);
        }
        replaced
    }

    /// Maps the first `length` bytes of a section. Returns their address.
    fn view(&self, section: HANDLE, length: usize) -> Option<*mut c_void> {
        let (process, kind) = (current_process(), MEM_RESERVE | MEM_RESERVE_PLACEHOLDER);
        let size = length.checked_next_multiple_of(page_size())?;
        // SAFETY: takes free addresses, or fails.
        let start = unsafe { (self.allocate)(process, null(), size, kind, PAGE_NOACCESS, null_mut(), 0) };
        if start.is_null() {
            return None;
        }
        let kind = MEM_REPLACE_PLACEHOLDER;
        // SAFETY: the placeholder is ours, and nothing refers to its addresses.
        let view =
            unsafe { (self.map)(section, process, start, 0, length, kind, PAGE_WRITECOPY, null_mut(), 0) };
        if view.Value.is_null() {
            release(start);
            return None;
        }
        Some(start)
    }

    /// See [`replace`].
    fn replace(&self, range: &Range<usize>) -> bool {
        let (process, start) = (current_process(), ptr::without_provenance_mut(range.start));
        let (kind, size) = (MEM_RESERVE | MEM_REPLACE_PLACEHOLDER, range.len().next_multiple_of(page_size()));
        // SAFETY: the range is a view of ours that has ended or is lost. A view that is in no placeholder is refused.
        unsafe {
            (self.unmap)(process, MEMORY_MAPPED_VIEW_ADDRESS { Value: start }, MEM_PRESERVE_PLACEHOLDER) != 0
                && !(self.allocate)(process, start, size, kind, PAGE_READWRITE, null_mut(), 0).is_null()
        }
    }
}

fn current_process() -> HANDLE {
    // SAFETY: returns a constant.
    unsafe { GetCurrentProcess() }
}

/// Ends a view, if there is one at this address.
fn unmap(start: *mut c_void) {
    // SAFETY: our view, or what replaced it, which the system refuses to unmap.
    unsafe { UnmapViewOfFile(MEMORY_MAPPED_VIEW_ADDRESS { Value: start }) };
}

/// Releases addresses that are reserved, or a placeholder.
fn release(start: *mut c_void) {
    // SAFETY: reserved here, and released once.
    unsafe { VirtualFree(start, 0, MEM_RELEASE) };
}

/// A private, copy-on-write view of a whole file in a placeholder.
pub struct View {
    start: *mut c_void,
    length: usize,
}

// SAFETY: it is a range of addresses, which belongs to no thread.
unsafe impl Send for View {}
// SAFETY: as above. Nothing here reads or writes the memory.
unsafe impl Sync for View {}

impl View {
    /// Maps the first `length` bytes of `file`. Returns `None` if the system has no placeholders, or refuses.
    pub fn new(file: &File, length: usize) -> Option<Self> {
        let functions = FUNCTIONS.get_or_init(load).as_ref()?;
        let handle = file.as_raw_handle();
        // SAFETY: an open file.
        let section = unsafe { CreateFileMappingW(handle, null(), PAGE_WRITECOPY, 0, 0, null()) };
        if section.is_null() {
            return None;
        }
        let start = functions.view(section, length);
        // SAFETY: created above. A view retains the section.
        unsafe { CloseHandle(section) };
        start.map(|start| Self { start, length })
    }

    pub fn start(&self) -> *mut u8 {
        self.start.cast()
    }

    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for View {
    /// Ends the view. Does nothing if it was replaced ([`replace`]).
    fn drop(&mut self) {
        unmap(self.start);
    }
}

/// Replaces a view with reserved addresses, without a moment at which they are free. Returns false if the view is in no placeholder, which
/// leaves it unchanged, or if the system cannot reserve, which leaves an empty placeholder: its addresses are never used again.
pub fn replace(range: &Range<usize>) -> bool {
    FUNCTIONS.get().and_then(Option::as_ref).is_some_and(|functions| functions.replace(range))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::{env, fs, process};

    use super::*;

    /// Neither a multiple of a page nor of the allocation granularity.
    const LENGTH: usize = (4 << 20) - 100;

    /// A file of ones, which is removed when this is dropped.
    struct Ones(PathBuf);

    impl Ones {
        fn new(name: &str, length: usize) -> Self {
            let path = env::temp_dir().join(format!("ztensor-placeholder-{name}-{}", process::id()));
            fs::write(&path, vec![1; length]).unwrap();
            Self(path)
        }

        fn open(&self) -> File {
            File::open(&self.0).unwrap()
        }
    }

    impl Drop for Ones {
        fn drop(&mut self) {
            fs::remove_file(&self.0).unwrap();
        }
    }

    /// Returns whether the system has placeholders. Without them, the tests below have nothing to test.
    fn has_placeholders() -> bool {
        let has = FUNCTIONS.get_or_init(load).is_some();
        if !has {
            eprintln!("not run: this system has no placeholders");
        }
        has
    }

    #[test]
    fn files_of_every_length_are_mapped_in_placeholders() {
        for length in [1, 4095, 4096, 4097, 65_535, 65_536, 65_537, LENGTH] {
            let ones = Ones::new("length", length);
            let view = View::new(&ones.open(), length);
            assert_eq!(view.is_some(), has_placeholders(), "{length}");
            let Some(view) = view else { continue };
            assert_eq!(view.length(), length);
            // SAFETY: within the view.
            assert_eq!(unsafe { view.start().wrapping_add(length - 1).read_volatile() }, 1);
        }
    }

    #[test]
    fn a_view_outside_a_placeholder_is_left_as_it_was() {
        if !has_placeholders() {
            return;
        }
        let ones = Ones::new("plain", LENGTH);
        // SAFETY: the file is not changed.
        let plain = unsafe { memmap2::MmapOptions::new().map_copy(&ones.open()) }.unwrap();
        let start = plain.as_ptr().addr();
        assert!(!replace(&(start..start + LENGTH)));
        assert!(plain.iter().all(|&byte| byte == 1));
    }
}
