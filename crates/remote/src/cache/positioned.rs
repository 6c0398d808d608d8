//! Reads and writes at an offset, independent of the position of a file.

use std::fs::File;
use std::io;
#[cfg(windows)]
use std::io::ErrorKind;

#[cfg(unix)]
pub fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(unix)]
pub fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
pub fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match std::os::windows::fs::FileExt::seek_read(file, rest, offset + done as u64)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => done += count,
        }
    }
    Ok(())
}

#[cfg(windows)]
pub fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match std::os::windows::fs::FileExt::seek_write(file, rest, offset + done as u64)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            count => done += count,
        }
    }
    Ok(())
}
