//! Runs one path of the library so many times: `counts PATH FOLDER TIMES`. `bench/counts.mjs` counts the instructions of two runs, and
//! their difference is what the path takes. `counts prepare FOLDER` writes the inputs, `counts` prints the names of the paths.
#![allow(clippy::unwrap_used)] // a measurement that cannot begin has failed

use std::hint::black_box;
use std::path::Path;

use ztensor_core::codecs::digest::Algorithm;
use ztensor_core::formats::{CORE, Formats};
use ztensor_core::kernels::cast::cast;
use ztensor_core::kernels::quantize::BlockEncoder;
use ztensor_core::limits::Limits;
use ztensor_core::model::slice::TensorSlice;
use ztensor_core::model::{Attributes, DType, Label};
use ztensor_core::open::{Opened, Request, open};
use ztensor_core::read::Reading;
use ztensor_core::read::take::Form;
use ztensor_core::work::{Stop, Watch};
use ztensor_core::write::{Settings, Spec, WriteFormat, Writer};
use ztensor_gguf::GGUF;
use ztensor_handover::Flat;
use ztensor_import::IMPORT;

/// Tensors of the files whose index is read.
const MANY: u64 = 100_000;
/// Rows and columns of the matrix that is sliced.
const MATRIX: [u64; 2] = [4096, 1024];
/// Weights that are quantized and dequantized: rows of 1,024.
const WEIGHTS: u64 = 1 << 16;
/// Repeats of paths that take less than a million instructions, so that allocations do not count.
const REPEATS: usize = 32;
/// Tokens in the metadata of the GGUF file.
const TOKENS: u64 = 100_000;

/// Sets a path up in the folder of the inputs. Returns what is repeated.
type SetUp = fn(&Path) -> Box<dyn FnMut()>;

const PATHS: &[(&str, SetUp)] = &[
    ("index of 100,000 safetensors tensors", |folder| index(folder, "many.safetensors")),
    ("index of 100,000 zTensor 2 tensors", |folder| index(folder, "many.zt")),
    ("100,000 lookups by name", lookup),
    ("slice", slice),
    ("take", take),
    ("crc32c in pieces", crc32c),
    ("quantize q4_k", |_| quantize("q4_k")),
    ("quantize q6_k", |_| quantize("q6_k")),
    ("q4_k to float32", dequantize),
    ("safetensors header written", header),
    ("float32 to bfloat16", |_| narrow()),
    ("hand-over of 100,000 tensors", hand_over),
    ("GGUF metadata", metadata),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => PATHS.iter().for_each(|(name, _)| println!("{name}")),
        [prepare, folder] if prepare == "prepare" => write_inputs(Path::new(folder)),
        [name, folder, times] => {
            let (_, set_up) = PATHS.iter().find(|(one, _)| one == name).unwrap();
            let mut path = set_up(Path::new(folder));
            for _ in 0..times.parse::<usize>().unwrap() {
                path();
            }
        }
        _ => panic!("counts [prepare FOLDER | PATH FOLDER TIMES]"),
    }
}

fn opened(path: &Path) -> Opened {
    let limits = Limits { max_index_bytes: Some(1 << 30), ..Limits::default() };
    let request = Request { formats: Formats::of(&[CORE, GGUF, IMPORT]), limits, ..Request::default() };
    open(path, &request).unwrap()
}

fn index(folder: &Path, name: &str) -> Box<dyn FnMut()> {
    let path = folder.join(name);
    Box::new(move || drop(black_box(opened(&path))))
}

fn name_of(at: u64) -> String {
    format!("model.layers.{}.block.{at}.weight", at % 97)
}

fn lookup(folder: &Path) -> Box<dyn FnMut()> {
    let file = opened(&folder.join("many.zt"));
    let names: Vec<String> = (0..MANY).map(name_of).collect();
    Box::new(move || {
        for name in &names {
            assert!(black_box(file.catalog.find(name)).is_some());
        }
    })
}

/// Repeats work on the tensor of a file.
fn reading(folder: &Path, name: &str, work: impl Fn(Reading<'_>) + 'static) -> Box<dyn FnMut()> {
    let file = opened(&folder.join(name));
    Box::new(move || {
        let (limits, watch) = (Limits::default(), Watch::default());
        work(Reading { sources: &file.files, catalog: &file.catalog, limits: &limits, watch: &watch });
    })
}

fn slice(folder: &Path) -> Box<dyn FnMut()> {
    reading(folder, "matrix.zt", |reading| {
        let tensor = reading.catalog.tensor(0).unwrap();
        let component = tensor.component(Label::DATA).unwrap();
        for at in 0..64 {
            let slice = TensorSlice::new(&MATRIX, &[(at, at + 256), (at, at + 512)], 32).unwrap();
            black_box(reading.slice(tensor, component, &slice).unwrap());
        }
    })
}

fn take(folder: &Path) -> Box<dyn FnMut()> {
    let indices: Vec<u64> = (0..4096).map(|at| at * 2_654_435_761 % MATRIX[0]).collect();
    reading(folder, "matrix.zt", move |reading| {
        let tensor = reading.catalog.tensor(0).unwrap();
        let component = tensor.component(Label::DATA).unwrap();
        black_box(reading.take(tensor, Form::Stored(component), 0, &indices).unwrap());
    })
}

fn crc32c(_: &Path) -> Box<dyn FnMut()> {
    let bytes: Vec<u8> = (0..16 << 20).map(|at: u32| at.to_le_bytes()[0]).collect();
    Box::new(move || {
        let mut hasher = Algorithm::Crc32c.hasher();
        bytes.chunks(4096).for_each(|piece| hasher.update(piece));
        black_box(Algorithm::Crc32c.digest(hasher));
    })
}

/// Weights between -1 and 1, the same in each run.
fn weights() -> Vec<f32> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from(u16::from_be_bytes([state.to_be_bytes()[0], state.to_be_bytes()[1]])) / 32_768.0 - 1.0
    };
    (0..WEIGHTS).map(|_| next()).collect()
}

