//! Follows all links from the root group: datasets become tensors named by their paths, attributes become attributes of the file.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use ciborium::Value;
use ztensor_core::error::{Code, Error, NAME, Result, short};
use ztensor_core::layouts;
use ztensor_core::model::{Attributes, Builder, Layout, NewTensor};

use super::attribute::Left;
use super::dataset::{self, Dataset, Tensor};
use super::group::{Group, Link, Target};
use super::reader::{Object, Problems, Reader, message};
use super::storage::Read;
use super::storage::bad;
use crate::damage::{self, warning_of};
use crate::limits::{HDF5_DEPTH, HDF5_LINKS};
use crate::names::Names;

/// An object and the errors found while reading it.
struct Node {
    kind: ObjectKind,
    /// Taken when they are reported: an object with many names reports them once, and many objects may have many.
    problems: Cell<Wrong>,
}

/// Errors found in an object.
#[derive(Default)]
struct Wrong {
    /// Errors in its header and, if it is a group, its links.
    links: Problems,
    /// All other errors.
    others: Problems,
}

enum ObjectKind {
    Group(Group),
    Dataset(Dataset),
    /// A named datatype.
    Type,
    /// The error that prevents reading it.
    Lost(Error),
}

/// Bytes charged for an object that is listed again under another name: nested groups could multiply a file of 1 MB into millions of names.
const AGAIN: u64 = 1024;

pub struct Walk<'r, 's> {
    reader: &'r Reader<'s>,
    builder: &'r mut Builder,
    source: Read<'s>,
    root: u64,
    nodes: HashMap<u64, Rc<Node>>,
    left: Left,
    names: Names,
    /// The attributes of the file so far, and their keys.
    attributes: Vec<(Value, Value)>,
    keys: HashMap<String, u64>,
}

impl<'r, 's> Walk<'r, 's> {
    pub fn new(reader: &'r Reader<'s>, builder: &'r mut Builder, source: Read<'s>, root: u64) -> Self {
        let left = Left(builder.limits().made_values().into());
        let (nodes, names, attributes, keys) = Default::default();
        Self { reader, builder, source, root, nodes, left, names, attributes, keys }
    }

    /// Lists everything reachable from the root; `more` are further attributes of the file.
    pub fn run(mut self, more: Vec<(Value, Value)>) -> Result<()> {
        for (key, value) in more {
            if let Value::Text(key) = key {
                self.attribute(&key, value);
            }
        }
        self.enter(self.root, "", &mut Vec::new())?;
        self.builder.set_attributes(Attributes::from(self.attributes));
        Ok(())
    }

    /// Returns the object at an address. `path` is the prefix of its group's attributes.
    fn node(&mut self, address: u64, path: &str) -> Result<Rc<Node>> {
        if let Some(node) = self.nodes.get(&address) {
            return Ok(Rc::clone(node));
        }
        let mut problems = Wrong::default();
        let kind = match self.read(address, path, &mut problems) {
            Err(error) if self.reader.bytes.is_of_item(&error) => ObjectKind::Lost(error),
            kind => kind?,
        };
        let node = Rc::new(Node { kind, problems: Cell::new(problems) });
        self.nodes.insert(address, Rc::clone(&node));
        Ok(node)
    }

    fn read(&mut self, address: u64, path: &str, wrong: &mut Wrong) -> Result<ObjectKind> {
        let mut object = self.reader.object(address)?;
        let own = std::mem::take(&mut object.problems);
        let Wrong { links, others: problems } = wrong;
        if Group::is(&object) {
            self.attributes_of(&object, path, problems)?;
            let group = Group::read(self.reader, &object, links)?;
            links.append(own);
            return Ok(ObjectKind::Group(group));
        }
        problems.append(own);
        if dataset::is(&object) {
            let (reader, builder, source) = (self.reader, &mut *self.builder, self.source);
            let read = dataset::read(reader, builder, &object, source, &mut self.left, problems);
            return read.map(ObjectKind::Dataset);
        }
        if object.get(message::DATATYPE).is_some() {
            self.attributes_of(&object, path, problems)?;
            return Ok(ObjectKind::Type);
        }
        Err(problems.take_first().unwrap_or_else(|| {
            let message = "the object is neither a dataset nor a group: its header is empty or damaged";
            bad(message).at(self.reader.bytes.offset(address))
        }))
    }

