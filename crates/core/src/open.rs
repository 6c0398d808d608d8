//! Opens several files as one name space: sharded checkpoints, folders, lists of files. Opens sources and joins the catalogs that the
//! parsers of `formats` read; all problems of a set are reported in one error.
#![forbid(unsafe_code)]

pub mod detect;
mod folder;
mod foreign;
pub mod memory;
mod neighbors;
mod request;
mod table;
pub mod weight_map;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ciborium::Value;

use crate::error::{Code, Error, Result};
use crate::formats::safetensors_parse;
use crate::limits;
use crate::model::{
    Attributes, Builder, Catalog, Component, Container, Data, Entries, Joining, Label, Layout, NewTensor,
    SetPart, Tensor, Warning, join, set,
};
use crate::paths;
use crate::sources::Costs;
use crate::sources::files::{Files, Member};
use crate::sources::siblings::Folder;
use crate::syntax::values::visit_entries;
use crate::work;
use folder::FolderContent;
use request::wanted_by;
pub use request::{Lookup, Request};
use weight_map::WeightMap;

/// An opened name space and its files.
pub struct Opened {
    pub catalog: Catalog,
    pub files: Files,
}

/// Opens a tensor file (with the shards of its table), the index of a sharded checkpoint (a name that ends in `.json`), or a folder.
pub fn open(path: &Path, request: &Request) -> Result<Opened> {
    if folder::is_index(path) {
        return open_index(path, request);
    }
    let source = match request.filesystem.open(path, &request.stop) {
        Ok(source) => source,
        Err(error) if error.code() == Code::Io && request.filesystem.is_folder(path, &request.stop) => {
            return open_folder(path, request);
        }
        Err(error) => return Err(error),
    };
    let parsed = detect::parse_with_siblings(&*source, Some(path), request);
    let (mut catalog, siblings) = parsed.map_err(|error| folder::without_index(error, path, request))?;
    // Formats whose files state that they belong to a set have already found the other files.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if siblings.is_empty()
        && catalog.part.is_none()
        && let Some(others) = folder::gaps(std::iter::once(&*name), request.formats)
    {
        let help = if catalog.is_table {
            "Each has other rows of the same columns: open each by itself"
        } else {
            "Open the folder, the index or a list to read all of them"
        };
        let message = format!("{}. {help}", others.message());
        warn(&mut catalog, "ZT_WARN_INCOMPLETE_SET", message);
    }
    let mut parts = vec![Member::open(path, source)];
    parts.extend(siblings);
    parts.extend(table::resolve(path, &catalog, request)?);
    Ok(Opened { catalog, files: Files::new(parts) })
}

/// Opens several tensor files as one, with tensors in file order.
pub fn open_all(paths: &[PathBuf], request: &Request) -> Result<Opened> {
    if let [path] = paths {
        return open(path, request);
    }
    let names: Vec<String> = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let location =
        |(path, name): (&PathBuf, &String)| FileLocation { name: name.clone(), path: Ok(path.clone()) };
    let locations: Vec<_> = paths.iter().zip(&names).map(location).collect();
    let (parts, mut problems) = read_all(&locations, request)?;
    let set = Set::of(&parts.catalogs);
    let (mut catalog, doubles) = join(parts.catalogs, &request.limits, |_, _| false)?;
    problems.extend(doubles);
    if problems.is_empty() {
        problems.extend(set.check(&mut catalog, request).err());
    }
    let file_name = |path: &PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
    let file_names: Vec<_> = paths.iter().filter_map(file_name).collect();
    let gaps = folder::gaps(file_names.iter().map(|name| &**name), request.formats);
    match gaps.filter(|_| problems.is_empty() && !set.is_part_of_set()) {
        Some(gaps) if matches!(request.lookup, Lookup::Unread) => {
            warn(&mut catalog, "ZT_WARN_INCOMPLETE_SET", gaps.message().to_owned());
        }
        Some(gaps) => problems.push(gaps),
        None => {}
    }
    match Error::all(&format!("{} files as one", paths.len()), problems) {
        Some(error) => Err(error),
        None => Ok(Opened { catalog, files: Files::new(parts.files) }),
    }
}

