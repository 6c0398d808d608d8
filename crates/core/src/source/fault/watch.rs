//! The thread that a signal handler wakes: what has to be told may take locks and memory, which a handler may not.
#![allow(unsafe_code)]

use std::io::{self, PipeReader, Read};
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;

type Listener = Box<dyn Fn() -> bool + Send>;

/// The end of the pipe that handlers write to.
static WRITER: AtomicI32 = AtomicI32::new(-1);
static LISTENERS: Mutex<Vec<Listener>> = Mutex::new(Vec::new());

/// Calls `tell` after each loss of mapped pages, on a thread of its own, until it says that nobody listens any more
/// (false). One call may stand for several losses.
pub fn on_loss(tell: impl Fn() -> bool + Send + 'static) {
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(tell));
}

/// Starts the thread, once. Where the system has none left, a loss still shows at the next call.
pub(super) fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Ok((reader, writer)) = io::pipe() else { return };
        // A full pipe has woken the thread already; no handler may wait for it.
        if rustix::io::ioctl_fionbio(&writer, true).is_err() {
            return;
        }
        let watching = thread::Builder::new().name("ztensor-watch".to_owned()).stack_size(256 << 10);
        if watching.spawn(move || watch(reader)).is_ok() {
            WRITER.store(writer.into_raw_fd(), SeqCst);
        }
    });
}

fn watch(mut reader: PipeReader) {
    let mut wakes = [0; 64];
    loop {
        match reader.read(&mut wakes) {
            Ok(1..) => LISTENERS.lock().unwrap_or_else(PoisonError::into_inner).retain(|tell| tell()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
        }
    }
}

/// Wakes the thread. Called by the signal handler too.
pub fn wake() {
    let writer = WRITER.load(SeqCst);
    if writer >= 0 {
        // SAFETY: one byte of a constant into a pipe that is never closed.
        unsafe { libc::write(writer, c"!".as_ptr().cast(), 1) };
    }
}
