//! Which certificate is served for which name (RFC 6066, section 3; RFC 8446, section 4.4.2.2).
//!
//! A table does not change: a reload makes another one. So a handshake takes no lock.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::names;
use crate::pair::Pair;
use crate::settings::UnknownNames;

/// Pairs by the names of their certificates.
#[derive(Debug)]
pub(crate) struct Table {
    exact: HashMap<String, Vec<Arc<Pair>>>,
    /// By what stands after the first label.
    wildcards: HashMap<String, Vec<Arc<Pair>>>,
    /// What a client gets that names no host of these, or none at all.
    default: Vec<Arc<Pair>>,
}

impl Table {
    /// A table of `pairs`, of which the first is the default one, and earlier ones are preferred.
    pub(crate) fn new(pairs: &[Arc<Pair>], unknown: UnknownNames) -> Self {
        let mut table = Self { exact: HashMap::new(), wildcards: HashMap::new(), default: Vec::new() };
        if unknown == UnknownNames::Default {
            table.default.extend(pairs.first().cloned());
        }
        for pair in pairs {
            let names = &pair.certificate.names;
            for name in names.exact() {
                table.exact.entry(name.clone()).or_default().push(Arc::clone(pair));
            }
            for parent in names.wildcards() {
                table.wildcards.entry(parent.clone()).or_default().push(Arc::clone(pair));
            }
        }
        table
    }

    /// The pairs for a client that names `host`: several if one name has keys of several kinds. None: it is refused.
    pub(crate) fn find(&self, host: Option<&str>) -> &[Arc<Pair>] {
        let Some(host) = host else { return &self.default };
        let mut host = Cow::from(host.strip_suffix('.').unwrap_or(host));
        if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            host.to_mut().make_ascii_lowercase();
        }
        self.exact
            .get(&*host)
            .or_else(|| names::parent(&host).and_then(|parent| self.wildcards.get(parent)))
            .unwrap_or(&self.default)
    }

    /// Whether what is served to a client that named `presented` is for `host` as well.
    pub(crate) fn covers(&self, presented: Option<&str>, host: &str) -> bool {
        let pairs = self.find(presented);
        !pairs.is_empty() && pairs.iter().all(|pair| pair.certificate.names.cover(host))
    }
}

impl ResolvesServerCert for Table {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let pairs = self.find(hello.server_name());
        let fits = |pair: &&Arc<Pair>| pair.key.key.choose_scheme(hello.signature_schemes()).is_some();
        // If none fits, rustls ends the handshake with the right alert.
        pairs.iter().find(fits).or(pairs.first()).map(|pair| Arc::clone(&pair.key))
    }
}
