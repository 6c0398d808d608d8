//! The hub API for repositories: the commit of a revision, and its files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::header::LINK;
use reqwest::Url;
use reqwest::header::HeaderMap;
use tokio::time::timeout;
use ztensor_core::error::{Code, Error, Result, short};
use ztensor_core::limits;
use ztensor_core::syntax::json::{Reader, Unique};
use ztensor_core::work::Stop;

use crate::answer::{self, media_type};
use crate::errors::{self, Failure};
use crate::hub_address::{Address, is_commit};
use crate::hub_endpoint::Hub;
use crate::origin::Target;
use crate::pages::Pages;
use crate::retry::retrying;
use crate::runtime;

/// Maximum bytes of a response: 50,000 files take some 5 MiB.
const ANSWER: usize = 16 << 20;
/// Number of files from which on the list of a revision may be incomplete, according to the hub's own client.
const UNSURE: usize = 50_000;
/// Maximum pages of a folder listing, of 1,000 names each.
const PAGES: usize = limits::FOLDER_ENTRIES / 1000 + 1;
/// Maximum consecutive pages without a name.
const EMPTY_PAGES: usize = 10;

/// A revision.
pub struct Described {
    pub commit: String,
    /// `None` if the response lists none, or may be incomplete.
    pub files: Option<Files>,
    /// Why only the files in the cache are listed.
    pub warning: Option<String>,
}

impl Described {
    /// Creates the description of a commit by its files in the cache.
    pub fn cached(commit: String, files: BTreeSet<String>, warning: String) -> Self {
        let files = files.into_iter().map(|path| (path, None)).collect();
        Self { commit, files: Some(Files(files)), warning: Some(warning) }
    }
}

/// The sorted paths of all files of a repository, and their sizes if known.
pub struct Files(BTreeMap<String, Option<u64>>);

impl Files {
    pub fn is_file(&self, inner: &[String]) -> bool {
        self.0.contains_key(&inner.join("/"))
    }

    /// Returns the size of a file in bytes.
    pub fn size(&self, inner: &[String]) -> Option<u64> {
        self.0.get(&inner.join("/")).copied().flatten()
    }

    pub fn is_folder(&self, inner: &[String]) -> bool {
        self.under(inner).next().is_some()
    }

    /// Returns the names in a folder, up to `max` + 1.
    pub fn list(&self, inner: &[String], max: usize) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for path in self.under(inner) {
            let name = path.split('/').next().unwrap_or(path);
            // Names of one folder may be interleaved with others: "a", "a-b", "a/c".
            if names.last().is_none_or(|last| last != name) {
                names.push(name.to_owned());
            }
            if names.len() > max {
                break;
            }
        }
        names.sort();
        names.dedup();
        names
    }

    /// Returns the paths below a folder, at any depth, relative to it.
    fn under(&self, inner: &[String]) -> impl Iterator<Item = &str> {
        let mut folder = inner.join("/");
        if !folder.is_empty() {
            folder.push('/');
        }
        let first = folder.clone();
        self.0.range(first..).map_while(move |(path, _)| path.strip_prefix(&folder))
    }
}

/// Requests the commit and the files of a revision.
pub fn describe(hub: &Hub, address: &Address, stop: &Stop) -> Result<Described> {
    let (target, body) = description(hub, address, stop)?;
    parse(&body).map_err(|error| strange(&target, &error))
}

/// Requests the description of a revision, as the hub sends it.
pub fn description(hub: &Hub, address: &Address, stop: &Stop) -> Result<(Target, String)> {
    let target = hub.revision(address)?;
    let (body, _) = runtime::wait(stop, ask(hub, &target))?;
    Ok((target, body))
}

