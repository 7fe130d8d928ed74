//! The head of a relayed response, as the client gets it, on either lane.

use std::borrow::Cow;
use std::io::Write;

use crate::clock;
use crate::error::Result;
use crate::events::{Field, Policy};
use crate::relay::{Redirects, is_event_stream, redirected, response_fields};
use crate::relay_spec::Edit;
use crate::wire::{BodyFraming, Head, body_of, write_field, write_status_line};

/// RFC 6797, section 6.1.
pub(super) const HSTS: &[u8] = b"Strict-Transport-Security";

/// What is said of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Persistence {
    /// Nothing: HTTP/1.1 goes on.
    Implied,
    /// It goes on, which a client of HTTP/1.0 is told.
    KeepAlive,
    Close,
}

impl Persistence {
    /// For a connection of HTTP/1.`minor_version` that ends after the response, or goes on.
    pub(super) fn of(closes: bool, minor_version: u8) -> Self {
        match (closes, minor_version) {
            (true, _) => Self::Close,
            (false, 1) => Self::Implied,
            (false, _) => Self::KeepAlive,
        }
    }
}

/// A head that an application relays.
#[derive(Debug)]
pub struct RelayedHead {
    /// As the client gets it.
    pub bytes: Vec<u8>,
    /// Whether events follow, and can be told apart.
    pub is_events: bool,
}

/// The head of the response `head` to a request of `method` in HTTP/1.`minor_version`, for an application that relays it
/// with URLs of the origin as `redirects` says, and lets the engine send what follows, event streams by `policy`. `closes`:
/// the connection ends after the response.
///
/// # Errors
/// As [`body_of`].
pub fn relayed_head(
    head: &Head,
    method: &str,
    minor_version: u8,
    closes: bool,
    via: Option<&str>,
    redirects: Option<&Redirects>,
    policy: Option<&Policy>,
) -> Result<RelayedHead> {
    let framing = body_of(head, method)?.sent_to(minor_version);
    let persistence = Persistence::of(closes || framing == BodyFraming::UntilClose, minor_version);
    let status = (head.status, head.reason());
    let is_events = is_events(head, framing);
    let defaults = policy.filter(|_| is_events).map_or(&[][..], Policy::fields);
    let fields = redirected(redirects, response_fields(head));
    // The lane puts in what a site says of itself.
    let bytes = encode(status, fields, framing, persistence, via, &[], (defaults, None));
    Ok(RelayedHead { bytes, is_events })
}

/// Whether a body is a stream of events that can be told apart, and is relayed as one.
pub(super) fn is_events(head: &Head, framing: BodyFraming) -> bool {
    matches!(framing, BodyFraming::Chunked | BodyFraming::UntilClose) && is_event_stream(head)
}

/// The bytes of the head. `fields` are end-to-end. A default is written if neither a field nor an edit has its name, and so is
/// `hsts`, the value of Strict-Transport-Security.
pub(super) fn encode<'a>(
    (status, reason): (u16, &[u8]),
    fields: impl Iterator<Item = (&'a [u8], Cow<'a, [u8]>)>,
    framing: BodyFraming,
    persistence: Persistence,
    via: Option<&str>,
    edits: &[Edit],
    (defaults, hsts): (&[Field], Option<&[u8]>),
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(512);
    let out = &mut bytes;
    write_status_line(out, status, reason);
    let mut dated = false;
    // The Via of the proxies before this one.
    let mut before = Vec::new();
    // Mostly there is no default, and no allocation.
    let mut missing: Vec<(&[u8], &[u8])> = Vec::new();
    missing.extend_from_slice(defaults);
    missing.extend(hsts.map(|value| (HSTS, value)));
    for (name, value) in fields {
        missing.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        let replaced = |edit: &Edit| match edit {
            Edit::Set(other, _) | Edit::Drop(other) => other.eq_ignore_ascii_case(name),
            Edit::Add(..) => false,
        };
        if edits.iter().any(replaced) {
            continue;
        }
        if via.is_some() && name.eq_ignore_ascii_case(b"via") {
            before.extend_from_slice(&value);
            before.extend_from_slice(b", ");
            continue;
        }
        dated |= name.eq_ignore_ascii_case(b"date");
        write_field(out, name, &value);
    }
    for edit in edits {
        let (Edit::Set(name, _) | Edit::Add(name, _) | Edit::Drop(name)) = edit;
        missing.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        if let Edit::Set(_, value) | Edit::Add(_, value) = edit {
            dated |= name.eq_ignore_ascii_case(b"date");
            write_field(out, name, value);
        }
    }
    for (name, value) in missing {
        write_field(out, name, value);
    }
    // RFC 9110, section 6.6.1.
    if !dated {
        write_to(out, format_args!("Date: {}\r\n", clock::date()));
    }
    if let Some(via) = via {
        write_via(out, before, via);
    }
    out.extend_from_slice(last_lines(framing, persistence));
    bytes
}

/// `before`: what the proxies before this one have written, with a comma after it.
fn write_via(out: &mut Vec<u8>, mut before: Vec<u8>, via: &str) {
    if before.is_empty() {
        write_field(out, b"Via", via.as_bytes());
    } else {
        before.extend_from_slice(via.as_bytes());
        write_field(out, b"Via", &before);
    }
}

/// The fields about the connection, and the blank line.
#[inline]
fn last_lines(framing: BodyFraming, persistence: Persistence) -> &'static [u8] {
    match (framing, persistence) {
        (BodyFraming::Tunnel, _) => b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        (BodyFraming::Chunked, Persistence::Implied) => b"Transfer-Encoding: chunked\r\n\r\n",
        (BodyFraming::Chunked, Persistence::KeepAlive) => {
            b"Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"
        }
        (BodyFraming::Chunked, Persistence::Close) => {
            b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        }
        (_, Persistence::Implied) => b"\r\n",
        (_, Persistence::KeepAlive) => b"Connection: keep-alive\r\n\r\n",
        (_, Persistence::Close) => b"Connection: close\r\n\r\n",
    }
}

pub(super) fn write_to(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a Vec takes all that is written");
}
