//! The files of one name space: each is opened when it is first read, and reopened only if its identity matches the time its index was
//! read.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::decoded::DecodedPieces;
use super::file::FileSource;
use super::filesystem::Filesystem;
use super::identity::Identity;
use super::io::Io;
use super::{DigestedFile, ReadAt, Sources};
use crate::codecs::digest::Digest;
use crate::error::{Code, Error, Result};
use crate::model::{self, Span};

/// One file of a name space.
pub struct Member {
    /// `None` if unknown.
    path: Option<PathBuf>,
    /// Its identity when it was inspected; `None` if it has stayed open since, or was not inspected.
    identity: Option<Identity>,
    length: u64,
    source: OnceLock<Arc<dyn ReadAt>>,
    /// Why it cannot be read.
    problem: Option<Error>,
    /// Its name in an index, and the index's digest of all its bytes.
    shard: Option<(Box<str>, Digest)>,
}

impl Member {
    /// Adds a file that stays open.
    pub fn open(path: &Path, source: Arc<dyn ReadAt>) -> Self {
        Self { path: Some(path.to_owned()), ..Self::of(source) }
    }

    /// Adds a source of any kind.
    pub fn of(source: Arc<dyn ReadAt>) -> Self {
        let length = source.length();
        Self { source: OnceLock::from(source), ..Self::unread(None, length) }
    }

    /// Adds one of many files, some of which may never be read: a local file is closed, and opened again when it is first read. Files of a
    /// remote `filesystem` stay open.
    pub fn one_of_many(path: &Path, source: Arc<dyn ReadAt>, filesystem: &dyn Filesystem) -> Result<Self> {
        match source.local().filter(|_| filesystem.is_local()) {
            Some(file) => Ok(Self::later(path.to_owned(), file.identity()?)),
            None => Ok(Self::open(path, source)),
        }
    }

    /// Adds a file that is opened when it is first read, if its identity still matches.
    pub fn later(path: PathBuf, identity: Identity) -> Self {
        Self { identity: Some(identity), ..Self::unread(Some(path), identity.length) }
    }

    /// Adds a file of `length` bytes, according to an index, that is never read.
    pub fn unread(path: Option<PathBuf>, length: u64) -> Self {
        Self { path, identity: None, length, source: OnceLock::new(), problem: None, shard: None }
    }

    /// Adds a file that an index names and that cannot be read: reads fail with `problem`.
    pub fn refused(path: Option<PathBuf>, problem: Error) -> Self {
        Self { problem: Some(problem), ..Self::unread(path, 0) }
    }

    /// Records that the file is a shard of a table.
    #[must_use]
    pub fn of_shard(mut self, shard: &model::Shard) -> Self {
        self.shard = Some((shard.name.clone(), shard.digest.clone()));
        self
    }

    /// Returns its name in an index.
    pub fn name(&self) -> Option<&str> {
        self.shard.as_ref().map(|(name, _)| &**name)
    }

    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns whether it was inspected and exists.
    pub fn is_known(&self) -> bool {
        self.identity.is_some() || self.source.get().is_some()
    }

    /// Returns why it cannot be read.
    pub fn problem(&self) -> Option<&Error> {
        self.problem.as_ref()
    }
}

/// The files of a name space, by number.
pub struct Files {
    members: Vec<Member>,
    /// Whether the files were closed. Locked while a file is opened, so that none is opened twice or after closing.
    closed: Mutex<bool>,
    io: OnceLock<Io>,
    decoded: DecodedPieces,
}

impl Files {
    /// A name space of one open file.
    pub fn lone(path: &Path, source: FileSource) -> Self {
        Self::new(vec![Member::open(path, Arc::new(source))])
    }

    /// The files by number.
    pub fn new(members: Vec<Member>) -> Self {
        Self { members, closed: Mutex::new(false), io: OnceLock::new(), decoded: DecodedPieces::default() }
    }

    /// Sets how the bytes of all files are read into memory; called before any read.
    pub fn set_io(&self, io: Io) {
        let _ = self.io.set(io);
        for source in self.members.iter().filter_map(|member| member.source.get()) {
            source.set_io(io);
        }
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.members.iter()
    }

