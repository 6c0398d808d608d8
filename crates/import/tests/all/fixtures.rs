//! The files of other tools, and the same files damaged: all ways of reading them agree.
#![allow(clippy::expect_used, clippy::cast_possible_truncation)] // the oracle is the fuzzer's

use ztensor_core::formats::Formats;

use crate::agreement::{agree, any_format};
use crate::cases::cases;

/// Bytes of a file that is damaged: of larger ones all ways of reading take long.
const MAX: usize = 32 << 10;

/// A folder of fixtures, the endings of its files, how many there are at least, and the formats they are tried as.
struct Fixtures<'f> {
    folder: &'f str,
    endings: &'static [&'static str],
    min: usize,
    /// Bytes of each file that are damaged in CI, one after the other.
    places: u32,
    formats: Formats,
}

impl<'f> Fixtures<'f> {
    fn of(folder: &'f str, endings: &'static [&'static str], min: usize) -> Self {
        Self { folder, endings, min, places: 200, formats: any_format() }
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let folder = format!("{}/../../__test__/fixtures/{}", env!("CARGO_MANIFEST_DIR"), self.folder);
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let listed = paths
            .filter(|path| path.extension().is_some_and(|end| self.endings.iter().any(|one| end == *one)));
        let mut files: Vec<_> =
            listed.map(|path| (path.display().to_string(), std::fs::read(path).unwrap())).collect();
        files.sort();
        assert!(files.len() >= self.min, "the fixtures are missing");
        files
    }

    fn agree_in_all_ways_of_reading(&self) {
        for (path, bytes) in self.files() {
            assert!(agree(&bytes, self.formats), "{path}");
        }
    }

    /// Some bytes of each file, each changed in turn, and the file truncated there.
    fn damaged_are_refused_or_agree(&self) {
        for (_, bytes) in self.files().into_iter().filter(|(_, bytes)| bytes.len() <= MAX) {
            let step = bytes.len() / cases(self.places) as usize + 1;
            for at in (0..bytes.len()).step_by(step) {
                let mut damaged = bytes.clone();
                damaged[at] ^= [0x01, 0x80, 0xff][at % 3];
                agree(&damaged, self.formats);
                agree(&bytes[..at], self.formats);
            }
        }
    }
}

#[test]
fn numpy() {
    let fixtures = Fixtures::of("numpy", &["npy", "npz"], 21);
    fixtures.agree_in_all_ways_of_reading();
    fixtures.damaged_are_refused_or_agree();
}

#[test]
fn pytorch() {
    let formats = any_format().only("pytorch").unwrap();
    let fixtures = Fixtures { formats, ..Fixtures::of("pytorch", &["pt", "pth", "ckpt", "bin"], 11) };
    fixtures.agree_in_all_ways_of_reading();
    fixtures.damaged_are_refused_or_agree();
}

#[test]
fn gguf() {
    let fixtures = Fixtures::of("gguf", &["gguf"], 5);
    fixtures.agree_in_all_ways_of_reading();
    fixtures.damaged_are_refused_or_agree();
}

#[test]
fn hdf5() {
    // Their files are large, and have many tensors; the smallest are damaged in each byte by another test.
    let fixtures = Fixtures { places: 8, ..Fixtures::of("hdf5", &["h5", "keras"], 25) };
    fixtures.agree_in_all_ways_of_reading();
    fixtures.damaged_are_refused_or_agree();
}

#[test]
fn onnx() {
    let fixtures = Fixtures::of("onnx", &["onnx"], 4);
    fixtures.agree_in_all_ways_of_reading();
    fixtures.damaged_are_refused_or_agree();
}

#[test]
fn tensorflow() {
    // Their data is in other files, so that every way of reading rejects it.
    for folder in ["dtypes", "slices", "partitioned", "manager", "sharded", "keras"] {
        let folder = format!("tensorflow/{folder}");
        let fixtures = Fixtures::of(&folder, &["index"], 1);
        fixtures.agree_in_all_ways_of_reading();
        fixtures.damaged_are_refused_or_agree();
    }
}

#[test]
fn flax() {
    let fixtures = Fixtures::of("flax", &["msgpack"], 9);
    fixtures.agree_in_all_ways_of_reading();
    fixtures.damaged_are_refused_or_agree();
}

#[test]
fn paddle() {
    let fixtures = Fixtures::of("paddle", &["pdparams", "pdopt", "pdiparams"], 13);
    fixtures.agree_in_all_ways_of_reading();
    fixtures.damaged_are_refused_or_agree();
}

#[test]
fn openvino() {
    let fixtures = Fixtures::of("openvino", &["xml"], 7);
    fixtures.agree_in_all_ways_of_reading();
    fixtures.damaged_are_refused_or_agree();
}

#[test]
fn tflite() {
    let fixtures = Fixtures::of("tflite", &["tflite"], 4);
    fixtures.agree_in_all_ways_of_reading();
    fixtures.damaged_are_refused_or_agree();
}
