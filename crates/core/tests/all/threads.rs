//! Everything that reads, at the same time and over the same files: each call gives what it gives alone. Written to be run under
//! `ThreadSanitizer` too, which sees races that these asserts do not.

use std::path::{Path, PathBuf};
use std::thread;

use ztensor_core::analysis::compare::{Request, compare};
use ztensor_core::analysis::elements::Elements;
use ztensor_core::analysis::stats;
use ztensor_core::codecs::digest::Algorithm;
use ztensor_core::convert::{self, Casts};
use ztensor_core::error::Code;
use ztensor_core::limits::Limits;
use ztensor_core::model::DType;
use ztensor_core::model::slice::TensorSlice;
use ztensor_core::open::{self, Opened};
use ztensor_core::read::prefetch;
use ztensor_core::read::{Reading, batch};
use ztensor_core::verify;
use ztensor_core::work::Watch;
use ztensor_core::write::{Compression, Settings, Spec, WriteFormat, Writer};

/// More than two pieces of what is read in pieces.
const LARGE: usize = 9 << 20;
const SMALL: usize = 200;

fn settings(format: &'static WriteFormat, compressed: bool) -> Settings {
    let compression =
        compressed.then_some(Compression { level: 1, min_savings: 0.0, threads: 2, frame: 1 << 20 });
    Settings { digest: Some(Algorithm::Crc32c), compression, ..crate::settings::settings(format) }
}

/// The bytes of a tensor: float16 numbers of all kinds.
fn bytes(of: usize, length: usize) -> Vec<u8> {
    let number = |at: usize| u16::try_from((at * 7 + of) % 0x7c00).unwrap();
    (0..length / 2).flat_map(|at| number(at).to_le_bytes()).collect()
}

fn tensors() -> Vec<(String, Vec<u8>)> {
    let small = (0..SMALL).map(|at| (format!("small.{at:03}"), bytes(at, 2 * (at + 1))));
    let large = std::iter::once(("large".to_owned(), bytes(0, LARGE)));
    large.chain(small).collect()
}

fn write(path: &Path, settings: Settings) {
    let mut writer = Writer::create(path, settings).unwrap();
    for (name, bytes) in tensors() {
        let components = [("data", Some(DType::Float16), bytes.len() as u64)];
        let spec = Spec {
            name: &name,
            shape: &[bytes.len() as u64 / 2],
            layout: "dense",
            dtype: Some(DType::Float16),
            attributes: None,
            components: &components,
        };
        writer.begin(spec).unwrap();
        writer.push(&bytes).unwrap();
        writer.end().unwrap();
        writer.flush_if_full().unwrap();
    }
    writer.finish().unwrap();
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("ztensor-threads-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A file that is read, and what it should hold.
struct ReadCase<'a> {
    opened: &'a Opened,
    ordinals: Vec<u32>,
    expected: &'a [(String, Vec<u8>)],
    folder: &'a Path,
}

impl ReadCase<'_> {
    fn with<T>(&self, run: impl FnOnce(Reading<'_>) -> T) -> T {
        let (limits, watch) = (Limits::default(), Watch::default());
        let Opened { catalog, files } = self.opened;
        run(Reading { sources: files, catalog, limits: &limits, watch: &watch })
    }

    fn loads(&self) {
        let batch =
            self.with(|reading| batch::load(reading, &self.ordinals, None, usize::MAX, |_, _| ())).unwrap();
        for (&ordinal, location) in self.ordinals.iter().zip(&batch.locations) {
            let expected = self.of(ordinal);
            let block = &batch.blocks[location.block.unwrap() as usize];
            let start = usize::try_from(location.offset).unwrap();
            assert!(block[start..start + expected.len()] == *expected, "tensor {ordinal}");
        }
    }

    fn of(&self, ordinal: u32) -> &[u8] {
        let tensor = self.opened.catalog.tensor(ordinal as usize).unwrap();
        &self.expected.iter().find(|(name, _)| name == tensor.name()).unwrap().1
    }

    fn verifies(&self) {
        let outcome = self.with(|reading| verify::verify(reading, &self.ordinals)).unwrap();
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
        assert_eq!(outcome.checked, self.ordinals.len() as u64);
    }

    fn fetches(&self) {
        let Opened { catalog, files } = self.opened;
        prefetch::prefetch(files, catalog, &self.ordinals, prefetch::IN_FLIGHT, &Watch::default()).unwrap();
        prefetch::evict(files, catalog, &self.ordinals);
    }

    fn counts(&self) {
        let request = stats::Request { bins: 10, range: None };
        for (ordinal, tensor) in (0..).zip(self.opened.catalog.iter()).take(3) {
            let found = self.with(|reading| reading.stats(tensor, &request)).unwrap();
            assert_eq!(found.count, self.of(ordinal).len() as u64 / 2);
            assert_eq!(found.histogram.unwrap().counts.iter().sum::<u64>(), found.count);
        }
    }

    fn compares(&self, other: &Opened) {
        for tensor in self.opened.catalog.iter().take(3) {
            let same = other.catalog.tensor(other.catalog.find(tensor.name()).unwrap()).unwrap();
            let (limits, watch) = (Limits::default(), Watch::default());
            let theirs =
                Reading { sources: &other.files, catalog: &other.catalog, limits: &limits, watch: &watch };
            let found = self.with(|reading| {
                let a = Elements::of_tensor(&reading, tensor).unwrap();
                let b = Elements::of_tensor(&theirs, same).unwrap();
                compare(&a, &b, Request::default(), &watch).unwrap()
            });
            assert!(found.identical, "{}", tensor.name());
        }
    }

    fn converts(&self, name: &str, compressed: bool) {
        let path = self.folder.join(name);
        let mut writer = Writer::create(&path, settings(WriteFormat::ZT10, compressed)).unwrap();
        let casts = Casts::new(Vec::new()).unwrap();
        self.with(|reading| {
            for tensor in self.opened.catalog.iter() {
                convert::copy(reading, tensor, tensor.name(), &casts, &mut writer).unwrap();
            }
        });
        writer.finish().unwrap();
        let opened = open::open(&path, &open::Request::default()).unwrap();
        self.compares(&opened);
    }

    /// Slices of a few elements, which share the frames that they decode.
    fn slices(&self) {
        let tensor = self.opened.catalog.tensor(self.opened.catalog.find("large").unwrap()).unwrap();
        let expected = self.of(u32::try_from(tensor.ordinal()).unwrap());
        let elements = LARGE as u64 / 2;
        for nth in 0..200 {
            let start = nth * 64_007 % (elements - 300);
            let slice = TensorSlice::new(&[elements], &[(start, start + 300)], 16).unwrap();
            let found = self.with(|reading| reading.slice(tensor, tensor.data().unwrap(), &slice)).unwrap();
            let start = 2 * usize::try_from(start).unwrap();
            assert!(*found == expected[start..start + 600], "slice {nth}");
        }
    }

    /// Makes and lets go of shares of the mapping, as aliases do.
    fn maps(&self) {
        for _ in 0..50 {
            let file = self.opened.files.local(0).unwrap().unwrap();
            let mapping = file.mapping().unwrap();
            assert!(mapping.is_none_or(|mapping| !mapping.is_lost()));
        }
    }
}

fn read_case<'a>(opened: &'a Opened, expected: &'a [(String, Vec<u8>)], folder: &'a Path) -> ReadCase<'a> {
    ReadCase { opened, ordinals: (0..).take(opened.catalog.len()).collect(), expected, folder }
}

