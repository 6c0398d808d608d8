//! Sibling files of an index: a parser asks for them, and no index leads out of its folder.

use std::fs;
#[cfg(unix)]
use std::path::Path;
use std::path::PathBuf;

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{CORE, Confidence, Format, Formats, Input};
use ztensor_core::limits::{self, Limits};
use ztensor_core::model::{
    Blob, Builder, Catalog, Component, Container, DType, Data, Label, Layout, NewTensor,
};
use ztensor_core::open::{self, Lookup, Opened, Request, detect};
use ztensor_core::read::Reading;
use ztensor_core::sources::siblings::Neighbor;
use ztensor_core::work::Watch;

const MAGIC: &str = "POINTERS\n";

/// Paths of files, a line each: the bytes of each are a tensor of that name. Behind a '!' a file must be there, and its
/// first byte is left out.
const TABLE: &[Format] = &[Format {
    name: "pointers",
    title: "Pointers",
    endings: &["pointers"],
    missing: "no magic of pointers",
    detect: |probe| {
        Ok(if probe.first(9)? == MAGIC.as_bytes() { Confidence::Certain } else { Confidence::No })
    },
    parse,
    writes: &[],
    header: None,
}];

fn parse(input: &Input<'_>) -> Result<Catalog> {
    let text = input.read_vec(0, input.length())?;
    let text = std::str::from_utf8(&text).unwrap();
    let mut builder = Builder::new(Container::named("pointers"), input.limits);
    for (at, line) in text[MAGIC.len()..].lines().enumerate() {
        let path = line.trim_start_matches('!');
        let Neighbor { file, length, problem } = input.sibling(path)?;
        assert_eq!(input.sibling(path)?.file, file);
        if let Some(problem) = problem {
            builder.warn("ZT_WARN_SKIPPED", problem.message(), None, None);
        }
        let mut start = 0;
        if line != path {
            let neighbor = input.open(file)?;
            neighbor.read_vec(0, 1, input.stop)?;
            start = 1;
        }
        let length = length.unwrap_or(1) - start;
        let data = Data::Blob(Blob { file, ..Blob::raw(start, length) });
        let name = if builder.contains(path) { format!("{path}~{at}") } else { path.to_owned() };
        builder.add_tensor(NewTensor {
            name: &name,
            shape: &[length],
            layout: Layout::Dense,
            dtype: Some(DType::Uint8),
            components: vec![Component::new(Label::DATA, Some(DType::Uint8), data)],
            attributes: None,
        })?;
    }
    Ok(builder.finish())
}

