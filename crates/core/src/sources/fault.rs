//! What happens when a page of a mapped file cannot be had: a file that is cut short, a drive that fails. The system raises
//! SIGBUS, on Windows an exception, at the first touch of the page, and a process without a handler dies of it.
//!
//! Every mapping of ours stands in a [`table`] that a handler can read. The handler ([`signal`], on Windows `exception`)
//! puts zero pages where the file was lost, marks the mapping and wakes a thread ([`watch`]), which tells whoever listens.
//! What is not about our mappings goes where it went before.
//!
//! Windows refuses to shorten a mapped file. A page can still fail to come from a drive, or over the network.

#[cfg(windows)]
mod exception;
#[cfg(unix)]
mod signal;
mod table;
mod watch;

#[cfg(windows)]
use exception as handler;
#[cfg(unix)]
use signal as handler;

#[cfg(windows)]
pub(super) use exception::{release, reserve};
pub use table::{Entry, State, losses, state};
pub use watch::{on_loss, wake};

/// Puts the handler and the thread that tells of losses in place, unless they are there. False where the system refuses
/// the handler.
pub fn arm() -> bool {
    let armed = handler::arm();
    if armed {
        watch::start();
    }
    armed
}
