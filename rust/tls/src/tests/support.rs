//! What the tests share: authorities and certificates made on the spot, files, and connections in memory.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose, SignatureAlgorithm,
};
use rustls::client::Resumption;
use rustls::{
    ClientConfig, ClientConnection, Error as TlsError, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tempfile::TempDir;

use crate::{CertificateFiles, ClientAuth, TlsSettings, UnknownNames, Version};

/// Eight hours, as in Python.
pub(crate) const PERIOD: Duration = Duration::from_secs(8 * 3_600);

/// An authority, and a directory for its files.
pub(crate) struct Authority {
    pub(crate) issuer: CertifiedIssuer<'static, KeyPair>,
    pub(crate) directory: TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        Self::named("authority")
    }

    pub(crate) fn named(name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer, directory: TempDir::new().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A certificate and its key, as PEM.
    pub(crate) fn pem(&self, names: &[&str]) -> (String, String) {
        self.pem_of(names, &rcgen::PKCS_ECDSA_P256_SHA256, |_| ())
    }

    pub(crate) fn pem_of(
        &self,
        names: &[&str],
        algorithm: &'static SignatureAlgorithm,
        change: impl Fn(&mut CertificateParams),
    ) -> (String, String) {
        let key = KeyPair::generate_for(algorithm).unwrap();
        (self.signed(names, &key, change), key.serialize_pem())
    }

    /// A certificate of `key`, as PEM.
    pub(crate) fn signed(
        &self,
        names: &[&str],
        key: &KeyPair,
        change: impl Fn(&mut CertificateParams),
    ) -> String {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        params.signed_by(key, &self.issuer).unwrap().pem()
    }

    /// Writes a pair into `NAME.pem` and `NAME.key`.
    pub(crate) fn write(&self, name: &str, names: &[&str]) -> CertificateFiles {
        self.write_pem(name, &self.pem(names))
    }

    pub(crate) fn write_pem(&self, name: &str, (certificate, key): &(String, String)) -> CertificateFiles {
        let files = CertificateFiles {
            certificate: self.path(&format!("{name}.pem")),
            key: self.path(&format!("{name}.key")),
        };
        fs::write(&files.certificate, certificate).unwrap();
        fs::write(&files.key, key).unwrap();
        files
    }

    /// What a client has that trusts this authority.
    pub(crate) fn client(&self, identity: Option<&(String, String)>) -> ClientConfig {
        self.client_of(identity, rustls::ALL_VERSIONS)
    }

    pub(crate) fn client_of_tls_1_2(&self) -> ClientConfig {
        self.client_of(None, &[&rustls::version::TLS12])
    }

    pub(crate) fn client_of(
        &self,
        identity: Option<&(String, String)>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(crate::provider())
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            Some((certificate, key)) => {
                builder.with_client_auth_cert(vec![der(certificate)], key_der(key)).unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::in_memory_sessions(32);
        config
    }
}

pub(crate) fn der(pem: &str) -> CertificateDer<'static> {
    rustls_pki_types::pem::PemObject::from_pem_slice(pem.as_bytes()).unwrap()
}

pub(crate) fn key_der(pem: &str) -> PrivateKeyDer<'static> {
    rustls_pki_types::pem::PemObject::from_pem_slice(pem.as_bytes()).unwrap()
}

/// Settings of a site with `pairs`.
pub(crate) fn settings(pairs: Vec<CertificateFiles>) -> TlsSettings {
    TlsSettings {
        pairs,
        directory: None,
        unknown_names: UnknownNames::Default,
        minimum: Version::Tls12,
        protocols: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        clients: ClientAuth::Off,
        revoked: None,
        ticket_keys: None,
        ticket_period: PERIOD,
        name: "site".to_owned(),
    }
}

/// Both ends after a handshake.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) client: ClientConnection,
    pub(crate) server: ServerConnection,
}

/// A handshake over memory, up to the tickets.
pub(crate) fn connect(
    server: Arc<ServerConfig>,
    client: &Arc<ClientConfig>,
    name: &str,
) -> Result<Ends, TlsError> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let client = ClientConnection::new(Arc::clone(client), name).unwrap();
    let server = ServerConnection::new(server).unwrap();
    let mut ends = Ends { client, server };
    for _ in 0..10 {
        let sent = transfer(&mut ends)?;
        if !sent && !ends.client.is_handshaking() && !ends.server.is_handshaking() {
            break;
        }
    }
    assert!(!ends.client.is_handshaking() && !ends.server.is_handshaking());
    Ok(ends)
}

fn transfer(Ends { client, server }: &mut Ends) -> Result<bool, TlsError> {
    let (mut up, mut down) = (Vec::new(), Vec::new());
    while client.wants_write() {
        client.write_tls(&mut up).unwrap();
    }
    let mut unread = &up[..];
    while !unread.is_empty() {
        server.read_tls(&mut unread).unwrap();
        let result = server.process_new_packets();
        if result.is_err() {
            // The client sees the alert, and is asked for nothing.
            while server.wants_write() {
                server.write_tls(&mut down).unwrap();
            }
            client.read_tls(&mut &down[..]).unwrap();
            let _alert = client.process_new_packets();
        }
        result?;
    }
    while server.wants_write() {
        server.write_tls(&mut down).unwrap();
    }
    let mut unread = &down[..];
    while !unread.is_empty() {
        client.read_tls(&mut unread).unwrap();
        client.process_new_packets()?;
    }
    Ok(!up.is_empty() || !down.is_empty())
}

/// The names of the certificate that a client of `authority` gets that names `name`; none if it is refused.
pub(crate) fn served(server: &crate::TlsServer, authority: &Authority, name: &str) -> Vec<String> {
    let mut config = authority.client(None);
    config.dangerous().set_certificate_verifier(Arc::new(super::served::AnyName::default()));
    let ends = connect(server.config(&[]), &Arc::new(config), name);
    let Ok(ends) = ends else { return Vec::new() };
    let shown = &ends.client.peer_certificates().unwrap()[0];
    crate::Certificate::read(shown).unwrap().names.list()
}
