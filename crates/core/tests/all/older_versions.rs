//! Indexes of versions before 2.

use ciborium::Value;
use ztensor_core::edit::Edit;
use ztensor_core::error::Code;
use ztensor_core::formats::Formats;
use ztensor_core::limits::Limits;
use ztensor_core::model::{Catalog, DType, Label, Layout};
use ztensor_core::open::detect;
use ztensor_core::sources::file::FileSource;
use ztensor_core::write::{Spec, WriteFormat, Writer};

use crate::settings::settings;

fn map<const N: usize>(entries: [(&str, Value); N]) -> Vec<(Value, Value)> {
    entries.into_iter().map(|(key, value)| (key.into(), value)).collect()
}

fn numbers(numbers: &[u64]) -> Value {
    Value::Array(numbers.iter().map(|&number| number.into()).collect())
}

/// A file with this index behind the data, which ends at 192.
fn file(magic: &[u8], index: &Value, end: &[u8]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.resize(64 + 128, 0);
    let mut encoded = Vec::new();
    ciborium::into_writer(index, &mut encoded).unwrap();
    bytes.extend_from_slice(&encoded);
    bytes.extend_from_slice(&(encoded.len() as u64).to_le_bytes());
    bytes.extend_from_slice(end);
    bytes
}

/// The catalog of such a file.
fn parsed(magic: &[u8], index: &Value, end: &[u8]) -> Catalog {
    let bytes = file(magic, index, end);
    detect::parse(&bytes.as_slice(), Formats::default(), &Limits::default()).unwrap()
}

/// The catalog of a file of version 0.1 with this tensor.
fn zt01(offset: u64, size: u64, layout: &str, more: Vec<(Value, Value)>) -> Catalog {
    let mut fields = map([
        ("name", "t".into()),
        ("shape", numbers(&[2, 3])),
        ("dtype", "float32".into()),
        ("encoding", "raw".into()),
        ("layout", layout.into()),
        ("offset", offset.into()),
        ("size", size.into()),
    ]);
    fields.extend(more);
    parsed(b"ZTEN0001", &Value::Array(vec![Value::Map(fields)]), b"")
}

#[test]
fn a_sparse_tensor_is_read_from_custom_fields() {
    let coords = Value::Array(vec![numbers(&[0, 1]), numbers(&[1, 2])]);
    let fields = map([("note", 5.into()), ("sparse_format", "coo".into()), ("indices", coords)]);
    let catalog = zt01(64, 8, "sparse", fields);
    let tensor = catalog.tensor(0).unwrap();
    assert_eq!(tensor.layout(), Layout::SparseCoo);
    let coords = tensor.component(Label::COORDS).unwrap();
    assert_eq!((coords.dtype, coords.byte_length()), (Some(DType::Uint64), Some(32)));
    assert_eq!(*tensor.attributes().unwrap().values().unwrap(), map([("note", 5.into())]));
}

#[test]
fn unaligned_data_is_a_warning_unless_empty() {
    let codes = |offset, size: u64| {
        let mut catalog = zt01(offset, 24, "dense", Vec::new());
        if size == 0 {
            catalog = zt01(offset, 0, "unknown", Vec::new());
        }
        let codes = catalog.warnings.iter().map(|warning| warning.code);
        codes.filter(|&code| code == "ZT_WARN_UNALIGNED").count()
    };
    assert_eq!([codes(64, 24), codes(72, 24), codes(72, 0)], [0, 1, 0]);
}

#[test]
fn dtypes_spelled_as_in_11_are_read() {
    for (text, dtype, bytes) in [
        ("f8_e4m3", DType::Float8E4M3Fn, 1_u64),
        ("f8_e5m2", DType::Float8E5M2, 1),
        ("complex64", DType::Complex64, 8),
        ("complex128", DType::Complex128, 16),
    ] {
        let data = map([("dtype", text.into()), ("offset", 64.into()), ("length", (3 * bytes).into())]);
        let components = Value::Map(map([("data", Value::Map(data))]));
        let object = map([("shape", numbers(&[3])), ("format", "dense".into()), ("components", components)]);
        let objects = Value::Map(map([("t", Value::Map(object))]));
        let root = Value::Map(map([("version", "1.1.0".into()), ("objects", objects)]));
        let catalog = parsed(b"ZTEN1000", &root, b"ZTEN1000");
        assert_eq!(catalog.tensor(0).unwrap().dtype(), Some(dtype), "{text}");
    }
}

