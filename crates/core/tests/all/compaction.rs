//! Compaction: the file is smaller, and its tensors are unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ztensor_core::codecs::digest::Algorithm;
use ztensor_core::error::Code;
use ztensor_core::formats::Formats;
use ztensor_core::limits::Limits;
use ztensor_core::model::{Catalog, DType};
use ztensor_core::open::detect;
use ztensor_core::read::Reading;
use ztensor_core::sources::file::FileSource;
use ztensor_core::syntax::cbor_encode::Encoder;
use ztensor_core::verify;
use ztensor_core::work::{Stop, Watch};
use ztensor_core::write::compact::{Compacted, compact};
use ztensor_core::write::{Appending, Hashing, Settings, Spec, WriteFormat, Writer};

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("ztensor-compaction-{name}-{}", std::process::id()))
}

fn settings(format: &'static WriteFormat, canonical: bool) -> Settings {
    let alignment = match canonical {
        true => 1 << 16,
        false if format == WriteFormat::ZT2 => 4096,
        false => 256,
    };
    let digest = Some(if format == WriteFormat::ZT2 { Algorithm::Xxh3 } else { Algorithm::Crc32c });
    Settings { alignment, digest, canonical, ..crate::settings::settings(format) }
}

type Tensors = BTreeMap<String, Vec<u8>>;

/// Tensors around the limits of what is copied in which way, of bytes that no other has.
fn tensors() -> Vec<(&'static str, Vec<u8>)> {
    let lengths = [70_000, 5, 3 << 20, 0, (1 << 20) - 1, 1 << 20, 300_000, 9 << 20, 77];
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let bytes = |start: u8, length: usize| {
        (0..length).map(|at| start.wrapping_add((at % 241).to_le_bytes()[0])).collect()
    };
    names
        .into_iter()
        .zip((1..).zip(lengths))
        .map(|(name, (start, length))| (name, bytes(start, length)))
        .collect()
}

fn write(path: &Path, settings: Settings, tensors: &[(&str, Vec<u8>)]) {
    let mut writer = Writer::create(path, settings).unwrap();
    for (name, bytes) in tensors {
        add(&mut writer, name, bytes);
    }
    writer.finish().unwrap();
}

fn add(writer: &mut Writer, name: &str, bytes: &[u8]) {
    let components = [("data", Some(DType::Uint8), bytes.len() as u64)];
    let shape = [bytes.len() as u64];
    let (layout, dtype, attributes) = ("dense", Some(DType::Uint8), None);
    let spec = Spec { name, shape: &shape, layout, dtype, attributes, components: &components };
    writer.add(spec, bytes).unwrap();
    writer.flush_if_full().unwrap();
}

fn edit(path: &Path, change: impl FnOnce(&mut Writer)) {
    let appending = Appending {
        in_place: true,
        alignment: None,
        digest: Hashing::Default,
        compression: None,
        limits: Limits::default(),
        formats: Formats::default(),
        stop: Stop::default(),
    };
    let mut writer = Writer::append(path, appending).unwrap();
    change(&mut writer);
    writer.finish().unwrap();
}

fn read(path: &Path) -> (Tensors, Catalog) {
    let source = FileSource::open(path).unwrap();
    let catalog = detect::parse(&source, Formats::default(), &Limits::default()).unwrap();
    let (limits, watch) = (Limits::default(), Watch::default());
    let reading = Reading { sources: &source, catalog: &catalog, limits: &limits, watch: &watch };
    let ordinals: Vec<u32> = (0..).take(catalog.len()).collect();
    let outcome = verify::verify(reading, &ordinals).unwrap();
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    let bytes = |name: &str| {
        let tensor = catalog.tensor(catalog.find(name).unwrap()).unwrap();
        reading.component(tensor, tensor.data().unwrap()).unwrap().to_vec()
    };
    (catalog.iter().map(|tensor| (tensor.name().to_owned(), bytes(tensor.name()))).collect(), catalog)
}

fn compacted(path: &Path, watch: &Watch) -> Compacted {
    compact(path, Formats::default(), &Limits::default(), watch).unwrap()
}

fn length(path: &Path) -> u64 {
    path.metadata().unwrap().len()
}

