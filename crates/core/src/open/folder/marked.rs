//! Companion files of a format: markers, by which a folder identifies its main file, and data files that have an index.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::names::{extension, list};
use crate::error::{Code, Error, Result};
use crate::formats::{Companions, Confidence, Format, Formats, Probe, bad_magic};
use crate::limits::MARKER_BYTES;
use crate::open::Request;
use crate::paths;
use crate::sources::siblings::{Folder, Links};

/// Returns the target of a marker in a folder, given all its names and those with tensor file extensions. A missing target is an error,
/// unless the folder has tensor files of other formats.
pub fn look(folder: &Path, names: &[String], tensors: &[&str], request: &Request) -> Result<Option<PathBuf>> {
    let formats = request.formats;
    for companions in formats.companions() {
        let is_own = |name: &&&str| {
            let format = formats.iter().find(|format| format.name == companions.format);
            let ending = extension(name, formats);
            format.zip(ending).is_some_and(|(format, ending)| format.endings.contains(&ending))
        };
        let is_alone = tensors.iter().filter(is_own).count() == tensors.len();
        for marker in companions.markers {
            if names.binary_search_by(|name| name.as_str().cmp(marker.name)).is_err() {
                continue;
            }
            let path = paths::join(folder, marker.name);
            let Some(leads_to) = first_bytes(&path, request).and_then(|bytes| (marker.leads_to)(&bytes))
            else {
                continue;
            };
            match found(&path, &leads_to, request) {
                Ok(path) => return Ok(Some(path)),
                Err(error) if is_alone => {
                    let message = format!("{:?} leads to {leads_to:?}: {}", marker.name, error.message());
                    let others = if tensors.is_empty() {
                        String::new()
                    } else {
                        format!(". The folder has {}", list(tensors.iter().copied()))
                    };
                    return Err(error.reworded(format!("{message}{others}")).file(&path));
                }
                Err(_) => {}
            }
        }
    }
    Ok(None)
}

/// Of files that come in pairs, retains the index of each, and none that merely has such a name.
pub fn pair(names: &[String], tensors: &mut Vec<&str>, formats: Formats) {
    for companions in formats.pairs() {
        let format = formats.iter().find(|format| format.name == companions.format);
        let endings = format.map_or(&[][..], |format| format.endings);
        let is_index = |name: &str| extension(name, formats).is_some_and(|ending| endings.contains(&ending));
        if formats.wanted().is_some_and(|wanted| wanted.name != companions.format) {
            tensors.retain(|name| !is_index(name));
            continue;
        }
        let index_of =
            |name: &str| (companions.index_of)(name).filter(|index| names.binary_search(index).is_ok());
        let indexes: HashSet<String> = names.iter().filter_map(|name| index_of(name)).collect();
        tensors
            .retain(|name| if is_index(name) { indexes.contains(*name) } else { index_of(name).is_none() });
    }
}

/// Returns the first bytes of a marker; `None` if it cannot be read.
fn first_bytes(path: &Path, request: &Request) -> Option<Vec<u8>> {
    let source = request.filesystem.open(path, &request.stop).ok()?;
    source.read_vec(0, source.length().min(MARKER_BYTES), &request.stop).ok()
}

/// Returns the path of the file that a marker names, if it exists.
fn found(marker: &Path, name: &str, request: &Request) -> Result<PathBuf> {
    let links = if request.follow_links { Links::Anywhere } else { Links::Inside };
    let folder = Folder::of(marker, &*request.filesystem);
    folder.open(name, links, &*request.filesystem, &request.stop).map(|(path, _)| path)
}

/// Returns an error that states which index to open instead of a data file.
pub fn index_of(path: &Path, request: &Request) -> Option<Error> {
    let formats = request.formats;
    let name = path.file_name()?.to_str()?;
    let (format, index) = formats.companions().find_map(|companions: &Companions| {
        let format = formats.iter().find(|format| format.name == companions.format)?;
        let index = (companions.index_of)(name)?;
        (!companions.in_pairs || is_of(format, &paths::with_file_name(path, &index), request))
            .then_some((format, index))
    })?;
    let is_there = request.filesystem.is_file(&paths::with_file_name(path, &index));
    let title = format.title;
    let help = if is_there {
        format!("open its index {index:?} in the same folder")
    } else {
        format!("its index {index:?}, which must be opened instead, is missing in the same folder")
    };
    let message = format!("{}: {help}", bad_magic(&format!("it has data of {title} and no index")).message());
    Some(Error::new(Code::BadMagic, message).at(0))
}

/// Returns whether a file exists that a format accepts.
fn is_of(format: &Format, path: &Path, request: &Request) -> bool {
    let Ok(source) = request.filesystem.open(path, &request.stop) else { return false };
    (format.detect)(&Probe::new(&*source, &request.stop)).is_ok_and(|confidence| confidence != Confidence::No)
}