#[test]
fn every_dtype_of_12_round_trips() {
    let path = std::env::temp_dir().join(format!("ztensor-older-versions-{}", std::process::id()));
    let further = [
        DType::Float8E4M3Fn,
        DType::Float8E5M2,
        DType::Float8E4M3Fnuz,
        DType::Float8E5M2Fnuz,
        DType::Complex64,
        DType::Complex128,
    ];
    for dtype in DType::ALL[..13].iter().copied().chain(further) {
        let bytes = vec![0; usize::try_from(dtype.bits()).unwrap() / 8 * 3];
        let mut writer = Writer::create(&path, settings(WriteFormat::ZT12)).unwrap();
        let components = [("data", Some(dtype), bytes.len() as u64)];
        let spec = Spec {
            name: "t",
            shape: &[3],
            layout: "dense",
            dtype: Some(dtype),
            attributes: None,
            components: &components,
        };
        writer.add(spec, &bytes).unwrap();
        writer.finish().unwrap();
        let source = FileSource::open(&path).unwrap();
        let catalog = detect::parse(&source, Formats::default(), &Limits::default()).unwrap();
        assert_eq!(catalog.tensor(0).unwrap().dtype(), Some(dtype));
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn an_unsupported_version_outranks_other_errors() {
    for (version, expected) in [("2.0.0", Code::UnsupportedVersion), ("1.0.0", Code::BadIndex)] {
        let root = Value::Map(map([("version", version.into()), ("objects", 5.into())]));
        let bytes = file(b"ZTEN1000", &root, b"ZTEN1000");
        let error = detect::parse(&bytes.as_slice(), Formats::default(), &Limits::default()).unwrap_err();
        assert_eq!(error.code(), expected, "{error}");
    }
}

#[test]
fn components_of_any_role_need_a_supported_dtype() {
    let path = std::env::temp_dir().join(format!("ztensor-older-versions-role-{}", std::process::id()));
    for role in ["coords", "data", "other"] {
        let mut writer = Writer::create(&path, settings(WriteFormat::ZT10)).unwrap();
        let components = [(role, Some(DType::Float8E4M3Fn), 3)];
        let (shape, components) = (&[3][..], &components[..]);
        let spec = Spec { name: "t", shape, layout: "own", dtype: None, attributes: None, components };
        let error = writer.add(spec, &[0; 3]).unwrap_err();
        assert_eq!(
            (error.code(), error.message()),
            (Code::BadDtype, "zTensor 1.0 cannot hold float8_e4m3fn")
        );
    }
}

#[test]
fn the_attribute_of_recorded_dtypes_is_reserved_in_10() {
    let path = std::env::temp_dir().join(format!("ztensor-older-versions-reserved-{}", std::process::id()));
    let attributes = map([("ztensor:dtypes", 5.into())]).into();
    let components = [("q", Some(DType::Float16), 4)];
    let spec = Spec {
        name: "t",
        shape: &[2],
        layout: "own",
        dtype: None,
        attributes: Some(&attributes),
        components: &components,
    };
    let mut writer = Writer::create(&path, settings(WriteFormat::ZT10)).unwrap();
    assert_eq!(writer.add(spec, &[0; 4]).unwrap_err().code(), Code::InvalidArg);
    drop(writer);
    let mut writer = Writer::create(&path, settings(WriteFormat::ZT10)).unwrap();
    writer.add(Spec { attributes: None, ..spec }, &[0; 4]).unwrap();
    writer.finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let mut edit = Edit::open(&bytes.as_slice(), Formats::default(), &Limits::default()).unwrap();
    for value in [None, Some(5.into())] {
        let error = edit.tensor_attributes("t", vec![("ztensor:dtypes".into(), value)]).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArg);
    }
    edit.tensor_attributes("t", vec![("note".into(), Some(5.into()))]).unwrap();
}
