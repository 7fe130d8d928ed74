//! TLS towards origins: the trusted roots, what this side shows of itself, and the client configurations that all engine
//! threads share.
//!
//! Verification cannot be turned off. Sessions are resumed, because a shared configuration holds their tickets; two
//! [`Tls`] with different roots therefore share nothing, and nor do two origins of which one is shown a certificate. `http/1.1` is
//! offered by ALPN, and `h2` where that is asked for; rustls refuses any other protocol that an origin picks.

use std::sync::Arc;

use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::endpoint::Endpoint;
use crate::error::{Code, Error, Result};
use crate::tls::{CertificateFiles, certified_key, provider};

/// The trusted root certificates.
#[derive(Debug, Clone)]
pub enum Roots {
    /// The operating system's store.
    System,
    /// Mozilla's, as compiled in.
    WebPki,
    /// Only these certificates.
    Pem(Vec<u8>),
}

/// A handle to the configuration; cloning it shares tickets and roots.
#[derive(Debug, Clone)]
pub struct Tls {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    roots: Roots,
    /// For origins that are shown no certificate.
    anonymous: Profile,
    /// For the others.
    named: Vec<(Endpoint, Profile)>,
}

/// For connections of HTTP/1.1, and for connections that may be of HTTP/2.
type Configs = [Arc<ClientConfig>; 2];

/// What connections to one origin, or to several, have in common.
#[derive(Debug, Default)]
struct Profile {
    /// What the origin is shown if it asks (RFC 8446, section 4.3.2).
    identity: Option<CertifiedKey>,
    configs: OnceCell<Configs>,
}

impl Tls {
    /// Checks everything except the system's store, which is read for the first request to an https origin: that
    /// takes some 10 ms, and a system that uses only plain HTTP may have no store. Each of `identities` is shown to its
    /// origin, over whatever sockets, and to no other.
    ///
    /// # Errors
    /// `BAD_CONFIGURATION` if the PEM holds no usable certificate, or a certificate of ours cannot be used.
    pub fn new(roots: Roots, identities: Vec<(Endpoint, CertificateFiles)>) -> Result<Self> {
        let profile = |identity: Option<CertifiedKey>| -> Result<Profile> {
            let configs = match &roots {
                Roots::System => OnceCell::new(),
                Roots::WebPki | Roots::Pem(_) => OnceCell::new_with(Some(build(&roots, identity.clone())?)),
            };
            Ok(Profile { identity, configs })
        };
        let anonymous = profile(None)?;
        let named = identities.into_iter().map(|(endpoint, files)| {
            let identity = certified_key(&files)?;
            Ok((endpoint, profile(Some(identity))?))
        });
        let named = named.collect::<Result<_>>()?;
        Ok(Self { shared: Arc::new(Shared { roots, anonymous, named }) })
    }

    fn profile(&self, endpoint: &Endpoint) -> &Profile {
        let named = self.shared.named.iter().find(|(named, _)| named.is_same_origin(endpoint));
        named.map_or(&self.shared.anonymous, |(_, profile)| profile)
    }

    /// For a connection to `endpoint`, which may be of HTTP/2 if this `offers_http2`.
    pub(super) async fn connector(&self, endpoint: &Endpoint, offers_http2: bool) -> Result<TlsConnector> {
        let profile = self.profile(endpoint);
        let configs = profile.configs.get_or_try_init(|| async {
            let (roots, identity) = (self.shared.roots.clone(), profile.identity.clone());
            // The store is a directory of files, which must not delay other streams of the thread.
            spawn_blocking(move || build(&roots, identity)).await.unwrap_or_else(|_| {
                Err(Code::EngineClosed.error("the engine was closed while it read the system's certificates"))
            })
        });
        Ok(TlsConnector::from(Arc::clone(&configs.await?[usize::from(offers_http2)])))
    }
}

fn build(roots: &Roots, identity: Option<CertifiedKey>) -> Result<Configs> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error.to_string()))?
        .with_root_certificates(store(roots)?);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity))),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let mut both = config.clone();
    both.alpn_protocols.insert(0, b"h2".to_vec());
    Ok([Arc::new(config), Arc::new(both)])
}

fn store(roots: &Roots) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    match roots {
        Roots::WebPki => store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Roots::System => {
            let found = rustls_native_certs::load_native_certs();
            // A store usually has a few certificates that webpki cannot read; the others are used.
            store.add_parsable_certificates(found.certs);
            if store.is_empty() {
                let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
                return Err(unusable(&format!(
                    "the system's store has no usable root certificate{why}; name a PEM file or use 'webpki'"
                )));
            }
        }
        Roots::Pem(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| unusable(&format!("the PEM: {error}")))?;
                store.add(certificate).map_err(|error| unusable(&format!("a certificate: {error}")))?;
            }
            if store.is_empty() {
                return Err(unusable("the PEM holds no certificate"));
            }
        }
    }
    Ok(store)
}

fn unusable(why: &str) -> Error {
    Code::BadConfiguration.error(format!("the root certificates cannot be used: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pem_without_certificates_is_refused() {
        for pem in ["", "no PEM at all", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let error = Tls::new(Roots::Pem(pem.into()), Vec::new()).unwrap_err();
            assert_eq!(error.code(), Code::BadConfiguration, "{pem:?}");
        }
    }

    #[test]
    fn compiled_in_roots_are_usable_and_protocols_are_offered() {
        let tls = Tls::new(Roots::WebPki, Vec::new()).unwrap();
        let [one, both] = tls.shared.anonymous.configs.get().unwrap();
        assert_eq!(one.alpn_protocols, [b"http/1.1"]);
        assert_eq!(both.alpn_protocols, [&b"h2"[..], b"http/1.1"]);
        assert!(one.enable_sni && both.enable_sni);
    }
}
