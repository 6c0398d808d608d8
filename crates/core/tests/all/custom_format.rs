//! A made-up container with data in every form that the model knows: deflated, in Fortran order, as a part of a blob, big-endian,
//! in deflated chunks, and in several blobs. Its parser and its row are all that there is of it: loads, slices, batches, verification, comparison and
//! conversion know nothing of it.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ztensor_core::codecs::digest::Digest;
use ztensor_core::convert::{Casts, copy};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{CORE, Confidence, Format, Formats, Input, Probe, WriteFormat};
use ztensor_core::limits::Limits;
use ztensor_core::model::slice::TensorSlice;
use ztensor_core::model::{
    Blob, Builder, ByteOrder, Catalog, Chunk, Chunks, Component, Container, DType, Data, Filter, Grid, Label,
    Layout, NewTensor, Piece, ReadIndex, Strided, Tensor, View,
};
use ztensor_core::open::detect;
use ztensor_core::read::batch::Division;
use ztensor_core::read::plan::Rank;
use ztensor_core::read::{Reading, batch};
use ztensor_core::sources::decoded::DecodedPieces;
use ztensor_core::sources::{ReadAt, Sources};
use ztensor_core::verify;
use ztensor_core::work::{Stop, Watch};
use ztensor_core::write::Writer;

use crate::settings::settings;

const TABLE: &[Format] = &[Format {
    name: "madeup",
    title: "Made Up",
    endings: &["madeup"],
    missing: "no Made Up magic",
    detect: |probe: &Probe<'_>| {
        Ok(if probe.first(8)? == MAGIC { Confidence::Certain } else { Confidence::No })
    },
    parse,
    writes: &[],
    header: None,
}];
const MAGIC: &[u8] = b"MADE UP\n";
/// One for each tensor, and the end.
const ENTRIES: usize = 9;
const ROWS: u64 = 6;
const COLUMNS: u64 = 10;
const SHAPE: [u64; 2] = [ROWS, COLUMNS];
/// CRC-32 of the piece that has one, by Python's zlib.
const DIGEST: u32 = 0xec52_11f0;
/// Rows and columns of a chunk: neither divides the shape.
const CHUNK: [u64; 2] = [4, 3];

/// Behind the magic: for each tensor the kind, offset, stored and decoded length as u64, closed by a kind of 0.
fn parse(input: &Input<'_>) -> Result<Catalog> {
    let mut builder = Builder::new(Container::named("madeup"), input.limits);
    let mut at = 8;
    loop {
        let entry = input.read_vec(at, 32)?;
        let number = |nth: usize| u64::from_le_bytes(entry[8 * nth..][..8].try_into().unwrap());
        let (kind, offset, stored, decoded) = (number(0), number(1), number(2), number(3));
        at += 32;
        if kind == 0 {
            return Ok(builder.finish());
        }
        let leads_inside =
            |offset: u64, stored| offset.checked_add(stored).is_some_and(|end| end <= input.length());
        if !leads_inside(offset, stored) {
            return Err(Error::new(Code::OutOfBounds, "an entry leads beyond the file"));
        }
        let deflate = Filter::named(builder.intern("deflate"));
        let encoding = builder.encoding(&[deflate], true);
        let raw = Blob::raw(offset, stored);
        let packed = Blob { encoding, decoded: Some(decoded), ..raw.clone() };
        let of = |data| Component::new(Label::DATA, Some(DType::Uint16), data);
        let (name, component) = match kind {
            1 => ("deflated", of(Data::Blob(packed))),
            2 | 3 => {
                let loops = Box::new([(ROWS, 2), (COLUMNS, 2 * ROWS)]);
                let view = View::Strided(Box::new(Strided { start: 0, run: 2, loops }));
                let (name, blob) = if kind == 2 { ("fortran", raw) } else { ("fortran deflated", packed) };
                (name, Component { view, ..of(Data::Blob(blob)) })
            }
            4 => ("part", Component { view: View::range(6, 2 * ROWS * COLUMNS), ..of(Data::Blob(packed)) }),
            5 => ("big", Component { byte_order: ByteOrder::Big, ..of(Data::Blob(raw)) }),
            7 | 8 => {
                // Of each piece: offset, stored bytes, bytes of a row, and 1 where it is deflated.
                let table = input.read_vec(offset, stored)?;
                let pieces = table.chunks_exact(32).map(|entry| {
                    let number = |nth: usize| u64::from_le_bytes(entry[8 * nth..][..8].try_into().unwrap());
                    let digest = Some(Digest::crc32(DIGEST));
                    let raw = Blob::raw(number(0), number(1));
                    let blob = match number(3) {
                        1 => Blob { encoding, decoded: None, ..raw },
                        2 => Blob { digest, ..raw },
                        _ => raw,
                    };
                    Piece { blob, run: number(2) }
                });
                let pieces: Vec<_> = pieces.collect();
                if pieces.iter().any(|piece| !leads_inside(piece.blob.offset, piece.blob.stored)) {
                    return Err(Error::new(Code::OutOfBounds, "a piece leads beyond the file"));
                }
                let data = Data::pieces(if kind == 7 { 1 } else { ROWS }, pieces)?;
                (if kind == 7 { "in pieces" } else { "side by side" }, of(data))
            }
            _ => {
                let grid = Grid {
                    shape: SHAPE.into(),
                    chunk: CHUNK.into(),
                    width: 2,
                    fill: Box::new([7, 0]),
                    chunks: Box::new(Table { offset, rows: 2, columns: 4, asked: AtomicU64::new(0) }),
                };
                ("chunked", of(Data::Grid(Blob { decoded: None, ..packed }, Arc::new(grid))))
            }
        };
        builder.add_tensor(NewTensor {
            name,
            shape: &SHAPE,
            layout: Layout::Dense,
            dtype: Some(DType::Uint16),
            components: vec![component],
            attributes: None,
        })?;
    }
}

