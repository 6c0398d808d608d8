//! Reading files of a server that does everything right, in one way or another.

use std::net::TcpStream;
use std::path::Path;

use std::io::Write;
use ztensor_core::error::Code;
use ztensor_core::sources::{Costs, MappedWindows};
use ztensor_core::work::Stop;
use ztensor_remote::{Options, filesystem, is_remote};

use crate::server::{Request, Server, TAG, bytes, good, head, open, open_with, options, part, refusal, say};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

#[test]
fn reads_return_the_bytes_of_the_file() {
    let body = bytes(5 << 20);
    let server = good(body.clone());
    let options = Options { piece_bytes: 1 << 20, concurrency: 3, ..options() };
    let (_, path, source) = open_with(&server.url("/m.bin?signature=secret"), &options).unwrap();
    assert_eq!(path, Path::new(&server.url("/m.bin")));
    assert_eq!(source.length(), 5 * MIB);
    assert_eq!(source.costs(), Costs { gap: MIB, piece: 1 << 20, in_flight: 3 });
    assert!(source.local().is_none() && !source.is_cached(0, 1));
    for (offset, length) in
        [(0, 5 * MIB), (3 * MIB + 7, 2 * MIB - 7), (10, 100), (511 * KIB, 5 * KIB), (5 * MIB - 1, 1), (7, 0)]
    {
        let read = source.read_vec(offset, length, Stop::never()).unwrap();
        let from = usize::try_from(offset).unwrap();
        assert!(read == body[from..from + usize::try_from(length).unwrap()], "{offset} {length}");
    }
    assert_eq!(refusal(source.read_vec(5 * MIB, 1, Stop::never())).code(), Code::Truncated);
    let mut buffer = [0; 2];
    assert_eq!(refusal(source.read_at(u64::MAX, &mut buffer, Stop::never())).code(), Code::Truncated);
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.path == "/m.bin?signature=secret"));
    assert!(requests.iter().all(|request| request.header("accept-encoding") == Some("identity")));
    let longest =
        requests.iter().map(|request| request.range().unwrap()).map(|(first, last)| last - first + 1);
    assert!(longest.max().unwrap() <= 1 << 20);
}

#[test]
fn an_index_takes_one_request_or_two() {
    let server = good(bytes(10 << 20));
    let source = open(&server.url("/m.safetensors")).unwrap();
    // safetensors: its length, its header.
    source.read_vec(0, 8, Stop::never()).unwrap();
    source.read_vec(0, 64 * KIB, Stop::never()).unwrap();
    source.read_vec(8, 400 * KIB, Stop::never()).unwrap();
    assert_eq!(server.count(), 1);
    // A longer one: what is there is not read twice.
    source.read_vec(8, 600 * KIB, Stop::never()).unwrap();
    assert_eq!(server.requests().last().unwrap().range(), Some((512 << 10, (600 << 10) + 7)));
    // zTensor and zip: the footer, the index before it.
    source.read_vec(10 * MIB - 64 * KIB, 64 * KIB, Stop::never()).unwrap();
    source.read_vec(10 * MIB - 8, 8, Stop::never()).unwrap();
    source.read_vec(10 * MIB - 200 * KIB, 150 * KIB, Stop::never()).unwrap();
    assert_eq!(server.count(), 3);
}

#[test]
fn connections_are_reused() {
    let server = good(bytes(20 << 20));
    let source = open(&server.url("/m")).unwrap();
    for at in 1..20 {
        source.read_vec(at * MIB, 100 * KIB, Stop::never()).unwrap();
    }
    // A request may come before the connection of the last one is free.
    assert!(server.count() == 20 && server.connections() < 10, "{}", server.connections());
}

/// Also where each was opened by a call of its own.
#[test]
fn open_files_share_connections() {
    let server = good(bytes(1000));
    let open = || open_with(&server.url("/m"), &options()).unwrap();
    let files: Vec<_> = (0..8).map(|_| open()).collect();
    assert_eq!(server.count(), files.len());
    assert!(server.connections() <= 4, "{} connections", server.connections());
}

