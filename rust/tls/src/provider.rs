//! The cryptography of every TLS connection: of clients' and of those to origins.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};

/// The cryptography of every TLS connection.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
