//! How the bytes of a file are read into memory: mapped, through the page cache, or bypassing it.
#![forbid(unsafe_code)]

use std::fs::File;

/// The mode requested by an opener.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Io {
    /// Mapped, except on remote and user-space file systems, where each fault is a round trip and a broken connection a signal. Loads of a
    /// file that exceeds memory bypass the page cache.
    #[default]
    Auto,
    /// Always mapped.
    Mmap,
    /// Never mapped.
    Read,
    /// Mapped for aliases; loads bypass the page cache.
    Direct,
}

impl Io {
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "mmap" => Some(Self::Mmap),
            "read" => Some(Self::Read),
            "direct" => Some(Self::Direct),
            _ => None,
        }
    }

    /// Returns whether a file may be mapped.
    pub fn maps(self, file: &File) -> bool {
        match self {
            Self::Auto => !is_remote(file),
            Self::Mmap | Self::Direct => true,
            Self::Read => false,
        }
    }

    /// Returns whether long reads of a file of `length` bytes bypass the page cache.
    #[cfg(target_os = "linux")]
    pub fn is_direct(self, file: &File, length: u64) -> bool {
        match self {
            Self::Auto => available_memory().is_some_and(|free| length > free) && !is_remote(file),
            Self::Direct => true,
            Self::Mmap | Self::Read => false,
        }
    }
}

#[cfg(target_os = "linux")]
fn is_remote(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|stat| REMOTE.contains(&magic(stat.f_type)))
}

/// Width and sign of the field differ by platform; all magics have 32 bits.
#[cfg(target_os = "linux")]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::unnecessary_cast)]
fn magic(f_type: rustix::fs::FsWord) -> u32 {
    f_type as u32
}

#[cfg(not(target_os = "linux"))]
fn is_remote(_file: &File) -> bool {
    false
}

/// The statfs(2) magics of remote and user-space file systems.
#[cfg(target_os = "linux")]
const REMOTE: [u32; 10] = [
    0x6969,      // NFS
    0x517b,      // SMB
    0xff53_4d42, // CIFS
    0xfe53_4d42, // SMB 2
    0x6573_5546, // FUSE: sshfs, s3fs, gcsfuse, rclone
    0x0102_1997, // 9p: virtual machines and WSL
    0x00c3_6400, // Ceph
    0x5346_414f, // AFS
    0x0bd0_0bd0, // Lustre
    0x786f_4256, // VirtualBox
];

/// Returns the memory available without swapping, by the kernel's estimate and the limit of the control group.
#[cfg(target_os = "linux")]
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let free = line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)?;
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|text| text.trim().parse().ok()).unwrap_or(u64::MAX);
    Some(free.min(limit))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn local_files_are_mapped_by_default() {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        let maps = ["auto", "mmap", "direct", "read"].map(|name| Io::from_name(name).unwrap().maps(&file));
        assert_eq!(maps, [!is_remote(&file), true, true, false]);
        assert_eq!(Io::from_name("dma"), None);
        assert!(Io::Auto.is_direct(&file, u64::MAX) || is_remote(&file));
        assert!(!Io::Auto.is_direct(&file, 1));
        // The kernel's own file system is not remote.
        let own = File::open("/proc/self/status").unwrap();
        assert!(!is_remote(&own) && Io::Auto.maps(&own));
        assert!(REMOTE.contains(&magic(0x6969)) && !REMOTE.contains(&magic(0x9fa0)));
    }
}
