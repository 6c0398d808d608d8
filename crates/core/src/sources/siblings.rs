//! Sibling files of an index: how a parser requests them, and the check that a path named by a file does not lead elsewhere.
#![forbid(unsafe_code)]

use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::ReadAt;
use super::file::FileSource;
use super::filesystem::Filesystem;
use crate::error::{Code, Error, Result};
use crate::paths;
use crate::work::Stop;

/// Where a link may lead that replaces a file named by an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Links {
    /// Not out of the folder: its bytes would be used as elements without validation.
    Inside,
    /// Anywhere, such as into a store with a folder for each file: the content identifies itself, and is rejected if it does not match.
    Anywhere,
}

/// The files that an index may name, provided by the opener of the index.
pub trait Siblings {
    /// Returns the name of the index, if it is known and no other file of its set was opened with it.
    fn name(&self) -> Option<&str> {
        None
    }

    /// Returns the name of the index, if it is known.
    fn own_name(&self) -> Option<&str> {
        self.name()
    }

    /// Assigns the file at a relative path a number in the name space of the index; the same path gets the same number. A missing file is
    /// an error only when its data is read. `path` separates folders with '/'.
    ///
    /// Fails with `ZT_LIMIT` for more files than a name space may have, and with `ZT_ABORTED`.
    fn find(&self, path: &str, links: Links) -> Result<Neighbor>;

    /// Returns the bytes of a file that was found, for a parser that has to read it. Fails with [`Neighbor::problem`], and with `ZT_IO` if
    /// the file changed meanwhile.
    fn open(&self, file: u32) -> Result<Arc<dyn ReadAt>>;
}

/// A sibling file of an index.
#[derive(Clone, Debug)]
pub struct Neighbor {
    /// The number for [`Component::file`](crate::model::Component::file) of data in it.
    pub file: u32,
    /// Its size; `None` if it cannot be read, or was not looked up because the caller wants only the index.
    pub length: Option<u64>,
    /// Why it cannot be read: `ZT_OUT_OF_BOUNDS` for a path that leads out of the folder, `ZT_IO` for a missing file.
    pub problem: Option<Error>,
}

/// The folder of an index.
pub struct Folder {
    path: PathBuf,
    index: PathBuf,
    /// Whether links may lead out of it.
    has_links: bool,
    /// The resolved folder, and the resolved folder of the index, which a link in it may lead to.
    real: OnceLock<Vec<PathBuf>>,
}

impl Folder {
    /// Returns the folder that contains the file at `index`.
    pub fn of(index: &Path, filesystem: &dyn Filesystem) -> Self {
        Self {
            path: index.parent().unwrap_or(Path::new("")).to_owned(),
            index: index.to_owned(),
            has_links: filesystem.is_local(),
            real: OnceLock::new(),
        }
    }

    /// Returns the name of the index.
    pub fn index_name(&self) -> Option<&str> {
        self.index.file_name()?.to_str()
    }

    /// Returns the path of the file that the index calls `name`: a relative path that stays in the folder. Fails with `ZT_OUT_OF_BOUNDS`
    /// for any other. Links are not checked, and the file need not exist.
    pub fn find(&self, name: &str) -> Result<PathBuf> {
        let relative = relative(name)?;
        // URL parsers drop control characters, and callers' code may treat a backslash as a separator.
        let is_odd = |byte: u8| byte == b'\\' || byte.is_ascii_control();
        if !self.has_links && name.bytes().any(is_odd) {
            return Err(leads_elsewhere(name));
        }
        // A URL, or a name that the caller's code knows.
        Ok(if self.has_links {
            self.path.join(relative)
        } else {
            paths::join_with_slashes(&self.path, &relative)
        })
    }

    /// Opens a file that was [found](Self::find). Fails with `ZT_OUT_OF_BOUNDS` if a link leads out of the folder without permission, and
    /// with `ZT_IO` if the file does not exist.
    ///
    /// Download caches link the index and the files that it names to one blob store, so a link may always lead to the folder that the index
    /// is linked to. The checked path itself is opened without following links, so a link created in between has no effect.
    pub fn open(
        &self,
        name: &str,
        links: Links,
        filesystem: &dyn Filesystem,
        stop: &Stop,
    ) -> Result<(PathBuf, Arc<dyn ReadAt>)> {
        let path = self.find(name)?;
        if !self.has_links || links == Links::Anywhere {
            return filesystem.open(&path, stop).map(|source| (path, source));
        }
        let target = path.canonicalize().map_err(|error| Error::io("open", &error).file(&path))?;
        self.check(name, &path, &target)?;
        let source = FileSource::open_without_links(&target).map_err(|error| error.file(&path))?;
        Ok((path, Arc::new(source)))
    }

