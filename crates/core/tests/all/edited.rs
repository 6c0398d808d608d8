//! What is tried of the edits of a file that anybody may have made.

use ztensor_core::edit::Edit;
use ztensor_core::formats::{Formats, zt};
use ztensor_core::limits::Limits;
use ztensor_core::model::Builder;
use ztensor_core::open::detect;

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
    let none = Builder::new(zt::CONTAINER, &limits).finish();
    let kept = edit.retained(bytes.len() as u64);
    if let Ok(tail) = edit.tail(&none, kept) {
        let edited = [&bytes[..usize::try_from(kept).unwrap()], &tail].concat();
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
