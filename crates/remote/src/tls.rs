//! TLS with rustls, using the roots trusted by this machine and those configured for Node.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_platform_verifier::Verifier;
use ztensor_core::error::{Code, Error, Result};

use crate::options::Options;

/// Returns the TLS configuration. The roots are loaded with the first connection: that takes some ms, and a machine without roots can still
/// use plain HTTP.
pub fn config(options: &Options) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let extra = options.path("NODE_EXTRA_CA_CERTS").map(|path| certificates(&path)).unwrap_or_default();
    let roots = Roots { provider: Arc::clone(&provider), extra, verifier: OnceLock::new() };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(Code::Internal, format!("TLS: {error}")))?;
    Ok(config.dangerous().with_custom_certificate_verifier(Arc::new(roots)).with_no_client_auth())
}

/// Returns the certificates of a file; none if it cannot be read, as in Node, which only warns.
fn certificates(path: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(path).map(|found| found.flatten().collect()).unwrap_or_default()
}

/// The platform's verifier, created when it is first needed.
#[derive(Debug)]
struct Roots {
    provider: Arc<CryptoProvider>,
    extra: Vec<CertificateDer<'static>>,
    verifier: OnceLock<std::result::Result<Verifier, rustls::Error>>,
}

impl Roots {
    fn verifier(&self) -> std::result::Result<&Verifier, rustls::Error> {
        let make = || match self.extra.as_slice() {
            [] => Verifier::new(Arc::clone(&self.provider)),
            extra => Verifier::new_with_extra_roots(extra.iter().cloned(), Arc::clone(&self.provider)),
        };
        self.verifier.get_or_init(make).as_ref().map_err(Clone::clone)
    }
}

/// Checks a server's certificate that is trusted itself: only its name and its dates. The handshake proves that the server has its key.
fn itself(
    certificate: &CertificateDer<'_>,
    name: &ServerName<'_>,
    now: UnixTime,
) -> std::result::Result<ServerCertVerified, rustls::Error> {
    verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
    let (from, until) = validity(certificate).ok_or(CertificateError::BadEncoding)?;
    let now = now.as_secs();
    if now < from {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > until {
        return Err(CertificateError::Expired.into());
    }
    Ok(ServerCertVerified::assertion())
}

/// Returns the dates of a certificate, in seconds since 1970 (RFC 5280 §4.1: version, serial number, signature, issuer, validity).
fn validity(certificate: &[u8]) -> Option<(u64, u64)> {
    let (_, certificate, _) = element(certificate)?;
    let (_, mut rest, _) = element(certificate)?;
    let (tag, _, after) = element(rest)?;
    if tag == 0xa0 {
        rest = after;
    }
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    let (_, dates, _) = element(rest)?;
    let (tag, from, rest) = element(dates)?;
    let (until_tag, until, _) = element(rest)?;
    Some((seconds(tag, from)?, seconds(until_tag, until)?))
}

/// Returns the tag and the content of the first DER element, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 3))?;
            (digits.iter().fold(0, |length, &digit| length << 8 | usize::from(digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Returns a `UTCTime` (`YYMMDDhhmmssZ`) or a `GeneralizedTime` (`YYYYMMDDhhmmssZ`) in seconds since 1970, or 0 if it is earlier.
fn seconds(tag: u8, text: &[u8]) -> Option<u64> {
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |part: &[u8]| part.iter().fold(0_i64, |number, digit| number * 10 + i64::from(digit - b'0'));
    let (year, rest) = match (tag, digits.len()) {
        (0x17, 12) => {
            let (year, rest) = digits.split_at(2);
            let year = number(year);
            (year + if year < 50 { 2000 } else { 1900 }, rest)
        }
        (0x18, 14) => {
            let (year, rest) = digits.split_at(4);
            (number(year), rest)
        }
        _ => return None,
    };
    let [month, day, hour, minute, second] = [0, 2, 4, 6, 8].map(|at| rest.get(at..at + 2).map_or(0, number));
    // Days since 1970, by years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    u64::try_from((days * 24 + hour) * 3600 + minute * 60 + second).ok().or(Some(0))
}

impl ServerCertVerifier for Roots {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        match self.verifier()?.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // A certificate of the server itself, as Node takes it. The verifier accepts only authorities.
            Err(_) if self.extra.contains(certificate) => itself(certificate, name, now),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_certificates_are_read() {
        for (tag, text, expected) in [
            (0x17, "700101000000Z", Some(0)),
            (0x17, "260105123456Z", Some(1_767_616_496)),
            (0x17, "491231235959Z", Some(2_524_607_999)),
            (0x18, "20500101000000Z", Some(2_524_608_000)),
            (0x18, "20240229000000Z", Some(1_709_164_800)),
            (0x18, "99991231235959Z", Some(253_402_300_799)),
            (0x17, "500101000000Z", Some(0)),
            (0x17, "2601051234Z", None),
            (0x17, "260105123456", None),
            (0x18, "2026010512345xZ", None),
            (0x02, "260105123456Z", None),
        ] {
            assert_eq!(seconds(tag, text.as_bytes()), expected, "{text}");
        }
        assert_eq!(validity(b""), None);
        assert_eq!(validity(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
