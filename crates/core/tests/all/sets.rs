//! Tensors written to several files, in another order, or added to an existing file are read back.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ztensor_core::codecs::digest::Algorithm;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::Formats;
use ztensor_core::limits::Limits;
use ztensor_core::model::{Attributes, ByteOrder, Catalog, Component, DType, Encoding, Shard};
use ztensor_core::open::detect;
use ztensor_core::open::{self, Lookup, Request};
use ztensor_core::read::Reading;
use ztensor_core::sources::ReadAt;
use ztensor_core::sources::file::FileSource;
use ztensor_core::verify;
use ztensor_core::work::{Stop, Watch};
use ztensor_core::write::shards::whole_digest;
use ztensor_core::write::{Appending, Compression, Hashing, Settings, Spec, WriteFormat, Writer};

use crate::settings::settings;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("ztensor-sets-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn sharded(format: &'static WriteFormat, largest: u64) -> Settings {
    Settings { max_shard: Some(largest), digest: Some(Algorithm::Xxh3), ..settings(format) }
}

fn canonical() -> Settings {
    Settings {
        canonical: true,
        alignment: 1 << 16,
        digest: Some(Algorithm::Xxh3),
        ..settings(WriteFormat::ZT2)
    }
}

/// Bytes that no other count or start gives.
fn numbers(start: u8, count: usize) -> Vec<u8> {
    (0..count).map(|at| start.wrapping_add((at % 251).to_le_bytes()[0])).collect()
}

fn add(writer: &mut Writer, name: &str, bytes: &[u8]) -> Result<()> {
    let components = [("data", Some(DType::Uint8), bytes.len() as u64)];
    let shape = [bytes.len() as u64];
    let (layout, dtype, attributes) = ("dense", Some(DType::Uint8), None);
    let spec = Spec { name, shape: &shape, layout, dtype, attributes, components: &components };
    writer.add(spec, bytes)
}

fn write(path: &Path, settings: Settings, tensors: &[(&str, Vec<u8>)]) {
    let mut writer = Writer::create(path, settings).unwrap();
    for (name, bytes) in tensors {
        add(&mut writer, name, bytes).unwrap();
        writer.flush_if_full().unwrap();
    }
    assert_eq!(writer.finish().unwrap().warnings, []);
}

fn code<T>(result: Result<T>) -> Option<Code> {
    result.err().map(|error| error.code())
}

/// All tensors and their bytes, verified, and the catalog.
fn opened(path: &Path, lookup: Lookup) -> (BTreeMap<String, Vec<u8>>, Catalog) {
    let opened = open::open(path, &Request { lookup, ..Request::default() }).unwrap();
    let (limits, watch) = (Limits::default(), Watch::default());
    let reading =
        Reading { sources: &opened.files, catalog: &opened.catalog, limits: &limits, watch: &watch };
    let ordinals: Vec<u32> = (0..).take(opened.catalog.len()).collect();
    let outcome = verify::verify(reading, &ordinals).unwrap();
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    let bytes = opened.catalog.iter().map(|tensor| {
        let bytes = reading.component(tensor, tensor.data().unwrap()).unwrap().to_vec();
        (tensor.name().to_owned(), bytes)
    });
    (bytes.collect(), opened.catalog)
}

fn read(path: &Path) -> BTreeMap<String, Vec<u8>> {
    opened(path, Lookup::Siblings).0
}

fn map(tensors: &[(&str, Vec<u8>)]) -> BTreeMap<String, Vec<u8>> {
    tensors.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone())).collect()
}

fn five() -> Vec<(&'static str, Vec<u8>)> {
    ["a", "b", "c", "d", "e"].into_iter().zip(1..).map(|(name, at)| (name, numbers(at, 6000))).collect()
}

