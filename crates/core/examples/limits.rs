//! What this machine can do, in JSON: the limits with which `npm run bench` compares its figures. Bytes per second, medians.
//!
//! Usage: limits MODEL WEIGHTS [NAMES]: a large file that is in the page cache, and some MiB of weights to compress; of the bounds
//! those that are named, by commas, or all. Usage: limits --first MODEL: the ms that reading a file into fresh memory takes in a process
//! that has done nothing else, on all cores: the first time, and the median of four more into the same memory.
#![allow(unsafe_code, clippy::cast_precision_loss, clippy::unwrap_used)]

use std::fs::File;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ztensor_core::codecs::digest::Algorithm;
use ztensor_core::sources::ReadAt;
use ztensor_core::sources::file::FileSource;
use ztensor_core::sources::owned::Owned;
use ztensor_core::work::{self, Stop};

const MIB: usize = 1 << 20;
const ROUNDS: usize = 7;

/// The median of what `bytes` take.
fn rate(bytes: usize, mut work: impl FnMut()) -> f64 {
    let mut seconds = Vec::new();
    for round in 0..=ROUNDS {
        let start = Instant::now();
        work();
        // The first one fills the caches.
        if round > 0 {
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    seconds.sort_by(f64::total_cmp);
    bytes as f64 / seconds[ROUNDS / 2]
}

/// Calls `work` on each part of `bytes`, on all cores.
fn parts(bytes: &[u8], work: impl Fn(&[u8]) + Sync) {
    let parts: Vec<_> = bytes.chunks(bytes.len().div_ceil(work::cores())).collect();
    work::for_each(parts.len(), |at| work(parts[at]));
}

fn copy(threads: usize, from: &[u8], to: &mut [u8]) {
    let step = from.len().div_ceil(threads);
    std::thread::scope(|scope| {
        for (from, to) in from.chunks(step).zip(to.chunks_mut(step)) {
            scope.spawn(move || to.copy_from_slice(from));
        }
    });
}

/// Reads pieces of a file on all cores, each into memory of its thread.
fn pieces(source: &FileSource, total: usize) {
    let next = AtomicUsize::new(0);
    work::for_each(work::cores(), |_| {
        let mut buffer = vec![0; 128 << 10];
        loop {
            let at = next.fetch_add(buffer.len(), Ordering::Relaxed);
            if at + buffer.len() > total {
                return;
            }
            source.read_at(at as u64, &mut buffer, Stop::never()).unwrap();
            black_box(&buffer);
        }
    });
}

/// Fills `to` on all cores, a part for each, in pieces: `work` reads `step` bytes of the source at an offset, with a buffer of its
/// thread for them. Each byte that is read becomes `times` bytes.
fn refill(to: &mut [u8], times: usize, step: usize, work: impl Fn(usize, &mut [u8], &mut [u8]) + Sync) {
    let part = (to.len() / times).div_ceil(work::cores()).next_multiple_of(step);
    std::thread::scope(|scope| {
        for (number, part_of) in to.chunks_mut(part * times).enumerate() {
            let work = &work;
            scope.spawn(move || {
                let mut own = vec![0; step];
                for (at, piece) in part_of.chunks_mut(step * times).enumerate() {
                    work(number * part + at * step, piece, &mut own);
                }
            });
        }
    });
}

/// Reads the beginning of a file into memory, a part of it on each core.
fn fill(source: &FileSource, memory: &mut [u8]) {
    let step = memory.len().div_ceil(work::cores());
    std::thread::scope(|scope| {
        for (at, part) in memory.chunks_mut(step).enumerate() {
            scope.spawn(move || source.read_at((at * step) as u64, part, Stop::never()).unwrap());
        }
    });
}

/// Fresh memory, in huge pages where the system has them.
fn fresh(length: usize) -> memmap2::MmapMut {
    let fresh = memmap2::MmapMut::map_anon(length).unwrap();
    #[cfg(target_os = "linux")]
    fresh.advise(memmap2::Advice::HugePage).unwrap();
    fresh
}

/// What [`fill`] takes in this process, in ms.
fn first(model: &str) {
    let source = FileSource::open(model.as_ref()).unwrap();
    let mut memory = fresh(usize::try_from(source.length()).unwrap());
    let mut times: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            fill(&source, &mut memory);
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    let first = times.remove(0);
    times.sort_by(f64::total_cmp);
    println!("[{first},{}]", times[times.len() / 2]);
}

/// A byte of each page of a fresh private mapping.
fn touch(path: &str) -> usize {
    let file = File::open(path).unwrap();
    let length = usize::try_from(file.metadata().unwrap().len()).unwrap();
    // SAFETY: the file belongs to the benchmark, and no other process changes it.
    let map = unsafe { memmap2::MmapOptions::new().no_reserve_swap().map_copy(&file) }.unwrap();
    let sum = map.iter().step_by(4096).fold(0_usize, |sum, &byte| sum + usize::from(byte));
    black_box(sum);
    length
}

/// Copies 1,000 rows of 4 KiB at random offsets of a mapped file, others each time, on one thread.
fn rows(rates: &mut Rates, model: &str, length: usize) {
    const ROW: usize = 4096;
    let file = File::open(model).unwrap();
    // SAFETY: the file belongs to the benchmark, and no other process changes it.
    let map = unsafe { memmap2::MmapOptions::new().populate().map(&file) }.unwrap();
    let mut output = vec![1; 1000 * ROW];
    let mut seed = 7_usize;
    rates.add("rows", output.len(), || {
        for out in output.chunks_exact_mut(ROW) {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let start = (seed >> 33) % (length / ROW - 1) * ROW;
            out.copy_from_slice(&map[start..start + ROW]);
        }
        black_box(&output);
    });
}

/// Bounds that are wanted, measured one after the other.
struct Rates {
    names: Option<Vec<String>>,
    measured: Vec<(&'static str, f64)>,
}

impl Rates {
    fn wants(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.iter().any(|wanted| wanted == name))
    }

    fn add(&mut self, name: &'static str, bytes: usize, work: impl FnMut()) {
        if self.wants(name) {
            self.measured.push((name, rate(bytes, work)));
        }
    }

    fn print(&self) {
        let rates: Vec<_> =
            self.measured.iter().map(|(name, rate)| format!("\"{name}\":{rate:.0}")).collect();
        println!("{{\"cores\":{},{}}}", work::cores(), rates.join(","));
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (model, weights, names) = match arguments.as_slice() {
        [flag, model] if flag == "--first" => return first(model),
        [model, weights] => (model, weights, None),
        [model, weights, names] => (model, weights, Some(names.split(',').map(str::to_owned).collect())),
        _ => panic!("usage: limits MODEL WEIGHTS [NAMES], or limits --first MODEL"),
    };
    let mut rates = Rates { names, measured: Vec::new() };
    // Freeing much memory slows what is measured next, so none is taken that is not needed.
    if rates.names.as_ref().is_none_or(|names| names.iter().any(|name| !OF_FILES.contains(&name.as_str()))) {
        of_memory(&mut rates, weights);
    }
    of_files(&mut rates, model);
    rates.print();
}

/// The bounds that [`of_files`] measures.
const OF_FILES: [&str; 6] = ["touch", "read", "reread", "rows", "refill", "widen"];

fn of_memory(rates: &mut Rates, weights: &str) {
    let size = 256 * MIB;
    let mut from = Owned::zeroed(size as u64).unwrap();
    from.iter_mut().enumerate().for_each(|(at, byte)| *byte = u8::try_from(at % 251).unwrap());
    let mut to = Owned::zeroed(size as u64).unwrap();
    let cores = work::cores();
    rates.add("memcpy1", size, || copy(1, &from, &mut to));
    rates.add("memcpy", size, || copy(cores, &from, &mut to));
    for (algorithm, one, all) in [
        (Algorithm::Crc32c, "crc32c1", "crc32c"),
        (Algorithm::Sha256, "sha2561", "sha256"),
        (Algorithm::Xxh3, "xxh31", "xxh3"),
    ] {
        let hash = |bytes: &[u8]| {
            let mut hasher = algorithm.hasher();
            hasher.update(bytes);
            black_box(algorithm.digest(hasher));
        };
        rates.add(one, size, || hash(&from));
        rates.add(all, size, || parts(&from, hash));
    }
    let raw = std::fs::read(weights).unwrap();
    let frame = zstd::bulk::compress(&raw, 3).unwrap();
    let decode = |output: &mut [u8]| zstd::zstd_safe::DCtx::create().decompress(output, &frame).unwrap();
    rates.add("zstd1", raw.len(), || {
        black_box(decode(&mut to[..raw.len()]));
    });
    rates.add("zstd", raw.len() * cores, || {
        let outputs: Vec<_> = to.chunks_mut(raw.len()).take(cores).collect();
        std::thread::scope(|scope| {
            for output in outputs {
                scope.spawn(move || black_box(decode(output)));
            }
        });
    });
}

fn of_files(rates: &mut Rates, model: &str) {
    let source = FileSource::open(model.as_ref()).unwrap();
    let length = usize::try_from(source.length()).unwrap();
    rates.add("touch", length, || _ = touch(model));
    let total = length.min(1 << 30);
    rates.add("read", total, || fill(&source, &mut fresh(total)));
    rates.add("reread", total, || pieces(&source, total));
    if rates.wants("rows") {
        rows(rates, model, length);
    }
    if !rates.wants("refill") && !rates.wants("widen") {
        return;
    }
    // Into existing memory, in pages of the size that JavaScript's has: unchanged, and as float32 where it is bfloat16.
    let total = total / 2;
    let mut buffer = vec![1; 2 * total];
    let read = |at: usize, piece: &mut [u8]| source.read_at(at as u64, piece, Stop::never()).unwrap();
    rates.add("refill", total, || refill(&mut buffer[..total], 1, 8 * MIB, |at, piece, _| read(at, piece)));
    let widen = |at: usize, piece: &mut [u8], halves: &mut [u8]| {
        let halves = &mut halves[..piece.len() / 2];
        read(at, halves);
        // The bits of bfloat16 are the upper half of those of float32.
        for (wide, half) in piece.as_chunks_mut::<4>().0.iter_mut().zip(halves.as_chunks::<2>().0) {
            *wide = (u32::from(u16::from_le_bytes(*half)) << 16).to_le_bytes();
        }
    };
    rates.add("widen", total, || refill(&mut buffer, 2, 128 << 10, widen));
}
