//! Models split into several files, `name-00001-of-00003.gguf`, as written by `llama-gguf-split`. The metadata of each file states its
//! number and the total, and the first holds the metadata of the model.
#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::Arc;

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::Input;
use ztensor_core::limits;
use ztensor_core::model::{Builder, SetPart, set};
use ztensor_core::sources::siblings::Neighbor;

use super::header::Header;
use super::metadata::Metadata;

const RULE: &str = "GGUF: split files";
/// Number of missing files that an error lists.
const SHOWN: usize = 20;

/// Returns the set that a file belongs to, or `None` for a model in a single file.
pub fn part_of(metadata: &Metadata) -> Result<Option<SetPart>> {
    let count = metadata.uint("split.count")?.unwrap_or(1);
    if count <= 1 {
        return Ok(None);
    }
    let number = metadata.uint("split.no")?.unwrap_or(0);
    let tensors = metadata.uint("split.tensors.count")?;
    if number >= count {
        let message = format!("split.no is {number}, and split.count {count}");
        return Err(Error::new(Code::BadIndex, message).rule(RULE));
    }
    Ok(Some(SetPart { number, count, tensors }))
}

/// Warns about set metadata in a single-file model: tools that merge a set or add tensors leave it unchanged.
fn warn_of_stale(metadata: &Metadata, own: usize, builder: &mut Builder) -> Result<()> {
    let number = metadata.uint("split.no")?.filter(|&number| number > 0);
    let tensors = metadata.uint("split.tensors.count")?.filter(|&tensors| tensors != own as u64);
    let message = match (number, tensors) {
        (Some(number), _) => format!("split.no is {number}, but split.count states a single file"),
        (None, Some(tensors)) => {
            format!("split.tensors.count is {tensors}, but the only file has {own} tensors")
        }
        (None, None) => return Ok(()),
    };
    builder.warn("ZT_WARN_STALE", message, None, None);
    Ok(())
}

/// The naming scheme of a set: `stem-00001-of-00003.gguf`, where numbers may begin at 0 and have any width.
struct Spelling<'n> {
    /// The part before the number.
    stem: &'n str,
    /// The offset added to a number.
    first: u64,
    width: usize,
    /// The total number of files.
    count: &'n str,
}

impl<'n> Spelling<'n> {
    /// Parses the name of a part, or returns `None` if it does not follow the scheme.
    fn of(name: &'n str) -> Option<(Self, u64)> {
        let (before, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
        let digits = before.rsplit('-').next().unwrap_or(before);
        let stem = before.strip_suffix(digits).unwrap_or_default();
        let number =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
        number(count)?;
        Some((Self { stem, first: 1, width: digits.len(), count }, number(digits)?))
    }

    fn name(&self, number: u64) -> String {
        format!("{}{:0width$}-of-{}.gguf", self.stem, number + self.first, self.count, width = self.width)
    }
}

/// Another file of a set: its number, its name, and its status.
type Other = (u64, String, Neighbor);

/// Adds the tensors of a file and of all other files of its set, in order. Returns the metadata of the first.
///
/// Fails with `ZT_INCOMPLETE` if files of the set are missing, unless the caller asked for this file only, and with `ZT_BAD_INDEX` if they
/// contradict each other.
pub fn add_all(input: &Input<'_>, own: &Header, builder: &mut Builder) -> Result<Arc<Metadata>> {
    let metadata = own.metadata.clone();
    let Some(part) = part_of(&metadata)? else {
        warn_of_stale(&metadata, own.infos.len(), builder)?;
        own.add(builder, 0)?;
        return Ok(metadata);
    };
    if input.own_name().is_some() && input.name().is_none() {
        // It was opened as part of a list: the code that joins the list checks whether it is a set.
        builder.set_part(part);
        own.add(builder, 0)?;
        return Ok(metadata);
    }
    let Some(others) = others(input, part)? else {
        let message =
            format!("it is file {} of {} of a set and was opened on its own", part.number + 1, part.count);
        builder.warn("ZT_WARN_INCOMPLETE_SET", message, None, None);
        own.add(builder, 0)?;
        return Ok(metadata);
    };
    let (before, behind): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|&(number, ..)| number < part.number);
    let mut first = None;
    let mut parts = Vec::new();
    for other in before {
        add_other(input, part, other, builder, &mut parts, &mut first)?;
    }
    own.add(builder, 0)?;
    parts.push((input.name().unwrap_or("the file in memory").to_owned(), part));
    first.get_or_insert_with(|| metadata.clone());
    for other in behind {
        add_other(input, part, other, builder, &mut parts, &mut first)?;
    }
    let parts: Vec<(&str, _)> = parts.iter().map(|(name, part): &(String, _)| (&**name, *part)).collect();
    set::check(&parts, builder.len() as u64).map_err(|error| error.rule(RULE))?;
    Ok(first.unwrap_or(metadata))
}

