//! Sparse tensors that do not lie in memory, of more elements than are handled at a time.

use std::borrow::Cow;
use std::path::PathBuf;

use ztensor_core::analysis::elements::Elements;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::Formats;
use ztensor_core::layouts::csr::Csr;
use ztensor_core::layouts::indices::Indices;
use ztensor_core::limits::Limits;
use ztensor_core::model::{
    Builder, Catalog, Component, Container, DType, DataRule, Label, Layout, NewTensor,
};
use ztensor_core::open::detect;
use ztensor_core::read::Reading;
use ztensor_core::sources::file::FileSource;
use ztensor_core::sources::owned::Owned;
use ztensor_core::verify;
use ztensor_core::work::{Stop, Watch};
use ztensor_core::write::sparse::{Array, IndexTypes, OwnedArray, Sparse};
use ztensor_core::write::{Settings, Spec, WriteFormat, Writer};

/// Elements that the writer handles at a time: of a row that is sorted, and of all else.
const CHUNK: u64 = 1 << 20;
const BLOCK: u64 = 64 << 10;

/// An array that is somewhere else: no more than a chunk of it is asked for at once.
struct Far(DType, Vec<u8>);

impl Array for Far {
    fn dtype(&self) -> DType {
        self.0
    }

    fn length(&self) -> u64 {
        self.1.len() as u64
    }

    fn read(&self, first: u64, count: u64) -> Result<Cow<'_, [u8]>> {
        assert!(count <= CHUNK, "{count} elements at once");
        let bits = u64::from(self.0.bits());
        let [start, end] = [first * bits / 8, ((first + count) * bits).div_ceil(8)];
        let range = usize::try_from(start).unwrap()..usize::try_from(end).unwrap();
        self.1.get(range).map(Cow::Borrowed).ok_or_else(|| Error::new(Code::Internal, "a block outside"))
    }
}

/// Makes an array of bytes.
type Put = fn(DType, Vec<u8>) -> Box<dyn Array>;

fn far(dtype: DType, bytes: Vec<u8>) -> Box<dyn Array> {
    Box::new(Far(dtype, bytes))
}

fn held(dtype: DType, bytes: Vec<u8>) -> Box<dyn Array> {
    Box::new(OwnedArray::new(dtype, Owned::from(bytes)))
}

fn u16s(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers.into_iter().flat_map(|number| u16::try_from(number % 65_521).unwrap().to_le_bytes()).collect()
}

fn u32s(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers.into_iter().flat_map(|number| u32::try_from(number).unwrap().to_le_bytes()).collect()
}

fn u64s(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// Arrays by their roles.
type Arrays = Vec<(String, DType, Vec<u8>)>;

/// Writes the tensor, and gives its arrays as they are in the file.
fn written(
    name: &str,
    format: &'static WriteFormat,
    shape: &[u64],
    arrays: Vec<Box<dyn Array>>,
    (promised, widths): (Option<DataRule>, IndexTypes),
) -> Result<Arrays> {
    let path: PathBuf = std::env::temp_dir().join(format!("ztensor-sparse-{name}-{}", std::process::id()));
    let stop = Stop::default();
    let settings = Settings { stop: stop.clone(), ..crate::settings::settings(format) };
    let mut writer = Writer::create(&path, settings)?;
    let (layout, layout_name) =
        if arrays.len() == 3 { (Layout::SparseCsr, "sparse_csr") } else { (Layout::SparseCoo, "sparse_coo") };
    let dtype = Some(arrays[0].dtype());
    let tensor = Sparse::checked(layout, shape, arrays, false, &stop)?;
    let arranged = tensor.strict(format, promised, &|| writer.spool(), &stop)?.arranged(format, widths);
    let components = arranged.components();
    let spec =
        Spec { name: "0", shape, layout: layout_name, dtype, attributes: None, components: &components };
    writer.begin(spec)?;
    arranged.push_all(&mut writer, &stop)?;
    writer.end()?;
    writer.finish()?;
    let source = FileSource::open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let catalog = detect::parse(&source, Formats::default(), &Limits::default()).unwrap();
    let (limits, watch) = (Limits::default(), Watch::default());
    let reading = Reading { sources: &source, catalog: &catalog, limits: &limits, watch: &watch };
    assert!(verify::verify(reading, &[0]).unwrap().failures.is_empty());
    let tensor = catalog.tensor(0).unwrap();
    let array = |part: &Component| {
        let role = catalog.label(part.role).to_owned();
        (role, part.dtype.unwrap(), reading.component(tensor, part).unwrap().to_vec())
    };
    Ok(tensor.components().iter().map(array).collect())
}

fn array<'a>(arrays: &'a Arrays, role: &str) -> (DType, &'a [u8]) {
    let (_, dtype, bytes) = arrays.iter().find(|(name, ..)| name == role).unwrap();
    (*dtype, bytes)
}

