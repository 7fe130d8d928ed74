//! How much one client may take: connections and requests, counted by its address.
//!
//! The invariant: an address with no open connection and no request takes no memory.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Code, Error, Result};
use crate::sync::{Arc, Mutex, lock};

/// Of one address; `None` is no limit.
#[derive(Debug, Clone, Copy)]
pub struct ClientLimits {
    /// Connections open at a time.
    pub client_connections: Option<usize>,
    /// Requests that are being answered at a time.
    pub client_requests: Option<usize>,
    /// Bits of an IPv6 address that are one client.
    pub client_prefix: u8,
}

/// All clients of a site, as far as that is limited.
#[derive(Debug)]
pub(super) struct Clients {
    limits: ClientLimits,
    by_address: Mutex<HashMap<IpAddr, Open>>,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Open {
    connections: usize,
    requests: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Connection,
    Request,
}

/// A connection or a request that is counted, until this is dropped.
#[derive(Debug)]
pub(super) struct Counted {
    clients: Arc<Clients>,
    address: IpAddr,
    what: What,
}

impl Clients {
    pub(super) fn new(limits: ClientLimits) -> Self {
        Self { limits, by_address: Mutex::default(), refused: AtomicU64::new(0) }
    }

    /// Counts a connection of `address`, which a Unix socket does not have.
    ///
    /// # Errors
    /// `ADDRESS_LIMITED`.
    pub(super) fn connect(self: &Arc<Self>, address: Option<IpAddr>) -> Result<Option<Counted>> {
        self.enter(address, self.limits.client_connections, What::Connection)
    }

    /// Counts a request.
    ///
    /// # Errors
    /// `ADDRESS_LIMITED`.
    pub(super) fn request(self: &Arc<Self>, address: Option<IpAddr>) -> Result<Option<Counted>> {
        self.enter(address, self.limits.client_requests, What::Request)
    }

    /// Connections that were refused so far.
    pub(super) fn refused(&self) -> u64 {
        // Relaxed: a count.
        self.refused.load(Ordering::Relaxed)
    }

    fn enter(
        self: &Arc<Self>,
        address: Option<IpAddr>,
        most: Option<usize>,
        what: What,
    ) -> Result<Option<Counted>> {
        let Some((most, address)) = most.zip(address) else { return Ok(None) };
        let address = self.network(address);
        let mut by_address = lock(&self.by_address);
        let count = by_address.entry(address).or_default().of(what);
        if *count >= most {
            drop(by_address);
            return Err(self.full(address, most, what));
        }
        *count += 1;
        Ok(Some(Counted { clients: Arc::clone(self), address, what }))
    }

    fn full(&self, address: IpAddr, most: usize, what: What) -> Error {
        let what = match what {
            What::Connection => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                "connections"
            }
            What::Request => "requests",
        };
        Code::AddressLimited.error(format!("the address {address} has {most} {what} already"))
    }

    /// What is one client: who has one address of IPv6 has all of a network.
    pub(super) fn network(&self, address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let bits = u32::from(self.limits.client_prefix.min(128));
                let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
            plain @ IpAddr::V4(_) => plain,
        }
    }
}

impl Open {
    fn of(&mut self, what: What) -> &mut usize {
        match what {
            What::Connection => &mut self.connections,
            What::Request => &mut self.requests,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut by_address = lock(&self.clients.by_address);
        if let Some(open) = by_address.get_mut(&self.address) {
            *open.of(self.what) -= 1;
            if open.connections == 0 && open.requests == 0 {
                by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(connections: Option<usize>, requests: Option<usize>) -> Arc<Clients> {
        Arc::new(Clients::new(ClientLimits {
            client_connections: connections,
            client_requests: requests,
            client_prefix: 64,
        }))
    }

    fn at(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    #[test]
    fn an_address_has_its_limit_and_is_forgotten_when_it_has_nothing() {
        let clients = clients(Some(2), Some(1));
        let first = clients.connect(Some(at("192.0.2.1"))).unwrap();
        let second = clients.connect(Some(at("::ffff:192.0.2.1"))).unwrap();
        let refused = clients.connect(Some(at("192.0.2.1"))).unwrap_err();
        assert_eq!((refused.code(), clients.refused()), (Code::AddressLimited, 1));
        assert!(clients.connect(Some(at("192.0.2.2"))).unwrap().is_some(), "of another one");
        let request = clients.request(Some(at("192.0.2.1"))).unwrap();
        assert_eq!(clients.request(Some(at("192.0.2.1"))).unwrap_err().code(), Code::AddressLimited);
        drop((first, second));
        assert!(clients.connect(Some(at("192.0.2.1"))).unwrap().is_some());
        drop(request);
        assert!(lock(&clients.by_address).is_empty());
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_are_one_client() {
        let clients = clients(Some(1), None);
        let _first = clients.connect(Some(at("2001:db8:0:1::1"))).unwrap();
        assert!(clients.connect(Some(at("2001:db8:0:1:ffff::2"))).is_err());
        assert!(clients.connect(Some(at("2001:db8:0:2::1"))).is_ok());
        for prefix in [0, 128] {
            let limits =
                ClientLimits { client_connections: Some(1), client_requests: None, client_prefix: prefix };
            let clients = Arc::new(Clients::new(limits));
            let _first = clients.connect(Some(at("2001:db8::1"))).unwrap();
            assert_eq!(clients.connect(Some(at("2001:db8::2"))).is_ok(), prefix == 128);
        }
    }

    #[test]
    fn without_a_limit_or_an_address_nothing_is_counted() {
        let clients = clients(None, Some(1));
        assert!(clients.connect(Some(at("192.0.2.1"))).unwrap().is_none());
        assert!(clients.request(None).unwrap().is_none());
        assert!(lock(&clients.by_address).is_empty());
    }
}
