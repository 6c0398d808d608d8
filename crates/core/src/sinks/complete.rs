//! Complete files of a set that wait for the others. All but the first few are closed, so that a set may have more files than a process
//! may open.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use super::temporary::Closed;
use super::{AtomicFile, Place, leftovers};
use crate::error::{Code, Error, Result};

/// Files that stay open: unnamed where the system supports it, so that they disappear with the process.
const OPEN: usize = 16;

/// Complete files that do not have their final names yet. They are removed when dropped.
#[derive(Default)]
pub struct CompleteFiles {
    /// The first file guards the closed ones: see `leftovers`.
    files: Vec<CompleteFile>,
}

enum CompleteFile {
    Open(AtomicFile),
    Closed(Closed, Box<Place>),
}

impl CompleteFiles {
    pub fn len(&self) -> usize {
        self.files.len()
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub fn add(&mut self, file: AtomicFile) {
        let file = match self.guard() {
            Some(guard) => CompleteFile::Open(file).close(&leftovers::aside(&guard)),
            None => CompleteFile::Open(file),
        };
        self.files.push(file);
    }

    /// Returns the name that protects closed files; `None` while files stay open, and where an open file cannot get a name.
    fn guard(&mut self) -> Option<PathBuf> {
        let full = self.files.len() >= OPEN;
        match self.files.first_mut()? {
            CompleteFile::Open(first) if full => first.temporary.name().ok(),
            CompleteFile::Open(_) | CompleteFile::Closed(..) => None,
        }
    }

    /// Calls `work` with a file, which is open meanwhile.
    pub fn with<T>(&mut self, index: usize, work: impl FnOnce(&mut AtomicFile) -> Result<T>) -> Result<T> {
        match self.files.get_mut(index) {
            Some(CompleteFile::Open(file)) => work(file),
            Some(CompleteFile::Closed(closed, place)) => {
                let temporary =
                    closed.open().map_err(|error| Error::io("open", &error).file(&place.target))?;
                let mut file = AtomicFile { temporary, place: std::mem::take(place) };
                let done = work(&mut file);
                *closed = file.temporary.closed();
                *place = file.place;
                done
            }
            None => Err(Error::new(Code::Internal, "a set has no such file")),
        }
    }

    /// Calls `work` with each file and its position, in order.
    pub fn for_each(&mut self, mut work: impl FnMut(usize, &mut AtomicFile) -> Result<()>) -> Result<()> {
        (0..self.len()).try_for_each(|index| self.with(index, |file| work(index, file)))
    }

    /// Removes the first file. It guards the others until it gets its name.
    pub fn take_first(&mut self) -> Option<AtomicFile> {
        match self.files.first() {
            Some(CompleteFile::Open(_)) => self.files.remove(0).into_open(),
            Some(CompleteFile::Closed(..)) | None => None,
        }
    }
}

impl FromIterator<AtomicFile> for CompleteFiles {
    fn from_iter<I: IntoIterator<Item = AtomicFile>>(files: I) -> Self {
        let mut complete = Self::default();
        files.into_iter().for_each(|file| complete.add(file));
        complete
    }
}

impl CompleteFile {
    /// Closes the file under a temporary name, unless it cannot get one.
    fn close(self, path: &Path) -> Self {
        match self {
            Self::Open(AtomicFile { temporary, place }) => match temporary.close(path) {
                Ok(closed) => Self::Closed(closed, place),
                Err(temporary) => Self::Open(AtomicFile { temporary, place }),
            },
            closed @ Self::Closed(..) => closed,
        }
    }

    fn into_open(self) -> Option<AtomicFile> {
        match self {
            Self::Open(file) => Some(file),
            Self::Closed(..) => None,
        }
    }
}
