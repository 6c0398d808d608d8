//! Finds what can be opened as one in a folder: an index, a numbered set of files, or a single tensor file.
#![forbid(unsafe_code)]

mod checkpoint;
mod marked;
mod names;

use crate::arrange::Arrange;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::foreign;
use super::request::{Lookup, Request};
use crate::error::{Code, Error, Result};
use crate::formats::Formats;
use crate::{limits, paths};
pub use names::list;
use names::{SHOWN, Set, extension, numbered};

/// Substrings of index names, the preferred one first.
const INDEXES: [&str; 3] = [".safetensors.index.", ".bin.index.", ".weights.json"];

/// Extensions of the shards of each.
const KINDS: [&str; 3] = ["safetensors", "bin", "h5"];

/// Names of default indexes, preferred to others such as those of variants.
const DEFAULT: [&str; 3] =
    ["model.safetensors.index.json", "pytorch_model.bin.index.json", "model.weights.json"];

/// Extensions that are also used by other formats.
const VAGUE: [&str; 2] = ["bin", "index"];

/// What to open.
#[derive(Debug, PartialEq, Eq)]
pub enum FolderContent {
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

/// Searches a folder, not recursively. The weights of a checkpoint of transformers take precedence over any other index, that over the
/// target of a marker, that over a numbered set (`…-00001-of-00003.…`), and that over a single tensor file. Returns a warning about files
/// that are not opened, too.
pub fn look(folder: &Path, request: &Request) -> Result<(FolderContent, Option<String>)> {
    let formats = request.formats;
    let Names { texts: names, others } = names(folder, request)?;
    if let Some(what) = foreign::describe_folder(&names) {
        return Err(Error::new(Code::BadMagic, what));
    }
    if formats.wanted().is_none()
        && let Some(weights) = checkpoint::weights(&names, formats)
    {
        if let ([index], true) = (weights.names.as_slice(), weights.is_index) {
            return Ok((FolderContent::Index(paths::join(folder, index)), None));
        }
        let warning = passed_over(&weights.others, "the weights of its model");
        return Ok((one_or_set(folder, &weights.names, (&names, &others), request)?, warning));
    }
    let found = search(folder, (&names, &others), request)?;
    let opened = match &found {
        FolderContent::Index(path) | FolderContent::One(path) => {
            path.file_name().map_or_else(String::new, |name| format!("{:?}", name.to_string_lossy()))
        }
        FolderContent::Set(_) => "those of its numbered set".to_owned(),
    };
    let warning = passed_over(&beside(&found, &names, formats), &opened);
    Ok((found, warning))
}

/// Returns the warning about tensor files that are not opened with others of their folder.
fn passed_over(names: &[&str], opened: &str) -> Option<String> {
    (!names.is_empty()).then(|| {
        let names = list(names.iter().copied());
        format!(
            "the folder has other tensor files, which are not opened with {opened}: open one by its name, or several as a list: {names}"
        )
    })
}

/// Returns the tensor files next to what is opened: those of the same kind next to a set, and those of other kinds whose extensions only
/// tensor files have.
fn beside<'n>(found: &FolderContent, names: &'n [String], formats: Formats) -> Vec<&'n str> {
    let paths = match found {
        FolderContent::Index(path) | FolderContent::One(path) => std::slice::from_ref(path),
        FolderContent::Set(paths) => paths,
    };
    let opened: HashSet<&OsStr> = paths.iter().filter_map(|path| path.file_name()).collect();
    let first = opened.iter().next().and_then(|name| name.to_str()).unwrap_or_default();
    let kind = match found {
        // Files of its kind are its shards.
        FolderContent::Index(_) => {
            INDEXES.iter().zip(KINDS).find(|(part, _)| is_index_name(first, part)).map(|(_, kind)| kind)
        }
        FolderContent::Set(_) | FolderContent::One(_) => extension(first, formats),
    };
    let is_set = matches!(found, FolderContent::Set(_));
    let is_other = |name: &&str| {
        !opened.contains(OsStr::new(name))
            && extension(name, formats)
                .is_some_and(|ending| if Some(ending) == kind { is_set } else { !VAGUE.contains(&ending) })
    };
    tensor_files(names, formats).into_iter().filter(is_other).filter(|name| !has_root(name, names)).collect()
}

/// Returns the names of tensor files. Of files that come in pairs, that is the index of each.
fn tensor_files(names: &[String], formats: Formats) -> Vec<&str> {
    let mut tensors: Vec<&str> =
        names.iter().map(|name| &**name).filter(|name| extension(name, formats).is_some()).collect();
    marked::pair(names, &mut tensors, formats);
    tensors
}

