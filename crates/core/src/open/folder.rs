//! Finds what can be opened as one in a folder: an index, a numbered set of files, or a single tensor file.
#![forbid(unsafe_code)]

mod marked;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Lookup, Request, foreign};
use crate::error::{Code, Error, Result};
use crate::formats::Formats;
use crate::{limits, paths};

/// Maximum names listed in an error.
const SHOWN: usize = 20;

/// Substrings of index names, the preferred one first.
const INDEXES: [&str; 3] = [".safetensors.index.", ".bin.index.", ".weights.json"];

/// Names of default indexes, preferred to others such as those of variants.
const USUAL: [&str; 3] =
    ["model.safetensors.index.json", "pytorch_model.bin.index.json", "model.weights.json"];

/// Extensions that are also used by other formats.
const VAGUE: [&str; 2] = ["bin", "index"];

/// What to open.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// The index of a sharded checkpoint.
    Index(PathBuf),
    /// Files that are numbered as parts of one set, in order.
    Set(Vec<PathBuf>),
    One(PathBuf),
}

/// Returns whether a path has the name of a shard index: no tensor file has such a name.
pub fn is_index(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
}

/// Searches a folder, not recursively. An index takes precedence over the target of a marker, that over a numbered set
/// (`…-00001-of-00003.…`), and that over a single tensor file.
pub fn look(folder: &Path, request: &Request) -> Result<Found> {
    let formats = request.formats;
    let Names { texts: names, others } = names(folder, request)?;
    if let Some(what) = foreign::describe_folder(&names) {
        return Err(Error::new(Code::BadMagic, what));
    }
    let indexes =
        INDEXES.map(|part| names.iter().filter(|name| is_index_name(name, part)).collect::<Vec<_>>());
    let indexes = indexes.into_iter().find(|some| !some.is_empty()).unwrap_or_default();
    match &indexes[..] {
        [] => {}
        [index] => return Ok(Found::Index(paths::join(folder, index))),
        several => {
            let usual = several.iter().find(|name| USUAL.contains(&name.as_str()));
            return usual.map(|name| Found::Index(paths::join(folder, name))).ok_or_else(|| {
                ambiguous(&format!("{} indexes", several.len()), several.iter().map(|name| &***name))
            });
        }
    }
    let mut tensors: Vec<&str> =
        names.iter().map(|name| &**name).filter(|name| extension(name, formats).is_some()).collect();
    marked::pair(&names, &mut tensors, formats);
    let all = tensors.clone();
    let first = |name: &&str| name.rsplit_once('.').is_some_and(|(_, ending)| formats.comes_first(ending));
    let telling = |name: &&str| name.rsplit_once('.').is_some_and(|(_, ending)| !VAGUE.contains(&ending));
    if tensors.iter().any(first) {
        tensors.retain(first);
    } else if let Some(path) = marked::look(folder, &names, &tensors, request)? {
        return Ok(Found::One(path));
    } else if tensors.iter().any(telling) {
        tensors.retain(telling);
    }
    let roots: Vec<&str> = tensors.iter().copied().filter(|name| !has_root(name, &names)).collect();
    let mut sets: BTreeMap<Set<'_>, Vec<(u64, &str)>> = BTreeMap::new();
    for numbered in roots.iter().filter_map(|name| numbered(name, formats)) {
        sets.entry((numbered.stem, numbered.total, numbered.extension))
            .or_default()
            .push((numbered.number, numbered.name));
    }
    let mut sets = sets.into_iter();
    match (sets.next(), sets.next(), &roots[..]) {
        (Some(((stem, total, extension), members)), None, _) => {
            let whole = complete(&format!("{stem}-…-of-….{extension}"), total, &members);
            // The caller wants only the files that exist.
            whole.or_else(|error| match (error.code(), &request.lookup) {
                (Code::Incomplete, Lookup::Unread) => Ok(()),
                _ => Err(error),
            })?;
            let mut members = members;
            members.sort_unstable();
            Ok(Found::Set(members.into_iter().map(|(_, name)| paths::join(folder, name)).collect()))
        }
        (None, _, [name]) => Ok(Found::One(paths::join(folder, name))),
        (None, _, []) => {
            let mut message = match names.len() {
                0 if others.is_empty() => "the folder is empty".to_owned(),
                0 => "the folder holds no file whose name is text".to_owned(),
                count => format!(
                    "the folder holds no index (….safetensors.index.json, ….bin.index.json, ….weights.json) and no tensor file, but {count} others: {}",
                    list(names.iter().map(|name| &**name))
                ),
            };
            if !others.is_empty() {
                let (count, names) = (others.len(), list(others.iter().map(|name| &**name)));
                message = format!(
                    "{message}; {count} names in it are not UTF-8: {names}. Open such a file by a file: URL with the bytes of its \
                     path percent-encoded, or rename it"
                );
            }
            Err(Error::new(Code::Io, message))
        }
        _ => {
            let all: Vec<&str> = all.into_iter().filter(|name| !has_root(name, &names)).collect();
            Err(ambiguous(&format!("{} tensor files and no index", all.len()), all.iter().copied()))
        }
    }
}

