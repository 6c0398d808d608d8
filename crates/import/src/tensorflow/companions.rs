//! Sibling files of a checkpoint's index that identify the current checkpoint of a folder.
#![forbid(unsafe_code)]

use ztensor_core::formats::{Companions, Marker};

/// Sibling files of an index.
pub const COMPANIONS: Companions = Companions {
    format: super::NAME,
    markers: &[
        Marker { name: "saved_model.pb", leads_to: |_| Some(VARIABLES.to_owned()) },
        Marker { name: "saved_model.pbtxt", leads_to: |_| Some(VARIABLES.to_owned()) },
        Marker { name: "checkpoint", leads_to: newest },
    ],
    index_of,
    in_pairs: false,
};

/// The variables of a SavedModel.
const VARIABLES: &str = "variables/variables.index";

/// Returns the index of the newest checkpoint according to a file `checkpoint`: `CheckpointState` as text. TensorFlow writes an absolute
/// path if it was given one. Only its last component is used, because only this folder is searched and it may have been moved.
fn newest(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let value = text.lines().find_map(|line| line.trim_start().strip_prefix("model_checkpoint_path:"))?;
    let path = String::from_utf8(unquoted(value.trim())?).ok()?;
    let is_absolute = path.starts_with('/') || path.contains('\\') || path.get(1..2) == Some(":");
    let name = if is_absolute { path.rsplit(['/', '\\']).next()? } else { &path };
    Some(format!("{name}.index"))
}

/// Decodes a quoted string (protobuf.dev, Text Format: String Literals).
fn unquoted(text: &str) -> Option<Vec<u8>> {
    let quote = *text.as_bytes().first().filter(|first| matches!(first, b'"' | b'\''))?;
    let mut rest = text.as_bytes().strip_prefix(&[quote])?.strip_suffix(&[quote])?.iter().copied().peekable();
    let mut bytes = Vec::new();
    while let Some(byte) = rest.next() {
        if byte == quote {
            return None;
        }
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            first @ b'0'..=b'7' => {
                let mut number = u32::from(first - b'0');
                for _ in 0..2 {
                    let Some(digit) = rest.next_if(|byte| (b'0'..=b'7').contains(byte)) else { break };
                    number = number * 8 + u32::from(digit - b'0');
                }
                u8::try_from(number).ok()?
            }
            byte @ (b'\\' | b'"' | b'\'') => byte,
            _ => return None,
        });
    }
    Some(bytes)
}

/// Returns the index of a data file by its name: `a.index` for `a.data-00000-of-00001`.
fn index_of(name: &str) -> Option<String> {
    let (prefix, rest) = name.rsplit_once(".data-")?;
    let (number, count) = rest.split_once("-of-")?;
    let digits = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(number) && digits(count)).then(|| format!("{prefix}.index"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_names_the_newest() {
        for (path, index) in [
            (r#""ckpt-2""#, Some("ckpt-2.index")),
            (r#""sub/ckpt""#, Some("sub/ckpt.index")),
            (r#""../ckpt""#, Some("../ckpt.index")),
            (r#""/home/a/ckpt-2""#, Some("ckpt-2.index")),
            (r#""C:\\a\\ckpt-2""#, Some("ckpt-2.index")),
            (r#""\303\244\"""#, Some("ä\".index")),
            (r"'a\'b'", Some("a'b.index")),
            (r#""\377""#, None),
            (r#""\400""#, None),
            (r#""a"b""#, None),
            (r#""a\""#, None),
            ("a", None),
            ("", None),
            ("\"", None),
        ] {
            let text = format!("model_checkpoint_path: {path}\nall_model_checkpoint_paths: \"ckpt-1\"\n");
            assert_eq!(newest(text.as_bytes()).as_deref(), index, "{path}");
        }
        assert_eq!(newest(b"\x80\x02}q\x00."), None);
        assert_eq!(newest(b"all_model_checkpoint_paths: \"a\""), None);
    }

    #[test]
    fn a_file_of_data_has_an_index() {
        assert_eq!(index_of("a.b.data-00000-of-00001").as_deref(), Some("a.b.index"));
        for name in
            ["a.data-0-of-1", "a.data-00000-of-0000x", "a.data-00000", "a.index", "data-00000-of-00001"]
        {
            assert_eq!(index_of(name), None, "{name}");
        }
    }
}
