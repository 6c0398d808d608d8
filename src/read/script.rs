//! Sources that the caller's code reads. A thread that needs bytes sends a request to the wrapper, on the JavaScript thread, and waits for
//! the response; the JavaScript thread itself never waits.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use napi::bindgen_prelude::{Function, Object, Uint8ArraySlice};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Result, Status};
use napi_derive::napi;
use ztensor_core::checked;
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
use ztensor_core::sources::blocks::{Blocks, Small};
use ztensor_core::sources::filesystem::Filesystem;
use ztensor_core::sources::{Costs, ReadAt};
use ztensor_core::work::Stop;
use ztensor_core::work::lanes::Lane;

use crate::js::control::Control;
use crate::js::error::misuse;
use crate::js::task::spawn;
use crate::read::file::NativeFile;
use crate::read::opened::{OpenRequest, Shared};
use crate::values::arguments::unsigned;
use ztensor_handover::number;

/// How often a thread that waits for a response checks its stop flag.
const LOOK: Duration = Duration::from_millis(20);

/// A request to the wrapper.
#[napi(object, object_from_js = false)]
pub struct Question {
    pub id: u32,
    /// The source, by the number that the wrapper assigned. The opened source is 0.
    pub source: u32,
    pub offset: f64,
    pub length: f64,
    /// The name of a sibling of the opened file, if it is requested instead of bytes.
    pub sibling: Option<String>,
    /// Whether the response to this question is no longer needed.
    pub given_up: bool,
}

type Ask = ThreadsafeFunction<Question, (), Question, Status, false, true>;

enum Answer {
    Bytes(Vec<u8>),
    /// Number and length of a sibling of the opened file; `None` if it does not exist.
    Siblings(Option<(u32, u64)>),
    Failed(CoreError),
}

#[derive(Default)]
struct Slot {
    answer: Mutex<Option<Answer>>,
    ready: Condvar,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Answer>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pending requests and their responses.
struct Desk {
    ask: Ask,
    waiting: Mutex<HashMap<u32, Arc<Slot>>>,
    next: AtomicU32,
}

impl Desk {
    fn waiting(&self) -> MutexGuard<'_, HashMap<u32, Arc<Slot>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, question: Question, stop: &Stop) -> CoreResult<Answer> {
        stop.check()?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let slot = Arc::new(Slot::default());
        self.waiting().insert(id, Arc::clone(&slot));
        let given_up = Question { id, given_up: true, sibling: None, ..question };
        let status = self.ask.call(Question { id, ..question }, ThreadsafeFunctionCallMode::NonBlocking);
        if status != Status::Ok {
            self.waiting().remove(&id);
            let message = "the thread that opened the source has ended, and no other thread can read it";
            return Err(CoreError::new(Code::Io, message));
        }
        let mut answer = slot.lock();
        loop {
            if let Some(answer) = answer.take() {
                return Ok(answer);
            }
            if stop.is_set() {
                drop(answer);
                self.waiting().remove(&id);
                // A thread that has ended has already abandoned the question.
                let _ = self.ask.call(given_up, ThreadsafeFunctionCallMode::NonBlocking);
                return Err(stop.check().err().unwrap_or_else(|| CoreError::new(Code::Aborted, "given up")));
            }
            answer = slot.ready.wait_timeout(answer, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn answer(&self, id: u32, answer: Answer) {
        if let Some(slot) = self.waiting().remove(&id) {
            *slot.lock() = Some(answer);
            slot.ready.notify_one();
        }
    }
}

struct Script {
    desk: Arc<Desk>,
    number: u32,
    length: u64,
}

impl ReadAt for Script {
    fn length(&self) -> u64 {
        self.length
    }

    fn costs(&self) -> Costs {
        Costs { gap: 1 << 20, piece: 8 << 20, in_flight: 16 }
    }

    fn is_cached(&self, _offset: u64, _length: u64) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], stop: &Stop) -> CoreResult<()> {
        if checked::end_within(offset, buffer.len() as u64, self.length).is_none() {
            let message = format!(
                "{} bytes are needed at offset {offset}, but the source has {} in total",
                buffer.len(),
                self.length
            );
            return Err(CoreError::new(Code::Truncated, message).at(offset));
        }
        let mut at = offset;
        for piece in buffer.chunks_mut(self.costs().piece) {
            let length = piece.len() as u64;
            let question = Question {
                id: 0,
                source: self.number,
                offset: number(at),
                length: number(length),
                sibling: None,
                given_up: false,
            };
            match self.desk.ask(question, stop)? {
                Answer::Bytes(bytes) if bytes.len() == piece.len() => piece.copy_from_slice(&bytes),
                Answer::Bytes(bytes) => {
                    let message = format!(
                        "read({at}, {length}) of the source returned {} bytes instead of {length}",
                        bytes.len()
                    );
                    return Err(CoreError::new(Code::Io, message).at(at));
                }
                Answer::Failed(error) => return Err(error.at(at)),
                Answer::Siblings(_) => {
                    return Err(CoreError::new(Code::Internal, "the answer has the wrong type"));
                }
            }
            at = at.saturating_add(length);
        }
        Ok(())
    }
}

/// The opened source, and the results of its `sibling()`.
struct Scripts {
    desk: Arc<Desk>,
    /// The name of the source.
    root: PathBuf,
    length: u64,
    /// Cached blocks of all its files.
    blocks: Arc<Blocks>,
}

impl Scripts {
    fn sibling(&self, path: &Path, stop: &Stop) -> CoreResult<(u32, u64)> {
        let folder = self.root.parent().unwrap_or(Path::new(""));
        let name = path.strip_prefix(folder).unwrap_or(path).to_string_lossy();
        // Only on Windows does a backslash separate folders.
        let name = if cfg!(windows) { name.replace('\\', "/") } else { name.into_owned() };
        let question = Question {
            id: 0,
            source: 0,
            offset: 0.0,
            length: 0.0,
            sibling: Some(name.clone()),
            given_up: false,
        };
        match self.desk.ask(question, stop)? {
            Answer::Siblings(Some(found)) => Ok(found),
            Answer::Failed(error) => Err(error),
            Answer::Siblings(None) | Answer::Bytes(_) => {
                let message = format!(
                    "{name:?} is required, but the source has no sibling with that name: return it from sibling(name)"
                );
                Err(CoreError::new(Code::Io, message).absent())
            }
        }
    }
}

impl Filesystem for Scripts {
    fn open(&self, path: &Path, stop: &Stop) -> CoreResult<Arc<dyn ReadAt>> {
        let (number, length) = if path == self.root { (0, self.length) } else { self.sibling(path, stop)? };
        Ok(Arc::new(Small::new(Script { desk: Arc::clone(&self.desk), number, length }, &self.blocks)))
    }

