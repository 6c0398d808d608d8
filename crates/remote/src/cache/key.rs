//! Names of cached copies, derived from file and version without revealing either.

use reqwest::Url;
use ztensor_core::codecs::digest::Algorithm;

/// Returns what identifies the file of a URL, without credentials: the URL with the query parameters that are not signatures. Signatures
/// differ each time, and the rest of a query may select the file.
pub fn location(url: &Url) -> String {
    let mut location = url.clone();
    let _ = location.set_username("");
    let _ = location.set_password(None);
    location.set_fragment(None);
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let names: Vec<String> = pairs.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    let signs = |name: &str| {
        let has = |other: &str| names.iter().any(|name| name == other);
        ["x-amz-", "x-goog-", "x-oss-"].iter().any(|prefix| name.starts_with(prefix))
            || (has("signature") && OLDER.contains(&name))
            || (has("sig") && has("se") && AZURE.contains(&name))
    };
    location.set_query(None);
    let retained = pairs.iter().zip(&names).filter(|(_, name)| !signs(name));
    let mut text = String::from(location);
    for ((name, value), _) in retained {
        text.push('\n');
        text.push_str(name);
        text.push('=');
        text.push_str(value);
    }
    text
}

/// Parameters of older Amazon and Google signatures.
const OLDER: [&str; 6] =
    ["signature", "expires", "policy", "key-pair-id", "awsaccesskeyid", "googleaccessid"];

/// Parameters of Azure's shared access signatures.
const AZURE: [&str; 14] =
    ["sig", "se", "st", "sp", "sv", "sr", "sip", "spr", "skoid", "sktid", "skt", "ske", "sks", "skv"];

/// Returns the name of a copy: SHA-256 in hex digits.
pub fn name(location: &str, version: &[u8], length: u64) -> String {
    let mut hasher = Algorithm::Sha256.hasher();
    for part in [b"ztensor cache 2".as_slice(), location.as_bytes(), version, &length.to_le_bytes()] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let digest = Algorithm::Sha256.digest(hasher);
    digest.text().rsplit(':').next().unwrap_or_default().to_owned()
}

/// Returns whether a string is such a name.
pub fn is_name(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_does_not_make_another_file() {
        let of = |url: &str| location(&Url::parse(url).unwrap());
        let plain = of("https://h/m.bin");
        for same in [
            "https://h/m.bin#part",
            "https://me:secret@h/m.bin",
            "https://h/m.bin?X-Amz-Signature=a&X-Amz-Date=b",
            "https://h/m.bin?Expires=1&Signature=a&Key-Pair-Id=b",
            "https://h/m.bin?sv=1&sp=r&se=2&sig=a",
        ] {
            assert_eq!(of(same), plain, "{same}");
        }
        for other in [
            "https://h/n.bin",
            "https://g/m.bin",
            "https://h/m.bin?id=2",
            "https://h/m.bin?sp=r",
            "https://h/m.bin?id=2&sig=a&se=1",
        ] {
            assert_ne!(of(other), plain, "{other}");
        }
        assert_ne!(of("https://h/m?id=1"), of("https://h/m?id=2"));
        assert_ne!(of("https://h/m?signature=1"), of("https://h/m?id=2&signature=1"));
    }

    #[test]
    fn each_file_version_and_length_has_its_own_name() {
        let names = [
            name("a", b"1", 1),
            name("b", b"1", 1),
            name("a", b"2", 1),
            name("a", b"1", 2),
            name("a1", b"", 1),
        ];
        assert!(names.iter().all(|name| is_name(name)));
        let different: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
        for bad in ["", "lock", "../../etc/passwd", &"A".repeat(64), &"g".repeat(64)] {
            assert!(!is_name(bad));
        }
    }
}
