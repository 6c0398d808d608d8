//! Data larger than a block, lists longer than their limit, and tensors beyond the end of the file.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

use ztensor_core::analysis::stats;
use ztensor_core::error::{Code, Error};
use ztensor_core::limits::Limits;
use ztensor_core::model::{Builder, Catalog, Component, Container, DType, Label, Layout, NewTensor};
use ztensor_core::read::Reading;
use ztensor_core::sinks::AtomicFile;
use ztensor_core::verify::Outcome;
use ztensor_core::work::Watch;

/// A tensor of one dimension at the start of a file.
fn catalog(dtype: DType, elements: u64, limits: &Limits) -> Catalog {
    let mut builder = Builder::new(Container::named("safetensors"), limits);
    let bytes = elements * u64::from(dtype.bits()) / 8;
    let components = vec![Component::raw(Label::DATA, Some(dtype), 0, bytes)];
    let (layout, dtype) = (Layout::Dense, Some(dtype));
    builder
        .add_tensor(NewTensor { name: "t", shape: &[elements], layout, dtype, components, attributes: None })
        .unwrap();
    builder.finish()
}

fn with(bytes: &[u8], dtype: DType, elements: u64, work: impl FnOnce(Reading<'_>)) {
    let limits = Limits { max_decoded_bytes: u64::MAX, ..Limits::default() };
    let (catalog, watch) = (catalog(dtype, elements, &limits), Watch::default());
    work(Reading { sources: &bytes, catalog: &catalog, limits: &limits, watch: &watch });
}

#[test]
fn statistics_cover_all_blocks() {
    let bytes: Vec<u8> = (0..5000_u32).flat_map(|at| f64::from(at).to_le_bytes()).collect();
    with(&bytes, DType::Float64, 5000, |reading| {
        let found = reading.stats(reading.catalog.tensor(0).unwrap(), &stats::Request::default()).unwrap();
        assert_eq!((found.count, found.min, found.max), (5000, 0.0, 4999.0));
        assert!((found.mean - 2499.5).abs() < 1e-9, "{}", found.mean);
    });
}

#[test]
fn elements_of_one_byte_are_widened_in_several_steps() {
    let bytes: Vec<u8> = (0..3_000_001_u32).map(|at| (at * 7 / 5).to_le_bytes()[0]).collect();
    with(&bytes, DType::Uint8, bytes.len() as u64, |reading| {
        let tensor = reading.catalog.tensor(0).unwrap();
        let component = tensor.component(Label::DATA).unwrap();
        let found = reading.float32(tensor, component, None, DType::Uint8, bytes.len() as u64).unwrap();
        let expected = bytes.iter().map(|&byte| f32::from(byte));
        assert!(found.as_chunks::<4>().0.iter().map(|&four| f32::from_ne_bytes(four)).eq(expected));
    });
}

#[test]
fn a_truncated_file_allocates_no_memory() {
    with(&[0; 100], DType::Uint8, 1 << 50, |reading| {
        let tensor = reading.catalog.tensor(0).unwrap();
        let component = tensor.component(Label::DATA).unwrap();
        let error = reading.component(tensor, component).map(|bytes| bytes.len()).unwrap_err();
        assert_eq!(error.code(), Code::Truncated, "{error}");
    });
}

#[test]
fn the_total_length_of_listed_failures_is_limited() {
    let failed = |names: &[usize]| {
        let mut outcome = Outcome::default();
        for &length in names {
            outcome.fail(Error::new(Code::BadDigest, "other bytes").tensor(&"n".repeat(length)));
        }
        (outcome.failed, outcome.failures.len())
    };
    assert_eq!(failed(&[3000, 3000, 3000]), (3, 3));
    assert_eq!(failed(&[3 << 20, 2 << 20, 5]), (3, 2));
}

#[test]
fn copy_pieces_copies_the_requested_range() {
    let path =
        |name: &str| std::env::temp_dir().join(format!("ztensor-boundaries-{name}-{}", std::process::id()));
    let (from, to) = (path("from"), path("to"));
    // Zeros except for some bytes, so that it takes little space.
    let source = File::create_new(&from).unwrap();
    source.set_len(200 << 20).unwrap();
    for at in [5, 64 << 20, (64 << 20) + 5, 128 << 20, (129 << 20) + 4] {
        let mut source = &source;
        source.seek(SeekFrom::Start(at)).unwrap();
        source.write_all(&at.to_be_bytes()[4..]).unwrap();
    }
    let mut file = AtomicFile::create(&to, true).unwrap();
    file.copy_pieces(&File::open(&from).unwrap(), 5, 129 << 20, |_| Ok(())).unwrap();
    file.commit().unwrap();
    let copied = std::fs::read(&to).unwrap();
    assert_eq!(copied.len(), 129 << 20);
    assert!(copied == std::fs::read(&from).unwrap()[5..][..129 << 20]);
    for path in [from, to] {
        std::fs::remove_file(path).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_new_file_has_default_permissions() {
    use std::os::unix::fs::PermissionsExt;

    let path =
        |name: &str| std::env::temp_dir().join(format!("ztensor-boundaries-{name}-{}", std::process::id()));
    let (default, ours) = (path("usual"), path("ours"));
    std::fs::write(&default, b"").unwrap();
    AtomicFile::create(&ours, false).unwrap().commit().unwrap();
    let [expected, found] = [&default, &ours].map(|path| path.metadata().unwrap().permissions().mode());
    assert_eq!(found, expected, "{found:o}");
    for path in [default, ours] {
        std::fs::remove_file(path).unwrap();
    }
}
