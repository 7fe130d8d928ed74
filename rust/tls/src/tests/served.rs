//! What is served: versions, protocols, names, and keys of each kind.

use std::sync::{Arc, Mutex};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error as TlsError, ProtocolVersion, RootCertStore, SignatureScheme,
    SupportedCipherSuite,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::support::{Authority, connect, served, settings};
use crate::{TlsServer, TlsSettings, UnknownNames, Version};

/// Takes any certificate, whatever its names, and keeps the OCSP response that came with it.
#[derive(Debug, Default)]
pub(super) struct AnyName(Mutex<Vec<u8>>);

impl AnyName {
    pub(super) fn staple(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        staple: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        *self.0.lock().unwrap() = staple.to_vec();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let provider = crate::provider();
        verify_tls12_signature(message, certificate, signature, &provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let provider = crate::provider();
        verify_tls13_signature(message, certificate, signature, &provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        crate::provider().signature_verification_algorithms.supported_schemes()
    }
}

#[test]
fn a_client_gets_what_it_names_in_the_newest_version_and_the_first_protocol() {
    let authority = Authority::new();
    let server = TlsServer::new(settings(vec![authority.write("a", &["a.example"])])).unwrap();
    let mut client = authority.client(None);
    client.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
    let ends = connect(server.config(&[]), &Arc::new(client), "a.example").unwrap();
    assert_eq!(ends.server.protocol_version(), Some(ProtocolVersion::TLSv1_3));
    assert_eq!(ends.server.alpn_protocol(), Some(&b"h2"[..]));
    assert_eq!(ends.server.server_name(), Some("a.example"));
    assert_eq!(server.config(&[]).max_early_data_size, 0);
}

#[test]
fn an_exact_name_goes_before_a_wildcard_and_a_wildcard_before_the_default() {
    let authority = Authority::new();
    let pairs = [("default", "default.example"), ("wild", "*.b.example"), ("exact", "a.b.example")];
    let pairs = pairs.map(|(file, name)| authority.write(file, &[name]));
    let server = TlsServer::new(settings(pairs.to_vec())).unwrap();
    let asked = |name| served(&server, &authority, name);
    assert_eq!(asked("a.b.example"), ["a.b.example"]);
    assert_eq!(asked("A.B.example"), ["a.b.example"]);
    assert_eq!(asked("c.b.example"), ["*.b.example"]);
    assert_eq!(asked("C.B.EXAMPLE"), ["*.b.example"]);
    for other in ["b.example", "d.c.b.example", "other.example", "192.0.2.1"] {
        assert_eq!(asked(other), ["default.example"], "{other}");
    }
}

#[test]
fn a_client_that_names_no_host_of_ours_is_refused_if_the_site_says_so() {
    let authority = Authority::new();
    let pairs =
        vec![authority.write("a", &["a.example", "192.0.2.1"]), authority.write("b", &["*.b.example"])];
    let server =
        TlsServer::new(TlsSettings { unknown_names: UnknownNames::Refuse, ..settings(pairs) }).unwrap();
    assert_eq!(served(&server, &authority, "x.b.example"), ["*.b.example"]);
    for other in ["b.example", "other.example", "192.0.2.1"] {
        assert_eq!(served(&server, &authority, other), [""; 0], "{other}");
    }
    assert_eq!(server.refusal(Some("a.example")), None);
    assert_eq!(server.refusal(Some("other.example")), Some([21, 3, 3, 0, 2, 2, 112]));
    assert_eq!(server.refusal(None), Some([21, 3, 3, 0, 2, 2, 109]));
}

#[test]
fn aes_128_goes_first_unless_the_client_prefers_chacha20() {
    let authority = Authority::new();
    let server = TlsServer::new(settings(vec![authority.write("a", &["a.example"])])).unwrap();
    let agreed = |version, first: &str| {
        let mut provider = CryptoProvider::clone(&crate::provider());
        provider.cipher_suites.sort_by_key(|suite| !suite.suite().as_str().unwrap().contains(first));
        let suites: Vec<_> = provider.cipher_suites.iter().map(SupportedCipherSuite::suite).collect();
        let mut roots = RootCertStore::empty();
        roots.add(authority.issuer.der().clone()).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let ends = connect(server.config(&suites), &Arc::new(client), "a.example").unwrap();
        ends.server.negotiated_cipher_suite().unwrap().suite().as_str().unwrap()
    };
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for (first, chosen) in [("AES_128", "AES_128"), ("AES_256", "AES_128"), ("CHACHA20", "CHACHA20")] {
            let suite = agreed(version, first);
            assert!(suite.contains(chosen), "{first} first gives {suite}");
        }
    }
}

#[test]
fn a_site_of_tls_1_3_takes_no_client_of_1_2() {
    let authority = Authority::new();
    let pairs = vec![authority.write("a", &["a.example"])];
    let mut client = authority.client(None);
    client.alpn_protocols = vec![b"other".to_vec()];
    let old = Arc::new(authority.client_of_tls_1_2());
    let both = TlsServer::new(settings(pairs.clone())).unwrap();
    assert!(connect(both.config(&[]), &Arc::new(client), "a.example").is_err(), "no protocol in common");
    let ends = connect(both.config(&[]), &old, "a.example").unwrap();
    assert_eq!(ends.server.protocol_version(), Some(ProtocolVersion::TLSv1_2));
    let newest = TlsServer::new(TlsSettings { minimum: Version::Tls13, ..settings(pairs) }).unwrap();
    assert!(connect(newest.config(&[]), &old, "a.example").is_err());
}
