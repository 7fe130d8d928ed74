//! Endpoints: the keys of connection pools, and the names of origins in errors.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use crate::error::{Code, Result};

/// The protocol under HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `http`: bytes go from the socket into the pool untouched.
    Http,
    /// `https`: TLS first.
    Https,
}

impl Scheme {
    /// The word before `://`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// One origin. Connections are kept and counted by endpoint; two endpoints that differ in anything share none.
///
/// Each request has a clone, and is sent on a connection that is found by it: a clone is a reference, and the hash is known.
#[derive(Debug, Clone)]
pub struct Endpoint {
    parts: Arc<Parts>,
    hash: u64,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Parts {
    scheme: Scheme,
    host: String,
    port: u16,
    unix: Option<PathBuf>,
}

/// Random keys: the names of origins may come from outside.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Endpoint {
    /// `host` is a name or an address, an IPv6 address with or without its brackets. With `unix`, connections go to
    /// that socket, and the host is what TLS verifies and errors name.
    ///
    /// # Errors
    /// `BAD_REQUEST` if the host is empty or has a character that is not allowed (RFC 3986, section 3.2.2), or the
    /// port is 0.
    pub fn new(scheme: Scheme, host: &str, port: u16, unix: Option<PathBuf>) -> Result<Self> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let address = bare.parse::<IpAddr>().is_ok();
        let named =
            bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&byte));
        if bare.is_empty() || !(address || named) {
            return Err(Code::BadRequest.error(format!("{host:?} is no host")));
        }
        if port == 0 && unix.is_none() {
            return Err(Code::BadRequest.error("port 0 cannot be connected to"));
        }
        let parts = Parts { scheme, host: bare.to_ascii_lowercase(), port, unix };
        Ok(Self { hash: HASHER.hash_one(&parts), parts: Arc::new(parts) })
    }

    /// The protocol under HTTP.
    pub fn scheme(&self) -> Scheme {
        self.parts.scheme
    }

    /// The host without brackets, in lower case.
    pub fn host(&self) -> &str {
        &self.parts.host
    }

    /// The TCP port.
    pub fn port(&self) -> u16 {
        self.parts.port
    }

    /// The Unix socket in place of host and port.
    pub fn unix(&self) -> Option<&PathBuf> {
        self.parts.unix.as_ref()
    }

    /// Whether `other` is the same origin (RFC 6454, section 4), over whatever sockets.
    pub(super) fn is_same_origin(&self, other: &Self) -> bool {
        (self.scheme(), self.host(), self.port()) == (other.scheme(), other.host(), other.port())
    }

    /// The address, if the host is one: then there is nothing to resolve.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.parts.host.parse().ok()
    }
}

impl PartialEq for Endpoint {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.parts == other.parts
    }
}

impl Eq for Endpoint {}

impl Hash for Endpoint {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Hashes what has a hash already, which it writes as a number.
#[derive(Debug, Default)]
pub(crate) struct KnownHash(u64);

impl Hasher for KnownHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("what it hashes has a hash");
    }
}

impl fmt::Display for Endpoint {
    /// `scheme://authority`, with the port if it is not the default of the scheme.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { scheme, host, port, .. } = &*self.parts;
        let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{}://{open}{host}{close}", scheme.name())?;
        if *port != scheme.default_port() {
            write!(f, ":{port}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(host: &str, port: u16) -> Result<Endpoint> {
        Endpoint::new(Scheme::Http, host, port, None)
    }

    #[test]
    fn an_origin_is_named_as_in_a_url() {
        for (host, port, name) in [
            ("Origin.Example", 80, "http://origin.example"),
            ("origin.example", 8080, "http://origin.example:8080"),
            ("[2001:db8::1]", 80, "http://[2001:db8::1]"),
            ("::1", 81, "http://[::1]:81"),
        ] {
            assert_eq!(http(host, port).unwrap().to_string(), name);
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for host in ["", "a b", "a/b", "a\r\nb", "a@b", "[::1", "::zz"] {
            assert_eq!(http(host, 80).unwrap_err().code(), Code::BadRequest, "{host:?}");
        }
        assert_eq!(http("a", 0).unwrap_err().code(), Code::BadRequest);
    }

    #[test]
    fn spelling_makes_no_second_endpoint() {
        assert_eq!(http("[::1]", 80).unwrap(), http("::1", 80).unwrap());
        assert_eq!(http("A", 80).unwrap(), http("a", 80).unwrap());
    }
}
