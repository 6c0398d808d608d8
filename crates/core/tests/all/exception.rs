//! What the handler of page errors does on Windows and leaves alone. No drive here fails, so the exception is raised by hand,
//! as the system raises it. Each case ends a process of its own.
#![cfg(windows)]
#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::SeqCst};
use std::{env, fs, process, ptr, thread};

use windows_sys::Win32::Foundation::{
    EXCEPTION_ACCESS_VIOLATION, EXCEPTION_IN_PAGE_ERROR, STATUS_IO_DEVICE_ERROR,
};
use windows_sys::Win32::System::Diagnostics::Debug::{RaiseException, SEM_NOGPFAULTERRORBOX, SetErrorMode};
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress};
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_READWRITE, VirtualAlloc, VirtualFree,
};
use ztensor_core::sources::fault::{self, State};
use ztensor_core::sources::mapping::Mapping;

use crate::child;

const FOLDER: &str = "ZTENSOR_FAULT_FOLDER";
const LENGTH: usize = (1 << 20) - 100;

fn mapped(name: &str) -> Mapping {
    let path = Path::new(&env::var(FOLDER).unwrap()).join(name);
    fs::write(&path, vec![1; LENGTH]).unwrap();
    Mapping::new(&File::open(&path).unwrap(), LENGTH as u64).unwrap()
}

fn address(mapping: &Mapping, at: usize) -> *mut u8 {
    mapping.address(at as u64, 1).unwrap()
}

fn byte(address: *mut u8) -> u8 {
    // SAFETY: an address of a mapping, or of what replaced it.
    unsafe { address.read_volatile() }
}

/// What the system raises at a read of a page that the drive does not give.
fn fail(address: *mut u8) {
    let parameters = [0, address.addr(), STATUS_IO_DEVICE_ERROR.cast_unsigned() as usize];
    // SAFETY: the parameters are those of this code.
    unsafe { RaiseException(EXCEPTION_IN_PAGE_ERROR.cast_unsigned(), 0, 3, parameters.as_ptr()) };
}

