//! The files requested by the parser of an index.
#![forbid(unsafe_code)]

use crate::arrange::Arrange;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::request::{Lookup, Request};
use crate::error::{Code, Error, Result};
use crate::limits;
use crate::sources::ReadAt;
use crate::sources::files::Member;
use crate::sources::siblings::{Folder, Links, Neighbor, Siblings};

/// The files of one index, in request order.
pub struct Neighbors<'r> {
    /// `None` for an index in memory.
    folder: Option<Folder>,
    /// Whether the other files of its set were opened with it.
    listed: bool,
    request: &'r Request,
    asked: RefCell<Requested>,
}

#[derive(Default)]
struct Requested {
    /// Index into the members, by path.
    known: HashMap<Box<str>, usize>,
    members: Vec<Member>,
}

impl<'r> Neighbors<'r> {
    /// For the index at a path, or in memory.
    pub fn of(index: Option<&Path>, request: &'r Request) -> Self {
        Self {
            folder: index.map(|index| Folder::of(index, &*request.filesystem)),
            listed: false,
            request,
            asked: RefCell::default(),
        }
    }

    /// For an index that was opened with others: it must not search for them by name.
    #[must_use]
    pub fn listed(self) -> Self {
        Self { listed: true, ..self }
    }

    /// Returns their names in the index, by number.
    pub fn into_names(self) -> Vec<String> {
        let mut names: Vec<_> = self.asked.into_inner().known.into_iter().collect();
        names.arrange_by_key(|&(_, at)| at);
        names.into_iter().map(|(name, _)| name.into_string()).collect()
    }

    /// Returns the files by number, from 1 on.
    pub fn into_members(self) -> Vec<Member> {
        self.asked.into_inner().members
    }

    fn look(&self, name: &str, links: Links) -> Member {
        let (given, unread) = match &self.request.lookup {
            Lookup::At(paths) => (paths.get(name), false),
            Lookup::Unread => (None, true),
            Lookup::Siblings => (None, false),
        };
        let (filesystem, stop) = (&*self.request.filesystem, &self.request.stop);
        let links = if self.request.follow_links { Links::Anywhere } else { links };
        let opened = match (given, &self.folder) {
            (Some(path), _) => filesystem.open(path, stop).map(|source| (path.clone(), source)),
            (None, None) if unread => return Member::unread(None, 0),
            (None, Some(folder)) if unread => {
                return match folder.find(name) {
                    Ok(path) => Member::unread(Some(path), 0),
                    Err(error) => Member::refused(None, error),
                };
            }
            (None, Some(folder)) => folder.open(name, links, filesystem, stop),
            (None, None) => {
                let message = format!(
                    "the data is in {name:?}, which cannot be located for a file in memory: open the index by its path"
                );
                Err(Error::new(Code::Io, message))
            }
        };
        let member = opened.and_then(|(path, source)| Member::one_of_many(&path, source, filesystem));
        member.unwrap_or_else(|error| {
            let path = given.cloned().or_else(|| self.folder.as_ref()?.find(name).ok());
            let error = match (&path, error.code()) {
                (Some(path), Code::Io) => error.in_file(name, path),
                _ => error,
            };
            Member::refused(path, error)
        })
    }
}

impl Siblings for Neighbors<'_> {
    fn name(&self) -> Option<&str> {
        self.own_name().filter(|_| !self.listed)
    }

    fn own_name(&self) -> Option<&str> {
        self.folder.as_ref()?.index_name()
    }

    fn find(&self, path: &str, links: Links) -> Result<Neighbor> {
        self.request.stop.check()?;
        let mut asked = self.asked.borrow_mut();
        let at = if let Some(&at) = asked.known.get(path) {
            at
        } else {
            let at = asked.members.len();
            if at + 1 >= limits::FILES {
                return Err(Error::new(Code::Limit, format!("more than {} files", limits::FILES)));
            }
            asked.members.push(self.look(path, links));
            asked.known.insert(path.into(), at);
            at
        };
        let member = asked.members.get(at);
        Ok(Neighbor {
            file: u32::try_from(at + 1).unwrap_or(u32::MAX),
            length: member.filter(|member| member.is_known()).map(Member::length),
            problem: member.and_then(Member::problem).cloned(),
        })
    }

    fn open(&self, file: u32) -> Result<Arc<dyn ReadAt>> {
        let asked = self.asked.borrow();
        let member = (file as usize).checked_sub(1).and_then(|at| asked.members.get(at));
        let member =
            member.ok_or_else(|| Error::new(Code::Internal, format!("the file {file} was not requested")))?;
        member.reopen()
    }
}
