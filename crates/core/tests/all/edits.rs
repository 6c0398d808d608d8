//! Edits of hostile files: what is accepted is spelled so that it opens, and nothing panics.

use proptest::prelude::*;
use ztensor_core::codecs::digest::xxh3;
use ztensor_core::edit::Edit;
use ztensor_core::formats::{Formats, zt2};
use ztensor_core::limits::Limits;

use crate::edited::edits;

const FILES: [&[u8]; 9] = [
    include_bytes!("../../../../__test__/fixtures/zt10h-attributes.zt"),
    include_bytes!("../../../../__test__/fixtures/zt10h-extension-format.zt"),
    include_bytes!("../../../../__test__/fixtures/zt101-sparse.zt"),
    include_bytes!("../../../../__test__/fixtures/zt111-shapes.zt"),
    include_bytes!("../../../../__test__/fixtures/zt12h-logical.zt"),
    include_bytes!("../../../../__test__/fixtures/zt2-shapes.zt"),
    include_bytes!("../../../../__test__/fixtures/zt2-sparse.zt"),
    include_bytes!("../../../../__test__/fixtures/zt2-logical.zt"),
    include_bytes!("../../../../__test__/fixtures/zt2-quantized.zt"),
];

/// Gives a version 2 file the hash of the manifest that it has now, where its footer still finds one.
fn rehash(bytes: &mut [u8]) {
    let end = bytes.len() - 40;
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let place = usize::try_from(number(end)).ok().zip(usize::try_from(number(end + 8)).ok());
    let manifest = place.and_then(|(offset, length)| bytes.get(offset..offset.checked_add(length)?));
    if let Some(hash) = manifest.map(xxh3) {
        bytes[end + 16..end + 24].copy_from_slice(&hash.to_le_bytes());
    }
}

#[test]
fn real_files_can_be_edited() {
    for bytes in FILES {
        assert!(edits(bytes));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn damaged_files_are_edited_correctly_or_rejected(
        file in 0..FILES.len(),
        hits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = FILES[file].to_vec();
        // Most of the damage is to the index, which is at the end.
        let index = usize::try_from(Edit::open(&FILES[file], Formats::default(), &Limits::default()).unwrap().index_offset()).unwrap();
        for (at, value) in hits {
            let at = index + at.index(bytes.len() - index);
            bytes[at] = value;
        }
        if bytes.starts_with(&zt2::MAGIC) {
            rehash(&mut bytes);
        }
        edits(&bytes);
    }
}