fn open_folder(folder: &Path, request: &Request) -> Result<Opened> {
    let found = folder::look(folder, request);
    let warning = request.filesystem.list_warning(folder);
    let found = found.map_err(|error| match &warning {
        Some(warning) => error.reworded(format!("{} ({warning})", error.message())),
        None => error,
    })?;
    let (found, beside) = found;
    let mut opened = match found {
        FolderContent::Index(path) => open_index(&path, request),
        FolderContent::Set(paths) => open_all(&paths, request),
        FolderContent::One(path) => open(&path, request).map_err(|error| in_folder(error, &path)),
    }?;
    if let Some(warning) = warning {
        warn(&mut opened.catalog, "ZT_WARN_INCOMPLETE_SET", warning);
    }
    if let Some(beside) = beside {
        warn(&mut opened.catalog, "ZT_WARN_SKIPPED", beside);
    }
    Ok(opened)
}

/// Names the only tensor file of a folder in its error, unless the error has the path of a file.
fn in_folder(error: Error, path: &Path) -> Error {
    match (error.path(), path.file_name()) {
        (None, Some(name)) => error.in_file(&name.to_string_lossy(), path),
        _ => error,
    }
}

/// Returns the names of the files that an index or a shard table refers to; none if the path has neither.
pub fn names(path: &Path, request: &Request) -> Result<Vec<String>> {
    if folder::is_index(path) {
        return Ok(read_index(path, request)?.files);
    }
    if request.filesystem.is_folder(path, &request.stop) {
        return match folder::look(path, request)?.0 {
            FolderContent::Index(path) => names(&path, request),
            FolderContent::One(path) => names(&path, request).map_err(|error| in_folder(error, &path)),
            FolderContent::Set(_) => Ok(Vec::new()),
        };
    }
    // Only the names are needed, not the files.
    let request = &Request { lookup: Lookup::Unread, ..request.clone() };
    let named = detect::names(&*request.filesystem.open(path, &request.stop)?, path, request);
    named.map_err(|error| folder::without_index(error, path, request))
}

/// Reads the index of a sharded checkpoint.
pub fn read_index(path: &Path, request: &Request) -> Result<WeightMap> {
    let (source, bounds) = (request.filesystem.open(path, &request.stop)?, &request.limits);
    let limit = bounds.max_index_bytes.unwrap_or(limits::SAFETENSORS_INDEX_BYTES);
    if source.length() > limit {
        let message = format!("the index is {} bytes, more than the {limit} allowed", source.length());
        return Err(Error::new(Code::Limit, message).option("maxIndexBytes"));
    }
    let bytes = source.read_vec(0, source.length(), &request.stop)?;
    weight_map::parse(&bytes, bounds).map_err(|error| {
        let foreign = foreign::describe_no_index(&bytes).filter(|_| error.code() == Code::BadIndex);
        foreign.map_or(error.clone(), |is| error.reworded(format!("{}: {is}", error.message())))
    })
}