#[test]
fn sequential_small_reads_are_combined() {
    let body = bytes(8 << 20);
    let server = good(body.clone());
    let source = open(&server.url("/m.gguf")).unwrap();
    let mut buffer = [0; 100];
    for at in (0..6 << 20).step_by(1000) {
        source.read_at(at as u64, &mut buffer, Stop::never()).unwrap();
        assert_eq!(buffer, body[at..at + 100]);
    }
    // 512 KiB, then 1 MiB at a time.
    assert!(server.count() <= 8, "{}", server.count());
}

#[test]
fn hashing_reads_in_pieces() {
    let body = bytes(3 << 20);
    let server = good(body.clone());
    let source = open(&server.url("/m")).unwrap();
    let digest = ztensor_core::codecs::digest::Digest::parse("crc32c:0x00000000").unwrap();
    let mut hasher = digest.hasher().unwrap();
    source.hash(&MappedWindows::default(), MIB, 2 * MIB, &mut hasher, Stop::never()).unwrap();
    let mut expected = digest.hasher().unwrap();
    expected.update(&body[1 << 20..]);
    assert_eq!(hasher.combined(), expected.combined());
    assert!(hasher.combined().is_some());
    assert_eq!(server.count(), 2);
}

#[test]
fn small_and_empty_files_are_read() {
    for length in [1, 7, 1000, 512 << 10, (512 << 10) + 1] {
        let body = bytes(length);
        let server = good(body.clone());
        let source = open(&server.url("/m")).unwrap();
        assert!(source.read_vec(0, length as u64, Stop::never()).unwrap() == body);
    }
    let empty = Server::new(|_: &Request, stream: &mut TcpStream| {
        say(stream, "416 Range Not Satisfiable", "Content-Range: bytes */0\r\n", b"")
    });
    assert_eq!(open(&empty.url("/m")).unwrap().length(), 0);
}

/// RFC 9110 §14.4: `*` where the server does not know the length.
#[test]
fn ranges_that_do_not_state_the_length_of_the_file_are_read() {
    let body = bytes(2 << 20);
    for suffixes in [false, true] {
        let sent = body.clone();
        let server = Server::new(move |request: &Request, stream: &mut TcpStream| {
            let (first, last) = match request.range() {
                Some((first, last)) => (first, last.min(sent.len() - 1)),
                None if suffixes => (sent.len() - 1, sent.len() - 1),
                None => return say(stream, "200 OK", TAG, &sent),
            };
            let range = format!("Content-Range: bytes {first}-{last}/*\r\n{TAG}");
            say(stream, "206 Partial Content", &range, &sent[first..=last])
        });
        // One request at a time: the length is requested after the first bytes.
        let options = Options { concurrency: 1, ..options() };
        let (_, _, source) = open_with(&server.url("/m"), &options).unwrap();
        assert_eq!(source.length(), 2 * MIB);
        assert!(source.read_vec(0, 2 * MIB, Stop::never()).unwrap() == body);
        let mut small = vec![0; 1000];
        source.read_at(MIB, &mut small, Stop::never()).unwrap();
        assert_eq!(small, body[1 << 20..][..1000]);
    }
}

/// RFC 9110 §15.3.7: the rest is requested again.
#[test]
fn a_server_that_sends_a_part_of_each_range_is_asked_for_the_rest() {
    let body = bytes(1 << 20);
    for max in [100_000, 5000] {
        let sent = body.clone();
        let server = Server::new(move |request: &Request, stream: &mut TcpStream| {
            let (first, last) = request.range().unwrap();
            let last = last.min(sent.len() - 1).min(first + max - 1);
            let range = format!("Content-Range: bytes {first}-{last}/{}\r\n{TAG}", sent.len());
            say(stream, "206 Partial Content", &range, &sent[first..=last])
        });
        let source = open(&server.url("/m")).unwrap();
        assert!(source.read_vec(0, MIB, Stop::never()).unwrap() == body);
    }
    let sent = body.clone();
    let server = Server::new(move |request: &Request, stream: &mut TcpStream| {
        let first = request.range().unwrap().0;
        let range = format!("Content-Range: bytes {first}-{first}/{}\r\n{TAG}", sent.len());
        say(stream, "206 Partial Content", &range, &sent[first..=first])
    });
    let error = refusal(open(&server.url("/m")));
    assert!(error.message().contains("only a part of each range"), "{error}");
}

