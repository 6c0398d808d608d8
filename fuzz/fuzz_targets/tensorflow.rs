//! The index of a TensorFlow checkpoint: unchanged, and with corrected block checksums, so that damaged content is read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_core::codecs::digest::Checksum;
use ztensor_core::codecs::protobuf::varint;
use ztensor_fuzz::ALL;

fuzz_target!(|file: &[u8]| {
    let formats = ALL.only("tensorflow").unwrap();
    ztensor_fuzz::read(file, formats);
    ztensor_fuzz::read(&mended(file), formats);
});

/// Returns the file with corrected checksums of the block list and of the blocks that it names.
fn mended(file: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    let footer = file.len().saturating_sub(48);
    let mut places = &file[footer..].to_vec()[..];
    number(&mut places);
    number(&mut places);
    let Some(list) = number(&mut places).zip(number(&mut places)) else { return file };
    let Some(contents) = mend(&mut file, list) else { return file };
    let mut rest = &contents[..];
    while let Some((_, own)) = number(&mut rest).zip(number(&mut rest)) {
        let Some(length) = number(&mut rest) else { break };
        let Some(value) = rest.get(own..).and_then(|rest| rest.get(..length)) else { break };
        rest = &rest[own + length..];
        let mut value = value;
        if let Some(position) = number(&mut value).zip(number(&mut value)) {
            mend(&mut file, position);
        }
    }
    file
}

/// Corrects the checksum of a block, and returns its content.
fn mend(file: &mut [u8], (offset, size): (usize, usize)) -> Option<Vec<u8>> {
    let end = offset.checked_add(size)?;
    let trailer = end.checked_add(1)?..end.checked_add(5)?;
    let sum = Checksum::Crc32c.append(0, file.get(offset..trailer.start)?);
    file.get_mut(trailer)?.copy_from_slice(&sum.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes());
    file.get(offset..end).map(<[u8]>::to_vec)
}

fn number(bytes: &mut &[u8]) -> Option<usize> {
    let (value, length) = varint(bytes)?;
    *bytes = bytes.get(length..)?;
    usize::try_from(value).ok()
}
