//! What codecs promise whoever uses them.

use ztensor_core::codecs::digest::Algorithm;
use ztensor_core::codecs::zstd_encode::threads;

#[test]
fn so_many_threads_compress_as_the_memory_allows() {
    for (level, most) in [(-5, 16), (1, 16), (4, 16), (5, 4), (8, 4), (9, 2), (22, 2)] {
        for asked in [0, 1, 2, 3, 4, 5, 15, 16, 17, 1000] {
            assert_eq!(threads(level, asked), asked.clamp(1, most), "{level} {asked}");
        }
    }
}

#[test]
fn the_digest_of_a_whole_follows_from_its_parts_or_is_none_of_theirs() {
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
fn digests_are_told_by_the_names_that_options_have() {
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