    fn is_folder(&self, _path: &Path, _stop: &Stop) -> bool {
        false
    }

    fn list(&self, _folder: &Path, _most: usize, _stop: &Stop) -> CoreResult<Vec<OsString>> {
        Err(CoreError::new(Code::Io, "a source that JavaScript reads has no folder that can be listed"))
    }

    fn is_file(&self, _path: &Path) -> bool {
        false
    }
}

/// The wrapper's side of a source that it reads.
#[napi]
pub struct ScriptSource {
    desk: Arc<Desk>,
    name: PathBuf,
    length: u64,
}

#[napi]
impl ScriptSource {
    /// `ask` is called on this thread for every request, and responds later with one of the methods below. It does not keep the event loop
    /// running.
    #[napi(constructor, catch_unwind)]
    pub fn new(name: String, byte_length: f64, ask: Function<'_, Question, ()>) -> Result<Self> {
        let ask = ask.build_threadsafe_function::<Question>().weak::<true>().build()?;
        let length = unsigned(byte_length).ok_or_else(|| misuse("no length"))?;
        let desk = Desk { ask, waiting: Mutex::default(), next: AtomicU32::new(1) };
        Ok(Self { desk: Arc::new(desk), name: name.into(), length })
    }

    #[napi(ts_return_type = "Promise<NativeFile>", catch_unwind)]
    pub fn open<'env>(
        &self,
        env: &'env Env,
        request: OpenRequest,
        control: &Control,
    ) -> Result<Object<'env>> {
        let (desk, root, length) = (Arc::clone(&self.desk), self.name.clone(), self.length);
        let stop = control.watch.stop.clone();
        let job = move || {
            let scripts = Scripts { desk, root: root.clone(), length, blocks: Arc::default() };
            Shared::open_at(Arc::new(scripts), &[root], &request, stop)
        };
        spawn(env, Lane::Remote, control, job, |_, shared| Ok(NativeFile::new(shared)))
    }

    /// Passes the requested bytes, which are copied.
    #[napi(catch_unwind)]
    pub fn answer(&self, id: u32, bytes: Uint8ArraySlice<'_>) {
        self.desk.answer(id, Answer::Bytes(bytes.to_vec()));
    }

    /// Passes the requested source by number and length; none if it does not exist.
    #[napi(catch_unwind)]
    pub fn answer_sibling(&self, id: u32, source: Option<u32>, byte_length: Option<f64>) {
        let found = source.zip(byte_length.and_then(unsigned));
        self.desk.answer(id, Answer::Siblings(found));
    }

    /// Passes an exception of the caller's code, stored by the wrapper under a number.
    #[napi(catch_unwind)]
    pub fn fail(&self, id: u32, message: String, thrown: u32) {
        self.desk.answer(id, Answer::Failed(CoreError::thrown(message, thrown)));
    }
}
