//! Quantized tensors against what the gguf package and the formulas of the profiles make of them (fixtures/quantized.py).

use std::io::Read;
use std::path::Path;

use ciborium::Value;
use flate2::read::ZlibDecoder;
use ztensor_core::formats::Formats;
use ztensor_core::kernels::dequantize::{PIECE, without_parameters};
use ztensor_core::limits::Limits;
use ztensor_core::model::slice::Range;
use ztensor_core::model::{Attributes, DType};
use ztensor_core::open::detect;
use ztensor_core::read::Reading;
use ztensor_core::sources::file::FileSource;
use ztensor_core::syntax::json;
use ztensor_core::verify;
use ztensor_core::work::Watch;
use ztensor_core::write::{Settings, Spec, WriteFormat, Writer};

use crate::settings::settings;

/// A tensor, and what its elements are.
struct Case {
    layout: String,
    shape: Vec<u64>,
    attributes: Vec<(Value, Value)>,
    components: Vec<(String, DType, Vec<u8>)>,
    expected: Vec<u32>,
}

fn field<'v>(value: &'v Value, name: &str) -> &'v Value {
    let entries = value.as_map().unwrap();
    &entries.iter().find(|(key, _)| key.as_text() == Some(name)).unwrap().1
}

fn number(value: &Value) -> u64 {
    u64::try_from(value.as_integer().unwrap()).unwrap()
}

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../__test__/fixtures/quantized.bin");
    let file = std::fs::read(path).unwrap();
    let end = file.iter().position(|&byte| byte == b'\n').unwrap();
    let text = std::str::from_utf8(&file[..end]).unwrap();
    let mut payload = Vec::new();
    ZlibDecoder::new(&file[end + 1..]).read_to_end(&mut payload).unwrap();
    let mut payload = &payload[..];
    let mut take = |length: u64| payload.split_off(..usize::try_from(length).unwrap()).unwrap().to_vec();
    let head = json::Reader::new(text, 0).value(&mut 1_000_000).unwrap();
    let mut all = Vec::new();
    for case in field(&head, "cases").as_array().unwrap() {
        let components = field(case, "components").as_map().unwrap().iter().map(|(role, part)| {
            let dtype = field(part, "dtype").as_text();
            let dtype = DType::ALL.into_iter().find(|known| dtype == Some(known.name())).unwrap();
            (role.as_text().unwrap().to_owned(), dtype, take(number(field(part, "bytes"))))
        });
        let components = components.collect();
        all.push(Case {
            layout: field(case, "layout").as_text().unwrap().to_owned(),
            shape: field(case, "shape").as_array().unwrap().iter().map(number).collect(),
            attributes: field(case, "attributes").as_map().unwrap().clone(),
            components,
            expected: bits(&take(4 * number(field(case, "elements"))), f32::from_le_bytes),
        });
    }
    all
}

/// The bits of float32 numbers; any NaN is as good as another. `from`: the order of the bytes, which is little-endian in a file and that of
/// the host in a result of `dequantize`.
fn bits(bytes: &[u8], from: fn([u8; 4]) -> f32) -> Vec<u32> {
    let number = |bytes: &[u8; 4]| {
        let number = from(*bytes);
        if number.is_nan() { f32::NAN.to_bits() } else { number.to_bits() }
    };
    bytes.as_chunks::<4>().0.iter().map(number).collect()
}

/// An attribute that is not a parameter of any layout.
fn note() -> (Value, Value) {
    (Value::from("note"), Value::from("preserved"))
}

