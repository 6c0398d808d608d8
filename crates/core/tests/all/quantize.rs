//! Quantized blocks against those of llama.cpp: npm's `@node-llama-cpp/linux-x64@3.21.1`, `ggml_quantize_chunk`. `npm run interop` compares
//! many more weights.

use sha2::{Digest, Sha256};
use ztensor_core::error::Code;
use ztensor_core::kernels::dequantize::BlockType;
use ztensor_core::kernels::quantize::{BlockEncoder, first_not_finite};

const ROW: usize = 1024;
const WEIGHTS: u64 = 1 << 16;

/// The first bytes of the SHA-256 of what the reference makes of `weights`: without importance, if it makes that, and with it.
const REFERENCE: [(&str, &str, &str); 24] = [
    ("q4_0", "49f39a126b43b1f6", "03ac57d021154e8d"),
    ("q4_1", "b24142d9bc2ab5b6", "362d29479f519be8"),
    ("q5_0", "11a155f0cc9b2a8c", "e4c03e5e4626713c"),
    ("q5_1", "df0e9daad461b379", "ed6fb851c1ae6e58"),
    ("q8_0", "14e308861c4509ec", "14e308861c4509ec"),
    ("q2_k", "c2259fb3829321f6", "6fb64e9ef7dd0ea9"),
    ("q3_k", "3a25aeef70037624", "df5d1154a64a5dc8"),
    ("q4_k", "1b212f0ecba53359", "4709f36d605b1eb3"),
    ("q5_k", "fba48984cc45c8df", "0cd3e8349af51860"),
    ("q6_k", "8e0126fd4d659a08", "4d40cf56d633c34b"),
    ("q8_k", "922b49f23a64606f", "922b49f23a64606f"),
    ("iq4_nl", "19186350b5772490", "cd34e2c39c64657a"),
    ("iq4_xs", "1bca6db854219b63", "d908ba9096569611"),
    ("iq2_xxs", "", "818ece880b399b2a"),
    ("iq2_xs", "", "9fdd5866b144bd69"),
    ("iq2_s", "0eb392b9f2e33fc0", "2dfe810230dfa998"),
    ("iq3_xxs", "505b5c2f6d2f9016", "498724a25eb14a46"),
    ("iq3_s", "db3614f533284dee", "c451d499cd1baabd"),
    ("iq1_s", "", "3028811458ee0999"),
    ("iq1_m", "", "1232bd7b2b5f9442"),
    ("tq1_0", "d596d31e224f0c6e", "d596d31e224f0c6e"),
    ("tq2_0", "55afbd6cd89d6576", "55afbd6cd89d6576"),
    ("mxfp4", "28364e782ebe8597", "28364e782ebe8597"),
    ("nvfp4", "8e185abd2b677f52", "8e185abd2b677f52"),
];

