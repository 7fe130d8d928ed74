//! The addresses to which the name of an endpoint was last resolved, and the time of the next
//! resolution.
//!
//! They are kept with the endpoint's connections, under their lock. The system's resolver gives no lifetimes, so there is
//! one for all names. A name in use is resolved again beside the requests, which use the known addresses meanwhile, and if
//! the resolver fails. Connections to addresses that the name no longer has are not used again.

use std::net::SocketAddr;

use tokio::time::Instant;

use super::resolve::interleave;

/// The addresses of one name.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// `None` if it was not resolved, or need not be.
    known: Vec<SocketAddr>,
    /// When it is to be resolved again.
    due: Option<Instant>,
    is_asking: bool,
    /// How often the addresses were used.
    turn: usize,
}

impl Names {
    /// The addresses in the order of attempts: the addresses of a family take turns at the first place, as if each
    /// connection resolved the name.
    pub(super) fn addresses(&mut self) -> Option<Vec<SocketAddr>> {
        let family = self.known.first()?.is_ipv6();
        let (mut first, mut second): (Vec<_>, Vec<_>) =
            self.known.iter().partition(|address| address.is_ipv6() == family);
        for addresses in [&mut first, &mut second] {
            if !addresses.is_empty() {
                let turn = self.turn % addresses.len();
                addresses.rotate_left(turn);
            }
        }
        self.turn = self.turn.wrapping_add(1);
        Some(interleave(first.into_iter().chain(second)))
    }

    /// Sets the addresses, until `due`.
    pub(super) fn learn(&mut self, addresses: Vec<SocketAddr>, due: Instant) {
        (self.known, self.due, self.is_asking) = (addresses, Some(due), false);
    }

    /// The resolver has failed: the known addresses stay until `due`.
    pub(super) fn keep(&mut self, due: Instant) {
        (self.due, self.is_asking) = (Some(due), false);
    }

    /// No address can be reached: the next request resolves the name.
    pub(super) fn forget(&mut self) {
        self.known.clear();
        self.due = None;
    }

    /// Whether the name is due and no task resolves it. If so, the caller has to resolve it.
    pub(super) fn begin(&mut self, now: Instant) -> bool {
        let begins = !self.is_asking && self.due.is_some_and(|due| due <= now);
        self.is_asking |= begins;
        begins
    }

    /// Whether a connection to `address` may be used.
    pub(super) fn has(&self, address: Option<SocketAddr>) -> bool {
        self.known.is_empty() || address.is_none_or(|address| self.known.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn list(addresses: &[&str]) -> Vec<SocketAddr> {
        addresses.iter().map(|address| SocketAddr::new(address.parse().unwrap(), 1)).collect()
    }

    fn order(names: &mut Names) -> Vec<String> {
        names.addresses().unwrap().iter().map(|address| address.ip().to_string()).collect()
    }

    #[test]
    fn addresses_take_turns_and_the_first_family_stays_the_first() {
        let mut names = Names::default();
        names.learn(list(&["::1", "10.0.0.1", "::2", "10.0.0.2", "10.0.0.3"]), Instant::now());
        assert_eq!(order(&mut names), ["::1", "10.0.0.1", "::2", "10.0.0.2", "10.0.0.3"]);
        assert_eq!(order(&mut names), ["::2", "10.0.0.2", "::1", "10.0.0.3", "10.0.0.1"]);
    }

    #[test]
    fn it_is_resolved_again_once_when_it_is_due() {
        let now = Instant::now();
        let mut names = Names::default();
        assert!(!names.begin(now), "nothing is known that could expire");
        names.learn(list(&["10.0.0.1"]), now + Duration::from_secs(1));
        assert!(!names.begin(now));
        let later = now + Duration::from_secs(1);
        assert!(names.begin(later));
        assert!(!names.begin(later), "a lookup is under way");
        names.keep(later + Duration::from_secs(1));
        assert_eq!(order(&mut names), ["10.0.0.1"], "a resolver that fails takes nothing away");
        assert!(!names.begin(later));
        assert!(names.begin(later + Duration::from_secs(1)));
    }

    #[test]
    fn what_it_no_longer_has_is_not_used() {
        let mut names = Names::default();
        let [old, new] = list(&["10.0.0.1", "10.0.0.2"])[..] else { unreachable!() };
        assert!(names.has(Some(old)), "where nothing is known everything may be used");
        names.learn(vec![new], Instant::now());
        assert!(!names.has(Some(old)));
        assert!(names.has(Some(new)) && names.has(None));
        names.forget();
        assert!(names.addresses().is_none());
    }
}
