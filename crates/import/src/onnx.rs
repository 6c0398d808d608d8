//! ONNX models (`onnx.proto` of onnx/onnx): one protobuf message without a magic. Tensors are initializers, values of `Constant`
//! nodes, and attributes of other nodes, in the graph, its subgraphs and the model's functions; their bytes stand in the message
//! or in files beside it.
#![forbid(unsafe_code)]

mod details;
mod graph;
mod list;
mod sparse;
mod tensor;
mod tensors;
mod types;

use ztensor_core::error::{Code, Result};
use ztensor_core::formats::{Format, Input, Sample, Told, bad_magic};
use ztensor_core::model::Catalog;
use ztensor_core::work::Stop;

use crate::limits::ONNX_INDEX_BYTES;
use crate::protobuf::{Field, Run, Value, Walker};

const NAME: &str = "onnx";
const LACKS: &str = "no ONNX model";
/// Fields of a model that are looked at to tell it: it has some ten, and one for each function.
const TOLD_BY: u32 = 4096;
/// Bytes of them.
const TOLD_BYTES: u64 = 1 << 20;
/// Fields of a graph that are.
const OF_GRAPH: u32 = 16;
/// The largest `ir_version` that a file is told by; 14 is the newest.
const VERSIONS: u64 = 255;

pub const FORMAT: Format =
    Format { name: NAME, title: "ONNX", endings: &["onnx"], lacks: LACKS, tell, parse, writes: &[] };

/// It has no magic: all fields from the first byte to the last must be those of a model with a version and a graph.
fn tell(sample: &Sample<'_>) -> Result<Told> {
    let stop = Stop::default();
    let mut walker = Walker::new(sample, &stop, TOLD_BYTES);
    let (mut message, mut version, mut graph) = (walker.whole(), false, None);
    for _ in 0..TOLD_BY {
        let start = message.at;
        match walker.next(&mut message) {
            Ok(Some(field)) if !is_of_model(&field) => return Ok(Told::No),
            Ok(Some(Field { number: 1, value: Value::Varint(number), .. })) => {
                if !(1..=VERSIONS).contains(&number) {
                    return Ok(Told::No);
                }
                version = true;
            }
            Ok(Some(Field { number: 7, value: Value::Bytes(run), .. })) => graph = Some(run),
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) if matches!(error.code(), Code::Io | Code::Aborted) => return Err(error),
            // The graph is most of a file, so that one which is cut off ends there.
            Err(error) if version && error.code() == Code::Truncated => {
                let cut = walker.bytes(Run { at: start, end: start + 1 })? == [GRAPH];
                return Ok(if cut { Told::Likely } else { Told::No });
            }
            Err(_) => return Ok(Told::No),
        }
    }
    let Some(mut graph) = graph.filter(|_| version) else { return Ok(Told::No) };
    for _ in 0..OF_GRAPH {
        match walker.next(&mut graph) {
            Ok(Some(Field { number: 1 | 2 | 5 | 10..=16, value: Value::Bytes(_), .. })) => {}
            Ok(None) => break,
            Err(error) if matches!(error.code(), Code::Io | Code::Aborted) => return Err(error),
            _ => return Ok(Told::No),
        }
    }
    Ok(Told::Likely)
}

/// The tag of `ModelProto.graph`.
const GRAPH: u8 = 7 << 3 | 2;

/// Whether a `ModelProto` has such a field.
fn is_of_model(field: &Field) -> bool {
    match field.value {
        Value::Varint(_) => matches!(field.number, 1 | 5),
        Value::Bytes(_) => matches!(field.number, 2..=4 | 6..=8 | 14 | 20 | 25 | 26),
        Value::Fixed(_) => false,
    }
}

fn parse(input: &Input<'_>) -> Result<Catalog> {
    let most = input.limits.max_index_bytes.unwrap_or(ONNX_INDEX_BYTES);
    let walker = Walker::new(input.source, input.stop, most);
    graph::read(input, walker)?.ok_or_else(|| bad_magic(LACKS))
}
