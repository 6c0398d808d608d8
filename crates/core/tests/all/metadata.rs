//! Edits of metadata and names: what the reference implementation reads afterwards, whatever the edit and however it is made.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use ciborium::Value;
use proptest::prelude::*;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use ztensor_core::edit::metadata::{Edited, Editing, edit_metadata};
use ztensor_core::error::{Code, Error};
use ztensor_core::formats::{Formats, HeaderChanges, Setting};
use ztensor_core::limits::Limits;
use ztensor_core::open::detect;
use ztensor_core::sinks::header_rewrite::Method;
use ztensor_core::work::Watch;

use crate::cases::cases;

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("ztensor-metadata-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder.join("file")
}

fn edit(path: &Path, changes: &HeaderChanges, in_place: bool) -> Result<Edited, Error> {
    let how = Editing { in_place, formats: Formats::default(), limits: Limits::default() };
    edit_metadata(path, changes, &how, &Watch::default())
}

fn set(key: &str, value: impl Into<Value>) -> Setting {
    Setting { key: key.to_owned(), value: value.into(), kind: None, text: None }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|&(one, other)| (one.to_owned(), other.to_owned())).collect()
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

type Tensors = BTreeMap<String, Vec<u8>>;

fn bytes_of(tensors: &Tensors, metadata: &[(&str, &str)]) -> Vec<u8> {
    let views = tensors
        .iter()
        .map(|(name, data)| (name, TensorView::new(Dtype::U8, vec![data.len()], data).unwrap()));
    let metadata: HashMap<_, _> = pairs(metadata).into_iter().collect();
    // Its writer spells an empty map wrong.
    serialize(views, Some(metadata).filter(|metadata| !metadata.is_empty())).unwrap()
}

/// Returns what the reference implementation reads in a file.
fn reference(bytes: &[u8]) -> (Tensors, BTreeMap<String, String>) {
    let tensors = SafeTensors::deserialize(bytes).unwrap();
    let (_, header) = SafeTensors::read_metadata(bytes).unwrap();
    let tensors = tensors.iter().map(|(name, view)| (name.to_owned(), view.data().to_vec())).collect();
    (tensors, header.metadata().clone().unwrap_or_default().into_iter().collect())
}

fn sample() -> Tensors {
    [("a", 100), ("b", 0), ("c", 5000), ("d", 7)]
        .into_iter()
        .enumerate()
        .map(|(at, (name, length))| (name.to_owned(), vec![u8::try_from(at + 1).unwrap(); length]))
        .collect()
}

