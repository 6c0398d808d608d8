//! The contract of codecs.

use ztensor_core::codecs::digest::Algorithm;
use ztensor_core::codecs::frames::{Head, Judge, Size, head};
use ztensor_core::codecs::zstd;
use ztensor_core::codecs::zstd_encode::{Compressor, threads};
use ztensor_core::work::Stop;

#[test]
fn compression_threads_are_limited_by_level() {
    for (level, max) in [(-5, 16), (1, 16), (4, 16), (5, 4), (8, 4), (9, 2), (22, 2)] {
        for asked in [0, 1, 2, 3, 4, 5, 15, 16, 17, 1000] {
            assert_eq!(threads(level, asked), asked.clamp(1, max), "{level} {asked}");
        }
    }
}

#[test]
fn crc_digests_combine_and_others_do_not() {
    for (algorithm, combines) in [
        (Algorithm::Crc32, true),
        (Algorithm::Crc32c, true),
        (Algorithm::Sha256, false),
        (Algorithm::Xxh3, false),
    ] {
        let hashed = |bytes: &[u8]| {
            let mut hasher = algorithm.hasher();
            hasher.update(bytes);
            hasher
        };
        let (mut whole, part) = (hashed(b"one and "), hashed(b"the other"));
        assert_eq!((whole.combines(), part.combined().is_some()), (combines, combines), "{algorithm:?}");
        if let Some(sum) = part.combined() {
            whole.combine(sum, 9);
            let text = |hasher| algorithm.digest(hasher).text().into_owned();
            assert_eq!(text(whole), text(hashed(b"one and the other")), "{algorithm:?}");
        }
    }
}

#[test]
fn digest_algorithms_are_found_by_option_name() {
    for (name, algorithm) in [
        ("crc32c", Some(Algorithm::Crc32c)),
        ("sha256", Some(Algorithm::Sha256)),
        ("xxh3", Some(Algorithm::Xxh3)),
        ("crc32", None),
        ("", None),
    ] {
        assert_eq!(Algorithm::from_name(name), algorithm, "{name}");
    }
}

fn frame(level: i32, bytes: &[u8]) -> Vec<u8> {
    let mut packed = vec![0; Compressor::bound(bytes.len())];
    let length = Compressor::new(level, false).unwrap().frame(bytes, &mut packed).unwrap();
    packed.truncate(length);
    packed
}

#[test]
fn fast_levels_use_a_window_of_at_most_512_kib() {
    let bytes = vec![7; 2 << 20];
    for level in [1, 3, 4, 5, 9] {
        let Some(Head::Data { window, .. }) = head(&frame(level, &bytes)).unwrap() else { panic!("data") };
        assert_eq!(window <= 512 << 10, level <= 4, "{level} {window}");
    }
}

#[test]
fn frames_decode_with_exact_and_maximum_sizes() {
    let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    let (packed, length) = (frame(3, &bytes), bytes.len() as u64);
    for size in [Size::Exactly(length), Size::UpTo(length), Size::UpTo(1 << 30)] {
        assert!(zstd::decode_to(&packed, size, Stop::never()).unwrap() == bytes, "{size:?}");
    }
    for size in [Size::Exactly(length - 1), Size::Exactly(length + 1), Size::UpTo(length - 1)] {
        assert!(zstd::decode_to(&packed, size, Stop::never()).is_err(), "{size:?}");
    }
}

#[test]
fn the_content_size_of_a_frame_is_verified() {
    for (decoded, holds) in [(4, false), (5, true)] {
        let mut judge = Judge::new(Size::UpTo(100));
        judge.begin(&Head::Data { length: 6, content: Some(5), window: 5, dictionary: 0 }).unwrap();
        judge.decoded(decoded).unwrap();
        assert_eq!(judge.end().is_ok(), holds, "{decoded}");
    }
}
