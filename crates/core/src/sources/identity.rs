//! What distinguishes files.
#![forbid(unsafe_code)]

use std::fmt;
use std::fs::Metadata;

/// What distinguishes a file from another or altered one with the same name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    pub length: u64,
    /// Device and inode if available; otherwise the creation time.
    node: (u64, u64),
    /// Seconds and nanoseconds.
    modified: (i64, i64),
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { length, node: (device, inode), modified: (seconds, nanoseconds) } = self;
        write!(f, "{length}-{device}-{inode}-{seconds}-{nanoseconds}")
    }
}

impl Identity {
    /// Returns the identity of immutable bytes.
    pub fn of_length(length: u64) -> Self {
        Self::of_version(length, 0)
    }

    /// Returns the identity of a source whose `version` differs after each change: a number derived from an entity tag or a date.
    pub fn of_version(length: u64, version: u64) -> Self {
        Self { length, node: (0, version), modified: (0, 0) }
    }

    #[cfg(unix)]
    pub fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self {
            length: metadata.len(),
            node: (metadata.dev(), metadata.ino()),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    #[cfg(not(unix))]
    pub fn of(metadata: &Metadata) -> Self {
        let since = |time: std::io::Result<std::time::SystemTime>| {
            let time = time.ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
            time.unwrap_or_default()
        };
        let (made, modified) = (since(metadata.created()), since(metadata.modified()));
        Self {
            length: metadata.len(),
            node: (made.as_secs(), u64::from(made.subsec_nanos())),
            modified: (modified.as_secs().cast_signed(), i64::from(modified.subsec_nanos())),
        }
    }
}
