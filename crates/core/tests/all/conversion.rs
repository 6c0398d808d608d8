//! Files that become files of another format: whichever way the bytes take, the tensors stay what they are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ztensor_core::codecs::digest::Algorithm;
use ztensor_core::convert::{self, Casts, Selection};
use ztensor_core::error::{Code, Result};
use ztensor_core::formats::Formats;
use ztensor_core::limits::Limits;
use ztensor_core::model::{DType, Encoding};
use ztensor_core::open::detect;
use ztensor_core::read::Reading;
use ztensor_core::sources::file::FileSource;
use ztensor_core::verify;
use ztensor_core::work::Watch;
use ztensor_core::write::{Compression, Settings, Spec, WriteFormat, Writer};

use crate::settings::settings;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("ztensor-conversion-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A tensor: its layout, shape, type, and its components.
struct TestTensor {
    name: &'static str,
    layout: &'static str,
    shape: Vec<u64>,
    dtype: DType,
    parts: Vec<(&'static str, DType, Vec<u8>)>,
}

fn dense(name: &'static str, dtype: DType, bytes: Vec<u8>) -> TestTensor {
    let shape = vec![bytes.len() as u64 * 8 / u64::from(dtype.bits())];
    TestTensor { name, layout: "dense", shape, dtype, parts: vec![("data", dtype, bytes)] }
}

fn add(writer: &mut Writer, given: &TestTensor, pieces: usize) {
    let parts = given.parts.iter().map(|(role, dtype, bytes)| (*role, Some(*dtype), bytes.len() as u64));
    let (name, layout, shape, attributes) = (given.name, given.layout, &given.shape, None);
    let components: Vec<_> = parts.collect();
    let dtype = Some(given.dtype);
    writer.begin(Spec { name, shape, layout, dtype, attributes, components: &components }).unwrap();
    for (.., bytes) in &given.parts {
        for piece in bytes.chunks(pieces) {
            writer.push(piece).unwrap();
        }
    }
    writer.end().unwrap();
    writer.flush_if_full().unwrap();
}

fn write(path: &Path, settings: Settings, tensors: &[TestTensor]) {
    let mut writer = Writer::create(path, settings).unwrap();
    for given in tensors {
        add(&mut writer, given, 100_000);
    }
    writer.finish().unwrap();
}

/// Runs `work` on what is in a file.
fn with<T>(path: &Path, work: impl FnOnce(Reading<'_>) -> T) -> T {
    let source = FileSource::open(path).unwrap();
    let catalog = detect::parse(&source, Formats::default(), &Limits::default()).unwrap();
    let (limits, watch) = (Limits::default(), Watch::default());
    work(Reading { sources: &source, catalog: &catalog, limits: &limits, watch: &watch })
}

fn converted(from: &Path, to: &Path, settings: Settings, casts: &Casts) -> Result<()> {
    with(from, |reading| {
        let mut writer = Writer::create(to, settings)?;
        for tensor in reading.catalog.iter() {
            convert::copy(reading, tensor, tensor.name(), casts, &mut writer)?;
        }
        writer.finish().map(drop)
    })
}

/// What is known of a component, by the names of the tensor and of its role.
#[derive(Debug)]
struct Part {
    dtype: Option<DType>,
    encoding: Encoding,
    digest: Option<String>,
    bytes: Vec<u8>,
}

fn read(path: &Path) -> BTreeMap<(String, String), Part> {
    with(path, |reading| {
        let ordinals: Vec<u32> = (0..).take(reading.catalog.len()).collect();
        let outcome = verify::verify(reading, &ordinals).unwrap();
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        let mut parts = BTreeMap::new();
        for tensor in reading.catalog.iter() {
            for component in tensor.components() {
                let name = (tensor.name().to_owned(), reading.catalog.label(component.role).to_owned());
                let part = Part {
                    dtype: component.dtype,
                    encoding: component.encoding(),
                    digest: component.digest().map(|digest| digest.text().into_owned()),
                    bytes: reading.component(tensor, component).unwrap().to_vec(),
                };
                parts.insert(name, part);
            }
        }
        parts
    })
}

fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at % 61).to_le_bytes()[0]).collect()
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

fn u32s(numbers: impl IntoIterator<Item = usize>) -> Vec<u8> {
    numbers.into_iter().flat_map(|number| u32::try_from(number).unwrap().to_le_bytes()).collect()
}

fn u16s(numbers: impl IntoIterator<Item = usize>) -> Vec<u8> {
    numbers.into_iter().flat_map(|number| u16::try_from(number % 65_521).unwrap().to_le_bytes()).collect()
}

/// A matrix of rows of so many values, whose columns fall; its columns and values where they rise.
fn csr(name: &'static str, rows: usize, wide: usize) -> (TestTensor, [Vec<u8>; 2]) {
    let columns = |at: usize| wide - 1 - at % wide;
    let count = rows * wide;
    let given = TestTensor {
        name,
        layout: "sparse_csr",
        shape: vec![rows as u64, wide as u64],
        dtype: DType::Uint16,
        parts: vec![
            ("values", DType::Uint16, u16s(0..count)),
            ("indices", DType::Uint32, u32s((0..count).map(columns))),
            ("indptr", DType::Uint32, u32s((0..=rows).map(|row| row * wide))),
        ],
    };
    let rising = u16s((0..count).map(|at| at / wide * wide + columns(at)));
    (given, [u32s((0..count).map(|at| at % wide)), rising])
}

#[test]
fn conversion_preserves_tensors_of_any_size() {
    let folder = Folder::new("ways");
    let (source, target) = (folder.path("source"), folder.path("target"));
    let (small, small_rising) = csr("small", 3, 40);
    // Larger than what is held in memory.
    let (large, large_rising) = csr("spooled", 9, 170_000);
    let coo = TestTensor {
        name: "coo",
        layout: "sparse_coo",
        shape: vec![50, 60],
        dtype: DType::Uint16,
        parts: vec![
            ("values", DType::Uint16, u16s(0..50)),
            ("coords", DType::Uint32, u32s((0..50).rev().chain((0..50).map(|at| at * 7 % 60)))),
        ],
    };
    let flags: Vec<u8> = (0..3 << 20).map(|at: usize| u8::from(at.is_multiple_of(3))).collect();
    let given = [
        dense("empty", DType::Int16, Vec::new()),
        dense("one", DType::Int16, vec![1, 2]),
        dense("flags", DType::Bool, flags),
        small,
        dense("copied", DType::Uint8, pattern((20 << 20) + 77)),
        dense("noise", DType::Float32, noise(9 << 20)),
        coo,
        dense("usual", DType::Uint8, pattern(600_000)),
        large,
    ];
    write(&source, settings(WriteFormat::ZT12), &given);
    let expected = read(&source);
    for format in [WriteFormat::ZT10, WriteFormat::ZT12, WriteFormat::ZT2] {
        let own = if format == WriteFormat::ZT2 { Algorithm::Xxh3 } else { Algorithm::Crc32c };
        for (digest, compressed) in [(None, false), (Some(own), false), (None, true), (Some(own), true)] {
            let compression =
                compressed.then_some(Compression { level: 1, min_savings: 0.1, threads: 2, frame: 1 << 20 });
            let asked = Settings { digest, compression, ..settings(format) };
            converted(&source, &target, asked, &Casts::default()).unwrap();
            let found = read(&target);
            let case = format!("{format:?} {digest:?} {compressed}");
            assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{case}");
            for ((tensor, role), part) in &found {
                let before = &expected[&(tensor.clone(), role.clone())];
                let rising = match (&tensor[..], &role[..]) {
                    ("small", "values") => Some(&small_rising[1]),
                    ("small", "indices") => Some(&small_rising[0]),
                    ("spooled", "values") => Some(&large_rising[1]),
                    ("spooled", "indices") => Some(&large_rising[0]),
                    _ => None,
                };
                let bytes = rising.filter(|_| format == WriteFormat::ZT2).unwrap_or(&before.bytes);
                let wide =
                    format == WriteFormat::ZT10 && ["indices", "indptr", "coords"].contains(&&role[..]);
                if wide {
                    let widened = |index: &[u8; 4]| [&index[..], &[0; 4]].concat();
                    let widened: Vec<u8> = bytes.as_chunks::<4>().0.iter().flat_map(widened).collect();
                    assert!(part.bytes == widened, "{case} {tensor} {role}");
                } else {
                    assert!(part.bytes == *bytes, "{case} {tensor} {role}");
                    assert_eq!(part.dtype, before.dtype, "{case} {tensor} {role}");
                }
                assert_eq!(part.digest.is_some(), digest.is_some(), "{case} {tensor} {role}");
                let packs =
                    ["flags", "copied", "usual", "spooled"].contains(&&tensor[..]) && role != "indptr";
                if packs || tensor == "noise" {
                    assert_eq!(part.encoding != Encoding::RAW, compressed && packs, "{case} {tensor} {role}");
                }
            }
        }
    }
}

#[test]
fn planned_and_spooled_files_are_identical() {
    let folder = Folder::new("planned");
    let (source, target) = (folder.path("source"), folder.path("target"));
    let given = [
        dense("b", DType::Int32, pattern(76)),
        dense("empty", DType::Float32, Vec::new()),
        dense("d", DType::Float32, noise(3 << 20)),
        dense("c", DType::Float64, pattern(1000)),
        dense("a", DType::Float32, noise((1 << 20) + 4)),
    ];
    for (at, source_settings) in [
        settings(WriteFormat::ZT12),
        Settings {
            compression: Some(Compression { level: 1, min_savings: 0.0, threads: 2, frame: 1 << 20 }),
            ..settings(WriteFormat::ZT12)
        },
    ]
    .into_iter()
    .enumerate()
    {
        write(&source, source_settings, &given);
        for format in [WriteFormat::SAFETENSORS, WriteFormat::BTF] {
            for (casts, cast) in [
                (Casts::default(), false),
                (Casts::new(vec![(DType::Float32, DType::Float64)]).unwrap(), true),
            ] {
                let [planned, spooled] = [true, false].map(|plans| {
                    with(&source, |reading| {
                        let numbered = format == WriteFormat::BTF;
                        let mut selection =
                            if numbered { Selection::numbered() } else { Selection::default() };
                        selection.add(&[3, 0, 2, 1, 4], Vec::new());
                        let mut writer = Writer::create(&target, settings(format)).unwrap();
                        if plans {
                            convert::lay_out(reading, &mut selection, &casts, &mut writer).unwrap();
                            assert!(writer.plan().is_none(), "it is planned");
                        }
                        for (at, tensor) in selection.tensors(reading.catalog) {
                            let name = selection.name(at, tensor);
                            convert::copy(reading, tensor, &name, &casts, &mut writer).unwrap();
                        }
                        writer.finish().unwrap();
                        std::fs::read(&target).unwrap()
                    })
                });
                let streamed = with(&source, |reading| {
                    let numbered = format == WriteFormat::BTF;
                    let mut selection = if numbered { Selection::numbered() } else { Selection::default() };
                    selection.add(&[3, 0, 2, 1, 4], Vec::new());
                    let mut writer = Writer::taken(settings(format)).unwrap();
                    convert::lay_out(reading, &mut selection, &casts, &mut writer).unwrap();
                    let mut bytes = Vec::new();
                    for (at, tensor) in selection.tensors(reading.catalog) {
                        let name = selection.name(at, tensor);
                        convert::copy(reading, tensor, &name, &casts, &mut writer).unwrap();
                        bytes.extend(writer.take());
                    }
                    bytes.extend(writer.finish().unwrap().rest);
                    bytes
                });
                assert!(planned == spooled && planned == streamed, "{format:?} {at} {cast}");
                assert!(planned.len() > 4 << 20);
            }
        }
    }
}

#[test]
fn planned_tensors_must_be_written_in_order() {
    let folder = Folder::new("announced");
    let target = folder.path("target");
    let spec = |name, length| Spec {
        name,
        shape: if length == 4 { &[4] } else { &[8] },
        layout: "dense",
        dtype: Some(DType::Uint8),
        attributes: None,
        components: if length == 4 {
            &[("data", Some(DType::Uint8), 4)]
        } else {
            &[("data", Some(DType::Uint8), 8)]
        },
    };
    let begun = || {
        let mut writer = Writer::create(&target, settings(WriteFormat::SAFETENSORS)).unwrap();
        let mut plan = writer.plan().unwrap();
        plan.add(spec("b", 4)).unwrap();
        plan.add(spec("a", 4)).unwrap();
        assert_eq!(plan.add(spec("a", 4)).unwrap_err().code(), Code::BadIndex);
        assert_eq!(plan.lay_out().unwrap(), [1, 0]);
        writer
    };
    assert_eq!(begun().begin(spec("b", 4)).unwrap_err().code(), Code::Internal);
    assert_eq!(begun().begin(spec("a", 8)).unwrap_err().code(), Code::Internal);
    assert_eq!(begun().finish().err().unwrap().code(), Code::Internal);
    assert!(!target.exists());
    let mut writer = begun();
    for name in ["a", "b"] {
        writer.add(spec(name, 4), name.repeat(4).as_bytes()).unwrap();
    }
    assert_eq!(writer.begin(spec("c", 4)).unwrap_err().code(), Code::Internal);
    // What is compressed or hashed is not known before it is there.
    let digest = Some(Algorithm::Crc32c);
    for asked in [settings(WriteFormat::ZT12), Settings { digest, ..settings(WriteFormat::SAFETENSORS) }] {
        assert!(Writer::create(&target, asked).unwrap().plan().is_none());
    }
}

#[test]
fn invalid_bools_are_rejected_if_the_target_forbids_them() {
    let folder = Folder::new("flags");
    let (source, target) = (folder.path("source"), folder.path("target"));
    for length in [100, 2 << 20, 9 << 20] {
        let mut flags = vec![1; length];
        flags[length - 1] = 2;
        write(&source, settings(WriteFormat::ZT10), &[dense("flags", DType::Bool, flags)]);
        for (digest, compressed) in
            [(None, false), (Some(Algorithm::Xxh3), false), (None, true), (Some(Algorithm::Xxh3), true)]
        {
            let compression =
                compressed.then_some(Compression { level: 1, min_savings: 0.1, threads: 2, frame: 1 << 20 });
            let asked = |format| Settings {
                digest: digest.filter(|_| format == WriteFormat::ZT2),
                compression,
                ..settings(format)
            };
            assert!(converted(&source, &target, asked(WriteFormat::ZT10), &Casts::default()).is_ok());
            let refused =
                converted(&source, &target, asked(WriteFormat::ZT2), &Casts::default()).unwrap_err();
            assert!(refused.message().contains('2'), "{refused}");
        }
    }
}

#[test]
fn casts_apply_only_to_elements() {
    let folder = Folder::new("casts");
    let (source, target) = (folder.path("source"), folder.path("target"));
    let numbers = |count: u16| {
        (0..count).flat_map(|number| f32::from(number % 2048).to_le_bytes()).collect::<Vec<u8>>()
    };
    let (mut sparse, _) = csr("sparse", 3, 40);
    sparse.dtype = DType::Float32;
    sparse.parts[0] = ("values", DType::Float32, numbers(120));
    let given = [
        dense("dense", DType::Float32, numbers(u16::MAX)),
        sparse,
        dense("other", DType::Uint16, u16s(0..9)),
    ];
    write(&source, settings(WriteFormat::ZT12), &given);
    let casts = Casts::new(vec![(DType::Float32, DType::Float64)]).unwrap();
    converted(&source, &target, settings(WriteFormat::ZT12), &casts).unwrap();
    let (before, after) = (read(&source), read(&target));
    for (name, part) in &before {
        let found = &after[name];
        if part.dtype == Some(DType::Float32) {
            let wide = |bytes: &[u8; 4]| f64::from(f32::from_le_bytes(*bytes)).to_le_bytes();
            let expected: Vec<u8> = part.bytes.as_chunks::<4>().0.iter().flat_map(wide).collect();
            assert!(found.dtype == Some(DType::Float64) && found.bytes == expected, "{name:?}");
        } else {
            assert!(found.dtype == part.dtype && found.bytes == part.bytes, "{name:?}");
        }
    }
    let twice = Casts::new(vec![(DType::Float32, DType::Float64), (DType::Float32, DType::Float16)]);
    assert_eq!(twice.err().map(|error| error.code()), Some(Code::InvalidArg));
}

#[test]
fn compression_of_a_large_blob_depends_on_its_beginning() {
    let folder = Folder::new("inspected");
    let path = folder.path("a");
    // What is noise alone would not be compressed, and what is more than zeros would.
    let promising = [noise(20_000), vec![0; 9 << 20]].concat();
    let hopeless = [noise(300_000), vec![0; 9 << 20]].concat();
    for pieces in [1000, 100_000, 10 << 20] {
        for format in [WriteFormat::ZT12, WriteFormat::ZT2] {
            let compression = Some(Compression { level: 1, min_savings: 0.1, threads: 2, frame: 1 << 20 });
            let mut writer = Writer::create(&path, Settings { compression, ..settings(format) }).unwrap();
            for (name, bytes) in [("promising", &promising), ("hopeless", &hopeless)] {
                add(&mut writer, &dense(name, DType::Uint8, bytes.clone()), pieces);
            }
            writer.finish().unwrap();
            let found = read(&path);
            let part = |name: &str| &found[&(name.to_owned(), "data".to_owned())];
            assert!(part("promising").bytes == promising && part("hopeless").bytes == hopeless);
            assert_ne!(part("promising").encoding, Encoding::RAW, "{pieces}");
            assert_eq!(part("hopeless").encoding, Encoding::RAW, "{pieces}");
        }
    }
}

#[test]
fn data_waiting_for_compression_is_limited() {
    let folder = Folder::new("bounded");
    let path = folder.path("a");
    for threads in [1, 2] {
        let compression = Some(Compression { level: 1, min_savings: 0.1, threads, frame: 1 << 20 });
        let mut writer =
            Writer::create(&path, Settings { compression, ..settings(WriteFormat::ZT12) }).unwrap();
        let names: Vec<String> = (0..90).map(|at| format!("{at:02}")).collect();
        for name in &names {
            let bytes = pattern(1 << 20);
            let components = [("data", Some(DType::Uint8), bytes.len() as u64)];
            let (shape, dtype, attributes) = ([bytes.len() as u64], Some(DType::Uint8), None);
            let spec =
                Spec { name, shape: &shape, layout: "dense", dtype, attributes, components: &components };
            writer.add(spec, &bytes).unwrap();
            writer.flush_if_full().unwrap();
            assert!(writer.waiting() < 2 << 20, "{name}: {}", writer.waiting());
        }
        writer.finish().unwrap();
        let found = read(&path);
        assert!(found.len() == 90 && found.values().all(|part| part.bytes == pattern(1 << 20)));
    }
}