const DEFAULT: (Option<DataRule>, IndexTypes) = (None, IndexTypes::Default);

/// A row's columns, in no order: a step that shares no divisor with the modulus meets each number once.
fn scattered(count: u64, modulus: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |at| (at * 1_000_003 + 17) % modulus)
}

const COLUMNS: u64 = 5_000_011;

/// The lengths of rows: empty ones, short ones, more than a block of them, ones that fill a chunk and one that is longer.
fn row_lengths() -> Vec<u64> {
    let mut lengths = vec![0, 0, 3, 1, 0, 40_000, 2];
    lengths.extend((0..BLOCK + 10).map(|at| u64::from(at % 7 == 3)));
    lengths.extend([CHUNK - 1, CHUNK, 5, CHUNK + BLOCK + 1, 0, 7, 0]);
    lengths
}

/// Columns and values of those rows, and the same with rising columns.
fn rows(lengths: &[u64]) -> [Vec<u64>; 4] {
    let (mut columns, mut values, mut rising, mut moved) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for &length in lengths {
        let start = values.len() as u64;
        let mut row: Vec<(u64, u64)> = scattered(length, COLUMNS).zip(start..).collect();
        columns.extend(row.iter().map(|pair| pair.0));
        values.extend(row.iter().map(|pair| pair.1));
        row.sort_unstable();
        rising.extend(row.iter().map(|pair| pair.0));
        moved.extend(row.iter().map(|pair| pair.1));
    }
    [columns, values, rising, moved]
}

fn pointers(lengths: &[u64]) -> Vec<u64> {
    std::iter::once(0)
        .chain(lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        }))
        .collect()
}

#[test]
fn rows_are_sorted_in_memory_and_in_files() {
    let lengths = row_lengths();
    let [columns, values, rising, moved] = rows(&lengths);
    let ends = pointers(&lengths);
    let shape = [lengths.len() as u64, COLUMNS];
    for put in [far, held] {
        let given = vec![
            put(DType::Uint16, u16s(values.iter().copied())),
            put(DType::Uint32, u32s(columns.iter().copied())),
            put(DType::Uint64, u64s(ends.iter().copied())),
        ];
        let found = written("rows", WriteFormat::ZT2, &shape, given, DEFAULT).unwrap();
        assert!(array(&found, "values").1 == u16s(moved.iter().copied()));
        assert!(array(&found, "indices") == (DType::Uint64, &u64s(rising.iter().copied())[..]));
        assert!(array(&found, "indptr") == (DType::Uint64, &u64s(ends.iter().copied())[..]));
    }
    // What rises already stays, and so does all where nothing has to rise.
    let lengths = &lengths[..lengths.len() - 7];
    let [columns, values, rising, _] = rows(lengths);
    let (ends, shape) = (pointers(lengths), [lengths.len() as u64, COLUMNS]);
    for (format, columns, promised) in [
        (WriteFormat::ZT2, &rising, Some(DataRule::RisingColumns)),
        (WriteFormat::ZT12, &rising, Some(DataRule::RisingColumns)),
        (WriteFormat::ZT12, &columns, None),
        (WriteFormat::ZT10, &columns, None),
        (WriteFormat::ZT01, &columns, None),
    ] {
        let given = vec![
            far(DType::Uint16, u16s(values.iter().copied())),
            far(DType::Uint32, u32s(columns.iter().copied())),
            far(DType::Uint32, u32s(ends.iter().copied())),
        ];
        let found = written("as-they-are", format, &shape, given, (promised, IndexTypes::Source)).unwrap();
        let wide = [WriteFormat::ZT10, WriteFormat::ZT01].contains(&format);
        let bytes = |numbers: &[u64]| {
            if wide { u64s(numbers.iter().copied()) } else { u32s(numbers.iter().copied()) }
        };
        assert!(array(&found, "values").1 == u16s(values.iter().copied()), "{format:?}");
        assert!(array(&found, "indices").1 == bytes(columns), "{format:?}");
        assert!(array(&found, "indptr").1 == bytes(&ends), "{format:?}");
    }
}

