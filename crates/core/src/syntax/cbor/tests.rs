//! Tests of both modes of the reader, against ciborium and case by case.

use ciborium::Value;
use ciborium::value::Integer;

use super::*;
use proptest::prelude::*;

fn read(bytes: &[u8]) -> Result<Value> {
    let mut reader = Reader::new(bytes, 0, 1000);
    let value = reader.value()?;
    reader.end()?;
    Ok(value)
}

#[test]
fn malformed_cbor_is_rejected() {
    let cases: [(&[u8], Code); 12] = [
        (b"", Code::BadIndex),
        (b"\x1c", Code::BadIndex),                                 // reserved head
        (b"\x1f", Code::BadIndex),                                 // indefinite integer
        (b"\xff", Code::BadIndex),                                 // break outside
        (b"\x62a", Code::BadIndex),                                // text truncated
        (b"\x61\xff", Code::BadIndex),                             // not UTF-8
        (b"\x7f\x41a\xff", Code::BadIndex),                        // byte chunk inside a text
        (b"\xa2\x61a\x00\x61a\x01", Code::BadIndex),               // duplicate key
        (b"\xa2\x01\x00\x18\x01\x01", Code::BadIndex),             // the same key, spelled wider
        (b"\x00\x00", Code::BadIndex),                             // trailing byte
        (b"\xf8\x10", Code::BadIndex),                             // small simple value in two bytes
        (b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff", Code::BadIndex), // 2^64 - 1 items
    ];
    for (bytes, code) in cases {
        assert_eq!(read(bytes).unwrap_err().code(), code, "{bytes:02x?}");
    }
    let deep = [vec![0x81; 100], vec![0x00]].concat();
    assert_eq!(read(&deep).unwrap_err().code(), Code::Limit);
    let many = [vec![0x99, 0x07, 0xd0], vec![0x00; 2000]].concat();
    assert_eq!(read(&many).unwrap_err().code(), Code::Limit);
}

#[test]
fn reads_indefinite_and_wide_spellings() {
    assert_eq!(read(b"\x1b\x00\x00\x00\x00\x00\x00\x00\x07").unwrap(), Value::from(7));
    assert_eq!(read(b"\x7f\x61a\x61b\xff").unwrap(), Value::from("ab"));
    assert_eq!(read(b"\x9f\x01\x02\xff").unwrap(), Value::Array(vec![1.into(), 2.into()]));
    assert_eq!(read(b"\x3b\xff\xff\xff\xff\xff\xff\xff\xff").unwrap(), {
        Value::Integer(Integer::try_from(-(1_i128 << 64)).unwrap())
    });
    assert_eq!(read(b"\xf9\x3c\x00").unwrap(), Value::Float(1.0));
}

#[test]
fn plain_heads_agree_with_deterministic_heads() {
    fn reader(bytes: &[u8]) -> Reader<'_> {
        Reader::new(bytes, 0, 0)
    }
    for major in 0..8_u8 {
        for info in 0..32_u8 {
            for argument in [0, 23, 24, 0xff, 0x100, 0xffff, 0x1_0000, 0xffff_ffff, 0x1_0000_0000, u64::MAX] {
                let width = match info {
                    24..=27 => 1 << (info - 24),
                    _ => 0,
                };
                let mut bytes = vec![major << 5 | info];
                bytes.extend_from_slice(&argument.to_be_bytes()[8 - width..]);
                let strict = Reader::deterministic(&bytes, 0, 0, 8, "deterministic").head();
                for wanted in [UNSIGNED, TEXT, ARRAY, MAP] {
                    let mut plain = reader(&bytes);
                    let found = plain.plain_head(wanted);
                    let expected = match strict {
                        Ok(Head::Unsigned(value)) if wanted == UNSIGNED => Some(value),
                        Ok(Head::Text(length)) if wanted == TEXT => length,
                        Ok(Head::Array(length)) if wanted == ARRAY => length,
                        Ok(Head::Map(length)) if wanted == MAP => length,
                        _ => None,
                    };
                    assert_eq!(found, expected, "{bytes:02x?}");
                    assert_eq!(plain.at, if found.is_some() { bytes.len() } else { 0 });
                    assert_eq!(reader(&bytes[..width]).plain_head(wanted), None, "truncated");
                }
            }
        }
    }
}

