//! Cached decisions and totals of tenants, as the process that takes the place of this one gets them.
//!
//! The invariant: a decision is taken only if nothing of its shard was revoked in the process that takes it. A revocation in
//! the process that gives it comes after it, or has removed it before.

use std::time::{Duration, Instant};

use super::{Decisions, Shard};
use crate::access::decision::{Decision, Verdict};
use crate::access::table::Key;
use penstock_error::Result;
use penstock_memory::sync::{Arc, lock};

/// A cached decision, apart from the memory of its process.
#[derive(Debug)]
pub struct Remembered<'a> {
    /// The hash of its key.
    pub hash: [u8; Key::LENGTH],
    /// The name of its route.
    pub route: &'a str,
    /// What was decided.
    pub verdict: Verdict,
    /// How long it holds.
    pub left: Duration,
}

impl Decisions {
    /// Calls `see` with each cached decision, in each shard the oldest first, as long as it returns true.
    pub fn each(&self, mut see: impl FnMut(Remembered<'_>) -> bool) {
        let names = self.names.all();
        let now = Instant::now();
        for shard in &self.shards {
            // Apart from the lock, which requests need.
            let found = lock(shard).remembered();
            for (key, decision) in found {
                let left = decision.until.saturating_duration_since(now);
                let Some(route) = names.get(key.route()).filter(|_| !left.is_zero()) else { continue };
                let verdict = decision.verdict.clone();
                if !see(Remembered { hash: *key.hash(), route, verdict, left }) {
                    return;
                }
            }
        }
    }

    /// Caches a decision of another process. False: it is not cached, because the route is not known, there is no room, there
    /// is a decision about its key already, or one of its shard was revoked here.
    ///
    /// # Errors
    /// `TOO_MANY_TENANTS`.
    pub fn take_over(&self, remembered: Remembered<'_>) -> Result<bool> {
        let Remembered { hash, route, verdict, left } = remembered;
        let Some(route) = self.names.known(route) else { return Ok(false) };
        let (key, now) = (Key::new(hash).on(route), Instant::now());
        // Before its tenant is known here.
        if !lock(self.shard(&key)).takes(&key, &verdict, now) {
            return Ok(false);
        }
        let decision = self.decide(verdict, left, now)?;
        let mut shard = lock(self.shard(&key));
        let takes = shard.takes(&key, &decision.verdict, now);
        if takes {
            shard.put(key, &decision, now);
        }
        Ok(takes)
    }

    /// The bytes that each tenant has had, if there are any: `anew` all of them, and else those since the last call.
    pub fn tell_totals(&self, anew: bool) -> Vec<(Box<str>, u64)> {
        self.tenants.tell(anew)
    }

    /// Counts bytes that a tenant has had in another process.
    ///
    /// # Errors
    /// `TOO_MANY_TENANTS`.
    pub fn count(&self, tenant: &str, bytes: u64) -> Result<()> {
        self.tenants.named(tenant).map(|tenant| tenant.count(bytes))
    }
}

impl Shard {
    /// The cached decisions, the oldest first.
    fn remembered(&self) -> Vec<(Key, Arc<Decision>)> {
        let mut found = Vec::with_capacity(self.allowed.len() + self.denied.len());
        for table in [&self.allowed, &self.denied] {
            table.each(|key, decision| found.push((*key, Arc::clone(decision))));
        }
        found
    }

    /// Whether it takes a decision of another process.
    fn takes(&mut self, key: &Key, verdict: &Verdict, now: Instant) -> bool {
        let is_known = self.allowed.get(key, now).is_some() || self.denied.get(key, now).is_some();
        let table = match verdict {
            Verdict::Allow(_) => &self.allowed,
            Verdict::Deny(_) => &self.denied,
        };
        self.revocations == 0 && !is_known && !table.is_full()
    }
}
