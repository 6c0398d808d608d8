//! Files whose bytes the caller takes in blocks, without a file on disk.

use std::sync::{Arc, Mutex};

use ztensor_core::codecs::digest::Algorithm;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::model::DType;
use ztensor_core::write::{ByteStream, Compression, Finished, Settings, Spec, WriteFormat, Writer};

fn settings(format: &'static WriteFormat, compressed: bool) -> Settings {
    let compression =
        compressed.then_some(Compression { level: 1, min_savings: 0.1, threads: 2, frame: 1 << 20 });
    let digest = Some(if format == WriteFormat::ZT2 { Algorithm::Xxh3 } else { Algorithm::Crc32c });
    Settings { digest, compression, ..crate::settings::settings(format) }
}

/// Small tensors between large ones, compressible and not.
fn tensors() -> Vec<(String, Vec<u8>)> {
    let mut seed = 1_u32;
    let mut noise = |count: usize| {
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed.to_be_bytes()[0]
        };
        (0..count).map(|_| next()).collect::<Vec<u8>>()
    };
    let lengths = [10, 3 << 20, 0, 700_000, 9 << 20, 5, (2 << 20) + 1, 40_000];
    let mut all = Vec::new();
    for (at, length) in lengths.into_iter().enumerate() {
        all.push((format!("noise {at}"), noise(length)));
        all.push((format!("pattern {at}"), (0..length).map(|at| (at % 61).to_le_bytes()[0]).collect()));
    }
    all
}

fn add(writer: &mut Writer, name: &str, bytes: &[u8], mut after: impl FnMut(&mut Writer)) {
    let components = [("data", Some(DType::Uint8), bytes.len() as u64)];
    let (shape, layout, dtype, attributes) = ([bytes.len() as u64], "dense", Some(DType::Uint8), None);
    writer.begin(Spec { name, shape: &shape, layout, dtype, attributes, components: &components }).unwrap();
    for piece in bytes.chunks(300_000) {
        writer.push(piece).unwrap();
        writer.flush_if_full().unwrap();
        after(writer);
    }
    writer.end().unwrap();
    writer.flush_if_full().unwrap();
    after(writer);
}

/// Takes blocks, up to a number of them.
struct LimitedBlocks(Arc<Mutex<Vec<Vec<u8>>>>, usize);

impl ByteStream for LimitedBlocks {
    fn pass(&mut self, block: Vec<u8>) -> Result<()> {
        let mut blocks = self.0.lock().unwrap();
        if blocks.len() == self.1 {
            return Err(Error::new(Code::Io, "the reader has stopped"));
        }
        blocks.push(block);
        Ok(())
    }
}

#[test]
fn passed_blocks_equal_the_written_file() {
    let path = std::env::temp_dir().join(format!("ztensor-streaming-{}", std::process::id()));
    for format in [WriteFormat::ZT10, WriteFormat::ZT12, WriteFormat::ZT2] {
        for compressed in [false, true] {
            let mut writer = Writer::create(&path, settings(format, compressed)).unwrap();
            let refused = writer.passing(Box::new(LimitedBlocks(Arc::default(), 0)), |_| Ok(()));
            assert_eq!(refused.unwrap_err().code(), Code::Internal, "only what is taken is passed on");
            for (name, bytes) in tensors() {
                add(&mut writer, &name, &bytes, |writer| assert!(!writer.must_be_taken()));
            }
            writer.finish().unwrap();
            let expected = std::fs::read(&path).unwrap();
            // What is taken: whenever that must be.
            let mut writer = Writer::taken(settings(format, compressed)).unwrap();
            let mut file = Vec::new();
            for (name, bytes) in tensors() {
                add(&mut writer, &name, &bytes, |writer| {
                    let wanted = writer.pending() >= 1 << 20;
                    assert_eq!(writer.must_be_taken(), wanted);
                    if wanted {
                        file.extend(writer.take());
                    }
                    assert!(!writer.must_be_taken());
                });
            }
            let Finished { rest, warnings, .. } = writer.finish().unwrap();
            file.extend(rest);
            assert!(file == expected && warnings.is_empty(), "{format:?} {compressed}");
            // What is passed on, in no block too small for that.
            let mut writer = Writer::taken(settings(format, compressed)).unwrap();
            let blocks = Arc::new(Mutex::new(Vec::new()));
            let passing = Box::new(LimitedBlocks(Arc::clone(&blocks), usize::MAX));
            writer
                .passing(passing, |writer| {
                    for (name, bytes) in tensors() {
                        add(writer, &name, &bytes, |writer| {
                            assert!(!writer.must_be_taken() && writer.pending() < 1 << 20);
                        });
                    }
                    Ok(())
                })
                .unwrap();
            let mut file = blocks.lock().unwrap().concat();
            assert!(blocks.lock().unwrap().iter().all(|block| block.len() >= 1 << 20));
            file.extend(writer.take());
            file.extend(writer.finish().unwrap().rest);
            assert!(file == expected, "{format:?} {compressed}");
        }
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_closed_consumer_stops_the_writer() {
    for compressed in [false, true] {
        let mut writer = Writer::taken(settings(WriteFormat::ZT12, compressed)).unwrap();
        let passing = Box::new(LimitedBlocks(Arc::default(), 2));
        let outcome = writer.passing(passing, |writer| {
            for (name, bytes) in tensors() {
                let components = [("data", Some(DType::Uint8), bytes.len() as u64)];
                let (name, shape, layout) = (&*name, [bytes.len() as u64], "dense");
                let (dtype, attributes) = (Some(DType::Uint8), None);
                writer.add(
                    Spec { name, shape: &shape, layout, dtype, attributes, components: &components },
                    &bytes,
                )?;
                writer.flush_if_full()?;
            }
            writer.flush_if_full()
        });
        let settled = outcome.and_then(|()| writer.finish().map(drop));
        if !compressed {
            assert_eq!(settled.unwrap_err().message(), "the reader has stopped");
        }
    }
}
