//! Atomic files on systems without unnamed temporary files, or without some ways to rename and link. Each case runs in its own process.
//! Only root can hide `/proc`, without which an unnamed file cannot get a name.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::{env, process, thread};

use rustix::fs::{FlockOperation, flock};
use ztensor_core::error::{Code, Result};
use ztensor_core::sinks::AtomicFile;
use ztensor_core::sinks::existing::ExistingFile;

use crate::child;

fn folder() -> PathBuf {
    let folder = env::temp_dir().join(format!("ztensor-atomic-files-{}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Hides everything but a folder from this process.
fn without_proc() {
    std::os::unix::fs::chroot(folder()).unwrap();
    env::set_current_dir("/").unwrap();
}

/// Makes a system call fail with an error from now on.
fn without(call: libc::c_long, error: libc::c_int) {
    let statement = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let filter = [
        statement(0x20, 0, 0, 0), // the call's number
        statement(0x15, 0, 1, u32::try_from(call).unwrap()),
        statement(0x06, 0, 0, libc::SECCOMP_RET_ERRNO | error.unsigned_abs()),
        statement(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_ptr().cast_mut() };
    // SAFETY: a filter that leaves all other calls alone; the process ends with the case.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

/// Locked temporary files with the names that this process would use next.
fn held(folder: &Path) -> Vec<File> {
    let name = |number| folder.join(format!(".ztensor-{}-{number}.part", process::id()));
    let files = (0..20).map(|number| File::create(name(number)).unwrap());
    files.inspect(|file| flock(file, FlockOperation::LockExclusive).unwrap()).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| !name.starts_with(".ztensor-")).collect();
    names.sort();
    names
}

fn put(path: &Path, overwrite: bool, bytes: &[u8]) -> Result<()> {
    let mut file = AtomicFile::create(path, overwrite)?;
    file.write(bytes)?;
    file.commit().map(|warnings| assert!(warnings.is_empty()))
}

/// Creates a file, fails if it exists, and replaces it; a file that another writer creates meanwhile is not replaced.
fn appears_whole_or_not_at_all(folder: &Path) {
    let path = folder.join("a");
    put(&path, false, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(put(&path, false, b"other").unwrap_err().code(), Code::Exists);
    put(&path, true, b"other").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"other");
    let late = folder.join("late");
    let mut file = AtomicFile::create(&late, false).unwrap();
    file.write(b"ours").unwrap();
    fs::write(&late, b"theirs").unwrap();
    assert_eq!(file.commit().unwrap_err().code(), Code::Exists);
    assert_eq!(fs::read(&late).unwrap(), b"theirs");
    assert_eq!(names(folder), ["a", "late"]);
}

/// No file of ours but those that are held is left, and none of these is gone.
fn left(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count() - names(folder).len()
}

const CASES: &[(&str, fn())] = &[
    ("a temporary name in use is not taken", || {
        let (folder, held) = (folder(), held(&folder()));
        appears_whole_or_not_at_all(&folder);
        assert_eq!(left(&folder), held.len());
    }),
    ("... even if the file must have a name", || {
        let held = held(&folder());
        without_proc();
        appears_whole_or_not_at_all(Path::new("/"));
        assert_eq!(left(Path::new("/")), held.len());
    }),
    ("a named temporary file is published by a link", || {
        without_proc();
        without(libc::SYS_renameat2, libc::ENOSYS);
        appears_whole_or_not_at_all(Path::new("/"));
        assert_eq!(left(Path::new("/")), 0);
    }),
    ("... or by a check before the rename, without links", || {
        without_proc();
        without(libc::SYS_renameat2, libc::EINVAL);
        without(libc::SYS_linkat, libc::EPERM);
        appears_whole_or_not_at_all(Path::new("/"));
        assert_eq!(left(Path::new("/")), 0);
    }),
    ("a temporary file has no name if the system supports that", || {
        let folder = folder();
        let mut file = AtomicFile::create(&folder.join("a"), false).unwrap();
        file.write(b"new").unwrap();
        let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR;
        let needed = rustix::fs::open(&folder, flags, rustix::fs::Mode::RUSR).is_err();
        assert_eq!(left(&folder), usize::from(needed));
    }),
    ("a file that is replaced during the wait for its lock is opened again", || {
        let folder = folder();
        let path = folder.join("a");
        for round in 0..80_u32 {
            fs::write(&path, b"old").unwrap();
            fs::write(folder.join("b"), b"new one").unwrap();
            let lock = File::open(&path).unwrap();
            flock(&lock, FlockOperation::LockExclusive).unwrap();
            let barrier = std::sync::Barrier::new(2);
            let outcome = thread::scope(|scope| {
                let opened = scope.spawn(|| {
                    barrier.wait();
                    ExistingFile::open(&path, false).map(|original| original.length())
                });
                barrier.wait();
                for _ in 0..round * 500 {
                    std::hint::spin_loop();
                }
                fs::rename(folder.join("b"), &path).unwrap();
                drop(lock);
                opened.join().unwrap()
            });
            // It may be the new one at once, or the lock may not come in time; but the replaced file is never returned.
            match outcome {
                Ok(length) => assert_eq!(length, 7),
                Err(error) => assert!(error.message().contains("another writer"), "{error}"),
            }
        }
    }),
];

#[test]
fn files_appear_atomically_on_any_system() {
    if let Some(case) = child::function(CASES) {
        // Values that are looked up once are looked up before anything is hidden.
        drop(AtomicFile::create(&folder().join("a"), false).unwrap());
        case();
        // Without what is done at a usual end: a sanitizer would look for leaks in ways that the case has closed.
        // SAFETY: ends the process.
        unsafe { libc::_exit(child::DONE) };
    }
    if !rustix::process::geteuid().is_root() {
        println!("not run: only root can hide /proc");
        return;
    }
    for (name, _) in CASES {
        let child =
            child::command("atomic_files::files_appear_atomically_on_any_system", name).spawn().unwrap();
        let id = child.id();
        let output = child.wait_with_output().unwrap();
        let _ = fs::remove_dir_all(env::temp_dir().join(format!("ztensor-atomic-files-{id}")));
        assert_eq!(output.status.code(), Some(child::DONE), "{name}");
    }
}
