//! Files that say of themselves which of how many they are: what a set of them has to agree on.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use crate::error::{Code, Error, Result};

const RULE: &str = "complete set of files";
/// Names and numbers shown of what is missing.
const SHOWN: u64 = 20;

/// A file of a set of files that share one name space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetPart {
    /// From 0 on. The first has the attributes of the set.
    pub number: u64,
    /// Files of the set.
    pub count: u64,
    /// Tensors of all files together, where the file says so.
    pub tensors: Option<u64>,
}

/// Checks files that are named in messages: they say the same of their set, none is there twice, none is missing, and together they
/// have `tensors` tensors.
///
/// Fails with `ZT_BAD_INDEX` where the files contradict each other, and with `ZT_INCOMPLETE`, naming the files, where some are missing.
pub fn check(parts: &[(&str, SetPart)], tensors: u64) -> Result<()> {
    let contradiction = |message: String| Err(Error::new(Code::BadIndex, message).rule(RULE));
    let Some(&(first_name, first)) = parts.first() else { return Ok(()) };
    let mut names = BTreeMap::new();
    for &(name, part) in parts {
        if part.count != first.count {
            let message = format!(
                "{first_name:?} says that its set has {} files, {name:?} says {}",
                first.count, part.count
            );
            return contradiction(message);
        }
        if let Some(other) = names.insert(part.number, name) {
            let message = format!(
                "both {other:?} and {name:?} say that they are file {} of their set",
                part.number + 1
            );
            return contradiction(message);
        }
    }
    let missing = first.count.saturating_sub(names.len() as u64);
    if missing > 0 {
        let absent = (0..first.count).filter(|number| !names.contains_key(number));
        let shown = absent.take(usize::try_from(SHOWN).unwrap_or(usize::MAX));
        let list: Vec<_> = shown.map(|number| named(first_name, first, number)).collect();
        return Err(incomplete(first.count, missing, &list));
    }
    for &(name, part) in parts {
        if let Some(said) = part.tensors.filter(|&said| said != tensors) {
            let message = format!("{name:?} says that its set has {said} tensors, the files have {tensors}");
            return contradiction(message);
        }
    }
    Ok(())
}

/// The error of a set of `count` files, `missing` of which are not there; `names` are the first of these.
pub fn incomplete(count: u64, missing: u64, names: &[String]) -> Error {
    let more = missing.saturating_sub(names.len() as u64);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let are = if missing == 1 { "is" } else { "are" };
    let message = format!(
        "{missing} of the {count} files of the set {are} missing: {}{more}. Get them, or open one file alone with shards: 'none'",
        names.join(", ")
    );
    Error::new(Code::Incomplete, message).rule(RULE)
}

/// What the file of another number of the set is called, as far as the name of one of them tells.
fn named(name: &str, part: SetPart, number: u64) -> String {
    let spelled = |number: u64| format!("-{:05}-of-{:05}", number + 1, part.count);
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    match file.rsplit_once(&spelled(part.number)) {
        Some((before, after)) => format!("{before}{}{after}", spelled(number)),
        None => format!("file {}", number + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u64, count: u64, tensors: Option<u64>) -> SetPart {
        SetPart { number, count, tensors }
    }

    #[test]
    fn a_set_is_complete_and_of_one_mind() {
        let said = |parts: &[SetPart]| {
            let names: Vec<_> = (0..parts.len())
                .map(|at| format!("dir-00009-of-00009/m-{:05}-of-00003.gguf", at + 1))
                .collect();
            let all: Vec<_> = names.iter().map(|name| &**name).zip(parts.iter().copied()).collect();
            check(&all, 7).map_err(|error| (error.code(), error.message().to_owned()))
        };
        let all = [part(0, 3, Some(7)), part(1, 3, None), part(2, 3, Some(7))];
        assert_eq!(said(&all), Ok(()));
        assert_eq!(said(&[]), Ok(()));
        let (code, message) = said(&all[..1]).unwrap_err();
        assert_eq!(code, Code::Incomplete);
        assert!(
            message.contains(
                "2 of the 3 files of the set are missing: m-00002-of-00003.gguf, m-00003-of-00003.gguf."
            ),
            "{message}"
        );
        for contradicting in [
            [part(0, 3, None), part(1, 4, None), part(2, 3, None)],
            [part(0, 3, None), part(0, 3, None), part(2, 3, None)],
            [part(0, 3, None), part(1, 3, Some(8)), part(2, 3, None)],
        ] {
            assert_eq!(said(&contradicting).unwrap_err().0, Code::BadIndex, "{contradicting:?}");
        }
        let huge = said(&[part(0, u64::MAX, None)]).unwrap_err();
        assert!(huge.0 == Code::Incomplete && huge.1.contains("more"), "{huge:?}");
    }
}