/// An index of chunks: offset and length of each, an offset of 0 where it was never written.
struct Table {
    offset: u64,
    rows: u64,
    columns: u64,
    asked: AtomicU64,
}

impl Chunks for Table {
    fn find(&self, read: ReadIndex<'_>, position: &[u64]) -> Result<Option<Chunk>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let &[row, column] = position else { panic!("two dimensions") };
        assert!(row < self.rows && column < self.columns, "a missing chunk is requested");
        let mut entry = [0; 16];
        read(self.offset + 16 * (row * self.columns + column), &mut entry)?;
        let [offset, stored] =
            [&entry[..8], &entry[8..]].map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
        Ok((offset > 0).then_some(Chunk { offset, stored, skipped: 0 }))
    }
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn element(row: u64, column: u64) -> u16 {
    u16::try_from(1000 + 100 * row + column).unwrap()
}

/// All elements, row-major.
fn elements() -> Vec<u16> {
    (0..ROWS).flat_map(|row| (0..COLUMNS).map(move |column| element(row, column))).collect()
}

fn little(elements: &[u16]) -> Vec<u8> {
    elements.iter().flat_map(|element| element.to_le_bytes()).collect()
}

/// The chunk in the second row and column was never written, and holds the fill value.
fn is_missing(row: u64, column: u64) -> bool {
    (row / CHUNK[0], column / CHUNK[1]) == (1, 1)
}

fn chunked() -> Vec<u16> {
    let at = |row, column| if is_missing(row, column) { 7 } else { element(row, column) };
    (0..ROWS).flat_map(|row| (0..COLUMNS).map(move |column| at(row, column))).collect()
}

fn file() -> Vec<u8> {
    let row_major = little(&elements());
    let fortran: Vec<u8> = (0..COLUMNS)
        .flat_map(|column| (0..ROWS).flat_map(move |row| element(row, column).to_le_bytes()))
        .collect();
    let big: Vec<u8> = elements().iter().flat_map(|element| element.to_be_bytes()).collect();
    let part = [&[1; 6], &*row_major, &[2; 5]].concat();
    let mut bytes = vec![0; 8 + 32 * ENTRIES];
    bytes[..8].copy_from_slice(MAGIC);
    let mut entries = Vec::new();
    for (kind, stored, decoded) in [
        (1, deflated(&row_major), row_major.len()),
        (2, fortran.clone(), fortran.len()),
        (3, deflated(&fortran), fortran.len()),
        (4, deflated(&part), part.len()),
        (5, big, row_major.len()),
    ] {
        entries.push([kind, bytes.len() as u64, stored.len() as u64, decoded as u64]);
        bytes.extend(stored);
    }
    let table = bytes.len();
    bytes.resize(table + 16 * 8, 0);
    for nth in 0..8 {
        let (top, left) = (nth / 4 * CHUNK[0], nth % 4 * CHUNK[1]);
        if is_missing(top, left) {
            continue;
        }
        let rows =
            (top..top + CHUNK[0]).flat_map(|row| (left..left + CHUNK[1]).map(move |column| (row, column)));
        let chunk: Vec<u16> = rows.map(|(row, column)| element(row, column)).collect();
        let (offset, stored) = (bytes.len() as u64, deflated(&little(&chunk)));
        let entry = table + 16 * usize::try_from(nth).unwrap();
        bytes[entry..entry + 8].copy_from_slice(&offset.to_le_bytes());
        bytes[entry + 8..entry + 16].copy_from_slice(&(stored.len() as u64).to_le_bytes());
        bytes.extend(stored);
    }
    entries.push([6, table as u64, (bytes.len() - table) as u64, 0]);
    for (kind, pieces) in [(7, pieces_in_a_row(&row_major)), (8, pieces_side_by_side())] {
        let mut table = Vec::new();
        for (form, run, piece) in pieces {
            let stored = if form == 1 { deflated(&piece) } else { piece };
            table.extend([bytes.len() as u64, stored.len() as u64, run, form].map(u64::to_le_bytes).concat());
            bytes.extend(stored);
        }
        entries.push([kind, bytes.len() as u64, table.len() as u64, 0]);
        bytes.extend(table);
    }
    for (slot, number) in bytes[8..].chunks_exact_mut(8).zip(entries.concat()) {
        slot.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// Three pieces that end within rows, and one of nothing: form, bytes and the bytes themselves.
fn pieces_in_a_row(row_major: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
    let part = |form, range: Range<usize>| (form, range.len() as u64, row_major[range].to_vec());
    vec![part(0, 0..26), part(0, 26..26), part(1, 26..74), part(2, 74..row_major.len())]
}

/// Of each row four elements in one piece, five in another and one in a third.
fn pieces_side_by_side() -> Vec<(u64, u64, Vec<u8>)> {
    let part = |form, columns: Range<u64>| {
        let run = 2 * (columns.end - columns.start);
        let elements = (0..ROWS).flat_map(|row| columns.clone().map(move |column| element(row, column)));
        (form, run, little(&elements.collect::<Vec<_>>()))
    };
    vec![part(1, 0..4), part(0, 4..9), part(1, 9..10)]
}

fn expected(tensor: Tensor<'_>) -> Vec<u16> {
    if tensor.name() == "chunked" { chunked() } else { elements() }
}

/// Calls `with` with the file, opened by the joined tables.
fn opened(bytes: &[u8], with: impl FnOnce(Reading<'_>, &Catalog)) {
    let limits = Limits::default();
    let catalog = detect::parse(&bytes, Formats::of(&[CORE, TABLE]), &limits).unwrap();
    let watch = Watch::default();
    with(Reading { sources: &bytes, catalog: &catalog, limits: &limits, watch: &watch }, &catalog);
}

#[test]
fn every_storage_form_loads_slices_and_verifies() {
    opened(&file(), |reading, catalog| {
        assert_eq!(catalog.len(), ENTRIES - 1);
        for tensor in catalog.iter() {
            let (name, data, all) = (tensor.name(), tensor.data().unwrap(), expected(tensor));
            assert_eq!(data.byte_length(), Some(2 * ROWS * COLUMNS), "{name}");
            assert_eq!(*reading.component(tensor, data).unwrap(), little(&all), "{name}");
            for (rows, columns) in [
                ((0, ROWS), (0, COLUMNS)),
                ((1, 5), (2, 7)),
                ((4, 6), (3, 6)),
                ((2, 3), (9, 10)),
                ((3, 3), (0, 4)),
            ] {
                let slice = TensorSlice::new(&SHAPE, &[rows, columns], 16).unwrap();
                let of = |row: u64| (columns.0..columns.1).map(move |column| row * COLUMNS + column);
                let wanted: Vec<u16> =
                    (rows.0..rows.1).flat_map(of).map(|at| all[usize::try_from(at).unwrap()]).collect();
                let found = reading.slice(tensor, data, &slice).unwrap();
                assert_eq!(*found, little(&wanted), "{name} {rows:?} {columns:?}");
            }
            let mut pieces = Vec::new();
            reading
                .pieces(tensor, data, |piece| {
                    pieces.extend_from_slice(piece);
                    Ok(())
                })
                .unwrap();
            assert_eq!(pieces, little(&all), "{name} in pieces");
        }
        let ordinals: Vec<u32> = (0..8).collect();
        let loaded = batch::load(reading, &ordinals, None, 4, |_, _| ()).unwrap();
        for (tensor, location) in catalog.iter().zip(&loaded.locations) {
            let block = &loaded.blocks[location.block.unwrap() as usize];
            let from = usize::try_from(location.offset).unwrap();
            let bytes = little(&expected(tensor));
            assert_eq!(block[from..from + bytes.len()], bytes, "{} in a batch", tensor.name());
        }
        // By rows for the first, by columns for the second, whole the third, and so on.
        let dims: Vec<_> = (0..8).map(|at| [Some(0), Some(1), None][at % 3]).collect();
        let division = Division { dims: &dims, rank: Rank { rank: 1, world_size: 2 } };
        let divided = batch::load(reading, &ordinals, Some(&division), 4, |_, _| ()).unwrap();
        for (tensor, (location, dim)) in catalog.iter().zip(divided.locations.iter().zip(&dims)) {
            let is_own = |at: &u64| match dim {
                Some(0) => at / COLUMNS >= ROWS / 2,
                Some(_) => at % COLUMNS >= COLUMNS / 2,
                None => true,
            };
            let all = expected(tensor);
            let own = (0..ROWS * COLUMNS).filter(is_own).map(|at| all[usize::try_from(at).unwrap()]);
            let bytes = little(&own.collect::<Vec<_>>());
            let block = &divided.blocks[location.block.unwrap() as usize];
            let from = usize::try_from(location.offset).unwrap();
            assert_eq!(block[from..from + bytes.len()], bytes, "{} by {dim:?}", tensor.name());
        }
        let outcome = verify::verify(reading, &ordinals).unwrap();
        assert_eq!((outcome.failed, outcome.undigested), (0, 8));
    });
}

/// Counts the bytes that are read behind the index of the chunks.
struct Counting<'b>(&'b [u8], AtomicU64);

impl ReadAt for Counting<'_> {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        self.1.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.0.read_at(offset, buffer, stop)
    }
}

#[test]
fn a_slice_reads_only_the_chunks_it_overlaps() {
    let bytes = file();
    let counting = Counting(&bytes, AtomicU64::new(0));
    opened(&bytes, |reading, catalog| {
        let reading = Reading { sources: &counting, ..reading };
        let tensor = catalog.tensor(catalog.find("chunked").unwrap()).unwrap();
        let read = |ranges: [(u64, u64); 2]| {
            counting.1.store(0, Ordering::Relaxed);
            let slice = TensorSlice::new(&SHAPE, &ranges, 16).unwrap();
            reading.slice(tensor, tensor.data().unwrap(), &slice).unwrap();
            counting.1.load(Ordering::Relaxed)
        };
        let one = read([(0, 4), (0, 3)]);
        assert!(one > 16 && read([(0, 4), (0, 6)]) > one);
        assert_eq!(read([(4, 6), (3, 6)]), 16, "one that was never written has an entry only");
    });
}

/// A source whose decoded pieces are kept.
struct Kept<'b>(Counting<'b>, DecodedPieces);

