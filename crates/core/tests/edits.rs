//! Edits of hostile files: what is accepted is spelled so that it opens, and nothing panics.
#![allow(clippy::unwrap_used)] // a test that cannot set itself up has failed

use proptest::prelude::*;
use ztensor_core::catalog::{Builder, Container};
use ztensor_core::detect;
use ztensor_core::edit::Edit;
use ztensor_core::limits::Limits;

const FILES: [&[u8]; 5] = [
    include_bytes!("../../../__test__/fixtures/zt10h-attributes.zt"),
    include_bytes!("../../../__test__/fixtures/zt10h-extension-format.zt"),
    include_bytes!("../../../__test__/fixtures/zt101-sparse.zt"),
    include_bytes!("../../../__test__/fixtures/zt111-shapes.zt"),
    include_bytes!("../../../__test__/fixtures/zt12h-logical.zt"),
];

/// Edits and moves what can be opened; the outcome must open too, or be refused.
fn edits(bytes: &[u8]) -> bool {
    let limits = Limits::default();
    let Ok(mut edit) = Edit::open(&bytes, &limits) else { return false };
    let names: Vec<String> = edit.catalog().iter().map(|tensor| tensor.name().to_owned()).collect();
    edit.attributes(vec![("set".into(), Some(7.into())), (1.into(), None)]).unwrap();
    for (at, name) in names.iter().enumerate() {
        let _ = match at % 3 {
            0 => edit.rename(name, &format!("{name} renamed")),
            1 => edit.remove(name),
            _ => edit.tensor_attributes(name, vec![("set".into(), Some(true.into()))]),
        };
    }
    let none = Builder::new(Container::Zt, &limits).finish();
    let kept = usize::try_from(edit.index_offset()).unwrap();
    if let Ok(tail) = edit.tail(&none, edit.index_offset()) {
        let edited = [&bytes[..kept], &tail].concat();
        let catalog = detect::parse(&edited.as_slice(), None, &limits).unwrap();
        assert_eq!(catalog.len(), names.len() - (names.len() + 1) / 3);
    }
    let end = edit.index_offset() + 64;
    let offset = |tensor: usize, component: usize| {
        let part = edit.catalog().tensor(tensor)?.components().get(component)?;
        Some(part.offset.min(64))
    };
    let _ = edit.moved_tail(end, offset);
    true
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
    fn damaged_files_are_edited_soundly_or_refused(
        file in 0..FILES.len(),
        hits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = FILES[file].to_vec();
        // Most of the damage to the index, which stands at the end.
        let index = usize::try_from(Edit::open(&FILES[file], &Limits::default()).unwrap().index_offset()).unwrap();
        for (at, value) in hits {
            let at = index + at.index(bytes.len() - index);
            bytes[at] = value;
        }
        edits(&bytes);
    }
}
