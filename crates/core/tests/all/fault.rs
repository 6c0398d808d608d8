//! What the handler of SIGBUS does and leaves alone. Each case ends a process of its own, most by the signal.
#![cfg(unix)]
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::{env, fs, mem, process, ptr, thread};

use memmap2::{Mmap, MmapMut};
use ztensor_core::sources::fault::{self, State};
use ztensor_core::sources::mapping::Mapping;

use crate::child;

const LENGTH: usize = 1 << 20;

/// A file of ones that this process may truncate.
fn file(name: &str) -> File {
    let path = env::temp_dir().join(format!("ztensor-fault-{name}-{}", process::id()));
    fs::write(&path, vec![1; LENGTH]).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    fs::remove_file(path).unwrap();
    file
}

fn mapped(name: &str) -> (File, Mapping) {
    let file = file(name);
    let mapping = Mapping::new(&file, LENGTH as u64).unwrap();
    (file, mapping)
}

fn byte(mapping: &Mapping, at: usize) -> u8 {
    // SAFETY: inside the mapping; the file may end before, which is what is tried.
    unsafe { mapping.address(at as u64, 1).unwrap().read_volatile() }
}

/// Reads a lost page of a foreign mapping.
fn touch_foreign() {
    let file = file("foreign");
    // SAFETY: the result is not used; the call is meant to fail.
    let map = unsafe { Mmap::map(&file) }.unwrap();
    file.set_len(0).unwrap();
    // SAFETY: inside the mapping.
    unsafe { map.as_ptr().add(5000).read_volatile() };
}

fn install(handler: usize, flags: c_int) {
    // SAFETY: zeros are a valid action, and the handlers given have the signature that the flags ask for.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()), 0);
    }
}

fn leave_alternate_stack() {
    let off = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    // SAFETY: no handler runs on it.
    unsafe { libc::sigaltstack(&raw const off, ptr::null_mut()) };
}

static CALLS: AtomicUsize = AtomicUsize::new(0);
static PREVIOUS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn plain(_: c_int) {
    CALLS.fetch_add(1, SeqCst);
    if CALLS.load(SeqCst) > 3 {
        process::abort(); // called over and over: by the signal that should have ended this, or by itself
    }
}

extern "C" fn leave(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: a handler with SA_SIGINFO is given one; leaving is what ends the case.
    unsafe { libc::_exit(if (*info).si_code == 2 { 42 } else { 43 }) };
}

/// A library that chains to the previous handler, as it should.
extern "C" fn chaining(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    CALLS.fetch_add(1, SeqCst);
    // SAFETY: what it replaced was a handler of this kind.
    unsafe {
        let previous: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
            mem::transmute(PREVIOUS.load(SeqCst));
        previous(signal, info, context);
    }
}

/// Meets the next fault before it has returned from the first.
extern "C" fn faulting(_: c_int) {
    if CALLS.fetch_add(1, SeqCst) == 10 {
        // SAFETY: leaving is what ends the case.
        unsafe { libc::_exit(42) };
    }
    // SAFETY: zeros are a valid set, and what the handler leaves blocked is unblocked.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&raw mut set, libc::SIGBUS);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
    }
    touch_foreign();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod jump {
    use std::cell::UnsafeCell;
    use std::ffi::c_int;

    unsafe extern "C" {
        fn __sigsetjmp(buffer: *mut [u64; 256], save_mask: c_int) -> c_int;
        fn siglongjmp(buffer: *mut [u64; 256], value: c_int) -> !;
    }

    struct JumpBuffer(UnsafeCell<[u64; 256]>);
    // SAFETY: the cases that jump have one thread.
    unsafe impl Sync for JumpBuffer {}
    static BUFFER: JumpBuffer = JumpBuffer(UnsafeCell::new([0; 256]));

    /// Leaves the handler and what it interrupted.
    pub extern "C" fn away(_: c_int) {
        // SAFETY: `until_left` is further up on the stack, and no frame in between has anything to drop.
        unsafe { siglongjmp(BUFFER.0.get(), 1) };
    }

    /// Calls `fault`, which `away` is to leave. False where it returned.
    #[inline(never)]
    pub fn until_left(fault: fn()) -> bool {
        // SAFETY: nothing of this function is written between the two returns.
        if unsafe { __sigsetjmp(BUFFER.0.get(), 1) } != 0 {
            return true;
        }
        fault();
        false
    }
}

/// Sends the signal to this thread, as `kill` does to a process.
fn send() {
    // SAFETY: a plain call.
    unsafe { libc::raise(libc::SIGBUS) };
}