/// Each ends the process: by an exception, or with 0 by returning.
const CASES: &[(&str, fn())] = &[
    ("a page that fails: the mapping reads as zeros, is marked as lost, and is reported", || {
        static REPORTED: AtomicBool = AtomicBool::new(false);
        let mapping = mapped("page");
        fault::on_loss(|| {
            REPORTED.store(true, SeqCst);
            true
        });
        assert_eq!(byte(address(&mapping, 70_000)), 1);
        assert!(!mapping.is_lost());
        fail(address(&mapping, 70_000));
        for at in [0, 4095, 65_535, 65_536, 70_000, LENGTH - 1] {
            assert_eq!(byte(address(&mapping, at)), 0, "{at}");
        }
        // SAFETY: memory of this process.
        unsafe { address(&mapping, 300_000).write_volatile(7) };
        assert_eq!(byte(address(&mapping, 300_000)), 7);
        assert!(mapping.is_lost());
        assert_eq!(fault::state(mapping.token()), State::Lost);
        assert_eq!(fault::losses().load(SeqCst), 1);
        while !REPORTED.load(SeqCst) {
            thread::yield_now();
        }
        let (token, unmapped) = (mapping.token(), address(&mapping, 300_000));
        drop(mapping);
        assert_eq!(
            (byte(unmapped), fault::state(token)),
            (0, State::Lost),
            "until its addresses are released"
        );
    }),
    ("threads that meet it at once all go on", || {
        let mapping = mapped("threads");
        thread::scope(|scope| {
            for start in 0..8 {
                let mapping = &mapping;
                scope.spawn(move || {
                    for page in start..255 {
                        fail(address(mapping, page * 4096));
                        assert_eq!(byte(address(mapping, page * 4096)), 0);
                    }
                });
            }
        });
        assert_eq!(fault::losses().load(SeqCst), 1);
    }),
    ("readers of a mapping that ends meet its bytes or zeros", || {
        static READ: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
        static ENDED: AtomicBool = AtomicBool::new(false);
        let readers: Vec<_> = (0..2)
            .map(|_| {
                thread::spawn(|| {
                    while !ENDED.load(SeqCst) {
                        let mapped = READ.load(SeqCst);
                        if !mapped.is_null() {
                            for page in (0..LENGTH).step_by(4096) {
                                assert!(byte(mapped.wrapping_add(page)) <= 1);
                            }
                        }
                    }
                })
            })
            .collect();
        for _ in 0..300 {
            let mapping = mapped("ends");
            READ.store(address(&mapping, 0), SeqCst);
            thread::yield_now();
            drop(mapping);
        }
        while byte(READ.load(SeqCst)) != 0 {}
        ENDED.store(true, SeqCst);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert_eq!(fault::losses().load(SeqCst), 0);
    }),
    ("no other thread gets the addresses of a mapping that has just ended", || {
        static DONE: AtomicBool = AtomicBool::new(false);
        // SAFETY: every process has this module.
        let placeholders = unsafe {
            let module = GetModuleHandleA(c"kernelbase.dll".as_ptr().cast());
            GetProcAddress(module, c"VirtualAlloc2".as_ptr().cast())
        };
        if placeholders.is_none() {
            eprintln!("not run: this system has no placeholders");
            return;
        }
        let others: Vec<_> = (0..2)
            .map(|_| {
                thread::spawn(|| {
                    while !DONE.load(SeqCst) {
                        // SAFETY: memory of this thread, of the size of the mappings, which it writes and releases.
                        unsafe {
                            let kind = MEM_RESERVE | MEM_COMMIT;
                            let taken = VirtualAlloc(ptr::null(), LENGTH, kind, PAGE_READWRITE);
                            if !taken.is_null() {
                                taken.cast::<u8>().write_volatile(2);
                                VirtualFree(taken, 0, MEM_RELEASE);
                            }
                        }
                    }
                })
            })
            .collect();
        for cycle in 0..500 {
            let mapping = mapped("race");
            let start = address(&mapping, 0);
            assert_eq!(byte(start), 1);
            drop(mapping);
            assert_eq!(byte(start), 0, "cycle {cycle}");
        }
        DONE.store(true, SeqCst);
        others.into_iter().for_each(|thread| thread.join().unwrap());
    }),
    ("more mappings than wait, one after another", || {
        for _ in 0..3000 {
            let mapping = mapped("many");
            assert_eq!(byte(address(&mapping, 5000)), 1);
        }
        assert_eq!(fault::losses().load(SeqCst), 0);
    }),
    ("[in-page error] a page of nobody's", || {
        drop(mapped("other"));
        let mut page = Box::new([0_u8; 8192]);
        fail(page.as_mut_ptr());
    }),
    ("[access violation] an address of nobody's", || {
        let _mapping = mapped("stranger");
        byte(ptr::without_provenance_mut(64));
    }),
    ("[access violation] code in a mapping", || {
        let mapping = mapped("code");
        // SAFETY: it is meant to fail, the page being no code.
        unsafe { std::mem::transmute::<*mut u8, extern "C" fn()>(address(&mapping, 4096))() };
    }),
];

fn ended(status: ExitStatus) -> String {
    match status.code().map(i32::cast_unsigned) {
        Some(code) if code == EXCEPTION_IN_PAGE_ERROR.cast_unsigned() => "in-page error".into(),
        Some(code) if code == EXCEPTION_ACCESS_VIOLATION.cast_unsigned() => "access violation".into(),
        code => format!("{code:x?}"),
    }
}

#[test]
fn every_case_passes_in_its_own_process() {
    if let Some(case) = child::function(CASES) {
        // No user closes a window.
        // SAFETY: a plain call.
        unsafe { SetErrorMode(SEM_NOGPFAULTERRORBOX) };
        return case();
    }
    let folder = env::temp_dir().join(format!("ztensor-exception-{}", process::id()));
    fs::create_dir(&folder).unwrap();
    for (name, _) in CASES {
        let mut command = child::command("exception::every_case_passes_in_its_own_process", name);
        let output = command.arg("--nocapture").env(FOLDER, &folder).output().unwrap();
        let exception = name.strip_prefix('[').map(|rest| rest.split(']').next().unwrap());
        let printed = String::from_utf8_lossy(&output.stderr);
        match exception {
            Some(exception) => assert_eq!(ended(output.status), exception, "{name}: {printed}"),
            None => assert!(child::passed(&output), "{name}: {printed}"),
        }
    }
    fs::remove_dir_all(folder).unwrap();
}