fn open_index(path: &Path, request: &Request) -> Result<Opened> {
    let map = read_index(path, request)?;
    let folder = Folder::of(path, &*request.filesystem);
    let location = |name: &String| {
        let given = if let Lookup::At(paths) = &request.lookup { paths.get(name) } else { None };
        FileLocation {
            name: name.clone(),
            path: given.map_or_else(|| folder.find(name), |path| Ok(path.clone())),
        }
    };
    let locations: Vec<FileLocation> = map.files.iter().map(location).collect();
    let (parts, mut problems) = read_all(&locations, request)?;
    let missing =
        if matches!(request.lookup, Lookup::Unread) { missing(&map, &parts, &mut problems) } else { None };
    if parts.catalogs.is_empty()
        && problems.is_empty()
        && let Some(missing) = missing
    {
        let mut opened = unread(map, path, request)?;
        warn(&mut opened.catalog, "ZT_WARN_INCOMPLETE_SET", missing);
        return Ok(opened);
    }
    let has_unread = !problems.is_empty();
    let index = path.file_name().unwrap_or_default().to_string_lossy();
    let Compared { unlisted, stale } = compare(&map, &parts.catalogs, &mut problems);
    let is_stale = |file: &str, tensor: &str| stale.get(tensor).is_some_and(|meant| *meant != file);
    let (mut catalog, doubles) = join(parts.catalogs, &request.limits, is_stale)?;
    problems.extend(doubles);
    if let Some(error) = Error::all(&format!("the shards do not make up the index '{index}'"), problems) {
        let alone = has_unread && error.causes().is_empty();
        return Err(if alone { wanted_by(error, "index", &index) } else { error }.of_set());
    }
    catalog.attributes = with_fallback(map.attributes, catalog.attributes);
    if let Some(missing) = missing {
        warn(&mut catalog, "ZT_WARN_INCOMPLETE_SET", missing);
        return Ok(Opened { catalog, files: Files::new(parts.files) });
    }
    if let Some(gaps) = folder::gaps(map.files.iter().map(|name| &**name), request.formats) {
        warn(&mut catalog, "ZT_WARN_INCOMPLETE_SET", gaps.message().to_owned());
    }
    if !map.repeated.is_empty() {
        let keys: Vec<String> = map.repeated.iter().map(|key| format!("{key:?}")).collect();
        let message = format!("the index has keys twice, the last of which count: {}", keys.join(", "));
        warn(&mut catalog, "ZT_WARN_REPEATED_KEY", message);
    }
    let total = catalog.iter().flat_map(Tensor::components).map(Component::stored_length);
    let total = total.fold(0, u64::saturating_add);
    if let Some(stated) = map.total_size.filter(|&stated| stated != total && unlisted == 0) {
        let message =
            format!("the index states a total of {stated} bytes (total_size), but the tensors have {total}");
        warn(&mut catalog, "ZT_WARN_TOTAL_SIZE", message);
    }
    if unlisted > 0 {
        let message = format!(
            "{unlisted} tensors of the files are not in the index's weight_map; they can be read as well"
        );
        warn(&mut catalog, "ZT_WARN_UNLISTED", message);
    }
    Ok(Opened { catalog, files: Files::new(parts.files) })
}

/// Returns the attributes of an index, extended by those of its files.
fn with_fallback(own: Entries, of_files: Attributes) -> Attributes {
    if own.is_empty() {
        return of_files;
    }
    Attributes::lazy(move |to| {
        visit_entries(&own, to)?;
        let others = of_files.values()?.into_owned();
        let has = |key: &Value| own.iter().any(|(other, _)| other == key);
        visit_entries(&others.into_iter().filter(|(key, _)| !has(key)).collect::<Entries>(), to)
    })
}

fn warn(catalog: &mut Catalog, code: &'static str, message: String) {
    catalog.warnings.push(Warning { code, message, tensor: None, component: None, path: None, damage: None });
}

/// The sets that files state that they belong to.
struct Set {
    parts: Vec<(String, SetPart)>,
    /// Number of tensors in these files.
    tensors: u64,
    /// A file that does not state a set.
    other: Option<String>,
}

impl Set {
    fn of(catalogs: &[Joining]) -> Self {
        let mut set = Self { parts: Vec::new(), tensors: 0, other: None };
        for Joining { name, catalog, .. } in catalogs {
            if let Some(part) = catalog.part {
                set.parts.push((name.clone(), part));
                set.tensors += catalog.len() as u64;
            } else {
                set.other.get_or_insert_with(|| name.clone());
            }
        }
        set
    }

