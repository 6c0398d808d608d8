//! The index of a sharded checkpoint (`model.safetensors.index.json`, `pytorch_model.bin.index.json`): maps tensors to files in the same
//! folder or below it, as written by Hugging Face. That of Keras (`model.weights.json`) maps groups of tensors, by path, which may span several files.
#![forbid(unsafe_code)]

use crate::arrange::Arrange;
use std::borrow::Cow;
use std::collections::HashMap;

use ciborium::Value;

use crate::error::{Code, Error, Result, short};
use crate::limits::{self, Limits};
use crate::model::Entries;
use crate::syntax::json::{Reader, Unique, keep_last};

const RULE: &str = "index.json: weight_map";
/// Counts in the metadata, which a reader can compute.
const COUNTS: [&str; 2] = ["total_size", "total_parameters"];

/// The content of an index.
#[derive(Debug)]
pub struct WeightMap {
    /// The metadata without its counts.
    pub attributes: Entries,
    /// Bytes of all tensors.
    pub total_size: Option<u64>,
    /// Sorted file names: with padded numbers this is the order of the shards.
    pub files: Vec<String>,
    /// Name and file number of each tensor, in index order.
    pub tensors: Vec<(String, u32)>,
    /// Paths of groups of tensors, without the leading slash.
    pub groups: Vec<String>,
    /// The first keys that are repeated. The last value of each counts.
    pub repeated: Vec<String>,
}