#[test]
fn new_shards_avoid_the_names_of_the_old_root() {
    let folder = Folder::new("rounds");
    let root = folder.path("m.zt");
    let largest = 4096 + 2 * 8192;
    write(&root, sharded(WriteFormat::ZT2, largest), &five());
    let first = ["m-00001-of-00003.zt", "m-00002-of-00003.zt", "m-00003-of-00003.zt", "m.zt"];
    assert_eq!(folder.names(), first);
    assert_eq!(read(&root), map(&five()));
    assert!(folder.names()[..3].iter().all(|name| folder.path(name).metadata().unwrap().len() <= largest));
    // The old ones go when the new root is there.
    write(&root, sharded(WriteFormat::ZT2, largest), &five()[1..4]);
    assert_eq!(folder.names(), ["m-2-00001-of-00002.zt", "m-2-00002-of-00002.zt", "m.zt"]);
    assert_eq!(read(&root), map(&five()[1..4]));
    // One that is named by another root stays, and so does what is no data shard.
    fs::copy(&root, folder.path("n.zt")).unwrap();
    write(&root, sharded(WriteFormat::ZT2, largest), &five());
    assert_eq!(folder.names().len(), 1 + 3 + 2 + 1);
    assert_eq!(read(&root), map(&five()));
    let at = |name: &str| (name.to_owned(), folder.path(&format!("m-{name}.zt")));
    let old = Lookup::At([at("2-00001-of-00002"), at("2-00002-of-00002")].into());
    assert_eq!(opened(&folder.path("n.zt"), old).0, map(&five()[1..4]));
    fs::write(folder.path("m-00001-of-00003.zt"), b"another program's").unwrap();
    write(&root, sharded(WriteFormat::ZT2, 1 << 20), &five()[..1]);
    let left = ["m-00001-of-00003.zt", "m-2-00001-of-00002.zt", "m-2-00002-of-00002.zt", "m.zt", "n.zt"];
    assert_eq!(folder.names(), left);
}

#[test]
fn a_single_shard_becomes_the_root() {
    let folder = Folder::new("one");
    let root = folder.path("m.zt");
    write(&root, sharded(WriteFormat::ZT2, 1 << 20), &five());
    assert_eq!(folder.names(), ["m.zt"]);
    assert_eq!(read(&root), map(&five()));
    write(&root, sharded(WriteFormat::ZT2, 1 << 20), &[]);
    assert_eq!((folder.names().len(), read(&root).len()), (1, 0));
}

/// A file, its catalog, and how a root names it.
fn base(path: &Path, name: &str) -> (Catalog, Shard) {
    let source = FileSource::open(path).unwrap();
    let catalog = detect::parse(&source, Formats::default(), &Limits::default()).unwrap();
    let digest = whole_digest(&source, Algorithm::Xxh3, &Watch::default()).unwrap();
    (catalog, Shard { name: name.into(), size: source.length(), digest })
}

#[test]
fn tensors_of_other_files_are_linked() {
    let folder = Folder::new("links");
    let [one, two] = ["one.zt", "two.zt"].map(|name| folder.path(name));
    write(&one, Settings { digest: Some(Algorithm::Xxh3), ..settings(WriteFormat::ZT2) }, &five());
    write(&two, settings(WriteFormat::ZT2), &[("z", numbers(9, 5 << 20))]);
    let ((a, shard_a), (z, shard_z)) = (base(&one, "one"), base(&two, "two"));
    let own = numbers(77, 6000);
    for (largest, files) in [(None, 2), (Some(1 << 20), 2), (Some(4096 + 8192), 4)] {
        let root = folder.path("root.zt");
        let settings =
            Settings { max_shard: largest, digest: Some(Algorithm::Xxh3), ..settings(WriteFormat::ZT2) };
        let mut writer = Writer::create(&root, settings).unwrap();
        writer.link("b", a.tensor(1).unwrap(), &a, shard_a.clone()).unwrap();
        add(&mut writer, "own", &own).unwrap();
        writer.link("z", z.tensor(0).unwrap(), &z, shard_z.clone()).unwrap();
        writer.link("again", a.tensor(2).unwrap(), &a, shard_a.clone()).unwrap();
        add(&mut writer, "too", &own).unwrap();
        writer.finish().unwrap();
        let at = [("one".to_owned(), one.clone()), ("two".to_owned(), two.clone())];
        let (found, catalog) = opened(&root, Lookup::At(at.into()));
        let (b, again, z) = (five()[1].1.clone(), five()[2].1.clone(), numbers(9, 5 << 20));
        let expected = [("b", b), ("again", again), ("z", z), ("own", own.clone()), ("too", own.clone())];
        assert_eq!(found, map(&expected), "{largest:?}");
        assert_eq!(catalog.shards.len(), files);
    }
}

