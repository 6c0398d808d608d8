//! Two invented containers that can be written: one has its index before the data, as a zip or a `.npy`, the other after it. Each is only a
//! row of a table: the writer and the conversion have no code for them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use ztensor_core::codecs::digest::{Algorithm, Checksum, Expected};
use ztensor_core::convert::{self, Casts, Target, copy};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{
    Alignment, Assembler, CORE, Confidence, FileAttributes, Format, Formats, Index, Input, Sink,
    TensorHeader, WriteFormat,
};
use ztensor_core::limits::Limits;
use ztensor_core::model::{
    Attributes, Builder, Catalog, Component, Container, DType, Label, Layout, NewTensor,
};
use ztensor_core::open::detect;
use ztensor_core::read::Reading;
use ztensor_core::work::Watch;
use ztensor_core::write::{Settings, Spec, Writer};

const TABLE: &[Format] = &[
    Format {
        name: "before",
        title: "Before",
        endings: &["before"],
        missing: "no Before magic",
        detect: |probe| {
            Ok(if probe.first(8)? == BEFORE_MAGIC { Confidence::Certain } else { Confidence::No })
        },
        parse: |input| parse("before", input, 8),
        writes: &[&BEFORE],
        header: None,
    },
    Format {
        name: "behind",
        title: "Behind",
        endings: &["behind"],
        missing: "no Behind magic",
        detect: |probe| {
            Ok(if probe.first(8)? == BEHIND_MAGIC { Confidence::Certain } else { Confidence::No })
        },
        parse: |input| {
            let at = input.read_vec(input.length() - 8, 8)?;
            parse("behind", input, number(&at, 0))
        },
        writes: &[&BEHIND],
        header: None,
    },
];
const BEFORE_MAGIC: &[u8] = b"BEFORE!\n";
const BEHIND_MAGIC: &[u8] = b"BEHIND!\n";
const FORMATS: Formats = Formats::of(&[CORE, TABLE]);

/// The CRC-32 of each tensor's bytes is in the index, before the data.
static BEFORE: WriteFormat = WriteFormat {
    format: "before",
    title: "Before",
    index: Index::First(put),
    holds: |dtype| matches!(dtype, DType::Uint8 | DType::Float32),
    checksum: Some(Algorithm::Crc32),
    check_announced: |announced: &TensorHeader<'_>| {
        let short = announced.name.len() <= 8;
        if short { Ok(()) } else { Err(Error::new(Code::InvalidArg, "Before has names of 8 bytes at most")) }
    },
    ..WriteFormat::DENSE
};

static BEHIND: WriteFormat = WriteFormat {
    format: "behind",
    title: "Behind",
    magic: BEHIND_MAGIC,
    index: Index::Last(spell),
    attributes: FileAttributes::Any,
    alignment: Some(Alignment { min: 64, default: 64, powers_of_two: true, attribute: None }),
    check_attributes: |attributes, _| match attributes.len() {
        0..=1 => Ok(()),
        _ => Err(Error::new(Code::InvalidArg, "Behind has one attribute at most")),
    },
    ..WriteFormat::DENSE
};

/// An entry: the name in 8 bytes, the dtype's code, the one dimension, the offset and the sum.
fn entry(catalog: &Catalog, at: usize, offset: u64, sum: u64) -> Vec<u8> {
    let tensor = catalog.tensor(at).unwrap();
    let mut name = tensor.name().as_bytes().to_vec();
    name.resize(8, b' ');
    let dtype = tensor.dtype().unwrap() as u64;
    let numbers = [dtype, tensor.shape()[0], offset, sum].map(u64::to_le_bytes);
    [name, numbers.concat()].concat()
}

