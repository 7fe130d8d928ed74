//! The fields of a request on its way to the origin.

use super::Forwarding;
use super::forwarded::element;
use super::hop::{Nominated, ends_here, is};
use crate::error::Result;
use crate::wire::{Fields, is_one_of};

/// The engine frames and addresses the message itself, and Expect has been met by whoever accepted the request.
const OURS: [&str; 3] = ["content-length", "expect", "host"];

/// What a client that is not trusted could claim about itself.
const CLAIMS: [&str; 9] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-real-ip",
];

/// CGI and what came of it, such as WSGI, tell `X_Forwarded_For` from `X-Forwarded-For` no more.
fn is_claim(name: &[u8]) -> bool {
    let plain = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    CLAIMS.iter().any(|claim| claim.len() == name.len() && claim.bytes().eq(name.iter().map(plain)))
}

/// Who sent the request, as the origin is told.
#[derive(Debug, Clone, Copy)]
pub struct Client<'a> {
    /// The address of the client; none on a Unix socket.
    pub address: Option<&'a str>,
    /// `http` or `https`.
    pub scheme: &'a str,
    /// The Host that it asked for.
    pub host: &'a [u8],
    /// The version of HTTP that it speaks.
    pub version: (u8, u8),
}

/// A field that the application sets in place of the client's and of the relay's; `None` sends none.
pub type Replaced<'a> = (&'a [u8], Option<&'a [u8]>);

impl Forwarding {
    /// The end-to-end fields of `received`, in their order, then those of the policy, then `replaced`.
    ///
    /// # Errors
    /// `BAD_REQUEST`: the Host cannot be told in Forwarded, because it has a control character.
    pub fn request_fields<'a>(
        &self,
        received: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
        client: &Client<'_>,
        replaced: &[Replaced<'_>],
    ) -> Result<Fields> {
        let nominated = Nominated::of(received.clone());
        let is_replaced = |name: &[u8]| replaced.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let mut fields = Fields::with_capacity(24, 1024);
        let mut lists = Lists::default();
        for (name, value) in received {
            let stays = is_one_of(name, &OURS)
                || ends_here(name)
                || (!self.trust_incoming && is_claim(name))
                || nominated.contains(name)
                || is_replaced(name)
                || (self.trust_incoming && lists.take(self, name, value));
            if !stays {
                fields.push(name, value);
            }
        }
        let mut add = |name: &str, value: &[u8]| {
            if !is_replaced(name.as_bytes()) {
                fields.push(name.as_bytes(), value);
            }
        };
        if self.x_forwarded {
            // A client on a Unix socket has no address; an empty element would be taken for one.
            let address = client.address.map_or("unknown", without_zone);
            add("X-Forwarded-For", &lists.x_forwarded_for.with(address.as_bytes()));
            if !lists.has_proto {
                add("X-Forwarded-Proto", client.scheme.as_bytes());
            }
            if !lists.has_host {
                add("X-Forwarded-Host", client.host);
            }
        }
        if self.forwarded {
            add("Forwarded", &lists.forwarded.with(&element(client)?));
        }
        if self.preserve_host {
            add("Host", client.host);
        }
        if let Some(via) = self.via(client.version) {
            // A further line of a list field continues the list (RFC 9110, section 5.3).
            add("Via", via.as_bytes());
        }
        for (name, value) in replaced {
            if let Some(value) = value {
                fields.push(name, value);
            }
        }
        fields.shrink();
        Ok(fields)
    }
}

pub(super) fn without_zone(address: &str) -> &str {
    address.split_once('%').map_or(address, |(address, _)| address)
}

/// What a trusted client says of its own client.
#[derive(Default)]
struct Lists<'a> {
    x_forwarded_for: List<'a>,
    forwarded: List<'a>,
    has_proto: bool,
    has_host: bool,
}

impl<'a> Lists<'a> {
    /// Keeps a field back that is added to; whether it is one.
    fn take(&mut self, policy: &Forwarding, name: &[u8], value: &'a [u8]) -> bool {
        let list = if policy.x_forwarded && is(name, "x-forwarded-for") {
            &mut self.x_forwarded_for
        } else if policy.forwarded && is(name, "forwarded") {
            &mut self.forwarded
        } else {
            self.has_proto |= is(name, "x-forwarded-proto");
            self.has_host |= is(name, "x-forwarded-host");
            return false;
        };
        if !value.is_empty() {
            list.0.push(value);
        }
        true
    }
}

/// The values of a list field.
#[derive(Default)]
struct List<'a>(Vec<&'a [u8]>);

impl List<'_> {
    /// On one line: many applications read the first line only.
    fn with(&self, element: &[u8]) -> Vec<u8> {
        let mut line = self.0.join(b", ".as_slice());
        if !line.is_empty() {
            line.extend_from_slice(b", ");
        }
        line.extend_from_slice(element);
        line
    }
}
