//! Addresses of files and repositories on the hub.

use ztensor_core::error::{Code, Error, Result, short};

const SCHEME: &str = "hf://";

/// A location on the hub: `hf://owner/repo@revision/folder/file`, `hf://datasets/owner/repo…`, `hf://spaces/owner/repo…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `models`, `datasets` or `spaces`, as the API names them.
    pub kind: &'static str,
    pub owner: String,
    pub name: String,
    pub revision: String,
    /// Names of folders and of the file; empty for the repository itself.
    pub inner: Vec<String>,
}

impl Address {
    /// Parses an address. Names in it are not percent-encoded.
    pub fn parse(text: &str) -> Result<Self> {
        let rest = text.strip_prefix(SCHEME).unwrap_or(text);
        let refused = |why: &str| {
            let message =
                format!("{:?} {why}: expected hf://owner/repository@revision/file", short(text, 160));
            Error::new(Code::InvalidArg, message)
        };
        let kinds = [("datasets", "datasets"), ("spaces", "spaces"), ("models", "models")];
        let named = kinds
            .into_iter()
            .find_map(|(prefix, kind)| Some((kind, rest.strip_prefix(prefix)?.strip_prefix('/')?)));
        let (kind, rest) = named.unwrap_or(("models", rest));
        let (owner, rest) = rest.split_once('/').ok_or_else(|| refused("names no repository"))?;
        let end = rest.find(['/', '@']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let good = |name: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            !name.is_empty() && name.len() <= 96 && name.chars().all(plain) && !name.starts_with('.')
        };
        if !good(owner) || !good(name) {
            return Err(refused("names no repository"));
        }
        let (revision, inner) = match rest.strip_prefix('@') {
            Some(rest) => revision(rest),
            None => ("main", rest.strip_prefix('/').unwrap_or(rest)),
        };
        if revision.is_empty() || revision.len() > 256 || revision.contains("..") {
            return Err(refused("has no revision after '@'"));
        }
        let inner: Vec<String> = match inner.trim_end_matches('/') {
            "" => Vec::new(),
            inner => inner.split('/').map(str::to_owned).collect(),
        };
        if inner.iter().any(|name| matches!(&**name, "" | "." | "..")) {
            return Err(refused("has an invalid path"));
        }
        let [owner, name, revision] = [owner, name, revision].map(str::to_owned);
        Ok(Self { kind, owner, name, revision, inner })
    }

    /// Returns its form in paths.
    pub fn text(&self) -> String {
        let Self { kind, owner, name, revision, inner } = self;
        let kind = if *kind == "models" { String::new() } else { format!("{kind}/") };
        let mut text = format!("{SCHEME}{kind}{owner}/{name}@{revision}");
        for name in inner {
            text.push('/');
            text.push_str(name);
        }
        text
    }

    /// Returns whether the revision is a commit.
    pub fn is_commit(&self) -> bool {
        is_commit(&self.revision)
    }

    /// Returns the name of the repository's folder in the cache of the hub's own clients.
    pub fn cache_folder(&self) -> String {
        format!("{}--{}--{}", self.kind, self.owner, self.name)
    }

    /// Returns whether both are in the same revision of a repository.
    pub fn is_in(&self, other: &Self) -> bool {
        let of = |address: &Self| {
            (address.kind, address.owner.clone(), address.name.clone(), address.revision.clone())
        };
        of(self) == of(other)
    }
}

/// Splits a revision from the path after it. Only the hub's own references contain a slash.
fn revision(rest: &str) -> (&str, &str) {
    let slashes = if rest.starts_with("refs/pr/") || rest.starts_with("refs/convert/") { 2 } else { 0 };
    match rest.match_indices('/').nth(slashes) {
        Some((at, _)) => (rest.get(..at).unwrap_or_default(), rest.get(at + 1..).unwrap_or_default()),
        None => (rest, ""),
    }
}

/// Returns whether a commit hash is well-formed.
pub fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
