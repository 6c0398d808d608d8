//! Names of files in a folder that may be a URL. A URL is a `Path` here like any other, but the standard library joins with a backslash
//! on Windows.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Joins a folder, which may be a URL, and a relative path.
pub fn join(folder: &Path, name: impl AsRef<Path>) -> PathBuf {
    if is_url(folder) { join_with_slashes(folder, name.as_ref()) } else { folder.join(name) }
}

/// Joins a folder and the parts of a relative path with `/`.
pub fn join_with_slashes(folder: &Path, name: &Path) -> PathBuf {
    let mut text = OsString::from(folder);
    for part in name.components() {
        if !text.is_empty() && !text.as_encoded_bytes().ends_with(b"/") {
            text.push("/");
        }
        text.push(part);
    }
    text.into()
}

/// Replaces the name of a file, in a path or a URL.
pub fn with_file_name(path: &Path, name: &str) -> PathBuf {
    match path.parent() {
        Some(folder) if is_url(path) => join_with_slashes(folder, Path::new(name)),
        _ => path.with_file_name(name),
    }
}

fn is_url(path: &Path) -> bool {
    let scheme = path.to_str().and_then(|text| text.split_once("://"));
    scheme.is_some_and(|(scheme, _)| {
        !scheme.is_empty()
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    })
}

/// Returns the folder that contains a path.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_joined_with_slashes_and_paths_as_the_system_does() {
        for (folder, name, expected) in [
            ("s3://bucket", "a", "s3://bucket/a"),
            ("s3://bucket/m/", "a", "s3://bucket/m/a"),
            ("hf://o/r@main", "sub/a", "hf://o/r@main/sub/a"),
        ] {
            assert_eq!(join(Path::new(folder), name).to_str(), Some(expected));
        }
        for (path, name, expected) in [
            ("https://host/m/a.zt", "b", "https://host/m/b"),
            ("s3://bucket/a.zt", "sub/b", "s3://bucket/sub/b"),
        ] {
            assert_eq!(with_file_name(Path::new(path), name).to_str(), Some(expected));
        }
        for folder in ["m", "", "/m", "C:\\m", "://m", "a b://m"] {
            assert_eq!(join(Path::new(folder), "a"), Path::new(folder).join("a"));
            let file = Path::new(folder).join("a");
            assert_eq!(with_file_name(&file, "b"), file.with_file_name("b"));
        }
        assert_eq!(join_with_slashes(Path::new(""), Path::new("sub/a")).to_str(), Some("sub/a"));
    }
}