fn put(catalog: &Catalog, file: &mut dyn Assembler) -> Result<()> {
    let blobs = catalog.blobs();
    file.bytes(BEFORE_MAGIC)?;
    file.bytes(&(blobs.len() as u64).to_le_bytes())?;
    let mut offset = 16 + 40 * blobs.len() as u64;
    for (at, (_, blob)) in blobs.iter().enumerate() {
        let Some(Expected::Crc32(sum)) = blob.digest().map(|digest| &digest.expected) else {
            panic!("no checksum")
        };
        file.bytes(&entry(catalog, at, offset, u64::from(*sum)))?;
        offset += blob.stored_length();
    }
    blobs.iter().try_for_each(|(_, blob)| file.blob(blob))
}

fn spell(catalog: &Catalog, to: Sink<'_>) -> Result<()> {
    to(&(catalog.len() as u64).to_le_bytes())?;
    for (at, (_, blob)) in catalog.blobs().into_iter().enumerate() {
        to(&entry(catalog, at, blob.offset(), 0))?;
    }
    let end = catalog.blobs().iter().map(|(_, blob)| blob.offset() + blob.stored_length()).max();
    to(&end.unwrap_or(BEHIND_MAGIC.len() as u64).to_le_bytes())
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[8 * at..][..8].try_into().unwrap())
}

fn parse(name: &'static str, input: &Input<'_>, at: u64) -> Result<Catalog> {
    let mut builder = Builder::new(Container::named(name), input.limits);
    for nth in 0..number(&input.read_vec(at, 8)?, 0) {
        let entry = input.read_vec(at + 8 + 40 * nth, 40)?;
        let dtype = DType::from_code(u8::try_from(number(&entry, 1)).unwrap()).unwrap();
        let (shape, offset) = ([number(&entry, 2)], number(&entry, 3));
        let bytes = shape[0] * dtype.element_bytes() as u64;
        if name == "before" {
            let sum = Checksum::Crc32.append(0, &input.read_vec(offset, bytes)?);
            assert_eq!(u64::from(sum), number(&entry, 4));
        }
        builder.add_tensor(NewTensor {
            name: std::str::from_utf8(&entry[..8]).unwrap().trim_end(),
            shape: &shape,
            layout: Layout::Dense,
            dtype: Some(dtype),
            components: vec![Component::raw(Label::DATA, Some(dtype), offset, bytes)],
            attributes: None,
        })?;
    }
    Ok(builder.finish())
}

fn format(id: &str) -> &'static WriteFormat {
    FORMATS.write_format(id).unwrap()
}

fn settings(id: &str) -> Settings {
    crate::settings::settings(format(id))
}

/// A new path for each call: tests run side by side.
fn path(name: &str) -> PathBuf {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("ztensor-written-{}-{call}-{name}", std::process::id()))
}

