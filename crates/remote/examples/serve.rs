//! Serves one file to this machine, for the benchmarks: `serve PATH` prints its URL and runs until its input ends. It only supports ranges,
//! so that it uses as little CPU as possible.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

fn main() {
    let path = std::env::args().nth(1).expect("a path");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("http://{}/model.safetensors", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let path = path.clone();
            // The client may have disconnected.
            thread::spawn(move || answer(stream, File::open(path).unwrap()));
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Answers the requests of one connection.
fn answer(mut stream: TcpStream, mut file: File) -> Option<()> {
    let length = file.metadata().ok()?.len();
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut range = None;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if let Some((first, last)) =
                line.strip_prefix("range: bytes=").and_then(|text| text.split_once('-'))
            {
                range = Some((first.parse().ok()?, last.parse::<u64>().unwrap_or(u64::MAX).min(length - 1)));
            }
            if line.is_empty() {
                break;
            }
        }
        let (first, last) = range.unwrap_or((0, length - 1));
        let status = match range {
            Some(_) => format!("206 Partial Content\r\nContent-Range: bytes {first}-{last}/{length}"),
            None => "200 OK".to_owned(),
        };
        let count = last - first + 1;
        write!(stream, "HTTP/1.1 {status}\r\nETag: \"{length}\"\r\nContent-Length: {count}\r\n\r\n").ok()?;
        file.seek(SeekFrom::Start(first)).ok()?;
        // The kernel sends it without a copy in user space.
        std::io::copy(&mut (&file).take(count), &mut stream).ok()?;
    }
}
