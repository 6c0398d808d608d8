//! Prints the ms that opening files takes without JavaScript: the index read, checked and put into a catalog. Medians of several turns, in
//! JSON, in the order of the paths. What the rows of listing stand beside.
#![allow(clippy::unwrap_used)] // a measurement that cannot begin has failed

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use ztensor_core::formats::Formats;
use ztensor_core::limits::Limits;
use ztensor_core::open::detect;
use ztensor_core::sources::file::FileSource;

const ROUNDS: usize = 15;

fn main() {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let limits = Limits { max_index_bytes: Some(1 << 30), ..Limits::default() };
    let mut times = vec![Vec::new(); paths.len()];
    for round in 0..=ROUNDS {
        for (path, times) in paths.iter().zip(&mut times) {
            let start = Instant::now();
            let source = FileSource::open(Path::new(path)).unwrap();
            let catalog = detect::parse(&source, Formats::default(), &limits).unwrap();
            let elapsed = start.elapsed().as_secs_f64() * 1e3;
            black_box(&catalog);
            // The first one fills the caches.
            if round > 0 {
                times.push(elapsed);
            }
        }
    }
    let medians = times.iter_mut().map(|times| {
        times.sort_by(f64::total_cmp);
        format!("{:.3}", times[times.len() / 2])
    });
    println!("[{}]", medians.collect::<Vec<_>>().join(","));
}
