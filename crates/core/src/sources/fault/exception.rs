//! The handler of page errors on Windows: a vectored handler, which is called before any frame-based one, including for JIT code.
//!
//! A view of a file cannot be replaced page by page. The whole range becomes reserved address space, which uses no memory, and the same
//! handler commits zero pages on access.
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

use super::super::placeholder;
use super::{table, watch};
use crate::loaded;

/// First parameter of an access violation for a page that is not executable; 0 and 1 are reads and writes.
const EXECUTE: usize = 8;
/// Bytes committed at a time, because an exception takes some microseconds. Views begin at multiples of it.
const STEP: usize = 64 << 10;

/// Held while a range has neither a view nor a reservation: concurrent accesses wait and retry.
static REPLACING: AtomicBool = AtomicBool::new(false);

/// Installs the handler once: it cannot be replaced. Returns false if the system rejects it.
pub fn arm() -> bool {
    static ARMED: Mutex<bool> = Mutex::new(false);
    let mut armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*armed {
        loaded::stay();
        // SAFETY: the handler has the required signature and is never unloaded.
        *armed = unsafe { !AddVectoredExceptionHandler(1, Some(on_exception)).is_null() };
    }
    *armed
}

/// Bytes of a page: 4 KiB on all current Windows platforms.
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

/// Gives `work`, which waits only for the system, exclusive permission to replace ranges.
fn alone<T>(work: impl FnOnce() -> T) -> T {
    while REPLACING.compare_exchange_weak(false, true, SeqCst, SeqCst).is_err() {
        thread::yield_now();
    }
    let done = work();
    REPLACING.store(false, SeqCst);
    done
}

/// Returns state and type of the memory at an address; the type is 0 if there is none.
fn memory(address: usize) -> (u32, u32) {
    let mut info = MEMORY_BASIC_INFORMATION::default();
    let size = size_of::<MEMORY_BASIC_INFORMATION>();
    // SAFETY: only queries; nothing is read at the address. A failure leaves zeros.
    unsafe { VirtualQuery(ptr::without_provenance(address), &raw mut info, size) };
    (info.State, info.Type)
}

/// Replaces a view with reserved addresses. Also returns true if another thread handled the loss first.
fn replace(range: &Range<usize>) -> bool {
    alone(|| {
        let (_, kind) = memory(range.start);
        let view = MEMORY_MAPPED_VIEW_ADDRESS { Value: ptr::without_provenance_mut(range.start) };
        kind == MEM_PRIVATE
            || replace_view(range, || {
                if kind == MEM_MAPPED {
                    // SAFETY: a view of ours, which nothing else can end while the table entry is in use.
                    unsafe { UnmapViewOfFile(view) };
                }
            })
    })
}

/// Replaces a view with reserved addresses. `unmap` ends the view and its handles. Without placeholders the addresses are free for an
/// instant, and this returns false if another allocation took them.
fn replace_view(range: &Range<usize>, unmap: impl FnOnce()) -> bool {
    let replaced = placeholder::replace(range);
    unmap(); // a view that was replaced is left alone
    replaced || reserve_free(range)
}

fn reserve_free(range: &Range<usize>) -> bool {
    let start = ptr::without_provenance_mut(range.start);
    // SAFETY: takes free addresses, or fails.
    unsafe { !VirtualAlloc(start, range.len(), MEM_RESERVE, PAGE_READWRITE).is_null() }
}

/// Commits zeros at a reserved address that was accessed. Returns false for any other kind of fault.
fn commit(range: &Range<usize>, address: usize) -> bool {
    let (state, kind) = alone(|| memory(address));
    if kind != MEM_PRIVATE || state == MEM_COMMIT {
        // Committed by another thread in the meantime.
        return kind == MEM_PRIVATE;
    }
    let start = (address - address % STEP).max(range.start);
    let length = STEP.min(range.end - start);
    // SAFETY: a reservation of ours, which cannot end while the table entry is in use.
    unsafe { !VirtualAlloc(ptr::without_provenance_mut(start), length, MEM_COMMIT, PAGE_READWRITE).is_null() }
}

/// Turns an ended mapping into reserved addresses, which still read as zeros. `unmap` ends the view and its handles. Returns false if the
/// addresses were taken by another allocation meanwhile.
pub fn reserve(range: &Range<usize>, unmap: impl FnOnce()) -> bool {
    alone(|| {
        let (_, kind) = memory(range.start);
        if kind != MEM_PRIVATE {
            return replace_view(range, unmap);
        }
        unmap();
        // SAFETY: the mapping was lost, and the reservation in its place is ours: its memory is freed, its addresses stay reserved.
        unsafe { VirtualFree(ptr::without_provenance_mut(range.start), range.len(), MEM_DECOMMIT) != 0 }
    })
}

/// Releases reserved addresses that are no longer in the table.
pub fn release(start: usize) {
    // SAFETY: reserved by `reserve`, and released once.
    unsafe { VirtualFree(ptr::without_provenance_mut(start), 0, MEM_RELEASE) };
}