fn refused(outcome: Result<Arrays>) -> (Code, String) {
    let error = outcome.unwrap_err();
    (error.code(), error.message().to_owned())
}

#[test]
fn a_duplicate_column_is_reported_with_its_row() {
    let lengths = row_lengths();
    let ends = pointers(&lengths);
    let (columns, row_of) =
        (rows(&lengths)[0].clone(), |length: u64| lengths.iter().position(|&own| own == length).unwrap());
    let short = lengths.len() - 2;
    for row in [2, 5, row_of(CHUNK - 1), row_of(CHUNK), row_of(CHUNK + BLOCK + 1), short] {
        let (start, end) = (usize::try_from(ends[row]).unwrap(), usize::try_from(ends[row + 1]).unwrap());
        let mut columns = columns.clone();
        columns[end - 1] = columns[start];
        let column = columns[start];
        // Those in memory are sorted all in the same way.
        let ways: &[Put] = if row == 5 { &[far, held] } else { &[far] };
        for put in ways {
            let given = vec![
                put(DType::Uint16, u16s(0..columns.len() as u64)),
                put(DType::Uint32, u32s(columns.iter().copied())),
                put(DType::Uint64, u64s(ends.iter().copied())),
            ];
            let (code, message) =
                refused(written("twice", WriteFormat::ZT2, &[lengths.len() as u64, COLUMNS], given, DEFAULT));
            let expected = format!("column {column} appears twice in row {row};");
            assert!(
                code == Code::BadSparse && message.starts_with(&expected),
                "{message} and not {expected}"
            );
        }
    }
}

#[test]
fn the_first_unsorted_column_is_reported_if_order_was_promised() {
    let count = BLOCK + 100;
    // Rows of 10 elements, in the order of their columns, except two.
    let ends: Vec<u64> = (0..=count / 10).map(|row| row * 10).collect();
    let nnz = *ends.last().unwrap();
    let last = nnz - 1;
    for at in [1, 12, BLOCK - 3, BLOCK, BLOCK + 7, last] {
        let mut columns: Vec<u64> = (0..nnz).map(|at| at % 10 * 2).collect();
        for fall in [at, last] {
            let fall = usize::try_from(fall).unwrap();
            columns[fall] = columns[fall - 1];
        }
        let before = columns[usize::try_from(at).unwrap()];
        for format in [WriteFormat::ZT2, WriteFormat::ZT12] {
            let given = vec![
                far(DType::Uint16, u16s(0..nnz)),
                far(DType::Uint32, u32s(columns.iter().copied())),
                far(DType::Uint32, u32s(ends.iter().copied())),
            ];
            let promised = (Some(DataRule::RisingColumns), IndexTypes::Source);
            let found = refused(written("fall", format, &[count / 10, 20], given, promised));
            let expected = format!("column {before} at position {at} follows {before} in row {}", at / 10);
            assert_eq!(found, (Code::BadSparse, expected));
        }
    }
}