/// Adds to an error which index to open, if the file is a data file by its name.
pub fn without_index(error: Error, path: &Path, request: &Request) -> Error {
    if !matches!(error.code(), Code::BadMagic | Code::Truncated | Code::BadIndex) {
        return error;
    }
    if let Some(what) = path.file_name().and_then(|name| foreign::describe_name(&name.to_string_lossy())) {
        return Error::new(Code::BadMagic, what).at(0);
    }
    if error.code() == Code::BadIndex {
        return error;
    }
    marked::index_of(path, request).unwrap_or(error)
}

/// Stem, number of files and extension of a set.
type Set<'n> = (&'n str, u64, &'n str);

/// The names in a folder.
struct Names {
    texts: Vec<String>,
    /// Names that are not UTF-8, with replacement characters. They are ignored.
    others: Vec<String>,
}

fn names(folder: &Path, request: &Request) -> Result<Names> {
    let entries = request.filesystem.list(folder, limits::FOLDER_ENTRIES, &request.stop)?;
    if entries.len() > limits::FOLDER_ENTRIES {
        let message =
            format!("the folder has more than {} entries; specify a file in it", limits::FOLDER_ENTRIES);
        return Err(Error::new(Code::Limit, message));
    }
    let mut names = Names { texts: Vec::new(), others: Vec::new() };
    for entry in entries {
        match entry.into_string() {
            Ok(name) => names.texts.push(name),
            Err(name) => names.others.push(name.to_string_lossy().into_owned()),
        }
    }
    names.texts.sort_unstable();
    names.others.sort_unstable();
    Ok(names)
}

fn is_index_name(name: &str, part: &str) -> bool {
    name.contains(part) && is_index(Path::new(name))
}

fn extension(name: &str, formats: Formats) -> Option<&str> {
    let (stem, extension) = name.rsplit_once('.')?;
    let known = || formats.endings().any(|ending| ending == extension);
    (!stem.is_empty() && !stem.starts_with('.') && known()).then_some(extension)
}

/// Returns whether a name is that of a shard of a zTensor 2 root in the same folder: `<stem>-<shard>.zt` next to `<stem>.zt` (2, Appendix
/// B).
fn has_root(name: &str, names: &[String]) -> bool {
    let Some(stem) = name.strip_suffix(".zt") else { return false };
    stem.match_indices('-').any(|(at, _)| {
        let root = format!("{}.zt", stem.get(..at).unwrap_or_default());
        names.binary_search(&root).is_ok()
    })
}

/// A name of the form `<stem>-<number>-of-<total>.<extension>`.
struct Numbered<'n> {
    name: &'n str,
    stem: &'n str,
    number: u64,
    total: u64,
    extension: &'n str,
}

fn numbered(name: &str, formats: Formats) -> Option<Numbered<'_>> {
    let extension = extension(name, formats)?;
    let rest = name.strip_suffix(extension)?.strip_suffix('.')?;
    let (rest, total) = rest.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let digits =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    Some(Numbered { name, stem, number: digits(number)?, total: digits(total)?, extension })
}

