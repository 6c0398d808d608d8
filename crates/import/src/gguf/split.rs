//! Models in several files, `name-00001-of-00003.gguf`, as `llama-gguf-split` writes them: each says in its metadata which of how many
//! it is, and the first has the metadata of the model.
#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::Arc;

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::Input;
use ztensor_core::model::{Builder, SetPart};

use super::Header;
use super::metadata::Metadata;

const RULE: &str = "GGUF: split files";

/// What a file says of the set that it is of; `None` of a model that is in one file.
fn part_of(metadata: &Metadata) -> Result<Option<SetPart>> {
    let count = metadata.uint("split.count")?.filter(|&count| count > 1);
    let Some(count) = count else { return Ok(None) };
    let number = metadata.uint("split.no")?.unwrap_or(0);
    if number < count {
        return Ok(Some(SetPart { number, count }));
    }
    let message = format!("split.no is {number}, and split.count {count}");
    Err(Error::new(Code::BadIndex, message).rule(RULE))
}

/// What the name of a file of a set ends in.
fn suffix(part: SetPart) -> String {
    format!("-{:05}-of-{:05}.gguf", part.number + 1, part.count)
}

/// Adds the tensors of a file, and of all others of its set, in the order of the set. Gives the metadata of the first.
pub fn add_all(input: &Input<'_>, own: &Header, builder: &mut Builder) -> Result<Arc<Metadata>> {
    let metadata = own.metadata.clone();
    let Some(part) = part_of(&metadata)? else {
        own.add(builder, 0)?;
        return Ok(metadata);
    };
    let Some(name) = input.name() else {
        // It is one of several that were named, or in memory.
        builder.part(part);
        own.add(builder, 0)?;
        return Ok(metadata);
    };
    let Some(prefix) = name.strip_suffix(&suffix(part)) else {
        let message = format!(
            "it is file {} of {}, and the others are not found, since its name does not end in {:?}",
            part.number + 1,
            part.count,
            suffix(part)
        );
        builder.warn("ZT_WARN_INCOMPLETE_SET", message, None, None);
        own.add(builder, 0)?;
        return Ok(metadata);
    };
    let (mut first, mut missing) = (None, Vec::new());
    for number in 0..part.count {
        if number == part.number {
            own.add(builder, 0)?;
            if number == 0 {
                first = Some(metadata.clone());
            }
            continue;
        }
        let wanted = SetPart { number, ..part };
        let name = format!("{prefix}{}", suffix(wanted));
        let neighbor = input.beside(&name)?;
        if neighbor.length.is_none() {
            missing.push(name);
            continue;
        }
        let found = other(input, neighbor.file, wanted, builder);
        let found = found.map_err(|error| error.in_file(&name, Path::new(&name)))?;
        if number == 0 {
            first = Some(found);
        }
    }
    if !missing.is_empty() {
        let message = format!("of {} files these are not there: {}", part.count, missing.join(", "));
        builder.warn("ZT_WARN_INCOMPLETE_SET", message, None, None);
        return Ok(first.unwrap_or(metadata));
    }
    let said = metadata.uint("split.tensors.count")?;
    if said.is_some_and(|said| said != builder.len() as u64) {
        let message = format!(
            "split.tensors.count is {}, the files have {} tensors",
            said.unwrap_or_default(),
            builder.len()
        );
        return Err(Error::new(Code::BadIndex, message).rule(RULE));
    }
    Ok(first.unwrap_or(metadata))
}

fn other(input: &Input<'_>, file: u32, part: SetPart, builder: &mut Builder) -> Result<Arc<Metadata>> {
    let source = input.open(file)?;
    let header = Header::read(&*source, input.limits)?;
    let said = part_of(&header.metadata)?;
    if said != Some(part) {
        let message = format!("it should be file {} of {}", part.number + 1, part.count);
        let told = said.map_or_else(
            || "it is of no set".to_owned(),
            |said| format!("it says that it is {} of {}", said.number + 1, said.count),
        );
        return Err(Error::new(Code::BadIndex, format!("{message}, {told}")).rule(RULE));
    }
    header.add(builder, file)?;
    Ok(header.metadata)
}
