//! Copies bytes between files in the kernel.
#![forbid(unsafe_code)]

use std::fs::File;

/// Appends up to `length` bytes of `source`, from `offset` on, at the position of `target`. Returns the number of bytes
/// copied: 0 if the kernel cannot copy. An ordinary write then reports the error, if there is one.
#[cfg(target_os = "linux")]
pub fn append(source: &File, mut offset: u64, target: &File, length: u64) -> u64 {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let copied = rustix::fs::copy_file_range(source, Some(&mut offset), target, None, length);
    copied.map_or(0, |copied| copied as u64)
}

#[cfg(not(target_os = "linux"))]
pub fn append(_source: &File, _offset: u64, _target: &File, _length: u64) -> u64 {
    0
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use super::*;

    #[test]
    fn copies_at_the_position_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("ztensor-kernel-copy-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("source"), b"0123456789").unwrap();
        let mut source = File::open(folder.join("source")).unwrap();
        source.seek(SeekFrom::Start(1)).unwrap();
        let mut target = File::create(folder.join("target")).unwrap();
        target.write_all(b"<").unwrap();
        assert_eq!(append(&source, 2, &target, 5), 5);
        assert_eq!(append(&source, 8, &target, 5), 2, "as many as there are");
        assert_eq!(append(&source, 10, &target, 5), 0);
        assert_eq!(source.stream_position().unwrap(), 1, "others read the source too");
        target.write_all(b">").unwrap();
        assert_eq!(std::fs::read(folder.join("target")).unwrap(), b"<2345689>");
        let readable = File::open(folder.join("target")).unwrap();
        assert_eq!(append(&source, 0, &readable, 5), 0, "a target that cannot be written to");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
