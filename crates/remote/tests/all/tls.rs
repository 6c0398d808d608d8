//! TLS: whose certificates are trusted, and that nothing falls back to plain text.

use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd,
};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use ztensor_core::error::Code;
use ztensor_core::work::Stop;
use ztensor_remote::Options;

use crate::server::{bytes, open_with, options, read_request, refusal};

/// A server with a certificate for a name, and the authority that made it.
fn secure(name: &str, answer: fn(&str) -> (String, Vec<u8>)) -> (u16, String) {
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    (serving(&certificate, &key, answer), authority.pem())
}

/// A server with a certificate. Returns its port.
fn serving(certificate: &Certificate, key: &KeyPair, answer: fn(&str) -> (String, Vec<u8>)) -> u16 {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let config = Arc::clone(&config);
            thread::spawn(move || {
                let connection = ServerConnection::new(config).unwrap();
                let mut stream = StreamOwned::new(connection, stream.unwrap());
                let log = Mutex::default();
                while let Some(request) = read_request(&mut BufReader::new(OneByOne(&mut stream)), &log) {
                    let (head, body) = answer(&request.headers.get("range").cloned().unwrap_or_default());
                    if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).is_err() {
                        break;
                    }
                }
            });
        }
    });
    port
}

/// Reads no further than it must, so that nothing of the next request is lost.
struct OneByOne<'s, S>(&'s mut S);

impl<S: Read> Read for OneByOne<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer.get_mut(..1).unwrap_or_default())
    }
}

fn file(range: &str) -> (String, Vec<u8>) {
    let body = bytes(2 << 20);
    let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
    let last = last.min(body.len() - 1);
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {first}-{last}/{}\r\nContent-Length: {}\r\n\r\n",
        body.len(),
        last - first + 1
    );
    (head, body[first..=last].to_vec())
}

fn trusting(authority: &str, name: &str) -> Options {
    let path = std::env::temp_dir().join(format!("ztensor-tls-{name}-{}.pem", std::process::id()));
    std::fs::write(&path, authority).unwrap();
    let variables = [("NODE_EXTRA_CA_CERTS".to_owned(), path.to_str().unwrap().to_owned())];
    Options { environment: Some(HashMap::from(variables)), ..options() }
}

#[test]
fn a_custom_certificate_authority_is_trusted() {
    let (port, authority) = secure("localhost", file);
    let url = format!("https://localhost:{port}/m");
    let (_, _, source) = open_with(&url, &trusting(&authority, "own")).unwrap();
    assert!(source.read_vec(1 << 20, 1 << 20, Stop::never()).unwrap() == bytes(2 << 20)[1 << 20..]);
    // No other client trusts it, and not for another name.
    let error = refusal(open_with(&url, &options()));
    assert_eq!(error.code(), Code::Io);
    assert!(error.message().contains("NODE_EXTRA_CA_CERTS"), "{error}");
    let error = refusal(open_with(&format!("https://127.0.0.1:{port}/m"), &trusting(&authority, "name")));
    assert!(error.message().contains("is not trusted"), "{error}");
}

/// As `openssl req -x509` makes it, with or without the mark of an authority.
#[test]
fn a_certificate_of_the_server_itself_is_trusted_for_its_names_and_dates() {
    for is_ca in [IsCa::NoCa, IsCa::ExplicitNoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
        for (from, until, says) in
            [(2020, 2120, None), (2020, 2021, Some("Expired")), (2119, 2120, Some("NotValidYet"))]
        {
            let mut own = CertificateParams::new(["localhost".to_owned()]).unwrap();
            own.is_ca = is_ca;
            (own.not_before, own.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(until, 1, 1));
            let key = KeyPair::generate().unwrap();
            let certificate = own.self_signed(&key).unwrap();
            let port = serving(&certificate, &key, file);
            let trusting = trusting(&certificate.pem(), "itself");
            let url = format!("https://localhost:{port}/m");
            match says {
                None => assert_eq!(open_with(&url, &trusting).unwrap().2.length(), 2 << 20),
                Some(says) => {
                    let error = refusal(open_with(&url, &trusting));
                    assert!(error.message().contains(says), "{is_ca:?} {error}");
                }
            }
            let other = refusal(open_with(&format!("https://127.0.0.1:{port}/m"), &trusting));
            assert!(other.message().contains("is not trusted"), "{other}");
            assert!(refusal(open_with(&url, &options())).message().contains("is not trusted"));
        }
    }
}

#[test]
fn a_redirect_to_plain_text_is_not_followed() {
    let answer = |_: &str| {
        let head = "HTTP/1.1 302 Found\r\nLocation: http://localhost:9/m\r\nContent-Length: 0\r\n\r\n";
        (head.to_owned(), Vec::new())
    };
    let (port, authority) = secure("localhost", answer);
    let error = refusal(open_with(&format!("https://localhost:{port}/m"), &trusting(&authority, "plain")));
    assert!(error.message().contains("from https: to http:"), "{error}");
}

#[test]
fn a_server_without_tls_is_an_error_for_https() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let error = refusal(open_with(&format!("https://127.0.0.1:{port}/m"), &options()));
    assert_eq!(error.code(), Code::Io);
    assert!(error.message().contains("no TLS connection"), "{error}");
    // It is not asked again, since the same would come of it.
    serving.join().unwrap();
}
