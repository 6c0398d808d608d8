//! The store that files are uploaded to.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::target::exists;
use super::upload::{Upload, Uploads};
use super::warning::Warning;
use crate::error::Result;
use crate::work::Stop;

/// The store that a file is uploaded to.
#[derive(Clone)]
pub(super) struct Store {
    pub uploads: Arc<dyn Uploads>,
    pub stop: Stop,
}

/// A file whose bytes are uploaded: its path, and the upload to complete.
pub(super) type Sent = (PathBuf, Box<dyn Upload>);

impl Store {
    /// Completes uploads one after the other. If one fails, the previous ones are removed again, unless they may have replaced others.
    pub(super) fn complete(&self, sent: Vec<Sent>, overwrites: bool) -> Result<Vec<Warning>> {
        self.stop.check()?;
        let mut complete: Vec<PathBuf> = Vec::with_capacity(sent.len());
        for (target, upload) in sent {
            if let Err(error) = upload.complete() {
                if !overwrites {
                    for target in &complete {
                        // The first error is returned.
                        let _ = self.uploads.remove(target);
                    }
                }
                return Err(error);
            }
            complete.push(target);
        }
        Ok(Vec::new())
    }
}

/// Rejects an existing path, unless it may be overwritten.
pub fn check_free(uploads: &dyn Uploads, target: &Path, stop: &Stop) -> Result<()> {
    if !uploads.overwrites() && uploads.is_there(target, stop)? {
        return Err(exists(target));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use super::*;
    use crate::error::Code;
    use crate::sinks::AtomicFile;
    use crate::sinks::set::{self, Old};

    /// A store in memory: its files, and a log.
    #[derive(Default)]
    struct Memory {
        files: Mutex<BTreeMap<String, Vec<u8>>>,
        log: Mutex<Vec<String>>,
        overwrite: bool,
    }

    struct Sent {
        memory: Arc<Memory>,
        name: String,
        bytes: Vec<u8>,
    }

    struct Handle(Arc<Memory>);

    impl Uploads for Handle {
        fn overwrites(&self) -> bool {
            self.0.overwrite
        }

        fn begin(&self, path: &Path, _stop: &Stop) -> Result<Box<dyn Upload>> {
            let name = path.to_str().unwrap().to_owned();
            Ok(Box::new(Sent { memory: Arc::clone(&self.0), name, bytes: Vec::new() }))
        }

        fn is_there(&self, path: &Path, _stop: &Stop) -> Result<bool> {
            Ok(self.0.files.lock().unwrap().contains_key(path.to_str().unwrap()))
        }

        fn remove(&self, path: &Path) -> Result<()> {
            self.0.files.lock().unwrap().remove(path.to_str().unwrap());
            Ok(())
        }

        fn settle(&self) {}
    }

    impl Upload for Sent {
        fn expect(&mut self, _length: u64) {}

        fn write(&mut self, bytes: &[u8]) -> Result<()> {
            self.bytes.extend_from_slice(bytes);
            Ok(())
        }

        fn flush(&mut self) -> Result<()> {
            self.memory.log.lock().unwrap().push(format!("sent {}", self.name));
            Ok(())
        }

        fn complete(self: Box<Self>) -> Result<()> {
            let mut files = self.memory.files.lock().unwrap();
            if files.contains_key(&self.name) && !self.memory.overwrite {
                return Err(exists(Path::new(&self.name)));
            }
            self.memory.log.lock().unwrap().push(format!("put {}", self.name));
            files.insert(self.name.clone(), self.bytes.clone());
            Ok(())
        }
    }

    fn store(overwrite: bool) -> (Arc<Memory>, Arc<dyn Uploads>) {
        let memory = Arc::new(Memory { overwrite, ..Memory::default() });
        (Arc::clone(&memory), Arc::new(Handle(memory)))
    }

    fn file(uploads: &Arc<dyn Uploads>, name: &str) -> AtomicFile {
        let mut file = AtomicFile::for_upload(uploads, Path::new(name), Stop::never()).unwrap();
        file.write(name.as_bytes()).unwrap();
        file
    }

    fn names(memory: &Memory) -> Vec<String> {
        memory.files.lock().unwrap().keys().cloned().collect()
    }

    #[test]
    fn holes_are_uploaded_as_zeros() {
        let (memory, uploads) = store(false);
        let mut one = file(&uploads, "s3://b/a");
        one.skip(3 << 20).unwrap();
        one.write(b"end").unwrap();
        assert!(names(&memory).is_empty());
        one.commit().unwrap();
        let expected = [b"s3://b/a".to_vec(), vec![0; 3 << 20], b"end".to_vec()].concat();
        assert!(memory.files.lock().unwrap()["s3://b/a"] == expected);
        let taken = AtomicFile::for_upload(&uploads, Path::new("s3://b/a"), Stop::never());
        assert_eq!(taken.err().unwrap().code(), Code::Exists);
    }

    #[test]
    fn a_set_is_sent_before_it_appears_and_its_index_appears_last() {
        let (memory, uploads) = store(false);
        let put = |files: &[&str]| {
            let files = files.iter().map(|name| file(&uploads, name)).collect();
            set::put(files, file(&uploads, "index"), || Ok(Old::default()))
        };
        put(&["1", "2"]).unwrap();
        let expected = ["sent 1", "sent 2", "sent index", "put 1", "put 2", "put index"];
        assert_eq!(*memory.log.lock().unwrap(), expected);
        // Another file takes a name first: the previous files are removed again.
        uploads.remove(Path::new("index")).unwrap();
        uploads.remove(Path::new("1")).unwrap();
        let files = ["1", "3"].map(|name| file(&uploads, name)).into_iter().collect();
        memory.files.lock().unwrap().insert("3".to_owned(), Vec::new());
        let refused = set::put(files, file(&uploads, "index"), || Ok(Old::default()));
        assert_eq!(refused.unwrap_err().code(), Code::Exists);
        assert_eq!(names(&memory), ["2", "3"]);
    }

    #[test]
    fn an_aborted_upload_creates_no_file() {
        let (memory, uploads) = store(true);
        let stop = Stop::default();
        let mut one = AtomicFile::for_upload(&uploads, Path::new("a"), &stop).unwrap();
        one.write(b"a").unwrap();
        let other = one.sibling(Path::new("b")).unwrap();
        assert!(other.is_remote() && other.overwrites());
        stop.set();
        assert_eq!(other.commit().unwrap_err().code(), Code::Aborted);
        assert_eq!(one.commit().unwrap_err().code(), Code::Aborted);
        assert!(names(&memory).is_empty());
    }
}
