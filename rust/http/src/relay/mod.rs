//! The fields that a relay passes from one side to the other, and the fields that it adds (RFC 9110,
//! section 7.6).
//!
//! Pure functions of a message's fields and a policy. The invariant: a field that describes one hop or frames a
//! message is never passed on. Fields stay bytes from wire to wire, so that a value without a known character set
//! passes unchanged.

mod hop;
mod names;
mod redirects;
mod request;
mod response;

#[cfg(all(test, not(loom)))]
mod tests;

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
    pub via: Option<String>,
    /// Whether the fields in which the client describes its own client are kept and extended.
    pub trust_incoming: bool,
    /// Send the client's Host.
    pub preserve_host: bool,
    /// Map URLs of the origin in the fields of its responses to the paths that clients know.
    pub map_location: bool,
}

impl Forwarding {
    /// The value of a Via field for a message that was received in this version of HTTP.
    pub fn via(&self, version: (u8, u8)) -> Option<String> {
        // Without `format!`, which is not cheap: this runs twice a request.
        let digit = |number: u8| char::from(b'0' + number % 10);
        self.via.as_ref().map(|pseudonym| {
            let mut via = String::with_capacity(4 + pseudonym.len());
            via.extend([digit(version.0), '.', digit(version.1), ' ']);
            via.push_str(pseudonym);
            via
        })
    }
}
