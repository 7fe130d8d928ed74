//! One origin of an upstream: what was declared of it, and what is known.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::balance::{self, Candidate};
use super::health::Health;
use super::policy::{HealthPolicy, Member};

/// An origin's place in its upstream.
#[derive(Debug)]
pub(super) struct Seat {
    /// By which requests under way know it, whatever is declared of it meanwhile.
    pub(super) id: u64,
    pub(super) member: Arc<Member>,
    pub(super) health: Health,
    hash: u64,
    credit: f64,
    active: usize,
    requests: u64,
    failures: u64,
}

/// One origin as it is now.
#[derive(Debug, Clone)]
pub struct MemberStats {
    /// As declared.
    pub member: Arc<Member>,
    /// Its weight now, which is less while it comes back; none while it is not available.
    pub weight: f64,
    /// Requests under way, up to the ends of their bodies.
    pub active: usize,
    /// Requests sent to it.
    pub requests: u64,
    /// Requests that it has failed.
    pub failures: u64,
    /// How long it stays ejected.
    pub ejected: Option<Duration>,
    /// Whether checks have found it to be well, or not found anything.
    pub is_up: bool,
}

impl Seat {
    pub(super) fn new(id: u64, member: Member, is_new: bool, now: Instant) -> Self {
        let mut name = member.endpoint.to_string().into_bytes();
        if let Some(path) = member.endpoint.unix() {
            name.extend_from_slice(path.as_os_str().as_encoded_bytes());
        }
        Self {
            id,
            health: Health::new(is_new, now),
            hash: balance::hash(&name),
            credit: 0.0,
            active: 0,
            requests: 0,
            failures: 0,
            member: Arc::new(member),
        }
    }

    /// The same origin, as `member` declares it.
    pub(super) fn declared(mut self, member: Member) -> Self {
        self.member = Arc::new(member);
        self
    }

    /// Whether it may have another request, and was not `tried`.
    pub(super) fn is_open(&self, tried: &[u64]) -> bool {
        self.member.max_requests.is_none_or(|most| self.active < most) && !tried.contains(&self.id)
    }

    pub(super) fn candidate(&mut self, policy: &HealthPolicy, now: Instant) -> Candidate<'_> {
        let weight = self.weight(policy, now);
        Candidate { weight, load: self.active, hash: self.hash, credit: &mut self.credit }
    }

    fn weight(&self, policy: &HealthPolicy, now: Instant) -> f64 {
        f64::from(self.member.weight) * self.health.share(policy, now)
    }

    /// A request begins.
    pub(super) fn enter(&mut self) -> Arc<Member> {
        self.active += 1;
        self.requests += 1;
        Arc::clone(&self.member)
    }

    /// One is over, however it went.
    pub(super) fn leave(&mut self) {
        self.active -= 1;
    }

    /// One has failed. Whether the origin is ejected for it.
    pub(super) fn fail(&mut self, policy: &HealthPolicy, now: Instant) -> bool {
        self.failures += 1;
        self.health.fail(policy, now)
    }

    pub(super) fn stats(&self, policy: &HealthPolicy, now: Instant) -> MemberStats {
        MemberStats {
            member: Arc::clone(&self.member),
            weight: if self.health.is_available(now) { self.weight(policy, now) } else { 0.0 },
            active: self.active,
            requests: self.requests,
            failures: self.failures,
            ejected: self.health.ejected_for(now),
            is_up: self.health.is_up(),
        }
    }
}
