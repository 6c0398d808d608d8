//! Memory that waits for its next use, alone in its process: what others use would count too.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // a test that cannot set itself up has failed

use ztensor_core::sources::owned::{self, Owned};

/// Addresses that this process uses.
fn in_use() -> usize {
    let told = std::fs::read_to_string("/proc/self/statm").unwrap();
    told.split(' ').next().unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
}

#[test]
fn tidy_frees_most_of_the_reusable_memory() {
    const MIB: usize = 1 << 20;
    let before = in_use();
    // Of sizes that do not serve for each other.
    let blocks: Vec<Owned> = [50, 70, 90, 110].map(|size| Owned::zeroed(size * MIB as u64).unwrap()).into();
    let all = in_use();
    assert!(all >= before + 320 * MIB);
    drop(blocks);
    owned::tidy();
    let left = in_use();
    // All but the smallest: no other may wait with it. The reaper thread needs addresses of its own.
    let given = all.saturating_sub(left);
    assert!((140 * MIB..=271 * MIB).contains(&given), "{} MiB", given / MIB);
}
