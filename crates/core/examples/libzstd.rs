//! Prints the ms that libzstd takes on one thread, at level 3, for a file in pieces of 8 MiB: in memory, or with a second path from
//! that file to this one, on the disk. The benchmark of compression compares its figures with this.

use std::fs::File;
use std::io::{Read, Result, Write};
use std::time::Instant;

const PIECE: usize = 8 << 20;

fn main() -> Result<()> {
    let mut paths = std::env::args().skip(1);
    let source = paths.next().ok_or(std::io::ErrorKind::InvalidInput)?;
    let elapsed = match paths.next() {
        Some(target) => between_files(File::open(source)?, &target)?,
        None => in_memory(&std::fs::read(source)?)?,
    };
    println!("{elapsed}");
    Ok(())
}

fn in_memory(bytes: &[u8]) -> Result<f64> {
    let mut compressor = zstd::bulk::Compressor::new(3)?;
    let start = Instant::now();
    let mut total = 0;
    for piece in bytes.chunks(PIECE) {
        total += compressor.compress(piece)?.len();
    }
    let elapsed = start.elapsed();
    assert!(total > 0);
    Ok(elapsed.as_secs_f64() * 1e3)
}

fn between_files(mut source: File, target: &str) -> Result<f64> {
    let start = Instant::now();
    let mut compressor = zstd::bulk::Compressor::new(3)?;
    let (mut plain, mut packed) =
        (vec![0; PIECE], Vec::with_capacity(zstd::zstd_safe::compress_bound(PIECE)));
    let mut target = File::create(target)?;
    loop {
        let mut filled = 0;
        while filled < PIECE {
            match source.read(&mut plain[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        if filled == 0 {
            break;
        }
        packed.clear();
        let length = compressor.compress_to_buffer(&plain[..filled], &mut packed)?;
        target.write_all(&packed[..length])?;
    }
    target.sync_all()?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}