    /// Reports an error in the object at a path or in the named tensor. An unknown version of an index or an object counts as damage: most
    /// have only one version.
    fn report(&mut self, path: &str, error: &Error, tensor: Option<&str>) {
        let message = if tensor.is_some() { error.message().to_owned() } else { at(path, error.message()) };
        if error.code() == Code::UnsupportedEncoding {
            self.builder.warn("ZT_WARN_SKIPPED", message, tensor, None);
        } else {
            self.builder.damaged(warning_of(error.code()), error, message, tensor);
        }
    }

    /// Reports that the object at a path is not listed: it may be unsupported or exceed a limit.
    fn report_lost(&mut self, path: &str, error: &Error) {
        if error.code() == Code::Limit {
            self.builder.warn("ZT_WARN_SKIPPED", at(path, error.message()), None, None);
        } else {
            self.report(path, error, None);
        }
    }

    fn attributes_of(&mut self, object: &Object, path: &str, problems: &mut Problems) -> Result<()> {
        let mut warnings = Vec::new();
        let (left, found) = (&mut self.left, &mut warnings);
        for (key, value) in dataset::attributes(self.reader, object, left, found, problems)? {
            if let Value::Text(key) = key {
                self.attribute(&join(path, &key), value);
            }
        }
        for (code, message) in warnings {
            self.builder.warn(code, at(path, &message), None, None);
        }
        Ok(())
    }

    /// Adds an attribute of the file. A duplicate key gets a numeric suffix.
    fn attribute(&mut self, key: &str, value: Value) {
        let mut unique = key.to_owned();
        while let Some(times) = self.keys.get_mut(&unique) {
            *times += 1;
            unique = format!("{unique}~{times}");
        }
        self.keys.insert(unique.clone(), 1);
        if unique != key {
            let message = format!(
                "an attribute and a dataset have the path {key:?}: the later one is the attribute {unique:?}"
            );
            self.builder.warn("ZT_WARN_RENAMED", message, None, None);
        }
        self.attributes.push((Value::Text(unique), value));
    }

    /// Lists the object at an address under a path. `inside`: the groups on the path to it.
    fn enter(&mut self, address: u64, path: &str, inside: &mut Vec<u64>) -> Result<()> {
        if self.nodes.contains_key(&address) {
            self.reader.bytes.charge(AGAIN)?;
        }
        let node = self.node(address, path)?;
        let wrong = node.problems.take();
        // Without its links nothing can be read.
        if path.is_empty() && inside.is_empty() {
            let broken = match &node.kind {
                ObjectKind::Lost(error) => Some(error),
                ObjectKind::Group(group) if group.links.is_empty() => wrong.links.first(),
                _ => None,
            };
            if let Some(error) = broken {
                return Err(error.clone());
            }
        }
        let tensor = matches!(&node.kind, ObjectKind::Dataset(Dataset::Tensor(_))).then(|| self.unique(path));
        let all = wrong.others.iter().chain(wrong.links.iter());
        all.for_each(|error| self.report(path, error, tensor.as_deref()));
        match &node.kind {
            ObjectKind::Type => Ok(()),
            ObjectKind::Lost(error) => {
                self.report_lost(path, error);
                Ok(())
            }
            ObjectKind::Dataset(Dataset::Plain(value)) => {
                self.attribute(path, value.clone());
                Ok(())
            }
            ObjectKind::Dataset(Dataset::Tensor(found)) => self.add(found, tensor.as_deref().unwrap_or(path)),
            ObjectKind::Group(_) if inside.contains(&address) => Ok(()),
            ObjectKind::Group(_) if inside.len() >= HDF5_DEPTH => {
                Err(Error::new(Code::Limit, format!("groups are nested more than {HDF5_DEPTH} deep")))
            }
            ObjectKind::Group(group) => {
                inside.push(address);
                for link in &group.links {
                    let path = join(path, &link.name);
                    // Charged for every link, each time its group is visited.
                    self.reader.bytes.charge(64 + path.len() as u64 + link.target.length())?;
                    match self.follow(address, link, 0) {
                        Ok(Some(target)) => self.enter(target, &path, inside)?,
                        Ok(None) => {
                            self.builder.warn(
                                "ZT_WARN_SKIPPED",
                                format!("{path}: {}", lost(link)),
                                None,
                                None,
                            );
                        }
                        Err(error) => return Err(error),
                    }
                }
                inside.pop();
                Ok(())
            }
        }
    }

