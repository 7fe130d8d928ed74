//! The fields of a request on its way to the origin.

mod forwarded;

use std::borrow::Cow;

use super::Forwarding;
use super::hop::{EndToEnd, is};
use super::names::{Fill, begins_as};
use crate::wire::{Fields, Names, members, reads_as};
use penstock_error::Result;

use forwarded::element;

/// The engine frames and addresses the message itself, and the edge has answered Expect.
const OURS: Names = Names::new(&["content-length", "expect", "host"]);

/// About as much as a policy adds: four fields that describe the client, `Via`, and what an application sets.
const ADDED_FIELDS: usize = 6;
const ADDED_BYTES: usize = 192;

const CLAIMS: Names = Names::new(&["x-forwarded", "forwarded", "x-real-ip"]);

/// Prefixes of fields in which a proxy describes its client. A client that is not trusted must not send them: applications
/// read the user, the certificate or the address of the client there.
fn is_claim(name: &[u8]) -> bool {
    begins_as(name, "x-forwarded-") || CLAIMS.reads(name)
}

/// The client, as the request to the origin describes it.
#[derive(Debug, Clone, Copy)]
pub struct Client<'a> {
    /// The address of the client; `None` on a Unix socket.
    pub address: Option<&'a str>,
    /// `http` or `https`.
    pub scheme: &'a str,
    /// The Host of its request.
    pub host: &'a [u8],
    /// Its version of HTTP.
    pub version: (u8, u8),
}

/// A field that the application sets in place of the client's and of the relay's; `None` sends none.
pub type Replaced<'a> = (&'a [u8], Option<&'a [u8]>);

impl Forwarding {
    /// The end-to-end fields of `received`, in their order, then those of the policy, then `replaced`.
    ///
    /// With `fill` the response may be stored for other clients, and only the fields that `fill` allows are sent from the
    /// client and about it. If the scheme is https the origin is told nevertheless, because many origins redirect http; the
    /// cache keeps the responses to both schemes apart. Via then names HTTP/1.1, whatever the client's version is: the
    /// request is the cache's own.
    ///
    /// # Errors
    /// `BAD_REQUEST`: the Host has a control character, which Forwarded cannot carry.
    pub fn request_fields<'a>(
        &self,
        received: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
        client: &Client<'_>,
        replaced: &[Replaced<'_>],
        fill: Option<Fill<'_>>,
    ) -> Result<Fields> {
        let passes = |name: &[u8]| fill.is_none_or(|fill| fill.has(name));
        let end_to_end = EndToEnd::of(received.clone());
        let is_replaced = |name: &[u8]| replaced.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let (count, bytes) = received
            .clone()
            .fold((0, 0), |(count, bytes), (name, value)| (count + 1, bytes + name.len() + value.len()));
        // With room for what is added, so that nothing is moved or cut off afterwards.
        let mut fields = Fields::with_capacity(count + ADDED_FIELDS, bytes + ADDED_BYTES);
        let mut told = Told::new(self, client);
        for (name, value) in received {
            let stays = OURS.reads(name)
                || !end_to_end.has(name)
                || (!self.trust_incoming && is_claim(name))
                || is_replaced(name);
            if stays {
                continue;
            }
            if self.trust_incoming && says_scheme(name, value) {
                told.note_scheme(name, value);
            }
            if passes(name) && !(self.trust_incoming && told.take(self, name, value)) {
                fields.push(name, value);
            }
        }
        let mut add = |name: &str, value: &[u8]| {
            if !is_replaced(name.as_bytes()) {
                fields.push(name.as_bytes(), value);
            }
        };
        self.describe(client, &told, passes, &mut add)?;
        if let Some(via) = self.via(if fill.is_some() { (1, 1) } else { client.version }) {
            // A second line of a list field continues the list (RFC 9110, section 5.3).
            add("Via", via.as_bytes());
        }
        for (name, value) in replaced {
            if let Some(value) = value {
                fields.push(name, value);
            }
        }
        Ok(fields)
    }