#[test]
fn invalid_links_are_rejected() {
    let folder = Folder::new("unlinked");
    let [one, old] = ["one.zt", "old.zt"].map(|name| folder.path(name));
    write(&one, settings(WriteFormat::ZT2), &five());
    write(&old, settings(WriteFormat::ZT10), &five());
    let ((a, shard), (o, _)) = (base(&one, "one"), base(&old, "old"));
    let tensor = a.tensor(0).unwrap();
    let part = &tensor.components()[0];
    let mut writer = Writer::create(&folder.path("root.zt"), settings(WriteFormat::ZT2)).unwrap();
    add(&mut writer, "own", &[1]).unwrap();
    let sized = |size| Shard { size, ..shard.clone() };
    let end = part.offset() + part.stored_length() + 40;
    assert_eq!(code(writer.link("own", tensor, &a, shard.clone())), Some(Code::BadIndex));
    assert_eq!(code(writer.link("x", o.tensor(0).unwrap(), &o, shard.clone())), Some(Code::InvalidArg));
    assert_eq!(code(writer.link("x", tensor, &a, sized(end - 1))), Some(Code::OutOfBounds));
    let named = Shard { name: ".x".into(), ..shard.clone() };
    assert_eq!(code(writer.link("x", tensor, &a, named)), Some(Code::BadIndex));
    writer.link("x", tensor, &a, sized(end)).unwrap();
    assert_eq!(code(writer.link("y", tensor, &a, shard.clone())), Some(Code::InvalidArg), "another file");
    let (mut moved, _) = base(&one, "one");
    for (change, refused) in [(1, Code::OutOfBounds), (2, Code::InvalidArg), (3, Code::UnsupportedEncoding)] {
        for blob in moved.components_mut().iter_mut().filter_map(Component::blob_mut) {
            match change {
                1 => blob.offset += 1,
                2 => (blob.offset, blob.file) = (blob.offset - 1, 1),
                _ => (blob.encoding, blob.file) = (Encoding::ZSTD, 0),
            }
        }
        assert_eq!(code(writer.link("w", moved.tensor(0).unwrap(), &moved, sized(end))), Some(refused));
    }
    for (dtype, byte_order) in [(None, ByteOrder::Little), (Some(DType::Uint8), ByteOrder::Big)] {
        let (mut other, _) = base(&one, "one");
        for part in other.components_mut() {
            (part.dtype, part.byte_order) = (dtype, byte_order);
        }
        let refused = code(writer.link("w", other.tensor(0).unwrap(), &other, sized(end)));
        assert_eq!(refused, Some(Code::UnsupportedEncoding), "{dtype:?} {byte_order:?}");
    }
    drop(writer);
    for settings in [canonical(), settings(WriteFormat::ZT10)] {
        let mut writer = Writer::create(&folder.path("root.zt"), settings).unwrap();
        assert_eq!(code(writer.link("x", tensor, &a, shard.clone())), Some(Code::InvalidArg));
    }
    // A linked file that is called as a shard of the root's own.
    let mut writer = Writer::create(&folder.path("root.zt"), sharded(WriteFormat::ZT2, 8192)).unwrap();
    let own = Shard { name: "00001-of-00002".into(), ..shard.clone() };
    writer.link("x", tensor, &a, own).unwrap();
    add(&mut writer, "p", &numbers(1, 6000)).unwrap();
    add(&mut writer, "q", &numbers(2, 6000)).unwrap();
    assert_eq!(code(writer.finish()), Some(Code::InvalidArg));
}

