//! Property tests of zTensor 2's parser: manifests whose hash is right and whose rest is anything, none of which makes it
//! panic; what it accepts is deterministic and its blobs are where they may be.

use std::sync::OnceLock;

use ciborium::Value;
use proptest::prelude::*;
use ztensor_core::codecs::digest::{Algorithm, xxh3};
use ztensor_core::error::Code;
use ztensor_core::formats::{Formats, zt2};
use ztensor_core::limits::Limits;
use ztensor_core::model::{Catalog, Tensor};
use ztensor_core::open::detect;
use ztensor_core::read::Reading;
use ztensor_core::verify;
use ztensor_core::verify::canonical;
use ztensor_core::work::{Stop, Watch};

use crate::cases::cases;

const DATA: usize = 4 * 4096;

/// A file of four pages of data and this manifest behind them.
fn file(manifest: &[u8]) -> Vec<u8> {
    let mut bytes = zt2::MAGIC.to_vec();
    bytes.resize(4096 + DATA, 1);
    let offset = bytes.len() as u64;
    bytes.extend_from_slice(manifest);
    for number in [offset, manifest.len() as u64, xxh3(manifest), 2] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&zt2::MAGIC);
    bytes
}

fn parse(bytes: &[u8]) -> Result<Catalog, Code> {
    detect::parse(&bytes, Formats::default(), &Limits::default()).map_err(|error| error.code())
}

/// Everything that a reader does with a file.
fn exercise(bytes: &[u8]) -> bool {
    let Ok(catalog) = parse(bytes) else { return false };
    let limits = Limits { max_decoded_bytes: 1 << 20, ..Limits::default() };
    let watch = Watch::default();
    let reading = Reading { sources: &bytes, catalog: &catalog, limits: &limits, watch: &watch };
    let ordinals: Vec<u32> = (0..).take(catalog.len()).collect();
    let _ = verify::verify(reading, &ordinals);
    let _ = canonical::check(reading);
    let mut blobs = Vec::new();
    for tensor in catalog.iter() {
        for component in tensor.components() {
            assert_eq!(component.offset() % 4096, 0);
            if component.file() > 0 {
                assert!(component.file() as usize <= catalog.shards.len());
                continue;
            }
            assert!(component.offset() + component.stored_length() + 40 <= bytes.len() as u64);
            blobs.push((component.offset(), component.stored_length()));
            let loaded = reading.component(tensor, component);
            if let (Ok(loaded), false) = (loaded, !component.is_decodable()) {
                assert_eq!(Some(loaded.len() as u64), component.byte_length());
            }
        }
    }
    blobs.retain(|&(_, length)| length > 0);
    blobs.sort_unstable();
    blobs.dedup();
    assert!(blobs.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{blobs:?}");
    if let Ok(Some(footer)) = zt2::read_footer(&bytes, Stop::never()) {
        let manifest = zt2::read_manifest(&bytes, footer, &limits, Stop::never()).unwrap();
        let digest = zt2::content::digest(&manifest, Algorithm::Xxh3);
        let digested = catalog.iter().flat_map(Tensor::components).all(|part| part.digest().is_some());
        assert_eq!(digest.is_ok(), digested);
        assert!(crate::edits::edits(bytes));
    }
    true
}

fn text(of: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop_oneof![9 => proptest::sample::select(of).prop_map(Value::from), 1 => ".{0,3}".prop_map(Value::Text)]
}

fn number() -> impl Strategy<Value = Value> {
    let pages = prop_oneof![Just(4096_u64), Just(8192), Just(12288), Just(16384)];
    prop_oneof![6 => 0_u64..70, 3 => pages, 1 => any::<u64>()].prop_map(Value::from)
}

fn part() -> impl Strategy<Value = Value> {
    let fields = (
        text(&["u8", "f32", "u32", "u64", "f16", "i8"]),
        proptest::option::weighted(0.3, text(&["bool", "f4_e2m1", "f8_e8m0", "complex64", "x.y/1"])),
        (number(), number()),
        proptest::option::weighted(0.2, text(&["base"])),
        proptest::option::weighted(0.2, text(&["zt.zstd-seekable/1", "x.z/1"])),
        proptest::option::weighted(0.2, number()),
        proptest::option::weighted(0.3, text(&["xxh3:0011223344556677", "blake3:00"])),
    );
    fields.prop_map(|(dtype, logical, (offset, length), shard, encoding, decoded, digest)| {
        let mut map = vec![("dtype", dtype), ("blob", Value::Array(vec![offset, length]))];
        let optional = [
            ("type", logical),
            ("shard", shard),
            ("encoding", encoding),
            ("decoded_length", decoded),
            ("digest", digest),
        ];
        map.extend(optional.into_iter().filter_map(|(key, value)| Some((key, value?))));
        named(map)
    })
}

fn named<K: Into<String>>(entries: Vec<(K, Value)>) -> Value {
    Value::Map(entries.into_iter().map(|(key, value)| (Value::Text(key.into()), value)).collect())
}

fn attributes() -> impl Strategy<Value = Value> {
    let word = text(&[
        "u8",
        "u32",
        "lsb_first",
        "msb_first",
        "f32_factors",
        "e8m0_exponent",
        "none",
        "tensor",
        "plain",
    ]);
    let leaf = prop_oneof![3 => number(), 3 => word, 1 => Just(Value::Null), 1 => any::<f64>().prop_map(Value::Float)];
    let key = proptest::sample::select(vec![
        "bits",
        "group_size",
        "axis",
        "packing",
        "word",
        "order",
        "per_word",
        "scale_form",
        "zero_point",
        "form",
        "value",
        "block_size",
        "elems_per_block",
        "block_bytes",
    ]);
    leaf.prop_recursive(3, 32, 12, move |inner| {
        proptest::collection::vec((key.clone(), inner), 0..12).prop_map(named)
    })
}

fn object() -> impl Strategy<Value = Value> {
    let layout = text(&[
        "dense",
        "zt.sparse_csr/1",
        "zt.sparse_coo/1",
        "zt.quant_group/1",
        "zt.mx/1",
        "gguf.q4_0/1",
        "x.y/1",
    ]);
    let role =
        proptest::sample::select(vec!["data", "values", "indices", "indptr", "coords", "scales", "zeros"]);
    let parts = proptest::collection::vec((role, part()), 0..4).prop_map(named);
    let shape = proptest::collection::vec(number(), 0..4).prop_map(Value::Array);
    (shape, layout, parts, proptest::option::of(attributes())).prop_map(
        |(shape, layout, parts, attributes)| {
            let mut fields = vec![("shape", shape), ("layout", layout), ("parts", parts)];
            fields.extend(attributes.map(|attributes| ("attributes", attributes)));
            named(fields)
        },
    )
}

fn root() -> impl Strategy<Value = Value> {
    let objects = proptest::collection::vec((".{0,3}", object()), 0..4).prop_map(named);
    let base = (number(), text(&["xxh3:0011223344556677"]))
        .prop_map(|(size, digest)| named(vec![("base", named(vec![("size", size), ("digest", digest)]))]));
    (objects, proptest::option::of(base), proptest::option::of(attributes())).prop_map(
        |(objects, shards, attributes)| {
            let mut fields = vec![("objects", objects)];
            fields.extend(shards.map(|shards| ("shards", shards)));
            fields.extend(attributes.map(|attributes| ("attributes", attributes)));
            named(fields)
        },
    )
}

/// The bytes of a value with the keys of every map sorted, if they differ.
fn deterministic(value: &Value) -> Vec<u8> {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
            Value::Map(entries) => {
                let mut entries: Vec<_> =
                    entries.iter().map(|(key, value)| (encoded(key), key.clone(), sorted(value))).collect();
                entries.sort_by(|one, other| one.0.cmp(&other.0));
                entries.dedup_by(|one, other| one.0 == other.0);
                Value::Map(entries.into_iter().map(|(_, key, value)| (key, value)).collect())
            }
            Value::Float(float) if float.is_nan() => Value::Float(f64::NAN),
            other => other.clone(),
        }
    }
    encoded(&sorted(value))
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).unwrap();
    bytes
}

