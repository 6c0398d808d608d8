//! Measures how fast a file is read from a local server: `cargo run --profile limits -p ztensor-remote --example throughput [MiB]`. For
//! comparison, it also reads a plain stream with the HTTP client. The server shares the cores.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use ztensor_core::sources::ReadAt;
use ztensor_core::work::{self, Stop};
use ztensor_remote::{Options, filesystem};

fn main() {
    let mib: usize = std::env::args().nth(1).map_or(1024, |text| text.parse().unwrap());
    let length = mib << 20;
    let url = serve(length);
    rustls::crypto::ring::default_provider().install_default().unwrap();
    for round in 0..3 {
        report(round, "plain stream", length, || plain(&url, length));
        let options = Options { environment: Some(HashMap::new()), ..Options::default() };
        let (places, path) = filesystem(&url, &options, Stop::never()).unwrap();
        let source = places.open(&path, Stop::never()).unwrap();
        report(round, "one call", length, || one(&*source, length));
        report(round, "16 threads of 8 MiB", length, || many(&*source, length));
    }
}

fn report(round: u32, what: &str, length: usize, read: impl FnOnce()) {
    let start = Instant::now();
    read();
    #[allow(clippy::cast_precision_loss)]
    let speed = length as f64 / start.elapsed().as_secs_f64() / 1e9;
    println!("{round} {what}: {speed:.2} GB/s");
}

fn one(source: &dyn ReadAt, length: usize) {
    let mut buffer = vec![0; length];
    source.read_at(0, &mut buffer, Stop::never()).unwrap();
    assert!(buffer.iter().step_by(4096).all(|&byte| byte == 7));
}

/// Like loading tensors.
fn many(source: &dyn ReadAt, length: usize) {
    let mut buffer = vec![0; length];
    let pieces: Vec<_> = buffer.chunks_mut(8 << 20).map(|piece| std::sync::Mutex::new(Some(piece))).collect();
    work::try_each_on(16, pieces.len(), |at| {
        let piece = pieces[at].lock().unwrap().take().unwrap();
        source.read_at((at as u64) << 23, piece, Stop::never())
    })
    .unwrap();
}

fn plain(url: &str, length: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let client = reqwest::Client::builder().no_proxy().build();
        let mut response = client.unwrap().get(url).send().await.unwrap();
        let (mut buffer, mut at) = (vec![0; length], 0);
        while let Some(bytes) = response.chunk().await.unwrap() {
            buffer[at..at + bytes.len()].copy_from_slice(&bytes);
            at += bytes.len();
        }
        assert_eq!(at, length);
    });
}

fn serve(length: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/m", listener.local_addr().unwrap());
    // All bytes are equal, so that the server reads no memory for them.
    let block = Arc::new(vec![7; 1 << 20]);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let block = Arc::clone(&block);
            thread::spawn(move || answer(stream, length, &block));
        }
    });
    url
}

fn answer(mut stream: TcpStream, length: usize, block: &[u8]) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut range = None;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(text) = line.strip_prefix("range: bytes=") {
                let (first, last) = text.split_once('-').unwrap();
                range =
                    Some((first.parse::<usize>().unwrap(), last.parse::<usize>().unwrap().min(length - 1)));
            }
            if line.is_empty() {
                break;
            }
        }
        let (first, last) = range.unwrap_or((0, length - 1));
        let mut left = last - first + 1;
        let status = match range {
            Some(_) => format!("206 Partial Content\r\nContent-Range: bytes {first}-{last}/{length}"),
            None => "200 OK".to_owned(),
        };
        let _ = write!(stream, "HTTP/1.1 {status}\r\nETag: \"x\"\r\nContent-Length: {left}\r\n\r\n");
        while left > 0 {
            let count = left.min(block.len());
            if stream.write_all(&block[..count]).is_err() {
                return;
            }
            left -= count;
        }
    }
}