#[test]
fn the_reference_reads_what_was_edited() {
    let long = "x".repeat(5000);
    for in_place in [true, false] {
        let path = scratch(&format!("reads-{in_place}"));
        let in_file = if in_place { Method::InPlace } else { Method::Copied };
        fs::write(&path, bytes_of(&sample(), &[("one", "1"), ("two", "2")])).unwrap();
        let mut tensors = sample();
        let mut metadata: BTreeMap<String, String> =
            pairs(&[("one", "1"), ("two", "2")]).into_iter().collect();
        let check = |changes: &HeaderChanges, tensors: &Tensors, metadata: &BTreeMap<String, String>| {
            let Edited { length, method, .. } = edit(&path, changes, in_place).unwrap();
            let bytes = fs::read(&path).unwrap();
            assert_eq!(length, bytes.len() as u64);
            assert_eq!(reference(&bytes), (tensors.clone(), metadata.clone()), "{changes:?}");
            detect::parse(&bytes.as_slice(), Formats::default(), &Limits::default()).unwrap();
            // Where the file system clones, a copy is a clone.
            if method == Method::Cloned { Method::Copied } else { method }
        };

        // Nothing.
        assert_eq!(check(&HeaderChanges::default(), &tensors, &metadata), Method::Unchanged);
        let same =
            HeaderChanges { set: vec![set("one", "1")], rename: pairs(&[("a", "a")]), ..Default::default() };
        assert_eq!(check(&same, &tensors, &metadata), Method::Unchanged);

        // Shorter: the header keeps its length.
        metadata.remove("one");
        let gone = HeaderChanges { remove: strings(&["one"]), ..Default::default() };
        assert_eq!(check(&gone, &tensors, &metadata), in_file);

        // Longer than what the padding holds.
        metadata.insert("long \"key\"\n".to_owned(), long.clone());
        let longer = HeaderChanges { set: vec![set("long \"key\"\n", &*long)], ..Default::default() };
        let method = check(&longer, &tensors, &metadata);
        assert!(method == Method::Copied || in_place && method == Method::Inserted, "{method:?}");

        // It fits then.
        metadata.insert("two".to_owned(), "zwei".to_owned());
        metadata.insert("é".to_owned(), "\u{1}".to_owned());
        let fits = HeaderChanges { set: vec![set("two", "zwei"), set("é", "\u{1}")], ..Default::default() };
        assert_eq!(check(&fits, &tensors, &metadata), in_file);

        // Names that are swapped, and one that another gives up.
        let (a, b, c) = (tensors["a"].clone(), tensors["b"].clone(), tensors["c"].clone());
        tensors.extend([("a".to_owned(), b), ("b".to_owned(), a), ("new".to_owned(), c)]);
        tensors.remove("c");
        let swapped =
            HeaderChanges { rename: pairs(&[("a", "b"), ("b", "a"), ("c", "new")]), ..Default::default() };
        assert_eq!(check(&swapped, &tensors, &metadata), in_file);

        // From the middle: only a copy has no hole. From the end: the file becomes shorter.
        tensors.remove("b");
        let middle = HeaderChanges { drop: strings(&["b"]), ..Default::default() };
        assert_eq!(check(&middle, &tensors, &metadata), Method::Copied);
        tensors.remove("d");
        let last = HeaderChanges { drop: strings(&["d"]), ..Default::default() };
        assert_eq!(check(&last, &tensors, &metadata), in_file);

        // All of it.
        let all = HeaderChanges {
            remove: metadata.keys().cloned().collect(),
            drop: tensors.keys().cloned().collect(),
            ..Default::default()
        };
        check(&all, &Tensors::new(), &BTreeMap::new());
    }
}