/// Returns the other files of a set by number, or `None` if the caller asked for this file only.
fn others(input: &Input<'_>, part: SetPart) -> Result<Option<Vec<Other>>> {
    let count = format!("{:05}", part.count);
    // A file in memory has no name, so the others are requested by the ends of their names.
    let default = Spelling { stem: "", first: 1, width: 5, count: &count };
    let (spelling, doubt) = match (input.name(), input.name().and_then(Spelling::of)) {
        (_, Some((spelling, stated))) => match stated.checked_sub(part.number) {
            Some(first) if first <= 1 && spelling.count.parse() == Ok(part.count) => {
                (Spelling { first, ..spelling }, None)
            }
            _ => (default, Some(contradiction(part, stated, spelling.count))),
        },
        (Some(_), None) => {
            let why = format!("its name does not end in {:?}", default.name(part.number));
            (default, Some(unnamed(part, &why)))
        }
        (None, _) => (default, Some(unnamed(part, "it was opened from memory"))),
    };
    let (mut found, mut missing, mut problem) = (Vec::new(), Vec::new(), None);
    for number in (0..part.count).filter(|&number| number != part.number) {
        let name = spelling.name(number);
        let neighbor = input.part(&name)?;
        if neighbor.length.is_none() && neighbor.problem.is_none() {
            // No resolver is available.
            return Ok(None);
        }
        if part.count > limits::FILES as u64 {
            let message = format!("the set has {} files, more than {}", part.count, limits::FILES);
            return Err(Error::new(Code::Limit, message).rule(RULE));
        }
        if let Some(error) = &neighbor.problem {
            missing.push(name.clone());
            problem = problem.or_else(|| Some(error).filter(|error| !error.is_absent()).cloned());
        }
        found.push((number, name, neighbor));
    }
    if missing.is_empty() {
        return Ok(Some(found));
    }
    let lacking = missing.len() as u64;
    missing.truncate(SHOWN);
    let error = doubt.or(problem).unwrap_or_else(|| set::incomplete(part.count, lacking, &missing));
    Err(error.rule(RULE))
}

/// Adds the tensors of another file of the set, after checking its number.
fn add_other(
    input: &Input<'_>,
    part: SetPart,
    (number, name, neighbor): Other,
    builder: &mut Builder,
    parts: &mut Vec<(String, SetPart)>,
    first: &mut Option<Arc<Metadata>>,
) -> Result<()> {
    let in_file = |error: Error| error.in_file(&name, Path::new(&name));
    let source = input.open(neighbor.file).map_err(in_file)?;
    let header = Header::read(&Input::alone(&*source, input.limits, input.stop)).map_err(in_file)?;
    let stated = part_of(&header.metadata).map_err(in_file)?;
    let stated = stated.filter(|stated| stated.number == number && stated.count == part.count);
    let stated = stated.ok_or_else(|| in_file(another(number, part.count)))?;
    header.add(builder, neighbor.file).map_err(in_file)?;
    first.get_or_insert_with(|| header.metadata.clone());
    parts.push((name, stated));
    Ok(())
}

fn unnamed(part: SetPart, why: &str) -> Error {
    let message = format!(
        "it is file {} of {} of a set, and the others cannot be found: {why}. Open the files as a list",
        part.number + 1,
        part.count
    );
    Error::new(Code::Incomplete, message).hint("shards", ", or only this one with shards: 'none'")
}

fn contradiction(part: SetPart, stated: u64, count: &str) -> Error {
    let message = format!(
        "its name identifies it as file {stated} of {count} of a set, but its metadata as {} of {}",
        part.number + 1,
        part.count
    );
    Error::new(Code::BadIndex, message)
}

fn another(number: u64, count: u64) -> Error {
    let message =
        format!("it should be file {} of {count} of its set, but its metadata states otherwise", number + 1);
    Error::new(Code::BadIndex, message).rule(RULE)
}