/// The vectors that the Python package wrote.
fn vectors() -> &'static [Vec<u8>] {
    static READ: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    READ.get_or_init(read_vectors)
}

fn read_vectors() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../__test__/fixtures");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("zt2-") && name.ends_with(".zt")
    });
    paths.sort();
    assert_eq!(paths.len(), 6, "the vectors are missing");
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(1024)))]

    #[test]
    fn no_manifest_panics(root in root()) {
        exercise(&file(&deterministic(&root)));
    }

    #[test]
    fn no_bytes_of_a_manifest_panic(manifest: Vec<u8>) {
        exercise(&file(&manifest));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(192)))]

    #[test]
    fn changed_manifests_do_not_panic(
        which: prop::sample::Index, at: prop::sample::Index, byte: u8, offset in 0_u64..8,
    ) {
        let mut bytes = which.get(vectors()).clone();
        let total = bytes.len();
        let number = |bytes: &[u8], from_end: usize| {
            u64::from_le_bytes(bytes[total - from_end..total - from_end + 8].try_into().unwrap())
        };
        let start = usize::try_from(number(&bytes, 40)).unwrap();
        let end = start + usize::try_from(number(&bytes, 32)).unwrap();
        let at = start + at.index(end - start);
        bytes[at] = if offset == 0 { byte } else { bytes[at] ^ (1 << offset) };
        let hash = xxh3(&bytes[start..end]);
        bytes[total - 24..total - 16].copy_from_slice(&hash.to_le_bytes());
        exercise(&bytes);
    }

    #[test]
    fn changed_data_does_not_panic(which: prop::sample::Index, at: prop::sample::Index, byte: u8) {
        let mut bytes = which.get(vectors()).clone();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        exercise(&bytes);
    }
}

#[test]
fn the_test_vectors_are_read() {
    for bytes in vectors() {
        assert!(exercise(bytes));
    }
}
