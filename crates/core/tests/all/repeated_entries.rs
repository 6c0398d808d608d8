//! Entries that are encoded like the previous one are read by a faster path, which must agree with the ordinary one: an entry gives the
//! same tensor or the same error, whatever precedes it.

use proptest::prelude::*;
use ztensor_core::codecs::digest::xxh3;
use ztensor_core::error::{Error, Result};
use ztensor_core::formats::{Formats, zt2};
use ztensor_core::limits::Limits;
use ztensor_core::model::Catalog;
use ztensor_core::open::detect;
use ztensor_core::syntax::cbor_encode::Encoder;

use crate::cases::cases;

#[derive(Clone, Copy, Debug)]
enum Version {
    V10,
    V12,
    V2,
}

/// What an entry says.
#[derive(Clone, Debug)]
struct Entry {
    offset: u64,
    length: u64,
    digest: Option<String>,
    decoded: Option<u64>,
    dims: Vec<u64>,
    dtype: usize,
    layout: &'static str,
}

const BLOBS: usize = 16_384;

fn plain(dim: u64) -> Entry {
    let digest = Some("crc32c:0x0123ABCD".to_owned());
    Entry { offset: 4096, length: 4 * dim, digest, decoded: None, dims: vec![dim], dtype: 0, layout: "dense" }
}

fn entry(version: Version, entry: &Entry) -> Vec<u8> {
    let mut e = Encoder::default();
    let fields = |e: &mut Encoder| {
        e.text("offset");
        e.uint(entry.offset);
        e.text("length");
        e.uint(entry.length);
        if let Some(digest) = &entry.digest {
            e.text("digest");
            e.text(digest);
        }
    };
    let shape = |e: &mut Encoder| {
        e.text("shape");
        e.array(entry.dims.len());
        entry.dims.iter().for_each(|&dim| e.uint(dim));
    };
    // Of 1.0 and 1.2.
    let as_far_as_the_component = |e: &mut Encoder| {
        shape(e);
        e.text("format");
        e.text(entry.layout);
        e.text("components");
        e.map(1);
        e.text("data");
    };
    let optional = usize::from(entry.digest.is_some());
    let encoded = usize::from(entry.decoded.is_some());
    match version {
        Version::V10 => {
            e.map(4);
            e.text("dtype");
            e.text(["float32", "bool", "int32"][entry.dtype]);
            as_far_as_the_component(&mut e);
            e.map(2 + optional);
            fields(&mut e);
        }
        Version::V12 => {
            e.map(3);
            as_far_as_the_component(&mut e);
            e.map(3 + optional + 2 * encoded);
            e.text("dtype");
            e.text(["f32", "bool", "i32"][entry.dtype]);
            fields(&mut e);
            if let Some(decoded) = entry.decoded {
                e.text("encoding");
                e.text("zstd");
                e.text("uncompressed_length");
                e.uint(decoded);
            }
        }
        Version::V2 => {
            e.map(3);
            e.text("parts");
            e.map(1);
            e.text("data");
            let logical = [None, Some("bool"), None, Some("f4_e2m1")][entry.dtype];
            e.map(2 + usize::from(logical.is_some()) + optional + 2 * encoded);
            e.text("blob");
            e.array(2);
            e.uint(entry.offset);
            e.uint(entry.length);
            if let Some(logical) = logical {
                e.text("type");
                e.text(logical);
            }
            e.text("dtype");
            e.text(["f32", "u8", "i32", "u8"][entry.dtype]);
            if let Some(digest) = &entry.digest {
                e.text("digest");
                e.text(&digest.replace("crc32c:0x0123ABCD", "xxh3:0123456789abcdef"));
            }
            if let Some(decoded) = entry.decoded {
                e.text("encoding");
                e.text("zt.zstd-seekable/1");
                e.text("decoded_length");
                e.uint(decoded);
            }
            shape(&mut e);
            e.text("layout");
            e.text(entry.layout);
        }
    }
    e.finish()
}

/// A file with these entries, called a and b.
fn file(version: Version, entries: [&[u8]; 2]) -> Vec<u8> {
    let mut e = Encoder::default();
    if let Version::V2 = version {
        e.map(1);
        e.text("objects");
    } else {
        e.map(2);
        e.text("version");
        e.text(if let Version::V10 = version { "1.0" } else { "1.2.0" });
        e.text(if let Version::V10 = version { "tensors" } else { "objects" });
    }
    e.map(2);
    for (name, entry) in ["a", "b"].into_iter().zip(entries) {
        e.text(name);
        e.spelled(entry);
    }
    let manifest = e.finish();
    let mut bytes = if let Version::V2 = version { zt2::MAGIC.to_vec() } else { b"ZTEN1000".to_vec() };
    bytes.resize(BLOBS, 0);
    bytes.extend_from_slice(&manifest);
    match version {
        Version::V2 => {
            for number in [BLOBS as u64, manifest.len() as u64, xxh3(&manifest), 2] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(&zt2::MAGIC);
        }
        _ => bytes.extend_from_slice(&(manifest.len() as u64).to_le_bytes()),
    }
    if let Version::V12 = version {
        bytes.extend_from_slice(b"ZTEN1000");
    }
    bytes
}

