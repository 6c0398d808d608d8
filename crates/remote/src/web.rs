//! Files of an HTTP server, identified by their URLs only, because there is no common way to list files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqwest::Url;
use ztensor_core::error::{Code, Error, Result, short};
use ztensor_core::sources::ReadAt;
use ztensor_core::sources::blocks::Blocks;
use ztensor_core::sources::filesystem::Filesystem;
use ztensor_core::work::Stop;

use crate::client::Client;
use crate::errors::{self, shown};
use crate::opening;
use crate::options::Options;
use crate::origin::{Credentials, Target};

/// The file that a URL names, and its sibling files.
struct Web {
    client: Arc<Client>,
    blocks: Arc<Blocks>,
    credentials: Arc<Credentials>,
    /// The URL of the file including its query, which may contain its signature, without name and password.
    url: Url,
    /// The URL without its query.
    path: String,
}

pub fn filesystem(url: &str, options: &Options) -> Result<(Arc<dyn Filesystem>, PathBuf)> {
    let mut credentials = Credentials::new(options.header_map()?);
    let mut url = parsed(url)?;
    credentials.take(&mut url);
    url.set_fragment(None);
    let path = shown(&url);
    check_file(&url, &path)?;
    let client = Arc::new(Client::new(options)?);
    let web =
        Web { client, blocks: Arc::default(), credentials: Arc::new(credentials), url, path: path.clone() };
    Ok((Arc::new(web), path.into()))
}

/// Parses a URL. An error does not show it, because it may contain a password or a signature.
fn parsed(text: &str) -> Result<Url> {
    let url = Url::parse(text)
        .map_err(|error| Error::new(Code::InvalidArg, format!("this is not a valid URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        let scheme = short(url.scheme(), 40).into_owned();
        return Err(Error::new(Code::InvalidArg, format!("{scheme:?} is not the scheme of a web server")));
    }
    Ok(url)
}

fn check_file(url: &Url, path: &str) -> Result<()> {
    if url.path().ends_with('/') {
        let message = format!(
            "{} is a folder of a web server, which cannot be listed: specify a file, or the index of a set (model.safetensors.index.json)",
            short(path, 160)
        );
        return Err(Error::new(Code::InvalidArg, message));
    }
    Ok(())
}

impl Web {
    /// Returns the URL of a path: the file itself, a sibling, or any other.
    fn url(&self, path: &str) -> Result<Url> {
        if path == self.path {
            return Ok(self.url.clone());
        }
        let folder = self.path.rfind('/').and_then(|slash| self.path.get(..=slash)).unwrap_or_default();
        // Names are literal: '%', '?' and '#' have no special meaning.
        let Some(names) = path.strip_prefix(folder).filter(|_| !folder.is_empty()) else {
            return parsed(path);
        };
        let mut url = self.url.clone();
        url.set_query(None);
        let out = || {
            let message = format!("{:?} leads out of the folder of the file", short(names, 160));
            Error::new(Code::OutOfBounds, message).file(Path::new(path))
        };
        let mut segments = url.path_segments_mut().map_err(|()| out())?;
        segments.pop();
        for name in names.split('/') {
            // URL parsing drops control characters.
            if matches!(name, "" | "." | "..") || name.bytes().any(|byte| byte.is_ascii_control()) {
                return Err(out());
            }
            segments.push(name);
        }
        drop(segments);
        Ok(url)
    }
}

impl Filesystem for Web {
    fn open(&self, path: &Path, stop: &Stop) -> Result<Arc<dyn ReadAt>> {
        let path = text(path)?;
        let mut url = self.url(&path)?;
        // A file on another server must not receive the credentials of this one.
        let mut credentials =
            if url.origin() == self.url.origin() { Arc::clone(&self.credentials) } else { Arc::default() };
        Arc::make_mut(&mut credentials).take(&mut url);
        check_file(&url, &path)?;
        let target = Target { path: shown_of(&url, &path), url, credentials, hub: None };
        opening::open(&self.client, &self.blocks, &target, stop)
    }

    fn is_folder(&self, _path: &Path, _stop: &Stop) -> bool {
        false
    }

    fn list(&self, folder: &Path, _most: usize, _stop: &Stop) -> Result<Vec<OsString>> {
        let folder = folder.to_string_lossy();
        Err(errors::about(&folder, "the folders of a web server cannot be listed"))
    }

    fn is_file(&self, _path: &Path) -> bool {
        false
    }
}

/// Formats a path for messages: one given by a caller may contain a query.
fn shown_of(url: &Url, path: &str) -> String {
    if path.contains(['?', '#', '@']) { shown(url) } else { path.to_owned() }
}

/// Returns a path as a URL. Joining names uses backslashes on Windows.
pub fn text(path: &Path) -> Result<String> {
    let text = path
        .to_str()
        .ok_or_else(|| Error::new(Code::InvalidArg, "a URL must be valid Unicode").file(path))?;
    Ok(if cfg!(windows) { text.replace('\\', "/") } else { text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web(url: &str) -> (Web, PathBuf) {
        let options = Options { environment: Some(std::collections::HashMap::new()), ..Options::default() };
        let url = Url::parse(url).unwrap();
        let path = shown(&url);
        let web = Web {
            client: Arc::new(Client::new(&options).unwrap()),
            blocks: Arc::default(),
            credentials: Arc::default(),
            url,
            path: path.clone(),
        };
        (web, path.into())
    }

    #[test]
    fn names_of_siblings_are_percent_encoded() {
        let (web, path) = web("https://h:8443/a%20b/x%2Fy.json?signature=s");
        assert_eq!(path, Path::new("https://h:8443/a%20b/x%2Fy.json"));
        assert_eq!(
            web.url(path.to_str().unwrap()).unwrap().as_str(),
            "https://h:8443/a%20b/x%2Fy.json?signature=s"
        );
        for (name, expected) in [
            ("w-00001.safetensors", "w-00001.safetensors"),
            ("sub/w", "sub/w"),
            ("a b", "a%20b"),
            ("a%20b", "a%2520b"),
            ("%2e%2e", "%252e%252e"),
            ("w?q#f", "w%3Fq%23f"),
            ("..\\w", "..%5Cw"),
            ("é", "%C3%A9"),
        ] {
            let url = web.url(&format!("https://h:8443/a%20b/{name}")).unwrap();
            assert_eq!(url.as_str(), format!("https://h:8443/a%20b/{expected}"));
        }
        for name in ["../w", "sub/../w", "sub//w", "./w", ""] {
            let error = web.url(&format!("https://h:8443/a%20b/{name}")).unwrap_err();
            assert_eq!(error.code(), Code::OutOfBounds, "{name}");
        }
        assert_eq!(web.url("https://g/w%20?q").unwrap().as_str(), "https://g/w%20?q");
        assert_eq!(web.url("file:///etc/passwd").unwrap_err().code(), Code::InvalidArg);
    }
}
