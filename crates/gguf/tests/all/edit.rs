//! Edits of GGUF files of every version and byte order.

use std::fs;
use std::path::{Path, PathBuf};

use ciborium::Value;
use proptest::prelude::*;
use ztensor_core::edit::metadata::{Edited, Editing, edit_metadata};
use ztensor_core::error::{Code, Error};
use ztensor_core::formats::{CORE, Formats, HeaderChanges, Setting};
use ztensor_core::limits::Limits;
use ztensor_core::model::{Catalog, Entries};
use ztensor_core::open::Request;
use ztensor_core::open::detect;
use ztensor_core::sinks::header_rewrite::Method;
use ztensor_core::work::Watch;
use ztensor_gguf::GGUF;

use crate::cases::cases;

const FORMATS: Formats = Formats::of(&[CORE, GGUF]);

fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("ztensor-gguf-edit-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder.join("file.gguf")
}

fn edit(path: &Path, changes: &HeaderChanges, in_place: bool) -> Result<Edited, Error> {
    let how = Editing { in_place, formats: FORMATS, limits: Limits::default() };
    edit_metadata(path, changes, &how, &Watch::default())
}

fn set(key: &str, value: impl Into<Value>) -> Setting {
    Setting { key: key.to_owned(), value: value.into(), kind: None, text: None }
}

fn typed(key: &str, kind: &str, value: impl Into<Value>) -> Setting {
    Setting { kind: Some(kind.to_owned()), ..set(key, value) }
}

fn setting(settings: &[Setting]) -> HeaderChanges {
    HeaderChanges { set: settings.to_vec(), ..Default::default() }
}

fn removing(keys: &[&str]) -> HeaderChanges {
    HeaderChanges { remove: keys.iter().map(|&key| key.to_owned()).collect(), ..Default::default() }
}

fn dropping(names: &[&str]) -> HeaderChanges {
    HeaderChanges { drop: names.iter().map(|&name| name.to_owned()).collect(), ..Default::default() }
}

fn renaming(old: &str, new: &str) -> HeaderChanges {
    HeaderChanges { rename: vec![(old.to_owned(), new.to_owned())], ..Default::default() }
}

fn parse(bytes: &[u8]) -> Catalog {
    detect::parse_alone(&bytes, &Request { formats: FORMATS, ..Request::default() }).unwrap()
}

fn metadata(bytes: &[u8]) -> Entries {
    parse(bytes).attributes.values().unwrap().into_owned()
}

/// The name, the shape and the bytes of each tensor.
fn tensors(bytes: &[u8]) -> Vec<(String, Vec<u64>, Vec<u8>)> {
    let held = |offset: u64, length: u64| {
        bytes[usize::try_from(offset).unwrap()..usize::try_from(offset + length).unwrap()].to_vec()
    };
    let of = |tensor: ztensor_core::model::Tensor<'_>| {
        let data = &tensor.components()[0];
        (tensor.name().to_owned(), tensor.shape().to_vec(), held(data.offset(), data.stored_length()))
    };
    parse(bytes).iter().map(of).collect()
}