/// Like [`look`], for a folder that is not one of transformers.
fn search(
    folder: &Path,
    (names, others): (&[String], &[String]),
    request: &Request,
) -> Result<FolderContent> {
    let formats = request.formats;
    let indexes =
        INDEXES.map(|part| names.iter().filter(|name| is_index_name(name, part)).collect::<Vec<_>>());
    let indexes = indexes.into_iter().find(|some| !some.is_empty()).unwrap_or_default();
    match &indexes[..] {
        [] => {}
        [index] => return Ok(FolderContent::Index(paths::join(folder, index))),
        several => {
            let default = several.iter().find(|name| DEFAULT.contains(&name.as_str()));
            return default.map(|name| FolderContent::Index(paths::join(folder, name))).ok_or_else(|| {
                ambiguous(&format!("{} indexes", several.len()), several.iter().map(|name| &***name))
            });
        }
    }
    let mut tensors = tensor_files(names, formats);
    let first = |name: &&str| name.rsplit_once('.').is_some_and(|(_, ending)| formats.comes_first(ending));
    let telling = |name: &&str| name.rsplit_once('.').is_some_and(|(_, ending)| !VAGUE.contains(&ending));
    if tensors.iter().any(first) {
        tensors.retain(first);
    } else if let Some(path) = marked::look(folder, names, &tensors, request)? {
        return Ok(FolderContent::One(path));
    } else if tensors.iter().any(telling) {
        tensors.retain(telling);
    }
    one_or_set(folder, &tensors, (names, others), request)
}

