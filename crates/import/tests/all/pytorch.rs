//! Pickles of any opcodes, alone and in a file: all ways of reading agree, or each rejects it.
#![allow(clippy::expect_used, clippy::cast_possible_truncation)] // the oracle is the fuzzer's

use proptest::prelude::*;
use ztensor_core::limits::Limits;
use ztensor_import::pickle::{Pickle, Value};

fn agree(bytes: &[u8]) -> bool {
    crate::agreement::agree(bytes, crate::agreement::any_format().only("pytorch").unwrap())
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
    fn arbitrary_opcodes_do_not_panic(opcodes in prop::collection::vec(opcode(), 0..60)) {
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
