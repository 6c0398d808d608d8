//! Files beside an index: how a parser asks for them, and the one check that a path which a file names leads nowhere else.
#![forbid(unsafe_code)]

use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::ReadAt;
use super::places::Places;
use crate::error::{Code, Error, Result};

/// The files that an index may name. Whoever opens the index says where they are.
pub trait Beside {
    /// The name of the index itself, where it is known and no other file of its set was named with it.
    fn name(&self) -> Option<&str> {
        None
    }

    /// The name of the index itself, where it is known.
    fn own_name(&self) -> Option<&str> {
        self.name()
    }

    /// Gives the file at a relative path a number in the name space of the index; the same path has the same number. The
    /// file need not be there: its data is refused when it is read. `path` separates folders with '/'.
    ///
    /// Fails with `ZT_LIMIT` for more files than a name space may have, and with `ZT_ABORTED`.
    fn find(&self, path: &str) -> Result<Neighbor>;

    /// The bytes of a file that was found, for a parser that has to read it. Fails as [`Neighbor::problem`] says, and with
    /// `ZT_IO` where the file was changed meanwhile.
    fn open(&self, file: u32) -> Result<Arc<dyn ReadAt>>;
}

/// A file beside an index.
#[derive(Clone, Debug)]
pub struct Neighbor {
    /// What [`Component::file`](crate::model::Component::file) says of data in it.
    pub file: u32,
    /// Its bytes; `None` where it cannot be read, or was not looked for since the caller wants the index alone.
    pub length: Option<u64>,
    /// Why it cannot be read: `ZT_OUT_OF_BOUNDS` for a path that leads out of the folder, `ZT_IO` for a file that is not there.
    pub problem: Option<Error>,
}

/// The folder of an index.
pub struct Folder {
    path: PathBuf,
    index: PathBuf,
    /// Whether links may lead out of it.
    has_links: bool,
    /// Where it really is, and where the index really is that a link in it may lead to.
    real: OnceLock<Vec<PathBuf>>,
}

impl Folder {
    /// The folder that the file at `index` is in.
    pub fn of(index: &Path, places: &dyn Places) -> Self {
        Self {
            path: index.parent().unwrap_or(Path::new("")).to_owned(),
            index: index.to_owned(),
            has_links: places.is_local(),
            real: OnceLock::new(),
        }
    }

    /// The name of the index.
    pub fn index_name(&self) -> Option<&str> {
        self.index.file_name()?.to_str()
    }

    /// The path of the file that the index calls `name`: a relative path that stays in the folder. Fails with
    /// `ZT_OUT_OF_BOUNDS` for any other, and where a link on the way leads out of the folder. A file that is not there is no
    /// failure yet.
    ///
    /// A cache of downloads links the index and the files that it names to one store of blobs, so a link may lead to the
    /// folder that the index is linked to, too. Links are looked at before the file is opened: somebody who may exchange them in
    /// between can write to the folder, and needs no index for that.
    pub fn find(&self, name: &str) -> Result<PathBuf> {
        let relative = relative(name)?;
        let mut path = self.path.clone();
        let mut linked = false;
        for part in relative.components() {
            path.push(part);
            linked |= self.has_links && path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
        }
        if linked {
            self.check(name, &path)?;
        }
        Ok(path)
    }

    /// Refuses a link that leads out of the folder. One that leads nowhere is left to whoever opens it.
    fn check(&self, name: &str, path: &Path) -> Result<()> {
        let Ok(target) = path.canonicalize() else { return Ok(()) };
        let real = self.real.get_or_init(|| {
            let index = self.index.canonicalize().ok();
            let index = index.as_deref().and_then(Path::parent).map(Path::to_owned);
            let here = if self.path.as_os_str().is_empty() { Path::new(".") } else { &self.path };
            here.canonicalize().into_iter().chain(index).collect()
        });
        if real.iter().any(|folder| target.starts_with(folder)) {
            return Ok(());
        }
        let message = format!(
            "the file names {name:?}, which is linked to '{}', outside of its own folder; to read that, let the option shards give its path",
            target.display()
        );
        Err(Error::new(Code::OutOfBounds, message).file(path))
    }
}

/// A path that a file names, if it leads down from the file's own folder.
fn relative(name: &str) -> Result<PathBuf> {
    let path = Path::new(name);
    let mut found = PathBuf::new();
    // A colon names a drive or a stream of a file there.
    let mut good = !(name.contains('\0') || cfg!(windows) && name.contains(':'));
    for component in path.components() {
        match component {
            Component::Normal(part) => found.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => good = false,
        }
    }
    if !good || found.as_os_str().is_empty() {
        let message = format!(
            "the file names {name:?}, which is no relative path inside of its own folder: nothing else is opened"
        );
        return Err(Error::new(Code::OutOfBounds, message));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::places::Local;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("ztensor-beside-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("inside/sub")).unwrap();
        std::fs::write(folder.join("inside/w"), b"w").unwrap();
        std::fs::write(folder.join("inside/sub/w"), b"w").unwrap();
        std::fs::write(folder.join("outside"), b"secret").unwrap();
        folder
    }

    #[test]
    fn paths_lead_down() {
        let root = folder("down");
        let here = Folder::of(&root.join("inside/index"), &Local);
        for (name, expected) in
            [("w", "w"), ("./w", "w"), ("sub/w", "sub/w"), ("sub//./w", "sub/w"), ("no", "no")]
        {
            assert_eq!(here.find(name).unwrap(), root.join("inside").join(expected), "{name}");
        }
        let absolute = root.join("inside/w");
        let out = [
            "",
            ".",
            "..",
            "../outside",
            "sub/../w",
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

    #[cfg(windows)]
    #[test]
    fn drives_streams_and_backslashes_lead_nowhere() {
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
        let here = Folder::of(&inside.join("index"), &Local);
        for name in ["to-w", "to-sub/w", "round", "dangling"] {
            assert_eq!(here.find(name).unwrap(), inside.join(name));
        }
        for name in ["out", "sub/up/outside", "sub/up", "twice", "absolute/passwd"] {
            let error = here.find(name).unwrap_err();
            assert_eq!((error.code(), error.path()), (Code::OutOfBounds, Some(&*inside.join(name))));
            assert!(error.message().contains(name), "{error}");
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
        let here = Folder::of(&snapshot.join("index"), &Local);
        assert_eq!(here.find("w").unwrap(), snapshot.join("w"));
        assert_eq!(here.find("out").unwrap_err().code(), Code::OutOfBounds);
        std::fs::remove_dir_all(root).unwrap();
    }
}
