//! Checks that files which state their position in a set form a complete set.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use crate::error::{Code, Error, Result};

const RULE: &str = "complete set of files";
/// Maximum names and numbers listed for missing files.
const SHOWN: u64 = 20;

/// The position of a file in a set that shares one name space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetPart {
    /// From 0 on. The first has the attributes of the set.
    pub number: u64,
    /// Number of files of the set.
    pub count: u64,
    /// Total tensors of all files, if stated.
    pub tensors: Option<u64>,
}

/// Checks that named files describe the same set, that none is duplicated or missing, and that they have `tensors` tensors in total.
///
/// Fails with `ZT_BAD_INDEX` if the files contradict each other, and with `ZT_INCOMPLETE`, naming the files, if some are missing.
pub fn check(parts: &[(&str, SetPart)], tensors: u64) -> Result<()> {
    let contradiction = |message: String| Err(Error::new(Code::BadIndex, message).rule(RULE));
    let Some(&(first_name, first)) = parts.first() else { return Ok(()) };
    let mut names = BTreeMap::new();
    for &(name, part) in parts {
        if part.count != first.count {
            let message = format!(
                "{first_name:?} states a set of {} files, but {name:?} states {}",
                first.count, part.count
            );
            return contradiction(message);
        }
        if let Some(other) = names.insert(part.number, name) {
            let message = format!(
                "both {other:?} and {name:?} state that they are file {} of their set",
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
        if let Some(stated) = part.tensors.filter(|&stated| stated != tensors) {
            let message = format!("{name:?} states a set of {stated} tensors, but the files have {tensors}");
            return contradiction(message);
        }
    }
    Ok(())
}

/// Builds the error for a set of `count` files, `missing` of which do not exist; `names` are the first of these.
pub fn incomplete(count: u64, missing: u64, names: &[String]) -> Error {
    let more = missing.saturating_sub(names.len() as u64);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let are = if missing == 1 { "is" } else { "are" };
    let message = format!(
        "{missing} of the {count} files of the set {are} missing: {}{more}. Add them",
        names.join(", ")
    );
    Error::new(Code::Incomplete, message)
        .hint("shards", ", or open a single file with shards: 'none'")
        .rule(RULE)
}

/// Returns the name of the file with another number, derived from the name of one of them.
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
    fn a_set_is_complete_and_consistent() {
        let checked = |parts: &[SetPart]| {
            let names: Vec<_> = (0..parts.len())
                .map(|at| format!("dir-00009-of-00009/m-{:05}-of-00003.gguf", at + 1))
                .collect();
            let all: Vec<_> = names.iter().map(|name| &**name).zip(parts.iter().copied()).collect();
            check(&all, 7).map_err(|error| (error.code(), error.message().to_owned()))
        };
        let all = [part(0, 3, Some(7)), part(1, 3, None), part(2, 3, Some(7))];
        assert_eq!(checked(&all), Ok(()));
        assert_eq!(checked(&[]), Ok(()));
        let (code, message) = checked(&all[..1]).unwrap_err();
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
            assert_eq!(checked(&contradicting).unwrap_err().0, Code::BadIndex, "{contradicting:?}");
        }
        let huge = checked(&[part(0, u64::MAX, None)]).unwrap_err();
        assert!(huge.0 == Code::Incomplete && huge.1.contains("more"), "{huge:?}");
    }
}
