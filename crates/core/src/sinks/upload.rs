//! Upload targets: objects of a store, which are written sequentially.
#![forbid(unsafe_code)]

use std::path::Path;

use crate::error::Result;
use crate::work::Stop;

/// A store that accepts files, by paths that are their URLs.
pub trait Uploads: Send + Sync {
    /// Returns whether existing files are replaced.
    fn overwrites(&self) -> bool;

    /// Begins a file. Nothing is sent yet.
    fn begin(&self, path: &Path, stop: &Stop) -> Result<Box<dyn Upload>>;

    /// Returns whether a file exists. A store that does not report this returns false and rejects the upload at the end.
    fn is_there(&self, path: &Path, stop: &Stop) -> Result<bool>;

    /// Removes a file that [`Upload::complete`] has created.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Waits until dropped uploads are removed from the store, at most for a minute.
    fn settle(&self);
}

/// An upload in progress. It is not visible before it is completed; dropping it aborts it.
pub trait Upload: Send {
    /// Announces the total number of bytes before the first of them. Only a hint.
    fn expect(&mut self, length: u64);

    /// Adds the next bytes. Waits if enough of them are in flight.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Sends everything written, and waits until the store has it.
    fn flush(&mut self) -> Result<()>;

    /// Completes the upload under its name. Fails with `ZT_EXISTS` if that exists, unless it may be replaced.
    fn complete(self: Box<Self>) -> Result<()>;
}