#[test]
fn concurrent_calls_give_the_same_results() {
    let folder = Folder::new("together");
    let expected = tensors();
    let files = [
        ("raw.zt", settings(WriteFormat::ZT12, false)),
        ("packed.zt", settings(WriteFormat::ZT12, true)),
        (
            "frames.zt",
            Settings { alignment: 4096, digest: Some(Algorithm::Xxh3), ..settings(WriteFormat::ZT2, true) },
        ),
    ];
    let opened = files.map(|(name, settings)| {
        let path = folder.0.join(name);
        write(&path, settings);
        open::open(&path, &open::Request::default()).unwrap()
    });
    let all: Vec<_> = opened.iter().map(|one| read_case(one, &expected, &folder.0)).collect();
    thread::scope(|scope| {
        for (at, given) in all.iter().enumerate() {
            let other = &opened[(at + 1) % opened.len()];
            scope.spawn(move || (0..2).for_each(|_| given.loads()));
            scope.spawn(move || (0..2).for_each(|_| given.verifies()));
            scope.spawn(move || (0..2).for_each(|_| given.fetches()));
            scope.spawn(move || given.counts());
            scope.spawn(move || given.compares(other));
            scope.spawn(move || given.converts(&format!("converted-{at}.zt"), at == 0));
            scope.spawn(move || given.maps());
            scope.spawn(move || given.slices());
            scope.spawn(move || given.slices());
        }
    });
}

#[test]
fn closed_or_stopped_calls_succeed_or_report_it() {
    let folder = Folder::new("closed");
    let path = folder.0.join("closed.zt");
    write(&path, settings(WriteFormat::ZT12, false));
    for round in 0..4 {
        let opened = open::open(&path, &open::Request::default()).unwrap();
        let Opened { catalog, files } = &opened;
        let ordinals: Vec<u32> = (0..).take(catalog.len()).collect();
        let (limits, watch) = (Limits::default(), Watch::default());
        let reading = Reading { sources: files, catalog, limits: &limits, watch: &watch };
        thread::scope(|scope| {
            let ended = |result: Result<(), ztensor_core::error::Error>| {
                let code = result.err().map(|error| error.code());
                assert!(matches!(code, None | Some(Code::Closed | Code::Aborted)), "{code:?}");
            };
            scope
                .spawn(move || ended(batch::load(reading, &ordinals, None, usize::MAX, |_, _| ()).map(drop)));
            let all: Vec<u32> = (0..).take(catalog.len()).collect();
            scope.spawn(move || ended(verify::verify(reading, &all).map(drop)));
            let all: Vec<u32> = (0..).take(catalog.len()).collect();
            let watch = &watch;
            scope.spawn(move || ended(prefetch::prefetch(files, catalog, &all, 1 << 20, watch)));
            let (tensor, shape) = (catalog.tensor(0).unwrap(), [LARGE as u64 / 2]);
            scope.spawn(move || {
                for start in 0..100 {
                    let slice = TensorSlice::new(&shape, &[(start, start + 1)], 16).unwrap();
                    ended(reading.slice(tensor, tensor.data().unwrap(), &slice).map(drop));
                }
            });
            scope.spawn(move || while files.local(0).unwrap().unwrap().mapping().is_ok() {});
            scope.spawn(move || {
                if round % 2 == 0 {
                    watch.stop.set();
                }
                files.close();
            });
        });
    }
}