#[test]
fn coordinates_are_stored_in_the_form_of_each_format() {
    let (nnz, shape) = (2 * BLOCK + 77, [3, 70_000, 5]);
    let coords: Vec<u64> = (0..nnz)
        .map(|at| at % 3)
        .chain((0..nnz).map(|at| at / 3))
        .chain((0..nnz).map(|at| at * 7 % 5))
        .collect();
    let values = u16s((0..nnz).map(|at| at * 31));
    for put in [far, held] {
        for (format, widths, dtype) in [
            (WriteFormat::ZT01, IndexTypes::Default, DType::Uint64),
            (WriteFormat::ZT10, IndexTypes::Default, DType::Uint64),
            (WriteFormat::ZT12, IndexTypes::Default, DType::Uint64),
            (WriteFormat::ZT12, IndexTypes::Source, DType::Uint32),
            (WriteFormat::ZT2, IndexTypes::Default, DType::Uint32),
            (WriteFormat::BTF, IndexTypes::Default, DType::Uint64),
        ] {
            let given =
                vec![put(DType::Uint16, values.clone()), put(DType::Uint32, u32s(coords.iter().copied()))];
            let dtypes = format != WriteFormat::BTF;
            let given = if dtypes {
                given
            } else {
                vec![put(DType::Int16, values.clone()), put(DType::Uint32, u32s(coords.iter().copied()))]
            };
            let found = written("coords", format, &shape, given, (None, widths)).unwrap();
            assert!(array(&found, "values").1 == values, "{format:?}");
            let expected = if dtype == DType::Uint32 {
                u32s(coords.iter().copied())
            } else {
                u64s(coords.iter().copied())
            };
            assert!(array(&found, "coords") == (dtype, &expected[..]), "{format:?}");
        }
    }
    // An index out of bounds, at any position, and one that no integer of the file can have.
    for (at, axis) in [(0, 0), (nnz - 1, 0), (BLOCK + 3, 1), (nnz - 1, 2)] {
        let mut coords = coords.clone();
        coords[usize::try_from(axis * nnz + at).unwrap()] = 70_000;
        let given = vec![far(DType::Uint16, values.clone()), far(DType::Uint32, u32s(coords))];
        let (code, message) = refused(written("outside", WriteFormat::ZT10, &shape, given, DEFAULT));
        assert_eq!(code, Code::BadSparse);
        assert!(message.contains("70000") && message.contains(&format!("{at}")), "{message}");
    }
}

#[test]
fn a_duplicate_cell_is_found_in_a_large_tensor() {
    // In an order without meaning.
    let (nnz, cells) = ((8 << 20) + 1000, 10_000_019);
    for twice in [None, Some((0, nnz - 1))] {
        let mut coords: Vec<u64> = (0..nnz).map(|at| (at * 1_000_003) % cells).collect();
        let mut expected = None;
        if let Some((one, other)) = twice {
            let cell = coords[usize::try_from(one).unwrap()];
            coords[usize::try_from(other).unwrap()] = cell;
            expected = Some((Code::BadSparse, format!("cell {cell} of {cells} has two elements")));
        }
        let given = || {
            vec![
                far(DType::Uint8, vec![1; usize::try_from(nnz).unwrap()]),
                far(DType::Uint32, u32s(coords.iter().copied())),
            ]
        };
        let error = written("cells", WriteFormat::ZT2, &[cells], given(), DEFAULT).err();
        assert_eq!(error.map(|error| (error.code(), error.message().to_owned())), expected);
    }
    // Blocks in order, and a cell of the block before again, in two dimensions.
    for (at, twice) in [(BLOCK, true), (BLOCK + 1, true), (BLOCK, false)] {
        let mut cells: Vec<u64> = (0..BLOCK + 9).map(|cell| cell * 3).collect();
        let again = usize::try_from(at).unwrap();
        if twice {
            cells[again] = cells[again - 1];
        }
        let coords = u32s(cells.iter().map(|cell| cell / 1000).chain(cells.iter().map(|cell| cell % 1000)));
        let given = vec![far(DType::Uint8, vec![1; cells.len()]), far(DType::Uint32, coords)];
        let code = written("blocks", WriteFormat::ZT2, &[1000, 1000], given, DEFAULT)
            .err()
            .map(|error| error.code());
        assert_eq!(code, twice.then_some(Code::BadSparse), "{at}");
    }
}

