//! Failures that pass, and where reading goes on after them.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use ztensor_core::error::Code;
use ztensor_core::work::Stop;
use ztensor_remote::Options;

use crate::server::{Request, Server, TAG, bytes, head, hold, open, open_with, options, part, refusal, say};

const MIB: u64 = 1 << 20;

/// Sends the first `count` bytes of the range that was asked for, as if all of it came.
fn begin(request: &Request, stream: &mut TcpStream, body: &[u8], count: usize) {
    let (first, last) = request.range().unwrap();
    let last = last.min(body.len() - 1);
    let length = last - first + 1;
    let range =
        format!("Content-Range: bytes {first}-{last}/{}\r\nContent-Length: {length}\r\n{TAG}", body.len());
    head(stream, "206 Partial Content", &range);
    // A caller that was asked to stop may be gone.
    let _ = stream.write_all(&body[first..first + count.min(length)]);
}

#[test]
fn temporary_failures_are_retried() {
    for status in ["408 Request Timeout", "429 Too Many Requests", "500 Oh", "502 Oh", "503 Oh", "599 Oh"] {
        for wish in [
            "",
            "Retry-After: 0\r\n",
            "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
            "Retry-After: soon\r\n",
        ] {
            let body = bytes(4 << 20);
            let server = Server::new(move |request: &Request, stream: &mut TcpStream| {
                if request.number.is_multiple_of(2) {
                    return say(stream, status, wish, b"busy");
                }
                part(request, stream, &body, TAG)
            });
            let source = open(&server.url("/m")).unwrap();
            assert!(source.read_vec(MIB, MIB, Stop::never()).unwrap() == bytes(4 << 20)[1 << 20..2 << 20]);
            assert_eq!(server.count(), 4, "{status} {wish}");
        }
    }
}

#[test]
fn a_long_retry_after_is_an_error() {
    for wish in ["100000", "99999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"] {
        let server = Server::new(move |_: &Request, stream: &mut TcpStream| {
            say(stream, "429 Too Many Requests", &format!("Retry-After: {wish}\r\n"), b"")
        });
        let error = refusal(open(&server.url("/m")));
        assert_eq!((error.code(), server.count()), (Code::Io, 1));
        assert!(error.message().contains("429") && error.message().contains("a retry after"), "{error}");
    }
}

#[test]
fn the_number_of_retries_is_limited() {
    for retries in [0, 1, 4] {
        let server = Server::new(|_: &Request, stream: &mut TcpStream| say(stream, "503 Oh", "", b""));
        let error = refusal(open_with(&server.url("/m"), &Options { retries, ..options() }));
        assert_eq!(server.count(), retries as usize + 1);
        assert!(error.message().contains("503"), "{error}");
    }
}

#[test]
fn an_interrupted_read_resumes_after_the_received_bytes() {
    let body = bytes(4 << 20);
    // Each answer breaks off after 300 KiB: closed, reset, or with nothing more for the timeout.
    for way in ["closed", "reset", "stalled"] {
        let sent = body.clone();
        let server = Server::new(move |request: &Request, stream: &mut TcpStream| {
            if request.range().unwrap().0 == 0 {
                return part(request, stream, &sent, TAG);
            }
            begin(request, stream, &sent, 300 << 10);
            match way {
                "stalled" => hold(stream),
                "reset" => {
                    // Closing a connection with unread bytes resets it.
                    let _ = stream.shutdown(Shutdown::Read);
                    false
                }
                _ => false,
            }
        });
        let options = Options { retries: 3, timeout: Duration::from_millis(300), ..options() };
        let (_, _, source) = open_with(&server.url("/m"), &options).unwrap();
        assert!(source.read_vec(MIB, MIB, Stop::never()).unwrap() == body[1 << 20..2 << 20], "{way}");
        let asked = server.requests();
        let ranges = asked.iter().map(|request| request.range().unwrap()).filter(|&(first, _)| first > 0);
        let end = (2 << 20) - 1;
        let expected = [0, 300, 600, 900].map(|kib| ((1 << 20) + (kib << 10), end));
        assert_eq!(ranges.collect::<Vec<_>>(), expected, "{way}");
    }
}

#[test]
fn a_server_that_sends_one_byte_per_request_is_an_error() {
    let body = bytes(4 << 20);
    let server = Server::new(move |request: &Request, stream: &mut TcpStream| {
        if request.number == 0 {
            return part(request, stream, &body, TAG);
        }
        begin(request, stream, &body, 1);
        false
    });
    let source = open(&server.url("/m")).unwrap();
    assert_eq!(refusal(source.read_vec(MIB, MIB, Stop::never())).code(), Code::Io);
    assert_eq!(server.count(), 4);
}

#[test]
fn an_interrupted_whole_file_is_requested_again() {
    let body = bytes(1 << 20);
    let sent = body.clone();
    let server = Server::new(move |request: &Request, stream: &mut TcpStream| {
        head(stream, "200 OK", &format!("Content-Length: {}\r\n", sent.len()));
        let count = if request.number == 0 { 1000 } else { sent.len() };
        stream.write_all(&sent[..count]).unwrap();
        request.number > 0
    });
    let source = open(&server.url("/m")).unwrap();
    assert!(source.read_vec(0, MIB, Stop::never()).unwrap() == body);
    assert_eq!(server.count(), 2);
}

#[test]
fn closed_idle_connections_cost_no_retry() {
    let body = bytes(4 << 20);
    let server = Server::new(move |request: &Request, stream: &mut TcpStream| {
        part(request, stream, &body, TAG);
        false
    });
    let source = open(&server.url("/m")).unwrap();
    for at in 1..4 {
        source.read_vec(at * MIB, MIB, Stop::never()).unwrap();
    }
}

#[test]
fn a_stop_ends_a_read_and_closes_its_connection() {
    let stop = Stop::default();
    let (body, set) = (bytes(4 << 20), stop.clone());
    // The server waits for the connection to close, and the end of the test waits for the server.
    let server = Server::new(move |request: &Request, stream: &mut TcpStream| {
        if request.number == 0 {
            return part(request, stream, &body, TAG);
        }
        begin(request, stream, &body, 1000);
        set.set();
        hold(stream)
    });
    let source = open(&server.url("/m")).unwrap();
    assert_eq!(refusal(source.read_vec(MIB, MIB, &stop)).code(), Code::Aborted);
    assert_eq!(refusal(source.read_vec(0, 1, &stop)).code(), Code::Aborted);
    assert_eq!(server.count(), 2);
}

#[test]
fn a_stop_ends_a_wait_for_a_response_or_a_retry() {
    for busy in [false, true] {
        let stop = Stop::default();
        let set = stop.clone();
        let server = Server::new(move |_: &Request, stream: &mut TcpStream| {
            set.set();
            if busy { say(stream, "503 Oh", "Retry-After: 100\r\n", b"") } else { hold(stream) }
        });
        let (filesystem, path) =
            ztensor_remote::filesystem(&server.url("/m"), &options(), Stop::never()).unwrap();
        assert_eq!(refusal(filesystem.open(&path, &stop)).code(), Code::Aborted);
        assert_eq!(server.count(), 1);
    }
}