#[test]
fn a_part_of_a_file_is_never_the_whole_file() {
    let server = Server::new(|_: &Request, stream: &mut TcpStream| {
        say(stream, "200 OK", "Content-Range: bytes 0-999/5000\r\n", &bytes(1000))
    });
    let error = refusal(open(&server.url("/m")));
    assert!(error.message().contains("200 for a part of the file"), "{error}");
}

#[test]
fn codings_that_change_no_byte_are_read() {
    for coding in ["aws-chunked", "utf-8", "identity, aws-chunked"] {
        let body = bytes(2 << 20);
        let sent = body.clone();
        let server = Server::new(move |request: &Request, stream: &mut TcpStream| {
            part(request, stream, &sent, &format!("Content-Encoding: {coding}\r\n{TAG}"))
        });
        assert!(open(&server.url("/m")).unwrap().read_vec(0, 2 * MIB, Stop::never()).unwrap() == body);
    }
}

#[test]
fn a_refused_connection_names_the_host() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = refusal(open(&format!("http://127.0.0.1:{port}/m")));
    assert!(error.to_string().contains(&format!("no connection to 127.0.0.1:{port}")), "{error}");
}

#[test]
fn a_server_without_ranges_is_read_once() {
    let body = bytes(700 << 10);
    for chunked in [false, true] {
        let body = body.clone();
        let sent = body.clone();
        let server = Server::new(move |_: &Request, stream: &mut TcpStream| {
            if !chunked {
                return say(stream, "200 OK", TAG, &sent);
            }
            head(stream, "200 OK", "Transfer-Encoding: chunked\r\n");
            for piece in sent.chunks(10_000) {
                write!(stream, "{:x}\r\n", piece.len()).unwrap();
                stream.write_all(piece).unwrap();
                stream.write_all(b"\r\n").unwrap();
            }
            stream.write_all(b"0\r\n\r\n").is_ok()
        });
        let source = open(&server.url("/m")).unwrap();
        assert!(source.read_vec(0, 700 * KIB, Stop::never()).unwrap() == body);
        assert!(source.is_cached(0, 1));
        assert_eq!(server.count(), 1);
        let options = Options { max_whole_bytes: (700 << 10) - 1, ..options() };
        let error = refusal(open_with(&server.url("/m"), &options));
        assert_eq!(error.code(), Code::Limit);
        assert!(error.message().contains("maxWholeBytes"), "{error}");
    }
}

#[test]
fn whole_files_of_a_set_share_a_limit() {
    let server = Server::new(|_: &Request, stream: &mut TcpStream| say(stream, "200 OK", "", &bytes(1000)));
    let options = Options { max_whole_bytes: 1000, ..options() };
    let (filesystem, path) = filesystem(&server.url("/0"), &options, Stop::never()).unwrap();
    let open = |name: &str| filesystem.open(&path.with_file_name(name), Stop::never());
    let held: Vec<_> = ["0", "1", "2", "3"].map(|name| open(name).unwrap()).into();
    assert_eq!(refusal(open("4")).code(), Code::Limit);
    drop(held);
    open("4").unwrap();
}

#[test]
fn a_range_that_covers_the_file_may_be_answered_with_200() {
    // Opened by a part, then a range that is all of it.
    let body = bytes(1 << 20);
    let sent = body.clone();
    let server = Server::new(move |request: &Request, stream: &mut TcpStream| match request.range() {
        Some((0, last)) if last + 1 == sent.len() => say(stream, "200 OK", TAG, &sent),
        _ => part(request, stream, &sent, TAG),
    });
    let source = open(&server.url("/m")).unwrap();
    let mut buffer = vec![0; 1 << 20];
    source.read_at(0, &mut buffer, Stop::never()).unwrap();
    assert!(buffer == body);
}