#[test]
fn index_dtypes_depend_on_the_format() {
    use DType::{Int16, Int64, Uint32, Uint64};
    let (default, source) = (IndexTypes::Default, IndexTypes::Source);
    for (format, narrow, wide, mixed, small) in [
        (WriteFormat::ZT01, [Uint64, Uint64], [Uint64, Uint64], [Uint64, Uint64], [Uint64, Uint64]),
        (WriteFormat::ZT10, [Uint64, Uint64], [Uint64, Uint64], [Uint64, Uint64], [Uint64, Uint64]),
        (WriteFormat::ZT12, [Uint64, Uint32], [Uint64, Int64], [Uint64, Uint32], [Uint64, Int16]),
        (WriteFormat::ZT2, [Uint32, Uint32], [Uint64, Uint64], [Uint64, Uint64], [Uint64, Uint32]),
        (WriteFormat::BTF, [Uint64, Uint64], [Uint64, Uint64], [Uint64, Uint64], [Uint64, Uint64]),
    ] {
        let dtypes = |all: &[DType], own| [default, source].map(|types| types.dtype(format, all, own));
        assert_eq!(dtypes(&[Uint32, Uint32], Uint32), narrow, "{format:?}");
        assert_eq!(dtypes(&[Int64, Int64], Int64), wide, "{format:?}");
        assert_eq!(dtypes(&[Uint32, Int64], Uint32), mixed, "{format:?}");
        assert_eq!(dtypes(&[Int16, Uint32], Int16), small, "{format:?}");
    }
}

#[test]
fn packed_values_are_written_but_not_sorted() {
    let nnz = BLOCK + 30;
    let values: Vec<u8> = (0..nnz / 2).map(|at| (at % 251).to_le_bytes()[0]).collect();
    for put in [far, held] {
        for (columns, refusal) in
            [((0..nnz).collect::<Vec<_>>(), None), ((0..nnz).rev().collect(), Some(Code::BadSparse))]
        {
            let given = vec![
                put(DType::Float4E2M1Fn, values.clone()),
                put(DType::Uint32, u32s(columns)),
                put(DType::Uint32, u32s([0, nnz])),
            ];
            let found = written("packed", WriteFormat::ZT2, &[1, nnz], given, DEFAULT);
            assert_eq!(found.as_ref().err().map(Error::code), refusal);
            if let Ok(found) = found {
                assert!(array(&found, "values").1 == values);
                assert!(array(&found, "indices").1 == u32s(0..nnz));
            }
        }
    }
}

#[test]
fn a_duplicate_in_a_row_that_fills_a_chunk_is_found() {
    let columns = |last: u64| u32s((0..CHUNK).rev().chain([last]));
    for (last, refusal) in [(CHUNK, None), (5, Some("column 5 appears twice in row 0;".to_owned()))] {
        let given = vec![
            far(DType::Uint16, u16s(0..=CHUNK)),
            far(DType::Uint32, columns(last)),
            far(DType::Uint32, u32s([0, CHUNK + 1])),
        ];
        let result = written("full", WriteFormat::ZT2, &[1, CHUNK + 1], given, DEFAULT);
        let message =
            result.err().map(|error| error.message().split_inclusive(';').next().unwrap().to_owned());
        assert_eq!(message, refusal);
    }
}

