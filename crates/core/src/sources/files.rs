//! The files that one name space lies in: each opened when it is first read and kept, and found again by what it was
//! when its index was read.
#![forbid(unsafe_code)]

use std::fmt;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::file::FileSource;
use super::io::Io;
use super::{DigestedFile, ReadAt, Sources};
use crate::codecs::digest::Digest;
use crate::error::{Code, Error, Result};
use crate::model::{self, Span};

/// What tells a file from another one, or from an altered one, of the same name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    pub length: u64,
    /// Device and inode where there are any; elsewhere the time of making stands for them.
    place: (u64, u64),
    /// Seconds and nanoseconds.
    modified: (i64, i64),
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { length, place: (device, inode), modified: (seconds, nanoseconds) } = self;
        write!(f, "{length}-{device}-{inode}-{seconds}-{nanoseconds}")
    }
}

impl Identity {
    /// Of bytes that nobody can change.
    pub fn of_length(length: u64) -> Self {
        Self::of_version(length, 0)
    }

    /// Of a source that has another `version` with each change: a number that is made of an entity tag, or of a date.
    pub fn of_version(length: u64, version: u64) -> Self {
        Self { length, place: (0, version), modified: (0, 0) }
    }

    #[cfg(unix)]
    pub fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self {
            length: metadata.len(),
            place: (metadata.dev(), metadata.ino()),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }

    #[cfg(not(unix))]
    pub fn of(metadata: &Metadata) -> Self {
        let since = |time: std::io::Result<std::time::SystemTime>| {
            let time = time.ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
            time.unwrap_or_default()
        };
        let (made, modified) = (since(metadata.created()), since(metadata.modified()));
        Self {
            length: metadata.len(),
            place: (made.as_secs(), u64::from(made.subsec_nanos())),
            modified: (modified.as_secs().cast_signed(), i64::from(modified.subsec_nanos())),
        }
    }
}

/// One file of a name space.
pub struct Member {
    /// `None` where it is not known.
    path: Option<PathBuf>,
    /// What it was when it was looked at; `None` for one that stayed open since, or was not looked at.
    identity: Option<Identity>,
    length: u64,
    source: OnceLock<Arc<dyn ReadAt>>,
    /// Why it cannot be read.
    problem: Option<Error>,
    /// What an index calls it, and the digest that it gives of all its bytes.
    shard: Option<(Box<str>, Digest)>,
}

impl Member {
    /// A file that stays open.
    pub fn open(path: &Path, source: Arc<dyn ReadAt>) -> Self {
        Self { path: Some(path.to_owned()), ..Self::of(source) }
    }

    /// A source of any kind.
    pub fn of(source: Arc<dyn ReadAt>) -> Self {
        let length = source.length();
        Self { source: OnceLock::from(source), ..Self::unread(None, length) }
    }

    /// A file of which some may be left unread: one of this machine is closed, and opened again when it is first read.
    pub fn one_of_many(path: &Path, source: Arc<dyn ReadAt>) -> Result<Self> {
        match source.local() {
            Some(file) => Ok(Self::later(path.to_owned(), file.identity()?)),
            None => Ok(Self::open(path, source)),
        }
    }

    /// A file that is opened when it is first read, if it is the same one still.
    pub fn later(path: PathBuf, identity: Identity) -> Self {
        Self { identity: Some(identity), ..Self::unread(Some(path), identity.length) }
    }

    /// A file of `length` bytes, as an index says, that was not looked at and is not read.
    pub fn unread(path: Option<PathBuf>, length: u64) -> Self {
        Self { path, identity: None, length, source: OnceLock::new(), problem: None, shard: None }
    }

    /// A file that an index names and that cannot be read: whoever reads it gets `problem`.
    pub fn refused(path: Option<PathBuf>, problem: Error) -> Self {
        Self { problem: Some(problem), ..Self::unread(path, 0) }
    }

    /// The same, known as a shard of a table.
    #[must_use]
    pub fn of_shard(mut self, shard: &model::Shard) -> Self {
        self.shard = Some((shard.name.clone(), shard.digest.clone()));
        self
    }

    /// What an index calls it.
    pub fn name(&self) -> Option<&str> {
        self.shard.as_ref().map(|(name, _)| &**name)
    }

    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// Whether it was looked at, and is there.
    pub fn is_known(&self) -> bool {
        self.identity.is_some() || self.source.get().is_some()
    }

    /// Why it cannot be read.
    pub fn problem(&self) -> Option<&Error> {
        self.problem.as_ref()
    }
}

/// The files of a name space, by their numbers.
pub struct Files {
    members: Vec<Member>,
    /// Whether the end has come. Held while a file is opened, so that none is opened twice or after the end.
    closed: Mutex<bool>,
    io: OnceLock<Io>,
}

