//! Resolves a host to addresses, in the order of attempts.

use std::io;
use std::net::SocketAddr;

use tokio::net::lookup_host;

use super::endpoint::Endpoint;
use crate::error::{Code, Result};

/// The addresses of `endpoint`, families interleaved. It asks the system's resolver, on a thread that may block:
/// only this resolver knows hosts files, search lists and local names.
pub(super) async fn resolve(endpoint: &Endpoint) -> Result<Vec<SocketAddr>> {
    if let Some(address) = endpoint.address() {
        return Ok(vec![SocketAddr::new(address, endpoint.port())]);
    }
    let found = look_up(endpoint.host(), endpoint.port()).await.map_err(|error| {
        Code::ResolveFailed.error(format!("{} cannot be resolved: {error}", endpoint.host()))
    })?;
    let addresses = interleave(found.into_iter());
    if addresses.is_empty() {
        return Err(Code::ResolveFailed.error(format!("{} has no address", endpoint.host())));
    }
    Ok(addresses)
}

async fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    #[cfg(test)]
    if let Some(found) = crate::net::simulated::resolve(host) {
        return found;
    }
    Ok(lookup_host((host, port)).await?.collect())
}

/// RFC 8305, section 4: the resolver's order (RFC 6724), but the families take turns, so that one that is broken
/// costs one attempt and not all of its addresses.
pub(super) fn interleave(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let all: Vec<_> = addresses.collect();
    let Some(first) = all.first().map(SocketAddr::is_ipv6) else { return all };
    let mut preferred = all.iter().filter(|address| address.is_ipv6() == first);
    let mut other = all.iter().filter(|address| address.is_ipv6() != first);
    let mut ordered = Vec::with_capacity(all.len());
    while ordered.len() < all.len() {
        ordered.extend(preferred.next());
        ordered.extend(other.next());
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::super::endpoint::Scheme;
    use super::*;

    fn order(addresses: &[&str]) -> Vec<String> {
        let addresses = addresses.iter().map(|address| SocketAddr::new(address.parse().unwrap(), 1));
        interleave(addresses).iter().map(|address| address.ip().to_string()).collect()
    }

    #[test]
    fn families_take_turns_from_the_resolvers_first() {
        assert_eq!(order(&["::1", "::2", "::3", "1.0.0.1"]), ["::1", "1.0.0.1", "::2", "::3"]);
        assert_eq!(order(&["1.0.0.1", "1.0.0.2", "::1"]), ["1.0.0.1", "::1", "1.0.0.2"]);
        assert_eq!(order(&["1.0.0.1"]), ["1.0.0.1"]);
        assert!(order(&[]).is_empty());
    }

    #[tokio::test]
    async fn an_address_is_not_asked_for() {
        let endpoint = Endpoint::new(Scheme::Http, "[::1]", 81, None).unwrap();
        assert_eq!(resolve(&endpoint).await.unwrap(), ["[::1]:81".parse().unwrap()]);
    }

    #[tokio::test]
    async fn a_name_that_cannot_be_is_an_error_with_a_code() {
        // An empty label cannot be put into a query, so this needs no network.
        let endpoint = Endpoint::new(Scheme::Http, "no..name", 80, None).unwrap();
        assert_eq!(resolve(&endpoint).await.unwrap_err().code(), Code::ResolveFailed);
    }
}