/// What is written of a case where the version has its types and its layout.
fn written(path: &Path, case: &Case) {
    // Version 2 registers no name for these, and 1.2 no word for some types.
    let unregistered = ["gguf.tq1_0/1", "gguf.tq2_0/1", "gguf.nvfp4/1"].contains(&&case.layout[..]);
    let format = if unregistered { WriteFormat::ZT12 } else { WriteFormat::ZT2 };
    let settings = Settings { alignment: 4096, ..settings(format) };
    let mut writer = Writer::create(path, settings).unwrap();
    let parts = case.components.iter();
    let components: Vec<_> =
        parts.map(|(role, dtype, bytes)| (&role[..], Some(*dtype), bytes.len() as u64)).collect();
    let attributes = case.attributes.iter().cloned().chain([note()]);
    let attributes = Attributes::from(attributes.collect::<Vec<_>>());
    let spec = Spec {
        name: "t",
        shape: &case.shape,
        layout: &case.layout,
        dtype: None,
        attributes: Some(&attributes),
        components: &components,
    };
    writer.begin(spec).unwrap();
    for (.., bytes) in &case.components {
        writer.push(bytes).unwrap();
    }
    writer.end().unwrap();
    writer.finish().unwrap();
}

#[test]
fn every_quantized_tensor_is_decoded_bit_for_bit_whole_and_in_part() {
    let path = std::env::temp_dir().join(format!("ztensor-dequantization-{}", std::process::id()));
    let cases = cases();
    assert!(cases.len() > 30);
    for (nth, case) in cases.iter().enumerate() {
        written(&path, case);
        let source = FileSource::open(&path).unwrap();
        let catalog = detect::parse(&source, Formats::default(), &Limits::default()).unwrap();
        let (limits, watch) = (Limits::default(), Watch::default());
        let reading = Reading { sources: &source, catalog: &catalog, limits: &limits, watch: &watch };
        assert!(verify::verify(reading, &[0]).unwrap().failures.is_empty());
        let tensor = catalog.tensor(0).unwrap();
        let what = format!("{nth} {} {:?}", case.layout, case.shape);
        assert!(
            bits(&reading.dequantize(tensor, None).unwrap(), f32::from_ne_bytes) == case.expected,
            "{what}"
        );
        assert_eq!(*without_parameters(tensor).unwrap().values().unwrap(), [note()], "{what}");
        // Without the first and the last of the outermost dimension, and of the innermost only the middle.
        let range_of = |(at, &dim): (usize, &u64)| {
            let inner = at + 1 == case.shape.len();
            let (start, stop) = if inner { (dim / 3, dim - dim / 4) } else { (dim / 2, dim) };
            Range { start, stop, step: 1 }
        };
        let ranges: Vec<Range> = case.shape.iter().enumerate().map(range_of).collect();
        let mut expected = case.expected.clone();
        let mut inside = 1;
        for (range, &dim) in ranges.iter().zip(&case.shape).rev() {
            let [start, stop, dim] = [range.start, range.stop, dim].map(|at| usize::try_from(at).unwrap());
            let rows = expected.chunks(dim * inside);
            expected = rows.flat_map(|row| &row[start * inside..stop * inside]).copied().collect();
            inside *= stop - start;
        }
        if !expected.is_empty() {
            let found = reading.dequantize(tensor, Some(&ranges)).unwrap();
            assert!(bits(&found, f32::from_ne_bytes) == expected, "{what} {ranges:?}");
        }
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn pieces_of_a_large_tensor_equal_the_whole() {
    let path = std::env::temp_dir().join(format!("ztensor-pieces-{}", std::process::id()));
    // Rows have blocks of their own here, so that three rows over and over are three results over and over.
    let mut case =
        cases().into_iter().find(|case| case.layout == "zt.mx/1" && case.shape == [3, 64]).unwrap();
    let times = PIECE / case.expected.len() + 10;
    case.shape[0] *= times as u64;
    case.components.iter_mut().for_each(|(.., bytes)| *bytes = bytes.repeat(times));
    written(&path, &case);
    let source = FileSource::open(&path).unwrap();
    let catalog = detect::parse(&source, Formats::default(), &Limits::default()).unwrap();
    let (limits, watch) = (Limits::default(), Watch::default());
    let reading = Reading { sources: &source, catalog: &catalog, limits: &limits, watch: &watch };
    let found = reading.dequantize(catalog.tensor(0).unwrap(), None).unwrap();
    let found = bits(&found, f32::from_ne_bytes);
    assert!(found.len() > PIECE && found == case.expected.repeat(times));
    std::fs::remove_file(path).unwrap();
}
