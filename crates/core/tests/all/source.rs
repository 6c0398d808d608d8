//! A source that is no local file: what is read of it, and how an abort ends a read that hangs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use ztensor_core::error::{Code, Result};
use ztensor_core::formats::Formats;
use ztensor_core::limits::Limits;
use ztensor_core::model::{Catalog, Tensor};
use ztensor_core::open::detect;
use ztensor_core::read::{Reading, batch, prefetch};
use ztensor_core::sources::files::{Files, Member};
use ztensor_core::sources::identity::Identity;
use ztensor_core::sources::owned::Owned;
use ztensor_core::sources::partial::Partial;
use ztensor_core::sources::read_ahead::ReadAhead;
use ztensor_core::sources::staged::Staged;
use ztensor_core::sources::{MappedWindows, ReadAt, Sources};
use ztensor_core::verify;
use ztensor_core::work::{Stop, Watch};

/// Bytes that are somewhere else.
struct Distant(Vec<u8>);

impl ReadAt for Distant {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        self.0.as_slice().read_at(offset, buffer, stop)
    }
}

type Work = fn(Reading<'_>, Tensor<'_>) -> Result<()>;

/// One that never answers, and says that it was request.
struct Hanging(u64, Sender<()>);

impl ReadAt for Hanging {
    fn length(&self) -> u64 {
        self.0
    }

    fn read_at(&self, _: u64, _: &mut [u8], stop: &Stop) -> Result<()> {
        self.1.send(()).unwrap();
        loop {
            stop.check()?;
            thread::yield_now();
        }
    }

    fn keep(&self, offset: u64, _: u64, stop: &Stop) -> Result<()> {
        self.read_at(offset, &mut [], stop)
    }
}

/// Two tensors, one of them of some bytes and one of 20 MiB.
fn file() -> (Vec<u8>, Catalog) {
    let large = 20 << 20;
    let header = format!(
        r#"{{"small":{{"dtype":"U8","shape":[2],"data_offsets":[0,2]}},"large":{{"dtype":"F16","shape":[{}],"data_offsets":[2,{}]}}}}"#,
        large / 2,
        large + 2
    );
    let mut bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[8, 9]].concat();
    bytes.resize(bytes.len() + large, 7);
    let catalog = detect::parse(&bytes.as_slice(), Formats::default(), &Limits::default()).unwrap();
    (bytes, catalog)
}

#[test]
fn a_source_that_is_not_a_file_is_read_without_mapping_or_prefetch() {
    let (bytes, catalog) = file();
    let files = Files::new(vec![Member::of(Arc::new(Distant(bytes)))]);
    assert!(files.local(0).unwrap().is_none() && files.opened(0).is_none());
    let (limits, watch) = (Limits::default(), Watch::default());
    let reading = Reading { sources: &files, catalog: &catalog, limits: &limits, watch: &watch };
    let small = catalog.tensor(catalog.find("small").unwrap()).unwrap();
    assert_eq!(*reading.component(small, small.data().unwrap()).unwrap(), [8, 9]);
    assert!(verify::verify(reading, &[0, 1]).unwrap().failures.is_empty());
    let brought = prefetch::prefetch(&files, &catalog, &[0, 1], prefetch::IN_FLIGHT, &watch);
    assert_eq!(brought.unwrap_err().code(), Code::NotLocal);
    prefetch::evict(&files, &catalog, &[0, 1]);
    let source = files.source(0).unwrap();
    assert_eq!(source.identity().unwrap().length, source.length());
    assert_eq!(files.identities().unwrap(), [source.identity().unwrap().to_string()]);
}