#[test]
fn signed_indices_are_converted_to_the_dtype_of_the_format() {
    let columns: [i32; 4] = [0, 4097, 70_000, 1 << 24];
    let bytes: Vec<u8> = columns.iter().flat_map(|column| column.to_le_bytes()).collect();
    let expected = u32s(columns.iter().map(|&column| u64::from(column.unsigned_abs())));
    let wide = u64s(columns.iter().map(|&column| u64::from(column.unsigned_abs())));
    for (format, expected) in [(WriteFormat::ZT2, &expected), (WriteFormat::ZT10, &wide)] {
        let given = vec![
            held(DType::Uint16, u16s(0..4)),
            held(DType::Int32, bytes.clone()),
            held(DType::Int32, [0_i32, 4].iter().flat_map(|end| end.to_le_bytes()).collect()),
        ];
        let found = written("integers", format, &[1, 1 << 25], given, (None, IndexTypes::Source)).unwrap();
        assert!(array(&found, "indices").1 == expected, "{format:?}");
    }
}

#[test]
fn strict_errors_name_the_profile() {
    let stop = Stop::default();
    let (csr, coo) = (
        "zTensor 2 §5.2 Layout profiles: zt.sparse_csr/1",
        "zTensor 2 §5.2 Layout profiles: zt.sparse_coo/1",
    );
    for (strictly, layout, profile) in [
        (false, Layout::SparseCsr, None),
        (true, Layout::SparseCsr, Some(csr)),
        (false, Layout::SparseCoo, None),
        (true, Layout::SparseCoo, Some(coo)),
    ] {
        let mut arrays = vec![held(DType::Uint16, u16s([1])), held(DType::Uint32, u32s([9, 0]))];
        if layout == Layout::SparseCsr {
            arrays[1] = held(DType::Uint32, u32s([9]));
            arrays.push(held(DType::Uint32, u32s([0, 1])));
        }
        let refused = Sparse::checked(layout, &[1, 3], arrays, strictly, &stop).err().unwrap();
        let rule = refused.broken_rule();
        assert_eq!(refused.code(), Code::BadSparse);
        assert_eq!(rule.is_some(), profile.is_some(), "{rule:?}");
        let end = profile.map(|profile| profile.rsplit(' ').next().unwrap());
        assert!(rule.zip(end).is_none_or(|(rule, end)| rule.contains(end)), "{rule:?} and not {end:?}");
    }
}

#[test]
fn duplicates_are_found_in_descending_cells() {
    // Each block falls, and begins above the end of the one before.
    let cells = |again: u64| u32s((0..BLOCK).rev().chain((0..BLOCK).rev().map(move |cell| cell + again)));
    for (again, refusal) in [(0, Some(Code::BadSparse)), (BLOCK - 1, Some(Code::BadSparse)), (BLOCK, None)] {
        let values = vec![1; usize::try_from(2 * BLOCK).unwrap()];
        let given = vec![far(DType::Uint8, values), far(DType::Uint32, cells(again))];
        let error = written("falling", WriteFormat::ZT2, &[2 * BLOCK], given, DEFAULT).err();
        assert_eq!(error.map(|error| error.code()), refusal, "{again}");
    }
}

#[test]
fn arrays_in_memory_are_sorted_without_a_spool() {
    let arrays = |put: Put| {
        vec![
            put(DType::Uint16, u16s([1, 2, 3])),
            put(DType::Uint32, u32s([2, 0, 1])),
            put(DType::Uint32, u32s([0, 3])),
        ]
    };
    let none = || Err(Error::new(Code::Io, "no file is needed"));
    let stop = Stop::default();
    for (put, refusal) in [(held as Put, None), (far, Some(Code::Io))] {
        let sparse = Sparse::checked(Layout::SparseCsr, &[1, 3], arrays(put), true, &stop).unwrap();
        let sorted = sparse.strict(WriteFormat::ZT2, None, &none, &stop);
        assert_eq!(sorted.err().map(|error| error.code()), refusal);
    }
}

#[test]
fn many_empty_rows_are_sorted() {
    // Nearly all of them are empty; what follows fills more than a chunk.
    let lengths: Vec<u64> =
        (0..CHUNK + 5).map(|row| u64::from(row % 9000 == 8000) * 3).chain([1000; 1100]).collect();
    let [columns, values, rising, moved] = rows(&lengths);
    let given = vec![
        far(DType::Uint16, u16s(values)),
        far(DType::Uint32, u32s(columns)),
        far(DType::Uint32, u32s(pointers(&lengths))),
    ];
    let found =
        written("empty-rows", WriteFormat::ZT2, &[lengths.len() as u64, COLUMNS], given, DEFAULT).unwrap();
    assert!(array(&found, "values").1 == u16s(moved));
    assert!(array(&found, "indices").1 == u32s(rising));
}

