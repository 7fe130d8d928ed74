//! TLS towards origins: the trusted roots, and one client configuration that all engine threads
//! share.
//!
//! Verification cannot be turned off. Sessions are resumed, because the shared configuration holds their tickets;
//! two [`Tls`] with different roots therefore share nothing. `http/1.1` is offered by ALPN, and rustls refuses any
//! other protocol that an origin picks.

use std::sync::Arc;

use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::error::{Code, Error, Result};
use crate::tls::provider;

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
    config: OnceCell<Arc<ClientConfig>>,
}

impl Tls {
    /// Checks everything except the system's store, which is read for the first request to an https origin: that
    /// takes some 10 ms, and a system that uses only plain HTTP may have no store.
    ///
    /// # Errors
    /// `BAD_CONFIGURATION` if the PEM holds no usable certificate.
    pub fn new(roots: Roots) -> Result<Self> {
        let config = match &roots {
            Roots::System => OnceCell::new(),
            Roots::WebPki | Roots::Pem(_) => OnceCell::new_with(Some(build(&roots)?)),
        };
        Ok(Self { shared: Arc::new(Shared { roots, config }) })
    }

    pub(super) async fn connector(&self) -> Result<TlsConnector> {
        let config = self.shared.config.get_or_try_init(|| async {
            let roots = self.shared.roots.clone();
            // The store is a directory of files, which must not delay other streams of the thread.
            spawn_blocking(move || build(&roots)).await.unwrap_or_else(|_| {
                Err(Code::EngineClosed.error("the engine was closed while it read the system's certificates"))
            })
        });
        Ok(TlsConnector::from(Arc::clone(config.await?)))
    }
}

fn build(roots: &Roots) -> Result<Arc<ClientConfig>> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error.to_string()))?
        .with_root_certificates(store(roots)?)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
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
            let error = Tls::new(Roots::Pem(pem.into())).unwrap_err();
            assert_eq!(error.code(), Code::BadConfiguration, "{pem:?}");
        }
    }

    #[test]
    fn compiled_in_roots_are_usable_and_http_1_1_is_offered() {
        let tls = Tls::new(Roots::WebPki).unwrap();
        let config = tls.shared.config.get().unwrap();
        assert_eq!(config.alpn_protocols, [b"http/1.1"]);
        assert!(config.enable_sni);
    }
}