/// Returns the problem of names that all belong to one numbered set, if some are missing.
pub fn gaps<'n>(names: impl Iterator<Item = &'n str>, formats: Formats) -> Option<Error> {
    let all: Vec<_> = names.map(|name| numbered(name, formats)).collect::<Option<_>>()?;
    let first = all.first()?;
    let one_set = all
        .iter()
        .all(|one| (one.stem, one.total, one.extension) == (first.stem, first.total, first.extension));
    let members: Vec<_> = all.iter().map(|one| (one.number, one.name)).collect();
    let what = format!("{}-…-of-….{}", first.stem, first.extension);
    one_set.then(|| complete(&what, first.total, &members).err()).flatten()
}

/// Rejects an incomplete set, naming the missing files. Numbers begin at 1, or at 0.
fn complete(what: &str, total: u64, members: &[(u64, &str)]) -> Result<()> {
    let mut numbers: Vec<u64> = members.iter().map(|&(number, _)| number).collect();
    numbers.sort_unstable();
    let first = u64::from(numbers.first() != Some(&0));
    let problem = |code: Code, message: String| {
        Error::new(code, format!("the set {what} {message}")).rule("complete set of shards")
    };
    if let Some(pair) = numbers.windows(2).find(|pair| pair.first() == pair.get(1)) {
        return Err(problem(
            Code::BadIndex,
            format!("has two files with the number {}", pair.first().unwrap_or(&0)),
        ));
    }
    if let Some(beyond) = numbers.iter().find(|&&number| number >= total.saturating_add(first)) {
        return Err(problem(
            Code::BadIndex,
            format!("has a file with the number {beyond}, but only {total} files"),
        ));
    }
    // Now there are at most as many files as the total, so the total is limited by the number of missing ones.
    let missing = total - numbers.len() as u64;
    if missing == 0 {
        return Ok(());
    }
    let lacking =
        (first..total.saturating_add(first)).filter(|number| numbers.binary_search(number).is_err());
    // Numbers may have no leading zeros.
    let like = members.iter().map(|&(_, name)| name).min_by_key(|name| name.len()).unwrap_or_default();
    let shown: Vec<String> = lacking.take(SHOWN).map(|number| renumbered(like, number)).collect();
    let more = if missing > shown.len() as u64 { ", …" } else { "" };
    let message = format!("has {total} files, {missing} of which are missing: {}{more}", shown.join(", "));
    Err(problem(Code::Incomplete, message))
}

/// Returns the name of another file of a numbered set.
fn renumbered(name: &str, number: u64) -> String {
    let parts = name.rsplit_once("-of-").and_then(|(before, after)| Some((before.rsplit_once('-')?, after)));
    match parts {
        Some(((stem, digits), after)) => format!("{stem}-{number:0width$}-of-{after}", width = digits.len()),
        None => number.to_string(),
    }
}

fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    let shown = names.iter().take(SHOWN).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}