impl Sources for Kept<'_> {
    fn source(&self, file: u32) -> Result<&dyn ReadAt> {
        self.0.source(file)
    }

    fn decoded(&self) -> Option<&DecodedPieces> {
        Some(&self.1)
    }
}

#[test]
fn slices_decode_a_chunk_a_blob_or_a_piece_once() {
    let bytes = file();
    opened(&bytes, |reading, catalog| {
        // A chunk that is found again takes its entry of the index, 16 bytes.
        for (name, columns, again) in [
            ("chunked", (0, 2), 16),
            ("deflated", (3, 9), 0),
            ("part", (3, 9), 0),
            ("fortran deflated", (3, 9), 0),
            ("in pieces", (0, 7), 0),
            ("side by side", (0, 3), 0),
        ] {
            let kept = Kept(Counting(&bytes, AtomicU64::new(0)), DecodedPieces::default());
            let reading = Reading { sources: &kept, ..reading };
            let tensor = catalog.tensor(catalog.find(name).unwrap()).unwrap();
            let read = |row: u64| {
                kept.0.1.store(0, Ordering::Relaxed);
                let slice = TensorSlice::new(&SHAPE, &[(row, row + 1), columns], 16).unwrap();
                let found = reading.slice(tensor, tensor.data().unwrap(), &slice).unwrap();
                let wanted: Vec<u16> = (columns.0..columns.1).map(|column| element(row, column)).collect();
                assert!(*found == *little(&wanted), "{name}, row {row}");
                kept.0.1.load(Ordering::Relaxed)
            };
            assert!(read(2) > again, "{name}");
            assert_eq!([read(2), read(3)], [again; 2], "{name}");
            kept.1.close();
            assert!(read(2) > again, "{name}: after it was closed");
        }
    });
}