fn parse(body: &str) -> Result<Described> {
    let mut reader = Reader::new(body, 0);
    let (mut commit, mut files) = (None, None);
    reader.object("'{'", Unique::ByCaller, |reader, key| {
        match &**key {
            "sha" => commit = Some(reader.string("a commit")?.into_owned()),
            "siblings" if reader.peek() == Some(b'[') => {
                let mut found = BTreeMap::new();
                reader.array("files", |reader| {
                    let (path, size) = sibling(reader)?;
                    found.extend(path.filter(|path| is_plain(path)).map(|path| (path, size)));
                    Ok(())
                })?;
                files = Some(Files(found)).filter(|files| files.0.len() <= UNSURE);
            }
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    reader.end()?;
    let commit = commit
        .filter(|text| is_commit(text))
        .ok_or_else(|| Error::new(Code::BadIndex, "the response has no commit (sha)"))?;
    Ok(Described { commit, files, warning: None })
}

/// Returns whether a path has only plain components. Others are ignored and never requested.
fn is_plain(path: &str) -> bool {
    !path.contains(['\\', '\0']) && path.split('/').all(|name| !matches!(name, "" | "." | ".."))
}

/// Returns the path of a file and its size.
fn sibling(reader: &mut Reader<'_>) -> Result<(Option<String>, Option<u64>)> {
    let (mut path, mut size) = (None, None);
    reader.object("a file", Unique::ByCaller, |reader, key| {
        match &**key {
            "rfilename" if reader.peek() == Some(b'"') => path = Some(reader.string("a path")?.into_owned()),
            "size" if reader.peek().is_some_and(|byte| byte.is_ascii_digit()) => {
                size = Some(reader.uint("a size")?);
            }
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    Ok((path, size))
}

/// Returns a string field of an object and skips the others.
fn field(reader: &mut Reader<'_>, wanted: &str) -> Result<Option<String>> {
    let mut found = None;
    reader.object("a file", Unique::ByCaller, |reader, key| {
        if key == wanted && reader.peek() == Some(b'"') {
            found = Some(reader.string("a path")?.into_owned());
            return Ok(());
        }
        reader.skip()
    })?;
    Ok(found)
}

/// Requests the names in a folder, up to `max` + 1.
pub fn list(hub: &Hub, folder: &Address, max: usize, stop: &Stop) -> Result<Vec<String>> {
    let mut target = hub.tree(folder)?;
    let (mut names, path) = (Vec::new(), target.path.clone());
    let mut pages = Pages::new("the hub", &path, &hub.client.options, (PAGES, EMPTY_PAGES));
    loop {
        let before = names.len();
        let (body, headers) = runtime::wait(stop, ask(hub, &target))?;
        let mut reader = Reader::new(&body, 0);
        let read = reader.array("files", |reader| {
            let path = field(reader, "path")?.filter(|path| is_plain(path));
            names.extend(path.and_then(|path| path.rsplit('/').next().map(str::to_owned)));
            Ok(())
        });
        read.and_then(|()| reader.end()).map_err(|error| strange(&target, &error))?;
        if names.len() > max {
            names.truncate(max.saturating_add(1));
            return Ok(names);
        }
        match next(&target.url, &headers) {
            Next::Page(url) => {
                pages.next(url.as_str(), names.len() > before)?;
                target.url = url;
            }
            Next::Elsewhere => {
                let message = "the hub's list continues on another server, which is not accessed";
                return Err(errors::about(&target.path, message));
            }
            Next::None => return Ok(names),
        }
    }
}

/// The next page of a list.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Page(Url),
    /// On another server, or an invalid URL.
    Elsewhere,
    None,
}

/// Returns the next page (RFC 8288), which is requested only from the hub itself.
fn next(url: &Url, headers: &HeaderMap) -> Next {
    let links = headers.get(LINK).and_then(|links| links.to_str().ok()).unwrap_or_default();
    let Some(link) = links.split(',').find(|link| link.contains("rel=\"next\"")) else { return Next::None };
    let target = link.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    let next = target.and_then(|(target, _)| url.join(target).ok());
    let is_home =
        |next: &Url| next.origin() == url.origin() && next.username().is_empty() && next.password().is_none();
    next.filter(is_home).map_or(Next::Elsewhere, Next::Page)
}

/// Sends an API request and returns the response with its headers.
async fn ask(hub: &Hub, target: &Target) -> Result<(String, HeaderMap)> {
    let client = Arc::clone(&hub.client);
    retrying(&client.options, async || {
        let mut answer = client.get(target, None, &HeaderMap::new()).await?;
        if answer.response.status().as_u16() != 200 {
            return Err(answer.refusal(target));
        }
        let headers = answer.response.headers().clone();
        answer::check_coding(&target.path, &headers)?;
        let (stated, mut bytes) = (answer.response.content_length(), Vec::new());
        let long = || errors::about(&target.path, format!("the response of the hub exceeds {ANSWER} bytes"));
        if stated.is_some_and(|stated| stated > ANSWER as u64) {
            return Err(long().into());
        }
        let max = client.options.timeout.saturating_mul(answer::WHOLE);
        let read = answer::pour(&client.options, &target.path, &mut answer, |piece| {
            if bytes.len() + piece.len() > ANSWER {
                return Err(long().into());
            }
            bytes.extend_from_slice(piece);
            Ok(())
        });
        let slow = || errors::slow(&target.path, &format!("did not complete its response within {max:?}"));
        timeout(max, read).await.map_err(|_| slow())??;
        if stated.is_some_and(|stated| stated != bytes.len() as u64) {
            return Err(Failure::passing(errors::about(&target.path, "the response of the hub ended early")));
        }
        if answer::is_page(&media_type(&headers), &bytes) {
            return Err(errors::page(&target.path).into());
        }
        let body = String::from_utf8(bytes)
            .map_err(|_| errors::about(&target.path, "the response of the hub is not text"))?;
        Ok((body, headers))
    })
    .await
}

fn strange(target: &Target, error: &Error) -> Error {
    let host = target.url.host_str().unwrap_or_default();
    let message =
        format!("{} does not respond like a hub ({}): check HF_ENDPOINT", short(host, 80), error.message());
    errors::about(&target.path, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    fn inner(text: &str) -> Vec<String> {
        text.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn a_revision_names_its_commit_and_files() {
        let body = format!(
            r#"{{"id":"o/r","sha":"{COMMIT}","cardData":{{"x":[1,2]}},"siblings":[{{"rfilename":"b/c"}},{{"rfilename":"a","size":3}},
            {{"rfilename":"b/d/e"}},{{"rfilename":"b-x"}},{{"rfilename":"../out"}},{{"rfilename":"/etc"}},{{"blob":1}}]}}"#
        );
        let described = parse(&body).unwrap();
        assert_eq!(described.commit, COMMIT);
        let files = described.files.unwrap();
        assert_eq!(files.list(&[], 10), ["a", "b", "b-x"]);
        assert_eq!(files.list(&inner("b"), 10), ["c", "d"]);
        assert_eq!(files.list(&[], 1).len(), 2);
        assert!(files.is_folder(&inner("b")) && files.is_folder(&inner("b/d")) && files.is_folder(&[]));
        assert!(
            !files.is_folder(&inner("a"))
                && !files.is_folder(&inner("b/c"))
                && !files.is_folder(&inner("b-"))
        );
        assert!(files.is_file(&inner("b/d/e")) && !files.is_file(&inner("b/d")));
    }

    #[test]
    fn responses_not_in_the_format_of_a_hub_are_refused() {
        for body in ["", "[]", "{}", r#"{"sha":"main"}"#, r#"{"sha":7}"#, r#"{"sha":"../../x"}"#, "{\"sha\":"]
        {
            assert_eq!(parse(body).err().map(|error| error.code()), Some(Code::BadIndex), "{body}");
        }
        assert!(parse(&format!(r#"{{"sha":"{COMMIT}","siblings":null}}"#)).unwrap().files.is_none());
    }

    #[test]
    fn later_pages_of_a_list_must_be_at_the_hub() {
        let url = Url::parse("https://hub/api/models/o/r/tree/x").unwrap();
        let next = |link: &str| match next(&url, &HeaderMap::from_iter([(LINK, link.parse().unwrap())])) {
            Next::Page(url) => String::from(url),
            other => format!("{other:?}"),
        };
        assert_eq!(next("<https://hub/y?cursor=a>; rel=\"next\""), "https://hub/y?cursor=a");
        assert_eq!(next("</y>; rel=\"prev\", </z>; rel=\"next\""), "https://hub/z");
        for link in ["<https://evil/y>; rel=\"next\"", "<https://u:p@hub/y>; rel=\"next\"", "rel=\"next\""] {
            assert_eq!(next(link), "Elsewhere", "{link}");
        }
        for link in ["</y>; rel=\"prev\"", "next"] {
            assert_eq!(next(link), "None", "{link}");
        }
    }
}
