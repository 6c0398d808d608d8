//! Memory that is retained for its next use. Each test runs alone in a new process, since other tests would use memory too.
#![cfg(target_os = "linux")]

use std::thread;
use std::time::{Duration, Instant};

use ztensor_core::sources::owned::{self, Owned};

use crate::child;

const MIB: usize = 1 << 20;

/// Bytes of address space that this process uses.
fn in_use() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').next().unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
}

/// Runs `work` in a new process that runs only this test.
fn alone(test: &str, work: fn()) {
    if child::case().is_some() {
        return work();
    }
    let output = child::command(test, "alone").output().unwrap();
    assert!(child::passed(&output), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn trim_frees_most_of_the_reusable_memory() {
    alone("reusable_memory::trim_frees_most_of_the_reusable_memory", || {
        let before = in_use();
        // Of sizes that cannot be reused for each other.
        let blocks: Vec<Owned> =
            [50, 70, 90, 110].map(|size| Owned::zeroed(size * MIB as u64).unwrap()).into();
        let all = in_use();
        assert!(all >= before + 320 * MIB);
        drop(blocks);
        owned::trim();
        // All but the smallest: no other fits next to it. The reaper thread needs addresses too.
        let freed = all.saturating_sub(in_use());
        assert!((140 * MIB..=271 * MIB).contains(&freed), "{} MiB", freed / MIB);
    });
}

#[test]
fn unused_memory_is_freed_after_some_seconds() {
    alone("reusable_memory::unused_memory_is_freed_after_some_seconds", || {
        let size = 200 * MIB;
        let block = Owned::zeroed(size as u64).unwrap();
        let all = in_use();
        drop(block);
        assert!(in_use() + size / 2 > all, "it was not retained");
        let begin = Instant::now();
        while in_use() + size / 2 > all {
            assert!(begin.elapsed() < Duration::from_secs(40), "it was not freed");
            thread::sleep(Duration::from_millis(100));
        }
    });
}