#[test]
fn an_abort_ends_a_read_that_hangs() {
    let (bytes, catalog) = file();
    let length = bytes.len() as u64;
    let all = [0, 1];
    let work: [Work; 5] = [
        |reading, tensor| reading.component(tensor, tensor.data().unwrap()).map(drop),
        |reading, _| batch::load(reading, &[0, 1], None, 4, |_, _| {}).map(drop),
        |reading, tensor| reading.pieces(tensor, tensor.data().unwrap(), |_| Ok(())),
        |reading, tensor| {
            let mut hasher = ztensor_core::codecs::digest::Algorithm::Crc32c.hasher();
            let (source, stop) = (reading.source(tensor.data().unwrap())?, &reading.watch.stop);
            source.hash(&MappedWindows::default(), 0, 100, &mut hasher, stop)
        },
        |reading, _| {
            let source = reading.sources.source(0)?;
            source.read_vec(0, 100, &reading.watch.stop).map(drop)
        },
    ];
    for (nth, work) in work.into_iter().enumerate() {
        let (request, requests) = channel();
        let source = Hanging(length, request);
        let (limits, watch) = (Limits::default(), Watch::default());
        let stop = watch.stop.clone();
        let reading = Reading { sources: &source, catalog: &catalog, limits: &limits, watch: &watch };
        let tensor = catalog.tensor(catalog.find("large").unwrap()).unwrap();
        let ended = thread::scope(|scope| {
            let ended = scope.spawn(|| work(reading, tensor));
            requests.recv().unwrap();
            stop.set();
            ended.join().unwrap()
        });
        assert_eq!(ended.unwrap_err().code(), Code::Aborted, "{nth}");
    }
    let (request, requests) = channel();
    let files = Files::new(vec![Member::of(Arc::new(Hanging(length, request)))]);
    let watch = Watch::default();
    let ended = thread::scope(|scope| {
        let ended = scope.spawn(|| prefetch::prefetch(&files, &catalog, &all, prefetch::IN_FLIGHT, &watch));
        requests.recv().unwrap();
        watch.stop.set();
        ended.join().unwrap()
    });
    assert_eq!(ended.unwrap_err().code(), Code::Aborted);
}

/// Bytes that are somewhere else, and how often they were request for.
struct Counted(Vec<u8>, AtomicUsize);

impl ReadAt for Counted {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.as_slice().read_at(offset, buffer, stop)
    }
}

#[test]
fn small_reads_are_combined() {
    let source = Counted((0..=250).cycle().take(100_000).collect(), AtomicUsize::new(0));
    let ahead = ReadAhead::new(&source, 0);
    let view = ahead.source(0).unwrap();
    for at in (0..100_000_usize).step_by(500) {
        let mut read = [0; 100];
        view.read_at(at as u64, &mut read, Stop::never()).unwrap();
        assert_eq!(read, source.0[at..][..100]);
    }
    assert!(source.1.load(Ordering::Relaxed) <= 3);
}

#[test]
fn a_file_smaller_than_its_two_ends_is_staged_whole() {
    let end = 64 << 10;
    for (total, wanted) in [
        (0, vec![(0, 0)]),
        (end + 3, vec![(0, end + 3)]),
        (2 * end, vec![(0, 2 * end)]),
        (2 * end + 1, vec![(0, end), (end + 1, end)]),
    ] {
        assert_eq!(Partial::new(total).wanted(), wanted);
    }
}

#[test]
fn members_have_a_path_and_know_whether_they_were_opened() {
    let path = Path::new("/somewhere/m.zt");
    let refused = ztensor_core::error::Error::new(Code::Io, "not there");
    for (member, known) in [
        (Member::later(path.to_owned(), Identity::of_length(7)), true),
        (Member::unread(Some(path.to_owned()), 7), false),
        (Member::refused(Some(path.to_owned()), refused), false),
    ] {
        assert_eq!((member.path(), member.is_known()), (Some(path), known));
    }
    assert_eq!(Member::of(Arc::new(Distant(Vec::new()))).path(), None);
}

#[test]
fn staged_ranges_are_retained_between_attempts() {
    // Each attempt misses a range before the present ones; the ninth has all, and the whole file is not requested.
    for (ranges, whole) in [(8_u64, false), (9, true)] {
        let bytes: Vec<u8> = (0..=250).cycle().take(4 << 20).collect();
        let mut partial = Partial::new(bytes.len() as u64);
        assert!(!partial.holds(0, 1));
        let mut all = Vec::new();
        loop {
            let wanted = partial.wanted();
            let piece = |&(offset, length): &(u64, u64)| {
                let range = usize::try_from(offset).unwrap()..usize::try_from(offset + length).unwrap();
                (offset, Owned::from(bytes[range].to_vec()))
            };
            partial.add(Arc::new(Staged::new(wanted.iter().map(piece).collect(), bytes.len() as u64)));
            all.push(wanted);
            let attempt = |source: &Partial| {
                for at in (0..ranges).map(|nth| (31 - nth) << 17) {
                    assert!(source.holds(0, 8) && source.holds((4 << 20) - 8, 8));
                    source.read_vec(at, 8, Stop::never())?;
                }
                Ok(())
            };
            if partial.attempt(attempt).unwrap().is_some() {
                break;
            }
        }
        assert_eq!(all.len() as u64, ranges + 1);
        assert_eq!(all.last().unwrap() == &[(0, 4 << 20)], whole, "{ranges}");
    }
}

