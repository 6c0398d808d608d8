//! Servers that answer something else than what was asked: each is refused, by its own error and after no more requests than
//! may help, and no text shows a secret.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use ztensor_core::error::{Code, Error};
use ztensor_core::work::Stop;
use ztensor_remote::Options;

use crate::server::{
    Answer, Request, Server, TAG, bytes, head, hold, open, open_with, options, part, redirect, refusal, say,
};

const MIB: u64 = 1 << 20;
const QUERY: &str = "/dir/m.safetensors?X-Signature=hidden";

/// Two tries, the second of them soon.
fn twice() -> Options {
    Options { retries: 1, ..options() }
}

/// Options with a short timeout that a responsive local server still meets.
fn impatient() -> Options {
    Options { timeout: Duration::from_millis(300), ..twice() }
}

fn check(name: &str, error: &Error, code: Code, says: &str) {
    assert_eq!(error.code(), code, "{name}: {error}");
    let text = format!("{error} {error:?}");
    assert!(text.contains(says), "{name}: {text}");
    assert!(!text.contains("hidden") && !text.contains("secret"), "{name}: {text}");
    assert!(text.contains("/dir/m.safetensors"), "{name}: {text}");
}

/// What opening a file comes to, and the requests it takes.
fn opening(name: &str, answer: impl Answer, code: Code, says: &str, requests: usize) {
    opening_with(&twice(), name, answer, code, says, requests);
}

fn opening_with(options: &Options, name: &str, answer: impl Answer, code: Code, says: &str, requests: usize) {
    let server = Server::new(answer);
    let options = Options { headers: vec![("x-key".into(), "secret".into())], ..options.clone() };
    let url = server.url(QUERY).replace("http://", "http://me:secret@");
    check(name, &refusal(open_with(&url, &options)), code, says);
    assert_eq!(server.count(), requests, "{name}");
}

/// Checks a read of 2 MiB of a file of 4 MiB that was opened successfully.
fn reading(name: &str, answer: impl Answer, code: Code, says: &str, requests: usize) {
    reading_with(&twice(), name, answer, code, says, requests);
}

fn reading_with(options: &Options, name: &str, answer: impl Answer, code: Code, says: &str, requests: usize) {
    let body = bytes(4 << 20);
    let is_first = |request: &Request| request.range().is_some_and(|(first, _)| first == 0);
    let server = Server::new(move |request: &Request, stream: &mut TcpStream| {
        if is_first(request) { part(request, stream, &body, TAG) } else { answer(request, stream) }
    });
    let (_, _, source) = open_with(&server.url(QUERY), options).unwrap();
    check(name, &refusal(source.read_vec(MIB, 2 * MIB, Stop::never())), code, says);
    let asked = server.requests().iter().filter(|request| !is_first(request)).count();
    assert_eq!(asked, requests, "{name}");
}

fn says(status: &'static str, headers: &'static str, body: &'static [u8]) -> impl Answer {
    move |_: &Request, stream: &mut TcpStream| say(stream, status, headers, body)
}

const HTML: &[u8] = b"<!doctype html><title>Log in</title>";

#[test]
fn errors_for_statuses_say_what_to_do() {
    for (status, hint, requests) in [
        ("401 Unauthorized", "check them", 1),
        ("403 Forbidden", "a signed URL may have expired", 1),
        ("404 Not Found", "check the name", 1),
        ("407 Proxy Authentication Required", "HTTPS_PROXY", 1),
        ("410 Gone", "check the name", 1),
        ("416 Range Not Satisfiable", "cannot be read in parts", 1),
        ("418 I'm a teapot", "answered 418", 1),
        ("204 No Content", "answered 204", 1),
        ("304 Not Modified", "answered 304", 1),
        ("501 Not Implemented", "answered 501", 1),
        ("408 Request Timeout", "answered 408", 2),
        ("429 Too Many Requests", "received too many requests", 2),
        ("500 Internal Server Error", "answered 500 (Internal Server Error); tried 2 times", 2),
        ("503 Service Unavailable", "answered 503", 2),
        ("504 Gateway Timeout", "answered 504", 2),
    ] {
        opening(status, says(status, "", b""), Code::Io, hint, requests);
        // What no longer has the range has changed.
        let hint = if status.starts_with("416") { "changed" } else { &status[..3] };
        reading(status, says(status, "", b""), Code::Io, hint, requests);
    }
    let server = Server::new(says("401 Unauthorized", "", b""));
    let error = refusal(open(&server.url("/dir/m.safetensors")));
    check("no credentials", &error, Code::Io, "option headers");
}

