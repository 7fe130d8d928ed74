//! What the TLS handshake with a client has settled.

/// The TLS of a client's connection, as the application and worker processes see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsSession {
    /// The version, by its number on the wire: 0x0303 is TLS 1.2, 0x0304 is 1.3.
    pub version: u16,
    /// The cipher suite, by its number in IANA's registry.
    pub suite: u16,
    /// The name that the client asked for (SNI), in lower case.
    pub server_name: Option<Box<str>>,
    /// The protocol that was agreed on (ALPN).
    pub protocol: Box<[u8]>,
    /// The client's certificates in DER, its own first; empty if it sent none. They are verified.
    pub certificates: Vec<Box<[u8]>>,
    /// The handshake resumed an earlier session.
    pub is_resumed: bool,
}