/// Reads an index. Its file names must be relative paths that do not leave the folder of the index.
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<WeightMap> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Error::new(Code::BadIndex, "the index is not valid UTF-8").at(error.valid_up_to() as u64)
    })?;
    // Python writes it, and other programs read what Python's json does.
    let mut reader = Reader::python(text, 0);
    let mut metadata = Entries::new();
    let mut map = None;
    reader.object("'{', as an index begins", Unique::Here, |reader, key| {
        match &**key {
            "metadata" => {
                let mut left = limits.max_attribute_values;
                if let Value::Map(entries) = reader.value(&mut left)? {
                    metadata = entries;
                }
            }
            "weight_map" => map = Some(listed(reader)?),
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    reader.end()?;
    let repeated = reader.repeated().to_vec();
    let Some(Listed { tensors, files, groups, .. }) = map else {
        return Err(Error::new(Code::BadIndex, "the index has no \"weight_map\"").rule(RULE));
    };
    let total_size =
        metadata.iter().find(|(key, _)| key.as_text() == Some(COUNTS[0])).and_then(|(_, size)| match size {
            Value::Integer(size) => u64::try_from(*size).ok(),
            // Some were written as floats.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Value::Float(size) if (0.0..=9_007_199_254_740_992.0).contains(size) => Some(*size as u64),
            _ => None,
        });
    metadata.retain(|(key, _)| key.as_text().is_none_or(|key| !COUNTS.contains(&key)));
    let (files, tensors) = in_order(files, tensors);
    Ok(WeightMap { attributes: metadata, total_size, files, tensors, groups, repeated })
}

type Tensors = Vec<(String, u32)>;

/// The content of a map, and the files in order of occurrence.
#[derive(Default)]
struct Listed {
    files: Vec<String>,
    /// By the name in the index.
    numbers: HashMap<String, u32>,
    /// By the path. An index may spell it in several ways.
    paths: HashMap<String, u32>,
    tensors: Tensors,
    groups: Vec<String>,
}

impl Listed {
    /// Keeps the last entry of each tensor, and the files that are still named.
    fn keep_last(&mut self) {
        keep_last(&mut self.tensors, |(name, _)| name.clone());
        if !self.groups.is_empty() {
            return;
        }
        let mut renumbered = vec![None; self.files.len()];
        let mut files = Vec::new();
        for (_, number) in &mut self.tensors {
            let Some(slot) = renumbered.get_mut(*number as usize) else { continue };
            *number = *slot.get_or_insert_with(|| {
                files.extend(self.files.get(*number as usize).cloned());
                u32::try_from(files.len() - 1).unwrap_or(u32::MAX)
            });
        }
        self.files = files;
    }

    /// Returns the number of a file that contains something.
    fn file(&mut self, file: Cow<'_, str>, of: &str) -> Result<u32> {
        if let Some(&number) = self.numbers.get(&*file) {
            return Ok(number);
        }
        let path = relative_path(&file).map_err(|error| error.tensor(of))?;
        let number = match self.paths.get(&path) {
            Some(&number) => number,
            None if self.files.len() == limits::FILES => {
                return Err(Error::new(Code::Limit, format!("more than {} files", limits::FILES)));
            }
            None => {
                let number = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
                self.files.push(path.clone());
                self.paths.insert(path, number);
                number
            }
        };
        self.numbers.insert(file.into_owned(), number);
        Ok(number)
    }
}

fn listed(reader: &mut Reader<'_>) -> Result<Listed> {
    let mut listed = Listed::default();
    let repeats = reader.repeats();
    reader.object("the object of \"weight_map\"", Unique::Here, |reader, key| {
        const FILE: &str = "the name of a file";
        if let (Some(path), Some(b'[')) = (key.strip_prefix('/'), reader.peek()) {
            let mut files = 0;
            reader.array("the files of a group", |reader| {
                files += 1;
                let file = reader.string(FILE)?;
                listed.file(file, key).map(drop)
            })?;
            // A group without files has no tensors.
            if files > 0 {
                listed.groups.push(path.to_owned());
            }
            return Ok(());
        }
        let file = reader.string(FILE)?;
        let number = listed.file(file, key)?;
        listed.tensors.push((key.clone().into_owned(), number));
        Ok(())
    })?;
    if reader.repeats() > repeats {
        listed.keep_last();
    }
    Ok(listed)
}

fn in_order(files: Vec<String>, mut tensors: Tensors) -> (Vec<String>, Tensors) {
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.arrange_by_key(|&at| files.get(at));
    let mut rank = vec![0_u32; files.len()];
    for (new, &old) in (0_u32..).zip(&order) {
        if let Some(rank) = rank.get_mut(old) {
            *rank = new;
        }
    }
    for (_, file) in &mut tensors {
        *file = rank.get(*file as usize).copied().unwrap_or_default();
    }
    let mut files: Vec<_> = files.into_iter().collect();
    files.arrange();
    (files, tensors)
}

/// Returns the path of a file in the folder of the index or below it, without `.` and empty parts. Rejects any other path, and any that a
/// system could read as another.
fn relative_path(name: &str) -> Result<String> {
    let parts: Vec<&str> = name.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let is_file = !name.starts_with('/') && parts.last().is_some_and(|last| name.ends_with(last));
    let is_below = !parts.contains(&"..") && !name.contains(['\\', ':', '\0']);
    let path = parts.join("/");
    let is_short = parts.iter().all(|part| part.len() <= limits::FILE_NAME_BYTES);
    if is_file && is_below && is_short && path.len() <= limits::RELATIVE_PATH_BYTES {
        return Ok(path);
    }
    let name = short(name, limits::FILE_NAME_BYTES);
    let message = format!("{name:?} is not the path of a file in the folder of the index or below it");
    Err(Error::new(Code::BadIndex, message).rule(RULE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<WeightMap> {
        parse(text.as_bytes(), &Limits::default())
    }

    #[test]
    fn files_are_in_the_order_of_their_names() {
        let map = read(
            r#"{"weight_map": {"z": "m-2.safetensors", "a": "m-1.safetensors", "b": "m-2.safetensors"},
                "metadata": {"total_size": 12.0, "total_parameters": 3, "by": ["x", 1]}}"#,
        )
        .unwrap();
        assert_eq!(map.files, ["m-1.safetensors", "m-2.safetensors"]);
        let names: Vec<_> = map.tensors.iter().map(|(name, file)| (&**name, *file)).collect();
        assert_eq!(names, [("z", 1), ("a", 0), ("b", 1)]);
        assert_eq!(map.total_size, Some(12));
        assert_eq!(map.attributes, [("by".into(), Value::Array(vec!["x".into(), 1.into()]))]);
    }

    #[test]
    fn groups_of_tensors_may_be_in_several_files() {
        let map = read(
            r#"{"metadata": {"total_size": 12.0},
                "weight_map": {"/b/vars": ["m_1.weights.h5", "m_0.weights.h5"], "/a": ["m_0.weights.h5"], "/none": []}}"#,
        )
        .unwrap();
        assert_eq!(map.files, ["m_0.weights.h5", "m_1.weights.h5"]);
        assert_eq!((map.groups, map.tensors), (["b/vars", "a"].map(str::to_owned).to_vec(), Vec::new()));
        for wrong in [r#"{"/a": ["../m.h5"]}"#, r#"{"/a": [1]}"#, r#"{"a": ["m.h5"]}"#, r#"{"/a": {}}"#] {
            let error = read(&format!(r#"{{"weight_map": {wrong}}}"#)).unwrap_err();
            assert_eq!(error.code(), Code::BadIndex, "{wrong}");
        }
    }

    #[test]
    fn paths_stay_in_the_folder_and_each_file_is_listed_once() {
        let map = read(
            r#"{"weight_map": {"a": "./m", "b": "m", "c": "layers.0//m", "d": "layers.0/./m", "e": "x/.y/..z", "f": ".//m"}}"#,
        )
        .unwrap();
        assert_eq!(map.files, ["layers.0/m", "m", "x/.y/..z"]);
        let files: Vec<u32> = map.tensors.iter().map(|(_, file)| *file).collect();
        assert_eq!(files, [1, 1, 0, 0, 2, 1]);
        let long = ["m".repeat(256), format!("{}m", "m/".repeat(3000))];
        let out = [
            "",
            ".",
            "..",
            "../m",
            "a/../m",
            "a/..",
            "/",
            "/etc/passwd",
            "//m",
            "a/",
            "a/.",
            "./",
            "a\\\\b",
            "C:m",
            "m\\u0000",
        ];
        for name in out.into_iter().chain(long.iter().map(|name| &**name)) {
            let error = read(&format!(r#"{{"weight_map": {{"t": "{name}"}}}}"#)).unwrap_err();
            assert_eq!((error.code(), error.tensor_name()), (Code::BadIndex, Some("t")), "{name}");
        }
    }

    #[test]
    fn the_last_of_repeated_keys_counts() {
        let map = read(
            r#"{"metadata": {"x": NaN, "total_size": 1, "total_size": 8},
            "weight_map": {"t": "other", "u": "b", "t": "a"}}"#,
        )
        .unwrap();
        assert_eq!((map.total_size, map.files), (Some(8), vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(map.tensors, [("u".to_owned(), 1), ("t".to_owned(), 0)]);
        assert_eq!(map.repeated, ["total_size", "t"]);
        assert!(read(r#"{"weight_map": {"t": "m"}, "weight_map": {}}"#).unwrap().tensors.is_empty());
    }

    #[test]
    fn invalid_indexes_are_refused() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"weight_map": []}"#,
            r#"{"weight_map": {"t": 1}}"#,
            r#"{"weight_map": {}} x"#,
        ] {
            assert_eq!(read(text).unwrap_err().code(), Code::BadIndex, "{text}");
        }
        assert_eq!(parse(b"\xff", &Limits::default()).unwrap_err().code(), Code::BadIndex);
        assert!(read(r#"{"weight_map": {}}"#).unwrap().files.is_empty());
    }
}