#[test]
fn compaction_removes_only_unreferenced_bytes() {
    for (name, format, canonical) in [
        ("10", WriteFormat::ZT10, false),
        ("12", WriteFormat::ZT12, false),
        ("2", WriteFormat::ZT2, false),
        ("2c", WriteFormat::ZT2, true),
    ] {
        let (path, fresh) = (path(name), path(&format!("{name}-fresh")));
        write(&path, settings(format, canonical), &tensors());
        for removed in [&["c"][..], &["a", "e"], &["i", "h"]] {
            edit(&path, |writer| removed.iter().for_each(|name| writer.remove(name).unwrap()));
            let ((expected, old), before) = (read(&path), length(&path));
            let watch = Watch::default();
            let Compacted { before: reported, after, warnings } = compacted(&path, &watch);
            assert_eq!((reported, after, warnings.len()), (before, length(&path), 0), "{name} {removed:?}");
            let (found, new) = read(&path);
            assert!(found == expected, "{name} {removed:?}");
            // As small as a new file with only these tensors.
            let left: Vec<_> =
                tensors().into_iter().filter(|(name, _)| expected.contains_key(*name)).collect();
            write(&fresh, settings(format, canonical), &left);
            assert_eq!(length(&path), length(&fresh), "{name} {removed:?}");
            for tensor in new.iter() {
                let offset = tensor.data().unwrap().offset();
                assert!(offset.is_multiple_of(settings(format, canonical).alignment), "{name} {offset}");
            }
            let progress = watch.progress();
            let bytes: usize = expected.values().map(Vec::len).sum();
            assert_eq!((progress.bytes, progress.total_bytes), (bytes as u64, bytes as u64));
            assert_eq!((progress.tensors, progress.total_tensors), (old.len() as u64, old.len() as u64));
            // There is nothing left to gain.
            let bytes = fs::read(&path).unwrap();
            let again = compacted(&path, &Watch::default());
            assert_eq!((again.before, again.after), (after, after));
            assert!(fs::read(&path).unwrap() == bytes);
        }
        fs::remove_file(path).unwrap();
        fs::remove_file(fresh).unwrap();
    }
}

#[test]
fn shared_blobs_stay_shared() {
    let path = path("shared");
    let [one, other] = [vec![7; 100_000], vec![9; 200_000]];
    let tensors = [("a", one.clone()), ("b", other), ("c", one.clone()), ("d", one)];
    write(&path, settings(WriteFormat::ZT2, true), &tensors);
    edit(&path, |writer| writer.remove("b").unwrap());
    let expected = read(&path).0;
    compacted(&path, &Watch::default());
    let (found, catalog) = read(&path);
    assert!(found == expected);
    let offsets: Vec<u64> = catalog.iter().map(|tensor| tensor.data().unwrap().offset()).collect();
    assert_eq!(offsets, [1 << 16; 3]);
    // An edit may add what is there already: in canonical order, and once, it is after the next time.
    edit(&path, |writer| add(writer, "0", &vec![7; 100_000]));
    edit(&path, |writer| writer.remove("d").unwrap());
    compacted(&path, &Watch::default());
    let (found, catalog) = read(&path);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["0", "a", "c"]);
    assert!(found.values().all(|bytes| *bytes == vec![7; 100_000]));
    assert!(catalog.iter().all(|tensor| tensor.data().unwrap().offset() == 1 << 16));
    fs::remove_file(path).unwrap();
}

#[test]
fn a_compaction_that_is_stopped_changes_nothing() {
    let path = path("stopped");
    write(&path, settings(WriteFormat::ZT12, false), &tensors());
    edit(&path, |writer| writer.remove("c").unwrap());
    let before = fs::read(&path).unwrap();
    let watch = Watch::default();
    watch.stop.set();
    let stopped = compact(&path, Formats::default(), &Limits::default(), &watch);
    assert_eq!(stopped.unwrap_err().code(), Code::Aborted);
    assert!(fs::read(&path).unwrap() == before);
    fs::remove_file(path).unwrap();
}

/// A file of version 1.2 whose tensors of bytes lie at these offsets.
fn file(path: &Path, blobs: &[(&str, u64, u64)], end: usize) {
    let mut e = Encoder::default();
    e.map(2);
    e.text("version");
    e.text("1.2.0");
    e.text("objects");
    e.map(blobs.len());
    for &(name, offset, length) in blobs {
        e.text(name);
        e.map(3);
        e.text("shape");
        e.array(1);
        e.uint(length);
        e.text("format");
        e.text("dense");
        e.text("components");
        e.map(1);
        e.text("data");
        e.map(3);
        e.text("dtype");
        e.text("u8");
        e.text("offset");
        e.uint(offset);
        e.text("length");
        e.uint(length);
    }
    let index = e.finish();
    let mut bytes = b"ZTEN1000".to_vec();
    bytes.extend((8..end).map(|at| (at * 7 % 251).to_le_bytes()[0]));
    bytes.extend_from_slice(&index);
    bytes.extend_from_slice(&(index.len() as u64).to_le_bytes());
    bytes.extend_from_slice(b"ZTEN1000");
    fs::write(path, bytes).unwrap();
}

#[test]
fn overlapping_blobs_move_together_except_empty_ones() {
    let path = path("overlap");
    let blobs = [
        ("a", 16_384, 400),
        ("b", 16_384 + 64, 100),
        // Begins in the first and ends behind it.
        ("c", 16_384 + 384, 200),
        ("empty", 16_384 + 448, 0),
        ("next", 16_384 + 640, 100),
        ("last", 40_960, 2 << 20),
    ];
    file(&path, &blobs, 40_960 + (2 << 20));
    let expected = read(&path).0;
    compacted(&path, &Watch::default());
    let (found, catalog) = read(&path);
    assert!(found == expected);
    let offset = |name: &str| catalog.tensor(catalog.find(name).unwrap()).unwrap().data().unwrap().offset();
    let places = ["a", "b", "c", "empty", "next", "last"].map(offset);
    assert_eq!(places, [64, 128, 448, 704, 704, 832]);
    fs::remove_file(path).unwrap();
}
