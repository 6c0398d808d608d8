//! Prints the ms that opening files takes without JavaScript: the index read, checked and put into a catalog. Medians of several turns, in
//! JSON, in the order of the paths. The benchmark of listing compares its figures with this.
//!
//! With `--names` before the paths, which are of safetensors then: what a table of the names alone takes, with a record for each. No reader
//! that refuses names that stand twice does with less, so this says how the machine's caches make large indexes slower.
#![allow(clippy::unwrap_used)] // a measurement that cannot begin has failed

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::hint::black_box;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use hashbrown::HashTable;
use ztensor_core::formats::Formats;
use ztensor_core::limits::Limits;
use ztensor_core::open::detect;
use ztensor_core::sources::file::FileSource;

const ROUNDS: usize = 15;

fn main() {
    let mut paths: Vec<String> = std::env::args().skip(1).collect();
    let alone = paths.first().is_some_and(|first| first == "--names");
    if alone {
        paths.remove(0);
    }
    let mut times = vec![Vec::new(); paths.len()];
    for round in 0..=ROUNDS {
        for (path, times) in paths.iter().zip(&mut times) {
            let elapsed = if alone { names(path) } else { open(path) };
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

/// Opens a file, and gives the ms.
fn open(path: &str) -> f64 {
    let limits = Limits { max_index_bytes: Some(1 << 30), ..Limits::default() };
    let start = Instant::now();
    let source = FileSource::open(Path::new(path)).unwrap();
    let catalog = detect::parse(&source, Formats::default(), &limits).unwrap();
    let elapsed = start.elapsed().as_secs_f64() * 1e3;
    black_box(&catalog);
    elapsed
}

/// Puts all names of a header into a table, and gives the ms. Every entry ends with the only '}' in it.
fn names(path: &str) -> f64 {
    let start = Instant::now();
    let mut file = File::open(path).unwrap();
    let mut length = [0; 8];
    file.read_exact(&mut length).unwrap();
    let mut header = vec![0; usize::try_from(u64::from_le_bytes(length)).unwrap()];
    file.read_exact(&mut header).unwrap();
    let hasher = RandomState::new();
    let (mut table, mut records) = (HashTable::<(u64, u32)>::new(), Vec::<[u64; 5]>::new());
    let mut at = 0;
    while let Some(begin) = find(&header, b'"', at) {
        let end = find(&header, b'"', begin + 1).unwrap();
        let hash = hasher.hash_one(&header[begin + 1..end]);
        let ordinal = u32::try_from(records.len()).unwrap();
        let same = |&(other, _): &(u64, u32)| other == hash;
        assert!(table.find(hash, same).is_none());
        table.insert_unique(hash, (hash, ordinal), |&(hash, _)| hash);
        records.push([begin as u64, end as u64, hash, 0, 0]);
        at = find(&header, b'}', end).unwrap();
    }
    let elapsed = start.elapsed().as_secs_f64() * 1e3;
    black_box((&table, &records));
    elapsed
}

fn find(bytes: &[u8], wanted: u8, from: usize) -> Option<usize> {
    Some(from + bytes.get(from..)?.iter().position(|&byte| byte == wanted)?)
}
