//! Quantizes a file of float32: `quantize TYPE ROW SOURCE OUT ROUNDS [IMPORTANCE]`. Rows have ROW elements; IMPORTANCE is a file of as
//! many float32. Writes the blocks to OUT and prints the ms that each round took, in JSON. `interop/quantize_peer.py` compares both with
//! the reference.
#![allow(clippy::unwrap_used)] // a measurement that cannot begin has failed

use std::time::Instant;

use ztensor_core::kernels::quantize::BlockEncoder;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, row, source, out, rounds, rest @ ..] = &arguments[..] else {
        panic!("quantize TYPE ROW SOURCE OUT ROUNDS [IMPORTANCE]");
    };
    let (row, rounds): (usize, usize) = (row.parse().unwrap(), rounds.parse().unwrap());
    let kind = BlockEncoder::of(name).unwrap_or_else(|| panic!("{name} is not a type that can be written"));
    let source = floats(source);
    let importance = rest.first().map(|path| floats(path));
    let mut blocks = vec![0; source.len() / kind.elements() * kind.bytes()];
    let mut times = Vec::new();
    for _ in 0..rounds {
        let begin = Instant::now();
        kind.quantize(&source, row, importance.as_deref(), &mut blocks).unwrap();
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    std::fs::write(out, blocks).unwrap();
    println!("{times:?}");
}

fn floats(path: &str) -> Vec<f32> {
    std::fs::read(path).unwrap().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}