#[test]
fn a_slice_of_raw_data_reads_only_its_bytes() {
    let bytes = file();
    let counting = Counting(&bytes, AtomicU64::new(0));
    opened(&bytes, |reading, catalog| {
        let reading = Reading { sources: &counting, ..reading };
        for (name, rows, columns) in [
            ("big", (2, 3), (0, COLUMNS)),
            ("fortran", (0, ROWS), (4, 5)),
            ("in pieces", (0, 1), (3, COLUMNS)),
            ("side by side", (1, 2), (5, 8)),
        ] {
            let tensor = catalog.tensor(catalog.find(name).unwrap()).unwrap();
            let data = tensor.data().unwrap();
            assert!(data.is_sliceable(&SHAPE), "{name}");
            counting.1.store(0, Ordering::Relaxed);
            let slice = TensorSlice::new(&SHAPE, &[rows, columns], 16).unwrap();
            let found = reading.slice(tensor, data, &slice).unwrap();
            assert_eq!(counting.1.load(Ordering::Relaxed), found.len() as u64, "{name}");
        }
        let sliceable = |name: &str| {
            let tensor = catalog.tensor(catalog.find(name).unwrap()).unwrap();
            tensor.data().unwrap().is_sliceable(&SHAPE)
        };
        assert!(sliceable("chunked") && sliceable("in pieces") && sliceable("side by side"));
        assert!(!sliceable("deflated") && !sliceable("part") && !sliceable("fortran deflated"));
    });
}

