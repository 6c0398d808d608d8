//! Edits of metadata: keys are set and removed, tensors are renamed and dropped. A failed edit leaves the file unchanged; after one that
//! succeeds, the tensors that stay have their bytes.
#![no_main]

use std::path::PathBuf;
use std::{env, fs, process};

use arbitrary::{Result, Unstructured};
use ciborium::Value;
use libfuzzer_sys::fuzz_target;
use ztensor_core::edit::metadata::{Editing, edit_metadata};
use ztensor_core::error::Code;
use ztensor_core::formats::{HeaderChanges, Setting};
use ztensor_core::model::Catalog;
use ztensor_core::open::{Lookup, Request, detect};
use ztensor_core::work::Watch;
use ztensor_fuzz::ALL;

/// Bytes that choose the changes; the file follows.
const CHOICES: usize = 24;

fuzz_target!(|input: &[u8]| {
    let Some((choices, file)) = input.split_at_checked(CHOICES) else { return };
    let Some(before) = parse(file) else { return };
    let mut choices = Unstructured::new(choices);
    let in_place = choices.arbitrary().unwrap_or_default();
    let Ok(changes) = changes(&before, &mut choices) else { return };
    let path = path();
    fs::write(&path, file).expect("a temporary file");
    let how = Editing { in_place, formats: ALL, limits: ztensor_fuzz::limits() };
    let edited = edit_metadata(&path, &changes, &how, &Watch::default());
    let now = fs::read(&path).expect("the file exists");
    match edited {
        Ok(edited) => {
            assert_eq!(edited.length, now.len() as u64);
            let after = parse(&now).expect("an edited file can be read");
            same(&before, file, &after, &now, &changes);
        }
        Err(error) => {
            assert_ne!(error.code(), Code::Internal, "{error}");
            assert!(now == file, "a failed edit changed the file: {error}");
        }
    }
});

fn path() -> PathBuf {
    env::temp_dir().join(format!("ztensor-fuzz-edit-{}", process::id()))
}

fn parse(bytes: &[u8]) -> Option<Catalog> {
    let request = Request {
        formats: ALL,
        limits: ztensor_fuzz::limits(),
        lookup: Lookup::Unread,
        ..Request::default()
    };
    detect::parse_alone(&bytes, &request).ok()
}

/// Chooses changes, mostly of keys and names that the file has.
fn changes(catalog: &Catalog, choices: &mut Unstructured<'_>) -> Result<HeaderChanges> {
    let values = catalog.attributes.values().map(|values| values.into_owned()).unwrap_or_default();
    let mut keys: Vec<String> =
        values.iter().filter_map(|(key, _)| key.as_text().map(str::to_owned)).collect();
    keys.extend(["general.name", "general.alignment", "ztensor.padding", ""].map(str::to_owned));
    let mut names: Vec<String> = catalog.iter().map(|tensor| tensor.name().to_owned()).collect();
    names.extend(["new", ""].map(str::to_owned));
    let mut changes = HeaderChanges::default();
    while !choices.is_empty() {
        match choices.int_in_range(0..=3)? {
            0 => {
                let key = choices.choose(&keys)?.clone();
                let value = match choices.int_in_range(0..=4)? {
                    0 => Value::from(choices.arbitrary::<i64>()?),
                    1 => Value::from(f64::from(choices.arbitrary::<u16>()?) / 7.0),
                    2 => Value::Bool(choices.arbitrary()?),
                    3 => Value::Array(vec![Value::from(1), Value::from(choices.arbitrary::<u8>()?)]),
                    _ => Value::Text("x".repeat(usize::from(choices.arbitrary::<u16>()? % 5000))),
                };
                let kinds = [None, Some("uint32"), Some("string"), Some("float32"), Some("array")];
                let kind = choices.choose(&kinds)?.map(str::to_owned);
                let text = value.as_text().map(str::to_owned);
                changes.set.push(Setting { key, value, kind, text });
            }
            1 => changes.remove.push(choices.choose(&keys)?.clone()),
            2 => changes.rename.push((choices.choose(&names)?.clone(), choices.choose(&names)?.clone())),
            _ => changes.drop.push(choices.choose(&names)?.clone()),
        }
    }
    Ok(changes)
}

/// Asserts that the tensors that stay have their bytes.
fn same(before: &Catalog, old: &[u8], after: &Catalog, new: &[u8], changes: &HeaderChanges) {
    for tensor in before.iter() {
        let name = tensor.name();
        if changes.drop.iter().any(|dropped| dropped == name) {
            continue;
        }
        let renamed = changes.rename.iter().find(|(from, _)| from == name);
        let name = renamed.map_or(name, |(_, to)| to);
        let found = after.find(name).and_then(|ordinal| after.tensor(ordinal)).expect("a tensor that stays");
        assert_eq!(found.shape(), tensor.shape(), "{name}");
        for (part, other) in tensor.components().iter().zip(found.components()) {
            let bytes = |file: &[u8], offset: u64, length: u64| {
                file.get(offset as usize..(offset + length) as usize).map(<[u8]>::to_vec)
            };
            let stored = part.stored_length();
            assert_eq!(bytes(old, part.offset(), stored), bytes(new, other.offset(), stored), "{name}");
        }
    }
}