fn blocks(name: &str) -> Vec<u8> {
    let (kind, weights) = (BlockEncoder::of(name).unwrap(), weights());
    let mut blocks = vec![0; weights.len() / kind.elements() * kind.bytes()];
    kind.quantize(&weights, 1024, None, &mut blocks).unwrap();
    blocks
}

fn quantize(name: &'static str) -> Box<dyn FnMut()> {
    Box::new(move || drop(black_box(blocks(name))))
}

fn dequantize(folder: &Path) -> Box<dyn FnMut()> {
    reading(folder, "model.gguf", |reading| {
        let tensor = reading.catalog.tensor(0).unwrap();
        (0..REPEATS).for_each(|_| drop(black_box(reading.dequantize(tensor, None).unwrap())));
    })
}

fn metadata(folder: &Path) -> Box<dyn FnMut()> {
    let path = folder.join("model.gguf");
    Box::new(move || {
        let file = opened(&path);
        assert!(!black_box(file.catalog.attributes.values().unwrap()).is_empty());
    })
}

fn narrow() -> Box<dyn FnMut()> {
    let bytes: Vec<u8> = weights().iter().flat_map(|weight| weight.to_le_bytes()).collect();
    let mut out = vec![0; bytes.len() / 2];
    Box::new(move || {
        (0..REPEATS)
            .for_each(|_| cast(DType::Float32, DType::BFloat16, black_box(&bytes), &mut out).unwrap());
    })
}

fn hand_over(folder: &Path) -> Box<dyn FnMut()> {
    let file = opened(&folder.join("many.zt"));
    Box::new(move || drop(black_box(Flat::of(&file.catalog))))
}

fn header(folder: &Path) -> Box<dyn FnMut()> {
    let path = folder.join("header.safetensors");
    Box::new(move || write(&path, WriteFormat::SAFETENSORS, 20_000, &[1]))
}

/// Writes so many float32 tensors of one shape.
fn write(path: &Path, format: &'static WriteFormat, count: u64, shape: &[u64]) {
    let settings = Settings {
        format,
        alignment: if format == WriteFormat::ZT2 { 4096 } else { 64 },
        digest: None,
        compression: None,
        overwrite: true,
        canonical: false,
        max_shard: None,
        attributes: Attributes::default(),
        generator: None,
        stop: Stop::default(),
    };
    let mut writer = Writer::create(path, settings).unwrap();
    let bytes = vec![0; usize::try_from(shape.iter().product::<u64>() * 4).unwrap()];
    let components = [("data", Some(DType::Float32), bytes.len() as u64)];
    for at in 0..count {
        let spec = Spec {
            name: &name_of(at),
            shape,
            layout: "dense",
            dtype: Some(DType::Float32),
            attributes: None,
            components: &components,
        };
        writer.add(spec, &bytes).unwrap();
        writer.flush_if_full().unwrap();
    }
    writer.finish().unwrap();
}

fn write_inputs(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    write(&folder.join("many.safetensors"), WriteFormat::SAFETENSORS, MANY, &[1]);
    write(&folder.join("many.zt"), WriteFormat::ZT2, MANY, &[1]);
    write(&folder.join("matrix.zt"), WriteFormat::ZT2, 1, &MATRIX);
    std::fs::write(folder.join("model.gguf"), gguf()).unwrap();
}

/// A GGUF file with a list of tokens in its metadata and a tensor of `q4_k`.
fn gguf() -> Vec<u8> {
    let mut file = b"GGUF".to_vec();
    let text = |file: &mut Vec<u8>, text: &str| {
        file.extend((text.len() as u64).to_le_bytes());
        file.extend(text.as_bytes());
    };
    file.extend(3_u32.to_le_bytes());
    file.extend(1_u64.to_le_bytes());
    file.extend(1_u64.to_le_bytes());
    text(&mut file, "tokenizer.ggml.tokens");
    // An array of strings.
    file.extend([9_u32.to_le_bytes(), 8_u32.to_le_bytes()].as_flattened());
    file.extend(TOKENS.to_le_bytes());
    (0..TOKENS).for_each(|at| text(&mut file, &format!("token{at}")));
    text(&mut file, "weight");
    file.extend(2_u32.to_le_bytes());
    file.extend([1024_u64.to_le_bytes(), (WEIGHTS / 1024).to_le_bytes()].as_flattened());
    // The code of q4_k.
    file.extend(12_u32.to_le_bytes());
    file.extend(0_u64.to_le_bytes());
    file.resize(file.len().next_multiple_of(32), 0);
    file.extend(blocks("q4_k"));
    file
}