impl Files {
    /// A name space that one open file holds.
    pub fn lone(path: &Path, source: FileSource) -> Self {
        Self::new(vec![Member::open(path, Arc::new(source))])
    }

    /// The files in the order of their numbers.
    pub fn new(members: Vec<Member>) -> Self {
        Self { members, closed: Mutex::new(false), io: OnceLock::new() }
    }

    /// Says how the bytes of all files come into memory, before any do.
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

    /// What each was when its index was read, or is now where it stayed open since. One that was not looked at is its
    /// length.
    pub fn identities(&self) -> Result<Vec<String>> {
        let identity = |member: &Member| match (member.identity, member.source.get()) {
            (Some(identity), _) => Ok(identity.to_string()),
            (None, Some(source)) => source.identity().map(|identity| identity.to_string()),
            (None, None) => Ok(member.length.to_string()),
        };
        self.members.iter().map(identity).collect()
    }

    /// Bytes of all of them.
    pub fn total_length(&self) -> u64 {
        self.members.iter().fold(0, |total, member| total.saturating_add(member.length))
    }

    /// The local file of a number, as [`Sources::source`] gives it; `None` of a source that is none.
    pub fn local(&self, number: u32) -> Result<Option<&FileSource>> {
        Ok(self.any(number)?.local())
    }

    /// The local file that holds all of a range, at the same offsets: `None` of one that is elsewhere and was not kept.
    pub fn copied(&self, span: Span) -> Result<Option<&FileSource>> {
        Ok(self.any(span.file)?.copied(span.offset, span.length))
    }

    /// What is of this machine of the files. Reads of it wait for no other.
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

    /// Whether some of the bytes are in no file of this machine, so that reading waits for somebody else.
    pub fn are_remote(&self) -> bool {
        let is_remote = |member: &Member| member.source.get().is_some_and(|source| source.is_remote());
        self.members.iter().any(is_remote)
    }

    /// The local file of a number, or the local copy, if it was opened already.
    pub fn opened(&self, number: u32) -> Option<&FileSource> {
        self.members.get(number as usize)?.copy()
    }

    /// The local files, and the local copies, that were opened so far.
    pub fn all_opened(&self) -> impl Iterator<Item = (&Path, &FileSource)> {
        self.members.iter().filter_map(|member| Some((member.path.as_deref()?, member.copy()?)))
    }

    /// The first file that was cut short while it was mapped.
    pub fn lost(&self) -> Option<&Path> {
        self.all_opened().find_map(|(path, source)| source.is_lost().then_some(path))
    }

    /// Lets go of all mappings. Positional reads still work for work under way.
    pub fn close(&self) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        for (_, source) in self.all_opened() {
            source.release_mapping();
        }
    }
}

impl Member {
    /// The local file, or the local copy, if it was opened already.
    fn copy(&self) -> Option<&FileSource> {
        self.source.get()?.copy()
    }

    /// Its source: opened, if it is not open. Fails with `ZT_IO` where it is not what it was, and where it was not looked for.
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
            let message = format!(
                "{which} was not looked for: the index was opened alone (shards: 'none'); open it without that option to read or verify data"
            );
            return Err(Error::new(Code::Io, message));
        };
        let source = FileSource::open(path).map_err(|error| error.file(path))?;
        if source.identity()? != identity {
            let message = "the file was replaced or changed since its index was read; open it again";
            return Err(Error::new(Code::Io, format!("'{}': {message}", path.display())).file(path));
        }
        Ok(Arc::new(source))
    }
}

/// Local files, and local copies: of a copy only what was kept may be read, the rest are zeros.
#[derive(Clone, Copy)]
pub struct Near<'f>(&'f Files);

impl Sources for Near<'_> {
    fn source(&self, file: u32) -> Result<&dyn ReadAt> {
        let copy = self.0.any(file)?.copy();
        let message = "the file is not on this machine";
        Ok(copy.ok_or_else(|| Error::new(Code::NotLocal, message))?)
    }
}

impl Sources for Files {
    /// Opened now if it was not yet. Fails with `ZT_IO` where it is no longer the one whose index was read.
    fn source(&self, file: u32) -> Result<&dyn ReadAt> {
        self.any(file)
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
    fn each_file_is_told_from_others_by_what_it_was() {
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
        let told = identity.to_string();
        assert!(told.starts_with("10-") && told.split('-').count() == 5, "{told}");
        assert_eq!(files.identities().unwrap(), [told.clone(), told, "77".to_owned()]);
        files.set_io(Io::Read);
        assert!(!files.local(0).unwrap().unwrap().maps(), "it was open already");
        assert!(!files.local(1).unwrap().unwrap().maps(), "it was opened later");
        assert!(Files::new(Vec::new()).is_empty());
        std::fs::remove_file(path).unwrap();
    }
}