    /// Returns whether any file states that it belongs to a set.
    fn is_part_of_set(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Rejects files that contradict each other, and incomplete sets, which only yield a warning if the caller asked for these files only.
    fn check(&self, catalog: &mut Catalog, request: &Request) -> Result<()> {
        let parts: Vec<_> = self.parts.iter().map(|(name, part)| (&**name, *part)).collect();
        let Err(error) = set::check(&parts, self.tensors) else { return Ok(()) };
        match &self.other {
            Some(other) if error.code() == Code::Incomplete => {
                let message = format!("{other:?} does not belong to the set of the other files");
                Err(Error::new(Code::BadIndex, message))
            }
            None if error.code() == Code::Incomplete && matches!(request.lookup, Lookup::Unread) => {
                warn(catalog, "ZT_WARN_INCOMPLETE_SET", error.message().to_owned());
                Ok(())
            }
            _ => Err(error),
        }
    }
}

/// The location of one of several files.
struct FileLocation {
    /// Its name in messages.
    name: String,
    path: Result<PathBuf>,
}

/// The catalogs and files that were read.
struct Parts {
    catalogs: Vec<Joining>,
    files: Vec<Member>,
}

/// Reads the indexes of files, several at once. Each file is closed again, because only use determines how many stay open. Also returns the
/// errors of files that cannot be read.
fn read_all(locations: &[FileLocation], request: &Request) -> Result<(Parts, Vec<Error>)> {
    if locations.len() > limits::FILES {
        return Err(Error::new(
            Code::Limit,
            format!("{} files, more than {}", locations.len(), limits::FILES),
        ));
    }
    let read: Vec<OnceLock<Result<One>>> = locations.iter().map(|_| OnceLock::new()).collect();
    // A remote file waits for its server rather than for a core.
    let threads = if request.filesystem.is_local() { work::cores() } else { Costs::LOCAL.in_flight };
    work::for_each_on(threads, locations.len(), |at| {
        if let (Some(location), Some(cell)) = (locations.get(at), read.get(at)) {
            let one =
                |path: &PathBuf| read_one(path, request).map_err(|error| error.in_file(&location.name, path));
            let _ = cell.set(location.path.as_ref().map_err(Error::clone).and_then(one));
        }
    });
    let (mut parts, mut problems) = (Parts { catalogs: Vec::new(), files: Vec::new() }, Vec::new());
    for (FileLocation { name, .. }, cell) in locations.iter().zip(read) {
        match cell.into_inner() {
            Some(Ok((catalog, files))) => {
                let first_file = u32::try_from(parts.files.len()).unwrap_or(u32::MAX);
                parts.catalogs.push(Joining { catalog, name: name.clone(), first_file });
                parts.files.extend(files);
            }
            Some(Err(error)) => problems.push(error),
            None => problems.push(Error::new(Code::Internal, format!("'{name}': the file was not read"))),
        }
    }
    // If canceled, each file reports it: once is enough.
    request.stop.check()?;
    Ok((parts, problems))
}

/// The result of reading one file: its catalog, and the files with its components.
type One = (Catalog, Vec<Member>);

fn read_one(path: &Path, request: &Request) -> Result<One> {
    request.stop.check()?;
    let source = request.filesystem.open(path, &request.stop)?;
    // Record its identity before the index is read, so that later changes are detected.
    let member = Member::one_of_many(path, Arc::clone(&source), &*request.filesystem)?;
    let parsed = detect::parse_listed(&*source, path, request);
    let (catalog, siblings) = parsed.map_err(|error| folder::without_index(error, path, request))?;
    let mut parts = vec![member];
    parts.extend(siblings);
    parts.extend(table::resolve(path, &catalog, request)?);
    Ok((catalog, parts))
}

/// Removes the problems of absent files, and returns a message that names the files.
fn missing(map: &WeightMap, parts: &Parts, problems: &mut Vec<Error>) -> Option<String> {
    let all = problems.len();
    problems.retain(|problem| !problem.is_absent());
    let present: HashSet<&str> = parts.catalogs.iter().map(|part| &*part.name).collect();
    let names: Vec<&str> =
        map.files.iter().map(|name| &**name).filter(|name| !present.contains(name)).collect();
    (problems.len() < all).then(|| {
        format!(
            "{} of the {} files of the index are missing, and their tensors with them: {}",
            names.len(),
            map.files.len(),
            folder::list(names.into_iter())
        )
    })
}

/// Differences between an index and its files that are not errors.
struct Compared<'m> {
    /// Tensors that the index does not list.
    unlisted: u64,
    /// Tensors left over from an earlier save that another file also has: the file that the index names.
    stale: HashMap<&'m str, &'m str>,
}