#[test]
fn identities_depend_on_the_version() {
    let identity = |headers: &'static str| {
        let server = Server::new(move |request: &Request, stream: &mut TcpStream| {
            part(request, stream, &bytes(100), headers)
        });
        open(&server.url("/m")).unwrap().identity().unwrap()
    };
    let monday = "Last-Modified: Mon, 05 Jan 2026 00:00:00 GMT\r\n";
    assert_eq!(identity("ETag: \"a\"\r\n"), identity("ETag: \"a\"\r\n"));
    assert_ne!(identity("ETag: \"a\"\r\n"), identity("ETag: \"b\"\r\n"));
    assert_ne!(identity(monday), identity(""));
}

#[test]
fn sibling_files_get_the_headers_but_not_the_query() {
    let server = good(bytes(100));
    let options = Options { headers: vec![("X-Key".into(), "secret".into())], ..options() };
    let url = server.url("/dir/a.json?signature=s").replace("http://", "http://name:pass@");
    let (filesystem, path, _) = open_with(&url, &options).unwrap();
    assert_eq!(path, Path::new(&server.url("/dir/a.json")));
    filesystem.open(&path.with_file_name("b c?.bin"), Stop::never()).unwrap();
    assert!(!filesystem.is_folder(path.parent().unwrap(), Stop::never()) && !filesystem.is_file(&path));
    assert_eq!(refusal(filesystem.list(path.parent().unwrap(), 10, Stop::never())).code(), Code::Io);
    let asked = server.requests();
    assert_eq!(
        asked.iter().map(|request| &*request.path).collect::<Vec<_>>(),
        ["/dir/a.json?signature=s", "/dir/b%20c%3F.bin"]
    );
    for request in asked {
        assert_eq!(request.header("x-key"), Some("secret"));
        assert_eq!(request.header("authorization"), Some("Basic bmFtZTpwYXNz"));
    }
}

#[test]
fn a_header_of_the_caller_overrides_the_password_in_the_url() {
    let server = good(bytes(100));
    let options = Options { headers: vec![("authorization".into(), "Bearer t".into())], ..options() };
    open_with(&server.url("/a").replace("http://", "http://name:pass@"), &options).unwrap();
    assert_eq!(server.requests()[0].header("authorization"), Some("Bearer t"));
}

#[test]
fn invalid_urls_and_options_are_rejected_without_a_request() {
    let cases = [
        ("ftp://host/x", "https:, http:"),
        ("file:///etc/passwd", "https:, http:"),
        ("HTTPS://", "not a valid URL"),
        ("https://h:99999/x", "not a valid URL"),
        ("https://h/dir/", "specify a file"),
        ("https://h", "specify a file"),
        ("x.safetensors", "no scheme"),
        ("hf://x", "hf://owner/repository"),
    ];
    for (url, says) in cases {
        let error = refusal(filesystem(url, &options(), Stop::never()));
        assert_eq!(error.code(), Code::InvalidArg, "{url}");
        assert!(error.message().contains(says), "{url}: {error}");
    }
    for (name, value) in [("Range", "bytes=0-1"), ("host", "h"), ("a b", "x"), ("x", "secret\r\nHost: h")] {
        let options = Options { headers: vec![(name.into(), value.into())], ..options() };
        let error = refusal(filesystem("https://h/x", &options, Stop::never()));
        assert_eq!(error.code(), Code::InvalidArg, "{name}");
        assert!(!error.message().contains("secret"));
    }
    for options in [
        Options { concurrency: 0, ..options() },
        Options { piece_bytes: 1, ..options() },
        Options { timeout: std::time::Duration::ZERO, ..options() },
    ] {
        assert_eq!(refusal(filesystem("https://h/x", &options, Stop::never())).code(), Code::InvalidArg);
    }
    assert!(is_remote("https://h/x") && is_remote("HF://o/r"));
    assert!(!is_remote("c:\\x") && !is_remote("model.zt") && !is_remote("ftp://x"));
}

#[test]
fn debug_output_of_options_hides_secrets() {
    let options = Options { headers: vec![("x-key".into(), "secret".into())], ..options() };
    let shown = format!("{options:?}");
    assert!(shown.contains("x-key") && !shown.contains("secret"), "{shown}");
}