    /// Rejects a link that leads out of the folder.
    fn check(&self, name: &str, path: &Path, target: &Path) -> Result<()> {
        let real = self.real.get_or_init(|| {
            let index = self.index.canonicalize().ok();
            let index = index.as_deref().and_then(Path::parent).map(Path::to_owned);
            let here = if self.path.as_os_str().is_empty() { Path::new(".") } else { &self.path };
            here.canonicalize().into_iter().chain(index).collect()
        });
        if real.iter().any(|folder| target.starts_with(folder)) {
            return Ok(());
        }
        let message =
            format!("the file names {name:?}, which links to '{}' outside its folder", target.display());
        let error = Error::new(Code::OutOfBounds, message).file(path);
        let error = error.hint("followLinks", "; to read it, set the option followLinks");
        Err(error.hint("shards", ", or let the option shards give its path"))
    }
}

/// Returns a path named by a file, if it stays in the file's folder. `..` removes only a preceding component, so that no link is followed
/// upwards.
fn relative(name: &str) -> Result<PathBuf> {
    let path = Path::new(name);
    let mut found = PathBuf::new();
    // On Windows a colon denotes a drive or a stream of a file.
    let mut good = !(name.contains('\0') || cfg!(windows) && name.contains(':'));
    for component in path.components() {
        match component {
            Component::Normal(part) => found.push(part),
            Component::CurDir => {}
            Component::ParentDir => good &= found.pop(),
            Component::RootDir | Component::Prefix(_) => good = false,
        }
    }
    if good && !found.as_os_str().is_empty() { Ok(found) } else { Err(leads_elsewhere(name)) }
}

