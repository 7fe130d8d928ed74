//! The fields that a relay passes from one side to the other, and the fields that it adds (RFC 9110,
//! section 7.6).
//!
//! Pure functions of a message's fields and a policy. The invariant: a field that describes one hop or frames a
//! message is never passed on. Fields stay bytes from wire to wire, so that a value without a known character set
//! passes unchanged.

use std::borrow::Cow;

mod hop;
mod names;
mod redirects;
mod request;
mod response;

#[cfg(all(test, not(loom)))]
mod tests;

pub use hop::EndToEnd;
pub use names::{Fill, FillFields};
pub use redirects::{Redirects, redirected};
pub use request::{Client, Replaced};
pub use response::{encode_interim, is_event_stream, response_fields};

/// What the relay tells the origin about the client, and both sides about itself.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "wishes that do not depend on one another")]
pub struct Forwarding {
    /// Send X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host.
    pub x_forwarded: bool,
    /// Send Forwarded (RFC 7239).
    pub forwarded: bool,
    /// The pseudonym in Via (RFC 9110, section 7.6.3).
    pub via: Option<Via>,
    /// Whether the fields in which the client describes its own client are kept and extended.
    pub trust_incoming: bool,
    /// Send the client's Host.
    pub preserve_host: bool,
    /// Map URLs of the origin in the fields of its responses to the paths that clients know.
    pub map_location: bool,
    /// Pass trailers on, either way, if the other side says that it takes them (RFC 9110, section 6.5.1).
    pub trailers: bool,
    /// Translate gRPC-Web of clients to gRPC.
    pub grpc_web: Option<GrpcWeb>,
}

/// Which pages may make calls of gRPC-Web, besides those of the gateway's own origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcWeb {
    /// Their origins, as in the field `Origin` (RFC 6454, section 6.1); `*` for all.
    pub origins: Vec<String>,
    /// Names of fields of responses that they may read, besides the error.
    pub expose: Vec<String>,
    /// Seconds for which a browser remembers that it may call.
    pub max_age: u64,
}

impl GrpcWeb {
    /// Whether a page of `origin` may make calls.
    pub fn lets_in(&self, origin: &[u8]) -> bool {
        self.origins.iter().any(|one| one == "*" || one.as_bytes() == origin)
    }
}

impl Forwarding {
    /// The value of a Via field for a message that was received in this version of HTTP.
    pub fn via(&self, version: (u8, u8)) -> Option<Cow<'_, str>> {
        let Via { pseudonym, of_http_1 } = self.via.as_ref()?;
        Some(match (version, of_http_1) {
            ((1, 0), [value, _]) | ((1, 1), [_, value]) => Cow::Borrowed(value),
            ((major, minor), _) => Cow::Owned(format!("{major}.{minor} {pseudonym}")),
        })
    }
}

/// The pseudonym in Via, and the values that are made of it: one is needed twice a request.
#[derive(Debug, Clone)]
pub struct Via {
    pseudonym: String,
    /// Of messages in HTTP/1.0 and 1.1.
    of_http_1: [String; 2],
}

impl From<String> for Via {
    fn from(pseudonym: String) -> Self {
        Self { of_http_1: ["1.0", "1.1"].map(|version| format!("{version} {pseudonym}")), pseudonym }
    }
}
