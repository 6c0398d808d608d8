//! The index of a sharded checkpoint (`model.safetensors.index.json`, `pytorch_model.bin.index.json`): maps tensors to files in the same
//! folder, as written by Hugging Face. That of Keras (`model.weights.json`) maps groups of tensors, by path, which may span several files.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::HashMap;

use ciborium::Value;

use crate::error::{Code, Error, Result};
use crate::limits::{self, Limits};
use crate::model::Entries;
use crate::syntax::json::{Reader, Unique};

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
}

/// Reads an index. Its file names must be plain names: files outside the index's folder are not read.
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<WeightMap> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Error::new(Code::BadIndex, "the index is not valid UTF-8").at(error.valid_up_to() as u64)
    })?;
    let mut reader = Reader::new(text, 0);
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
    Ok(WeightMap { attributes: metadata, total_size, files, tensors, groups })
}

type Tensors = Vec<(String, u32)>;

/// The content of a map, and the files in order of occurrence.
#[derive(Default)]
struct Listed {
    files: Vec<String>,
    numbers: HashMap<String, u32>,
    tensors: Tensors,
    groups: Vec<String>,
}

impl Listed {
    /// Returns the number of a file that contains something.
    fn file(&mut self, file: Cow<'_, str>, of: &str) -> Result<u32> {
        if let Some(&number) = self.numbers.get(&*file) {
            return Ok(number);
        }
        plain_name(&file).map_err(|error| error.tensor(of))?;
        if self.files.len() == limits::FILES {
            return Err(Error::new(Code::Limit, format!("more than {} files", limits::FILES)));
        }
        let number = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        self.files.push(file.clone().into_owned());
        self.numbers.insert(file.into_owned(), number);
        Ok(number)
    }
}

fn listed(reader: &mut Reader<'_>) -> Result<Listed> {
    let mut listed = Listed::default();
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
    Ok(listed)
}

fn in_order(files: Vec<String>, mut tensors: Tensors) -> (Vec<String>, Tensors) {
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.sort_by_key(|&at| files.get(at));
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
    files.sort();
    (files, tensors)
}

/// Rejects anything but the name of a file in the same folder, on any system.
pub fn plain_name(name: &str) -> Result<()> {
    let separators = ['/', '\\', ':', '\0'];
    let bad = name.is_empty() || name == "." || name == ".." || name.contains(separators);
    if bad || name.len() > limits::FILE_NAME_BYTES {
        let message = format!("{name:?} is not the plain name of a file in the folder of the index");
        return Err(Error::new(Code::BadIndex, message).rule(RULE));
    }
    Ok(())
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
    fn names_cannot_leave_the_folder() {
        for name in
            ["", ".", "..", "../m", "/etc/passwd", "a/b", "a\\\\b", "C:m", "m\\u0000", &"m".repeat(256)]
        {
            let error = read(&format!(r#"{{"weight_map": {{"t": "{name}"}}}}"#)).unwrap_err();
            assert_eq!((error.code(), error.tensor_name()), (Code::BadIndex, Some("t")), "{name}");
        }
    }

    #[test]
    fn invalid_indexes_are_refused() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"weight_map": []}"#,
            r#"{"weight_map": {"t": 1}}"#,
            r#"{"weight_map": {"t": "m", "t": "m"}}"#,
            r#"{"weight_map": {}, "weight_map": {}}"#,
            r#"{"weight_map": {}} x"#,
        ] {
            assert_eq!(read(text).unwrap_err().code(), Code::BadIndex, "{text}");
        }
        assert_eq!(parse(b"\xff", &Limits::default()).unwrap_err().code(), Code::BadIndex);
        assert!(read(r#"{"weight_map": {}}"#).unwrap().files.is_empty());
    }
}
