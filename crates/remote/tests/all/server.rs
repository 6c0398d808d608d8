//! A server that answers as a test wants, however badly, and takes down what it was asked.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use ztensor_core::error::{Error, Result};
use ztensor_core::sources::ReadAt;
use ztensor_core::sources::filesystem::Filesystem;
use ztensor_core::work::Stop;
use ztensor_remote::Options;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// With the query.
    pub path: String,
    /// By their names in lower case.
    pub headers: HashMap<String, String>,
    /// The how-many-eth request it is.
    pub number: usize,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| &**value)
    }

    /// The range that was asked for, both ends included.
    pub fn range(&self) -> Option<(usize, usize)> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    }
}

/// What answers a request: writes to the stream, and says whether the connection goes on.
pub trait Answer: Fn(&Request, &mut TcpStream) -> bool + Send + Sync + 'static {}
impl<T: Fn(&Request, &mut TcpStream) -> bool + Send + Sync + 'static> Answer for T {}

/// A stream, and the thread that answers on it.
type Connection = (TcpStream, thread::JoinHandle<()>);

pub struct Server {
    pub address: SocketAddr,
    log: Arc<Mutex<Vec<Request>>>,
    ended: Arc<AtomicBool>,
    serving: Arc<Mutex<Vec<Connection>>>,
}

impl Server {
    pub fn new(answer: impl Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (log, ended) = (Arc::<Mutex<Vec<Request>>>::default(), Arc::<AtomicBool>::default());
        let answer = Arc::new(answer);
        let (shared, end) = (Arc::clone(&log), Arc::clone(&ended));
        let serving = Arc::<Mutex<Vec<_>>>::default();
        let connected = Arc::clone(&serving);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if end.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&shared));
                let ours = stream.try_clone().unwrap();
                let thread = thread::spawn(move || {
                    let open = stream.try_clone().unwrap();
                    serve(stream, &log, &*answer);
                    let _ = open.shutdown(Shutdown::Both);
                });
                connected.lock().unwrap().push((ours, thread));
            }
        });
        Self { address, log, ended, serving }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn requests(&self) -> Vec<Request> {
        self.log.lock().unwrap().clone()
    }

    pub fn connections(&self) -> usize {
        self.serving.lock().unwrap().len()
    }

    pub fn count(&self) -> usize {
        self.log.lock().unwrap().len()
    }
}

/// What an answer asserted fails the test.
impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        if !thread::panicking() {
            for (stream, thread) in self.serving.lock().unwrap().drain(..) {
                // Another test may keep the connection for its next request.
                let _ = stream.shutdown(Shutdown::Read);
                thread.join().expect("an answer of the server");
            }
        }
    }
}

fn serve(stream: TcpStream, log: &Mutex<Vec<Request>>, answer: &dyn Answer) {
    // The body of an answer does not wait for the acknowledgment of its head.
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(request) = read_request(&mut reader, log) {
        if !answer(&request, &mut stream) {
            return;
        }
    }
}

pub fn read_request(reader: &mut impl BufRead, log: &Mutex<Vec<Request>>) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&count| count > 0)?;
    // A server need not know any other.
    assert!(line.starts_with("GET ") || line.starts_with("CONNECT "), "{line}");
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|&count| count > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let mut log = log.lock().unwrap();
    let request = Request { path, headers, number: log.len() };
    log.push(request.clone());
    Some(request)
}

/// Waits until the other side is gone: a server that says nothing more.
pub fn hold(stream: &mut TcpStream) -> bool {
    while stream.read(&mut [0; 1024]).is_ok_and(|count| count > 0) {}
    false
}

/// An answer with its length.
pub fn say(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) -> bool {
    let length = body.len();
    head(stream, status, &format!("Content-Length: {length}\r\n{headers}")) && stream.write_all(body).is_ok()
}

/// The head of an answer. `headers`: each with its line end.
pub fn head(stream: &mut impl Write, status: &str, headers: &str) -> bool {
    stream.write_all(format!("HTTP/1.1 {status}\r\n{headers}\r\n").as_bytes()).is_ok()
}

pub const TAG: &str = "ETag: \"one\"\r\n";

/// The range that was asked for, or the whole where none was.
pub fn part(request: &Request, stream: &mut TcpStream, body: &[u8], headers: &str) -> bool {
    let Some((first, last)) = request.range() else { return say(stream, "200 OK", headers, body) };
    let last = last.min(body.len() - 1);
    let range = format!("Content-Range: bytes {first}-{last}/{}\r\n{headers}", body.len());
    say(stream, "206 Partial Content", &range, &body[first..=last])
}

pub fn redirect(stream: &mut TcpStream, to: &str) -> bool {
    say(stream, "302 Found", &format!("Location: {to}\r\n"), b"elsewhere")
}

/// Bytes in which any two positions differ.
pub fn bytes(length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).to_le_bytes()[0]).collect()
}

/// A server of one file that does everything right.
pub fn good(body: Vec<u8>) -> Server {
    Server::new(move |request: &Request, stream: &mut TcpStream| part(request, stream, &body, TAG))
}

/// Options that wait for nothing long and know no environment.
pub fn options() -> Options {
    Options {
        timeout: Duration::from_secs(20),
        retries: 2,
        backoff: Duration::from_millis(1),
        environment: Some(HashMap::new()),
        ..Options::default()
    }
}

pub type Opened = (Arc<dyn Filesystem>, PathBuf, Arc<dyn ReadAt>);

pub fn open_with(url: &str, options: &Options) -> Result<Opened> {
    let (filesystem, path) = ztensor_remote::filesystem(url, options, Stop::never())?;
    let source = filesystem.open(&path, Stop::never())?;
    Ok((filesystem, path, source))
}

pub fn open(url: &str) -> Result<Arc<dyn ReadAt>> {
    open_with(url, &options()).map(|(_, _, source)| source)
}

pub fn refusal<T>(result: Result<T>) -> Error {
    result.err().expect("it is refused")
}