    /// Returns the address that a link of a group refers to, or `None` if it is not in this file.
    fn follow(&mut self, group: u64, link: &Link, links: u32) -> Result<Option<u64>> {
        match &link.target {
            Target::Hard(address) => Ok(Some(*address)),
            Target::Soft(path) if links < HDF5_LINKS => self.resolve(group, path, links + 1),
            Target::Soft(_) | Target::External { .. } | Target::Unknown => Ok(None),
        }
    }

    fn resolve(&mut self, group: u64, path: &str, links: u32) -> Result<Option<u64>> {
        // A soft link to soft links is resolved for each of them: its path is charged each time, and one byte takes some 5 ns.
        self.reader.bytes.charge((path.len() as u64).saturating_mul(4))?;
        let mut at = if path.starts_with('/') { self.root } else { group };
        for name in path.split('/').filter(|name| !matches!(*name, "" | ".")) {
            self.reader.bytes.charge(64)?;
            let node = self.node(at, path)?;
            let ObjectKind::Group(group) = &node.kind else { return Ok(None) };
            let Some(link) = group.find(name) else { return Ok(None) };
            let Some(next) = self.follow(at, link, links)? else { return Ok(None) };
            at = next;
        }
        Ok(Some(at))
    }

    /// Returns the name of the tensor at a path. Links of a group have unique names without slashes, so two links to one path mean that one
    /// is damaged.
    fn unique(&mut self, path: &str) -> String {
        let name = self.names.unique(self.builder, path);
        if name != path {
            let message = format!("two links have the path {:?}", short(path, NAME));
            let error = bad(message.clone()).rule("unique names");
            self.builder.damaged(warning_of(error.code()), &error, message, Some(&name));
        }
        name
    }

    fn add(&mut self, tensor: &Tensor, name: &str) -> Result<()> {
        for (code, message) in &tensor.warnings {
            self.builder.warn(code, message.clone(), Some(name), None);
        }
        let mut components = self.builder.no_components();
        components.push(tensor.component.clone());
        let mut new = NewTensor {
            name,
            shape: &tensor.shape,
            layout: Layout::Dense,
            dtype: tensor.component.dtype,
            components,
            attributes: tensor.attributes.clone(),
        };
        let added = layouts::check(&mut new).and_then(|()| self.builder.add_tensor(new));
        damage::recover(self.builder, name, added).map(drop)
    }
}

/// Prefixes a message with the path of an object.
fn at(path: &str, message: &str) -> String {
    if path.is_empty() { message.to_owned() } else { format!("{path}: {message}") }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

/// Returns why a link cannot be followed.
fn lost(link: &Link) -> String {
    match &link.target {
        Target::External { file, path } => {
            format!("it is {path:?} of the file {file:?}, which is never opened")
        }
        Target::Soft(path) => format!("its target {path:?} does not exist"),
        _ => "it is a link of an unknown type".to_owned(),
    }
}
