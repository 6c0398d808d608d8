//! The thread that a handler wakes: notifications may need locks and memory, which a handler must not use.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, PoisonError};
use std::thread;

use wakeup::Waiter;

use super::table::losses;

type Listener = Box<dyn Fn() -> bool + Send>;

static LISTENERS: Mutex<Vec<Listener>> = Mutex::new(Vec::new());

/// Calls `notify` after each loss of mapped pages, on a separate thread, until it returns false because there are no listeners. One call
/// may cover several losses.
pub fn on_loss(notify: impl Fn() -> bool + Send + 'static) {
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(notify));
}

/// Starts the thread, unless it runs. If the system lacks the resources, a loss is still detected at the next call, and the next check of a
/// mapping tries again.
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
        LISTENERS.lock().unwrap_or_else(PoisonError::into_inner).retain(|notify| notify());
    }
}

/// Wakes the thread. Also called by handlers.
pub fn wake() {
    wakeup::wake();
}

/// A pipe: POSIX permits writing to one from a signal handler.
#[cfg(unix)]
#[allow(unsafe_code)]
mod wakeup {
    use std::io::{ErrorKind, PipeReader, PipeWriter, Read, pipe};
    use std::os::fd::IntoRawFd;
    use std::sync::atomic::{AtomicI32, Ordering::SeqCst};
    use std::thread::Thread;

    /// The write end, used by handlers.
    static WRITER: AtomicI32 = AtomicI32::new(-1);

    pub struct Waiter(PipeReader);
    /// Once registered, `wake` reaches the other end.
    pub struct Waker(PipeWriter);

    impl Waiter {
        pub fn new() -> Option<(Self, Waker)> {
            let (reader, writer) = pipe().ok()?;
            // If the pipe is full, the thread is already awake; a handler must not block.
            rustix::io::ioctl_fionbio(&writer, true).ok()?;
            Some((Self(reader), Waker(writer)))
        }

        /// Waits until it is woken one or more times. Returns false if it never will be.
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
            // SAFETY: writes one byte of a constant to a pipe that is never closed.
            unsafe { libc::write(writer, c"!".as_ptr().cast(), 1) };
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_waiter_without_a_waker_does_not_wait() {
            let (mut waiter, waker) = Waiter::new().unwrap();
            rustix::io::write(&waker.0, b"!!").unwrap();
            assert!(waiter.wait());
            // A read error, and then the end of the data.
            rustix::io::ioctl_fionbio(&waiter.0, true).unwrap();
            assert!(!waiter.wait());
            drop(waker);
            assert!(!waiter.wait());
        }
    }
}

/// A flag and a wake-up that takes no lock and no memory (`WakeByAddressSingle`).
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

        /// Waits until it is woken one or more times.
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
            // For the thread that was waiting first.
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
