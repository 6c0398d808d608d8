//! The files that the parser of an index asked for.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

use super::{Request, Shards};
use crate::error::{Code, Error, Result};
use crate::limits;
use crate::sources::ReadAt;
use crate::sources::beside::{Beside, Folder, Neighbor};
use crate::sources::file::FileSource;
use crate::sources::files::Part;

/// Those of one index, in the order in which they were asked for.
pub struct Neighbors<'r> {
    /// `None` of an index in memory.
    folder: Option<Folder>,
    request: &'r Request,
    asked: RefCell<Asked>,
}

#[derive(Default)]
struct Asked {
    /// By their paths: their places among the parts.
    known: HashMap<Box<str>, usize>,
    parts: Vec<Part>,
}

impl<'r> Neighbors<'r> {
    /// Of the index at a path, or in memory.
    pub fn of(index: Option<&Path>, request: &'r Request) -> Self {
        Self { folder: index.map(Folder::of), request, asked: RefCell::default() }
    }

    /// What the index calls them, in the order of their numbers.
    pub fn into_names(self) -> Vec<String> {
        let mut names: Vec<_> = self.asked.into_inner().known.into_iter().collect();
        names.sort_unstable_by_key(|&(_, at)| at);
        names.into_iter().map(|(name, _)| name.into_string()).collect()
    }

    /// The files, in the order of their numbers from 1 on.
    pub fn into_parts(self) -> Vec<Part> {
        self.asked.into_inner().parts
    }

    fn look(&self, name: &str) -> Part {
        let (given, unread) = match &self.request.shards {
            Shards::At(paths) => (paths.get(name), false),
            Shards::Unread => (None, true),
            Shards::Beside => (None, false),
        };
        let found = match (given, &self.folder) {
            (Some(path), _) => Ok(path.clone()),
            (None, Some(folder)) => folder.find(name),
            (None, None) => {
                let message = format!(
                    "the data is in {name:?}, which cannot be found from memory: open the index by its path"
                );
                Err(Error::new(Code::Io, message))
            }
        };
        match found {
            Ok(path) if unread => Part::unread(Some(path), 0),
            Ok(path) => match FileSource::open(&path).and_then(|source| source.identity()) {
                Ok(identity) => Part::later(path, identity),
                Err(error) => {
                    let error = error.in_file(name, &path);
                    Part::refused(Some(path), error)
                }
            },
            Err(error) => Part::refused(None, error),
        }
    }
}

impl Beside for Neighbors<'_> {
    fn find(&self, path: &str) -> Result<Neighbor> {
        self.request.stop.check()?;
        let mut asked = self.asked.borrow_mut();
        let at = if let Some(&at) = asked.known.get(path) {
            at
        } else {
            let at = asked.parts.len();
            if at + 1 >= limits::FILES {
                return Err(Error::new(Code::Limit, format!("more than {} files", limits::FILES)));
            }
            asked.parts.push(self.look(path));
            asked.known.insert(path.into(), at);
            at
        };
        let part = asked.parts.get(at);
        Ok(Neighbor {
            file: u32::try_from(at + 1).unwrap_or(u32::MAX),
            length: part.filter(|part| part.is_known()).map(Part::length),
            problem: part.and_then(Part::problem).cloned(),
        })
    }

    fn open(&self, file: u32) -> Result<Box<dyn ReadAt>> {
        let asked = self.asked.borrow();
        let part = (file as usize).checked_sub(1).and_then(|at| asked.parts.get(at));
        let part = part.ok_or_else(|| Error::new(Code::Internal, format!("no file {file} was asked for")))?;
        Ok(Box::new(part.reopen()?))
    }
}
