//! The server side of TLS as configuration: which certificate for which name, which clients, which tickets. Without a
//! socket and without HTTP.
//!
//! The edge uses it: a site has a [`TlsServer`], takes its [`config`](TlsServer::config) for each connection, and has a
//! thread that may block call [`look`](TlsServer::look) now and then. Requests to origins use its [`provider`].
//!
//! It guarantees: what a connection has is complete and does not change. A handshake waits for no file and for no reload.
//! A bad file changes nothing that is served. A session that was made under one policy for clients is never resumed under
//! another, nor on another site. There is no early data.

mod certificate;
mod clients;
mod der;
mod directory;
mod files;
mod loader;
mod names;
mod pair;
mod peer;
mod provider;
mod self_signed;
mod server;
mod settings;
mod staple;
mod table;
mod tickets;

#[cfg(test)]
mod tests;

pub use certificate::Certificate;
pub use names::{Names, address};
pub use pair::certified_key;
pub use peer::{PeerCertificate, suite_name, version_name};
pub use provider::provider;
pub use self_signed::self_signed;
pub use server::{Alert, CertificateStatus, TlsCounts, TlsServer};
pub use settings::{CertificateFiles, ClientAuth, TlsSettings, UnknownNames, Version};
pub use tickets::keys::{GivenSecret, own_secrets, take_secrets};