    /// Returns the identity of each file when its index was read, or its current one if it stayed open. A file that was not inspected is
    /// identified by its length.
    pub fn identities(&self) -> Result<Vec<String>> {
        let identity = |member: &Member| match (member.identity, member.source.get()) {
            (Some(identity), _) => Ok(identity.to_string()),
            (None, Some(source)) => source.identity().map(|identity| identity.to_string()),
            (None, None) => Ok(member.length.to_string()),
        };
        self.members.iter().map(identity).collect()
    }

    /// Returns the total size of all files.
    pub fn total_length(&self) -> u64 {
        self.members.iter().fold(0, |total, member| total.saturating_add(member.length))
    }

    /// Returns the local file with a number, as [`Sources::source`] does; `None` if the source is not a local file.
    pub fn local(&self, number: u32) -> Result<Option<&FileSource>> {
        Ok(self.any(number)?.local())
    }

    /// Returns the local file that holds all of a range, at the same offsets; `None` if it is remote and not cached.
    pub fn copied(&self, span: Span) -> Result<Option<&FileSource>> {
        Ok(self.any(span.file)?.copied(span.offset, span.length))
    }

    /// Returns the locally available part of the files. Reads of it never wait for another machine.
    pub fn near(&self) -> Near<'_> {
        Near(self)
    }

    fn any(&self, number: u32) -> Result<&dyn ReadAt> {
        let member = self.members.get(number as usize);
        let member =
            member.ok_or_else(|| Error::new(Code::Internal, format!("there is no file {number}")))?;
        if let Some(source) = member.source.get() {
            return Ok(&**source);
        }
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if *closed {
            return Err(Error::new(Code::Closed, "the file is closed"));
        }
        if let Some(source) = member.source.get() {
            return Ok(&**source);
        }
        let source = member.reopen()?;
        source.set_io(self.io.get().copied().unwrap_or_default());
        Ok(&**member.source.get_or_init(|| source))
    }

    /// Returns whether some of the bytes are in no local file, so that reads wait for another machine or the caller's code.
    pub fn are_remote(&self) -> bool {
        let is_remote = |member: &Member| member.source.get().is_some_and(|source| source.is_remote());
        self.members.iter().any(is_remote)
    }

    /// Returns the local file or copy with a number, if it is already open.
    pub fn opened(&self, number: u32) -> Option<&FileSource> {
        self.members.get(number as usize)?.copy()
    }

    /// Returns the local files and copies opened so far.
    pub fn all_opened(&self) -> impl Iterator<Item = (&Path, &FileSource)> {
        self.members.iter().filter_map(|member| Some((member.path.as_deref()?, member.copy()?)))
    }

    /// Returns the first file that was truncated while it was mapped.
    pub fn lost(&self) -> Option<&Path> {
        self.all_opened().find_map(|(path, source)| source.is_lost().then_some(path))
    }

    /// Releases all mappings and decoded pieces. Positional reads still work for pending work.
    pub fn close(&self) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        for (_, source) in self.all_opened() {
            source.release_mapping();
        }
        self.decoded.close();
    }
}

impl Member {
    /// Returns the local file or copy, if it is already open.
    fn copy(&self) -> Option<&FileSource> {
        self.source.get()?.copy()
    }

    /// Returns its source, opening it if necessary. Fails with `ZT_IO` if its identity changed or it was not looked up.
    pub fn reopen(&self) -> Result<Arc<dyn ReadAt>> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        if let Some(source) = self.source.get() {
            return Ok(Arc::clone(source));
        }
        let (Some(path), Some(identity)) = (&self.path, self.identity) else {
            let name = self.name().map(str::to_owned);
            let path =
                || self.path().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
            let which = name.or_else(path).map_or_else(|| "its file".to_owned(), |name| format!("'{name}'"));
            let message =
                format!("{which} was not looked up because the index was opened with shards: 'none'");
            let hint = "; open it without that option to read or verify data";
            return Err(Error::new(Code::Io, message).hint("shards", hint));
        };
        Ok(Arc::new(FileSource::reopen(path, identity)?))
    }
}