#[test]
fn a_canonical_file_does_not_depend_on_the_order_of_its_tensors() {
    let folder = Folder::new("canonical");
    let long = numbers(5, (4 << 20) + 70_000);
    let mut other = long.clone();
    *other.last_mut().unwrap() ^= 1;
    let ordered = [
        ("a", numbers(1, 70_000)),
        ("b", long.clone()),
        ("c", Vec::new()),
        ("d", other),
        ("e", numbers(1, 70_000)),
        ("f", long),
        ("g", vec![7]),
        ("h", Vec::new()),
    ];
    let path = folder.path("a.zt");
    write(&path, canonical(), &ordered);
    assert_eq!(read(&path), map(&ordered));
    let expected = fs::read(&path).unwrap();
    // Each content is there once.
    assert!(expected.len() < (9 << 20) + 5 * 70_000);
    for order in [[7, 6, 5, 4, 3, 2, 1, 0], [1, 0, 3, 2, 5, 4, 7, 6], [0, 1, 2, 3, 4, 6, 5, 7]] {
        write(&path, canonical(), &order.map(|at: usize| ordered[at].clone()));
        assert!(fs::read(&path).unwrap() == expected, "{order:?}");
    }
    // Without any twice, too.
    let single = &ordered[..4];
    write(&path, canonical(), single);
    let expected = fs::read(&path).unwrap();
    write(&path, canonical(), &[3, 0, 2, 1].map(|at: usize| single[at].clone()));
    assert!(fs::read(&path).unwrap() == expected);
    let (xxh3, sha256) = (Some(Algorithm::Xxh3), Some(Algorithm::Sha256));
    for (alignment, digest, largest, compressed, refused) in [
        (1 << 16, xxh3, None, false, false),
        (1 << 12, xxh3, None, false, true),
        (1 << 16, sha256, None, false, true),
        (1 << 16, None, None, false, true),
        (1 << 16, xxh3, Some(1 << 20), false, true),
        (1 << 16, xxh3, None, true, true),
    ] {
        let compression =
            compressed.then_some(Compression { level: 3, min_savings: 0.1, threads: 1, frame: 1 << 20 });
        let settings = Settings { alignment, digest, max_shard: largest, compression, ..canonical() };
        assert_eq!(code(Writer::create(&path, settings)), refused.then_some(Code::InvalidArg));
    }
    for alignment in [0, 64, 4095, 4097] {
        let settings = Settings { alignment, ..settings(WriteFormat::ZT2) };
        assert_eq!(code(Writer::create(&path, settings)), Some(Code::InvalidArg), "{alignment}");
    }
}

