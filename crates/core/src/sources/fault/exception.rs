//! The handler of page errors on Windows: a vectored one, which is asked before any frame, also for code that a JIT made.
//!
//! A view of a file cannot be replaced page by page. The whole range becomes reserved addresses, which the system charges
//! nothing for, and what is touched of them is committed, as zeros, by the same handler.
#![allow(unsafe_code)]

use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::thread;

use windows_sys::Win32::Foundation::{
    EXCEPTION_ACCESS_VIOLATION, EXCEPTION_IN_PAGE_ERROR, GetLastError, SetLastError,
};
use windows_sys::Win32::System::Diagnostics::Debug::{
    AddVectoredExceptionHandler, EXCEPTION_CONTINUE_EXECUTION, EXCEPTION_CONTINUE_SEARCH, EXCEPTION_POINTERS,
};
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_DECOMMIT, MEM_MAPPED, MEM_PRIVATE, MEM_RELEASE, MEM_RESERVE, MEMORY_BASIC_INFORMATION,
    MEMORY_MAPPED_VIEW_ADDRESS, PAGE_READWRITE, UnmapViewOfFile, VirtualAlloc, VirtualFree, VirtualQuery,
};

use super::{table, watch};
use crate::loaded;

/// First parameter of an access violation where the page may not be run; 0 and 1 are reads and writes.
const EXECUTE: usize = 8;
/// Bytes committed at a time, since an exception takes some microseconds. Views begin at multiples of it.
const STEP: usize = 64 << 10;

/// Held while a range has neither a view nor a reservation: who touches it meanwhile waits, and tries again.
static REPLACING: AtomicBool = AtomicBool::new(false);

/// Puts the handler in place, once: nobody can replace it. False where the system refuses.
pub fn arm() -> bool {
    static ARMED: Mutex<bool> = Mutex::new(false);
    let mut armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*armed {
        loaded::stay();
        // SAFETY: the handler has the signature that is asked for and is never unloaded.
        *armed = unsafe { !AddVectoredExceptionHandler(1, Some(on_exception)).is_null() };
    }
    *armed
}

/// Bytes of a page: 4 KiB on all processors that Windows runs on today.
pub fn page_size() -> usize {
    4096
}

unsafe extern "system" fn on_exception(pointers: *mut EXCEPTION_POINTERS) -> i32 {
    // SAFETY: the system gives a handler a valid record.
    let (code, [kind, address, ..]) = unsafe {
        let record = &*(*pointers).ExceptionRecord;
        (record.ExceptionCode, record.ExceptionInformation)
    };
    // SAFETY: each thread has its own, and the interrupted code may be about to read it.
    let interrupted = unsafe { GetLastError() };
    let lost = code == EXCEPTION_IN_PAGE_ERROR
        && table::lose(address, |range| replace(&range) && commit(&range, address));
    if lost {
        watch::wake();
    }
    let touched = code == EXCEPTION_ACCESS_VIOLATION
        && kind != EXECUTE
        && table::mend(address, |range| commit(&range, address));
    // SAFETY: as above.
    unsafe { SetLastError(interrupted) };
    if lost || touched { EXCEPTION_CONTINUE_EXECUTION } else { EXCEPTION_CONTINUE_SEARCH }
}

/// Makes `work`, which waits for nothing but the system, the only one that replaces ranges.
fn alone<T>(work: impl FnOnce() -> T) -> T {
    while REPLACING.compare_exchange_weak(false, true, SeqCst, SeqCst).is_err() {
        thread::yield_now();
    }
    let done = work();
    REPLACING.store(false, SeqCst);
    done
}

/// The state and the type of the memory at an address; the type is 0 where there is none.
fn memory(address: usize) -> (u32, u32) {
    let mut told = MEMORY_BASIC_INFORMATION::default();
    let size = size_of::<MEMORY_BASIC_INFORMATION>();
    // SAFETY: a plain question; nothing is read at the address. What fails leaves zeros.
    unsafe { VirtualQuery(ptr::without_provenance(address), &raw mut told, size) };
    (told.State, told.Type)
}

/// Puts reserved addresses in place of a view. True, too, where another thread met the loss first.
fn replace(range: &Range<usize>) -> bool {
    alone(|| {
        let (_, kind) = memory(range.start);
        if kind == MEM_MAPPED {
            let view = MEMORY_MAPPED_VIEW_ADDRESS { Value: ptr::without_provenance_mut(range.start) };
            // SAFETY: a view of ours, which cannot end by another hand while the table is being looked at.
            unsafe { UnmapViewOfFile(view) };
        }
        kind == MEM_PRIVATE || reserve_free(range)
    })
}

fn reserve_free(range: &Range<usize>) -> bool {
    let start = ptr::without_provenance_mut(range.start);
    // SAFETY: takes free addresses, or fails.
    unsafe { !VirtualAlloc(start, range.len(), MEM_RESERVE, PAGE_READWRITE).is_null() }
}

/// Puts zeros where a reserved address was touched. False where something else is wrong with it.
fn commit(range: &Range<usize>, address: usize) -> bool {
    let (state, kind) = alone(|| memory(address));
    if kind != MEM_PRIVATE || state == MEM_COMMIT {
        // Committed by another thread since.
        return kind == MEM_PRIVATE;
    }
    let start = (address - address % STEP).max(range.start);
    let length = STEP.min(range.end - start);
    // SAFETY: a reservation of ours, which cannot end while the table is being looked at.
    unsafe { !VirtualAlloc(ptr::without_provenance_mut(start), length, MEM_COMMIT, PAGE_READWRITE).is_null() }
}

/// Makes of a mapping that ends reserved addresses, which read as zeros whoever still touches them. `unmap` ends the view
/// and its handles. False where the addresses went to somebody else meanwhile.
pub fn reserve(range: &Range<usize>, unmap: impl FnOnce()) -> bool {
    alone(|| {
        let (_, kind) = memory(range.start);
        unmap();
        if kind != MEM_PRIVATE {
            return reserve_free(range);
        }
        // SAFETY: the mapping was lost, and the reservation in its place is ours: its memory goes, its addresses stay.
        unsafe { VirtualFree(ptr::without_provenance_mut(range.start), range.len(), MEM_DECOMMIT) != 0 }
    })
}

/// Gives reserved addresses back, which are in the table no more.
pub fn release(start: usize) {
    // SAFETY: what `reserve` reserved, once.
    unsafe { VirtualFree(ptr::without_provenance_mut(start), 0, MEM_RELEASE) };
}
