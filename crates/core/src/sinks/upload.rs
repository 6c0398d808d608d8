//! Where files go that are not put on this machine: objects of a store, which take bytes from front to back.
#![forbid(unsafe_code)]

use std::path::Path;

use crate::error::Result;
use crate::work::Stop;

/// A store that takes files, by paths that are the texts of their URLs.
pub trait Uploads: Send + Sync {
    /// Whether a file that is there is replaced.
    fn overwrites(&self) -> bool;

    /// Begins a file. Nothing is sent yet.
    fn begin(&self, path: &Path, stop: &Stop) -> Result<Box<dyn Upload>>;

    /// Whether there is a file. A store that does not tell says no: it refuses the upload at the end.
    fn is_there(&self, path: &Path, stop: &Stop) -> Result<bool>;

    /// Removes a file that [`Upload::complete`] has put there.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Waits until uploads that were dropped are gone from the store, for a minute at most.
    fn settle(&self);
}

/// A file on its way to a store. Nobody sees it there before it is complete; dropped before, it is given up.
pub trait Upload: Send {
    /// Says how many bytes are to come in all, before the first of them. Only a hint.
    fn expect(&mut self, length: u64);

    /// Takes the next bytes. Waits where enough of them are under way.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Sends all that was written, and waits until the store has it.
    fn flush(&mut self) -> Result<()>;

    /// Has the store put the file under its name. `ZT_EXISTS` where somebody has taken that, unless it may be replaced.
    fn complete(self: Box<Self>) -> Result<()>;
}
