//! The program of an inference model, read only for the names of its parameters: a sibling file `.json` (PIR, since Paddle 3) or `.pdmodel`
//! (a protobuf `ProgramDesc`).
#![forbid(unsafe_code)]

use ztensor_core::arrange::Arrange;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::Input;
use ztensor_core::limits::NAMES_BYTES;
use ztensor_core::model::Builder;
use ztensor_core::sources::ReadAt;
use ztensor_core::syntax::json::{Reader, Unique};

use crate::limits::{PADDLE_NAME_BYTES, PADDLE_PROGRAM_BYTES};
use crate::protobuf::{Run, Value, Walker};

const RULE: &str = "Paddle: ProgramDesc";
/// Variable types that are not parameters: `FEED_MINIBATCH`, `FETCH_LIST`, `READER`, `RAW`.
const NO_PARAMETERS: [u64; 4] = [9, 10, 15, 17];

/// Returns the sorted names of the parameters; none, with a warning, if no sibling program has that many.
pub fn names(input: &Input<'_>, records: usize, builder: &mut Builder) -> Result<Vec<String>> {
    let stem = input.name().and_then(|name| name.strip_suffix(".pdiparams"));
    let mut why = "there is no program in the same folder".to_owned();
    for (ending, read) in [("json", of_pir as Names), ("pdmodel", of_program as Names)] {
        let Some(stem) = stem else { break };
        let path = format!("{stem}.{ending}");
        let neighbor = input.sibling(&path)?;
        if neighbor.length.is_none() || neighbor.problem.is_some() {
            continue;
        }
        match input.open(neighbor.file).and_then(|source| read(input, &*source)) {
            Ok(mut names) if names.len() == records => {
                names.arrange();
                names.dedup();
                if names.len() == records {
                    return Ok(names);
                }
                why = format!("{path:?} has duplicate names");
            }
            Ok(names) => {
                why = format!("{path:?} has {} parameters, but the file has {}", names.len(), records);
            }
            Err(error) if error.code() == Code::Aborted => return Err(error),
            Err(error) => why = format!("{path:?} cannot be read: {}", error.message()),
        }
    }
    let message = format!(
        "the file does not store the names of its parameters, and {why}: they are numbered in file order"
    );
    builder.warn("ZT_WARN_INCOMPLETE_SET", message, None, None);
    Ok(Vec::new())
}

type Names = fn(&Input<'_>, &dyn ReadAt) -> Result<Vec<String>>;

/// Reads PIR: operations `"p"`, whose attributes `"A"` end with the name.
fn of_pir(input: &Input<'_>, source: &dyn ReadAt) -> Result<Vec<String>> {
    let max = input.limits.max_index_bytes.unwrap_or(PADDLE_PROGRAM_BYTES);
    if source.length() > max {
        let message = format!("it has {} bytes, the maximum is {max}", source.length());
        return Err(Error::new(Code::Limit, message).option("maxIndexBytes"));
    }
    let bytes = source.read_vec(0, source.length(), input.stop)?;
    let text =
        std::str::from_utf8(&bytes).map_err(|_| Error::new(Code::BadIndex, "it is not valid UTF-8"))?;
    let mut names = Vec::new();
    let mut reader = Reader::new(text, 0);
    reader.object("a program", Unique::Here, |reader, key| {
        if key != "program" {
            return reader.skip();
        }
        within(reader, "regions", &mut |reader| {
            within(reader, "blocks", &mut |reader| {
                within(reader, "ops", &mut |reader| {
                    names.extend(parameter(reader)?);
                    Ok(())
                })
            })
        })
    })?;
    Ok(names)
}

/// Calls `each` before each item of the list under a key of an object.
fn within<'a>(
    reader: &mut Reader<'a>,
    list: &str,
    each: &mut dyn FnMut(&mut Reader<'a>) -> Result<()>,
) -> Result<()> {
    reader.object("an object", Unique::Here, |reader, key| {
        if key == list { reader.array(list, &mut *each) } else { reader.skip() }
    })
}

/// Returns the name of the parameter that an operation declares, or `None` for any other operation.
fn parameter(reader: &mut Reader<'_>) -> Result<Option<String>> {
    let (mut brings_in, mut name) = (false, None);
    reader.object("an operation", Unique::Here, |reader, key| {
        match &**key {
            "#" => brings_in = reader.string("the name of an operation")? == "p",
            "A" => reader.array("attributes", |reader| {
                if reader.peek() == Some(b'"') {
                    name = Some(reader.string("a name")?.into_owned());
                    return Ok(());
                }
                reader.skip()
            })?,
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok(name.filter(|_| brings_in))
}

/// Reads a `ProgramDesc`: persistent variables of all blocks.
fn of_program(input: &Input<'_>, source: &dyn ReadAt) -> Result<Vec<String>> {
    let max = input.limits.max_index_bytes.unwrap_or(PADDLE_PROGRAM_BYTES);
    let mut walker = Walker::new(source, input.stop, max);
    let (mut program, mut names, mut bytes) = (walker.whole(), Vec::new(), 0);
    while let Some(field) = walker.next(&mut program)? {
        let (1, Value::Bytes(mut block)) = (field.number, field.value) else { continue };
        while let Some(field) = walker.next(&mut block)? {
            let (3, Value::Bytes(variable)) = (field.number, field.value) else { continue };
            if let Some(name) = variable_of(&mut walker, variable)? {
                bytes += name.len();
                if bytes > NAMES_BYTES {
                    return Err(Error::new(Code::Limit, "its names are too long").rule(RULE));
                }
                names.push(name);
            }
        }
    }
    Ok(names)
}

/// Returns the name of a `VarDesc` that is a parameter.
fn variable_of(walker: &mut Walker<'_>, mut variable: Run) -> Result<Option<String>> {
    let (mut name, mut persists, mut kind) = (None, false, 0);
    while let Some(field) = walker.next(&mut variable)? {
        match (field.number, field.value) {
            (1, Value::Bytes(run)) => name = Some(run),
            (2, Value::Bytes(mut of)) => {
                while let Some(field) = walker.next(&mut of)? {
                    if let (1, Value::Varint(number)) = (field.number, field.value) {
                        kind = number;
                    }
                }
            }
            (3, Value::Varint(flag)) => persists = flag != 0,
            _ => {}
        }
    }
    let Some(name) = name.filter(|_| persists && !NO_PARAMETERS.contains(&kind)) else { return Ok(None) };
    walker.text(name, PADDLE_NAME_BYTES, "the name of a variable").map(|name| Some(name.to_owned()))
}