/// Returns a pseudorandom number, the same one on every machine (splitmix64).
fn random(at: u64) -> u64 {
    let mut bits = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// Returns a weight. Of 16 blocks of 256 weights, ten are usual, and the others have a kind each.
fn weight(at: u64) -> f32 {
    let random = random(at);
    let small = 120 - (random >> 1 | 1 << 20).trailing_zeros();
    let (sign, mantissa) = ((random & 1) as u32, (random >> 41 & 0x7f_ffff) as u32);
    let float =
        |sign: u32, exponent: u32, mantissa: u32| f32::from_bits(sign << 31 | exponent << 23 | mantissa);
    match at / 256 % 16 {
        // Magnitudes from 2^-107 to 2^19.
        10 => float(sign, 20 + (random >> 30 & 127) as u32, mantissa),
        11 => float(sign, 127, 0),
        // Close to -4, and from 1 to 2.
        12 => float(1, 129, mantissa >> 12),
        13 => float(0, 127, mantissa),
        14 if random >> 24 & 15 != 0 => 0.0,
        15 => 0.0,
        _ => float(sign, small, mantissa),
    }
}

fn weights() -> Vec<f32> {
    (0..WEIGHTS).map(weight).collect()
}

fn importance() -> Vec<f32> {
    (0..ROW as u64).map(|at| weight((1 << 20) + at).abs()).collect()
}

fn quantized(kind: BlockEncoder, source: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let mut out = vec![0xaa; source.len() / kind.elements() * kind.bytes()];
    kind.quantize(source, ROW, importance, &mut out).unwrap();
    out
}

fn digest(bytes: &[u8]) -> String {
    let first = Sha256::digest(bytes)[..8].try_into().unwrap();
    format!("{:016x}", u64::from_be_bytes(first))
}

#[test]
fn blocks_have_the_bytes_of_the_reference() {
    let (weights, importance) = (weights(), importance());
    let bytes = |floats: &[f32]| floats.iter().flat_map(|float| float.to_le_bytes()).collect::<Vec<_>>();
    assert_eq!(digest(&bytes(&weights)), "48ef5e804976f9a9");
    assert_eq!(digest(&bytes(&importance)), "55731b3b98d641a4");
    assert!(BlockEncoder::names().eq(REFERENCE.map(|(name, ..)| name)));
    for (name, plain, weighted) in REFERENCE {
        let kind = BlockEncoder::of(name).unwrap();
        assert_eq!(kind.needs_importance(), plain.is_empty(), "{name}");
        if !plain.is_empty() {
            assert_eq!(digest(&quantized(kind, &weights, None)), plain, "{name}");
        }
        assert_eq!(digest(&quantized(kind, &weights, Some(&importance))), weighted, "{name} with importance");
    }
}

#[test]
fn a_block_does_not_depend_on_blocks_quantized_with_it() {
    let (weights, importance) = (&weights()[..8 * ROW], importance());
    for name in BlockEncoder::names() {
        let kind = BlockEncoder::of(name).unwrap();
        let plain = (!kind.needs_importance()).then_some(None);
        for importance in plain.into_iter().chain([Some(&importance[..])]) {
            let whole = quantized(kind, weights, importance);
            // Rows of one element fewer or more than the batches of the searches have.
            for rows in [1, 3, 5] {
                let length = rows * ROW / kind.elements() * kind.bytes();
                let part = quantized(kind, &weights[..rows * ROW], importance);
                assert!(part == whole[..length], "{name}, {rows} rows");
            }
        }
    }
}

#[test]
fn decoded_blocks_are_close_to_the_weights() {
    // The root of the mean square of the errors, as a part of that of the weights.
    let errors = [
        ("iq1_s", 0.6),
        ("iq1_m", 0.55),
        ("iq2_xxs", 0.5),
        ("iq2_xs", 0.45),
        ("iq2_s", 0.4),
        ("iq3_xxs", 0.3),
        ("iq3_s", 0.25),
        ("q2_k", 0.3),
        ("q3_k", 0.16),
        ("q4_0", 0.1),
        ("q4_1", 0.1),
        ("q4_k", 0.08),
        ("iq4_nl", 0.09),
        ("iq4_xs", 0.09),
        ("mxfp4", 0.15),
        ("nvfp4", 0.18),
        ("q5_0", 0.05),
        ("q5_1", 0.05),
        ("q5_k", 0.04),
        ("q6_k", 0.02),
        ("q8_0", 0.006),
        ("tq1_0", 0.9),
        ("tq2_0", 0.9),
    ];
    // Usual blocks alone.
    let source: Vec<f32> = (0..WEIGHTS).filter(|at| at / 256 % 16 < 8).map(weight).collect();
    let square = |values: &mut dyn Iterator<Item = f32>| {
        values.map(|value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt()
    };
    let size = square(&mut source.iter().copied());
    for (name, max) in errors {
        let kind = BlockEncoder::of(name).unwrap();
        let equal = [1.0; ROW];
        let blocks = quantized(kind, &source, kind.needs_importance().then_some(&equal[..]));
        let mut decoded = vec![[0; 4]; source.len()];
        BlockType::of(name).unwrap().decode(&blocks, &mut decoded);
        let mut differences =
            decoded.iter().zip(&source).map(|(&bytes, value)| f32::from_ne_bytes(bytes) - value);
        let error = square(&mut differences) / size;
        assert!(error < max && error > max / 4.0, "{name}: {error}");
    }
}

#[test]
fn empty_rows_give_an_empty_result() {
    for name in BlockEncoder::names() {
        BlockEncoder::of(name).unwrap().quantize(&[], ROW, Some(&[1.0; ROW]), &mut []).unwrap();
    }
}

#[test]
fn wrong_lengths_are_refused() {
    let source = vec![1.0; 2 * ROW];
    for name in BlockEncoder::names() {
        let kind = BlockEncoder::of(name).unwrap();
        let bytes = source.len() / kind.elements() * kind.bytes();
        let run = |elements: usize, row: usize, importance: Option<&[f32]>, bytes: usize| {
            kind.quantize(&source[..elements], row, importance, &mut vec![0; bytes])
                .map_err(|error| error.code())
        };
        assert_eq!(run(2 * ROW, ROW, Some(&source[..ROW]), bytes), Ok(()), "{name}");
        let plain = run(2 * ROW, ROW, None, bytes);
        assert_eq!(plain, if kind.needs_importance() { Err(Code::InvalidArg) } else { Ok(()) }, "{name}");
        for (elements, row, importance, bytes) in [
            (2 * ROW, 0, None, bytes),
            (2 * ROW, kind.elements() / 2, None, bytes),
            (2 * ROW - kind.elements(), ROW, None, bytes - kind.bytes()),
            (2 * ROW, ROW, None, bytes - 1),
            (2 * ROW, ROW, None, bytes + kind.bytes()),
            (2 * ROW, ROW, Some(&source[..ROW - 1]), bytes),
            (2 * ROW, ROW, Some(&source[..]), bytes),
        ] {
            assert_eq!(
                run(elements, row, importance, bytes),
                Err(Code::InvalidArg),
                "{name} {elements} {row} {bytes}"
            );
        }
    }
}

#[test]
fn unknown_types_are_not_written() {
    for name in ["q8_1", "q1_0", "q2_0", "Q4_K", "f16", ""] {
        assert!(BlockEncoder::of(name).is_none(), "{name}");
    }
}

/// Where the reference ends its process, since a sum overflows or a weight is no number.
#[test]
fn overflows_give_blocks_that_can_be_decoded() {
    let default: Vec<f32> = (0..ROW as u64).map(weight).collect();
    let importance = [1.0; ROW];
    for name in ["iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq1_s", "iq1_m"] {
        let kind = BlockEncoder::of(name).unwrap();
        let expected = quantized(kind, &default, Some(&importance));
        for value in
            [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e30, f32::from_bits(1)]
        {
            for (is_usual, importance) in
                [(true, [1.0; ROW]), (false, [value.abs(); ROW]), (false, [0.0; ROW])]
            {
                let mut source = default.clone();
                source[300] = value;
                let blocks = quantized(kind, &source, Some(&importance));
                let mut decoded = vec![[0; 4]; ROW];
                BlockType::of(name).unwrap().decode(&blocks, &mut decoded);
                if is_usual {
                    assert!(blocks[..kind.bytes()] == expected[..kind.bytes()], "{name} {value}");
                    assert!(blocks[2 * kind.bytes()..] == expected[2 * kind.bytes()..], "{name} {value}");
                }
            }
        }
    }
}

/// The reference does not advance over a sub-block of zeros, so what follows in the block is decoded in its stead.
#[test]
fn a_sub_block_of_zeros_in_iq3_s_is_what_the_reference_writes() {
    let kind = BlockEncoder::of("iq3_s").unwrap();
    let mut source: Vec<f32> = (0..ROW as u64).map(weight).collect();
    let whole = quantized(kind, &source, None);
    source[..32].fill(0.0);
    let zeros = quantized(kind, &source, None);
    // Points and signs of the second sub-block are where those of the first one were.
    assert_eq!(zeros[2..10], whole[10..18]);
    assert_eq!(zeros[74..78], whole[78..82]);
    assert_eq!(zeros[kind.bytes()..], whole[kind.bytes()..]);
}

/// `ggml_validate_row_data` with the bytes of each block changed; `npm run interop` compares what it says of unusual weights.
#[test]
fn blocks_without_a_finite_scale_are_found() {
    const SCALES: [(&str, &[usize]); 21] = [
        ("q4_0", &[0]),
        ("q4_1", &[0, 2]),
        ("q5_0", &[0]),
        ("q5_1", &[0, 2]),
        ("q8_0", &[0]),
        ("q2_k", &[80, 82]),
        ("q3_k", &[108]),
        ("q4_k", &[0, 2]),
        ("q5_k", &[0, 2]),
        ("q6_k", &[208]),
        ("iq4_nl", &[0]),
        ("iq4_xs", &[0]),
        ("iq2_xxs", &[0]),
        ("iq2_xs", &[0]),
        ("iq2_s", &[0]),
        ("iq3_xxs", &[0]),
        ("iq3_s", &[0]),
        ("iq1_s", &[0]),
        ("tq1_0", &[52]),
        ("tq2_0", &[64]),
        ("nvfp4", &[]),
    ];
    let blocks = |kind: BlockEncoder| {
        let (source, importance) = (vec![1.0; ROW], [1.0; ROW]);
        let blocks = quantized(kind, &source, Some(&importance));
        assert_eq!(kind.first_invalid_block(&blocks), None, "{}", kind.name());
        blocks
    };
    for (name, offsets) in SCALES {
        let kind = BlockEncoder::of(name).unwrap();
        for (&at, half) in offsets.iter().flat_map(|at| [0x7c00_u16, 0xfc00, 0x7e01].map(|half| (at, half))) {
            let mut blocks = blocks(kind);
            let block = blocks.chunks_mut(kind.bytes()).nth(2).unwrap();
            block[at..at + 2].copy_from_slice(&half.to_le_bytes());
            assert_eq!(kind.first_invalid_block(&blocks), Some(2), "{name} {at} {half:x}");
        }
        let mut filled = blocks(kind);
        let is_scale =
            |at: usize| offsets.iter().any(|&scale| (scale..scale + 2).contains(&(at % kind.bytes())));
        filled.iter_mut().enumerate().filter(|&(at, _)| !is_scale(at)).for_each(|(_, byte)| *byte = 0xff);
        assert_eq!(kind.first_invalid_block(&filled), None, "{name}");
    }
    for (name, at, bytes) in [
        ("mxfp4", 0, &[0xff][..]),
        ("q8_k", 0, &f32::NAN.to_le_bytes()),
        // A float16 of infinity, four bits in each integer of 16.
        ("iq1_m", 48, &[0, 0, 0, 0, 0, 0xc0, 0, 0x70]),
    ] {
        let kind = BlockEncoder::of(name).unwrap();
        let mut blocks = blocks(kind);
        blocks[kind.bytes() + at..][..bytes.len()].copy_from_slice(bytes);
        assert_eq!(kind.first_invalid_block(&blocks), Some(1), "{name}");
    }
}

#[test]
fn the_first_element_that_is_not_finite_is_found() {
    let mut source: Vec<f32> = (0..100).map(|at| if at % 2 == 0 { f32::MAX } else { -0.0 }).collect();
    assert_eq!(first_not_finite(&source), None);
    for (at, value) in
        [(99, f32::INFINITY), (70, -f32::NAN), (3, f32::NEG_INFINITY), (0, f32::from_bits(0x7f80_0001))]
    {
        source[at] = value;
        assert_eq!(first_not_finite(&source), Some(at));
    }
    assert_eq!(first_not_finite(&[]), None);
}
