//! Whether a file is also open elsewhere. Only Linux reports it.
#![allow(unsafe_code)] // fcntl, which rustix does not have for leases

use std::fs::File;

/// Numbers of fcntl that the libc crate does not have for each C library. They are the same on every processor that this runs on.
#[cfg(target_os = "linux")]
mod fcntl {
    use libc::c_int;

    pub const SET_SIGNAL: c_int = 10;
    pub const SET_LEASE: c_int = 1024;
    pub const WRITE: c_int = 1;
    pub const NONE: c_int = 2;
}

/// Returns whether another handle or mapping of the file exists, in this process or another one; `None` if the system does not report it:
/// only to the owner of a file, and not on every file system. The file must be open for writing.
#[cfg(target_os = "linux")]
pub fn is_open_elsewhere(file: &File) -> Option<bool> {
    // A process that is being started has copies of all handles until its program begins, so one look may be wrong. Only a file that
    // stays open takes all of them: 100 ms.
    for _ in 0..20 {
        match can_lease(file) {
            Some(false) => std::thread::sleep(std::time::Duration::from_millis(5)),
            free => return free.map(|free| !free),
        }
    }
    Some(true)
}

/// Returns whether this handle is the only one; `None` if the system does not reveal it.
#[cfg(target_os = "linux")]
fn can_lease(file: &File) -> Option<bool> {
    use std::io::{Error, ErrorKind};
    use std::os::fd::AsRawFd;

    let descriptor = file.as_raw_fd();
    // A write lease is only granted while no other process has the file open (fcntl(2)). If one opens it while the lease is held, the
    // process gets a signal. This one is ignored by default, while SIGIO would end the process.
    // SAFETY: These calls take no pointers, and the descriptor is open.
    let leased = unsafe {
        libc::fcntl(descriptor, fcntl::SET_SIGNAL, libc::SIGURG) == 0
            && libc::fcntl(descriptor, fcntl::SET_LEASE, fcntl::WRITE) == 0
    };
    if !leased {
        return (Error::last_os_error().kind() == ErrorKind::WouldBlock).then_some(false);
    }
    // SAFETY: As above.
    unsafe { libc::fcntl(descriptor, fcntl::SET_LEASE, fcntl::NONE) };
    Some(true)
}

#[cfg(not(target_os = "linux"))]
pub fn is_open_elsewhere(_file: &File) -> Option<bool> {
    None
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used)] // a test that cannot set itself up has failed
mod tests {
    use std::fs::{self, OpenOptions};

    use super::*;
    use crate::sources::file::FileSource;

    #[test]
    fn open_handles_and_mappings_are_detected() {
        let path = std::env::temp_dir().join(format!("ztensor-elsewhere-{}", std::process::id()));
        fs::write(&path, [7; 10_000]).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert_eq!(is_open_elsewhere(&file), Some(false));
        let other = FileSource::open(&path).unwrap();
        assert_eq!(is_open_elsewhere(&file), Some(true));
        drop(other);
        assert_eq!(is_open_elsewhere(&file), Some(false));
        let writer = OpenOptions::new().write(true).open(&path).unwrap();
        assert_eq!(is_open_elsewhere(&file), Some(true));
        drop(writer);
        let source = FileSource::open(&path).unwrap();
        let mapping = source.mapping().unwrap().unwrap();
        drop(source);
        assert_eq!(is_open_elsewhere(&file), Some(true), "a mapping outlives its handle");
        drop(mapping);
        assert_eq!(is_open_elsewhere(&file), Some(false));
        fs::remove_file(path).unwrap();
    }
}