#[test]
fn web_pages_are_rejected() {
    let html = "Content-Type: text/html; charset=utf-8\r\n";
    opening("page", says("200 OK", html, HTML), Code::Io, "web page", 1);
    let part_of = move |request: &Request, stream: &mut TcpStream| part(request, stream, HTML, html);
    opening("page in parts", part_of, Code::Io, "web page", 1);
    let endless = move |_: &Request, stream: &mut TcpStream| {
        head(stream, "200 OK", &format!("{html}Content-Length: 99999999999\r\n"));
        hold(stream)
    };
    opening("long page", endless, Code::Io, "web page", 1);
    let server = Server::new(says("200 OK", html, HTML));
    let error = refusal(open(&server.url("/o/r/blob/main/dir/m.safetensors")));
    check("page of a repository", &error, Code::Io, "/resolve/");
    // Only the header says so.
    let server = Server::new(says("200 OK", html, b"\x08\0\0\0\0\0\0\0{}      "));
    open(&server.url("/m")).unwrap();
}

/// An answer with a Content-Range of its own and as many bytes as it says.
fn ranged(first: usize, last: usize, total: &'static str, tag: &'static str) -> impl Answer {
    move |_: &Request, stream: &mut TcpStream| {
        let range = format!("Content-Range: bytes {first}-{last}/{total}\r\n{tag}");
        say(stream, "206 Partial Content", &range, &vec![7; last - first + 1])
    }
}

#[test]
fn unrequested_ranges_are_rejected() {
    let (from, to) = (1 << 20, (3 << 20) - 1);
    for (name, answer, hint) in [
        ("shifted", ranged(from + 1, to + 1, "4194304", TAG), "sends 1048577-3145728 of 4194304"),
        ("longer", ranged(from, to + 1, "4194304", TAG), "sends 1048576-3145728"),
        ("of another length", ranged(from, to, "4194305", TAG), "changed since it was opened"),
        ("of another tag", ranged(from, to, "4194304", "ETag: \"two\"\r\n"), "changed since it was opened"),
        ("of no tag", ranged(from, to, "4194304", ""), "changed since it was opened"),
    ] {
        reading(name, answer, Code::Io, hint, 1);
    }
    // The same bytes come again, instead of the rest.
    let repeated = ranged(from, to - 1, "4194304", TAG);
    reading("repeated", repeated, Code::Io, "instead of the requested bytes 3145727-3145727", 2);
    for (name, answer, hint) in [
        ("shifted", ranged(1, 100, "1000", ""), "sends 1-100 of 1000 instead of the requested bytes 0-"),
        ("short", ranged(0, 99, "1000", ""), "sends 0-99 of 1000"),
        ("too long", ranged(0, 600_000, "1000000", ""), "sends 0-600000"),
        ("of no length", ranged(0, 99, "*", ""), "does not state the length of the file"),
        ("of more than any file", ranged(0, (512 << 10) - 1, "9007199254740993", ""), "2^53"),
    ] {
        let code = if hint == "2^53" { Code::Limit } else { Code::Io };
        let server = Server::new(answer);
        let error = refusal(open_with(&server.url(QUERY), &twice()));
        assert_eq!(error.code(), code, "{name}: {error}");
        assert!(error.message().contains(hint), "{name}: {error}");
    }
    let whole = |_: &Request, stream: &mut TcpStream| say(stream, "200 OK", TAG, &bytes(4 << 20));
    reading("whole", whole, Code::Io, "sends the whole file (200) instead of a range", 1);
    let precondition = says("412 Precondition Failed", "", b"");
    reading("precondition", precondition, Code::Io, "changed since it was opened; open it again", 1);
    let none = says("206 Partial Content", "", b"x");
    opening("no Content-Range", none, Code::Io, "without a valid Content-Range", 1);
}

