//! TLS with rustls, using the roots trusted by this machine and those configured for Node.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
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

impl ServerCertVerifier for Roots {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        self.verifier()?.verify_server_cert(certificate, intermediates, name, ocsp, now)
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
