//! A temporary shortage of a resource must not have permanent effects. Each case runs in its own process, whose limits it changes.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::fs::File;
use std::sync::mpsc::channel;
use std::time::Duration;
use std::{env, fs, process, thread};

use memmap2::MmapMut;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use ztensor_core::error::Code;
use ztensor_core::sinks::AtomicFile;
use ztensor_core::sources::fault;
use ztensor_core::sources::mapping::Mapping;
use ztensor_core::sources::owned::Owned;
use ztensor_core::work::{self, lanes::Lane};

use crate::child;

/// Runs `work` with a limit on a resource.
fn limited<T>(resource: Resource, max: u64, work: impl FnOnce() -> T) -> T {
    let before = getrlimit(resource);
    setrlimit(resource, Rlimit { current: Some(max), ..before }).unwrap();
    let done = work();
    // The soft limit goes up to the hard one again.
    setrlimit(resource, before).unwrap();
    done
}

const GIB: usize = 1 << 30;

/// A file of zeros that takes no space on the disk.
fn sparse() -> File {
    let file = file("sparse");
    file.set_len(GIB as u64).unwrap();
    file
}

/// Bytes that this process uses, by the field of `statm`: 0 for addresses, 5 for private memory.
fn in_use(field: usize) -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(field).unwrap().parse::<usize>().unwrap() * 4096
}

/// Runs `work` with `free` more bytes available.
fn within<T>(free: usize, resource: Resource, field: usize, work: impl FnOnce() -> T) -> T {
    limited(resource, (in_use(field) + free) as u64, work)
}

/// Runs `work` while this process cannot start threads.
fn without_threads<T>(work: impl FnOnce() -> T) -> T {
    // The limit does not apply to root.
    // SAFETY: a plain call; the process ends with the case.
    unsafe { libc::setuid(65534) };
    limited(Resource::Nproc, 0, || {
        assert!(thread::Builder::new().spawn(|| ()).is_err());
        work()
    })
}

const LENGTH: u64 = 4096;

/// A file that this process may truncate.
fn file(name: &str) -> File {
    let path = env::temp_dir().join(format!("ztensor-resource-limits-{name}-{}", process::id()));
    fs::write(&path, [1; 4096]).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    fs::remove_file(path).unwrap();
    file
}

/// Waits until the loss that `lose` causes is reported.
fn is_reported(lose: impl FnOnce()) {
    let (sender, receiver) = channel();
    fault::on_loss(move || sender.send(()).is_ok());
    lose();
    receiver.recv_timeout(Duration::from_secs(60)).unwrap();
}

const CASES: &[(&str, fn())] = &[
    ("a lane starts its thread at the first call that can", || {
        let refused = without_threads(|| Lane::Long.ready()).unwrap_err();
        assert_eq!(refused.code(), Code::Limit);
        let (done, outcome) = channel();
        Lane::Long.ready().unwrap().spawn(move || done.send(7).unwrap());
        assert_eq!(outcome.recv(), Ok(7));
    }),
    ("a file is not published if its folder cannot be opened because descriptors ran out", || {
        let path = env::temp_dir().join(format!("ztensor-resource-limits-handles-{}", process::id()));
        let file = AtomicFile::create(&path, false).unwrap();
        let error = limited(Resource::Nofile, 3, || file.commit()).unwrap_err();
        assert_eq!((error.code(), error.os().unwrap().syscall), (Code::Io, "open"), "{error}");
        assert!(!path.exists());
    }),
    ("divided work runs without helpers", || {
        let (done, outcome) = channel();
        without_threads(|| work::for_each_on(8, 100, |at| done.send(at).unwrap()));
        assert_eq!(outcome.try_iter().count(), 100);
    }),
    ("a loss is reported once a thread is available", || {
        let (file, first) = (file("first"), file("second"));
        let _first = without_threads(|| Mapping::new(&first, LENGTH).unwrap());
        let second = Mapping::new(&file, LENGTH).unwrap();
        is_reported(|| second.lose());
    }),
    ("... once descriptors are available", || {
        let (file, first) = (file("first"), file("second"));
        let _first = limited(Resource::Nofile, 0, || Mapping::new(&first, LENGTH).unwrap());
        let second = Mapping::new(&file, LENGTH).unwrap();
        is_reported(|| second.lose());
    }),
    ("... even if it happened before", || {
        let (file, other) = (file("first"), file("second"));
        let mapping = limited(Resource::Nofile, 0, || Mapping::new(&file, LENGTH).unwrap());
        is_reported(|| {
            file.set_len(0).unwrap();
            // SAFETY: inside the mapping, and the handler is in place.
            assert_eq!(unsafe { mapping.address(0, 1).unwrap().read_volatile() }, 0);
            let _other = Mapping::new(&other, LENGTH).unwrap();
        });
    }),
    ("... and the file is used again in the meantime", || {
        let file = file("again");
        let source = limited(Resource::Nofile, 0, || Mapping::new(&file, LENGTH).unwrap());
        fault::arm(); // as each alias does
        is_reported(|| source.lose());
    }),
    ("closed files retain at most a quarter of the addresses", || {
        within(8 * GIB, Resource::As, 0, || {
            let file = sparse();
            for _ in 0..50 {
                drop(Mapping::new(&file, GIB as u64).unwrap());
            }
            // It is retained: code that still reads it must not find other memory there.
            assert!(in_use(0) > GIB);
            assert!(MmapMut::map_anon(6 * GIB - GIB / 2).is_ok());
        });
    }),
    ("... and no writable memory if that is limited", || {
        within(3 * GIB, Resource::Data, 5, || {
            let before = in_use(5);
            let file = sparse();
            for _ in 0..50 {
                let mapping = Mapping::new(&file, GIB as u64).unwrap();
                let address = mapping.address(GIB as u64 / 2, 1).unwrap();
                drop(mapping);
                // SAFETY: it waits.
                assert_eq!(unsafe { address.read_volatile() }, 0);
            }
            assert!(in_use(5) < before + GIB / 2);
        });
    }),
    ("... and are released for a new mapping", || {
        let file = sparse();
        drop(Mapping::new(&file, GIB as u64).unwrap());
        within(GIB / 2, Resource::As, 0, || assert!(Mapping::new(&file, GIB as u64).is_some()));
    }),
    ("... and for new memory", || {
        let file = sparse();
        drop(Mapping::new(&file, GIB as u64).unwrap());
        within(GIB / 2, Resource::As, 0, || assert!(Owned::zeroed(GIB as u64).is_ok()));
    }),
    ("memory retained for reuse takes at most a quarter of what is available", || {
        for resource in [Resource::As, Resource::Data] {
            let field = if resource == Resource::As { 0 } else { 5 };
            within(4 * GIB, resource, field, || {
                let blocks: Vec<_> = (0..12).map(|_| Owned::to_fill(GIB as u64 / 4).unwrap()).collect();
                drop(blocks);
                assert!(MmapMut::map_anon(3 * GIB - GIB / 4).is_ok());
            });
        }
    }),
];

#[test]
fn every_case_passes_in_its_own_process() {
    if let Some(case) = child::function(CASES) {
        return case();
    }
    let wrong: Vec<_> = CASES
        .iter()
        .filter_map(|&(name, _)| {
            let output = child::command("resource_limits::every_case_passes_in_its_own_process", name)
                .output()
                .unwrap();
            let passed = child::passed(&output);
            let printed = [output.stdout, output.stderr].concat();
            (!passed).then(|| format!("{name}: {}", String::from_utf8_lossy(&printed)))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