#[test]
fn each_request_asks_for_the_version_that_was_opened() {
    let monday = "Last-Modified: Mon, 05 Jan 2026 00:00:00 GMT\r\n";
    for (headers, name, value) in
        [(TAG, "if-match", "\"one\""), (monday, "if-unmodified-since", "Mon, 05 Jan 2026 00:00:00 GMT")]
    {
        let body = bytes(4 << 20);
        let server = Server::new(move |request: &Request, stream: &mut TcpStream| {
            part(request, stream, &body, headers)
        });
        let source = open(&server.url("/m")).unwrap();
        source.read_vec(MIB, MIB, Stop::never()).unwrap();
        let asked = server.requests();
        assert_eq!(asked[0].header(name), None);
        assert_eq!(asked[1].header(name), Some(value));
    }
    // Another date each time, and no tag.
    let body = bytes(4 << 20);
    let server = Server::new(move |request: &Request, stream: &mut TcpStream| {
        let date = format!("Last-Modified: Mon, 05 Jan 2026 00:00:0{} GMT\r\n", request.number);
        part(request, stream, &body, &date)
    });
    let source = open(&server.url("/dir/m.safetensors")).unwrap();
    check("dates", &refusal(source.read_vec(MIB, MIB, Stop::never())), Code::Io, "changed since");
}

#[test]
fn a_file_that_changes_between_two_tries_is_rejected() {
    let server = Server::new(|request: &Request, stream: &mut TcpStream| {
        let (first, last) = request.range().unwrap();
        if request.number != 1 {
            let tag = format!("ETag: \"{}\"\r\n", if request.number == 0 { "one" } else { "two" });
            return part(request, stream, &vec![9; 4 << 20], &tag);
        }
        // Half of the range, then nothing more.
        let range = format!(
            "Content-Range: bytes {first}-{last}/4194304\r\nContent-Length: {}\r\n",
            last - first + 1
        );
        head(stream, "206 Partial Content", &(range + TAG));
        stream.write_all(&vec![7; 1 << 19]).unwrap();
        false
    });
    let source = open(&server.url(QUERY)).unwrap();
    check("mix", &refusal(source.read_vec(MIB, MIB, Stop::never())), Code::Io, "changed since it was opened");
}

#[test]
fn encoded_and_multipart_bodies_are_rejected() {
    for coding in ["gzip", "br", "zstd", "deflate, gzip"] {
        let body = bytes(4 << 20);
        let answer = move |request: &Request, stream: &mut TcpStream| {
            part(request, stream, &body, &format!("{TAG}Content-Encoding: {coding}\r\n"))
        };
        opening(coding, answer.clone(), Code::Io, "Content-Encoding", 1);
        reading(coding, answer, Code::Io, "Content-Encoding", 1);
    }
    let multipart = |_: &Request, stream: &mut TcpStream| {
        say(stream, "206 Partial Content", "Content-Type: multipart/byteranges; boundary=x\r\n", b"--x")
    };
    opening("multipart", multipart, Code::Io, "multipart/byteranges", 1);
    reading("multipart", multipart, Code::Io, "multipart/byteranges", 1);
    // The identity encoding is no encoding.
    let server = Server::new(|request: &Request, stream: &mut TcpStream| {
        part(request, stream, &bytes(100), "Content-Encoding: identity\r\n")
    });
    open(&server.url("/m")).unwrap();
}

#[test]
fn endless_bodies_are_aborted() {
    // Chunks without an end, and a range that is right.
    let endless = |request: &Request, stream: &mut TcpStream| {
        let (first, last) = request.range().unwrap();
        let range = format!("Content-Range: bytes {first}-{last}/4194304\r\n{TAG}");
        head(stream, "206 Partial Content", &(range + "Transfer-Encoding: chunked\r\n"));
        let chunk = [b"10000\r\n".as_slice(), &vec![7; 1 << 16], b"\r\n"].concat();
        let mut sent = 0_u64;
        while sent < 64 * MIB && stream.write_all(&chunk).is_ok() {
            sent += 1 << 16;
        }
        assert!(sent < 64 * MIB, "the reader went on reading");
        false
    };
    opening("endless", endless, Code::Io, "more bytes than requested", 1);
    reading("endless", endless, Code::Io, "more bytes than requested", 1);
    let long = |request: &Request, stream: &mut TcpStream| {
        let (first, last) = request.range().unwrap();
        let range =
            format!("Content-Range: bytes {first}-{last}/4194304\r\n{TAG}Content-Length: 99999999999\r\n");
        head(stream, "206 Partial Content", &range);
        hold(stream)
    };
    opening("long", long, Code::Io, "more bytes than requested", 1);
    reading("long", long, Code::Io, "more bytes than requested", 1);
    // A whole file without an end: as many bytes as may be held, and no more.
    let server = Server::new(|_: &Request, stream: &mut TcpStream| {
        head(stream, "200 OK", "Connection: close\r\n");
        let mut sent = 0_u64;
        while sent < 64 * MIB && stream.write_all(&vec![7; 1 << 16]).is_ok() {
            sent += 1 << 16;
        }
        assert!(sent < 64 * MIB, "the reader went on reading");
        false
    });
    let options = Options { max_whole_bytes: MIB, ..options() };
    let error = refusal(open_with(&server.url(QUERY), &options));
    check("whole without an end", &error, Code::Limit, "maxWholeBytes");
    assert_eq!(server.count(), 1);
    // Claims of any length cost nothing.
    let server = Server::new(|_: &Request, stream: &mut TcpStream| {
        head(stream, "200 OK", "Content-Length: 999999999999999999\r\n");
        hold(stream)
    });
    check("claim", &refusal(open_with(&server.url(QUERY), &twice())), Code::Limit, "999999999999999999");
}

