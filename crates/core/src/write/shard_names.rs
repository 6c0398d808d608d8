//! Names of data shards of zTensor 2, and where they are.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use crate::paths;

/// Returns the name of a shard: its ordinal of all, after the round in which it was written, if that is not the first.
pub fn own_name(round: u32, ordinal: usize, total: usize) -> String {
    let before = if round == 1 { String::new() } else { format!("{round}-") };
    format!("{before}{ordinal:05}-of-{total:05}")
}

/// Returns the round of a name by [`own_name`]; `None` for any other name.
pub fn round_of(name: &str) -> Option<u32> {
    let digits = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let (numbers, total) = name.split_once("-of-")?;
    let (round, ordinal) = numbers.split_once('-').unwrap_or(("1", numbers));
    round.parse().ok().filter(|_| digits(ordinal) && digits(total))
}

/// Returns the path where a shard of that name is looked up first: `model-NAME.zt` for `model.zt` (appendix B).
pub fn shard_path(root: &Path, name: &str) -> PathBuf {
    let stem = root.file_stem().unwrap_or_default().to_string_lossy();
    paths::with_file_name(root, &format!("{stem}-{name}.zt"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_round_is_parsed_from_generated_names() {
        for (round, ordinal) in [(1, 1), (2, 1), (12, 123_456)] {
            assert_eq!(round_of(&own_name(round, ordinal, ordinal)), Some(round));
        }
        for name in
            ["base", "1-of-3", "00001-of-3", "x-00001-of-00003", "00001-of-00003-of-00003", "-00001-of-00003"]
        {
            assert_eq!(round_of(name), None, "{name}");
        }
    }

    #[test]
    fn shards_are_in_the_folder_of_their_root() {
        assert_eq!(shard_path(Path::new("/a/model.zt"), "x"), Path::new("/a/model-x.zt"));
    }
}
