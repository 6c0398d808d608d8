//! Property tests of the parsers, on slices: no bytes make them panic, what an encoder writes they read,
//! and on safetensors they agree with the reference implementation.

use ciborium::Value;
use proptest::prelude::*;
use ztensor_core::error::Code;
use ztensor_core::formats::Formats;
use ztensor_core::limits::Limits;
use ztensor_core::model::Catalog;
use ztensor_core::open::detect;
use ztensor_core::read::Reading;
use ztensor_core::verify;
use ztensor_core::work::Watch;

use crate::cases::cases;

/// All formats, and each of them alone.
fn choices() -> impl Iterator<Item = Formats> {
    let all = Formats::default();
    std::iter::once(all).chain(all.iter().filter_map(move |format| all.only(format.name)))
}

fn parse(bytes: &[u8], formats: Formats) -> Result<Catalog, Code> {
    detect::parse(&bytes, formats, &Limits::default()).map_err(|error| error.code())
}

/// Everything that a reader does with a file: parse, check, load.
fn exercise(bytes: &[u8]) {
    for formats in choices() {
        let Ok(catalog) = parse(bytes, formats) else { continue };
        let limits = Limits { max_decoded_bytes: 1 << 20, ..Limits::default() };
        let watch = Watch::default();
        let reading = Reading { sources: &bytes, catalog: &catalog, limits: &limits, watch: &watch };
        let ordinals: Vec<u32> = (0..).take(catalog.len()).collect();
        let _ = verify::verify(reading, &ordinals);
        for tensor in catalog.iter() {
            assert_eq!(catalog.find(tensor.name()), Some(tensor.ordinal()));
            for component in tensor.components() {
                let loaded = reading.component(tensor, component);
                if let (Ok(loaded), Some(length)) = (loaded, component.byte_length()) {
                    assert_eq!(loaded.len() as u64, length, "{} {:?}", tensor.name(), component);
                }
                if component.stored_length() > 0 {
                    assert!(component.offset() + component.stored_length() <= bytes.len() as u64);
                }
            }
        }
    }
}

fn fixtures() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../__test__/fixtures");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let ending = path.extension().and_then(|ending| ending.to_str());
            ending.is_some_and(|ending| ["zt", "safetensors", "btf"].contains(&ending))
        })
        .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    assert!(files.len() > 20, "the fixtures are missing");
    files
}

#[test]
fn fixtures_read_and_verify() {
    for (path, bytes) in fixtures() {
        let catalog = parse(&bytes, Formats::default()).unwrap_or_else(|code| panic!("{path}: {code:?}"));
        let (limits, watch) = (Limits::default(), Watch::default());
        let reading = Reading { sources: &&*bytes, catalog: &catalog, limits: &limits, watch: &watch };
        let ordinals: Vec<u32> = (0..).take(catalog.len()).collect();
        let outcome = verify::verify(reading, &ordinals).unwrap();
        assert!(outcome.failures.is_empty(), "{path}: {:?}", outcome.failures);
    }
}

/// A text for a manifest's keys and values: mostly such as formats use, sometimes anything.
fn word() -> impl Strategy<Value = String> {
    let known = [
        "version",
        "1.0",
        "1.2.0",
        "2.0",
        "tensors",
        "objects",
        "attributes",
        "generator",
        "w",
        "shape",
        "dtype",
        "format",
        "components",
        "data",
        "values",
        "indices",
        "indptr",
        "coords",
        "dense",
        "sparse_csr",
        "sparse_coo",
        "offset",
        "length",
        "encoding",
        "zstd",
        "raw",
        "digest",
        "crc32c:0x0",
        "float32",
        "f32",
        "u64",
        "type",
        "complex64",
        "uncompressed_length",
        "name",
        "size",
        "layout",
        "sparse",
        "sparse_format",
        "csr",
        "data_endianness",
        "big",
    ];
    prop_oneof![9 => proptest::sample::select(known.to_vec()).prop_map(str::to_owned), 1 => ".{0,4}"]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0_u64..100, 2 => Just(64_u64), 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

/// A value of the kinds that stand in an index.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![word().prop_map(Value::Text), number().prop_map(Value::from), Just(Value::Null)];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            proptest::collection::vec((word(), inner.clone()), 0..6).prop_map(|entries| Value::Map(
                entries.into_iter().map(|(key, value)| (key.into(), value)).collect()
            )),
            proptest::collection::vec(inner, 0..4).prop_map(Value::Array),
        ]
    })
}

/// A component that may be right: that is where the deeper checks are.
fn component() -> impl Strategy<Value = Value> {
    let digest = prop_oneof![Just(None), word().prop_map(Some)];
    (number(), number(), word(), digest).prop_map(|(offset, length, dtype, digest)| {
        let mut fields = vec![
            ("offset".into(), offset.into()),
            ("length".into(), length.into()),
            ("dtype".into(), Value::Text(dtype)),
        ];
        fields.extend(digest.map(|digest| ("digest".into(), Value::Text(digest))));
        Value::Map(fields)
    })
}

