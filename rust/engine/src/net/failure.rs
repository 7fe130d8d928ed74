//! What the operating system and TLS say about a connection, in the words of the error table.

use std::io;
use std::time::Duration;

use tokio_rustls::rustls;

use crate::error::{Code, Error};

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Origin,
    Client,
}

impl Peer {
    /// A read or a write failed.
    pub(crate) fn broken(self, error: &io::Error) -> Error {
        if error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>) {
            // With TLS 1.3 an origin refuses a client after the handshake; and a record may be forged at any time.
            return Code::TlsFailed.error(error.to_string());
        }
        let code = match self {
            Self::Origin => Code::OriginReset,
            // The kernel has the same limit, for what is with it already.
            Self::Client if error.kind() == io::ErrorKind::TimedOut => Code::WriteTimeout,
            Self::Client => Code::ClientGone,
        };
        code.error(format!("the connection broke: {error}"))
    }

    /// Nothing came within a limit whose code is `code`.
    pub(super) fn silent(self, code: Code, limit: Duration) -> Error {
        code.error(match self {
            Self::Origin => format!("the origin sent nothing for {limit:?}"),
            Self::Client => format!("the client sent nothing for {limit:?}"),
        })
    }
}
