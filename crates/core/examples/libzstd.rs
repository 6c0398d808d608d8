//! Prints the ms that libzstd takes on one thread, at level 3 and in memory, for a file in pieces of 8 MiB: what the benchmark of
//! compression stands beside.

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).ok_or(std::io::ErrorKind::InvalidInput)?;
    let bytes = std::fs::read(path)?;
    let mut compressor = zstd::bulk::Compressor::new(3)?;
    let start = std::time::Instant::now();
    let mut total = 0;
    for piece in bytes.chunks(8 << 20) {
        total += compressor.compress(piece)?.len();
    }
    let elapsed = start.elapsed();
    assert!(total > 0);
    println!("{}", elapsed.as_secs_f64() * 1e3);
    Ok(())
}