/// Bytes that nothing makes shorter.
fn noise(count: usize) -> Vec<u8> {
    let mut seed = 1_u32;
    let mut next = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        seed.to_be_bytes()[0]
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn a_blob_that_saves_too_little_as_a_whole_is_stored_raw() {
    let folder = Folder::new("restored");
    let path = folder.path("a.zt");
    for threads in [1, 3] {
        let compression = Some(Compression { level: 1, min_savings: 0.4, threads, frame: 1 << 20 });
        let digest = Some(Algorithm::Crc32c);
        let promising = [vec![0; 1 << 20], noise(8 << 20)].concat();
        let compressed = [vec![0; 5 << 20], noise(5 << 20)].concat();
        let tensors = [
            ("small", vec![3; 100_000]),
            ("promising", promising),
            ("between", numbers(4, 1000)),
            ("compressed", compressed),
            ("noise", noise(9 << 20)),
            // Gathered, and large still when it is compressed.
            ("whole", [vec![0; 3 << 20], noise(3 << 20)].concat()),
            ("last", vec![9; 300_000]),
        ];
        write(&path, Settings { compression, digest, ..settings(WriteFormat::ZT10) }, &tensors);
        let (found, catalog) = opened(&path, Lookup::Siblings);
        assert!(found == map(&tensors));
        let encoding = |name: &str| {
            let tensor = catalog.tensor(catalog.find(name).unwrap()).unwrap();
            tensor.data().unwrap().encoding()
        };
        let raw = ["promising", "noise"].map(encoding);
        let packed = ["small", "compressed", "last", "whole"].map(encoding);
        assert_eq!((raw, packed), ([Encoding::RAW; 2], [Encoding::ZSTD; 4]));
        assert!(path.metadata().unwrap().len() < 27 << 20, "nothing of the frame is left");
    }
}

#[test]
fn a_checkpoint_in_several_files_replaces_the_old_one() {
    let folder = Folder::new("parts");
    let target = folder.path("m.safetensors");
    let tensors = [("a", numbers(1, 60)), ("c", numbers(2, 40)), ("b\"", numbers(3, 60)), ("d", Vec::new())];
    write(&target, Settings { digest: None, ..sharded(WriteFormat::SAFETENSORS, 100) }, &tensors);
    let first = ["m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"];
    let index = "m.safetensors.index.json";
    assert_eq!(folder.names(), [&first[..], &[index]].concat());
    let text = "{\n  \"metadata\": {\n    \"total_size\": 160\n  },\n  \"weight_map\": {\n    \"a\": \"m-00001-of-00002.safetensors\",\
                \n    \"b\\\"\": \"m-00002-of-00002.safetensors\",\n    \"c\": \"m-00001-of-00002.safetensors\",\
                \n    \"d\": \"m-00002-of-00002.safetensors\"\n  }\n}\n";
    assert_eq!(fs::read_to_string(folder.path(index)).unwrap(), text);
    assert_eq!(read(&folder.path(index)), map(&tensors));
    let new_only = Settings { overwrite: false, ..sharded(WriteFormat::SAFETENSORS, 100) };
    let mut writer = Writer::create(&target, new_only).unwrap();
    add(&mut writer, "a", &[1; 90]).unwrap();
    assert_eq!(code(add(&mut writer, "a", &[1; 90])), Some(Code::BadIndex), "an earlier file has it");
    add(&mut writer, "b", &[1; 90]).unwrap();
    assert_eq!(code(writer.finish()), Some(Code::Exists));
    assert_eq!(read(&folder.path(index)), map(&tensors));
    fs::write(folder.path("m-base.safetensors"), b"another program's").unwrap();
    write(&target, sharded(WriteFormat::SAFETENSORS, 50), &tensors[..3]);
    assert_eq!(folder.names().len(), 1 + 3 + 1);
    assert_eq!(read(&folder.path(index)), map(&tensors[..3]));
    // All in one: the set goes.
    write(&target, sharded(WriteFormat::SAFETENSORS, 1000), &tensors);
    assert_eq!(folder.names(), ["m-base.safetensors", "m.safetensors"]);
    assert_eq!(read(&target), map(&tensors));
}

fn appending(in_place: bool, digest: Hashing) -> Appending {
    let (alignment, compression) = (None, None);
    Appending {
        in_place,
        alignment,
        digest,
        compression,
        limits: Limits::default(),
        formats: Formats::default(),
        stop: Stop::default(),
    }
}

#[test]
fn files_are_edited_in_place_and_on_a_clone() {
    let folder = Folder::new("edited");
    let path = folder.path("a.zt");
    for format in [WriteFormat::ZT10, WriteFormat::ZT12, WriteFormat::ZT2] {
        for in_place in [false, true] {
            write(&path, settings(format), &five());
            let before = fs::read(&path).unwrap();
            // Nothing is asked: nothing changes.
            Writer::append(&path, appending(in_place, Hashing::Default)).unwrap().finish().unwrap();
            assert!(fs::read(&path).unwrap() == before);
            // Given up: the same.
            let mut writer = Writer::append(&path, appending(in_place, Hashing::Default)).unwrap();
            add(&mut writer, "large", &numbers(8, 3 << 20)).unwrap();
            writer.flush_if_full().unwrap();
            drop(writer);
            assert!(fs::read(&path).unwrap() == before);
            let mut writer = Writer::append(&path, appending(in_place, Hashing::Default)).unwrap();
            assert_eq!(code(add(&mut writer, "b", &[1])), Some(Code::BadIndex));
            let large = numbers(8, 3 << 20);
            add(&mut writer, "large", &large).unwrap();
            writer.rename("b", "renamed").unwrap();
            writer.remove("c").unwrap();
            assert!(writer.rename("none", "x").is_err() && writer.remove("none").is_err());
            assert_eq!(code(writer.rename("large", "x")), Some(Code::InvalidArg));
            assert_eq!(code(writer.remove("large")), Some(Code::InvalidArg));
            assert_eq!(code(writer.change_attributes(Some("large"), Vec::new())), Some(Code::InvalidArg));
            assert_eq!(code(writer.rename("a", "large")), Some(Code::BadIndex));
            writer.change_attributes(Some("d"), vec![("k".into(), Some(5.into()))]).unwrap();
            writer.change_attributes(None, vec![("file".into(), Some(6.into()))]).unwrap();
            writer.finish().unwrap();
            let (found, catalog) = opened(&path, Lookup::Siblings);
            let mut expected = map(&five());
            let b = expected.remove("b").unwrap();
            expected.remove("c");
            expected.extend([("renamed".to_owned(), b), ("large".to_owned(), large)]);
            assert!(found == expected, "{in_place}");
            let tensor = |name: &str| catalog.tensor(catalog.find(name).unwrap()).unwrap();
            let digest = tensor("large").data().unwrap().digest().unwrap().text().into_owned();
            assert!(
                digest.starts_with(if format == WriteFormat::ZT2 { "xxh3:" } else { "crc32c:" }),
                "{digest}"
            );
            assert_eq!(*tensor("d").attributes().unwrap().values().unwrap(), [("k".into(), 5.into())]);
            let strange = if format == WriteFormat::ZT2 { Algorithm::Crc32c } else { Algorithm::Xxh3 };
            let refused = Writer::append(&path, appending(in_place, Hashing::With(strange)));
            assert_eq!(code(refused), Some(Code::InvalidArg));
            for (digest, prefix) in
                [(Hashing::With(Algorithm::Sha256), Some("sha256:")), (Hashing::Without, None)]
            {
                let mut writer = Writer::append(&path, appending(in_place, digest)).unwrap();
                add(&mut writer, prefix.unwrap_or("without"), &[1, 2, 3]).unwrap();
                writer.finish().unwrap();
                let catalog = opened(&path, Lookup::Siblings).1;
                let tensor = catalog.tensor(catalog.find(prefix.unwrap_or("without")).unwrap()).unwrap();
                let text = tensor.data().unwrap().digest().map(|digest| digest.text().into_owned());
                assert_eq!(text.is_some(), prefix.is_some());
                assert!(text.is_none_or(|text| text.starts_with(prefix.unwrap())));
            }
        }
    }
    let mut writer = Writer::create(&path, settings(WriteFormat::ZT2)).unwrap();
    assert_eq!(code(writer.rename("a", "b")), Some(Code::InvalidArg), "no file is edited");
}

#[test]
fn safetensors_reserves_the_name_of_its_metadata() {
    let folder = Folder::new("names");
    for (format, refused) in [
        (WriteFormat::SAFETENSORS, Some(Code::InvalidArg)),
        (WriteFormat::ZT10, None),
        (WriteFormat::ZT2, None),
    ] {
        let mut writer = Writer::create(&folder.path("a"), settings(format)).unwrap();
        assert_eq!(code(add(&mut writer, "__metadata__", &[1])), refused);
    }
}

#[test]
fn a_stream_has_the_bytes_of_a_file() {
    let folder = Folder::new("taken");
    let tensors = [("a", numbers(1, 3 << 20)), ("b", numbers(2, 1000)), ("c", vec![5; 400_000])];
    for format in [WriteFormat::ZT10, WriteFormat::ZT12, WriteFormat::ZT2] {
        for compressed in [false, true] {
            let compression =
                compressed.then_some(Compression { level: 3, min_savings: 0.1, threads: 2, frame: 1 << 20 });
            let settings = || Settings { compression, ..settings(format) };
            let path = folder.path("a.zt");
            write(&path, settings(), &tensors);
            let mut writer = Writer::taken(settings()).unwrap();
            let mut taken = Vec::new();
            for (name, bytes) in &tensors {
                add(&mut writer, name, bytes).unwrap();
                assert!(writer.written() >= (taken.len() + writer.pending()) as u64);
                assert!(compressed || writer.waiting() == writer.pending());
                taken.extend(writer.take());
                assert_eq!(writer.pending(), 0);
            }
            taken.extend(writer.finish().unwrap().rest);
            assert!(taken == fs::read(&path).unwrap(), "{compressed}");
        }
    }
    for format in [WriteFormat::SAFETENSORS, WriteFormat::BTF] {
        let mut writer = Writer::taken(settings(format)).unwrap();
        assert_eq!(code(add(&mut writer, "0", &[1])), Some(Code::InvalidArg), "it was not announced");
        let divided = Settings { max_shard: Some(1000), ..settings(format) };
        assert_eq!(code(Writer::taken(divided)), Some(Code::InvalidArg));
    }
    assert_eq!(code(Writer::taken(canonical())), Some(Code::InvalidArg));
}

#[test]
fn tensor_attributes_need_a_format_that_supports_them() {
    let folder = Folder::new("attributes");
    let attributes = Attributes::from(vec![("k".into(), 5.into())]);
    let none = Attributes::default();
    for (format, refused) in [
        (WriteFormat::SAFETENSORS, Some(Code::InvalidArg)),
        (WriteFormat::BTF, Some(Code::InvalidArg)),
        (WriteFormat::ZT10, None),
        (WriteFormat::ZT2, None),
    ] {
        for (given, refused) in [(&attributes, refused), (&none, None)] {
            let mut writer = Writer::create(&folder.path("a"), settings(format)).unwrap();
            let components = [("data", Some(DType::Float32), 4)];
            let (layout, dtype, attributes) = ("dense", Some(DType::Float32), Some(given));
            let spec = Spec { name: "0", shape: &[1], layout, dtype, attributes, components: &components };
            assert_eq!(code(writer.begin(spec)), refused);
        }
    }
}

#[test]
fn replacing_a_root_with_a_single_file_keeps_its_shards() {
    let folder = Folder::new("left");
    let root = folder.path("m.zt");
    write(&root, sharded(WriteFormat::ZT2, 4096 + 2 * 8192), &five());
    let shards = folder.names();
    write(&root, settings(WriteFormat::ZT2), &five()[..2]);
    assert_eq!(folder.names(), shards);
    assert_eq!(read(&root), map(&five()[..2]));
}

#[test]
fn a_frame_size_is_accepted_for_every_version() {
    let folder = Folder::new("framed");
    let path = folder.path("a.zt");
    for (format, frame) in [
        (WriteFormat::ZT12, 0),
        (WriteFormat::ZT12, 4096),
        (WriteFormat::ZT10, 1 << 20),
        (WriteFormat::ZT2, 0),
        (WriteFormat::ZT2, 4096),
    ] {
        write(&path, settings(format), &five());
        let compression = Some(Compression { level: 3, min_savings: 0.1, threads: 1, frame });
        let asked = Appending { compression, ..appending(false, Hashing::Default) };
        let mut writer = Writer::append(&path, asked).unwrap();
        // Larger than a frame of any size, so that the table decides.
        let bytes = noise(3 << 20).iter().map(|byte| byte & 15).collect::<Vec<_>>();
        add(&mut writer, "large", &bytes).unwrap();
        writer.finish().unwrap();
        let (found, catalog) = opened(&path, Lookup::Siblings);
        assert!(found["large"] == bytes);
        let tensor = catalog.tensor(catalog.find("large").unwrap()).unwrap();
        assert_ne!(tensor.data().unwrap().encoding(), Encoding::RAW);
    }
}

#[test]
fn an_abandoned_edit_leaves_the_file_unchanged() {
    let folder = Folder::new("given-up");
    let path = folder.path("a.zt");
    write(&path, settings(WriteFormat::ZT12), &five());
    let before = fs::read(&path).unwrap();
    let large = numbers(8, 24 << 20);
    for _ in 0..6 {
        let mut writer = Writer::append(&path, appending(true, Hashing::Without)).unwrap();
        add(&mut writer, "large", &large).unwrap();
        // A thread writes by now.
        writer.flush_if_full().unwrap();
        drop(writer);
        assert!(fs::read(&path).unwrap() == before);
    }
}

#[test]
fn errors_name_the_component() {
    let folder = Folder::new("named");
    let mut writer = Writer::create(&folder.path("a"), settings(WriteFormat::ZT12)).unwrap();
    let (shape, layout, dtype, attributes) = ([2], "dense", Some(DType::Uint8), None);
    let part = |role| (role, Some(DType::Uint8), 2);
    let mut refused = |components: &[(&str, Option<DType>, u64)]| {
        writer.begin(Spec { name: "t", shape: &shape, layout, dtype, attributes, components }).unwrap_err()
    };
    let error = refused(&[part("data"), part("scale"), part("scale")]);
    assert_eq!((error.code(), error.component_role()), (Code::BadIndex, Some("scale")));
    let error = refused(&[("data", Some(DType::Int8), 2)]);
    assert_eq!((error.code(), error.tensor_name()), (Code::BadDtype, Some("t")));
}

#[test]
fn file_attributes_round_trip() {
    let folder = Folder::new("file-attributes");
    let path = folder.path("a.zt");
    for format in [WriteFormat::ZT10, WriteFormat::ZT12, WriteFormat::ZT2] {
        for given in [vec![("k".into(), 5.into())], Vec::new()] {
            let attributes = Attributes::from(given.clone());
            write(&path, Settings { attributes, ..settings(format) }, &five()[..1]);
            let catalog = opened(&path, Lookup::Siblings).1;
            assert_eq!(*catalog.attributes.values().unwrap(), given, "{format:?}");
            let bytes = fs::read(&path).unwrap();
            let contains = bytes.windows(10).any(|word| word == b"attributes");
            // Version 1 always has the key.
            assert_eq!(contains, !given.is_empty() || format != WriteFormat::ZT2, "{format:?}");
        }
    }
}

#[test]
fn only_some_formats_allow_other_components_of_a_dense_tensor() {
    let folder = Folder::new("others");
    for (format, refused) in [
        (WriteFormat::ZT01, Some(Code::BadLayout)),
        (WriteFormat::ZT10, None),
        (WriteFormat::ZT12, None),
        (WriteFormat::ZT2, Some(Code::BadLayout)),
    ] {
        let mut writer = Writer::create(&folder.path("a"), settings(format)).unwrap();
        let components = [("data", Some(DType::Float32), 8), ("more", Some(DType::Uint8), 3)];
        let (layout, dtype, attributes) = ("dense", Some(DType::Float32), None);
        let spec = Spec { name: "t", shape: &[2], layout, dtype, attributes, components: &components };
        assert_eq!(code(writer.begin(spec)), refused, "{format:?}");
        let spec = Spec { components: &components[..1], ..spec };
        assert_eq!(
            code(writer.begin(spec)),
            refused.and(None).or(refused.is_none().then_some(Code::InvalidArg))
        );
    }
}

#[test]
fn safetensors_metadata_round_trips() {
    let folder = Folder::new("metadata");
    let path = folder.path("a.safetensors");
    let texts = |texts: &[(&str, &str)]| {
        texts.iter().map(|&(key, text)| (key.into(), text.into())).collect::<Vec<_>>()
    };
    for given in [texts(&[]), texts(&[("k", "v")]), texts(&[("k", "v"), ("l", "\"w\"\n"), ("m", "")])] {
        let attributes = Attributes::from(given.clone());
        write(&path, Settings { attributes, ..settings(WriteFormat::SAFETENSORS) }, &five());
        let (found, catalog) = opened(&path, Lookup::Siblings);
        assert!(found == map(&five()));
        assert_eq!(*catalog.attributes.values().unwrap(), given);
    }
}

#[test]
fn reserved_bytes_of_a_canonical_file_are_zero() {
    let folder = Folder::new("reserved");
    let path = folder.path("m.zt");
    write(&path, canonical(), &five());
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - 12;
    for (byte, expected) in [(0, vec![]), (1, vec![Some(at as u64)])] {
        bytes[at + 3] = byte;
        let source = bytes.as_slice();
        let catalog = detect::parse(&source, Formats::default(), &Limits::default()).unwrap();
        let (limits, watch) = (Limits::default(), Watch::default());
        let reading = Reading { sources: &source, catalog: &catalog, limits: &limits, watch: &watch };
        let failures = verify::canonical::check(reading).unwrap().failures;
        assert_eq!(failures.iter().map(Error::offset).collect::<Vec<_>>(), expected);
    }
}
