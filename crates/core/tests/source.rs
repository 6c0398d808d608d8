//! A source that is no local file: what is read of it, and how an abort ends a read that hangs.
#![allow(clippy::unwrap_used)] // a test that cannot set itself up has failed

use std::sync::mpsc::{Sender, channel};
use std::thread;

use ztensor_core::error::{Code, Result};
use ztensor_core::formats::Formats;
use ztensor_core::limits::Limits;
use ztensor_core::model::{Catalog, Tensor};
use ztensor_core::open::detect;
use ztensor_core::read::{Reading, batch, prefetch};
use ztensor_core::sources::files::{Files, Member};
use ztensor_core::sources::{ReadAt, Sources, Stretches};
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

/// One that never answers, and says that it was asked.
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
fn a_source_that_is_no_file_is_read_prefetched_and_has_no_mapping() {
    let (bytes, catalog) = file();
    let files = Files::new(vec![Member::of(Box::new(Distant(bytes)))]);
    assert!(files.local(0).unwrap().is_none() && files.opened(0).is_none());
    let (limits, watch) = (Limits::default(), Watch::default());
    let reading = Reading { sources: &files, catalog: &catalog, limits: &limits, watch: &watch };
    let small = catalog.tensor(catalog.find("small").unwrap()).unwrap();
    assert_eq!(*reading.component(small, small.data().unwrap()).unwrap(), [8, 9]);
    assert!(verify::verify(reading, &[0, 1]).unwrap().failures.is_empty());
    prefetch::prefetch(&files, &catalog, &[0, 1], prefetch::IN_FLIGHT, &watch).unwrap();
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
        |reading, _| batch::load(reading, &[0, 1], 4, |_, _| {}).map(drop),
        |reading, tensor| reading.pieces(tensor, tensor.data().unwrap(), |_| Ok(())),
        |reading, tensor| {
            let mut hasher = ztensor_core::codecs::digest::Algorithm::Crc32c.hasher();
            let (source, stop) = (reading.source(tensor.data().unwrap())?, &reading.watch.stop);
            source.hash(&Stretches::default(), 0, 100, &mut hasher, stop)
        },
        |reading, _| {
            let source = reading.sources.source(0)?;
            source.read_vec(0, 100, &reading.watch.stop).map(drop)
        },
    ];
    for (nth, work) in work.into_iter().enumerate() {
        let (asked, told) = channel();
        let source = Hanging(length, asked);
        let (limits, watch) = (Limits::default(), Watch::default());
        let stop = watch.stop.clone();
        let reading = Reading { sources: &source, catalog: &catalog, limits: &limits, watch: &watch };
        let tensor = catalog.tensor(catalog.find("large").unwrap()).unwrap();
        let ended = thread::scope(|scope| {
            let ended = scope.spawn(|| work(reading, tensor));
            told.recv().unwrap();
            stop.set();
            ended.join().unwrap()
        });
        assert_eq!(ended.unwrap_err().code(), Code::Aborted, "{nth}");
    }
    let (asked, told) = channel();
    let files = Files::new(vec![Member::of(Box::new(Hanging(length, asked)))]);
    let watch = Watch::default();
    let ended = thread::scope(|scope| {
        let ended = scope.spawn(|| prefetch::prefetch(&files, &catalog, &all, prefetch::IN_FLIGHT, &watch));
        told.recv().unwrap();
        watch.stop.set();
        ended.join().unwrap()
    });
    assert_eq!(ended.unwrap_err().code(), Code::Aborted);
}
