//! What a site's TLS is made of. It is declared and explained in Python; nothing here has a default.

use std::path::PathBuf;
use std::time::Duration;

use penstock_error::{Code, Result};

/// The files of one certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// PEM: the server's certificate, then the ones that lead to its authority.
    pub certificate: PathBuf,
    /// PEM: the private key, as PKCS#8, PKCS#1 or SEC1, not encrypted.
    pub key: PathBuf,
}

/// What a client gets that names no host of ours (RFC 6066, section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownNames {
    /// The first certificate.
    Default,
    /// An alert: `unrecognized_name`, or `missing_extension` if it names none at all.
    Refuse,
}

/// The lowest version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// Whether clients have to show a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are not asked for one.
    Off,
    /// They are asked, and may have none. One that is not valid ends the handshake.
    Optional {
        /// PEM: the authorities that sign clients' certificates.
        authorities: PathBuf,
    },
    /// Without a valid one the handshake ends.
    Required {
        /// PEM: the authorities that sign clients' certificates.
        authorities: PathBuf,
    },
}

impl ClientAuth {
    /// The file of authorities, if clients are asked for a certificate.
    pub fn authorities(&self) -> Option<&PathBuf> {
        match self {
            Self::Off => None,
            Self::Optional { authorities } | Self::Required { authorities } => Some(authorities),
        }
    }
}

/// What a site's TLS is made of.
#[derive(Debug, Clone)]
pub struct TlsSettings {
    /// Certificates by file. The first is the default one.
    pub pairs: Vec<CertificateFiles>,
    /// A directory of certificates: `NAME.pem` or `NAME.crt` with `NAME.key`, or `NAME/fullchain.pem` with
    /// `NAME/privkey.pem`, as certbot has them. Names that begin with a dot are passed over. Without `pairs` the first by
    /// name is the default one.
    pub directory: Option<PathBuf>,
    /// What a client gets that names no host of ours.
    pub unknown_names: UnknownNames,
    /// The lowest version of TLS.
    pub minimum: Version,
    /// Protocols (ALPN, RFC 7301) in the order of preference. If it is empty, none is negotiated.
    pub protocols: Vec<Vec<u8>>,
    /// Whether clients have to show a certificate.
    pub clients: ClientAuth,
    /// PEM: lists of revoked certificates (RFC 5280, section 5), one for each authority of a client's chain.
    pub revoked: Option<PathBuf>,
    /// A file of keys for session tickets that several nodes share: a line for each, 48 or 80 bytes in base64. The first
    /// encrypts. Without one keys are random, and never leave this process.
    pub ticket_keys: Option<PathBuf>,
    /// How long a random key encrypts tickets. A ticket is accepted for three periods.
    pub ticket_period: Duration,
    /// The name of the site. Tickets of another site are not accepted.
    pub name: String,
}

impl TlsSettings {
    /// Checks what concerns several fields.
    ///
    /// # Errors
    /// `BAD_CONFIGURATION`.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |why: &'static str| Err(Code::BadConfiguration.error(why));
        if self.pairs.is_empty() && self.directory.is_none() {
            return wrong("TLS needs a certificate: name a file and its key, or a directory of them");
        }
        if self.revoked.is_some() && self.clients == ClientAuth::Off {
            return wrong("a list of revoked certificates is of no use if clients are not asked for one");
        }
        if self.ticket_period.is_zero() {
            return wrong("the period of a ticket key must be above zero");
        }
        if self.protocols.iter().any(|protocol| protocol.is_empty() || protocol.len() > 255) {
            return wrong("the name of a protocol (ALPN) has 1 to 255 bytes");
        }
        Ok(())
    }
}
