//! Which clients have taken a response to its end, and go before others where requests wait for what stalled clients hold.
//!
//! A client that is cut off has to prove itself again. Noted once for each connection; the memory has a bound.

use std::collections::HashSet;
use std::net::IpAddr;

use crate::sync::{Mutex, lock};

/// How many networks are in one of two generations: some 0.7 MB in both. Arbitrary.
const MOST: usize = 8192;

#[derive(Debug, Default)]
pub(super) struct Proven {
    networks: Mutex<Generations>,
}

/// The younger generation becomes the older one when it is full.
#[derive(Debug, Default)]
struct Generations {
    young: HashSet<IpAddr>,
    old: HashSet<IpAddr>,
}

impl Proven {
    /// A client of `network` has taken a response to its end, or, if not `is_proven`, has stalled and was cut off.
    pub(super) fn note(&self, network: IpAddr, is_proven: bool) {
        let mut networks = lock(&self.networks);
        let Generations { young, old } = &mut *networks;
        if !is_proven {
            young.remove(&network);
            old.remove(&network);
        } else if young.insert(network) && young.len() >= MOST {
            *old = std::mem::take(young);
        }
    }

    pub(super) fn contains(&self, network: IpAddr) -> bool {
        let networks = lock(&self.networks);
        networks.young.contains(&network) || networks.old.contains(&network)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn network(number: usize) -> IpAddr {
        Ipv4Addr::from_bits(u32::try_from(number).unwrap()).into()
    }

    #[test]
    fn clients_are_remembered_until_they_stall() {
        let proven = Proven::default();
        for number in [1, 2] {
            proven.note(network(number), true);
        }
        proven.note(network(2), false);
        assert!(proven.contains(network(1)) && !proven.contains(network(2)) && !proven.contains(network(3)));
    }

    #[test]
    fn no_more_than_two_generations_are_remembered() {
        let proven = Proven::default();
        for number in 0..5 * MOST / 2 {
            proven.note(network(number), true);
            assert!(proven.contains(network(number)));
        }
        assert!(!proven.contains(network(0)), "the oldest have left");
        assert!(proven.contains(network(MOST)) && proven.contains(network(2 * MOST)));
        let networks = lock(&proven.networks);
        assert_eq!((networks.young.len(), networks.old.len()), (MOST / 2, MOST));
    }
}
