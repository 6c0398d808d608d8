//! All ways of reading files agree, according to the oracle of the fuzz targets: for the fixtures, for generated files with components in
//! addition to those of their layouts, and for numbers at the limits of arithmetic.

#![allow(clippy::expect_used, clippy::cast_possible_truncation)] // the oracle is the fuzzer's

#[path = "../../../../fuzz/src/ways.rs"]
mod ways;

use ciborium::Value;
use proptest::prelude::*;
use ztensor_core::error::Code;
use ztensor_core::formats::Formats;
use ztensor_core::limits::Limits;
use ztensor_core::open::detect;
use ztensor_core::read::Reading;
use ztensor_core::work::Watch;

use crate::cases::cases;

/// Whether the file was read; a refusal has to be one of ours.
fn agree(bytes: &[u8]) -> bool {
    let limits = Limits { max_decoded_bytes: 1 << 20, ..Limits::default() };
    let catalog = match detect::parse(&bytes, Formats::default(), &limits) {
        Ok(catalog) => catalog,
        Err(error) => {
            assert_ne!(error.code(), Code::Internal, "{error}");
            return false;
        }
    };
    let watch = Watch::default();
    let reading = Reading { sources: &bytes, catalog: &catalog, limits: &limits, watch: &watch };
    ways::agree(reading, bytes.len() as u64);
    true
}

fn fixtures() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../__test__/fixtures");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = paths.filter(|path| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| ["zt", "safetensors", "btf"].contains(&ending))
    });
    let mut files: Vec<_> =
        files.map(|path| (path.display().to_string(), std::fs::read(path).unwrap())).collect();
    files.sort();
    assert!(files.len() > 20, "the fixtures are missing");
    files
}

#[test]
fn all_ways_of_reading_agree_on_fixtures() {
    for (path, bytes) in fixtures() {
        assert!(agree(&bytes), "{path}");
    }
}

/// The dtypes of 1.0 and 1.2, and bytes of an element.
const DTYPES: [(&str, &str, u64); 5] = [
    ("float32", "f32", 4),
    ("float64", "f64", 8),
    ("bfloat16", "bf16", 2),
    ("uint8", "u8", 1),
    ("int64", "i64", 8),
];

/// One component: its dtype as an index into `DTYPES`, its elements, whether it is compressed, whether its digest is right.
#[derive(Clone, Debug)]
struct Part {
    dtype: usize,
    elements: u64,
    zstd: bool,
    digest: Option<bool>,
}

fn part() -> impl Strategy<Value = Part> {
    let digest = prop_oneof![3 => Just(None), 3 => Just(Some(true)), 1 => Just(Some(false))];
    (0..DTYPES.len(), prop_oneof![Just(0), Just(1), 2_u64..40], any::<bool>(), digest)
        .prop_map(|(dtype, elements, zstd, digest)| Part { dtype, elements, zstd, digest })
}

/// A number as written in a file: mostly the right one.
fn number() -> impl Strategy<Value = Option<u64>> {
    let border = prop::sample::select(vec![31, 32, 53, 60, 63, 64]);
    let border = (border, prop::sample::select(vec![-8_i64, -1, 0, 1, 8])).prop_map(|(power, step)| {
        let number = (1_i128 << power) + i128::from(step);
        Some(u64::try_from(number).unwrap_or(u64::MAX))
    });
    prop_oneof![12 => Just(None), 1 => border, 1 => (0_u64..200).prop_map(Some)]
}

#[derive(Clone, Debug)]
struct Tensor {
    data: Part,
    others: Vec<(Part, bool)>,
    /// What replaces the shape, the offset, the length and the decoded length of the data.
    numbers: [Option<u64>; 4],
    /// Whether the layout is not one of ours.
    custom: bool,
}

fn tensor() -> impl Strategy<Value = Tensor> {
    let numbers = [number(), number(), number(), number()];
    (part(), prop::collection::vec((part(), any::<bool>()), 0..3), numbers, prop::bool::weighted(0.1))
        .prop_map(|(data, others, numbers, custom)| Tensor { data, others, numbers, custom })
}

/// A 1.0 or 1.2 file of these tensors.
fn file(tensors: &[Tensor], new: bool) -> Vec<u8> {
    let mut bytes = b"ZTEN1000".to_vec();
    let text = |text: &str| Value::Text(text.to_owned());
    let mut entries = Vec::new();
    for (at, tensor) in tensors.iter().enumerate() {
        let data = (String::from("data"), &tensor.data);
        let other = |before: bool| {
            let others = tensor.others.iter().enumerate().filter(move |(_, (_, first))| *first == before);
            others.map(|(at, (part, _))| (format!("other{at}"), part))
        };
        let parts = other(true).chain([data]).chain(other(false));
        let components = parts.map(|(role, part)| {
            bytes.resize(bytes.len().next_multiple_of(64), 0);
            let offset = bytes.len() as u64;
            let (_, dtype, width) = DTYPES[part.dtype];
            let content: Vec<u8> = (0..part.elements * width).map(|at| (at * 7 + offset) as u8).collect();
            let stored = if part.zstd { zstd::bulk::compress(&content, 1).unwrap() } else { content.clone() };
            bytes.extend_from_slice(&stored);
            let is_data = role == "data";
            let stated = |at: usize, right: u64| tensor.numbers[at].filter(|_| is_data).unwrap_or(right);
            let mut fields = vec![
                (text("offset"), stated(1, offset).into()),
                (text("length"), stated(2, stored.len() as u64).into()),
            ];
            if new {
                fields.push((text("dtype"), text(dtype)));
            }
            if part.zstd {
                fields.push((text("encoding"), text("zstd")));
                fields.push((text("uncompressed_length"), stated(3, content.len() as u64).into()));
            }
            if let Some(right) = part.digest {
                let crc = crc32c::crc32c(&stored) ^ u32::from(!right);
                fields.push((text("digest"), Value::Text(format!("crc32c:0x{crc:08X}"))));
            }
            (Value::Text(role), Value::Map(fields))
        });
        let components = Value::Map(components.collect());
        let shape = tensor.numbers[0].unwrap_or(tensor.data.elements);
        entries.push((
            Value::Text(format!("t{at}")),
            Value::Map(vec![
                (text("dtype"), text(DTYPES[tensor.data.dtype].0)),
                (text("shape"), Value::Array(vec![shape.into()])),
                (text("format"), text(if tensor.custom { "x" } else { "dense" })),
                (text("components"), components),
            ]),
        ));
    }
    let (version, key) = if new { ("1.2.0", "objects") } else { ("1.0", "tensors") };
    let root = Value::Map(vec![(text("version"), text(version)), (text(key), Value::Map(entries))]);
    let start = bytes.len();
    ciborium::into_writer(&root, &mut bytes).unwrap();
    bytes.extend(((bytes.len() - start) as u64).to_le_bytes());
    if new {
        bytes.extend_from_slice(b"ZTEN1000");
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(192)) })]

    #[test]
    fn other_components_do_not_affect_the_data(
        tensors in prop::collection::vec(tensor(), 1..4),
        new: bool,
        borders in prop::bool::weighted(0.3),
    ) {
        let mut tensors = tensors;
        if !borders {
            for tensor in &mut tensors {
                tensor.numbers = [None; 4];
            }
        }
        let read = agree(&file(&tensors, new));
        prop_assert!(read || borders, "refused");
    }

    #[test]
    fn all_ways_of_reading_agree_on_damaged_fixtures(
        file: prop::sample::Index,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let files = fixtures();
        let (_, mut bytes) = file.get(&files).clone();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        agree(&bytes);
    }
}