/// Returns the only tensor file or set among some files of a folder.
fn one_or_set(
    folder: &Path,
    tensors: &[&str],
    (names, others): (&[String], &[String]),
    request: &Request,
) -> Result<FolderContent> {
    let formats = request.formats;
    let roots: Vec<&str> = tensors.iter().copied().filter(|name| !has_root(name, names)).collect();
    let mut sets: BTreeMap<Set<'_>, Vec<(u64, &str)>> = BTreeMap::new();
    for numbered in roots.iter().filter_map(|name| numbered(name, formats)) {
        sets.entry(numbered.set).or_default().push((numbered.number, numbered.name));
    }
    // Next to the files of a model, those of its variants are not meant.
    if sets.keys().any(|set| set.variant.is_empty()) {
        sets.retain(|set, _| set.variant.is_empty());
    }
    let mut sets = sets.into_iter();
    match (sets.next(), sets.next(), &roots[..]) {
        (Some((set, mut members)), None, _) => {
            members.arrange();
            if !formats.states_sets(set.extension) {
                // The caller may want only the files that exist.
                complete(set, &members, "missing").or_else(|error| {
                    match (error.code(), &request.lookup) {
                        (Code::Incomplete, Lookup::Unread) => Ok(()),
                        _ => Err(error),
                    }
                })?;
            }
            Ok(FolderContent::Set(members.into_iter().map(|(_, name)| paths::join(folder, name)).collect()))
        }
        (None, _, [name]) => Ok(FolderContent::One(paths::join(folder, name))),
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
            let mut all = tensor_files(names, formats);
            all.retain(|name| !has_root(name, names));
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
    names.texts.arrange();
    names.others.arrange();
    Ok(names)
}

fn is_index_name(name: &str, part: &str) -> bool {
    name.contains(part) && is_index(Path::new(name))
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

/// Returns the problem of names that all belong to one numbered set, if some are missing. A file that states its set is whole if it states
/// none.
pub fn gaps<'n>(names: impl Iterator<Item = &'n str>, formats: Formats) -> Option<Error> {
    let all: Vec<_> = names.map(|name| numbered(name, formats)).collect::<Option<_>>()?;
    let set = all.first()?.set;
    if all.iter().any(|one| one.set != set) || (all.len() == 1 && formats.states_sets(set.extension)) {
        return None;
    }
    let members: Vec<_> = all.iter().map(|one| (one.number, one.name)).collect();
    // The others may be next to a file that was opened by itself.
    complete(set, &members, if all.len() == 1 { "not open" } else { "missing" }).err()
}

/// Rejects an incomplete set, naming the files that are `absent`. Numbers begin at 1, or at 0.
fn complete(set: Set<'_>, members: &[(u64, &str)], absent: &str) -> Result<()> {
    let total = set.total;
    let mut numbers: Vec<u64> = members.iter().map(|&(number, _)| number).collect();
    numbers.arrange();
    let first = u64::from(numbers.first() != Some(&0));
    let problem = |code: Code, message: String| {
        Error::new(code, format!("{set} {message}")).rule("complete set of shards")
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
    let are = if missing == 1 { "is" } else { "are" };
    let message = format!("has {total} files, {missing} of which {are} {absent}: {}{more}", shown.join(", "));
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

fn ambiguous<'n>(what: &str, names: impl Iterator<Item = &'n str>) -> Error {
    let message =
        format!("the folder holds {what}: open one by its name, or several as a list: {}", list(names));
    Error::new(Code::Io, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, files: &[&str]) -> Result<FolderContent> {
        looked(name, files).map(|(found, _)| found)
    }

    fn looked(name: &str, files: &[&str]) -> Result<(FolderContent, Option<String>)> {
        let folder = std::env::temp_dir().join(format!("ztensor-folder-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for file in files {
            std::fs::write(folder.join(file), b"").unwrap();
        }
        let found = look(&folder, &Request::default());
        std::fs::remove_dir_all(&folder).unwrap();
        let name = |path: PathBuf| PathBuf::from(path.file_name().unwrap());
        let (found, warning) = found?;
        let found = match found {
            FolderContent::Index(path) => FolderContent::Index(name(path)),
            FolderContent::Set(paths) => FolderContent::Set(paths.into_iter().map(name).collect()),
            FolderContent::One(path) => FolderContent::One(name(path)),
        };
        Ok((found, warning))
    }

    #[test]
    fn an_index_comes_first() {
        let files = [
            "a-1-of-1.safetensors",
            "model.safetensors.index.json",
            "other.safetensors.index.json",
            "config.json",
        ];
        assert_eq!(
            found("index", &files).unwrap(),
            FolderContent::Index("model.safetensors.index.json".into())
        );
        let both = ["pytorch_model.bin.index.json", "a.safetensors.index.json", "a.safetensors"];
        assert_eq!(found("both", &both).unwrap(), FolderContent::Index("a.safetensors.index.json".into()));
        let keras = ["model.weights.json", "model_00000.weights.h5", "model_00001.weights.h5"];
        assert_eq!(found("keras", &keras).unwrap(), FolderContent::Index("model.weights.json".into()));
        let bin = ["pytorch_model.bin.index.json", "pytorch_model-00001-of-00001.bin"];
        assert_eq!(found("bin", &bin).unwrap(), FolderContent::Index("pytorch_model.bin.index.json".into()));
        let variant = ["x.safetensors.index.fp16.json", "x.fp16-00001-of-00002.safetensors"];
        assert_eq!(
            found("variant", &variant).unwrap(),
            FolderContent::Index("x.safetensors.index.fp16.json".into())
        );
    }

    #[test]
    fn the_weights_of_a_checkpoint_are_chosen_among_other_files() {
        let one = |name: &str| FolderContent::One(name.into());
        for (name, files, wanted) in [
            ("adapter", &["model.safetensors", "adapter_model.safetensors"][..], one("model.safetensors")),
            ("native", &["model.safetensors", "consolidated.safetensors"], one("model.safetensors")),
            (
                "native-index",
                &["model.safetensors", "consolidated.safetensors.index.json"],
                one("model.safetensors"),
            ),
            ("variant", &["model.safetensors", "model.fp16.safetensors"], one("model.safetensors")),
            (
                "bin",
                &["pytorch_model.bin", "colbert_linear.pt", "training_args.bin"],
                one("pytorch_model.bin"),
            ),
            ("one-pt", &["pytorch_model.bin", "optimizer.pt"], one("pytorch_model.bin")),
            ("both", &["pytorch_model.bin.index.json", "model.safetensors"], one("model.safetensors")),
            (
                "index",
                &["model.safetensors.index.json", "model.safetensors"],
                FolderContent::Index("model.safetensors.index.json".into()),
            ),
            (
                "set",
                &["model-1-of-2.safetensors", "model-2-of-2.safetensors", "x.safetensors"],
                FolderContent::Set(vec![
                    "model-1-of-2.safetensors".into(),
                    "model-2-of-2.safetensors".into(),
                ]),
            ),
            ("other", &["diffusion.safetensors"], one("diffusion.safetensors")),
        ] {
            let all: Vec<&str> = files.iter().copied().chain(["config.json"]).collect();
            assert_eq!(found(name, &all).unwrap(), wanted, "{name}");
        }
        let ours = ["model.safetensors", "model.zt", "config.json"];
        assert!(found("ours", &ours).unwrap_err().message().contains("2 tensor files"));
        let gap = ["model-1-of-2.safetensors", "adapter_model.safetensors", "config.json"];
        assert_eq!(found("lacking", &gap).unwrap_err().code(), Code::Incomplete);
    }

    #[test]
    fn files_of_the_same_kind_next_to_a_set_are_a_warning() {
        let set = ["m-1-of-2.safetensors", "m-2-of-2.safetensors"];
        for (name, others, wanted) in [
            ("one", &["x.safetensors"][..], Some("\"x.safetensors\"")),
            ("variant", &["m-1-of-1.fp16.safetensors"], Some("\"m-1-of-1.fp16.safetensors\"")),
            ("same-weights", &["pytorch_model.bin", "readme.md"], None),
        ] {
            let all = [&set[..], others].concat();
            let (found, warning) = looked(name, &all).unwrap();
            assert!(matches!(found, FolderContent::Set(paths) if paths.len() == 2), "{name}");
            assert_eq!(warning.as_deref().and_then(|text| text.rsplit(": ").next()), wanted, "{name}");
        }
        let (found, warning) = looked("alone", &["a-1-of-1.zt", "b.zt"]).unwrap();
        assert_eq!(found, FolderContent::Set(vec!["a-1-of-1.zt".into()]));
        assert!(warning.unwrap().ends_with("\"b.zt\""));
    }

    #[test]
    fn files_of_other_kinds_next_to_what_is_opened_are_a_warning() {
        for (name, files, others) in [
            ("index", &["m.safetensors.index.json", "m-1-of-1.safetensors", "m.btf"][..], Some("\"m.btf\"")),
            ("index-bin", &["m.bin.index.json", "m-1-of-1.bin", "a.safetensors"], Some("\"a.safetensors\"")),
            ("keras", &["m.weights.json", "m_00000.weights.h5"], None),
            ("shards", &["m.zt", "m-1.zt", "m.json"], None),
        ] {
            let warning = looked(name, files).unwrap().1;
            assert_eq!(warning.as_deref().and_then(|text| text.rsplit(": ").next()), others, "{name}");
        }
    }

    #[test]
    fn a_set_is_ordered_by_its_numbers() {
        let files = ["m-10-of-10.zt", "m-2-of-10.zt", "readme.md"];
        let all: Vec<String> = (1..=10).map(|number| format!("m-{number}-of-10.zt")).collect();
        let all: Vec<&str> = all.iter().map(|name| &**name).chain(["readme.md"]).collect();
        let FolderContent::Set(paths) = found("set", &all).unwrap() else { panic!("no set") };
        assert_eq!(paths.first().unwrap(), Path::new("m-1-of-10.zt"));
        assert_eq!(paths.last().unwrap(), Path::new("m-10-of-10.zt"));
        assert!(matches!(found("zero", &["m-0-of-2.zt", "m-1-of-2.zt"]).unwrap(), FolderContent::Set(_)));
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
    fn the_files_of_a_variant_are_a_set() {
        let both = ["m-1-of-2.fp16.zt", "m-2-of-2.fp16.zt"];
        assert_eq!(found("variants", &both).unwrap(), FolderContent::Set(both.map(PathBuf::from).to_vec()));
        let half = found("half", &both[1..]).unwrap_err();
        assert_eq!(half.code(), Code::Incomplete);
        assert!(half.message().contains("the set m-…-of-….fp16.zt has 2 files, 1 of which"), "{half}");
        assert!(half.message().contains("is missing: m-1-of-2.fp16.zt"), "{half}");
        let alone = gaps(std::iter::once("m-2-of-2.fp16.zt"), Formats::default()).unwrap();
        assert!(alone.message().contains("1 of which is not open: m-1-of-2.fp16.zt"), "{alone}");
        let plain = ["m-1-of-2.zt", "m-2-of-2.zt"];
        let all = [&plain[..], &both].concat();
        assert_eq!(found("plain", &all).unwrap(), FolderContent::Set(plain.map(PathBuf::from).to_vec()));
        let mixed = found("mixed", &["m-1-of-2.fp16.zt", "m-2-of-2.int8.zt"]).unwrap_err();
        assert!(mixed.message().contains("2 tensor files"), "{mixed}");
        let named = |names: &[&'static str]| gaps(names.iter().copied(), Formats::default()).is_some();
        assert!(named(&both[..1]) && !named(&both) && !named(&["m-1-of-2.fp16.zt", "m-2-of-2.zt"]));
    }

    #[test]
    fn a_folder_of_a_root_and_its_shards_opens_the_root() {
        let files = ["model.zt", "model-00001-of-00002.zt", "model-00002-of-00002.zt"];
        assert_eq!(found("root", &files).unwrap(), FolderContent::One("model.zt".into()));
    }

    #[test]
    fn ambiguous_folders_are_rejected_with_the_reason() {
        assert_eq!(
            found("one", &["a.safetensors", "config.json"]).unwrap(),
            FolderContent::One("a.safetensors".into())
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
