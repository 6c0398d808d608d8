//! PyTorch's files, held together by the oracle of the fuzz targets: the fixtures, the same damaged in any byte, and pickles of any
//! opcodes in both containers.
#![allow(clippy::unwrap_used)] // a test that cannot set itself up has failed
#![allow(clippy::expect_used, clippy::cast_possible_truncation)] // the oracle is the fuzzer's

#[path = "../../../fuzz/src/ways.rs"]
mod ways;

use proptest::prelude::*;
use ztensor_core::error::Code;
use ztensor_core::formats::{CORE, Formats};
use ztensor_core::limits::Limits;
use ztensor_core::open::detect;
use ztensor_core::read::Reading;
use ztensor_core::work::Watch;
use ztensor_import::IMPORT;
use ztensor_import::pickle::{Pickle, Value};

/// Whether the file was read; a refusal has to be one of ours.
fn agree(bytes: &[u8]) -> bool {
    let limits = Limits { max_decoded_bytes: 1 << 20, ..Limits::default() };
    let formats = Formats::of(&[CORE, IMPORT]).only("pytorch").unwrap();
    let catalog = match detect::parse(&bytes, formats, &limits) {
        Ok(catalog) => catalog,
        Err(error) => {
            assert_ne!(error.code(), Code::Internal, "{error}");
            return false;
        }
    };
    catalog.attributes.values().unwrap();
    let watch = Watch::default();
    let reading = Reading { sources: &bytes, catalog: &catalog, limits: &limits, watch: &watch };
    ways::agree(reading, bytes.len() as u64);
    true
}

fn fixtures() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../__test__/fixtures/pytorch");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = paths.filter(|path| path.extension().is_some_and(|ending| ending != "json"));
    let mut files: Vec<_> =
        files.map(|path| (path.display().to_string(), std::fs::read(path).unwrap())).collect();
    files.sort();
    assert!(files.len() > 10, "the fixtures are missing");
    files
}

#[test]
fn fixtures_are_read_alike_in_all_ways() {
    for (path, bytes) in fixtures() {
        assert!(agree(&bytes), "{path}");
    }
}

#[test]
fn damaged_fixtures_are_refused_or_read_alike() {
    for (_, bytes) in fixtures() {
        let step = bytes.len() / 200 + 1;
        for at in (0..bytes.len()).step_by(step) {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                agree(&damaged);
            }
            agree(&bytes[..at]);
        }
    }
}

/// Opcodes as they stand in checkpoints, and any bytes.
fn opcode() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<&[u8]> = vec![
        b"(", b")", b"]", b"}", b"t", b"l", b"d", b"e", b"u", b"a", b"s", b"0", b"1", b"2", b"N", b"Q", b"R", b"b", b"o", b"K\x02",
        b"K\x00", b"J\xff\xff\xff\xff", b"h\x00", b"h\x01", b"h\x02", b"q\x00", b"q\x01", b"q\x02", b"\x94", b"\x85", b"\x86", b"\x87",
        b"\x88", b"\x89", b"\x81", b"\x8f", b"\x90", b"\x91", b"\x92", b"\x93", b"\x97", b"C\x04abcd", b"U\x07storage", b"U\x010",
        b"X\x01\x00\x00\x00w", b"U\x03cpu", b"ctorch\nFloatStorage\n", b"ctorch\nfloat32\n", b"ctorch\nsparse_coo\n",
        b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch._utils\n_rebuild_parameter\n", b"ctorch._utils\n_rebuild_sparse_tensor\n",
        b"ccollections\nOrderedDict\n", b"c__builtin__\nset\n", b"c_codecs\nencode\n", b"U\x06latin1", b"cnumpy\ndtype\n", b"U\x02f4",
        b"cnumpy.core.multiarray\n_reconstruct\n", b"cnumpy.core.multiarray\nscalar\n", b"cos\nsystem\n", b"G\x3f\xf0\0\0\0\0\0\0",
        // A whole tensor of 2 elements.
        b"ctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuK\x04tQK\x00(K\x02t(K\x01t\x89)tR",
    ];
    prop_oneof![
        20 => prop::sample::select(known).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 1..3),
    ]
}

fn legacy(main: &[u8]) -> Vec<u8> {
    let head: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}.";
    let keys: &[u8] = b"\x80\x02](U\x010e.\x04\0\0\0\0\0\0\0";
    [head, main, keys, &[7; 16]].concat()
}

proptest! {
    #[test]
    fn pickles_of_any_opcodes(opcodes in prop::collection::vec(opcode(), 0..60)) {
        let main = [&b"\x80\x02"[..], &opcodes.concat(), b"."].concat();
        if let Ok(pickle) = Pickle::parse(&main, 0, &Limits::default()) {
            prop_assert!(pickle.nodes().len() <= main.len());
            for at in (0_u32..).take(pickle.nodes().len()) {
                pickle.repr(Value::Node(at));
            }
        }
        agree(&legacy(&main));
    }
}

#[test]
fn a_legacy_file_is_read() {
    let tensor = b"ctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuK\x04tQK\x00(K\x02t(K\x01t\x89)tR";
    assert!(agree(&legacy(&[&b"\x80\x02}U\x01w"[..], tensor, b"s."].concat())));
}
