//! Prints the ms that libdeflate takes on all cores for the members of a NumPy archive, into reused memory, as the reference for the
//! benchmark of deflated arrays. The archive is trusted: it was just written.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ztensor_core::codecs::deflate;
use ztensor_core::work::{Stop, cores};

fn number(bytes: &[u8], at: usize, width: usize) -> usize {
    bytes[at..at + width].iter().rev().fold(0, |all, &byte| all << 8 | usize::from(byte))
}

/// Location of the compressed bytes of each member, and their decoded size.
fn members(bytes: &[u8]) -> Vec<(&[u8], usize)> {
    let end = bytes.windows(4).rposition(|window| window == b"PK\x05\x06").unwrap();
    let (count, mut at) = (number(bytes, end + 10, 2), number(bytes, end + 16, 4));
    let mut found = Vec::new();
    for _ in 0..count {
        assert_eq!(&bytes[at..at + 4], b"PK\x01\x02");
        let [stored, plain, local] = [20, 24, 42].map(|field| number(bytes, at + field, 4));
        assert!(stored.max(plain) < 0xffff_ffff, "members of less than 4 GiB");
        let start = local + 30 + number(bytes, local + 26, 2) + number(bytes, local + 28, 2);
        found.push((&bytes[start..start + stored], plain));
        at += 46 + [28, 30, 32].map(|field| number(bytes, at + field, 2)).iter().sum::<usize>();
    }
    found
}

fn main() {
    let bytes = std::fs::read(std::env::args().nth(1).expect("a path")).unwrap();
    let members = members(&bytes);
    let largest = members.iter().map(|&(_, plain)| plain).max().unwrap();
    let mut slots = vec![vec![0; largest]; cores()];
    let times = (0..5).map(|_| {
        let (start, next) = (Instant::now(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for slot in &mut slots {
                scope.spawn(|| {
                    while let Some((stored, plain)) = members.get(next.fetch_add(1, Ordering::Relaxed)) {
                        deflate::decode_into(stored, false, &mut slot[..*plain], Stop::never(), |_| ())
                            .unwrap();
                    }
                });
            }
        });
        start.elapsed().as_secs_f64() * 1e3
    });
    let mut times: Vec<_> = times.collect();
    times.sort_by(f64::total_cmp);
    println!("{}", times[2]);
}
