//! Valid zTensor 2 files (those of the corpus of `read`) whose manifest is mutated in its numbers, names and lists, and written again with
//! its hash.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use arbitrary::Unstructured;
use ciborium::Value;
use libfuzzer_sys::fuzz_target;
use ztensor_core::codecs::digest::xxh3;
use ztensor_core::formats::Formats;
use ztensor_core::formats::zt2;
use ztensor_core::work::Stop;

static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/read");
    let paths =
        fs::read_dir(folder).expect("run fuzz/seeds.mjs first").filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "zt")).collect();
    paths.sort();
    let files = paths.iter().filter_map(|path| fs::read(path).ok());
    files.filter(|file| file.starts_with(&zt2::MAGIC) && file.len() < 1 << 16).collect()
});

fuzz_target!(|input: &[u8]| {
    let mut input = Unstructured::new(input);
    let Ok(file) = input.choose(&FILES) else { return };
    let footer = zt2::read_footer(&&**file, Stop::never()).ok().flatten().expect("the seeds are valid");
    let (data, rest) = file.split_at(footer.offset as usize);
    let mut root: Value = ciborium::from_reader(rest).expect("the seeds are valid");
    let mutated = ztensor_fuzz::mutate::components(&mut root, &mut input);
    if mutated.and_then(|()| ztensor_fuzz::mutate::value(&mut root, &mut input)).is_err() {
        return;
    }
    let mut manifest = Vec::new();
    ciborium::into_writer(&root, &mut manifest).expect("memory");
    let mut end = file[file.len() - zt2::FOOTER as usize..].to_vec();
    end[8..16].copy_from_slice(&(manifest.len() as u64).to_le_bytes());
    end[16..24].copy_from_slice(&xxh3(&manifest).to_le_bytes());
    ztensor_fuzz::read(&[data, &manifest, &end].concat(), Formats::default().only("zt").unwrap());
});
