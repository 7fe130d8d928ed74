//! The parts of a request that a decision may depend on, whichever way the request was received.

use std::fmt;

use penstock_http::wire::{Fields, Incoming};

/// The header fields of a request.
pub trait Headers: Sync {
    /// Calls `see` with the value of each field called `name` (case does not matter), in order.
    fn each<'a>(&'a self, name: &str, see: &mut dyn FnMut(&'a [u8]));

    /// Calls `see` with the name and the value of each field, in order.
    fn all<'a>(&'a self, see: &mut dyn FnMut(&'a [u8], &'a [u8]));
}

impl Headers for Incoming {
    fn each<'a>(&'a self, name: &str, see: &mut dyn FnMut(&'a [u8])) {
        self.get_all(name).for_each(see);
    }

    fn all<'a>(&'a self, see: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        self.headers().for_each(|(name, value)| see(name, value));
    }
}

impl Headers for Fields {
    fn each<'a>(&'a self, name: &str, see: &mut dyn FnMut(&'a [u8])) {
        let named = self.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()));
        named.for_each(|(_, value)| see(value));
    }

    fn all<'a>(&'a self, see: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        self.iter().for_each(|(name, value)| see(name, value));
    }
}

/// A request, as decisions see it.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// A token.
    pub method: &'a str,
    /// Path and query in origin-form, not decoded.
    pub target: &'a str,
    /// The prefix of the route's paths, from slash to slash.
    pub prefix: &'a str,
    /// The requested host and port.
    pub authority: &'a str,
    /// The client's address, without its port; `None` on a Unix socket.
    pub remote: Option<&'a str>,
    /// All fields.
    pub headers: &'a dyn Headers,
}

impl<'a> Asked<'a> {
    /// The target up to its query.
    pub fn path(&self) -> &'a str {
        self.target.split_once('?').map_or(self.target, |(path, _)| path)
    }

    /// The query: what follows the first question mark.
    pub fn query(&self) -> &'a str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    /// The requested host, without its port.
    pub fn host(&self) -> &'a str {
        without_port(self.authority)
    }

    /// The path after the route's prefix.
    pub fn below(&self) -> &'a str {
        let path = self.path();
        path.strip_prefix(self.prefix).unwrap_or(path)
    }
}

impl fmt::Debug for Asked<'_> {
    /// Omits what may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked")
            .field("method", &self.method)
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

/// An authority without its port.
pub fn without_port(authority: &str) -> &str {
    match authority.rfind(':') {
        // A colon within brackets is part of an address.
        Some(colon) if !authority[colon..].contains(']') => &authority[..colon],
        _ => authority,
    }
}
