//! A format of another crate: one row and a parser suffice to open its files like all others.

use std::path::{Path, PathBuf};

use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{CORE, Confidence, Format, Formats, Input, Probe};
use ztensor_core::limits::Limits;
use ztensor_core::model::{Builder, Catalog, Component, Container, DType, Label, Layout, NewTensor};
use ztensor_core::open::{self, Request, detect};
use ztensor_core::read::Reading;
use ztensor_core::sources::Sources;
use ztensor_core::work::Watch;
use ztensor_core::write::compact::compact;

const MAGIC: &[u8; 8] = b"TESTFMT\n";

/// The magic, the name of the one tensor in 8 bytes, and its bytes.
const TABLE: &[Format] = &[Format {
    name: "testfmt",
    title: "Test Format",
    endings: &["testfmt"],
    missing: "no Test Format magic",
    detect,
    parse,
    writes: &[],
    header: None,
}];

const BOTH: Formats = Formats::of(&[CORE, TABLE]);

fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    Ok(if probe.first(8)? == MAGIC { Confidence::Certain } else { Confidence::No })
}

fn parse(input: &Input<'_>) -> Result<Catalog> {
    let head = input.read_vec(0, input.length().min(16))?;
    if head.len() < 16 || head[..8] != MAGIC[..] {
        return Err(Error::new(Code::BadMagic, "this is no Test Format file"));
    }
    let length = input.length() - 16;
    let mut builder = Builder::new(Container::named("testfmt"), input.limits);
    builder.add_tensor(NewTensor {
        name: std::str::from_utf8(&head[8..]).unwrap().trim_end(),
        shape: &[length],
        layout: Layout::Dense,
        dtype: Some(DType::Uint8),
        components: vec![Component::raw(Label::DATA, Some(DType::Uint8), 16, length)],
        attributes: None,
    })?;
    Ok(builder.finish())
}

fn file(name: &str, data: &[u8]) -> Vec<u8> {
    [MAGIC, format!("{name:8}").as_bytes(), data].concat()
}

fn safetensors(name: &str) -> Vec<u8> {
    let header = format!(r#"{{"{name}":{{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}}}"#);
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[8, 9]].concat()
}

fn request() -> Request {
    Request { formats: BOTH, ..Request::default() }
}

/// A folder of files, gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("ztensor-external-format-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn add(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Each tensor's name and bytes.
fn contents(sources: &dyn Sources, catalog: &Catalog) -> Vec<(String, Vec<u8>)> {
    let (limits, watch) = (Limits::default(), Watch::default());
    let reading = Reading { sources, catalog, limits: &limits, watch: &watch };
    let bytes = |tensor: ztensor_core::model::Tensor<'_>| {
        reading.component(tensor, tensor.data().unwrap()).unwrap().to_vec()
    };
    catalog.iter().map(|tensor| (tensor.name().to_owned(), bytes(tensor))).collect()
}

fn opened(path: &Path, request: &Request) -> (String, Vec<(String, Vec<u8>)>) {
    let opened = open::open(path, request).unwrap();
    (opened.catalog.container.name().to_owned(), contents(&opened.files, &opened.catalog))
}

#[test]
fn a_file_of_an_external_format_opens_by_its_path_and_from_memory() {
    let folder = Folder::new("path");
    let bytes = file("w", &[1, 2, 3]);
    let expected = vec![("w".to_owned(), vec![1, 2, 3])];
    assert_eq!(opened(&folder.add("any.bin", &bytes), &request()), ("testfmt".to_owned(), expected.clone()));
    let source = bytes.as_slice();
    let catalog = detect::parse(&source, BOTH, &Limits::default()).unwrap();
    assert_eq!(contents(&source, &catalog), expected);
}

#[test]
fn without_its_table_the_format_is_unknown() {
    let bytes = file("w", &[1, 2, 3]);
    let refused = |formats| detect::parse(&bytes.as_slice(), formats, &Limits::default()).unwrap_err();
    assert_eq!(refused(Formats::default()).code(), Code::BadMagic);
    assert!(Formats::default().only("testfmt").is_none());
    let other = refused(BOTH.only("safetensors").unwrap());
    assert_eq!(other.code(), Code::BadMagic);
    assert!(other.message().contains("this is Test Format, not safetensors"), "{other}");
    let none = detect::parse(&[0xff_u8; 64].as_slice(), BOTH, &Limits::default()).unwrap_err();
    let reasons = "no zTensor magic, no safetensors header, no Test Format magic, and its lengths are not those of a BTF file";
    assert!(none.message().contains(reasons), "{none}");
}

#[test]
fn a_signature_outranks_a_likely_format() {
    // Its name begins with the '{' that a safetensors header has there.
    let bytes = file("{w", &[1]);
    let catalog = detect::parse(&bytes.as_slice(), BOTH, &Limits::default()).unwrap();
    assert_eq!(catalog.container.name(), "testfmt");
    let as_asked = detect::parse(&bytes.as_slice(), BOTH.only("testfmt").unwrap(), &Limits::default());
    assert_eq!(as_asked.unwrap().len(), 1);
}

#[test]
fn files_of_an_external_format_are_joined_with_others() {
    let folder = Folder::new("list");
    let paths = [folder.add("a.testfmt", &file("a", &[1])), folder.add("b.testfmt", &file("b", &[2]))];
    let both = open::open_all(&paths, &request()).unwrap();
    assert_eq!(both.catalog.container.name(), "testfmt");
    let mixed = [paths[0].clone(), folder.add("c.safetensors", &safetensors("c"))];
    let mixed = open::open_all(&mixed, &request()).unwrap();
    assert_eq!(mixed.catalog.container, Container::MIXED);
    let expected = vec![("a".to_owned(), vec![1]), ("c".to_owned(), vec![8, 9])];
    assert_eq!(contents(&mixed.files, &mixed.catalog), expected);
}

#[test]
fn an_index_and_a_folder_can_name_an_external_format() {
    let index = Folder::new("index");
    index.add("a.testfmt", &file("a", &[1]));
    index.add("b.testfmt", &file("b", &[2]));
    let map = br#"{"weight_map": {"a": "a.testfmt", "b": "b.testfmt"}}"#;
    let expected = vec![("a".to_owned(), vec![1]), ("b".to_owned(), vec![2])];
    assert_eq!(opened(&index.add("model.index.json", map), &request()), ("testfmt".to_owned(), expected));
    let set = Folder::new("set");
    set.add("m-00001-of-00002.testfmt", &file("a", &[1]));
    set.add("m-00002-of-00002.testfmt", &file("b", &[2]));
    assert_eq!(opened(&set.0, &request()).1.len(), 2);
    assert_eq!(open::open(&set.0, &Request::default()).err().unwrap().code(), Code::Io);
}

#[test]
fn editing_a_file_of_an_external_format_is_rejected() {
    let folder = Folder::new("edit");
    let path = folder.add("a.testfmt", &file("a", &[1]));
    let error = compact(&path, BOTH, &Limits::default(), &Watch::default()).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArg);
    assert!(error.message().contains("testfmt"), "{error}");
}
