//! The thread that a handler wakes: what has to be told may take locks and memory, which a handler may not.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, PoisonError};
use std::thread;

use wakeup::Waiter;

use super::table::losses;

type Listener = Box<dyn Fn() -> bool + Send>;

static LISTENERS: Mutex<Vec<Listener>> = Mutex::new(Vec::new());

/// Calls `tell` after each loss of mapped pages, on a thread of its own, until it says that nobody listens any more
/// (false). One call may stand for several losses.
pub fn on_loss(tell: impl Fn() -> bool + Send + 'static) {
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(tell));
}

/// Starts the thread, unless it runs. Where the system lacks what it takes, a loss still shows at the next call, and the next
/// look at a mapping tries again.
pub(super) fn start() {
    static RUNS: Mutex<bool> = Mutex::new(false);
    let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    if *runs {
        return;
    }
    let Some((mut waiter, waker)) = Waiter::new() else { return };
    let watching = thread::Builder::new().name("ztensor-watch".to_owned()).stack_size(256 << 10);
    if let Ok(watch) = watching.spawn(move || watch(&mut waiter)) {
        waker.register(watch.thread());
        *runs = true;
        if losses().load(SeqCst) > 0 {
            wake();
        }
    }
}

fn watch(waiter: &mut Waiter) {
    while waiter.wait() {
        LISTENERS.lock().unwrap_or_else(PoisonError::into_inner).retain(|tell| tell());
    }
}

/// Wakes the thread. Called by handlers too.
pub fn wake() {
    wakeup::wake();
}

/// A pipe: POSIX lets a signal handler write to one.
#[cfg(unix)]
#[allow(unsafe_code)]
mod wakeup {
    use std::io::{ErrorKind, PipeReader, PipeWriter, Read, pipe};
    use std::os::fd::IntoRawFd;
    use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
    use std::thread::Thread;

    /// The end of the pipe that handlers write to.
    static WRITER: AtomicI32 = AtomicI32::new(-1);

    pub struct Waiter(PipeReader);
    /// Once registered, `wake` reaches the other.
    pub struct Waker(PipeWriter);

    impl Waiter {
        pub fn new() -> Option<(Self, Waker)> {
            let (reader, writer) = pipe().ok()?;
            // A full pipe has woken the thread already; no handler may wait for it.
            rustix::io::ioctl_fionbio(&writer, true).ok()?;
            Some((Self(reader), Waker(writer)))
        }

        /// Waits until it is woken, once or more. False where it never will be.
        pub fn wait(&mut self) -> bool {
            let mut wakes = [0; 64];
            loop {
                match self.0.read(&mut wakes) {
                    Ok(1..) => return true,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Ok(0) | Err(_) => return false,
                }
            }
        }
    }

    impl Waker {
        pub fn register(self, _waiting: &Thread) {
            WRITER.store(self.0.into_raw_fd(), SeqCst);
        }
    }

    pub fn wake() {
        let writer = WRITER.load(SeqCst);
        if writer >= 0 {
            // SAFETY: one byte of a constant into a pipe that is never closed.
            unsafe { libc::write(writer, c"!".as_ptr().cast(), 1) };
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn who_cannot_be_woken_does_not_wait() {
            let (mut waiter, waker) = Waiter::new().unwrap();
            rustix::io::write(&waker.0, b"!!").unwrap();
            assert!(waiter.wait());
            // An error of the read, and then the end of what can be read.
            rustix::io::ioctl_fionbio(&waiter.0, true).unwrap();
            assert!(!waiter.wait());
            drop(waker);
            assert!(!waiter.wait());
        }
    }
}

/// A flag and the thread's own wake-up, which takes no lock and no memory (`WakeByAddressSingle`).
#[cfg(windows)]
#[allow(clippy::unnecessary_wraps, clippy::unused_self)] // as on Unix
mod wakeup {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::thread::{self, Thread};

    static WOKEN: AtomicBool = AtomicBool::new(false);
    static WAITING: OnceLock<Thread> = OnceLock::new();

    pub struct Waiter;
    pub struct Waker;

    impl Waiter {
        pub fn new() -> Option<(Self, Waker)> {
            Some((Self, Waker))
        }

        /// Waits until it is woken, once or more.
        pub fn wait(&mut self) -> bool {
            while !WOKEN.swap(false, SeqCst) {
                thread::park();
            }
            true
        }
    }

    impl Waker {
        pub fn register(self, waiting: &Thread) {
            let _ = WAITING.set(waiting.clone());
            // For who was there first.
            waiting.unpark();
        }
    }

    pub fn wake() {
        WOKEN.store(true, SeqCst);
        if let Some(waiting) = WAITING.get() {
            waiting.unpark();
        }
    }
}