/// Returns whether the file opens, and tensor b with all warnings, or the error.
fn found(version: Version, entries: [&[u8]; 2]) -> (bool, String) {
    let bytes = file(version, entries);
    let parsed: Result<Catalog> = detect::parse(&&*bytes, Formats::default(), &Limits::default());
    let words = |error: &Error| {
        let of = (error.tensor_name(), error.component_role(), error.broken_rule());
        format!("{:?} {} {:?} {of:?}", error.code(), error.message(), error.offset())
    };
    match parsed {
        Err(error) => (false, words(&error)),
        Ok(catalog) => {
            let Some(tensor) = catalog.find("b").and_then(|at| catalog.tensor(at)) else {
                return (true, format!("{} tensors", catalog.len()));
            };
            let attributes = tensor.attributes().map(|own| own.values().unwrap());
            let of = (tensor.shape(), tensor.layout(), tensor.dtype(), attributes);
            (true, format!("{of:?} {:?} {:?}", tensor.components(), catalog.warnings))
        }
    }
}

/// Another first entry, of the same length but with other bytes.
fn other(first: &Entry) -> Entry {
    let decoded = first.decoded.map(|bytes| bytes + 4);
    Entry { dims: vec![first.dims[0] + 1], length: first.length + 4, decoded, ..first.clone() }
}

fn digests() -> impl Strategy<Value = Option<String>> {
    let texts = [
        "crc32c:0x0123ABCD",
        "crc32c:0123abcd",
        "xxh3:0123456789abcdef",
        "xxh3:0123456789ABCDEF",
        "md5:00",
        "",
        "nonsense",
    ];
    prop_oneof![
        1 => Just(None),
        4 => Just(Some(texts[0].to_owned())),
        4 => proptest::sample::select(texts.to_vec()).prop_map(|text| Some(text.to_owned()))
    ]
}

fn entries() -> impl Strategy<Value = Entry> {
    let offsets =
        proptest::sample::select(vec![8192_u64, 8192, 8192, 8256, 8200, 0, 16_384, 1 << 53, u64::MAX]);
    let lengths = proptest::sample::select(vec![64_u64, 64, 64, 64, 65, 0, 1 << 20, 1 << 53, u64::MAX]);
    let decoded = prop_oneof![3 => Just(None), 1 => Just(Some(64)), 1 => Just(Some(1 << 60))];
    let dims =
        proptest::sample::select(vec![vec![16_u64], vec![16], vec![16], vec![17], vec![4, 4], vec![0]]);
    let layouts =
        proptest::sample::select(vec!["dense", "dense", "dense", "dense", "x.other/1", "sparse_csr"]);
    (offsets, lengths, digests(), decoded, dims, 0..3_usize, layouts).prop_map(
        |(offset, length, digest, decoded, dims, dtype, layout)| Entry {
            offset,
            length,
            digest,
            decoded,
            dims,
            dtype,
            layout,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(2000)) })]

    #[test]
    fn an_entry_does_not_depend_on_the_previous_one(
        version in prop_oneof![Just(Version::V10), Just(Version::V12), Just(Version::V2)],
        b in entries(),
        same_form in any::<bool>(),
        damage in proptest::option::weighted(0.4, (any::<proptest::sample::Index>(), any::<u8>())),
    ) {
        // Usually only the numbers differ, so that the fast path is taken.
        let first = Entry { decoded: b.decoded.map(|_| 64), digest: b.digest.as_ref().map(|_| "crc32c:0x0123ABCD".to_owned()), ..plain(16) };
        let b = if same_form { Entry { dims: vec![16], dtype: 0, layout: "dense", ..b } } else { b };
        let mut second = entry(version, &b);
        if let Some((at, byte)) = damage {
            let at = at.index(second.len());
            second[at] = byte;
        }
        let before = [first.clone(), other(&first)].map(|first| entry(version, &first));
        prop_assert_eq!(before[0].len(), before[1].len());
        let [one, two] = before.map(|before| found(version, [&before, &second]));
        prop_assert_eq!(one, two);
    }
}

#[test]
fn repeated_entries_have_the_same_data_rules() {
    let of = |dtype, dim| Entry { dtype, dims: vec![dim], ..plain(16) };
    for (version, first, rule) in [
        (Version::V12, of(1, 64), "Bool"),
        (Version::V2, of(1, 64), "Bool"),
        (Version::V2, of(3, 127), "LastNibble"),
    ] {
        let second = entry(version, &Entry { offset: 8192, ..first.clone() });
        let different = Entry { dims: vec![128], length: 128, dtype: 1, ..first.clone() };
        let [repeated, alone] =
            [&first, &different].map(|first| found(version, [&entry(version, first), &second]));
        assert!(repeated.0 && repeated.1.contains(rule), "{version:?}: {}", repeated.1);
        assert_eq!(repeated, alone);
    }
}

#[test]
fn the_generated_entries_are_valid() {
    for version in [Version::V10, Version::V12, Version::V2] {
        let good = Entry { offset: 8192, ..plain(16) };
        let (first, second) = (entry(version, &plain(16)), entry(version, &good));
        let (is_good, words) = found(version, [&first, &second]);
        assert!(is_good, "{version:?}: {words}");
    }
}
