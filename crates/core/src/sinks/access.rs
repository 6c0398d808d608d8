//! Access rights of a file, transferred to the new file that replaces it: owner, group and permissions, and, where supported, access lists
//! and extended attributes.
#![forbid(unsafe_code)]

use std::fs::{File, Metadata};
use std::path::Path;

use crate::error::{Error, Result};

#[cfg(any(target_os = "linux", target_os = "macos"))]
const ACCESS_LIST: &str = "system.posix_acl_access";
/// Hashes and signatures of the old content, and a privilege that the system itself removes on writing.
#[cfg(any(target_os = "linux", target_os = "macos"))]
const OF_THE_CONTENT: [&str; 3] = ["security.ima", "security.evm", "security.capability"];
/// The system's maximum length of lists and values (xattr(7)).
#[cfg(any(target_os = "linux", target_os = "macos"))]
const MAX: usize = 64 << 10;

/// The access rights of a file.
pub struct Access {
    #[cfg_attr(unix, allow(dead_code))]
    metadata: Metadata,
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    attributes: Vec<(String, Vec<u8>)>,
}

impl Access {
    /// Reads those of the file at `path`; `None` if it does not exist.
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = path.metadata().ok()?;
        Some(Self {
            metadata,
            #[cfg(any(target_os = "linux", target_os = "macos"))]
            attributes: extended::all(path),
        })
    }

    /// Applies them to a new file, if permitted. The new file never grants more than the old one.
    #[cfg(unix)]
    pub fn give(&self, file: &File) -> Result<()> {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};

        use rustix::fs::{Gid, Uid, fchown};

        let new = file.metadata().map_err(|error| Error::io("fstat", &error))?;
        let (owner, group) = (self.metadata.uid(), self.metadata.gid());
        let (mut has_owner, mut has_group) = (new.uid() == owner, new.gid() == group);
        if !(has_owner && has_group) {
            let (uid, gid) = (Uid::from_raw(owner), Gid::from_raw(group));
            let both = fchown(file, Some(uid), Some(gid)).is_ok();
            has_group = has_group || both || fchown(file, None, Some(gid)).is_ok();
            has_owner = has_owner || both;
        }
        let old = self.metadata.mode() & 0o7777;
        let mut mode = if has_owner && has_group { old } else { old & 0o1777 };
        if !(self.give_access_list(file, has_group) && has_group) {
            // Permissions of the old group, or of the access list's mask, do not apply to the new file's group.
            mode &= !0o070 | ((old & 0o007) << 3);
        }
        if new.mode() & 0o7777 != mode {
            let permissions = std::fs::Permissions::from_mode(mode);
            file.set_permissions(permissions).map_err(|error| Error::io("fchmod", &error))?;
        }
        self.give_attributes(file);
        Ok(())
    }

    /// Other systems only have permissions.
    #[cfg(not(unix))]
    pub fn give(&self, file: &File) -> Result<()> {
        let permissions = self.metadata.permissions();
        file.set_permissions(permissions).map_err(|error| Error::io("fchmod", &error))
    }

    /// Applies the old access list; if there is none, or it names a group that the file does not belong to, removes an inherited one.
    /// Returns false if the old one could not be applied.
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    fn give_access_list(&self, file: &File, has_group: bool) -> bool {
        let old = self.attributes.iter().find(|(name, _)| name == ACCESS_LIST);
        if let Some((_, list)) = old.filter(|_| has_group) {
            let flags = rustix::fs::XattrFlags::empty();
            if rustix::fs::fsetxattr(file, ACCESS_LIST, list, flags).is_ok() {
                return true;
            }
        }
        let _ = rustix::fs::fremovexattr(file, ACCESS_LIST);
        old.is_none()
    }

    #[cfg(all(unix, not(any(target_os = "linux", target_os = "macos"))))]
    fn give_access_list(&self, _file: &File, _has_group: bool) -> bool {
        true
    }

    #[cfg(any(target_os = "linux", target_os = "macos"))]
    fn give_attributes(&self, file: &File) {
        for (name, value) in self.attributes.iter().filter(|(name, _)| name != ACCESS_LIST) {
            // Some belong to the system, some require root: the new file does without those.
            let _ = rustix::fs::fsetxattr(file, name, value, rustix::fs::XattrFlags::empty());
        }
    }

    #[cfg(all(unix, not(any(target_os = "linux", target_os = "macos"))))]
    fn give_attributes(&self, _file: &File) {}
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod extended {
    use std::path::Path;

    use rustix::fs::{getxattr, listxattr};

    use super::{MAX, OF_THE_CONTENT};

    /// Returns the readable attributes of the file at `path`.
    pub fn all(path: &Path) -> Vec<(String, Vec<u8>)> {
        let mut names = vec![0_u8; MAX];
        let Ok(length) = listxattr(path, &mut names) else { return Vec::new() };
        let names = names.get(..length).unwrap_or_default().split(|byte| *byte == 0);
        let names = names.filter_map(|name| std::str::from_utf8(name).ok());
        let copied = names.filter(|name| !name.is_empty() && !OF_THE_CONTENT.contains(name));
        copied.filter_map(|name| Some((name.to_owned(), value(path, name)?))).collect()
    }

    fn value(path: &Path, name: &str) -> Option<Vec<u8>> {
        let mut value = vec![0_u8; MAX];
        let length = getxattr(path, name, &mut value).ok()?;
        value.truncate(length);
        Some(value)
    }
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used)] // a test that cannot set itself up has failed
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use rustix::fs::{XattrFlags, getxattr, setxattr};

    use super::super::AtomicFile;
    use super::*;

    const DEFAULT_LIST: &str = "system.posix_acl_default";

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("ztensor-access-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Builds an access list in the kernel's form (`linux/posix_acl_xattr.h`): version 2, then tag, permissions and id of each entry.
    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut bytes = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(permissions.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    /// Owner: read and write; user 12345: read; group and mask: read; others: nothing.
    fn shared() -> Vec<u8> {
        let none = u32::MAX;
        list(&[(1, 6, none), (2, 4, 12345), (4, 4, none), (16, 4, none), (32, 0, none)])
    }

    fn value(path: &Path, name: &str) -> Option<Vec<u8>> {
        let mut bytes = [0; 256];
        let length = getxattr(path, name, &mut bytes).ok()?;
        Some(bytes[..length].to_vec())
    }

    /// Returns false, with a message, if the file system does not support the attribute.
    fn set(path: &Path, name: &str, value: &[u8]) -> bool {
        let done = setxattr(path, name, value, XattrFlags::empty());
        if let Err(error) = done {
            println!("not run: {name} cannot be set here: {error}");
        }
        done.is_ok()
    }

    fn replace(path: &Path) {
        let mut file = AtomicFile::create(path, true).unwrap();
        assert_eq!(file.file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        file.write(b"new").unwrap();
        assert!(file.commit().unwrap().is_empty());
        assert_eq!(std::fs::read(path).unwrap(), b"new");
    }

    #[test]
    fn a_replacement_keeps_attributes_and_access_list() {
        let folder = folder("list");
        let path = folder.join("a");
        std::fs::write(&path, b"old").unwrap();
        if set(&path, "user.origin", b"here") && set(&path, ACCESS_LIST, &shared()) {
            replace(&path);
            assert_eq!(value(&path, "user.origin").unwrap(), b"here");
            assert_eq!(value(&path, ACCESS_LIST).unwrap(), shared());
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_replacement_does_not_inherit_the_access_list_of_its_folder() {
        let folder = folder("default");
        let (old, new) = (folder.join("old"), folder.join("new"));
        std::fs::write(&old, b"old").unwrap();
        std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o640)).unwrap();
        if set(&folder, DEFAULT_LIST, &shared()) {
            replace(&old);
            assert_eq!(value(&old, ACCESS_LIST), None);
            assert_eq!(old.metadata().unwrap().permissions().mode() & 0o777, 0o640);
            // A new file does inherit it.
            replace(&new);
            assert_eq!(value(&new, ACCESS_LIST).unwrap(), shared());
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
