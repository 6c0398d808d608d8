//! Edits of hostile files: what is accepted is spelled so that it opens, and nothing panics.

use proptest::prelude::*;
use ztensor_core::codecs::digest::xxh3;
use ztensor_core::edit::Edit;
use ztensor_core::formats::{Formats, zt_magic, zt2};
use ztensor_core::limits::Limits;
use ztensor_core::model::Builder;
use ztensor_core::open::detect;

use crate::cases::cases;

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

/// Edits and moves what can be opened; the outcome must open too, or be refused. Gives whether the file could be opened.
pub fn edits(bytes: &[u8]) -> bool {
    let limits = Limits::default();
    let Ok(mut edit) = Edit::open(&bytes, Formats::default(), &limits) else { return false };
    let names: Vec<String> = edit.catalog().iter().map(|tensor| tensor.name().to_owned()).collect();
    edit.attributes(vec![("set".into(), Some(7.into())), (1.into(), None)]).unwrap();
    let mut removed = 0;
    for (at, name) in names.iter().enumerate() {
        let _ = match at % 3 {
            0 => edit.rename(name, &format!("{name} renamed")),
            1 => {
                removed += 1;
                edit.remove(name)
            }
            _ => edit.tensor_attributes(name, vec![("set".into(), Some(true.into()))]),
        };
    }
    let none = Builder::new(zt_magic::CONTAINER, &limits).finish();
    let retained = edit.retained(bytes.len() as u64);
    if let Ok(tail) = edit.tail(&none, retained) {
        let edited = [&bytes[..usize::try_from(retained).unwrap()], &tail].concat();
        let catalog = detect::parse(&edited.as_slice(), Formats::default(), &limits).unwrap();
        assert_eq!(catalog.len(), names.len() - removed);
    }
    // Everything to where the first blob of the version may stand.
    let first = edit.alignment();
    let offset = |tensor: usize, component: usize| {
        let part = edit.catalog().tensor(tensor)?.components().get(component)?;
        Some(part.offset().min(first))
    };
    let _ = edit.moved_tail(edit.index_offset() + 64, offset);
    true
}

/// Gives a version 2 file the hash of the manifest that it has now, where its footer still finds one.
fn rehash(bytes: &mut [u8]) {
    let end = bytes.len() - 40;
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let range = usize::try_from(number(end)).ok().zip(usize::try_from(number(end + 8)).ok());
    let manifest = range.and_then(|(offset, length)| bytes.get(offset..offset.checked_add(length)?));
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
    #![proptest_config(ProptestConfig::with_cases(cases(1500)))]

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
