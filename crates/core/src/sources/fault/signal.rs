//! The handler of SIGBUS. Everything it does is on POSIX's list of what a handler may do, or is a plain system call.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, PoisonError};

use libc::{SIGBUS, sigaction, siginfo_t};

use super::{table, watch};
use crate::loaded;

/// `si_code`s of a page that is not there (POSIX): past the end of the file, or not to be had from the device.
/// Everything else is no loss of a page: a misaligned access, another process's `kill`.
const BUS_ADRERR: c_int = 2;
const BUS_OBJERR: c_int = 3;
/// Linux: the memory that held the page broke.
#[cfg(target_os = "linux")]
const BUS_MCEERR_AR: c_int = 4;

fn is_page_fault(code: c_int) -> bool {
    #[cfg(target_os = "linux")]
    if code == BUS_MCEERR_AR {
        return true;
    }
    code == BUS_ADRERR || code == BUS_OBJERR
}

/// The action that ours replaced; never freed, since a handler may be calling it.
static PREVIOUS: AtomicPtr<sigaction> = AtomicPtr::new(ptr::null_mut());

/// Stands in the padding of a signal's siginfo while the previous action has it: that may be another library that chains back to
/// us. The system writes a siginfo anew, padding included, each time it raises a signal, so that a handler which leaves by
/// `longjmp` leaves nothing behind.
const MARK: usize = 0x7a54_656e; // "zTen"

/// Puts the handler in place, unless it is there: a host replaces it when somebody listens to the signal, and removes it
/// when nobody does any more. False where the system refuses.
pub fn arm() -> bool {
    static ARMING: Mutex<Vec<&'static sigaction>> = Mutex::new(Vec::new());
    let mut replaced = ARMING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: all zeros is a valid value of this C struct.
    let mut current: sigaction = unsafe { mem::zeroed() };
    // SAFETY: asks for the action in force.
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
    let kept = replaced.iter().find(same).copied().unwrap_or_else(|| {
        let kept = &*Box::leak(Box::new(current));
        replaced.push(kept);
        kept
    });
    PREVIOUS.store(ptr::from_ref(kept).cast_mut(), SeqCst);
    // SAFETY: as above.
    let mut ours: sigaction = unsafe { mem::zeroed() };
    ours.sa_sigaction = handler;
    // On the thread's alternate stack where it has one (Go and Rust threads do).
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for and is never unloaded.
    unsafe {
        libc::sigemptyset(&raw mut ours.sa_mask);
        sigaction(SIGBUS, &raw const ours, ptr::null_mut()) == 0
    }
}

/// Bytes of a page. Known before the handler is in place, so that it need not ask.
pub fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        // SAFETY: a plain question to the system.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
    })
}

extern "C" fn on_sigbus(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: each thread has its own errno, and the interrupted code may be about to read it.
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

/// Puts anonymous zero pages in place of what a mapping has from `start` on.
fn zero_pages(start: usize, length: usize) -> bool {
    let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let place = ptr::without_provenance_mut(start);
    // SAFETY: the range is the rest of a mapping of ours, which cannot go while the table is being looked at.
    unsafe { libc::mmap(place, length, protection, flags, -1, 0) != libc::MAP_FAILED }
}

/// Hands a signal that is not ours to the action that was there before.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void, code: c_int) {
    // SAFETY: null, or a leaked action.
    let Some(previous) = (unsafe { PREVIOUS.load(SeqCst).as_ref() }) else { return die(signal) };
    let action = previous.sa_sigaction;
    let ignored = action == libc::SIG_IGN;
    // The system kills even who ignores the signal when it was an access of the thread's own.
    if ignored && !is_sent(code) {
        return die(signal);
    }
    if ignored {
        return;
    }
    // SAFETY: the system gives a whole siginfo, on the stack of the thread that it interrupted. The end of it is padding.
    let mark = unsafe { info.add(1).cast::<usize>().sub(1) };
    // SAFETY: as above; it need not be aligned.
    let chained_back = unsafe { mark.read_unaligned() } == MARK;
    if action == libc::SIG_DFL || chained_back {
        return die(signal);
    }
    // SAFETY: as above. What was installed as a handler of this kind is called as one.
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

/// Whether a process sent the signal, as against an access that raised it.
fn is_sent(code: c_int) -> bool {
    #[cfg(target_vendor = "apple")]
    return code == 0x10001; // SI_USER
    #[cfg(not(target_vendor = "apple"))]
    return code <= 0;
}

/// Does what the system does with a signal that nobody handles. It is blocked while its handler runs, so the one
/// raised here arrives when the handler returns.
fn die(signal: c_int) {
    // SAFETY: plain calls, allowed in a handler.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

fn errno() -> *mut c_int {
    // SAFETY: gives the calling thread's own.
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
    fn only_pages_that_are_not_there_are_lost() {
        assert!(is_page_fault(BUS_ADRERR) && is_page_fault(BUS_OBJERR));
        #[cfg(target_os = "linux")]
        assert!(is_page_fault(BUS_MCEERR_AR));
        // A misaligned access, memory that broke and that nobody used, and what processes send.
        for code in [1, 5, 0, -1, -6] {
            assert!(!is_page_fault(code), "{code}");
        }
    }
}
