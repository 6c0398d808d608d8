//! The SIGBUS handler. It only uses functions on POSIX's list of async-signal-safe functions, and plain system calls.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, PoisonError};

use libc::{SIGBUS, sigaction, siginfo_t};

use super::{table, watch};
use crate::loaded;

/// `si_code`s of a missing page (POSIX): past the end of the file, or unreadable from the device. Other codes are not page losses: a
/// misaligned access, or another process's `kill`.
const BUS_ADRERR: c_int = 2;
const BUS_OBJERR: c_int = 3;
/// Linux: a hardware memory error in the page.
#[cfg(target_os = "linux")]
const BUS_MCEERR_AR: c_int = 4;

fn is_page_fault(code: c_int) -> bool {
    #[cfg(target_os = "linux")]
    if code == BUS_MCEERR_AR {
        return true;
    }
    code == BUS_ADRERR || code == BUS_OBJERR
}

/// The action that ours replaced; never freed, because a handler may be calling it.
static PREVIOUS: AtomicPtr<sigaction> = AtomicPtr::new(ptr::null_mut());

/// Stored in the padding of a siginfo while the previous action handles the signal, because that may be another library that chains back to
/// us. The system writes a new siginfo, including padding, each time it raises a signal, so a handler that exits by `longjmp` leaves
/// nothing behind.
const MARK: usize = 0x7a54_656e; // "zTen"

/// Installs the handler, unless it is installed: a host replaces it when a listener for the signal is added, and removes it with the last
/// one. Returns false if the system rejects it.
pub fn arm() -> bool {
    static ARMING: Mutex<Vec<&'static sigaction>> = Mutex::new(Vec::new());
    let mut replaced = ARMING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: all zeros is a valid value of this C struct.
    let mut current: sigaction = unsafe { mem::zeroed() };
    // SAFETY: queries the current action.
    if unsafe { sigaction(SIGBUS, ptr::null(), &raw mut current) } != 0 {
        return false;
    }
    let handler = on_sigbus as extern "C" fn(_, _, _) as usize;
    if current.sa_sigaction == handler {
        return true;
    }
    loaded::stay();
    page_size();
    let same = |known: &&&sigaction| {
        known.sa_sigaction == current.sa_sigaction && known.sa_flags == current.sa_flags
    };
    let retained = replaced.iter().find(same).copied().unwrap_or_else(|| {
        let retained = &*Box::leak(Box::new(current));
        replaced.push(retained);
        retained
    });
    PREVIOUS.store(ptr::from_ref(retained).cast_mut(), SeqCst);
    // SAFETY: as above.
    let mut ours: sigaction = unsafe { mem::zeroed() };
    ours.sa_sigaction = handler;
    // On the thread's alternate stack if it has one (Go and Rust threads do).
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the handler has the signature required by SA_SIGINFO and is never unloaded.
    unsafe {
        libc::sigemptyset(&raw mut ours.sa_mask);
        sigaction(SIGBUS, &raw const ours, ptr::null_mut()) == 0
    }
}

/// Returns the page size. Initialized before the handler is installed, so that the handler need not query it.
pub fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        // SAFETY: a plain system query.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
    })
}

extern "C" fn on_sigbus(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: errno is thread-local, and the interrupted code may be about to read it.
    let interrupted = unsafe { *errno() };
    // SAFETY: the system gives a valid siginfo to a handler with SA_SIGINFO.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let lost = is_page_fault(code)
        && table::lose(address, |range| {
            let start = address - address % page_size();
            zero_pages(start, range.end - start)
        });
    if lost {
        watch::wake();
    } else {
        pass_on(signal, info, context, code);
    }
    // SAFETY: as above.
    unsafe { *errno() = interrupted };
}

/// Replaces the rest of a mapping from `start` on with anonymous zero pages.
fn zero_pages(start: usize, length: usize) -> bool {
    let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let address = ptr::without_provenance_mut(start);
    // SAFETY: the range is the rest of a mapping of ours, which cannot end while the table entry is in use.
    unsafe { libc::mmap(address, length, protection, flags, -1, 0) != libc::MAP_FAILED }
}

/// Passes a signal that is not ours to the previous action.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void, code: c_int) {
    // SAFETY: null, or a leaked action.
    let Some(previous) = (unsafe { PREVIOUS.load(SeqCst).as_ref() }) else { return die(signal) };
    let action = previous.sa_sigaction;
    let ignored = action == libc::SIG_IGN;
    // For an access of the thread itself the system kills the process even if it ignores the signal.
    if ignored && !is_sent(code) {
        return die(signal);
    }
    if ignored {
        return;
    }
    // SAFETY: the system provides a complete siginfo on the stack of the interrupted thread. Its end is padding.
    let mark = unsafe { info.add(1).cast::<usize>().sub(1) };
    // SAFETY: as above; it need not be aligned.
    let chained_back = unsafe { mark.read_unaligned() } == MARK;
    if action == libc::SIG_DFL || chained_back {
        return die(signal);
    }
    // SAFETY: as above. The action was installed as a handler of this kind.
    unsafe {
        mark.write_unaligned(MARK);
        if previous.sa_flags & libc::SA_SIGINFO == 0 {
            mem::transmute::<usize, extern "C" fn(c_int)>(action)(signal);
        } else {
            let handler = mem::transmute::<usize, extern "C" fn(c_int, *mut siginfo_t, *mut c_void)>(action);
            handler(signal, info, context);
        }
        mark.write_unaligned(0);
    }
}

/// Returns whether a process sent the signal, as opposed to an access raising it.
fn is_sent(code: c_int) -> bool {
    #[cfg(target_vendor = "apple")]
    return code == 0x10001; // SI_USER
    #[cfg(not(target_vendor = "apple"))]
    return code <= 0;
}

/// Performs the default action of an unhandled signal. It is blocked while its handler runs, so the one raised here arrives when the
/// handler returns.
fn die(signal: c_int) {
    // SAFETY: plain calls, allowed in a handler.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

fn errno() -> *mut c_int {
    // SAFETY: returns the thread's own errno.
    unsafe {
        #[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
        return libc::__error();
        #[cfg(not(any(target_vendor = "apple", target_os = "freebsd")))]
        return libc::__errno_location();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_pages_are_lost() {
        assert!(is_page_fault(BUS_ADRERR) && is_page_fault(BUS_OBJERR));
        #[cfg(target_os = "linux")]
        assert!(is_page_fault(BUS_MCEERR_AR));
        // A misaligned access, a hardware memory error in unused memory, and signals sent by processes.
        for code in [1, 5, 0, -1, -6] {
            assert!(!is_page_fault(code), "{code}");
        }
    }
}