#[cfg(target_os = "linux")]
mod local {
    use std::fs::{self, File};
    use std::path::PathBuf;

    use ztensor_core::codecs::digest::Algorithm;
    use ztensor_core::sources::file::FileSource;
    use ztensor_core::sources::io::Io;

    use super::*;

    fn written(name: &str, bytes: &[u8]) -> PathBuf {
        let path = std::env::temp_dir().join(format!("ztensor-source-{name}-{}", std::process::id()));
        fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn a_truncated_file_is_detected_by_the_first_access() {
        type Ask = fn(&FileSource) -> Result<()>;
        let asks: [Ask; 5] = [
            ReadAt::check_length,
            |source| source.read_at(0, &mut [0; 10], Stop::never()),
            |source| source.read_at(19_000, &mut [0; 10], Stop::never()),
            |source| source.read_bulk(19_000, &mut [0; 10], Stop::never()),
            |source| {
                let mut hasher = Algorithm::Crc32c.hasher();
                source.hash(&MappedWindows::default(), 0, 20_000, &mut hasher, Stop::never())
            },
        ];
        for mapped in [false, true] {
            // Whole pages, and a part of the last one.
            for remaining in [0, 4096, 19_999] {
                for (nth, ask) in asks.iter().enumerate() {
                    let path = written("truncated", &vec![7; 20_000]);
                    let source = FileSource::open(&path).unwrap();
                    source.set_io(Io::Mmap);
                    if mapped {
                        assert_eq!(source.mapping().unwrap().unwrap().length(), 20_000);
                    }
                    assert!(ask(&source).is_ok() && !source.is_lost());
                    File::options().write(true).open(&path).unwrap().set_len(remaining).unwrap();
                    let case = format!("{nth} {mapped} {remaining}");
                    // Every call checks the length, even if its bytes are still there.
                    assert_eq!(ask(&source).err().map(|error| error.code()), Some(Code::Truncated), "{case}");
                    assert_eq!(source.is_lost(), mapped, "{case}");
                    let code = if mapped { Code::MappingLost } else { Code::Truncated };
                    assert_eq!(source.mapping().err().map(|error| error.code()), Some(code), "{case}");
                    fs::remove_file(path).unwrap();
                }
            }
        }
    }

    #[test]
    fn hashing_maps_a_file_only_if_permitted() {
        let bytes = vec![7; 2 << 20];
        let path = written("hashed", &bytes);
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_mapped = || fs::read_to_string("/proc/self/maps").unwrap().contains(name);
        for (io, length, mapped) in [
            (Io::Mmap, 2 << 20, true),
            (Io::Mmap, 512 << 10, true),
            (Io::Mmap, (512 << 10) - 1, false),
            (Io::Read, 2 << 20, false),
        ] {
            let source = FileSource::open(&path).unwrap();
            source.set_io(io);
            assert_eq!(source.maps(), io == Io::Mmap);
            let (windows, mut hasher) = (MappedWindows::default(), Algorithm::Crc32c.hasher());
            source.hash(&windows, 0, length, &mut hasher, Stop::never()).unwrap();
            let mut expected = Algorithm::Crc32c.hasher();
            expected.update(&bytes[..usize::try_from(length).unwrap()]);
            let text = |hasher| Algorithm::Crc32c.digest(hasher).text().into_owned();
            assert_eq!(text(hasher), text(expected));
            // What was just written is in memory, but not where all files are somewhere else.
            assert!(is_mapped() == mapped || !source.is_cached(0, length), "{io:?} {length}");
        }
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn direct_reads_bypass_the_page_cache() {
        let length = 4 << 20;
        let path = written("direct", &vec![7; length]);
        File::open(&path).unwrap().sync_all().unwrap();
        for (io, piece, direct) in [
            (Io::Direct, length, true),
            (Io::Direct, 1 << 20, true),
            (Io::Direct, 1 << 19, false),
            (Io::Read, length, false),
        ] {
            let source = FileSource::open(&path).unwrap();
            source.set_io(io);
            source.forget(0, length as u64);
            if source.is_cached(0, piece as u64) {
                println!("not run: this file system keeps all in memory");
                break;
            }
            let mut read = vec![0; piece];
            source.read_bulk(0, &mut read, Stop::never()).unwrap();
            assert!(read.iter().all(|&byte| byte == 7));
            assert_eq!(source.is_cached(0, piece as u64), !direct, "{io:?} {piece}");
        }
        fs::remove_file(path).unwrap();
    }
}