#[test]
fn one_byte_values_are_sorted_and_duplicate_cells_rejected() {
    let given = vec![
        held(DType::Uint8, vec![1, 2, 3]),
        held(DType::Uint32, u32s([2, 0, 1])),
        held(DType::Uint32, u32s([0, 3])),
    ];
    let found = written("bytes", WriteFormat::ZT2, &[1, 3], given, DEFAULT).unwrap();
    assert_eq!(array(&found, "values").1, [2, 3, 1]);
    let given = vec![held(DType::Uint8, vec![1, 2, 3]), held(DType::Uint32, u32s([7, 7, 7]))];
    assert_eq!(refused(written("same", WriteFormat::ZT2, &[9], given, DEFAULT)).0, Code::BadSparse);
}

/// A tensor of raw arrays one after the other, the second of which has a rule.
fn raw(
    layout: Layout,
    shape: &[u64],
    rule: Option<DataRule>,
    arrays: &[(Label, DType, Vec<u8>)],
) -> (Vec<u8>, Catalog) {
    let mut bytes = Vec::new();
    let mut builder = Builder::new(Container::named("zt"), &Limits::default());
    let mut components = Vec::new();
    for (at, (role, dtype, array)) in arrays.iter().enumerate() {
        let component = Component::raw(*role, Some(*dtype), bytes.len() as u64, array.len() as u64);
        components.push(Component { rule: rule.filter(|_| at == 1), ..component });
        bytes.extend(array);
    }
    let dtype = components[0].dtype;
    builder.add_tensor(NewTensor { name: "s", shape, layout, dtype, components, attributes: None }).unwrap();
    (bytes, builder.finish())
}

/// What `verify` finds in a tensor, and what a load does.
fn checked((bytes, catalog): &(Vec<u8>, Catalog)) -> [Option<String>; 2] {
    let (limits, watch) = (Limits::default(), Watch::default());
    let reading = Reading { sources: &&**bytes, catalog, limits: &limits, watch: &watch };
    let found = verify::verify(reading, &[0]).unwrap();
    assert_eq!(found.failed, found.failures.len() as u64);
    let loaded = reading.sparse(catalog.tensor(0).unwrap());
    [found.failures.first().map(ToString::to_string), loaded.err().map(|error| error.to_string())]
}

/// All elements as they are compared.
fn elements((bytes, catalog): &(Vec<u8>, Catalog)) -> Vec<u8> {
    let (limits, watch) = (Limits::default(), Watch::default());
    let reading = Reading { sources: &&**bytes, catalog, limits: &limits, watch: &watch };
    Elements::of_tensor(&reading, catalog.tensor(0).unwrap()).unwrap().to_vec().unwrap()
}