/// Writes a file by hand.
#[derive(Clone)]
struct File {
    version: u32,
    big: bool,
    alignment: usize,
    /// Each key, its type and its encoded value.
    pairs: Vec<(&'static str, u32, Vec<u8>)>,
    /// Each name and the number of bytes, all of which are that of its position.
    tensors: Vec<(&'static str, usize)>,
}

impl File {
    fn number(&self, value: u64, width: usize) -> Vec<u8> {
        if self.big {
            value.to_be_bytes()[8 - width..].to_vec()
        } else {
            value.to_le_bytes()[..width].to_vec()
        }
    }

    fn count(&self, value: usize) -> Vec<u8> {
        self.number(value as u64, if self.version == 1 { 4 } else { 8 })
    }

    fn text(&self, text: &str) -> Vec<u8> {
        [self.count(text.len()), text.as_bytes().to_vec()].concat()
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = [b"GGUF".to_vec(), self.number(self.version.into(), 4)].concat();
        bytes.extend(self.count(self.tensors.len()));
        bytes.extend(self.count(self.pairs.len()));
        for (key, kind, value) in &self.pairs {
            bytes.extend([self.text(key), self.number((*kind).into(), 4), value.clone()].concat());
        }
        let mut data = Vec::new();
        for (at, &(name, length)) in self.tensors.iter().enumerate() {
            bytes.extend(
                [self.text(name), self.number(1, 4), self.count(length), self.number(24, 4)].concat(),
            );
            bytes.extend(self.number(data.len() as u64, 8));
            data.extend(vec![u8::try_from(at + 1).unwrap(); length]);
            data.resize(data.len().next_multiple_of(self.alignment), 0);
        }
        bytes.resize(bytes.len().next_multiple_of(self.alignment), 0);
        [bytes, data].concat()
    }
}

fn sample(version: u32, big: bool) -> File {
    let mut file = File {
        version,
        big,
        alignment: 32,
        pairs: vec![],
        tensors: vec![("a", 100), ("b", 0), ("c", 5000), ("d", 7)],
    };
    file.pairs = vec![
        ("general.name", 8, file.text("sample")),
        ("count", 4, file.number(5, 4)),
        ("ratio", 6, file.number(1.5_f32.to_bits().into(), 4)),
        ("wide", 10, file.number(6, 8)),
        ("flag", 7, vec![1]),
        ("items", 9, [file.number(2, 4), file.count(2), file.number(7, 2), file.number(8, 2)].concat()),
    ];
    file
}

/// Returns the types by key: of arrays, that of their items and 100.
fn kinds(file: &File, bytes: &[u8]) -> Vec<(String, u64)> {
    let number = |at: usize, width: usize| {
        let bytes = &bytes[at..at + width];
        let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        if file.big { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) }
    };
    let wide = if file.version == 1 { 4 } else { 8 };
    let count = |at: usize| usize::try_from(number(at, wide)).unwrap();
    let mut at = 8 + 2 * wide;
    let mut found = Vec::new();
    for _ in 0..count(8 + wide) {
        let length = count(at);
        let key = String::from_utf8(bytes[at + wide..at + wide + length].to_vec()).unwrap();
        at += wide + length;
        let width = |kind: u64| [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8][usize::try_from(kind).unwrap()];
        let mut kind = number(at, 4);
        at += 4;
        let items = if kind == 9 {
            kind = number(at, 4);
            at += 4 + wide;
            found.push((key, kind + 100));
            count(at - wide)
        } else {
            found.push((key, kind));
            1
        };
        for _ in 0..items {
            at += if kind == 8 { wide + count(at) } else { width(kind) };
        }
    }
    found
}

const KINDS: [(u32, bool); 5] = [(1, false), (2, false), (3, false), (2, true), (3, true)];

#[test]
fn every_version_and_byte_order_is_edited() {
    for (version, big) in KINDS {
        for in_place in [true, false] {
            let file = sample(version, big);
            let path = scratch(&format!("every-{version}-{big}-{in_place}"));
            let before = file.bytes();
            fs::write(&path, &before).unwrap();
            let edited = |changes: &HeaderChanges| {
                let Edited { length, method, .. } = edit(&path, changes, in_place).unwrap();
                let bytes = fs::read(&path).unwrap();
                assert_eq!(length, bytes.len() as u64);
                assert_eq!(parse(&bytes).version.as_deref(), Some(&*version.to_string()));
                (bytes, if method == Method::Cloned { Method::Copied } else { method })
            };
            let in_file = if in_place { Method::InPlace } else { Method::Copied };
            let (bytes, method) = edited(&HeaderChanges::default());
            assert!(method == Method::Unchanged && bytes == before);
            let (bytes, method) = edited(&setting(&[set("count", 5), set("general.name", "sample")]));
            assert!(method == Method::Unchanged && bytes == before);

            let (bytes, method) = edited(&setting(&[set("count", 6), set("general.name", "sampel")]));
            assert_eq!((bytes.len(), method), (before.len(), in_file));
            assert_eq!(tensors(&bytes), tensors(&before));
            assert_eq!(
                metadata(&bytes)[..2],
                [("general.name".into(), "sampel".into()), ("count".into(), 6.into())]
            );

            let (bytes, method) = edited(&removing(&["items", "general.name"]));
            assert_eq!((bytes.len(), method), (before.len(), in_file));
            assert_eq!(tensors(&bytes), tensors(&before));
            let keys: Vec<Value> = metadata(&bytes).into_iter().map(|(key, _)| key).collect();
            assert_eq!(
                keys,
                ["count", "ratio", "wide", "flag"].map(Value::from),
                "the padding is not listed"
            );
            assert_eq!(kinds(&file, &bytes).last().unwrap().0, "ztensor.padding");

            let long = "x".repeat(5000);
            let (bytes, method) = edited(&setting(&[set("template", &*long)]));
            assert!(method == Method::Copied || in_place && method == Method::Inserted, "{method:?}");
            assert_eq!(tensors(&bytes), tensors(&before));
            assert_eq!(metadata(&bytes).last().unwrap(), &("template".into(), (*long).into()));
            let longer = "y".repeat(5100);
            let (_, method) = edited(&setting(&[set("template", &*longer)]));
            assert_eq!(method, in_file, "the padding makes way");

            let (bytes, method) = edited(&renaming("c", "blk.0.c"));
            assert_eq!(method, in_file);
            let mut wanted = tensors(&before);
            wanted[2].0 = "blk.0.c".to_owned();
            assert_eq!(tensors(&bytes), wanted);

            let (bytes, method) = edited(&dropping(&["a"]));
            assert_eq!(method, Method::Copied);
            wanted.remove(0);
            assert_eq!(tensors(&bytes), wanted);
            assert_eq!(parse(&bytes).warnings.len(), 0);
            let (bytes, method) = edited(&dropping(&["d", "b"]));
            assert_eq!(method, in_file);
            assert_eq!(tensors(&bytes), [wanted[1].clone()]);
            let (bytes, _) = edited(&dropping(&["blk.0.c"]));
            assert_eq!(tensors(&bytes), []);
            let (bytes, _) = edited(&setting(&[set("count", 7)]));
            assert_eq!(metadata(&bytes)[0], ("count".into(), 7.into()));
        }
    }
}

#[test]
fn values_get_the_old_type_or_an_inferred_one_or_the_requested_one() {
    let list = |items: &[i64]| Value::Array(items.iter().map(|&item| item.into()).collect());
    for (version, big) in KINDS {
        let file = sample(version, big);
        let path = scratch(&format!("types-{version}-{big}"));
        for (one, kind, read) in [
            // The old type, if the value fits.
            (set("count", 7), 4, None),
            (set("wide", 7), 10, None),
            (set("ratio", 7), 6, Some(Value::from(7.0))),
            (set("flag", false), 7, None),
            (set("items", list(&[1, 2, 65535])), 102, None),
            (set("items", list(&[])), 102, None),
            (set("general.name", Value::Bytes(vec![0xff])), 8, None),
            // Otherwise inferred.
            (set("count", -7), 5, None),
            (set("count", 1.5), 6, None),
            (set("items", list(&[1, -2])), 105, None),
            (set("items", 3), 5, None),
            (set("count", "text"), 8, None),
            (set("flag", 1), 5, None),
            (set("new", 2_147_483_647), 5, None),
            (set("new", 2_147_483_648_i64), 4, None),
            (set("new", 4_294_967_296_i64), 11, None),
            (set("new", u64::MAX), 10, None),
            (set("new", 0.25), 6, None),
            (set("new", 1e300), 12, None),
            (set("new", f64::INFINITY), 6, None),
            (set("new", true), 7, None),
            (set("new", Value::Array(vec!["a".into(), "b".into()])), 108, None),
            (
                set("new", Value::Array(vec![1.into(), 2.5.into()])),
                106,
                Some(Value::Array(vec![1.0.into(), 2.5.into()])),
            ),
            // Requested.
            (typed("new", "uint8", 255), 0, None),
            (typed("count", "int64", -5), 11, None),
            (typed("new", "float64", 3), 12, Some(Value::from(3.0))),
            (typed("new", "string", Value::Array(vec![])), 108, None),
            (typed("new", "int8", list(&[-128, 127])), 101, None),
        ] {
            fs::write(&path, file.bytes()).unwrap();
            edit(&path, &setting(std::slice::from_ref(&one)), false).unwrap();
            let bytes = fs::read(&path).unwrap();
            let (key, value) = (Value::from(&*one.key), read.unwrap_or(one.value));
            let found = metadata(&bytes).into_iter().find(|(known, _)| *known == key).unwrap();
            assert_eq!(found.1, value, "{key:?}");
            let kinds = kinds(&file, &bytes);
            assert_eq!(
                kinds.iter().find(|(known, _)| *known == one.key).unwrap().1,
                kind,
                "{key:?} {value:?}"
            );
        }
    }
}

#[test]
fn what_cannot_be_done_leaves_the_file() {
    let path = scratch("refused");
    let bytes = sample(3, false).bytes();
    let nested = Value::Array(vec![Value::Array(vec![1.into()])]);
    let mixed = Value::Array(vec![1.into(), "a".into()]);
    for (changes, code, message) in [
        (removing(&["general"]), Code::NotFound, "no key \"general\""),
        (removing(&["ztensor.padding"]), Code::InvalidArg, "is reserved"),
        (setting(&[set("ztensor.padding", "")]), Code::InvalidArg, "is reserved"),
        (setting(&[set("split.count", 1)]), Code::InvalidArg, "a single file"),
        (setting(&[set("general.alignment", 64)]), Code::InvalidArg, "cannot be changed"),
        (setting(&[set("", 1)]), Code::InvalidArg, "1 to 65535 bytes"),
        (setting(&[set(&"k".repeat(65_536), 1)]), Code::InvalidArg, "1 to 65535 bytes"),
        (setting(&[set("new", Value::Array(vec![]))]), Code::InvalidArg, "an empty array has no type"),
        (setting(&[set("new", nested)]), Code::InvalidArg, "do not nest"),
        (setting(&[set("new", mixed)]), Code::InvalidArg, "must have one type"),
        (setting(&[set("new", Value::Null)]), Code::InvalidArg, "GGUF has text"),
        (setting(&[typed("new", "uint8", 256)]), Code::InvalidArg, "does not fit the type uint8"),
        (setting(&[typed("new", "float32", 1e300)]), Code::InvalidArg, "does not fit the type float32"),
        (setting(&[typed("new", "uint128", 1)]), Code::InvalidArg, "the types are uint8, int8"),
        (renaming("a", "c"), Code::BadIndex, "has this name already"),
        (renaming("a", &"n".repeat(64)), Code::InvalidArg, "names of at most 63"),
        (dropping(&["x"]), Code::NotFound, "no such tensor"),
    ] {
        for in_place in [true, false] {
            fs::write(&path, &bytes).unwrap();
            let error = edit(&path, &changes, in_place).unwrap_err();
            assert!(error.code() == code && error.to_string().contains(message), "{error}");
            assert!(fs::read(&path).unwrap() == bytes);
        }
    }
    fs::write(&path, &bytes).unwrap();
    edit(&path, &setting(&[set("general.alignment", 32)]), true).unwrap();
    edit(&path, &removing(&["general.alignment"]), true).unwrap();
    edit(&path, &renaming("a", &"n".repeat(63)), true).unwrap();
    assert_eq!(tensors(&fs::read(&path).unwrap())[1..], tensors(&bytes)[1..]);
}

#[test]
fn a_header_that_shrinks_by_less_than_a_padding_key_moves_the_data() {
    let path = scratch("gap");
    let mut file = sample(3, false);
    file.alignment = 8;
    file.tensors = vec![("a", 8), ("b", 8)];
    file.pairs.push(("general.alignment", 4, file.number(8, 4)));
    file.pairs.push(("text", 8, file.text(&"x".repeat(44))));
    let bytes = file.bytes();
    for (length, moves) in [(44, false), (28, true), (4, false)] {
        fs::write(&path, &bytes).unwrap();
        edit(&path, &setting(&[set("text", "y".repeat(length))]), false).unwrap();
        let edited = fs::read(&path).unwrap();
        assert_eq!(tensors(&edited), tensors(&bytes), "{length}");
        assert_eq!(edited.len() > bytes.len(), moves, "{length}");
    }
}

#[test]
fn files_of_a_set_keep_what_makes_them_a_set() {
    let part = |number: u64| {
        let mut file = sample(3, false);
        file.pairs.push(("split.no", 2, file.number(number, 2)));
        file.pairs.push(("split.count", 2, file.number(3, 2)));
        file.bytes()
    };
    let path = scratch("set");
    for (number, changes, message) in [
        (0, dropping(&["a"]), Some("convert it to drop some")),
        (0, removing(&["split.no"]), Some("split.* cannot be changed")),
        (0, setting(&[set("split.count", 2)]), Some("split.* cannot be changed")),
        (0, setting(&[set("count", 7)]), None),
        (0, renaming("a", "x"), None),
        (1, setting(&[set("count", 7)]), Some("this is file 2 of 3 of a set: edit its first file")),
        (1, renaming("a", "x"), None),
    ] {
        fs::write(&path, part(number)).unwrap();
        let done = edit(&path, &changes, false);
        match message {
            None => drop(done.unwrap()),
            Some(message) => {
                let error = done.unwrap_err();
                assert!(error.code() == Code::InvalidArg && error.to_string().contains(message), "{error}");
            }
        }
    }
}

/// The bytes of a padding key without spaces in version 3: its length and name, its type, and the length of its value.
const PADDING_KEY: usize = 8 + "ztensor.padding".len() + 4 + 8;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(300)))]

    #[test]
    fn any_edit_keeps_the_tensors(
        alignment in proptest::sample::select(vec![8_usize, 32, 64, 4096, 65_536]),
        lengths in proptest::collection::vec(0_usize..100, 0..5),
        drops in proptest::collection::vec(any::<bool>(), 5),
        text in 0_usize..9000,
        in_place: bool,
    ) {
        let path = scratch("any");
        let names = ["t0", "t1", "t2", "t3", "t4"];
        let mut file = sample(3, false);
        file.alignment = alignment;
        file.tensors = names.into_iter().zip(lengths).collect();
        if alignment != 32 {
            file.pairs.push(("general.alignment", 4, file.number(alignment as u64, 4)));
        }
        let before = file.bytes();
        fs::write(&path, &before).unwrap();
        let mut changes = setting(&[set("text", "x".repeat(text))]);
        let mut wanted = tensors(&before);
        for (at, &(name, _)) in file.tensors.iter().enumerate() {
            if drops[at] {
                changes.drop.push(name.to_owned());
                wanted.retain(|(known, ..)| known != name);
            }
        }
        edit(&path, &changes, in_place).unwrap();
        let bytes = fs::read(&path).unwrap();
        prop_assert_eq!(tensors(&bytes), wanted.clone());
        // Each tensor follows the one before, as llama.cpp expects.
        let catalog = parse(&bytes);
        let mut expected = None;
        for tensor in catalog.iter() {
            let data = &tensor.components()[0];
            prop_assert_eq!(data.offset(), expected.unwrap_or(data.offset()));
            prop_assert_eq!(data.offset() % alignment as u64, 0);
            expected = Some(data.offset() + data.stored_length().next_multiple_of(alignment as u64));
        }
        let again = setting(&[set("text", "y".repeat(text / 2))]);
        let method = edit(&path, &again, in_place).unwrap().method;
        // Only a gap that is shorter than a padding key cannot be filled.
        let is_padded = bytes.windows(15).any(|part| part == b"ztensor.padding");
        if text == 0 {
            prop_assert_eq!(method, Method::Unchanged);
        } else if is_padded || text - text / 2 >= PADDING_KEY {
            prop_assert!(method != Method::Inserted && (in_place == (method == Method::InPlace)), "{method:?}");
        }
        prop_assert_eq!(tensors(&fs::read(&path).unwrap()), wanted);
    }

    #[test]
    fn damaged_files_are_edited_or_rejected(
        file in 0..KINDS.len(),
        hits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        in_place: bool,
    ) {
        let path = scratch("damaged");
        let (version, big) = KINDS[file];
        let mut bytes = sample(version, big).bytes();
        for (at, value) in hits {
            let at = at.index(400);
            bytes[at] = value;
        }
        fs::write(&path, &bytes).unwrap();
        let changes = HeaderChanges { rename: vec![("a".to_owned(), "renamed".to_owned())], ..setting(&[set("new", 3)]) };
        match edit(&path, &changes, in_place) {
            Ok(_) => prop_assert!(!tensors(&fs::read(&path).unwrap()).is_empty()),
            Err(_) => prop_assert!(fs::read(&path).unwrap() == bytes),
        }
    }
}