/// Each ends the process: by a signal, with the code given, or with 0 by returning.
const CASES: &[(&str, fn())] = &[
    ("lost pages read as zeros, and the rest is unchanged", || {
        let (file, mapping) = mapped("zeros");
        assert!(!mapping.is_lost());
        let reported = std::sync::Arc::new(AtomicBool::new(false));
        let report = reported.clone();
        fault::on_loss(move || {
            report.store(true, SeqCst);
            true
        });
        file.set_len(8192).unwrap();
        assert_eq!(byte(&mapping, 100_000), 0);
        assert_eq!((byte(&mapping, 8191), byte(&mapping, LENGTH - 1)), (1, 0));
        assert!(mapping.is_lost());
        assert_eq!(fault::state(mapping.token()), State::Lost);
        assert_eq!(fault::losses().load(SeqCst), 1);
        while !reported.load(SeqCst) {
            thread::yield_now();
        }
    }),
    ("threads that touch it at once all go on", || {
        let (file, mapping) = mapped("threads");
        file.set_len(0).unwrap();
        thread::scope(|scope| {
            for start in 0..8 {
                let mapping = &mapping;
                scope.spawn(move || (start..256).for_each(|page| assert_eq!(byte(mapping, page * 4096), 0)));
            }
        });
        assert_eq!(fault::losses().load(SeqCst), 1);
    }),
    ("mappings come and go while others are lost", || {
        thread::scope(|scope| {
            for worker in 0..4 {
                scope.spawn(move || {
                    for round in 0..200 {
                        let (file, mapping) = mapped(&format!("churn-{worker}-{round}"));
                        if round % 2 == 0 {
                            file.set_len(0).unwrap();
                        }
                        assert_eq!(usize::from(byte(&mapping, 9000)), round % 2);
                    }
                });
            }
        });
    }),
    ("a loss in a foreign mapping: SIGBUS", || {
        let _ours = mapped("other");
        touch_foreign();
    }),
    ("one that was sent: SIGBUS", || {
        let _ours = mapped("sent");
        send();
        thread::sleep(std::time::Duration::from_secs(10));
    }),
    ("ignored before, and sent: ignored", || {
        install(libc::SIG_IGN, 0);
        let (file, mapping) = mapped("ignored");
        send();
        file.set_len(0).unwrap();
        assert_eq!(byte(&mapping, 0), 0);
    }),
    ("ignored before, and an access to a foreign mapping: SIGBUS", || {
        install(libc::SIG_IGN, 0);
        let _ours = mapped("ignored-access");
        touch_foreign();
    }),
    ("an earlier handler gets what is not ours", || {
        install(plain as extern "C" fn(_) as usize, 0);
        let (file, mapping) = mapped("handled");
        file.set_len(0).unwrap();
        assert_eq!((byte(&mapping, 0), CALLS.load(SeqCst)), (0, 0));
        send();
        send();
        assert_eq!(CALLS.load(SeqCst), 2);
    }),
    ("… with all that the system says of it: 42", || {
        install(leave as extern "C" fn(_, _, _) as usize, libc::SA_SIGINFO);
        let _ours = mapped("informed");
        touch_foreign();
    }),
    ("a handler that replaced ours is chained to when a view is made", || {
        let _first = mapped("before");
        install(plain as extern "C" fn(_) as usize, 0);
        let (file, mapping) = mapped("after");
        file.set_len(0).unwrap();
        assert_eq!((byte(&mapping, 0), CALLS.load(SeqCst)), (0, 0));
        send();
        assert_eq!(CALLS.load(SeqCst), 1);
    }),
    ("one that chains back to us is asked once, and then SIGBUS", || {
        let _first = mapped("chain");
        // SAFETY: zeros are a valid action to be overwritten.
        let ours = unsafe {
            let mut ours: libc::sigaction = mem::zeroed();
            libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut ours);
            ours
        };
        PREVIOUS.store(ours.sa_sigaction, SeqCst);
        install(chaining as extern "C" fn(_, _, _) as usize, libc::SA_SIGINFO);
        let (file, mapping) = mapped("chained");
        file.set_len(0).unwrap();
        assert_eq!((byte(&mapping, 0), CALLS.load(SeqCst)), (0, 0));
        send();
        thread::sleep(std::time::Duration::from_secs(10));
    }),
    ("one that meets faults of its own is asked about each: 42", || {
        install(faulting as extern "C" fn(_) as usize, 0);
        let _ours = mapped("faulting");
        leave_alternate_stack(); // which is too small for so many
        touch_foreign();
    }),
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    ("one that is left by a jump is asked again", || {
        install(jump::away as extern "C" fn(_) as usize, 0);
        let (ours, mapping) = mapped("left");
        for _ in 0..100 {
            assert!(jump::until_left(touch_foreign));
        }
        ours.set_len(0).unwrap();
        assert_eq!(byte(&mapping, 0), 0);
    }),
    ("errno is what it was", || {
        let (file, mapping) = mapped("errno");
        file.set_len(0).unwrap();
        // SAFETY: closes nothing; sets errno.
        unsafe { libc::close(-1) };
        byte(&mapping, 0);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EBADF));
    }),
    ("on a thread with an alternate stack", || {
        let (file, mapping) = mapped("stack");
        file.set_len(0).unwrap();
        thread::spawn(move || {
            let mut stack = MmapMut::map_anon(64 << 10).unwrap();
            let alternate =
                libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
            // SAFETY: the stack lives until the thread gives it back.
            unsafe { assert_eq!(libc::sigaltstack(&raw const alternate, ptr::null_mut()), 0) };
            assert_eq!(byte(&mapping, 70_000), 0);
            assert!(stack.iter().any(|&byte| byte != 0), "the handler ran on it");
            leave_alternate_stack();
        })
        .join()
        .unwrap();
    }),
];

fn ended(output: &Output) -> String {
    match output.status.signal() {
        Some(libc::SIGBUS) => "SIGBUS".to_owned(),
        Some(signal) => format!("signal {signal}"),
        None if output.status.success() && !child::passed(output) => "no test has that name".to_owned(),
        None => output.status.code().unwrap_or(-1).to_string(),
    }
}

#[test]
fn every_case_passes_in_its_own_process() {
    if let Some(case) = child::function(CASES) {
        install(libc::SIG_DFL, 0); // not the handler of Rust programs, which a library finds none of
        return case();
    }
    let wrong: Vec<_> = CASES
        .iter()
        .filter_map(|&(name, _)| {
            let output =
                child::command("fault::every_case_passes_in_its_own_process", name).output().unwrap();
            let expected = name.rsplit_once(": ").map_or("0", |(_, end)| match end {
                "SIGBUS" | "42" => end,
                _ => "0",
            });
            let expected = if name.ends_with("then SIGBUS") { "SIGBUS" } else { expected };
            let ended = ended(&output);
            (ended != expected)
                .then(|| format!("{name}: {ended}\n{}", String::from_utf8_lossy(&output.stdout)))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
