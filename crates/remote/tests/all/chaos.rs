//! A server that does something else at each request: whatever it does, a read gives the bytes of the file that was opened, or
//! an error.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::net::TcpStream;

use ztensor_core::error::Code;
use ztensor_core::work::Stop;
use ztensor_remote::Options;

use crate::server::{Request, Server, TAG, bytes, head, open_with, options, part, redirect, say};

const LENGTH: usize = 3 << 20;

/// One of many ways to answer, by chance. `other` is another version of the file.
fn answer(chance: u64, request: &Request, stream: &mut TcpStream, body: &[u8], other: &[u8]) -> bool {
    let (first, last) = request.range().unwrap();
    let last = last.min(body.len() - 1);
    let length = last - first + 1;
    let some = usize::try_from(chance >> 8).unwrap_or(7) % length;
    let range = format!("Content-Range: bytes {first}-{last}/{}\r\n{TAG}", body.len());
    // Begins as if all of it came, and breaks off. The other side may be gone already.
    let begin = |stream: &mut TcpStream, headers: &str, chunk: &str| {
        head(stream, "206 Partial Content", &format!("{range}{headers}"));
        let _ =
            stream.write_all(chunk.as_bytes()).and_then(|()| stream.write_all(&body[first..first + some]));
        false
    };
    match chance % 16 {
        0 => say(stream, "503 Service Unavailable", "", b"busy"),
        1 => say(stream, "429 Too Many Requests", "Retry-After: 0\r\n", b""),
        2 => false,
        3 | 4 => begin(stream, &format!("Content-Length: {length}\r\n"), ""),
        5 => begin(stream, "Connection: close\r\n", ""),
        6 => begin(stream, "Transfer-Encoding: chunked\r\n", &format!("{length:x}\r\n")),
        7 => part(request, stream, other, "ETag: \"two\"\r\n"),
        8 => say(stream, "200 OK", TAG, body),
        9 => {
            let shifted = format!(
                "Content-Range: bytes {}-{last}/{}\r\n{TAG}",
                first + some.min(length - 1),
                body.len()
            );
            say(stream, "206 Partial Content", &shifted, &body[first + some.min(length - 1)..=last])
        }
        10 => redirect(stream, &format!("{}?again", request.path)),
        _ => part(request, stream, body, TAG),
    }
}

#[test]
fn a_read_returns_correct_bytes_or_fails() {
    let (mut right, mut failed) = (0, 0);
    for seed in 0_u64..60 {
        let (body, other) = (bytes(LENGTH), vec![0xee; LENGTH]);
        let sent = [body.clone(), other.clone()];
        let server = Server::new(move |request: &Request, stream: &mut TcpStream| {
            let mut chance = DefaultHasher::new();
            (seed, request.number).hash(&mut chance);
            answer(chance.finish(), request, stream, &sent[0], &sent[1])
        });
        let options = Options { retries: 6, piece_bytes: 256 << 10, ..options() };
        let opened = open_with(&server.url("/m"), &options);
        let Ok((_, _, source)) = opened else {
            failed += 1;
            continue;
        };
        // It may have been opened as the other version, and then stays that.
        let whole = if source.read_vec(0, 1, Stop::never()).is_ok_and(|byte| byte[0] == body[0]) {
            &body
        } else {
            &other
        };
        for (offset, length) in
            [(0, 100), (700 << 10, 10), (600 << 10, 300 << 10), (1 << 20, 2 << 20), (LENGTH - 9, 9)]
        {
            match source.read_vec(offset as u64, length as u64, Stop::never()) {
                Ok(read) => {
                    assert!(read == whole[offset..offset + length], "{seed}: {offset} {length}");
                    right += 1;
                }
                Err(error) => {
                    assert_eq!(error.code(), Code::Io, "{seed}: {error}");
                    failed += 1;
                }
            }
        }
    }
    assert!(right > 50 && failed > 50, "{right} were right, {failed} failed");
}
