//! Sets of files, opened as those of this machine are.

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::Barrier;

use ztensor_core::open::{self, Opened, Request as Opening};
use ztensor_core::sources::Sources as _;
use ztensor_core::work::Stop;
use ztensor_remote::{Options, filesystem};

use crate::server::{Request, Server, TAG, options, part, say};

const SHARDS: usize = 8;

fn shard(number: usize) -> Vec<u8> {
    let header = format!(r#"{{"t{number}":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}}"#);
    let length = u64::try_from(header.len()).unwrap().to_le_bytes();
    [&length, header.as_bytes(), &[u8::try_from(number).unwrap()]].concat()
}

fn index() -> String {
    let tensors: Vec<_> = (0..SHARDS).map(|at| format!(r#""t{at}":"model-{at}.safetensors""#)).collect();
    format!(r#"{{"metadata":{{}},"weight_map":{{{}}}}}"#, tensors.join(","))
}

/// Answers for the files of a set; those of shards only once all of them were asked for.
fn answer(name: &str, together: &Barrier, request: &Request, stream: &mut TcpStream) -> bool {
    if name == "model.safetensors.index.json" {
        return part(request, stream, index().as_bytes(), TAG);
    }
    let number = name.strip_prefix("model-").and_then(|rest| rest.strip_suffix(".safetensors"));
    match number.and_then(|number| number.parse().ok()) {
        Some(number) => {
            together.wait();
            part(request, stream, &shard(number), TAG)
        }
        None => say(stream, "404 Not Found", "X-Error-Code: EntryNotFound\r\n", b""),
    }
}

fn opened(url: &str, options: &Options) -> Opened {
    let (filesystem, path) = filesystem(url, options, Stop::never()).unwrap();
    open::open(&path, &Opening { filesystem, ..Opening::default() }).unwrap()
}

fn check(opened: &Opened) {
    let names: Vec<_> = opened.catalog.iter().map(|tensor| tensor.name().to_owned()).collect();
    assert_eq!(names, (0..SHARDS).map(|at| format!("t{at}")).collect::<Vec<_>>());
    for number in 0..SHARDS {
        let source = opened.files.source(u32::try_from(number).unwrap()).unwrap();
        let last = source.read_vec(source.length() - 1, 1, Stop::never()).unwrap();
        assert_eq!(usize::from(last[0]), number);
    }
}

#[test]
fn the_files_of_an_index_are_requested_concurrently() {
    let together = Barrier::new(SHARDS);
    let server = Server::new(move |request: &Request, stream: &mut TcpStream| {
        answer(request.path.trim_start_matches("/dir/"), &together, request, stream)
    });
    check(&opened(&server.url("/dir/model.safetensors.index.json"), &options()));
    assert_eq!(server.count(), 1 + SHARDS, "a request a file");
}

#[test]
fn a_repository_with_an_index_is_opened_as_a_set() {
    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
    let together = Barrier::new(SHARDS);
    let server = Server::new(move |request: &Request, stream: &mut TcpStream| {
        if request.path == "/api/models/o/r/revision/main?blobs=true" {
            let files: Vec<_> =
                (0..SHARDS).map(|at| format!(r#"{{"rfilename":"model-{at}.safetensors"}}"#)).collect();
            let files = files.join(",");
            let body = format!(
                r#"{{"sha":"{COMMIT}","siblings":[{{"rfilename":"model.safetensors.index.json"}},{files}]}}"#
            );
            return say(stream, "200 OK", "", body.as_bytes());
        }
        let folder = format!("/o/r/resolve/{COMMIT}/");
        answer(request.path.trim_start_matches(&*folder), &together, request, stream)
    });
    let environment = HashMap::from([("HF_ENDPOINT".to_owned(), server.url(""))]);
    check(&opened("hf://o/r", &Options { environment: Some(environment), ..options() }));
    assert_eq!(server.count(), 2 + SHARDS, "the revision, the index, the files");
}