    /// Adds the fields that describe the client, as far as a request may have them: if it `passes`.
    #[inline]
    fn describe(
        &self,
        client: &Client<'_>,
        told: &Told<'_>,
        passes: impl Fn(&[u8]) -> bool,
        mut add: impl FnMut(&str, &[u8]),
    ) -> Result<()> {
        if self.x_forwarded && passes(b"x-forwarded-for") {
            // A client on a Unix socket has no address, and an empty element would count as an
            // address.
            let address = client.address.map_or("unknown", without_zone);
            add("X-Forwarded-For", &told.x_forwarded_for.with(address.as_bytes()));
        }
        if !passes(b"x-forwarded-proto") {
            if told.scheme.is_told && told.scheme.is_https {
                add("X-Forwarded-Proto", b"https");
            }
        } else if self.x_forwarded && !told.has_proto {
            add("X-Forwarded-Proto", client.scheme.as_bytes());
        }
        if self.x_forwarded && !told.has_host && passes(b"x-forwarded-host") {
            add("X-Forwarded-Host", client.host);
        }
        if self.forwarded {
            if passes(b"forwarded") {
                add("Forwarded", &told.forwarded.with(&element(client)?));
            } else if told.scheme.is_https {
                add("Forwarded", b"proto=https");
            }
        }
        if self.preserve_host {
            add("Host", client.host);
        }
        Ok(())
    }
}

fn without_zone(address: &str) -> &str {
    address.split_once('%').map_or(address, |(address, _)| address)
}

/// Whether a field tells how the client of a proxy has asked.
fn says_scheme(name: &[u8], value: &[u8]) -> bool {
    reads_as(name, "x-forwarded-proto") || (reads_as(name, "forwarded") && protocol(value).is_some())
}

fn says_https(name: &[u8], value: &[u8]) -> bool {
    let said = if reads_as(name, "forwarded") { protocol(value) } else { members(value).next() };
    said.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"https"))
}

/// The `proto` of the first element of a Forwarded field, which is that of the client itself (RFC 7239, section 5.4).
fn protocol(value: &[u8]) -> Option<&[u8]> {
    let pairs = members(value).next()?.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let mut schemes = pairs.filter_map(|pair| {
        let (name, scheme) = pair.split_at_checked(6)?;
        name.eq_ignore_ascii_case(b"proto=").then_some(scheme)
    });
    schemes.next().map(|scheme| {
        scheme.strip_prefix(b"\"").and_then(|scheme| scheme.strip_suffix(b"\"")).unwrap_or(scheme)
    })
}

/// What a trusted client tells of its own client, and until it does, what is known of the client itself.
struct Told<'a> {
    x_forwarded_for: List<'a>,
    forwarded: List<'a>,
    has_proto: bool,
    has_host: bool,
    scheme: Scheme,
}

/// The scheme of the request.
struct Scheme {
    is_https: bool,
    /// X-Forwarded-Proto tells the origin of it.
    is_told: bool,
}

impl<'a> Told<'a> {
    fn new(policy: &Forwarding, client: &Client<'_>) -> Self {
        Self {
            x_forwarded_for: List::default(),
            forwarded: List::default(),
            has_proto: false,
            has_host: false,
            scheme: Scheme { is_https: client.scheme == "https", is_told: policy.x_forwarded },
        }
    }

    /// Notes a field that tells the scheme.
    fn note_scheme(&mut self, name: &[u8], value: &[u8]) {
        self.scheme.is_https = says_https(name, value);
        self.scheme.is_told |= reads_as(name, "x-forwarded-proto");
    }

    /// Takes a field that will be extended; returns whether it is such a field.
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
    /// In one line: many applications read only the first line.
    fn with<'e>(&self, element: &'e [u8]) -> Cow<'e, [u8]> {
        if self.0.is_empty() {
            return Cow::Borrowed(element);
        }
        let mut line = self.0.join(b", ".as_slice());
        line.extend_from_slice(b", ");
        line.extend_from_slice(element);
        Cow::Owned(line)
    }
}
