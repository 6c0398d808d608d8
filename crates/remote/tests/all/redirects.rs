//! Where redirects may lead, what is sent there, and proxies.

use std::collections::HashMap;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ztensor_core::error::Code;
use ztensor_core::work::Stop;
use ztensor_remote::{Options, StoreOptions};

use crate::server::{
    Request, Server, TAG, bytes, good, head, open_with, options, part, redirect, refusal, say,
};

const MIB: u64 = 1 << 20;

fn with_secrets() -> Options {
    let headers = vec![("X-Key".into(), "secret".into()), ("Cookie".into(), "secret".into())];
    Options { headers, ..options() }
}

#[test]
fn redirects_to_another_origin_get_no_credentials() {
    let cdn = good(bytes(4 << 20));
    let to = cdn.url("/stored?X-Signature=s");
    let server = Server::new(move |_: &Request, stream: &mut TcpStream| redirect(stream, &to));
    let url = server.url("/m").replace("http://", "http://me:secret@");
    let (_, path, source) = open_with(&url, &with_secrets()).unwrap();
    assert_eq!(path.to_str().unwrap(), server.url("/m"));
    assert!(source.read_vec(MIB, MIB, Stop::never()).unwrap() == bytes(4 << 20)[1 << 20..2 << 20]);
    for request in server.requests() {
        assert_eq!(request.header("x-key"), Some("secret"));
        assert_eq!(request.header("authorization"), Some("Basic bWU6c2VjcmV0"));
    }
    for request in cdn.requests() {
        assert!(!request.headers.values().any(|value| value.contains("secret")), "{request:?}");
        for name in ["authorization", "cookie", "x-key", "referer"] {
            assert_eq!(request.header(name), None);
        }
        assert_eq!(request.header("accept-encoding"), Some("identity"));
        assert_eq!(request.path, "/stored?X-Signature=s");
    }
    // The second read goes where the first one led.
    assert_eq!((server.count(), cdn.count()), (1, 2));
}

/// A short page is read, so that its connection serves again; of a long one the connection is closed.
#[test]
fn bodies_of_redirects_are_not_downloaded() {
    let server = Server::new(|request: &Request, stream: &mut TcpStream| {
        if request.path.starts_with("/to/") {
            return part(request, stream, &bytes(100), TAG);
        }
        // The page comes later than its head: it is not in memory when the head is read.
        head(stream, "302 Found", &format!("Location: /to{}\r\nContent-Length: 5\r\n", request.path));
        std::thread::sleep(std::time::Duration::from_millis(5));
        stream.write_all(b"moved").is_ok()
    });
    // A connection is free a moment after its body was read, so that a request right after it may need another one. If a redirect closed its
    // connection, each open would need another one.
    let needs_none = (0..1000).any(|number| {
        let before = server.connections();
        open_with(&server.url(&format!("/{number}")), &options()).unwrap();
        number > 0 && server.connections() == before
    });
    assert!(needs_none, "{} connections for {} requests", server.connections(), server.count());
    let server = Server::new(|request: &Request, stream: &mut TcpStream| {
        if request.path == "/to" {
            return part(request, stream, &bytes(100), TAG);
        }
        head(stream, "302 Found", "Location: /to\r\nContent-Length: 1000000000\r\n");
        let (mut sent, page) = (0, vec![7; 1 << 16]);
        while sent < 64 << 20 && stream.write_all(&page).is_ok() {
            sent += 1 << 16;
        }
        assert!(sent < 64 << 20, "the page was read");
        false
    });
    open_with(&server.url("/m"), &options()).unwrap();
    assert_eq!((server.count(), server.connections()), (2, 2));
}

#[test]
fn files_on_another_server_are_requested_without_credentials() {
    let (server, other) = (good(bytes(10)), good(bytes(10)));
    let url = server.url("/m").replace("http://", "http://me:secret@");
    let (filesystem, _, _) = open_with(&url, &with_secrets()).unwrap();
    filesystem.open(Path::new(&other.url("/m")), Stop::never()).unwrap();
    let asked = other.requests();
    assert!(!asked[0].headers.values().any(|value| value.contains("secret")), "{asked:?}");
    assert_eq!(asked[0].header("authorization"), None);
}

#[test]
fn redirects_to_the_same_origin_keep_credentials() {
    let server = Server::new(|request: &Request, stream: &mut TcpStream| match &*request.path {
        "/m" => redirect(stream, "renamed/m"),
        _ => part(request, stream, &bytes(100), TAG),
    });
    open_with(&server.url("/m"), &with_secrets()).unwrap();
    let asked = server.requests();
    assert_eq!(asked.iter().map(|request| &*request.path).collect::<Vec<_>>(), ["/m", "/renamed/m"]);
    assert_eq!(asked[1].header("x-key"), Some("secret"));
}