#[test]
fn interrupted_responses_are_retried_and_then_reported() {
    let nothing = |_: &Request, _: &mut TcpStream| false;
    opening("closed", nothing, Code::Io, "was interrupted", 2);
    reading("closed", nothing, Code::Io, "was interrupted", 2);
    let noise = |_: &Request, stream: &mut TcpStream| {
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n\r\n");
        false
    };
    opening("noise", noise, Code::Io, "was interrupted", 2);
    let stalled = |_: &Request, stream: &mut TcpStream| hold(stream);
    opening_with(&impatient(), "stalled", stalled, Code::Io, "sent nothing for 300ms (option timeout)", 2);
    reading_with(&impatient(), "stalled", stalled, Code::Io, "sent nothing for 300ms (option timeout)", 2);
    let stalled_body = |request: &Request, stream: &mut TcpStream| {
        let (first, last) = request.range().unwrap();
        let length = last - first + 1;
        let range =
            format!("Content-Range: bytes {first}-{last}/4194304\r\n{TAG}Content-Length: {length}\r\n");
        head(stream, "206 Partial Content", &range);
        stream.write_all(&[7; 100]).unwrap();
        hold(stream)
    };
    opening_with(&impatient(), "stalled body", stalled_body, Code::Io, "sent nothing for", 2);
    reading_with(&impatient(), "stalled body", stalled_body, Code::Io, "sent nothing for", 2);
    // Headers without an end.
    let heads = |_: &Request, stream: &mut TcpStream| {
        stream.write_all(b"HTTP/1.1 206 Partial Content\r\n").unwrap();
        let mut sent = 0;
        while sent < 64 << 20
            && stream.write_all(&[b"X-Long: ", [b'x'; 1000].as_slice(), b"\r\n"].concat()).is_ok()
        {
            sent += 1000;
        }
        assert!(sent < 64 << 20, "the reader went on reading");
        false
    };
    opening("endless headers", heads, Code::Io, "m.safetensors", 2);
    // No server listens there: a port that was free could be another test's by now.
    let error = refusal(open_with(&format!("http://127.0.0.1:1{QUERY}"), &twice()));
    check("refused", &error, Code::Io, "connect: ");
    assert_eq!(error.os().unwrap().syscall, "connect");
    // Nothing has the name.
    let error = refusal(open_with(&format!("http://no-such-host.invalid{QUERY}"), &twice()));
    check("name", &error, Code::Io, "no-such-host.invalid could not be resolved");
}

#[test]
fn endless_and_invalid_redirects_are_rejected() {
    let around = |_: &Request, stream: &mut TcpStream| redirect(stream, "/dir/m.safetensors?again=secret");
    opening("around", around, Code::Io, "more than 10 times", 11);
    for (to, hint) in
        [("file:///etc/passwd", "\"file\""), ("ftp://h/x", "\"ftp\""), ("javascript:1", "\"javascript\"")]
    {
        opening(to, move |_: &Request, stream: &mut TcpStream| redirect(stream, to), Code::Io, hint, 1);
    }
    opening("nowhere", says("302 Found", "", b""), Code::Io, "without a valid Location header", 1);
    opening("no URL", says("302 Found", "Location: http://[\r\n", b""), Code::Io, "invalid URL", 1);
}
