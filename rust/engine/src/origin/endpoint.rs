//! Endpoints: the keys of connection pools, and the names of origins in errors.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    scheme: Scheme,
    host: String,
    port: u16,
    unix: Option<PathBuf>,
}

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
        Ok(Self { scheme, host: bare.to_ascii_lowercase(), port, unix })
    }

    /// The protocol under HTTP.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host without brackets, in lower case.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The Unix socket in place of host and port.
    pub fn unix(&self) -> Option<&PathBuf> {
        self.unix.as_ref()
    }

    /// The address, if the host is one: then there is nothing to resolve.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl fmt::Display for Endpoint {
    /// `scheme://authority`, with the port if it is not the default of the scheme.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{}://{open}{}{close}", self.scheme.name(), self.host)?;
        if self.port != self.scheme.default_port() {
            write!(f, ":{}", self.port)?;
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
