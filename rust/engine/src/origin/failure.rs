//! What the operating system and TLS say about a connection, in the words of the error table.

use std::io;

use tokio_rustls::rustls;

use crate::error::{Code, Error};

/// A read or a write failed.
pub(super) fn broken(error: &io::Error) -> Error {
    if error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>) {
        // With TLS 1.3 an origin refuses a client after the handshake; and a record may be forged at any time.
        return Code::TlsFailed.error(error.to_string());
    }
    Code::OriginReset.error(format!("the connection broke: {error}"))
}