#[test]
fn what_an_edit_does_not_change_is_preserved_byte_for_byte() {
    let path = scratch("preserved");
    let entries = [
        r#""b\u0062" : {"shape":[ 2 ], "dtype":"U8","extra":[1, {}],  "data_offsets":[0,2]}"#,
        r#""__metadata__":{ "k\u0065y" : "\u0041", "other":"x" }"#,
        r#""last":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}"#,
    ];
    let header = |entries: &[&str]| format!("{{{}}}", entries.join(","));
    let write = || {
        let header =
            format!(" {}", header(&entries).replace("},\"last", "}  ,\n \"last")).replace(" {\"b", "{ \"b");
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&[1, 2, 3]);
        fs::write(&path, bytes).unwrap();
    };
    let text = || {
        let bytes = fs::read(&path).unwrap();
        let size = usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
        (
            String::from_utf8(bytes[8..8 + size].to_vec()).unwrap().trim_end().to_owned(),
            bytes[8 + size..].to_vec(),
        )
    };
    for (changes, wanted, data) in [
        (
            HeaderChanges { rename: pairs(&[("last", "la\"st")]), ..Default::default() },
            [entries[0], entries[1], r#""la\"st":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}"#].to_vec(),
            &[1, 2, 3][..],
        ),
        (
            HeaderChanges { set: vec![set("key", "B"), set("new", "C")], ..Default::default() },
            [entries[0], r#""__metadata__":{"k\u0065y" : "B","other":"x","new":"C"}"#, entries[2]].to_vec(),
            &[1, 2, 3],
        ),
        (
            HeaderChanges { drop: strings(&["bb"]), ..Default::default() },
            [entries[1], r#""last":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#].to_vec(),
            &[3],
        ),
        (
            HeaderChanges {
                remove: strings(&["key", "other"]),
                drop: strings(&["last"]),
                ..Default::default()
            },
            [entries[0]].to_vec(),
            &[1, 2],
        ),
    ] {
        write();
        edit(&path, &changes, false).unwrap();
        assert_eq!(text(), (header(&wanted), data.to_vec()), "{changes:?}");
    }
}

#[test]
fn what_cannot_be_done_leaves_the_file() {
    let bytes = bytes_of(&sample(), &[("one", "1")]);
    let typed = Setting { kind: Some("uint32".to_owned()), text: Some("5".to_owned()), ..set("n", 5) };
    let path = scratch("refused");
    for (changes, code, message) in [
        (
            HeaderChanges { remove: strings(&["on"]), ..Default::default() },
            Code::NotFound,
            "the file has \"one\"",
        ),
        (HeaderChanges { drop: strings(&["A"]), ..Default::default() }, Code::NotFound, "no such tensor"),
        (
            HeaderChanges { rename: pairs(&[("x", "y")]), ..Default::default() },
            Code::NotFound,
            "no such tensor",
        ),
        (
            HeaderChanges { rename: pairs(&[("a", "b")]), ..Default::default() },
            Code::BadIndex,
            "has this name already",
        ),
        (
            HeaderChanges { rename: pairs(&[("a", "x"), ("b", "x")]), ..Default::default() },
            Code::BadIndex,
            "has this name already",
        ),
        (
            HeaderChanges { rename: pairs(&[("a", "x"), ("a", "y")]), ..Default::default() },
            Code::InvalidArg,
            "renamed twice",
        ),
        (
            HeaderChanges { rename: pairs(&[("a", "x")]), drop: strings(&["a"]), ..Default::default() },
            Code::InvalidArg,
            "both renamed and dropped",
        ),
        (
            HeaderChanges { rename: pairs(&[("a", "__metadata__")]), ..Default::default() },
            Code::BadIndex,
            "no tensor of a safetensors file",
        ),
        (
            HeaderChanges { set: vec![set("one", "2"), set("one", "3")], ..Default::default() },
            Code::InvalidArg,
            "changed twice",
        ),
        (
            HeaderChanges { set: vec![set("one", "2")], remove: strings(&["one"]), ..Default::default() },
            Code::InvalidArg,
            "changed twice",
        ),
        (HeaderChanges { set: vec![set("n", 5)], ..Default::default() }, Code::InvalidArg, "text only"),
        (
            HeaderChanges { set: vec![set("n", "x".repeat(100_000_001))], ..Default::default() },
            Code::Limit,
            "more than the 100000000",
        ),
    ] {
        for in_place in [true, false] {
            fs::write(&path, &bytes).unwrap();
            let error = edit(&path, &changes, in_place).unwrap_err();
            assert_eq!(error.code(), code, "{error}");
            assert!(error.to_string().contains(message), "{error}");
            assert!(fs::read(&path).unwrap() == bytes);
        }
    }
    // The text of a value that is not text.
    edit(&path, &HeaderChanges { set: vec![typed], ..Default::default() }, true).unwrap();
    assert_eq!(reference(&fs::read(&path).unwrap()).1["n"], "5");
}

#[test]
fn the_index_of_a_ztensor_file_is_edited_too() {
    for name in ["zt100-dtypes.zt", "zt12-dtypes.zt", "zt2-shapes.zt"] {
        let fixture = format!("{}/../../__test__/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
        let before = fs::read(fixture).unwrap();
        let catalog = detect::parse(&before.as_slice(), Formats::default(), &Limits::default()).unwrap();
        let names: Vec<String> = catalog.iter().map(|tensor| tensor.name().to_owned()).collect();
        for in_place in [true, false] {
            let path = scratch(&format!("index-{in_place}-{name}"));
            fs::write(&path, &before).unwrap();
            assert_eq!(edit(&path, &HeaderChanges::default(), in_place).unwrap().method, Method::Unchanged);
            let changes = HeaderChanges {
                set: vec![set("n", 5)],
                rename: vec![(names[0].clone(), names[1].clone()), (names[1].clone(), names[0].clone())],
                drop: vec![names[2].clone()],
                ..Default::default()
            };
            let Edited { length, method, .. } = edit(&path, &changes, in_place).unwrap();
            let after = fs::read(&path).unwrap();
            assert_eq!(length, after.len() as u64);
            assert_eq!(method == Method::InPlace, in_place);
            let edited = detect::parse(&after.as_slice(), Formats::default(), &Limits::default()).unwrap();
            let attributes = edited.attributes.values().unwrap().into_owned();
            assert!(attributes.contains(&(Value::from("n"), Value::from(5))));
            assert_eq!(edited.len(), names.len() - 1);
            let offset = |catalog: &ztensor_core::model::Catalog, name: &str| {
                let ordinal = catalog.find(name).unwrap();
                catalog.tensor(ordinal).unwrap().components()[0].offset()
            };
            assert_eq!(offset(&edited, &names[0]), offset(&catalog, &names[1]));
            assert_eq!(offset(&edited, &names[1]), offset(&catalog, &names[0]));
            // The same once more changes nothing.
            let again = HeaderChanges { set: vec![set("n", 5)], ..Default::default() };
            assert_eq!(edit(&path, &again, in_place).unwrap().method, Method::Unchanged);
            assert_eq!(
                edit(&path, &HeaderChanges { remove: strings(&["m"]), ..Default::default() }, in_place)
                    .unwrap_err()
                    .code(),
                Code::NotFound
            );
        }
    }
    let btf = format!("{}/../../__test__/fixtures/btf-dense.btf", env!("CARGO_MANIFEST_DIR"));
    let path = scratch("index-btf");
    fs::copy(btf, &path).unwrap();
    let error = edit(&path, &HeaderChanges::default(), false).unwrap_err();
    assert!(error.code() == Code::InvalidArg && error.message().contains("cannot be edited"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(300)))]

    #[test]
    fn any_edit_leaves_what_the_reference_reads(
        lengths in proptest::collection::vec(0_usize..40, 0..8),
        fates in proptest::collection::vec(0_u8..4, 8),
        metadata in proptest::collection::btree_map("[a-e]", ".{0,6}", 0..4),
        set_to in proptest::collection::btree_map("[a-g]", ".{0,9}", 0..4),
        long in 0_usize..6000,
        in_place: bool,
    ) {
        let path = scratch("any");
        let tensors: Tensors = lengths
            .iter()
            .enumerate()
            .map(|(at, &length)| (format!("t{at}"), vec![u8::try_from(at).unwrap(); length]))
            .collect();
        let old: Vec<(&str, &str)> = metadata.iter().map(|(key, value)| (&**key, &**value)).collect();
        fs::write(&path, bytes_of(&tensors, &old)).unwrap();
        let mut changes = HeaderChanges::default();
        let (mut wanted, mut texts) = (Tensors::new(), metadata.clone());
        for ((name, data), fate) in tensors.iter().zip(fates) {
            match fate {
                0 => changes.drop.push(name.clone()),
                1 => {
                    let new = format!("{name}{}", "n".repeat(long / 8));
                    wanted.insert(new.clone(), data.clone());
                    changes.rename.push((name.clone(), new));
                }
                _ => drop(wanted.insert(name.clone(), data.clone())),
            }
        }
        for (key, value) in &set_to {
            if value.len() % 3 == 0 && metadata.contains_key(key) {
                changes.remove.push(key.clone());
                texts.remove(key);
            } else {
                let value = value.repeat(long / 9);
                changes.set.push(set(key, &*value));
                texts.insert(key.clone(), value);
            }
        }
        edit(&path, &changes, in_place).unwrap();
        let bytes = fs::read(&path).unwrap();
        prop_assert_eq!(reference(&bytes), (wanted, texts));
        prop_assert_eq!(edit(&path, &HeaderChanges::default(), in_place).unwrap().method, Method::Unchanged);
        prop_assert!(fs::read(&path).unwrap() == bytes);
    }

    #[test]
    fn damaged_headers_are_edited_or_rejected(
        hits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        in_place: bool,
    ) {
        let path = scratch("damaged");
        let mut bytes = bytes_of(&sample(), &[("one", "1"), ("two", "2")]);
        for (at, value) in hits {
            let at = at.index(bytes.len() - 5107);
            bytes[at] = value;
        }
        fs::write(&path, &bytes).unwrap();
        let changes = HeaderChanges { set: vec![set("three", "3")], ..Default::default() };
        match edit(&path, &changes, in_place) {
            Ok(_) => {
                let edited = fs::read(&path).unwrap();
                detect::parse(&edited.as_slice(), Formats::default(), &Limits::default()).unwrap();
            }
            Err(_) => prop_assert!(fs::read(&path).unwrap() == bytes),
        }
    }
}