#[test]
fn every_storage_form_is_converted() {
    let path = std::env::temp_dir().join(format!("ztensor-made-up-{}.zt", std::process::id()));
    opened(&file(), |reading, catalog| {
        let mut writer = Writer::create(&path, settings(WriteFormat::ZT12)).unwrap();
        let casts = Casts::default();
        for tensor in catalog.iter() {
            copy(reading, tensor, tensor.name(), &casts, &mut writer).unwrap();
        }
        writer.finish().unwrap();
    });
    let bytes = std::fs::read(&path).unwrap();
    let catalog = detect::parse(&&*bytes, Formats::default(), &Limits::default()).unwrap();
    let (limits, watch) = (Limits::default(), Watch::default());
    let reading = Reading { sources: &&*bytes, catalog: &catalog, limits: &limits, watch: &watch };
    for tensor in catalog.iter() {
        let found = reading.component(tensor, tensor.data().unwrap()).unwrap();
        assert_eq!(*found, little(&expected(tensor)), "{}", tensor.name());
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn load_and_verify_reject_the_same_damaged_data() {
    let bytes = file();
    for at in (8 + 32 * ENTRIES)..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        // What is wrong with a table of pieces is seen when the file is opened.
        let parsed = detect::parse(&&*damaged, Formats::of(&[CORE, TABLE]), &Limits::default());
        if let Err(error) = parsed {
            assert!(
                matches!(error.code(), Code::BadIndex | Code::Limit | Code::OutOfBounds),
                "byte {at}: {error}"
            );
            continue;
        }
        opened(&damaged, |reading, catalog| {
            for tensor in catalog.iter() {
                let loaded = reading.component(tensor, tensor.data().unwrap());
                let streamed = reading.pieces(tensor, tensor.data().unwrap(), |_| Ok(()));
                let code = |error: &Error| error.code();
                assert_eq!(loaded.as_ref().err().map(code), streamed.as_ref().err().map(code), "byte {at}");
                let ordinal = u32::try_from(tensor.ordinal()).unwrap();
                match (loaded, verify::verify(reading, &[ordinal])) {
                    (Ok(_), Ok(outcome)) => assert_eq!(outcome.failed, 0, "byte {at} of {}", tensor.name()),
                    (Err(error), Ok(outcome)) => {
                        assert_eq!(outcome.failed, 1, "byte {at} of {}: {error}", tensor.name());
                    }
                    (Err(error), Err(other)) => assert_eq!(error.code(), other.code(), "byte {at}"),
                    (Ok(_), Err(other)) => panic!("byte {at} of {}: {other}", tensor.name()),
                }
            }
        });
    }
}