fn strictly(bytes: &[u8]) -> Result<Value> {
    let mut reader = Reader::deterministic(bytes, 0, 1000, 32, "deterministic");
    let value = reader.clone().value()?;
    // Skipping validates like reading.
    reader.skip()?;
    reader.end()?;
    Ok(value)
}

#[test]
fn the_deterministic_mode_accepts_one_encoding() {
    let good: [&[u8]; 9] = [
        b"\x17",
        b"\x18\x18",
        b"\x3b\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\xa2\x61b\x00\x62aa\x00", // shorter keys first
        b"\xa2\x18\x18\x00\x61a\x00",
        b"\xf9\x7e\x00",
        b"\xf9\x80\x00", // -0
        b"\xfa\x47\xc3\x50\x00",
        b"\xfb\x3f\xb9\x99\x99\x99\x99\x99\x9a",
    ];
    for bytes in good {
        assert!(strictly(bytes).is_ok(), "{bytes:02x?}: {:?}", strictly(bytes));
    }
    let bad: [&[u8]; 21] = [
        b"\x18\x17",
        b"\x19\x00\xff",
        b"\x1a\x00\x00\xff\xff",
        b"\x1b\x00\x00\x00\x00\xff\xff\xff\xff",
        b"\x78\x01a",
        b"\x58\x01a",
        b"\x98\x01\x00",
        b"\xb8\x01\x00\x00",
        b"\x9f\xff",
        b"\xbf\xff",
        b"\x7f\xff",
        b"\xa2\x61b\x00\x61a\x00",
        b"\xa2\x62aa\x00\x61b\x00",
        b"\xa2\x61a\x00\x61a\x00",
        b"\xc1\x00",
        b"\xf7",
        b"\xf9\x7e\x01",
        b"\xf9\xfe\x00",
        b"\xfa\x7f\xc0\x00\x00",
        b"\xfa\x3f\x80\x00\x00",
        b"\xfb\x3f\xf0\x00\x00\x00\x00\x00\x00",
    ];
    for bytes in bad {
        let error = strictly(bytes).unwrap_err();
        assert_eq!(error.code(), Code::BadIndex, "{bytes:02x?}");
        assert_eq!(error.broken_rule(), Some("deterministic"), "{bytes:02x?}");
    }
    let nested = |arrays: usize, last: u8| [vec![0x81; arrays], vec![last]].concat();
    assert!(strictly(&nested(32, 0x00)).is_ok());
    assert!(strictly(&nested(32, 0x80)).is_ok());
    assert_eq!(strictly(&nested(33, 0x00)).unwrap_err().broken_rule(), Some("deterministic"));
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        ".*".prop_map(Value::Text),
        any::<Vec<u8>>().prop_map(Value::Bytes),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
            proptest::collection::btree_map(".*", inner, 0..8)
                .prop_map(|map| Value::Map(map.into_iter().map(|(k, v)| (k.into(), v)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn agrees_with_ciborium(value in any_value()) {
        let mut bytes = Vec::new();
        ciborium::into_writer(&value, &mut bytes).unwrap();
        prop_assert_eq!(read(&bytes).unwrap(), value);
    }

    #[test]
    fn both_modes_read_deterministic_bytes_the_same(bytes: Vec<u8>) {
        if let Ok(value) = strictly(&bytes) {
            let mut again = Vec::new();
            ciborium::into_writer(&value, &mut again).unwrap();
            prop_assert_eq!(&again, &bytes);
            let ordinary = read(&bytes).unwrap();
            prop_assert_eq!(format!("{ordinary:?}"), format!("{value:?}"));
        }
    }

    #[test]
    fn never_panics(bytes: Vec<u8>) {
        let _ = read(&bytes);
        let _ = strictly(&bytes);
    }
}