/// Local files and copies: only cached ranges of a copy may be read, the rest are zeros.
#[derive(Clone, Copy)]
pub struct Near<'f>(&'f Files);

impl Sources for Near<'_> {
    fn source(&self, file: u32) -> Result<&dyn ReadAt> {
        let copy = self.0.any(file)?.copy();
        let message = "the file is not available locally";
        Ok(copy.ok_or_else(|| Error::new(Code::NotLocal, message))?)
    }

    fn decoded(&self) -> Option<&DecodedPieces> {
        self.0.decoded()
    }
}

impl Sources for Files {
    /// Opens the file if necessary. Fails with `ZT_IO` if it is no longer the one whose index was read.
    fn source(&self, file: u32) -> Result<&dyn ReadAt> {
        self.any(file)
    }

    fn decoded(&self) -> Option<&DecodedPieces> {
        Some(&self.decoded)
    }

    fn digested(&self) -> Vec<DigestedFile<'_>> {
        fn digested((file, member): (u32, &Member)) -> Option<DigestedFile<'_>> {
            let (name, digest) = member.shard.as_ref()?;
            let path = member.path.as_deref()?;
            Some(DigestedFile { file, name, path, length: member.length, digest })
        }
        (0..).zip(&self.members).filter_map(digested).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::Stop;

    fn written(name: &str, bytes: &[u8]) -> PathBuf {
        let path = std::env::temp_dir().join(format!("ztensor-files-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn with(path: &Path) -> Files {
        Files::new(vec![Member::later(path.to_owned(), Identity::of(&path.metadata().unwrap()))])
    }

    #[test]
    fn a_file_is_opened_when_first_read() {
        let path = written("first", b"0123456789");
        let files = with(&path);
        assert!(files.opened(0).is_none());
        assert_eq!(files.source(0).unwrap().read_vec(2, 3, Stop::never()).unwrap(), b"234");
        assert!(files.opened(0).is_some());
        assert_eq!(files.total_length(), 10);
        assert_eq!(files.source(1).err().unwrap().code(), Code::Internal);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_replaced_file_is_refused() {
        let path = written("replaced", b"0123456789");
        let files = with(&path);
        let other = written("replacing", b"9876543210");
        std::fs::rename(&other, &path).unwrap();
        let error = files.source(0).err().unwrap();
        assert_eq!((error.code(), error.path()), (Code::Io, Some(&*path)));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(files.source(0).err().unwrap().code(), Code::Io);
    }

    #[test]
    fn nothing_is_opened_after_the_end() {
        let path = written("end", b"0123456789");
        let files = with(&path);
        files.close();
        assert_eq!(files.source(0).err().unwrap().code(), Code::Closed);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn each_file_is_identified_by_its_original_state() {
        let path = written("identities", b"0123456789");
        let identity = Identity::of(&path.metadata().unwrap());
        let shard = model::Shard {
            name: "base".into(),
            size: 10,
            digest: Digest::parse("xxh3:0000000000000000").unwrap(),
        };
        let members = vec![
            Member::open(&path, Arc::new(FileSource::open(&path).unwrap())),
            Member::later(path.clone(), identity).of_shard(&shard),
            Member::unread(None, 77),
        ];
        assert_eq!(members.iter().map(Member::name).collect::<Vec<_>>(), [None, Some("base"), None]);
        assert_eq!(members.iter().map(Member::length).collect::<Vec<_>>(), [10, 10, 77]);
        let files = Files::new(members);
        assert_eq!((files.len(), files.is_empty(), files.iter().count()), (3, false, 3));
        let text = identity.to_string();
        assert!(text.starts_with("10-") && text.split('-').count() == 5, "{text}");
        assert_eq!(files.identities().unwrap(), [text.clone(), text, "77".to_owned()]);
        files.set_io(Io::Read);
        assert!(!files.local(0).unwrap().unwrap().maps(), "it was open already");
        assert!(!files.local(1).unwrap().unwrap().maps(), "it was opened later");
        assert!(Files::new(Vec::new()).is_empty());
        std::fs::remove_file(path).unwrap();
    }
}
