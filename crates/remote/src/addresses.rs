//! Classifies addresses as public, and resolves names to public addresses only, for redirects of public servers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Returns whether an address is reached over the public network, according to IANA's special-purpose address registries.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        // Shared address space of carriers (RFC 6598).
        || (a == 100 && (64..128).contains(&b))
        || (a, b, c) == (192, 0, 0)
        // Benchmarks (RFC 2544).
        || (a == 198 && (18..20).contains(&b)))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match parts {
        // IPv4 addresses: mapped, compatible (including :: and ::1), translated (RFC 6052), 6to4.
        [0, 0, 0, 0, 0, 0xffff | 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => embedded(high, low),
        // Local translation (RFC 8215), Teredo, documentation, and discard-only.
        [0x64, 0xff9b, 1, ..] | [0x2001, 0 | 0xdb8, ..] | [0x100, 0, 0, 0, ..] | [0x3fff, ..] => false,
        // Unique local (fc00::/7), link-local and site-local (fe80::/9), multicast (ff00::/8).
        [first, ..] => first < 0xfc00,
    }
}

/// Returns whether a URL names a private address or this machine without needing to resolve it.
pub fn names_private(url: &Url) -> bool {
    use_host(
        url,
        |address| !is_public(address),
        |name| {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        },
    )
}

fn use_host(url: &Url, address: impl Fn(IpAddr) -> bool, name: impl Fn(&str) -> bool) -> bool {
    let Some(host) = url.host_str() else { return false };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse().map_or_else(|_| name(host), address)
}

/// The error for a name with only private addresses.
#[derive(Debug)]
pub struct Private;

impl fmt::Display for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name has only addresses of private networks")
    }
}

impl std::error::Error for Private {}

/// Resolves names to public addresses only. The resolved addresses are the ones connected to, so that a name cannot change its address
/// between the check and the connection.
pub struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|address| is_public(address.ip())).collect();
            if public.is_empty() {
                return Err(Private.into());
            }
            let addresses: Addrs = Box::new(public.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_addresses_are_not_public() {
        let private = [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.0.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.9.9",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::808:808",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ];
        for address in private {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        let public = [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "2606:4700::1111",
            "2a00:1450:4001::200e",
        ];
        for address in public {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_url_names_this_machine_in_many_ways() {
        let private = [
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.0.0.1/",
            "http://0177.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:7f00:1]/",
            "http://0/",
            "http://169.254.169.254/latest/meta-data/",
            "http://１２７.0.0.1/",
        ];
        for url in private {
            assert!(names_private(&Url::parse(url).unwrap()), "{url}");
        }
        for url in ["https://huggingface.co/", "http://localhost.example/", "http://8.8.8.8/"] {
            assert!(!names_private(&Url::parse(url).unwrap()), "{url}");
        }
    }

    #[test]
    fn names_of_this_machine_have_no_public_address() {
        let resolved = crate::runtime::wait(ztensor_core::work::Stop::never(), async {
            let resolved = PublicOnly.resolve("localhost".parse().unwrap()).await;
            Ok(resolved.map(Iterator::count).map_err(|error| error.is::<Private>()))
        });
        assert_eq!(resolved.unwrap(), Err(true));
    }
}
