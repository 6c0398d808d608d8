//! What the writer writes, the reader reads: every format, encoding and digest, on small files.

use std::path::{Path, PathBuf};

use ztensor_core::codecs::digest::Algorithm;
use ztensor_core::error::{Code, Result};
use ztensor_core::formats::Formats;
use ztensor_core::limits::Limits;
use ztensor_core::model::{Catalog, DType, Encoding, Layout};
use ztensor_core::open::detect;
use ztensor_core::read::Reading;
use ztensor_core::sources::owned::Owned;
use ztensor_core::verify;
use ztensor_core::work::{Stop, Watch};
use ztensor_core::write::sparse::{Array, IndexTypes, OwnedArray, Sparse};
use ztensor_core::write::{Compression, Settings, Spec, WriteFormat, Writer};

use crate::settings::settings;

const ALL: [&WriteFormat; 5] =
    [WriteFormat::ZT01, WriteFormat::ZT10, WriteFormat::ZT12, WriteFormat::SAFETENSORS, WriteFormat::BTF];

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("ztensor-writer-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

struct TestTensor {
    name: String,
    shape: Vec<u64>,
    layout: &'static str,
    dtype: DType,
    components: Vec<(&'static str, Option<DType>, u64)>,
}

impl TestTensor {
    fn spec(&self) -> Spec<'_> {
        Spec {
            name: &self.name,
            shape: &self.shape,
            layout: self.layout,
            dtype: Some(self.dtype),
            attributes: None,
            components: &self.components,
        }
    }
}

fn dense(name: &str, shape: &[u64], dtype: DType, bytes: usize) -> TestTensor {
    let components = vec![("data", Some(dtype), bytes as u64)];
    TestTensor { name: name.to_owned(), shape: shape.to_vec(), layout: "dense", dtype, components }
}

/// Writes tensors in pieces of three bytes and gives the file's bytes.
fn written(folder: &Path, settings: Settings, tensors: &[(TestTensor, Vec<u8>)]) -> Vec<u8> {
    let path = folder.join("file");
    let mut writer = Writer::create(&path, settings).unwrap();
    for (given, bytes) in tensors {
        writer.begin(given.spec()).unwrap();
        for piece in bytes.chunks(3) {
            writer.push(piece).unwrap();
        }
        writer.end().unwrap();
        writer.flush_if_full().unwrap();
    }
    writer.finish().unwrap();
    std::fs::read(path).unwrap()
}

fn read_back(bytes: &[u8]) -> Catalog {
    let catalog = detect::parse(&bytes, Formats::default(), &Limits::default()).unwrap();
    let (limits, watch) = (Limits::default(), Watch::default());
    let reading = Reading { sources: &bytes, catalog: &catalog, limits: &limits, watch: &watch };
    let ordinals: Vec<u32> = (0..).take(catalog.len()).collect();
    let outcome = verify::verify(reading, &ordinals).unwrap();
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    assert!(catalog.warnings.is_empty(), "{:?}", catalog.warnings);
    catalog
}

fn load(bytes: &[u8], catalog: &Catalog, name: &str, component: usize) -> Vec<u8> {
    let (limits, watch) = (Limits::default(), Watch::default());
    let reading = Reading { sources: &bytes, catalog, limits: &limits, watch: &watch };
    let tensor = catalog.tensor(catalog.find(name).unwrap()).unwrap();
    reading.component(tensor, &tensor.components()[component]).unwrap().to_vec()
}

#[test]
fn dense_tensors_round_trip_in_every_format() {
    let folder = folder("dense");
    let ramp: Vec<u8> = (0..=255).cycle().take(4000).collect();
    for format in ALL {
        for digest in [None, Some(Algorithm::Crc32c), Some(Algorithm::Sha256)] {
            for level in [None, Some(3)] {
                if (digest.is_some() || level.is_some())
                    && [WriteFormat::SAFETENSORS, WriteFormat::BTF].contains(&format)
                {
                    continue;
                }
                let compression =
                    level.map(|level| Compression { level, min_savings: 0.1, threads: 2, frame: 1 << 20 });
                let tensors = [
                    (dense("0", &[], DType::Int8, 1), vec![7]),
                    (dense("1", &[10, 100], DType::Float32, 4000), ramp.clone()),
                    (dense("2", &[2, 0], DType::Float64, 0), vec![]),
                    (dense("3", &[3], DType::Int16, 6), vec![1, 0, 2, 0, 3, 0]),
                ];
                let bytes = written(&folder, Settings { digest, compression, ..settings(format) }, &tensors);
                let again = written(&folder, Settings { digest, compression, ..settings(format) }, &tensors);
                assert_eq!(bytes, again, "{format:?} is not reproducible");
                let catalog = read_back(&bytes);
                for (spec, data) in &tensors {
                    let tensor = catalog.tensor(catalog.find(&spec.name).unwrap()).unwrap();
                    assert_eq!(
                        (tensor.shape(), tensor.dtype()),
                        (&spec.shape[..], Some(spec.dtype)),
                        "{format:?}"
                    );
                    assert_eq!(load(&bytes, &catalog, &spec.name, 0), *data, "{format:?} {}", spec.name);
                    let digested = tensor.components()[0].digest().is_some();
                    assert_eq!(digested, digest.is_some(), "{format:?} {}", spec.name);
                }
                let packed = catalog.tensor(catalog.find("1").unwrap()).unwrap().components()[0].encoding();
                assert_eq!(
                    packed,
                    if level.is_some() { Encoding::ZSTD } else { Encoding::RAW },
                    "{format:?}"
                );
            }
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// The bytes of a file with this one sparse tensor of float32.
fn sparse(
    folder: &Path,
    format: &'static WriteFormat,
    shape: &[u64],
    arrays: &[(DType, &[u8])],
) -> Result<Vec<u8>> {
    let (path, stop) = (folder.join("sparse"), Stop::default());
    let mut writer = Writer::create(&path, settings(format))?;
    let given = arrays.iter().map(|&(dtype, bytes)| {
        Box::new(OwnedArray::new(dtype, Owned::from(bytes.to_vec()))) as Box<dyn Array>
    });
    let (layout, name) = match arrays.len() {
        3 => (Layout::SparseCsr, "sparse_csr"),
        _ => (Layout::SparseCoo, "sparse_coo"),
    };
    let tensor = Sparse::checked(layout, shape, given.collect(), format == WriteFormat::ZT2, &stop)?;
    let arranged =
        tensor.strict(format, None, &|| writer.spool(), &stop)?.arranged(format, IndexTypes::Default);
    writer.begin(Spec {
        name: "0",
        shape,
        layout: name,
        dtype: Some(DType::Float32),
        attributes: None,
        components: &arranged.components(),
    })?;
    arranged.push_all(&mut writer, &stop)?;
    writer.end()?;
    writer.finish()?;
    Ok(std::fs::read(path).unwrap())
}

/// The array of a role in that file.
fn array(bytes: &[u8], catalog: &Catalog, role: &str) -> Vec<u8> {
    let tensor = catalog.tensor(catalog.find("0").unwrap()).unwrap();
    let component = tensor.components().iter().position(|part| catalog.label(part.role) == role).unwrap();
    load(bytes, catalog, "0", component)
}

fn le(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn narrow(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn sparse_tensors_round_trip_in_formats_that_support_them() {
    let folder = folder("sparse");
    let values = floats(&[1.5, -2.0, 3.25]);
    let (indices, indptr, coords) = (narrow(&[0, 2, 1]), narrow(&[0, 2, 3]), narrow(&[0, 0, 1, 0, 2, 1]));
    let (wide, wide_coords) = ([le(&[0, 2, 1]), le(&[0, 2, 3])], le(&[0, 0, 1, 0, 2, 1]));
    for format in [WriteFormat::ZT01, WriteFormat::ZT10, WriteFormat::ZT12, WriteFormat::ZT2] {
        let arrays =
            [(DType::Float32, &values[..]), (DType::Uint32, &indices[..]), (DType::Uint32, &indptr[..])];
        let bytes = sparse(&folder, format, &[2, 3], &arrays).unwrap();
        let catalog = read_back(&bytes);
        // Version 2 has them as narrow as they came.
        let [columns, pointers] =
            if format == WriteFormat::ZT2 { [&indices, &indptr] } else { [&wide[0], &wide[1]] };
        for (role, expected) in [("values", &values), ("indices", columns), ("indptr", pointers)] {
            assert_eq!(array(&bytes, &catalog, role), *expected, "{format:?} {role}");
        }
    }
    for format in
        [WriteFormat::ZT01, WriteFormat::ZT10, WriteFormat::ZT12, WriteFormat::ZT2, WriteFormat::BTF]
    {
        let arrays = [(DType::Float32, &values[..]), (DType::Uint32, &coords[..])];
        let bytes = sparse(&folder, format, &[2, 3], &arrays).unwrap();
        let catalog = read_back(&bytes);
        let places = if format == WriteFormat::ZT2 { &coords } else { &wide_coords };
        for (role, expected) in [("values", &values), ("coords", places)] {
            assert_eq!(array(&bytes, &catalog, role), *expected, "{format:?} {role}");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn version_2_sorts_rows_and_rejects_duplicate_cells() {
    let folder = folder("strict");
    let values = floats(&[1.5, -2.0, 3.25]);
    let f32s = (DType::Float32, &values[..]);
    let indptr = narrow(&[0, 2, 3]);
    let (falling, twice) = (narrow(&[2, 0, 1]), narrow(&[2, 2, 1]));
    let csr = |indices| [f32s, (DType::Uint32, indices), (DType::Uint32, &indptr[..])];
    let bytes = sparse(&folder, WriteFormat::ZT2, &[2, 3], &csr(&falling)).unwrap();
    let catalog = read_back(&bytes);
    assert_eq!(array(&bytes, &catalog, "indices"), narrow(&[0, 2, 1]));
    assert_eq!(array(&bytes, &catalog, "values"), floats(&[-2.0, 1.5, 3.25]));
    let same_cell = narrow(&[0, 0, 1, 1, 1, 2]);
    let coo = [f32s, (DType::Uint32, &same_cell[..])];
    for arrays in [&csr(&twice)[..], &coo] {
        assert_eq!(sparse(&folder, WriteFormat::ZT2, &[2, 3], arrays).unwrap_err().code(), Code::BadSparse);
        assert!(sparse(&folder, WriteFormat::ZT10, &[2, 3], arrays).is_ok());
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// An array and the type of its elements.
type Typed<'a> = (DType, &'a [u8]);

fn f32s(bytes: &[u8]) -> Typed<'_> {
    (DType::Float32, bytes)
}

fn u32s(bytes: &[u8]) -> Typed<'_> {
    (DType::Uint32, bytes)
}

#[test]
fn invalid_sparse_tensors_are_rejected() {
    let folder = folder("no-sparse");
    let (three, two) = (floats(&[1.0, 2.0, 3.0]), floats(&[1.0, 2.0]));
    let (indices, indptr) = (narrow(&[0, 2, 1]), narrow(&[0, 2, 3]));
    let (outside, falling, short, later) =
        (narrow(&[0, 3, 1]), narrow(&[0, 4, 3]), narrow(&[0, 3]), narrow(&[1, 2, 3]));
    let negative: Vec<u8> = [0_i32, -1, 1].iter().flat_map(|index| index.to_le_bytes()).collect();
    let cases: [(&[u64], Vec<Typed<'_>>, Code); 12] = [
        (&[2, 3], vec![f32s(&two), u32s(&indices), u32s(&indptr)], Code::BadSparse),
        (&[2, 3], vec![f32s(&three[..11]), u32s(&indices), u32s(&indptr)], Code::BadSparse),
        (&[2, 3], vec![f32s(&three), u32s(&indices[..11]), u32s(&indptr)], Code::BadSparse),
        (&[2, 3], vec![f32s(&three), u32s(&outside), u32s(&indptr)], Code::BadSparse),
        (&[2, 3], vec![f32s(&three), (DType::Int32, &negative), u32s(&indptr)], Code::BadSparse),
        (&[2, 3], vec![f32s(&three), u32s(&indices), u32s(&falling)], Code::BadSparse),
        (&[2, 3], vec![f32s(&three), u32s(&indices), u32s(&short)], Code::BadSparse),
        (&[2, 3], vec![f32s(&three), u32s(&indices), u32s(&later)], Code::BadSparse),
        (&[2, 3], vec![f32s(&three), f32s(&indices), u32s(&indptr)], Code::BadDtype),
        (&[2, 3, 1], vec![f32s(&three), u32s(&indices), u32s(&indptr)], Code::BadLayout),
        (&[2, 3], vec![f32s(&three), u32s(&indices)], Code::BadSparse),
        (&[3], vec![f32s(&three), u32s(&outside)], Code::BadSparse),
    ];
    for (at, (shape, arrays, code)) in cases.iter().enumerate() {
        for format in [WriteFormat::ZT10, WriteFormat::ZT2] {
            let refused = sparse(&folder, format, shape, arrays).unwrap_err();
            assert_eq!(refused.code(), *code, "{at} {format:?}: {refused}");
        }
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "something was left behind");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn invalid_tensors_are_rejected() {
    let folder = folder("refused");
    let path = folder.join("file");
    let mut writer = Writer::create(&path, settings(WriteFormat::ZT10)).unwrap();
    let code = |result: Result<()>| result.unwrap_err().code();
    assert_eq!(code(writer.begin(dense("a", &[2], DType::Float32, 7).spec())), Code::BadShape);
    assert_eq!(code(writer.begin(dense("a", &[1], DType::Complex64, 8).spec())), Code::BadDtype);
    assert_eq!(code(writer.begin(dense("a", &[1 << 60, 1 << 60], DType::Int8, 8).spec())), Code::Limit);
    assert_eq!(code(writer.end()), Code::InvalidArg);
    writer.begin(dense("a", &[2], DType::Int8, 2).spec()).unwrap();
    assert_eq!(code(writer.begin(dense("b", &[2], DType::Int8, 2).spec())), Code::InvalidArg);
    writer.push(&[1]).unwrap();
    assert_eq!(code(writer.push(&[2, 3])), Code::BadShape);
    writer.end().unwrap();
    assert_eq!(code(writer.begin(dense("a", &[2], DType::Int8, 2).spec())), Code::BadIndex);
    writer.begin(dense("c", &[2], DType::Int8, 2).spec()).unwrap();
    assert_eq!(code(writer.end()), Code::BadShape);
    drop(writer);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "something was left behind");
    std::fs::remove_dir_all(folder).unwrap();
}

#[cfg(target_os = "linux")]
mod by_the_kernel {
    use std::sync::atomic::{AtomicU32, Ordering};

    use ztensor_core::convert;
    use ztensor_core::error::{Error, Result};
    use ztensor_core::sources::ReadAt;
    use ztensor_core::sources::file::FileSource;

    use super::*;

    /// A file whose length changes after it was read: another process truncates it while the kernel copies from it.
    struct TensorSlice {
        source: FileSource,
        shorter: bool,
        looks: AtomicU32,
    }

    impl ReadAt for TensorSlice {
        fn length(&self) -> u64 {
            self.source.length()
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
            self.source.read_at(offset, buffer, stop)
        }

        fn local(&self) -> Option<&FileSource> {
            self.source.local()
        }

        fn check_length(&self) -> Result<()> {
            self.looks.fetch_add(1, Ordering::Relaxed);
            if self.shorter { Err(Error::new(Code::Truncated, "truncated")) } else { Ok(()) }
        }
    }

    #[test]
    fn a_file_truncated_during_a_kernel_copy_is_rejected() {
        let folder = folder("truncated");
        let bytes = vec![7; 20 << 20];
        let whole = (dense("t", &[bytes.len() as u64], DType::Int8, bytes.len()), bytes);
        let path = folder.join("source");
        std::fs::write(&path, written(&folder, settings(WriteFormat::ZT10), &[whole])).unwrap();
        for truncated in [false, true] {
            let source = FileSource::open(&path).unwrap();
            let catalog = detect::parse(&source, Formats::default(), &Limits::default()).unwrap();
            let source = TensorSlice { source, shorter: truncated, looks: AtomicU32::new(0) };
            let (limits, watch) = (Limits::default(), Watch::default());
            let reading = Reading { sources: &source, catalog: &catalog, limits: &limits, watch: &watch };
            let mut writer = Writer::create(&folder.join("target"), settings(WriteFormat::ZT10)).unwrap();
            let tensor = catalog.tensor(0).unwrap();
            let casts = convert::Casts::new(Vec::new()).unwrap();
            let copied = convert::copy(reading, tensor, "t", &casts, &mut writer);
            assert_eq!(copied.err().map(|error| error.code()), truncated.then_some(Code::Truncated));
            // The length is checked after each piece of at most 8 MiB.
            let looks = source.looks.load(Ordering::Relaxed);
            assert!(if truncated { looks == 1 } else { looks >= 3 }, "{looks}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