fn tensor() -> impl Strategy<Value = Value> {
    let shape = proptest::collection::vec(number().prop_map(Value::from), 0..4);
    let components = proptest::collection::btree_map(word(), component(), 0..4);
    (shape, word(), word(), components).prop_map(|(shape, dtype, format, components)| {
        let components = components.into_iter().map(|(role, fields)| (role.into(), fields)).collect();
        Value::Map(vec![
            ("shape".into(), Value::Array(shape)),
            ("dtype".into(), Value::Text(dtype)),
            ("format".into(), Value::Text(format)),
            ("components".into(), Value::Map(components)),
        ])
    })
}

fn manifest() -> impl Strategy<Value = Value> {
    let tensors = proptest::collection::btree_map(word(), tensor(), 0..4);
    let key = prop_oneof![Just("tensors"), Just("objects")];
    let root = (key, tensors).prop_map(|(key, tensors)| {
        let tensors = tensors.into_iter().map(|(name, tensor)| (name.into(), tensor)).collect();
        Value::Map(vec![("version".into(), "1.0".into()), (key.into(), Value::Map(tensors))])
    });
    prop_oneof![root, value()]
}

fn zt_file(magic: [u8; 8], blobs: &[u8], index: &Value, footer: bool) -> Vec<u8> {
    let mut bytes = [&magic, blobs].concat();
    let mut manifest = Vec::new();
    ciborium::into_writer(index, &mut manifest).unwrap();
    bytes.extend_from_slice(&manifest);
    bytes.extend_from_slice(&(manifest.len() as u64).to_le_bytes());
    if footer {
        bytes.extend_from_slice(b"ZTEN1000");
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(512)))]

    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        exercise(&bytes);
    }

    #[test]
    fn no_index_panics(index in manifest(), magic in prop_oneof![Just(*b"ZTEN1000"), Just(*b"ZTEN0001")], footer: bool) {
        exercise(&zt_file(magic, &[0; 120], &index, footer));
    }

    #[test]
    fn no_btf_words_panic(words in proptest::collection::vec(number(), 0..40)) {
        exercise(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
    }

    #[test]
    fn damaged_fixtures_do_not_panic(at: prop::sample::Index, file: prop::sample::Index, byte: u8, truncated: bool) {
        let files = fixtures();
        let (_, mut bytes) = file.get(&files).clone();
        let at = at.index(bytes.len());
        if truncated {
            bytes.truncate(at);
        } else {
            bytes[at] = byte;
        }
        exercise(&bytes);
    }
}

/// The text of a safetensors header, mostly right.
fn header() -> impl Strategy<Value = (String, usize)> {
    let dtype =
        proptest::sample::select(vec![("F32", 4), ("U8", 1), ("F16", 2), ("BF16", 2), ("I64", 8), ("X9", 1)]);
    let shape = proptest::collection::vec(0_usize..4, 0..3);
    let skew = prop_oneof![12 => Just(0_usize), 1 => 1_usize..3];
    let entry = ("[a-d]{1,2}", dtype, shape, skew);
    (proptest::collection::vec(entry, 0..5), "[ ]{0,3}", 0_usize..20).prop_map(|(entries, padding, slack)| {
        let mut begin = 0;
        let mut seen = std::collections::HashSet::new();
        let mut texts = Vec::new();
        for (name, (dtype, width), shape, skew) in entries {
            if !seen.insert(name.clone()) {
                continue;
            }
            let length = shape.iter().product::<usize>() * width;
            let end = begin + length + skew;
            texts.push(format!(
                "\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{begin},{end}]}}"
            ));
            begin = end;
        }
        (format!("{{{}}}{padding}", texts.join(",")), if slack == 0 { begin + 1 } else { begin })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(2048)))]

    #[test]
    fn safetensors_agrees_with_the_reference((header, data) in header()) {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(bytes.len() + data, 7);
        let ours = parse(&bytes, Formats::default().only("safetensors").unwrap());
        let reference = safetensors::SafeTensors::deserialize(&bytes);
        prop_assert_eq!(ours.is_ok(), reference.is_ok(), "{} {:?} {:?}", header, ours.err(), reference.err());
        if let (Ok(ours), Ok(reference)) = (ours, reference) {
            prop_assert_eq!(ours.len(), reference.len());
            for tensor in ours.iter() {
                let theirs = reference.tensor(tensor.name()).unwrap();
                let shape: Vec<u64> = theirs.shape().iter().map(|&dim| dim as u64).collect();
                prop_assert_eq!(tensor.shape(), shape);
                let component = &tensor.components()[0];
                let start = usize::try_from(component.offset()).unwrap();
                let end = start + usize::try_from(component.stored_length()).unwrap();
                prop_assert_eq!(&bytes[start..end], theirs.data());
            }
        }
    }
}
