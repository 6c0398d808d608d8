//! ONNX models (`onnx.proto` of onnx/onnx): one protobuf message without a magic. Tensors are initializers, values of `Constant` nodes, and
//! attributes of other nodes, in the graph, its subgraphs and the model's functions. Their bytes are in the message or in sibling files.
#![forbid(unsafe_code)]

mod details;
mod dtypes;
mod graph;
mod list;
mod sparse_tensor;
mod tensor;
mod tensors;

use ztensor_core::error::{Code, Result};
use ztensor_core::formats::{Confidence, Format, Input, Probe, bad_magic};
use ztensor_core::model::{Builder, Catalog, Container};
use ztensor_core::work::Stop;

use crate::limits::ONNX_INDEX_BYTES;
use crate::protobuf::{Field, Run, Value, Walker};

const NAME: &str = "onnx";
const MISSING: &str = "no ONNX model";
/// Model fields read during detection: a model has about ten, and one for each function.
const DETECTION_FIELDS: u32 = 4096;
/// Bytes read during detection.
const DETECTION_BYTES: u64 = 1 << 20;
/// Maximum bytes of the name or description of a graph.
const DETECTION_TEXT_BYTES: u64 = 64 << 10;
/// Graph fields read during detection.
const GRAPH_FIELDS: u32 = 16;
/// The largest `ir_version` accepted during detection; 14 is the newest.
const VERSIONS: u64 = 255;

pub const FORMAT: Format = Format {
    name: NAME,
    title: "ONNX",
    endings: &["onnx"],
    missing: MISSING,
    detect,
    parse,
    writes: &[],
    header: None,
};

/// ONNX has no magic. All fields must be those of a model with a version and a graph. If there is no version, or a field is unknown, which
/// a later version may define, the content of the graph is checked.
fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    let stop = Stop::default();
    let mut walker = Walker::new(probe, &stop, DETECTION_BYTES);
    let (mut message, mut version, mut graph, mut is_plain) = (walker.whole(), false, None, true);
    for _ in 0..DETECTION_FIELDS {
        let start = message.at;
        match walker.next(&mut message) {
            Ok(Some(field)) => match (field.number, field.value) {
                (1, Value::Varint(number)) => {
                    if !(1..=VERSIONS).contains(&number) {
                        return Ok(Confidence::No);
                    }
                    version = true;
                }
                (7, Value::Bytes(run)) => {
                    graph = Some(graph.filter(|first: &Run| first.length() > 0).unwrap_or(run));
                }
                _ if is_of_model(&field) == Some(false) => return Ok(Confidence::No),
                _ => is_plain &= is_of_model(&field) == Some(true),
            },
            Ok(None) => break,
            Err(error) if matches!(error.code(), Code::Io | Code::Aborted) => return Err(error),
            // The graph is most of a file, so a truncated file ends within it.
            Err(error) if version && error.code() == Code::Truncated => {
                let is_truncated = walker.bytes(Run { at: start, end: start + 1 })? == [GRAPH];
                return Ok(if is_truncated { Confidence::Likely } else { Confidence::No });
            }
            Err(_) => return Ok(Confidence::No),
        }
    }
    let Some(graph) = graph else { return Ok(Confidence::No) };
    let is_model =
        if version && is_plain { is_graph(&mut walker, graph) } else { is_surely_graph(&mut walker, graph) };
    match is_model {
        Ok(is_model) => Ok(if is_model { Confidence::Likely } else { Confidence::No }),
        Err(error) if matches!(error.code(), Code::Io | Code::Aborted) => Err(error),
        Err(_) => Ok(Confidence::No),
    }
}

/// Returns whether a message begins with fields of a `GraphProto` only.
fn is_graph(walker: &mut Walker<'_>, mut graph: Run) -> Result<bool> {
    for _ in 0..GRAPH_FIELDS {
        match walker.next(&mut graph)? {
            Some(Field { number: 1 | 2 | 5 | 10..=16, value: Value::Bytes(_), .. }) => {}
            Some(_) => return Ok(false),
            None => break,
        }
    }
    Ok(true)
}

/// Returns whether a message begins with valid nodes, tensors or values of a `GraphProto`.
fn is_surely_graph(walker: &mut Walker<'_>, mut graph: Run) -> Result<bool> {
    let mut sure = false;
    for _ in 0..GRAPH_FIELDS {
        let Some(field) = walker.next(&mut graph)? else { break };
        let Value::Bytes(run) = field.value else {
            // A field of a later version.
            if matches!(field.number, 1 | 2 | 5 | 10..=16) {
                return Ok(false);
            }
            continue;
        };
        let found = match field.number {
            // A node with an operator.
            1 => has(walker, run, Some(4), |field| match field.number {
                1..=9 => matches!(field.value, Value::Bytes(_)),
                _ => true,
            })?,
            // A tensor with a type.
            5 => has(walker, run, Some(2), |field| match field.number {
                1 => matches!(field.value, Value::Varint(_) | Value::Bytes(_)),
                2 => matches!(field.value, Value::Varint(1..=VERSIONS)),
                14 => matches!(field.value, Value::Varint(0..=1)),
                3 | 8 | 9 | 12 | 13 | 16 => matches!(field.value, Value::Bytes(_)),
                _ => true,
            })?,
            // A value with a name, whose type is a message.
            11..=13 => has(walker, run, Some(1), |field| {
                !matches!(field.number, 1..=4) || matches!(field.value, Value::Bytes(_))
            })?,
            2 | 10 => {
                let length = run.length();
                if length > DETECTION_TEXT_BYTES || std::str::from_utf8(walker.bytes(run)?).is_err() {
                    return Ok(false);
                }
                continue;
            }
            14..=16 => has(walker, run, None, |_| true)?,
            _ => continue,
        };
        if !found {
            return Ok(false);
        }
        sure |= matches!(field.number, 1 | 5);
    }
    Ok(sure)
}

/// Returns whether `each` accepts all fields of a message, one of which has the number `wanted`.
fn has(
    walker: &mut Walker<'_>,
    mut message: Run,
    wanted: Option<u32>,
    each: fn(&Field) -> bool,
) -> Result<bool> {
    let mut found = wanted.is_none();
    while let Some(field) = walker.next(&mut message)? {
        if !each(&field) {
            return Ok(false);
        }
        found |= Some(field.number) == wanted;
    }
    Ok(found)
}

/// The tag of `ModelProto.graph`.
const GRAPH: u8 = 7 << 3 | 2;

/// Returns whether a field belongs to `ModelProto`, or `None` if a later version may define its number.
fn is_of_model(field: &Field) -> Option<bool> {
    match field.number {
        _ if field.value == Value::Group => None,
        1 | 5 => Some(matches!(field.value, Value::Varint(_))),
        2..=4 | 6..=8 | 14 | 20 | 25 | 26 => Some(matches!(field.value, Value::Bytes(_))),
        _ => None,
    }
}

fn parse(input: &Input<'_>) -> Result<Catalog> {
    let max = input.limits.max_index_bytes.unwrap_or(ONNX_INDEX_BYTES);
    let walker = Walker::new(input.source, input.stop, max);
    let builder = Builder::new(Container::named(NAME), input.limits);
    graph::read(input, walker, builder)?.ok_or_else(|| bad_magic(MISSING))
}
