//! What happens when a mapped file is cut short: the system raises SIGBUS at the first touch of a page that is gone,
//! and a process without a handler dies of it.
//!
//! Every mapping of ours stands in a [`table`] that a signal handler can read. The handler ([`signal`]) puts zero
//! pages where the file was lost, marks the mapping and wakes a thread ([`watch`]), which tells whoever listens.
//! Signals that are not about our mappings go where they went before.
//!
//! Windows refuses to shorten a mapped file. There a page can still fail to come from a network drive, and that
//! exception is not caught.

#[cfg(unix)]
mod signal;
#[cfg(unix)]
mod table;
#[cfg(unix)]
mod watch;

#[cfg(unix)]
pub use signal::arm;
#[cfg(unix)]
pub use table::{Entry, State, losses, state};
#[cfg(unix)]
pub use watch::{on_loss, wake};

#[cfg(not(unix))]
pub use uncaught::{Entry, State, arm, losses, on_loss, state, wake};

#[cfg(not(unix))]
mod uncaught {
    use std::sync::atomic::AtomicU32;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum State {
        Gone,
        Whole,
        Lost,
    }

    /// A mapping's place in the table; here there is none.
    #[derive(Debug)]
    pub struct Entry;

    impl Entry {
        pub fn new(_start: usize, _length: usize) -> Option<Self> {
            Some(Self)
        }

        pub fn token(&self) -> u64 {
            0
        }

        pub fn is_lost(&self) -> bool {
            false
        }

        pub fn lose(&self) {}
    }

    pub fn arm() {}

    pub fn losses() -> &'static AtomicU32 {
        static NONE: AtomicU32 = AtomicU32::new(0);
        &NONE
    }

    pub fn on_loss(_tell: impl Fn() -> bool + Send + 'static) {}

    pub fn wake() {}

    pub fn state(_token: u64) -> State {
        State::Whole
    }
}