#[test]
fn expired_signed_urls_are_renewed() {
    for status in ["403 Forbidden", "401 Unauthorized", "400 Bad Request", "404 Not Found"] {
        let expired = Arc::new(AtomicBool::new(false));
        let (seen, body) = (Arc::clone(&expired), bytes(4 << 20));
        let cdn = Server::new(move |request: &Request, stream: &mut TcpStream| {
            // The first signature ends, the second one holds.
            if seen.load(Ordering::Relaxed) && request.path.ends_with("=0") {
                return say(stream, status, "", b"expired");
            }
            part(request, stream, &body, TAG)
        });
        let to = cdn.url("/stored?signature=");
        let server = Server::new(move |request: &Request, stream: &mut TcpStream| {
            redirect(stream, &format!("{to}{}", request.number))
        });
        let (_, _, source) = open_with(&server.url("/m"), &options()).unwrap();
        expired.store(true, Ordering::Relaxed);
        for at in 1..4 {
            source.read_vec(at * MIB, MIB, Stop::never()).unwrap();
        }
        let paths: Vec<_> = cdn.requests().iter().map(|request| request.path.clone()).collect();
        assert_eq!(
            paths.join(" "),
            "/stored?signature=0 /stored?signature=0 /stored?signature=1 /stored?signature=1 /stored?signature=1"
        );
        assert_eq!(server.count(), 2);
    }
    // One that never holds is an error, not a circle.
    let cdn = Server::new(|_: &Request, stream: &mut TcpStream| say(stream, "403 Forbidden", "", b""));
    let to = cdn.url("/stored?signature=hidden");
    let server = Server::new(move |_: &Request, stream: &mut TcpStream| redirect(stream, &to));
    let error = refusal(open_with(&server.url("/m"), &options()));
    assert!(error.message().contains("the server it redirects to, 127.0.0.1, answered 403"), "{error}");
    assert!(!error.message().contains("hidden"));
}

/// Options by which all but this machine's own names go by a proxy, so that a public server can be played here.
fn by(proxy: &Server, none: &str) -> Options {
    let proxy = format!("http://user:secret@{}", proxy.address);
    let variables = [("HTTP_PROXY", &*proxy), ("NO_PROXY", none)];
    let environment = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Options { environment: Some(HashMap::from(environment)), retries: 0, ..options() }
}

#[test]
fn proxies_get_the_whole_url() {
    let proxy = good(bytes(100));
    open_with("http://public.example/m?x", &by(&proxy, "")).unwrap();
    let asked = &proxy.requests()[0];
    assert_eq!(asked.path, "http://public.example/m?x");
    assert_eq!(asked.header("proxy-authorization"), Some("Basic dXNlcjpzZWNyZXQ="));
    let direct = good(bytes(100));
    open_with(&direct.url("/m"), &by(&proxy, "127.0.0.1")).unwrap();
    assert_eq!((proxy.count(), direct.count()), (1, 1));
    let refuses = Server::new(|_: &Request, stream: &mut TcpStream| {
        say(stream, "407 Proxy Authentication Required", "", b"")
    });
    let error = refusal(open_with("http://public.example/m", &by(&refuses, "")));
    assert!(error.message().contains("HTTP_PROXY") && !error.message().contains("secret"), "{error}");
    // A tunnel that is refused.
    let variables = HashMap::from([("HTTPS_PROXY".to_owned(), refuses.url(""))]);
    let error = refusal(open_with(
        "https://public.example/m",
        &Options { environment: Some(variables), ..options() },
    ));
    assert_eq!(error.code(), Code::Io, "{error}");
}

#[test]
fn redirects_from_public_to_private_addresses_are_rejected() {
    let secret = good(bytes(1000));
    let port = secret.address.port();
    let hosts = ["127.0.0.1", "localhost", "127.1", "2130706433", "[::ffff:127.0.0.1]", "0"];
    for host in hosts {
        let to = format!("http://{host}:{port}/latest/meta-data");
        let public = Server::new(move |_: &Request, stream: &mut TcpStream| redirect(stream, &to));
        let options = by(&public, "127.0.0.1,localhost,::ffff:127.0.0.1,0.0.0.0");
        let error = refusal(open_with("http://public.example/m", &options));
        assert_eq!(error.code(), Code::Io, "{host}");
        assert!(error.message().contains("allowPrivate"), "{host}: {error}");
        // By a proxy as well.
        let error = refusal(open_with("http://public.example/m", &by(&public, "")));
        assert!(error.message().contains("allowPrivate"), "{host}: {error}");
    }
    assert_eq!(secret.count(), 0);
    let to = secret.url("/m");
    let public = Server::new(move |_: &Request, stream: &mut TcpStream| redirect(stream, &to));
    let allowed = Options { allow_private: true, ..by(&public, "127.0.0.1") };
    open_with("http://public.example/m", &allowed).unwrap();
    assert_eq!(secret.count(), 1);
}

/// Their clients would follow by themselves, with the token of the session and what is uploaded.
#[test]
fn redirects_of_stores_are_not_followed() {
    let other = good(bytes(4 << 20));
    let filesystem =
        [other.url("/x?secret"), "https://other.example/secret".to_owned(), "/secret".to_owned()];
    for scheme in ["s3", "gs", "az"] {
        for status in [
            "301 Moved Permanently",
            "302 Found",
            "303 See Other",
            "307 Temporary Redirect",
            "308 Permanent Redirect",
        ] {
            for to in &filesystem {
                let location = format!("Location: {to}\r\n");
                let server = Server::new(move |_: &Request, stream: &mut TcpStream| {
                    say(stream, status, &location, b"secret")
                });
                let store = StoreOptions {
                    endpoint: Some(server.url(if scheme == "az" { "/account" } else { "" })),
                    account: Some("account".to_owned()),
                    region: Some("region".to_owned()),
                    allow_http: true,
                    anonymous: true,
                    ..StoreOptions::default()
                };
                let error =
                    refusal(open_with(&format!("{scheme}://bucket/m"), &Options { store, ..options() }));
                assert_eq!(
                    (error.code(), error.status().map(u64::from)),
                    (Code::Io, status[..3].parse().ok()),
                    "{error}"
                );
                assert!(error.message().contains("is not followed"), "{scheme} {status} {to}: {error}");
                assert!(!error.message().contains("secret"), "{error}");
                assert_eq!(server.count(), 1, "{scheme} {status} {to}");
            }
        }
    }
    assert_eq!(other.count(), 0);
}
