//! The owner and the permissions of a file that replaces another one: they grant no more access than those of the old file,
//! whatever user replaces it. Each case runs in its own process and may change its user, which only root can.
#![cfg(unix)]
#![allow(unsafe_code)]

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::{env, fs, process};

use ztensor_core::error::{Code, Result};
use ztensor_core::sinks::AtomicFile;

use crate::child;

const USER: u32 = 65_534;
/// A supplementary group of the user, and one of which the user is not a member.
const OTHER: u32 = 12_345;
const STRANGE: u32 = 54_321;

fn folder(mode: u32) -> PathBuf {
    let folder = env::temp_dir().join(format!("ztensor-ownership-{}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
    folder
}

/// A file in a folder that all may write to.
fn file(owner: u32, group: u32, mode: u32) -> PathBuf {
    let path = folder(0o777).join("a");
    fs::write(&path, b"old").unwrap();
    chown(&path, Some(owner), Some(group)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

/// From here on the process is another user's.
fn become_user() {
    // SAFETY: plain calls; the process ends with the case.
    unsafe {
        assert_eq!(libc::setgroups(1, [OTHER].as_ptr()), 0);
        assert_eq!(libc::setgid(USER), 0);
        assert_eq!(libc::setuid(USER), 0);
    }
}

fn replaced(path: &Path) -> Result<(u32, u32, u32)> {
    let mut file = AtomicFile::create(path, true)?;
    file.write(b"new")?;
    assert_eq!(file.file().metadata().unwrap().mode() & 0o7777, 0o600, "no other user may read it yet");
    assert!(file.commit()?.is_empty());
    let found = path.metadata().unwrap();
    Ok((found.uid(), found.gid(), found.mode() & 0o7777))
}

const CASES: &[(&str, fn())] = &[
    ("root preserves the owner of the old file", || {
        for (owner, group) in [(0, 0), (USER, USER), (0, STRANGE), (USER, 0)] {
            for mode in [0o600, 0o640, 0o4755, 0o2711, 0o1777, 0o000, 0o7777] {
                let path = file(owner, group, mode);
                assert_eq!(replaced(&path).unwrap(), (owner, group, mode));
            }
        }
    }),
    ("a new group gets only the access that the old group and others had", || {
        let cases = [(0o6774, 0o744), (0o7751, 0o1711), (0o640, 0o600), (0o666, 0o666), (0o607, 0o607)];
        let files = cases.map(|(mode, expected)| {
            let path = file(0, STRANGE, mode);
            let own = path.with_file_name(format!("{mode:o}"));
            fs::rename(path, &own).unwrap();
            (own, expected)
        });
        become_user();
        for (path, expected) in files {
            assert_eq!(replaced(&path).unwrap(), (USER, USER, expected), "{}", path.display());
        }
    }),
    ("a group of the user is preserved with its access, without setuid", || {
        let path = file(0, OTHER, 0o6750);
        become_user();
        assert_eq!(replaced(&path).unwrap(), (USER, OTHER, 0o750));
    }),
    ("... and so is the primary group", || {
        let path = file(0, USER, 0o6771);
        become_user();
        assert_eq!(replaced(&path).unwrap(), (USER, USER, 0o771));
    }),
    ("the user's own file keeps its owner, group and mode", || {
        let path = file(USER, OTHER, 0o6755);
        become_user();
        assert_eq!(replaced(&path).unwrap(), (USER, OTHER, 0o6755));
    }),
    ("a folder that is writable but not readable is not synced, which is a warning", || {
        let folder = folder(0o733);
        become_user();
        let mut file = AtomicFile::create(&folder.join("new"), false).unwrap();
        file.write(b"new").unwrap();
        let warnings = file.commit().unwrap();
        assert_eq!(warnings.iter().map(|warning| warning.code).collect::<Vec<_>>(), ["ZT_WARN_NOT_SYNCED"]);
        assert_eq!(fs::read(folder.join("new")).unwrap(), b"new");
    }),
    ("a file in a sticky folder is not replaced, and the error names the system call", || {
        let path = file(0, 0, 0o644);
        let folder = folder(0o1777);
        become_user();
        let error = replaced(&path).unwrap_err();
        assert_eq!((error.code(), error.os().unwrap().syscall), (Code::Io, "rename"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "something was left behind");
    }),
];

#[test]
fn replacing_a_file_grants_no_additional_access() {
    if let Some(case) = child::function(CASES) {
        case();
        // Without what is done at a usual end: a sanitizer would look for leaks in ways that the case has closed.
        // SAFETY: ends the process.
        unsafe { libc::_exit(child::DONE) };
    }
    // SAFETY: a plain question.
    if unsafe { libc::geteuid() } != 0 {
        println!("not run: only root can give files to others");
        return;
    }
    for (name, _) in CASES {
        let child =
            child::command("ownership::replacing_a_file_grants_no_additional_access", name).spawn().unwrap();
        let id = child.id();
        let output = child.wait_with_output().unwrap();
        let _ = fs::remove_dir_all(env::temp_dir().join(format!("ztensor-ownership-{id}")));
        assert_eq!(output.status.code(), Some(child::DONE), "{name}");
    }
}
