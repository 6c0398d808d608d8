//! The Hugging Face hub: revisions that become commits, folders, tokens, and a store of files elsewhere.

use std::collections::HashMap;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ztensor_core::error::{Code, Result};
use ztensor_core::sources::filesystem::Filesystem;
use ztensor_core::work::Stop;
use ztensor_remote::{Options, filesystem};

use crate::server::{Request, Server, TAG, bytes, good, options, part, redirect, refusal, say};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A hub with one repository, whose large files are in a store elsewhere.
fn hub(store: &Server) -> Server {
    let large = store.url("/blob?X-Signature=s");
    Server::new(move |request: &Request, stream: &mut TcpStream| {
        let info = format!(
            r#"{{"id":"o/r","sha":"{COMMIT}","siblings":[{{"rfilename":"config.json"}},{{"rfilename":"model.safetensors"}},{{"rfilename":"sub/a b.bin"}}]}}"#
        );
        let repository = request.path.replacen("/datasets/", "/models/", 1);
        match repository.trim_start_matches("/models") {
            "/api/models/o/r/revision/main?blobs=true"
            | "/api/models/o/r/revision/refs%2Fpr%2F1?blobs=true" => {
                say(stream, "200 OK", "Content-Type: application/json\r\n", info.as_bytes())
            }
            path if path == format!("/api/models/o/r/revision/{COMMIT}?blobs=true") => {
                say(stream, "200 OK", "", format!(r#"{{"sha":"{COMMIT}"}}"#).as_bytes())
            }
            path if path == format!("/api/models/o/r/tree/{COMMIT}") => {
                let next = format!("Link: </api/models/o/r/tree/{COMMIT}?cursor=2>; rel=\"next\"\r\n");
                say(
                    stream,
                    "200 OK",
                    &next,
                    br#"[{"type":"file","path":"config.json","size":3},{"type":"directory","path":"sub"}]"#,
                )
            }
            path if path == format!("/api/models/o/r/tree/{COMMIT}?cursor=2") => {
                say(stream, "200 OK", "", br#"[{"type":"file","path":"x.bin","lfs":{"size":3}}]"#)
            }
            path if path == format!("/api/models/o/r/tree/{COMMIT}/sub") => {
                say(stream, "200 OK", "", br#"[{"type":"file","path":"sub/a b.bin"}]"#)
            }
            path if path == format!("/o/r/resolve/{COMMIT}/config.json") => {
                part(request, stream, b"{}      ", TAG)
            }
            path if path == format!("/o/r/resolve/{COMMIT}/model.safetensors") => redirect(stream, &large),
            path if path == format!("/o/r/resolve/{COMMIT}/sub/a%20b.bin") => {
                part(request, stream, &bytes(9), TAG)
            }
            path if path.starts_with("/o/r/resolve/") => {
                say(stream, "404 Not Found", "X-Error-Code: EntryNotFound\r\n", b"")
            }
            path if path.contains("/gated/") => {
                say(stream, "403 Forbidden", "X-Error-Code: GatedRepo\r\n", b"")
            }
            path if path.contains("/revision/") && path.contains("/o/r/") => {
                say(stream, "404 Not Found", "X-Error-Code: RevisionNotFound\r\n", b"")
            }
            _ => say(stream, "401 Unauthorized", "X-Error-Code: RepoNotFound\r\n", b""),
        }
    })
}

fn at(hub: &Server, variables: &[(&str, &str)]) -> Options {
    let endpoint = hub.url("");
    let all = [("HF_ENDPOINT", &*endpoint)].into_iter().chain(variables.iter().copied());
    Options {
        environment: Some(all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()),
        ..options()
    }
}

fn opened(url: &str, options: &Options) -> Result<(Arc<dyn Filesystem>, PathBuf)> {
    filesystem(url, options, Stop::never())
}

#[test]
fn a_revision_is_pinned_to_its_commit() {
    let store = good(bytes(4 << 20));
    let hub = hub(&store);
    let options = at(&hub, &[("HF_TOKEN", "hf_secret")]);
    let (filesystem, path) = opened("hf://o/r/model.safetensors", &options).unwrap();
    assert_eq!(path, PathBuf::from(format!("hf://o/r@{COMMIT}/model.safetensors")));
    let source = filesystem.open(&path, Stop::never()).unwrap();
    assert!(source.read_vec(1 << 20, 1 << 20, Stop::never()).unwrap() == bytes(4 << 20)[1 << 20..2 << 20]);
    let asked = hub.requests();
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|request| request.header("authorization") == Some("Bearer hf_secret")));
    let stored = store.requests();
    assert_eq!(stored.len(), 2);
    assert!(
        stored.iter().all(|request| request.header("authorization").is_none()),
        "the store sees no token"
    );
    // Revisions of the hub's own have slashes.
    let (_, path) = opened("HF://o/r@refs/pr/1/sub/a%20b.bin", &options).unwrap();
    assert_eq!(path, PathBuf::from(format!("hf://o/r@{COMMIT}/sub/a b.bin")));
    // A commit is one already.
    let before = hub.count();
    let (filesystem, path) = opened(&format!("hf://datasets/o/r@{COMMIT}/config.json"), &options).unwrap();
    assert_eq!(hub.count(), before);
    filesystem.open(&path, Stop::never()).unwrap();
    assert_eq!(hub.requests()[before].path, format!("/datasets/o/r/resolve/{COMMIT}/config.json"));
}

#[test]
fn repositories_are_listed_as_folders() {
    let store = good(bytes(100));
    let hub = hub(&store);
    let root = PathBuf::from(format!("hf://o/r@{COMMIT}"));
    // By the files that come with the revision, and by the lists of folders where these do not come.
    for (url, by_lists) in [("hf://o/r".to_owned(), false), (format!("hf://o/r@{COMMIT}"), true)] {
        let (filesystem, path) = opened(&url, &at(&hub, &[])).unwrap();
        assert_eq!(path, root);
        assert_eq!(refusal(filesystem.open(&path, Stop::never())).code(), Code::Io);
        let is_folder = |name: &str| filesystem.is_folder(&root.join(name), Stop::never());
        assert!(filesystem.is_folder(&root, Stop::never()) && is_folder("sub"));
        assert!(!is_folder("config.json") && !is_folder("no"));
        let list = |folder: &Path, max: usize| filesystem.list(folder, max, Stop::never()).unwrap();
        let expected = if by_lists {
            ["config.json", "sub", "x.bin"]
        } else {
            ["config.json", "model.safetensors", "sub"]
        };
        assert_eq!(list(&root, 10), expected);
        assert_eq!(list(&root, 1).len(), 2);
        assert_eq!(list(&root.join("sub"), 10), ["a b.bin"]);
        assert_eq!(filesystem.is_file(&root.join("config.json")), !by_lists);
        assert!(!filesystem.is_file(&root.join("sub")));
        let file = filesystem.open(&root.join("sub/a b.bin"), Stop::never()).unwrap();
        assert_eq!(file.read_vec(0, 9, Stop::never()).unwrap(), bytes(9));
        let before = hub.count();
        assert_eq!(refusal(filesystem.open(&root.join("sub"), Stop::never())).code(), Code::Io);
        assert_eq!(hub.count() - before, usize::from(by_lists), "a known folder is not asked for");
        let error = refusal(filesystem.open(&root.join("../x"), Stop::never()));
        assert_eq!(error.code(), Code::InvalidArg);
    }
}

#[test]
fn errors_say_what_to_do() {
    let store = good(bytes(100));
    let hub = hub(&store);
    let refused = |url: &str, variables: &[(&str, &str)]| {
        let error = refusal(
            opened(url, &at(&hub, variables))
                .and_then(|(filesystem, path)| filesystem.open(&path, Stop::never())),
        );
        assert_eq!(error.code(), Code::Io, "{url}");
        let text = format!("{error} {error:?}");
        assert!(!text.contains("hf_secret"), "{text}");
        error.message().to_owned()
    };
    let token = [("HF_TOKEN", "hf_secret")];
    for (url, variables, says) in [
        ("hf://o/none/x", &[][..], "set HF_TOKEN to a token that may read it"),
        ("hf://o/none/x", &token, "the token (HF_TOKEN) may not read it"),
        ("hf://o/gated/x", &token, "accept its conditions at http://127.0.0.1"),
        ("hf://o/r@v9/x", &[], "no such revision"),
        ("hf://o/r/none", &[], "no such file in this revision"),
        ("hf://o/r/x", &[("HF_HUB_OFFLINE", "1")], "HF_HUB_OFFLINE, or the option offline"),
    ] {
        let message = refused(url, variables);
        assert!(message.contains(says), "{url}: {message}");
    }
    let bad = at(&hub, &[("HF_TOKEN", "a\nb")]);
    let error = refusal(opened("hf://o/r/x", &bad));
    assert!(error.code() == Code::InvalidArg && error.message().contains("HF_TOKEN"), "{error}");
    for endpoint in ["nonsense", "ftp://h/"] {
        let environment = HashMap::from([("HF_ENDPOINT".to_owned(), endpoint.to_owned())]);
        let error = refusal(opened("hf://o/r/x", &Options { environment: Some(environment), ..options() }));
        assert!(error.code() == Code::InvalidArg && error.message().contains("HF_ENDPOINT"), "{error}");
    }
}

#[test]
fn responses_not_from_a_hub_are_rejected() {
    for (headers, body, says) in [
        ("", &b"not json"[..], "does not respond like a hub"),
        ("", br#"{"sha":"main"}"#, "does not respond like a hub"),
        ("", b"\xff", "not text"),
        ("Content-Type: text/html\r\n", b"<html>", "web page"),
        ("Content-Encoding: gzip\r\n", b"{}", "Content-Encoding"),
    ] {
        let server =
            Server::new(move |_: &Request, stream: &mut TcpStream| say(stream, "200 OK", headers, body));
        let error = refusal(opened("hf://o/r/x", &at(&server, &[])));
        assert!(error.code() == Code::Io && error.message().contains(says), "{error}");
    }
    let endless = Server::new(|_: &Request, stream: &mut TcpStream| {
        use std::io::Write;
        crate::server::head(stream, "200 OK", "Connection: close\r\n");
        let (spaces, mut sent) = (vec![b' '; 1 << 16], 0);
        while sent < 100 << 20 && stream.write_all(&spaces).is_ok() {
            sent += 1 << 16;
        }
        assert!(sent < 100 << 20, "the reader went on reading");
        false
    });
    let error = refusal(opened("hf://o/r/x", &at(&endless, &[])));
    assert!(error.message().contains("exceeds 16777216 bytes"), "{error}");
}

#[test]
fn tokens_are_found_where_the_hub_client_stores_them() {
    let store = good(bytes(100));
    let hub = hub(&store);
    let folder = std::env::temp_dir().join(format!("ztensor-hub-{}", std::process::id()));
    let much = "x".repeat(5000);
    for (relative, token) in [
        ("home/token", "hf_home"),
        (".cache/huggingface/token", "hf_cache"),
        ("own", " hf_own\n"),
        ("long", &*much),
    ] {
        let path = folder.join(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, token).unwrap();
    }
    let [home, hf_home, own, long] =
        ["", "home", "own", "long"].map(|name| folder.join(name).to_str().unwrap().to_owned());
    for (variables, token) in [
        (&[("HOME", &*home)][..], Some("Bearer hf_cache")),
        (&[("HOME", &home), ("HF_HOME", &hf_home)], Some("Bearer hf_home")),
        (&[("HF_HOME", &hf_home), ("HF_TOKEN_PATH", &own)], Some("Bearer hf_own")),
        (&[("HF_HOME", &hf_home), ("HF_TOKEN", "hf_set")], Some("Bearer hf_set")),
        (&[("HF_HOME", &hf_home), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")], None),
        (&[("HF_HOME", &home)], None),
        (&[("HF_TOKEN_PATH", &long)], None),
    ] {
        let before = hub.count();
        opened("hf://o/r", &at(&hub, variables)).unwrap();
        assert_eq!(hub.requests()[before].header("authorization"), token, "{variables:?}");
    }
    let headers = vec![("Authorization".into(), "Bearer mine".into())];
    let before = hub.count();
    opened("hf://o/r", &Options { headers, ..at(&hub, &[("HF_TOKEN", "hf_set")]) }).unwrap();
    assert_eq!(hub.requests()[before].header("authorization"), Some("Bearer mine"));
    std::fs::remove_dir_all(folder).unwrap();
}

/// The cache of the hub's own clients: a folder that is deleted at the end.
struct Cache(PathBuf);

impl Cache {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("ztensor-hub-cache-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Self(folder)
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.0.join("models--o--r").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// A file of a commit, which is a link to a blob where the system has links.
    fn file(&self, commit: &str, name: &str, blob: &str, bytes: &[u8]) {
        self.write(&format!("blobs/{blob}"), bytes);
        let link = self.0.join("models--o--r/snapshots").join(commit).join(name);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(self.0.join("models--o--r/blobs").join(blob), link).unwrap();
        #[cfg(not(unix))]
        std::fs::write(link, bytes).unwrap();
    }

    fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn is_local(filesystem: &Arc<dyn Filesystem>, path: &Path) -> bool {
    filesystem.open(path, Stop::never()).unwrap().local().is_some()
}

#[test]
fn cached_files_are_opened_from_the_cache() {
    let store = good(bytes(4 << 20));
    let hub = hub(&store);
    let cache = Cache::new("opened");
    cache.write("refs/main", COMMIT.as_bytes());
    cache.file(COMMIT, "config.json", "a", b"{}      ");
    cache.file(COMMIT, "sub/a b.bin", "b", &bytes(9));
    let at_commit = |name: &str| format!("hf://o/r@{COMMIT}/{name}");
    let variables = [("HF_HUB_CACHE", cache.text())];
    let options = at(&hub, &variables);
    // By commit without a request, except for the list of a folder.
    let (filesystem, path) = opened(&at_commit("config.json"), &options).unwrap();
    assert!(is_local(&filesystem, &path));
    let folder = PathBuf::from(format!("hf://o/r@{COMMIT}"));
    assert!(filesystem.is_folder(&folder, Stop::never()));
    assert_eq!(hub.count(), 0);
    assert_eq!(filesystem.list(&folder, 10, Stop::never()).unwrap(), ["config.json", "sub", "x.bin"]);
    assert_eq!((hub.count(), filesystem.list_warning(&folder)), (3, None));
    // The cache alone, with a warning.
    let offline = Options { offline: true, ..at(&hub, &variables) };
    let closed = Server::new(|_: &Request, _: &mut TcpStream| false);
    let unreachable = Options { retries: 0, ..at(&closed, &variables) };
    for options in [offline, unreachable] {
        let (filesystem, _) = opened(&at_commit("config.json"), &options).unwrap();
        assert_eq!(filesystem.list_warning(&folder), None);
        assert_eq!(filesystem.list(&folder, 10, Stop::never()).unwrap(), ["config.json", "sub"]);
        assert!(filesystem.list_warning(&folder).unwrap().contains("its cache may not have all files"));
    }
    let before = hub.count();
    // By branch with one.
    let (filesystem, path) = opened("hf://o/r/sub/a b.bin", &options).unwrap();
    assert!(is_local(&filesystem, &path));
    assert_eq!(hub.count(), before + 1);
    assert!(hub.requests()[before].path.ends_with("/revision/main?blobs=true"));
    // What is not there is requested.
    let model = PathBuf::from(at_commit("model.safetensors"));
    assert!(!is_local(&filesystem, &model));
    // Offline, no request is sent, by each option.
    let before = hub.count();
    for (options, url) in [
        (at(&hub, &[("HF_HUB_CACHE", cache.text()), ("HF_HUB_OFFLINE", "1")]), "hf://o/r/config.json"),
        (Options { offline: true, ..at(&hub, &variables) }, "hf://o/r@main/config.json"),
    ] {
        let (filesystem, path) = opened(url, &options).unwrap();
        assert!(is_local(&filesystem, &path));
        let refused = filesystem.open(&model, Stop::never()).err().unwrap();
        assert_eq!(refused.code(), Code::Io);
        assert!(refused.to_string().contains("HF_HUB_OFFLINE"), "{refused}");
        assert_eq!(opened("hf://o/other", &options).err().map(|error| error.code()), Some(Code::Io));
    }
    assert_eq!(hub.count(), before);
    // And never where it is not.
    let (filesystem, path) =
        opened(&at_commit("config.json"), &Options { hub_cache: false, ..at(&hub, &variables) }).unwrap();
    assert!(!is_local(&filesystem, &path));
}

#[test]
fn the_cache_is_found_by_each_environment_variable() {
    let cache = Cache::new("homes");
    for (name, folder) in [
        ("HF_HUB_CACHE", ""),
        ("HUGGINGFACE_HUB_CACHE", ""),
        ("HF_HOME", "hub"),
        ("XDG_CACHE_HOME", "huggingface/hub"),
        ("HOME", ".cache/huggingface/hub"),
    ] {
        let own = Cache(cache.0.join(name).join(folder));
        own.file(COMMIT, "config.json", "a", b"{}");
        let variables = [(name.to_owned(), cache.0.join(name).to_str().unwrap().to_owned())];
        let options =
            Options { environment: Some(variables.into_iter().collect()), offline: true, ..options() };
        let (filesystem, path) = opened(&format!("hf://o/r@{COMMIT}/config.json"), &options).unwrap();
        assert!(is_local(&filesystem, &path), "{name}");
    }
    // A variable that no shell has expanded.
    for (name, value, folder) in [("HF_HUB_CACHE", "~/a", "a"), ("HF_HOME", "~/b", "b/hub")] {
        let own = Cache(cache.0.join(folder));
        own.file(COMMIT, "config.json", "a", b"{}");
        let variables = [("HOME", cache.text()), (name, value)];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let options =
            Options { environment: Some(variables.into_iter().collect()), offline: true, ..options() };
        let (filesystem, path) = opened(&format!("hf://o/r@{COMMIT}/config.json"), &options).unwrap();
        assert!(is_local(&filesystem, &path), "{name}");
    }
}

#[test]
fn incomplete_blobs_and_invalid_references_are_ignored() {
    let store = good(bytes(4 << 20));
    let hub = hub(&store);
    let cache = Cache::new("partial");
    cache.file(COMMIT, "config.json", "a.incomplete", b"{}");
    cache.file(COMMIT, "sub/a b.bin", "b", &bytes(3));
    std::fs::create_dir_all(cache.0.join("models--o--r/snapshots").join(COMMIT).join("folder.bin")).unwrap();
    cache.write(&format!(".no_exist/{COMMIT}/gone.json"), b"");
    let options = at(&hub, &[("HF_HUB_CACHE", cache.text())]);
    let (filesystem, path) = opened(&format!("hf://o/r@{COMMIT}/config.json"), &options).unwrap();
    assert!(!is_local(&filesystem, &path));
    let before = hub.count();
    let gone = PathBuf::from(format!("hf://o/r@{COMMIT}/gone.json"));
    let missing = filesystem.open(&gone, Stop::never()).err().unwrap();
    assert!(missing.to_string().contains("no such file"), "{missing}");
    assert_eq!(hub.count(), before);
    let offline = Options { offline: true, ..at(&hub, &[("HF_HUB_CACHE", cache.text())]) };
    for commit in
        ["", "main", "../../../../etc/passwd", &"0".repeat(300), "z123456789abcdef0123456789abcdef01234567"]
    {
        cache.write("refs/main", commit.as_bytes());
        assert!(opened("hf://o/r/sub/a b.bin", &offline).is_err(), "{commit}");
    }
    cache.write("refs/main", format!("{COMMIT}\n").as_bytes());
    let (filesystem, path) = opened("hf://o/r/sub/a b.bin", &offline).unwrap();
    assert!(is_local(&filesystem, &path));
    assert!(filesystem.open(&PathBuf::from(format!("hf://o/r@{COMMIT}/folder.bin")), Stop::never()).is_err());
}

#[test]
fn a_cached_blob_of_the_wrong_size_is_requested_again() {
    let hub = Server::new(move |request: &Request, stream: &mut TcpStream| {
        if request.path.contains("/revision/") {
            let info = format!(r#"{{"sha":"{COMMIT}","siblings":[{{"rfilename":"x.bin","size":9}}]}}"#);
            return say(stream, "200 OK", "", info.as_bytes());
        }
        part(request, stream, &bytes(9), TAG)
    });
    let cache = Cache::new("size");
    cache.file(COMMIT, "x.bin", "x", &bytes(5));
    let (filesystem, path) = opened("hf://o/r/x.bin", &at(&hub, &[("HF_HUB_CACHE", cache.text())])).unwrap();
    assert!(!is_local(&filesystem, &path));
    cache.write("blobs/x", &bytes(9));
    #[cfg(unix)]
    assert!(is_local(&filesystem, &path));
}

#[test]
fn an_unreachable_hub_names_the_cached_commit() {
    let cache = Cache::new("unreachable");
    cache.write("refs/main", COMMIT.as_bytes());
    let closed = Server::new(|_: &Request, _: &mut TcpStream| false);
    let options = Options { retries: 0, ..at(&closed, &[("HF_HUB_CACHE", cache.text())]) };
    let error = opened("hf://o/r/x.bin", &options).err().unwrap();
    assert!(error.to_string().contains(COMMIT) && error.to_string().contains("HF_HUB_OFFLINE"), "{error}");
}