fn leads_elsewhere(name: &str) -> Error {
    let message = format!(
        "the file names {name:?}, which is not a relative path inside its folder: other files are not opened"
    );
    Error::new(Code::OutOfBounds, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::filesystem::LocalFiles;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("ztensor-siblings-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("inside/sub")).unwrap();
        std::fs::write(folder.join("inside/w"), b"w").unwrap();
        std::fs::write(folder.join("inside/sub/w"), b"w").unwrap();
        std::fs::write(folder.join("outside"), b"secret").unwrap();
        folder
    }

    #[test]
    fn paths_are_resolved_inside_the_folder() {
        let root = folder("down");
        let here = Folder::of(&root.join("inside/index"), &LocalFiles);
        for (name, expected) in [
            ("w", "w"),
            ("./w", "w"),
            ("sub/w", "sub/w"),
            ("sub//./w", "sub/w"),
            ("no", "no"),
            ("sub/../w", "w"),
            ("a/b/../../sub/w", "sub/w"),
        ] {
            assert_eq!(here.find(name).unwrap(), root.join("inside").join(expected), "{name}");
        }
        let absolute = root.join("inside/w");
        let out = [
            "",
            ".",
            "..",
            "../outside",
            "sub/../../w",
            "../inside/w",
            "sub/../../inside/w",
            "sub/..",
            "/",
            "/w",
            "a\0b",
            absolute.to_str().unwrap(),
        ];
        for name in out {
            let error = here.find(name).unwrap_err();
            assert_eq!(error.code(), Code::OutOfBounds, "{name:?}");
            assert!(error.message().contains(&format!("{name:?}")), "{error}");
        }
        std::fs::remove_dir_all(root).unwrap();
    }

    /// Files on another machine or provided by the caller's code.
    struct Elsewhere;

    impl Filesystem for Elsewhere {
        fn open(&self, path: &Path, _: &Stop) -> Result<Arc<dyn ReadAt>> {
            panic!("{} was requested", path.display())
        }

        fn is_folder(&self, _: &Path, _: &Stop) -> bool {
            false
        }

        fn list(&self, _: &Path, _: usize, _: &Stop) -> Result<Vec<std::ffi::OsString>> {
            Ok(Vec::new())
        }

        fn is_file(&self, _: &Path) -> bool {
            false
        }
    }

    #[test]
    fn ambiguous_names_are_rejected_without_a_request() {
        let here = Folder::of(Path::new("https://host/models/m.onnx"), &Elsewhere);
        assert!(here.find("sub/w").is_ok());
        for name in
            ["..\\..\\w", "sub\\w", "\\\\evil\\x", ".\n./w", ".\t./w", ".\r./w", "w\n", "a\tb", "w\x7f"]
        {
            for links in [Links::Inside, Links::Anywhere] {
                let error = here.open(name, links, &Elsewhere, Stop::never()).err().unwrap();
                assert_eq!(error.code(), Code::OutOfBounds, "{name:?}");
            }
        }
    }

    #[cfg(windows)]
    #[test]
    fn drives_streams_and_backslashes_are_rejected() {
        for name in ["C:w", "C:\\w", "w:stream", "\\w", "..\\w", "sub\\..\\..\\w", "\\\\host\\share\\w"] {
            assert_eq!(relative(name).unwrap_err().code(), Code::OutOfBounds, "{name:?}");
        }
        assert_eq!(relative("sub\\w").unwrap(), Path::new("sub\\w"));
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_inside() {
        use std::os::unix::fs::symlink;
        let root = folder("links");
        let inside = root.join("inside");
        for (link, target) in [
            ("to-w", "sub/w"),
            ("to-sub", "sub"),
            ("round", "../inside/w"),
            ("dangling", "nowhere"),
            ("out", "../outside"),
            ("sub/up", "../.."),
            ("twice", "out"),
            ("absolute", "/etc"),
        ] {
            symlink(target, inside.join(link)).unwrap();
        }
        let here = Folder::of(&inside.join("index"), &LocalFiles);
        let open = |name, links| here.open(name, links, &LocalFiles, Stop::never()).map(|(path, _)| path);
        for name in ["to-w", "to-sub/w", "round"] {
            for links in [Links::Inside, Links::Anywhere] {
                assert_eq!(open(name, links).unwrap(), inside.join(name));
            }
        }
        for links in [Links::Inside, Links::Anywhere] {
            let error = open("dangling", links).unwrap_err();
            assert_eq!((error.code(), error.is_absent()), (Code::Io, true), "{error}");
        }
        for name in ["out", "sub/up/outside", "sub/up", "twice", "absolute/passwd"] {
            let error = open(name, Links::Inside).unwrap_err();
            assert_eq!((error.code(), error.path()), (Code::OutOfBounds, Some(&*inside.join(name))));
            assert!(error.message().contains(name), "{error}");
        }
        let (_, source) = here.open("twice", Links::Anywhere, &LocalFiles, Stop::never()).unwrap();
        assert_eq!(source.read_vec(0, 6, Stop::never()).unwrap(), b"secret");
        std::fs::remove_dir_all(root).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_link_created_after_the_check_is_not_followed() {
        use std::os::unix::fs::symlink;
        let root = folder("swapped").canonicalize().unwrap();
        let inside = root.join("inside");
        assert!(FileSource::open_without_links(&inside.join("sub/w")).is_ok());
        std::fs::remove_file(inside.join("w")).unwrap();
        symlink("../outside", inside.join("w")).unwrap();
        std::fs::rename(inside.join("sub"), root.join("moved")).unwrap();
        symlink("../moved", inside.join("sub")).unwrap();
        for name in ["w", "sub/w"] {
            let error = FileSource::open_without_links(&inside.join(name)).err().unwrap();
            assert_eq!(error.code(), Code::Io, "{name}");
        }
        for path in [Path::new("/"), &inside, Path::new("inside/w"), Path::new("/etc/../etc/passwd")] {
            assert!(FileSource::open_without_links(path).is_err(), "{}", path.display());
        }
        std::fs::remove_dir_all(root).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_store_of_blobs_holds_the_index_and_its_files() {
        use std::os::unix::fs::symlink;
        let root = folder("store");
        let (snapshot, blobs) = (root.join("snapshots/1"), root.join("blobs"));
        for folder in [&snapshot, &blobs] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::fs::write(blobs.join("1234"), b"index").unwrap();
        std::fs::write(blobs.join("5678"), b"w").unwrap();
        symlink("../../blobs/1234", snapshot.join("index")).unwrap();
        symlink("../../blobs/5678", snapshot.join("w")).unwrap();
        symlink("../../outside", snapshot.join("out")).unwrap();
        let here = Folder::of(&snapshot.join("index"), &LocalFiles);
        let open = |name| here.open(name, Links::Inside, &LocalFiles, Stop::never()).map(|(path, _)| path);
        assert_eq!(open("w").unwrap(), snapshot.join("w"));
        assert_eq!(open("out").unwrap_err().code(), Code::OutOfBounds);
        std::fs::remove_dir_all(root).unwrap();
    }
}
