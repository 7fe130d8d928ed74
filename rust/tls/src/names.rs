//! The names of a certificate (RFC 5280, section 4.2.1.6), and which hosts they stand for (RFC 9525, section 6).

use std::net::IpAddr;

use rustls_pki_types::DnsName;

/// The names of a certificate: its subject alternative names that are host names or addresses. A common name counts for
/// nothing (RFC 9525, section 2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    exact: Vec<String>,
    /// Without their `*.`.
    wildcards: Vec<String>,
    addresses: Vec<IpAddr>,
}

impl Names {
    /// Adds a dNSName. One that no host can have, as with a NUL, stands for none.
    pub(crate) fn add_name(&mut self, name: &[u8]) {
        let Ok(name) = std::str::from_utf8(name) else { return };
        let name = name.to_ascii_lowercase();
        let (list, name) = match name.strip_prefix("*.") {
            Some(parent) => (&mut self.wildcards, parent),
            None => (&mut self.exact, name.as_str()),
        };
        if DnsName::try_from(name).is_ok() {
            list.push(name.to_owned());
        }
    }

    /// Adds an iPAddress, of 4 or 16 bytes.
    pub(crate) fn add_address(&mut self, bytes: &[u8]) {
        self.addresses.extend(address_of(bytes));
    }

    /// Whether one of them is `host`: a name, in any case and with or without a dot at its end, or an address, in
    /// brackets or not. A port is no part of it. A wildcard stands for one label (RFC 9525, section 6.3).
    pub fn cover(&self, host: &str) -> bool {
        if let Some(address) = address(host) {
            return self.addresses.contains(&address);
        }
        let host = host.strip_suffix('.').unwrap_or(host);
        let is_host = |name: &String| name.eq_ignore_ascii_case(host);
        self.exact.iter().any(is_host)
            || parent(host)
                .is_some_and(|parent| self.wildcards.iter().any(|name| name.eq_ignore_ascii_case(parent)))
    }

    /// Host names, in lower case, without wildcards.
    pub(crate) fn exact(&self) -> &[String] {
        &self.exact
    }

    /// Names below which each label is meant.
    pub(crate) fn wildcards(&self) -> &[String] {
        &self.wildcards
    }

    /// All of them as text.
    pub fn list(&self) -> Vec<String> {
        let wildcards = self.wildcards.iter().map(|parent| format!("*.{parent}"));
        self.exact
            .iter()
            .cloned()
            .chain(wildcards)
            .chain(self.addresses.iter().map(IpAddr::to_string))
            .collect()
    }
}

/// What stands after the first label of `host`.
pub(crate) fn parent(host: &str) -> Option<&str> {
    host.split_once('.')
        .and_then(|(label, parent)| (!label.is_empty() && !parent.is_empty()).then_some(parent))
}

/// An iPAddress, of 4 or 16 bytes.
pub(crate) fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// The address that `host` is, in brackets or not, if it is one.
pub fn address(host: &str) -> Option<IpAddr> {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host).parse().ok()
}