#[test]
fn rows_of_a_large_matrix_have_the_elements_of_the_dense_one() {
    const SHAPE: [u64; 2] = [1201, 5003];
    // Rows of many lengths, empty ones, with columns in no order and repeated.
    let lengths: Vec<u64> = (0..SHAPE[0]).map(|row| if row % 5 == 0 { 0 } else { row * 7 % 900 }).collect();
    let mut pointers = vec![0];
    for length in lengths {
        pointers.push(pointers[pointers.len() - 1] + length);
    }
    let nnz = pointers[pointers.len() - 1];
    let columns = u32s((0..nnz).map(|at| at * at % 977 * 5));
    let (values, pointers) = (u32s(1..=nnz), u64s(pointers));
    let csr = Csr {
        shape: SHAPE,
        dtype: DType::Uint32,
        values: &values,
        indices: Indices::new(DType::Uint32, &columns).unwrap(),
        indptr: Indices::new(DType::Uint64, &pointers).unwrap(),
    };
    let mut expected = vec![0; usize::try_from(4 * SHAPE[0] * SHAPE[1]).unwrap()];
    csr.to_dense(&mut expected).unwrap();
    let arrays = [
        (Label::VALUES, DType::Uint32, values.clone()),
        (Label::INDICES, DType::Uint32, columns.clone()),
        (Label::INDPTR, DType::Uint64, pointers.clone()),
    ];
    assert!(elements(&raw(Layout::SparseCsr, &SHAPE, None, &arrays)) == expected);
    // Arrays that cannot be read in parts.
    let mut builder = Builder::new(Container::named("zt"), &Limits::default());
    builder
        .add_tensor(NewTensor {
            name: "s",
            shape: &SHAPE,
            layout: Layout::SparseCsr,
            dtype: Some(DType::Uint32),
            components: arrays
                .into_iter()
                .map(|(role, dtype, bytes)| Component::inline(role, Some(dtype), bytes))
                .collect(),
            attributes: None,
        })
        .unwrap();
    assert!(elements(&(Vec::new(), builder.finish())) == expected);
}

#[test]
fn large_tensors_that_are_verified_in_pieces_fail_as_a_load_does() {
    const ROWS: u64 = 1200;
    const NNZ: u64 = ROWS * 1000;
    let last = usize::try_from(NNZ).unwrap() - 1;
    let changed = |numbers: &dyn Fn(u64) -> u64, count: u64, changes: &[(usize, u64)]| {
        let mut all: Vec<u64> = (0..count).map(numbers).collect();
        for &(at, number) in changes {
            all[at] = number;
        }
        u32s(all)
    };
    let values = || u32s(0..NNZ);
    let rising = Some(DataRule::RisingColumns);
    let cases: [(_, &[_], &[_], _); 10] = [
        (None, &[], &[], false),
        (rising, &[], &[], false),
        (None, &[(last, 0)], &[], false),
        (rising, &[(last, 0)], &[], true),
        (rising, &[(5, 4)], &[], true),
        (None, &[(700_123, 1000)], &[], true),
        (rising, &[(last, 1000)], &[], true),
        (None, &[(3, 1000)], &[(600, 0)], true),
        (rising, &[], &[(0, 1)], true),
        (None, &[], &[(1200, NNZ - 1)], true),
    ];
    for (rule, columns, pointers, is_broken) in cases {
        let arrays = [
            (Label::VALUES, DType::Float32, values()),
            (Label::INDICES, DType::Uint32, changed(&|at| at % 1000, NNZ, columns)),
            (Label::INDPTR, DType::Uint32, changed(&|row| row * 1000, ROWS + 1, pointers)),
        ];
        let [verified, loaded] = checked(&raw(Layout::SparseCsr, &[ROWS, 1000], rule, &arrays));
        assert_eq!(verified.is_some(), is_broken, "{columns:?} {pointers:?}");
        assert_eq!(verified, loaded);
    }
    let unique = Some(DataRule::UniqueCells);
    let second = usize::try_from(NNZ).unwrap();
    let cases: [(_, &[_], _); 7] = [
        (None, &[], false),
        (unique, &[], false),
        // Another cell, which is not sorted.
        (unique, &[(0, 3), (second, 1000)], false),
        (unique, &[(second + 5, 4)], true),
        (None, &[(second + 5, 4)], false),
        (None, &[(second + last, 1001)], true),
        (unique, &[(last, ROWS)], true),
    ];
    for (rule, changes, is_broken) in cases {
        let coords = changed(&|at| if at < NNZ { at / 1000 } else { at % 1000 }, 2 * NNZ, changes);
        let arrays = [(Label::VALUES, DType::Float32, values()), (Label::COORDS, DType::Uint32, coords)];
        let [verified, loaded] = checked(&raw(Layout::SparseCoo, &[ROWS, 1001], rule, &arrays));
        assert_eq!(verified.is_some(), is_broken, "{changes:?}");
        assert_eq!(verified, loaded);
    }
}
