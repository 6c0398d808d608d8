//! Archives return the arrays that were stored, whatever the encoding and way of reading. All ways of reading agree on damaged ones.
#![allow(clippy::expect_used, clippy::cast_possible_truncation)] // the oracle is the fuzzer's

use std::io::Write;

use proptest::prelude::*;
use ztensor_core::model::Label;

use crate::agreement::{any_format, reading, ways};

/// An array, and how an archive stores it.
#[allow(clippy::struct_excessive_bools)] // each is tried with every other
#[derive(Clone, Debug)]
struct Array {
    kind: usize,
    big: bool,
    shape: Vec<usize>,
    fortran: bool,
    deflated: bool,
    described: bool,
    zip64: bool,
    pad: usize,
}

/// Kinds of elements: NumPy's name, bytes of an element, bytes of what is swapped.
const KINDS: [(&str, usize, usize); 6] =
    [("f4", 4, 4), ("i8", 8, 8), ("u2", 2, 2), ("b1", 1, 1), ("c8", 8, 4), ("f1", 1, 1)];

fn array() -> impl Strategy<Value = Array> {
    let shape = prop::collection::vec(0_usize..6, 0..5);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (0..KINDS.len(), shape, flags, 0_usize..70).prop_map(
        |(kind, shape, (big, fortran, deflated, described, zip64), pad)| Array {
            kind,
            big,
            shape,
            fortran,
            deflated,
            described,
            zip64,
            pad,
        },
    )
}

impl Array {
    fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// The elements in C order, little-endian.
    fn plain(&self) -> Vec<u8> {
        let bytes = self.count() * KINDS[self.kind].1;
        (0..bytes).map(|at| (at * 7 % 251) as u8 & if self.kind == 3 { 1 } else { 0xff }).collect()
    }

    fn npy(&self) -> Vec<u8> {
        let (name, width, swapped) = KINDS[self.kind];
        let dims: Vec<_> = self.shape.iter().map(|dim| format!("{dim}, ")).collect();
        let dims = dims.concat();
        let order = if self.big { '>' } else { '<' };
        let fortran = if self.fortran { "True" } else { "False" };
        let text = format!("{{'descr': '{order}{name}', 'fortran_order': {fortran}, 'shape': ({dims}), }}");
        let text = format!("{text}{}\n", " ".repeat(self.pad));
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend(text.as_bytes());
        let plain = self.plain();
        for nth in 0..self.count() {
            // The index in C order of the nth element in the file.
            let at = if self.fortran { self.place_of(nth) } else { nth };
            let mut element = plain[at * width..][..width].to_vec();
            if self.big {
                element.chunks_mut(swapped).for_each(<[u8]>::reverse);
            }
            bytes.extend(element);
        }
        bytes
    }

    fn place_of(&self, mut nth: usize) -> usize {
        let mut index = Vec::new();
        for &dim in &self.shape {
            index.push(nth % dim);
            nth /= dim;
        }
        index.iter().zip(&self.shape).fold(0, |at, (index, dim)| at * dim + index)
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// An archive as any writer may make it.
fn archive(arrays: &[Array]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (nth, array) in arrays.iter().enumerate() {
        let (name, content) = (format!("a{nth}.npy"), array.npy());
        let stored = if array.deflated {
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&content).unwrap();
            encoder.finish().unwrap()
        } else {
            content.clone()
        };
        let (crc, sizes) = (crc32(&content), [stored.len() as u64, content.len() as u64]);
        let long: Vec<u8> = [1_u16, 16]
            .iter()
            .flat_map(|n| n.to_le_bytes())
            .chain(sizes.iter().rev().flat_map(|n| n.to_le_bytes()))
            .collect();
        let offset = bytes.len() as u32;
        let header = |crc: u32, sizes: [u64; 2], extra: &[u8]| {
            let mut header = Vec::new();
            let flags = if array.described { 8_u16 } else { 0 };
            let method = if array.deflated { 8_u16 } else { 0 };
            for number in [20, flags, method, 0, 0] {
                header.extend(number.to_le_bytes());
            }
            header.extend(crc.to_le_bytes());
            for size in sizes {
                let short = if array.zip64 { u32::MAX } else { size as u32 };
                header.extend(short.to_le_bytes());
            }
            header.extend((name.len() as u16).to_le_bytes());
            header.extend((extra.len() as u16).to_le_bytes());
            header
        };
        let extra: &[u8] = if array.zip64 { &long } else { &[] };
        bytes.extend(b"PK\x03\x04");
        bytes.extend(if array.described { header(0, [0, 0], extra) } else { header(crc, sizes, extra) });
        bytes.extend(name.as_bytes());
        bytes.extend(extra);
        bytes.extend(&stored);
        if array.described {
            // The signature may lack.
            bytes.extend(if nth % 2 == 0 { &b"PK\x07\x08"[..] } else { b"" });
            bytes.extend(crc.to_le_bytes());
            for size in sizes {
                if array.zip64 {
                    bytes.extend(size.to_le_bytes());
                } else {
                    bytes.extend((size as u32).to_le_bytes());
                }
            }
        }
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(header(crc, sizes, extra));
        directory.extend([0; 2 + 2 + 2 + 4]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
        directory.extend(extra);
    }
    let (at, count) = (bytes.len() as u32, arrays.len() as u16);
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend(count.to_le_bytes());
    bytes.extend(count.to_le_bytes());
    bytes.extend((directory.len() as u32).to_le_bytes());
    bytes.extend(at.to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}

fn holds(bytes: &[u8], names: &[String], arrays: &[Array]) {
    let read = reading(bytes, any_format(), |reading| {
        assert_eq!(reading.catalog.len(), arrays.len());
        for (name, array) in names.iter().zip(arrays) {
            let tensor = reading.catalog.tensor(reading.catalog.find(name).unwrap()).unwrap();
            assert!(tensor.shape().iter().map(|&dim| dim as usize).eq(array.shape.iter().copied()));
            let data = tensor.component(Label::DATA).unwrap();
            assert_eq!(*reading.component(tensor, data).unwrap(), array.plain(), "{array:?}");
        }
        ways::agree(reading, bytes.len() as u64);
    });
    assert!(read.is_some());
}

proptest! {
    #[test]
    fn archives_of_arbitrary_arrays_are_read(arrays in prop::collection::vec(array(), 0..6)) {
        let names: Vec<_> = (0..arrays.len()).map(|nth| format!("a{nth}")).collect();
        holds(&archive(&arrays), &names, &arrays);
    }

    #[test]
    fn a_single_array_is_named_arr_0(array in array()) {
        holds(&array.npy(), &["arr_0".to_owned()], std::slice::from_ref(&array));
    }

    #[test]
    fn all_ways_of_reading_agree_on_damaged_archives(
        arrays in prop::collection::vec(array(), 1..4),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        truncation in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = archive(&arrays);
        for (at, with) in damage {
            let at = at.index(bytes.len());
            bytes[at] = with;
        }
        let length = truncation.map_or(bytes.len(), |truncation| truncation.index(bytes.len()));
        crate::agreement::agree(&bytes[..length], any_format());
    }
}