/// Small and large tensors, and one without elements.
fn tensors() -> Vec<(&'static str, DType, Vec<u8>)> {
    let bytes = |length: u32| (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect::<Vec<_>>();
    vec![
        ("b", DType::Uint8, bytes(5)),
        ("a", DType::Float32, bytes(3 << 20)),
        ("none", DType::Float32, Vec::new()),
        ("c", DType::Float32, bytes(400)),
    ]
}

fn add(writer: &mut Writer, name: &str, dtype: DType, bytes: &[u8]) -> Result<()> {
    let components = [("data", Some(dtype), bytes.len() as u64)];
    let shape = [(bytes.len() / dtype.element_bytes()) as u64];
    writer.begin(Spec {
        name,
        shape: &shape,
        layout: "dense",
        dtype: Some(dtype),
        attributes: None,
        components: &components,
    })?;
    writer.push(bytes)?;
    writer.end()?;
    writer.flush_if_full()
}

/// The file that holds `tensors`.
fn written(id: &str) -> Vec<u8> {
    let path = path(id);
    let mut writer = Writer::create(&path, settings(id)).unwrap();
    for (name, dtype, bytes) in tensors() {
        add(&mut writer, name, dtype, &bytes).unwrap();
    }
    writer.finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    bytes
}

fn with<T>(bytes: &[u8], work: impl FnOnce(Reading<'_>) -> T) -> T {
    let (limits, watch) = (Limits::default(), Watch::default());
    let catalog = detect::parse(&bytes, FORMATS, &limits).unwrap();
    work(Reading { sources: &bytes, catalog: &catalog, limits: &limits, watch: &watch })
}

fn holds_all(bytes: &[u8]) {
    with(bytes, |reading| {
        for (name, dtype, bytes) in tensors() {
            let tensor = reading.catalog.tensor(reading.catalog.find(name).unwrap()).unwrap();
            assert_eq!(tensor.dtype(), Some(dtype), "{name}");
            assert_eq!(*reading.component(tensor, tensor.data().unwrap()).unwrap(), bytes, "{name}");
        }
    });
}

#[test]
fn written_files_are_read_back() {
    for id in ["before", "behind"] {
        let bytes = written(id);
        holds_all(&bytes);
        with(&bytes, |reading| {
            for tensor in reading.catalog.iter().filter(|_| id == "behind") {
                assert!(tensor.components()[0].offset().is_multiple_of(64));
            }
        });
    }
}

#[test]
fn files_are_converted_between_formats() {
    for (from, to) in
        [("before", "behind"), ("behind", "before"), ("before", "1.2"), ("behind", "safetensors")]
    {
        let target = path(&format!("{from}-{to}"));
        with(&written(from), |reading| {
            let mut writer = Writer::create(&target, settings(to)).unwrap();
            for tensor in reading.catalog.iter() {
                let wanted = Target { format: format(to), canonical: false, casts: &Casts::default() };
                assert!(convert::refusal(reading.catalog, tensor, tensor.name(), wanted).is_none());
                copy(reading, tensor, tensor.name(), &Casts::default(), &mut writer).unwrap();
            }
            writer.finish().unwrap();
        });
        holds_all(&std::fs::read(&target).unwrap());
        std::fs::remove_file(target).unwrap();
    }
}

#[test]
fn unsupported_tensors_and_attributes_are_rejected() {
    let path = path("refused");
    let mut writer = Writer::create(&path, settings("before")).unwrap();
    let code = |result: Result<()>| result.map_err(|error| error.code());
    assert_eq!(code(add(&mut writer, "far too long", DType::Uint8, &[1])), Err(Code::InvalidArg));
    assert_eq!(code(add(&mut writer, "f64", DType::Float64, &[0; 8])), Err(Code::BadDtype));
    assert_eq!(code(add(&mut writer, "fits", DType::Uint8, &[1])), Ok(()));
    with(&written("behind"), |reading| {
        let tensor = reading.catalog.tensor(0).unwrap();
        let wanted = Target { format: format("before"), canonical: false, casts: &Casts::default() };
        let refused = |name| convert::refusal(reading.catalog, tensor, name, wanted);
        assert!(refused("b").is_none() && refused("far too long").is_some());
    });
    let attributes =
        |count: u64| Attributes::from((0..count).map(|at| (at.into(), at.into())).collect::<Vec<_>>());
    let refused = |id, count| convert::attribute_refusal(&attributes(count), format(id), false).is_some();
    assert!(!refused("before", 0) && refused("before", 1));
    assert!(!refused("behind", 1) && refused("behind", 2));
    let mut writer = Writer::create(&path, settings("behind")).unwrap();
    assert!(writer.take_attributes(&attributes(1), Vec::new()).is_ok());
    assert!(writer.take_attributes(&attributes(2), Vec::new()).is_err());
}

#[test]
fn checksums_before_the_data_cannot_be_streamed() {
    let mut writer = Writer::taken(settings("behind")).unwrap();
    let mut bytes = Vec::new();
    for (name, dtype, data) in tensors() {
        add(&mut writer, name, dtype, &data).unwrap();
        bytes.extend(writer.take());
    }
    bytes.extend(writer.finish().unwrap().rest);
    holds_all(&bytes);
    let refused = Writer::taken(settings("before")).err().unwrap();
    assert!(refused.message().contains("has the checksum of each tensor before its data"));
}