fn ambiguous<'n>(what: &str, names: impl Iterator<Item = &'n str>) -> Error {
    let message =
        format!("the folder holds {what}: open one by its name, or several as a list: {}", list(names));
    Error::new(Code::Io, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, files: &[&str]) -> Result<Found> {
        let folder = std::env::temp_dir().join(format!("ztensor-folder-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for file in files {
            std::fs::write(folder.join(file), b"").unwrap();
        }
        let found = look(&folder, &Request::default());
        std::fs::remove_dir_all(&folder).unwrap();
        let name = |path: PathBuf| PathBuf::from(path.file_name().unwrap());
        found.map(|found| match found {
            Found::Index(path) => Found::Index(name(path)),
            Found::Set(paths) => Found::Set(paths.into_iter().map(name).collect()),
            Found::One(path) => Found::One(name(path)),
        })
    }

    #[test]
    fn an_index_comes_first() {
        let files = [
            "a-1-of-1.safetensors",
            "model.safetensors.index.json",
            "other.safetensors.index.json",
            "config.json",
        ];
        assert_eq!(found("index", &files).unwrap(), Found::Index("model.safetensors.index.json".into()));
        let both = ["pytorch_model.bin.index.json", "a.safetensors.index.json", "a.safetensors"];
        assert_eq!(found("both", &both).unwrap(), Found::Index("a.safetensors.index.json".into()));
        let keras = ["model.weights.json", "model_00000.weights.h5", "model_00001.weights.h5"];
        assert_eq!(found("keras", &keras).unwrap(), Found::Index("model.weights.json".into()));
        let bin = ["pytorch_model.bin.index.json", "pytorch_model-00001-of-00001.bin"];
        assert_eq!(found("bin", &bin).unwrap(), Found::Index("pytorch_model.bin.index.json".into()));
        let variant = ["x.safetensors.index.fp16.json", "x.fp16-00001-of-00002.safetensors"];
        assert_eq!(found("variant", &variant).unwrap(), Found::Index("x.safetensors.index.fp16.json".into()));
    }

    #[test]
    fn a_set_is_ordered_by_its_numbers() {
        let files = ["m-10-of-10.zt", "m-2-of-10.zt", "readme.md"];
        let all: Vec<String> = (1..=10).map(|number| format!("m-{number}-of-10.zt")).collect();
        let all: Vec<&str> = all.iter().map(|name| &**name).chain(["readme.md"]).collect();
        let Found::Set(paths) = found("set", &all).unwrap() else { panic!("no set") };
        assert_eq!(paths.first().unwrap(), Path::new("m-1-of-10.zt"));
        assert_eq!(paths.last().unwrap(), Path::new("m-10-of-10.zt"));
        assert!(matches!(found("zero", &["m-0-of-2.zt", "m-1-of-2.zt"]).unwrap(), Found::Set(_)));
        let error = found("gap", &files).unwrap_err();
        assert!(
            error.message().contains("8 of which are missing: m-1-of-10.zt, m-3-of-10.zt, m-4"),
            "{error}"
        );
        assert_eq!(error.code(), Code::Incomplete);
        assert_eq!(found("beyond", &["m-3-of-2.zt"]).unwrap_err().code(), Code::BadIndex);
        assert_eq!(found("twice", &["m-1-of-2.zt", "m-01-of-2.zt"]).unwrap_err().code(), Code::BadIndex);
        let huge = found("huge", &["m-1-of-18446744073709551615.zt"]).unwrap_err();
        assert_eq!(huge.code(), Code::Incomplete);
    }

    #[test]
    fn a_folder_of_a_root_and_its_shards_opens_the_root() {
        let files = ["model.zt", "model-00001-of-00002.zt", "model-00002-of-00002.zt"];
        assert_eq!(found("root", &files).unwrap(), Found::One("model.zt".into()));
    }

    #[test]
    fn ambiguous_folders_are_rejected_with_the_reason() {
        assert_eq!(
            found("one", &["a.safetensors", "config.json"]).unwrap(),
            Found::One("a.safetensors".into())
        );
        for (name, files, part) in [
            ("two", &["a.safetensors", "b.btf"][..], "2 tensor files"),
            ("none", &["a.txt"], "\"a.txt\""),
            ("distributed", &[".metadata", "__0_0.distcp", "common.pt"], "dcp_to_torch"),
            ("empty", &[], "empty"),
            ("sets", &["a-1-of-1.zt", "b-1-of-1.zt"], "2 tensor files"),
            ("indexes", &["a.safetensors.index.json", "b.safetensors.index.json"], "2 indexes"),
        ] {
            let error = found(name, files).unwrap_err();
            assert!(error.message().contains(part), "{error}");
        }
    }

    #[test]
    fn gaps_are_detected_in_a_single_set() {
        assert!(gaps(["m-1-of-3.st", "m-3-of-3.st"].into_iter(), Formats::default()).is_none());
        assert!(gaps(["m-1-of-3.zt", "m-3-of-3.zt"].into_iter(), Formats::default()).is_some());
        assert!(gaps(["m-1-of-3.zt", "n-3-of-3.zt"].into_iter(), Formats::default()).is_none());
        assert!(gaps(std::iter::empty(), Formats::default()).is_none());
    }
}
