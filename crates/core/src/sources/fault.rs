//! Handles pages of a mapped file that cannot be read: the file was truncated, or a drive failed. The system raises SIGBUS, or an exception
//! on Windows, on the first access to the page, which kills a process without a handler.
//!
//! Every mapping is in a [`table`] that a handler can read. The handler ([`signal`], on Windows `exception`) replaces the lost range with
//! zero pages, marks the mapping and wakes a thread ([`watch`]), which notifies listeners. Faults outside our mappings are passed to the
//! previous handler.
//!
//! Windows does not permit truncating a mapped file. A page can still fail to load from a drive or over the network.

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
pub(super) use exception::{page_size, release, reserve};
pub use table::{Entry, State, losses, state};
pub use watch::{on_loss, wake};

/// Installs the handler and starts the notification thread, unless they exist. Returns false if the system rejects the handler.
pub fn arm() -> bool {
    let armed = handler::arm();
    if armed {
        watch::start();
    }
    armed
}