/// Compares an index with the content of its files.
fn compare<'m>(map: &'m WeightMap, catalogs: &[Joining], problems: &mut Vec<Error>) -> Compared<'m> {
    let by_name: HashMap<&str, &Catalog> = catalogs.iter().map(|part| (&*part.name, &part.catalog)).collect();
    let held = |&(tensor, file): &(&str, &str)| {
        by_name.get(file).is_none_or(|catalog| catalog.find(tensor).is_some())
    };
    let named = map.tensors.iter();
    let named = named.filter_map(|(tensor, file)| Some((&**tensor, &**map.files.get(*file as usize)?)));
    let listed: HashMap<&str, &str> = named.clone().collect();
    // A file that could not be read is already reported.
    let missing: Vec<_> = named.filter(|pair| !held(pair)).collect();
    let mut holders = HashMap::new();
    if !missing.is_empty() {
        for part in catalogs {
            holders.extend(part.catalog.iter().map(|tensor| (tensor.name(), &*part.name)));
        }
    }
    for (tensor, file) in missing {
        let message = match holders.get(tensor) {
            Some(holder) => format!("the index lists it in {file:?}, but it is in {holder:?}"),
            None => format!("the index lists it in {file:?}, which does not contain it"),
        };
        problems.push(Error::new(Code::BadIndex, message).tensor(tensor).rule("index.json: weight_map"));
    }
    let mut groups: HashMap<&str, bool> = map.groups.iter().map(|group| (&**group, false)).collect();
    let mut compared = Compared { unlisted: 0, stale: HashMap::new() };
    for part in catalogs {
        for tensor in part.catalog.iter() {
            let meant = listed.get_key_value(tensor.name());
            if let Some((&tensor, &file)) = meant.filter(|(_, file)| **file != part.name) {
                compared.stale.insert(tensor, file);
            }
            let group = tensor.name().rsplit_once('/').and_then(|(group, _)| groups.get_mut(group));
            if let Some(has_tensors) = group {
                *has_tensors = true;
            } else if meant.is_none() {
                compared.unlisted += 1;
            }
        }
    }
    let is_whole = catalogs.len() == map.files.len();
    if problems.is_empty() && is_whole {
        for group in map.groups.iter().filter(|group| groups.get(&***group) == Some(&false)) {
            let message = format!("the index lists tensors in {group:?}, but its files have none there");
            problems.push(Error::new(Code::BadIndex, message).rule("index.json: weight_map"));
        }
    }
    compared
}

/// Opens only the names of an index: dtypes, shapes and locations are unknown without reading the files.
fn unread(map: WeightMap, path: &Path, request: &Request) -> Result<Opened> {
    let ending = map.files.first().and_then(|name| name.rsplit_once('.')).map_or("", |(_, ending)| ending);
    let format = request.formats.iter().find(|format| format.endings.contains(&ending));
    let container = format.map_or(safetensors_parse::CONTAINER, |format| Container::named(format.name));
    let mut builder = Builder::new(container, &request.limits);
    builder.set_attributes(map.attributes.into());
    let unread = builder.intern("unread");
    for (name, file) in &map.tensors {
        let data = Component::new(Label::DATA, None, Data::Unread { file: *file });
        builder.add_tensor(NewTensor {
            name,
            shape: &[0],
            layout: Layout::from_label(unread),
            dtype: None,
            components: vec![data],
            attributes: None,
        })?;
    }
    let files =
        map.files.iter().map(|name| Member::unread(Some(paths::with_file_name(path, name)), 0)).collect();
    Ok(Opened { catalog: builder.finish(), files: Files::new(files) })
}
