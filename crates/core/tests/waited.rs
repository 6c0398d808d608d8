//! Memory that waits for its next use, alone in its process: what others use would count too.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // a test that cannot set itself up has failed

use std::thread;
use std::time::{Duration, Instant};

use ztensor_core::sources::owned::Owned;

/// Addresses that this process uses.
fn in_use() -> usize {
    let told = std::fs::read_to_string("/proc/self/statm").unwrap();
    told.split(' ').next().unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
}

#[test]
fn unused_memory_is_freed_after_some_seconds() {
    const SIZE: usize = 200 << 20;
    let block = Owned::zeroed(SIZE as u64).unwrap();
    let all = in_use();
    drop(block);
    assert!(in_use() + SIZE / 2 > all, "it does not wait");
    let begin = Instant::now();
    while in_use() + SIZE / 2 > all {
        assert!(begin.elapsed() < Duration::from_secs(40), "it waits still");
        thread::sleep(Duration::from_millis(100));
    }
}