/// A folder with `in/index`, `in/w`, `in/sub/w` and a file outside, gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            Self(std::env::temp_dir().join(format!("ztensor-siblings-{name}-{}", std::process::id())));
        fs::create_dir_all(folder.0.join("in/sub")).unwrap();
        folder.add("in/w", b"abc");
        folder.add("in/sub/w", b"defg");
        folder.add("outside", b"secret");
        folder
    }

    fn add(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn index(&self, lines: &[&str]) -> PathBuf {
        self.add("in/index", format!("{MAGIC}{}", lines.join("\n")).as_bytes())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn request(lookup: Lookup) -> Request {
    Request { formats: Formats::of(&[CORE, TABLE]), lookup, ..Request::default() }
}

/// The bytes of a tensor, or why they cannot be read.
fn bytes(opened: &Opened, name: &str) -> Result<Vec<u8>> {
    let (limits, watch) = (Limits::default(), Watch::default());
    let reading =
        Reading { sources: &opened.files, catalog: &opened.catalog, limits: &limits, watch: &watch };
    let tensor = opened.catalog.tensor(opened.catalog.find(name).unwrap()).unwrap();
    reading.component(tensor, tensor.data().unwrap()).map(|bytes| bytes.to_vec())
}

fn code(result: Result<Vec<u8>>) -> Code {
    result.map_err(|error: Error| error.code()).unwrap_err()
}

#[test]
fn a_parser_reads_sibling_files() {
    let folder = Folder::new("asks");
    let opened = open::open(&folder.index(&["sub/w", "!w", "sub/w"]), &request(Lookup::Siblings)).unwrap();
    assert_eq!(opened.files.len(), 3, "a file that is named twice is one");
    assert_eq!(bytes(&opened, "sub/w").unwrap(), b"defg");
    assert_eq!(bytes(&opened, "w").unwrap(), b"bc");
    assert_eq!(bytes(&opened, "sub/w~2").unwrap(), b"defg");
    assert!(opened.catalog.warnings.is_empty());
}

#[test]
fn an_unreadable_sibling_affects_only_its_own_data() {
    let folder = Folder::new("refused");
    let path = folder.index(&["w", "no", "../outside"]);
    let opened = open::open(&path, &request(Lookup::Siblings)).unwrap();
    assert_eq!(bytes(&opened, "w").unwrap(), b"abc");
    assert_eq!(code(bytes(&opened, "no")), Code::Io);
    assert_eq!(code(bytes(&opened, "../outside")), Code::OutOfBounds);
    let warnings: Vec<_> = opened.catalog.warnings.iter().map(|warning| &*warning.message).collect();
    assert!(warnings[0].contains("'no'") && warnings[1].contains("\"../outside\""), "{warnings:?}");
    // A parser that needs it fails as the file does.
    let needed = open::open(&folder.index(&["!../outside"]), &request(Lookup::Siblings));
    assert_eq!(needed.err().unwrap().code(), Code::OutOfBounds);
}

#[test]
fn a_sibling_changed_after_opening_is_rejected() {
    let folder = Folder::new("changed");
    let opened = open::open(&folder.index(&["w"]), &request(Lookup::Siblings)).unwrap();
    folder.add("in/w", b"longer than before");
    assert_eq!(code(bytes(&opened, "w")), Code::Io);
}

#[test]
fn the_caller_can_locate_or_disable_siblings() {
    let folder = Folder::new("given");
    let path = folder.index(&["../outside", "w"]);
    assert_eq!(open::names(&path, &request(Lookup::Siblings)).unwrap(), ["../outside", "w"]);
    let given = Lookup::At([("../outside".to_owned(), folder.0.join("outside"))].into());
    let opened = open::open(&path, &request(given)).unwrap();
    assert_eq!(bytes(&opened, "../outside").unwrap(), b"secret");
    assert_eq!(bytes(&opened, "w").unwrap(), b"abc");
    let opened = open::open(&path, &request(Lookup::Unread)).unwrap();
    assert_eq!(code(bytes(&opened, "w")), Code::Io);
    // The names that a parser needs to continue are reported although it fails.
    let needs = folder.index(&["!no", "w"]);
    assert_eq!(open::names(&needs, &request(Lookup::Siblings)).unwrap(), ["no"]);
}

#[test]
fn a_file_in_memory_has_no_siblings() {
    let index = format!("{MAGIC}w");
    let catalog = detect::parse(&index.as_bytes(), Formats::of(&[CORE, TABLE]), &Limits::default()).unwrap();
    assert!(catalog.warnings[0].message.contains("memory"), "{}", catalog.warnings[0].message);
}

#[test]
fn files_of_a_list_include_their_siblings() {
    let folder = Folder::new("list");
    let first = folder.index(&["w"]);
    let second = folder.add("in/sub/index", format!("{MAGIC}./w").as_bytes());
    let opened = open::open_all(&[first, second], &request(Lookup::Siblings)).unwrap();
    assert_eq!(opened.files.len(), 4);
    assert_eq!(bytes(&opened, "w").unwrap(), b"abc");
    assert_eq!(bytes(&opened, "./w").unwrap(), b"defg");
}

#[test]
fn the_number_of_siblings_is_limited() {
    let folder = Folder::new("many");
    let names: Vec<String> = (0..limits::FILES).map(|at| format!("no-{at}")).collect();
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    let opened = open::open(&folder.index(&names[1..]), &request(Lookup::Unread)).unwrap();
    assert_eq!(opened.files.len(), limits::FILES);
    let error = open::open(&folder.index(&names), &request(Lookup::Unread)).err().unwrap();
    assert_eq!(error.code(), Code::Limit);
}

#[cfg(unix)]
fn safetensors(name: &str) -> Vec<u8> {
    let header = format!(r#"{{"{name}":{{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}}}"#);
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[8, 9]].concat()
}

#[cfg(unix)]
#[test]
fn a_weight_map_follows_links_to_tensor_files() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new("map");
    folder.add("in/sub/a", &safetensors("a"));
    let out = folder.add("b", &safetensors("b"));
    let map = folder.add("in/m.json", br#"{"weight_map": {"a": "1", "b": "2"}}"#);
    let link = |target: &Path, name: &str| symlink(target, folder.0.join("in").join(name)).unwrap();
    link(Path::new("sub/a"), "1");
    link(Path::new("../outside"), "2");
    // A file that is not a tensor file is refused, wherever it is.
    let error = open::open(&map, &Request::default()).err().unwrap();
    assert!(matches!(error.code(), Code::Truncated | Code::BadMagic), "{error}");
    fs::remove_file(folder.0.join("in/2")).unwrap();
    link(Path::new("../b"), "2");
    let opened = open::open(&map, &Request::default()).unwrap();
    assert_eq!(bytes(&opened, "b").unwrap(), [8, 9]);
    // Where the caller says so, it is read from there.
    let lookup = Lookup::At([("2".to_owned(), out)].into());
    let opened = open::open(&map, &Request { lookup, ..Request::default() }).unwrap();
    assert_eq!(bytes(&opened, "b").unwrap(), [8, 9]);
    // What a cache of downloads looks like.
    fs::create_dir_all(folder.0.join("cache")).unwrap();
    symlink("../in/m.json", folder.0.join("cache/m.json")).unwrap();
    symlink("../in/sub/a", folder.0.join("cache/1")).unwrap();
    folder.add("in/b", &safetensors("b"));
    symlink("../in/b", folder.0.join("cache/2")).unwrap();
    let opened = open::open(&folder.0.join("cache/m.json"), &Request::default()).unwrap();
    assert_eq!(bytes(&opened, "a").unwrap(), [8, 9]);
}
