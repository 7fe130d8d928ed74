//! Tenants: the limits of each over all engine threads, and its counts.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc as Plain;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::limiter::{Entered, Limiter, Limits};
use penstock_error::{Code, Result};
use penstock_memory::sync::{Arc, Mutex, lock};

/// The limits of a tenant.
#[derive(Debug, Clone, Copy)]
pub struct TenantLimits {
    /// Requests at a time and a second.
    pub requests: Limits,
    /// Bytes of bodies a second, over time.
    pub bandwidth: Option<f64>,
    /// Bytes of bodies in all.
    pub total: Option<u64>,
}

/// How far a tenant's bodies may run ahead of its bandwidth after a pause. Arbitrary: the first segment of a player.
const AHEAD: Duration = Duration::from_secs(1);

/// A tenant, and its counts.
pub struct Tenant {
    name: Box<str>,
    limiter: Limiter,
    requests: AtomicU64,
    refused: AtomicU64,
    bytes: AtomicU64,
    /// Those of `bytes` that the process that takes the place of this one knows of.
    told: AtomicU64,
    /// When the bytes so far would have been sent at its bandwidth.
    sent_at: Mutex<Instant>,
}

/// The counts of a tenant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TenantCounts {
    /// Requests that are being answered.
    pub active: usize,
    /// Requests that were let in.
    pub requests: u64,
    /// Requests that were refused for a limit.
    pub refused: u64,
    /// Bytes of bodies.
    pub bytes: u64,
}

impl Tenant {
    fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            limiter: Limiter::new(),
            requests: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            told: AtomicU64::new(0),
            sent_at: Mutex::new(Instant::now()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Counts bytes of a body.
    pub fn count(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Its counts.
    pub fn counts(&self) -> TenantCounts {
        TenantCounts {
            active: self.limiter.active(),
            requests: self.requests.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    /// Resets its total.
    fn renew(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.told.store(0, Ordering::Relaxed);
    }

    /// Its bytes: `anew` all of them, and else those since the last call.
    fn tell(&self, anew: bool) -> u64 {
        // Relaxed: as in `Allotment::enter`.
        let bytes = self.bytes.load(Ordering::Relaxed);
        let told = self.told.swap(bytes, Ordering::Relaxed);
        if anew { bytes } else { bytes.saturating_sub(told) }
    }
}

/// A tenant, and the limits that a decision gives it.
#[derive(Debug, Clone)]
pub struct Allotment {
    /// The tenant.
    pub tenant: Arc<Tenant>,
    /// Its limits.
    pub limits: TenantLimits,
}

impl Allotment {
    /// Counts a request, until what it returns is dropped.
    ///
    /// # Errors
    /// `TENANT_LIMITED`, `TENANT_EXHAUSTED`.
    pub fn enter(&self) -> Result<Entered> {
        let Self { tenant, limits } = self;
        let entered = self.check_total().and_then(|()| {
            let who = format_args!("the tenant {:?}", tenant.name);
            tenant.limiter.enter(&limits.requests, Code::TenantLimited, who)
        });
        // Relaxed: counts, which order nothing.
        let count = if entered.is_ok() { &tenant.requests } else { &tenant.refused };
        count.fetch_add(1, Ordering::Relaxed);
        entered
    }

    /// Whether there are limits on bodies: then their bytes must be counted on their way.
    pub fn is_limited(&self) -> bool {
        self.limits.bandwidth.is_some() || self.limits.total.is_some()
    }

    /// Whether the tenant may have more.
    ///
    /// # Errors
    /// `TENANT_EXHAUSTED`.
    pub fn check_total(&self) -> Result<()> {
        let Self { tenant, limits } = self;
        match limits.total {
            // Relaxed: as in `enter`.
            Some(total) if tenant.bytes.load(Ordering::Relaxed) >= total => {
                let detail = format!("the tenant {:?} has had its {total} bytes", tenant.name);
                Err(Code::TenantExhausted.error(detail))
            }
            _ => Ok(()),
        }
    }

    /// Takes bytes of the bandwidth, which all bodies of the tenant share. Returns when more may be sent; `None`: now.
    pub fn pace(&self, bytes: usize, now: Instant) -> Option<Instant> {
        let bandwidth = self.limits.bandwidth?;
        #[expect(clippy::cast_precision_loss, reason = "no body is given in pieces of 2^52 bytes")]
        let takes = Duration::try_from_secs_f64(bytes as f64 / bandwidth).unwrap_or(AHEAD);
        let mut sent_at = lock(&self.tenant.sent_at);
        let from = now.checked_sub(AHEAD).map_or(*sent_at, |least| least.max(*sent_at));
        *sent_at = from + takes;
        Some(*sent_at).filter(|at| *at > now)
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant")
            .field("name", &self.name)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

/// The most tenants that are searched for one to evict, on the thread of the request that names a new one. Arbitrary.
const LOOKED_AT: usize = 256;

/// The tenants, bounded in number.
#[derive(Debug)]
pub(super) struct Tenants {
    most: usize,
    known: Mutex<Ring>,
}

/// Tenants by name, and a clock of the names: a tenant that was named since its last turn is
/// skipped once.
#[derive(Debug, Default)]
struct Ring {
    known: HashMap<Plain<str>, Known>,
    turns: VecDeque<Plain<str>>,
}

#[derive(Debug)]
struct Known {
    tenant: Arc<Tenant>,
    was_named: bool,
}

impl Ring {
    /// Evicts a tenant without a cached decision, preferably one that was not named lately. Returns whether it found one,
    /// and how many tenants it looked at.
    fn let_one_go(&mut self) -> (bool, usize) {
        let looked_at = self.turns.len().min(LOOKED_AT);
        let mut idle = None;
        for looks in 1..=looked_at {
            let Some(name) = self.turns.pop_front() else { break };
            let Some(one) = self.known.get_mut(&name) else { continue };
            if Arc::strong_count(&one.tenant) == 1 {
                if !std::mem::replace(&mut one.was_named, false) {
                    self.known.remove(&name);
                    self.turns.extend(idle);
                    return (true, looks);
                }
                if idle.is_none() {
                    idle = Some(name);
                    continue;
                }
            }
            self.turns.push_back(name);
        }
        // All of them were named lately.
        let is_gone = idle.is_some_and(|name| self.known.remove(&name).is_some());
        (is_gone, looked_at)
    }
}

impl Tenants {
    pub(super) fn new(most: usize) -> Self {
        Self { most, known: Mutex::default() }
    }

    /// The tenant of that name, which is added if it is new. If there are too many, another is evicted that has no cached
    /// decision.
    ///
    /// # Errors
    /// `TOO_MANY_TENANTS`.
    pub(super) fn named(&self, name: &str) -> Result<Arc<Tenant>> {
        let mut ring = lock(&self.known);
        if let Some(one) = ring.known.get_mut(name) {
            one.was_named = true;
            return Ok(Arc::clone(&one.tenant));
        }
        if ring.known.len() >= self.most && !ring.let_one_go().0 {
            return Err(Code::TooManyTenants.error(format!("{} tenants are known", self.most)));
        }
        let tenant = Arc::new(Tenant::new(name));
        let name: Plain<str> = name.into();
        ring.known.insert(Plain::clone(&name), Known { tenant: Arc::clone(&tenant), was_named: false });
        ring.turns.push_back(name);
        Ok(tenant)
    }

    /// Resets the total of a tenant. False if there is no such tenant.
    pub(super) fn renew(&self, name: &str) -> bool {
        lock(&self.known).known.get(name).is_some_and(|one| {
            one.tenant.renew();
            true
        })
    }

    /// The bytes of each tenant, if there are any: `anew` all of them, and else those since the last call.
    pub(super) fn tell(&self, anew: bool) -> Vec<(Box<str>, u64)> {
        let ring = lock(&self.known);
        let each = ring.known.iter().map(|(name, one)| ((**name).into(), one.tenant.tell(anew)));
        each.filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// The counts of each tenant.
    pub(super) fn counts(&self) -> Vec<(Box<str>, TenantCounts)> {
        lock(&self.known).known.iter().map(|(name, one)| ((**name).into(), one.tenant.counts())).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const OPEN: TenantLimits = TenantLimits {
        requests: Limits { concurrency: None, rate: None, burst: 1.0 },
        bandwidth: None,
        total: None,
    };

    fn allotment(tenant: &Arc<Tenant>, limits: TenantLimits) -> Allotment {
        Allotment { tenant: Arc::clone(tenant), limits }
    }

    #[test]
    fn each_limit_refuses_by_itself_and_is_counted() {
        let tenant = Arc::new(Tenant::new("a"));
        let of = |limits| allotment(&tenant, limits);
        let few = of(TenantLimits { requests: Limits { concurrency: Some(1), ..OPEN.requests }, ..OPEN });
        let first = few.enter().unwrap();
        assert_eq!(few.enter().unwrap_err().code(), Code::TenantLimited);
        drop(first);
        let requests = Limits { rate: Some(1e-6), burst: 2.0, ..OPEN.requests };
        let slow = of(TenantLimits { requests, ..OPEN });
        drop([slow.enter().unwrap(), slow.enter().unwrap()]);
        assert_eq!(slow.enter().unwrap_err().code(), Code::TenantLimited);
        let little = of(TenantLimits { total: Some(10), ..OPEN });
        tenant.count(9);
        drop(little.enter().unwrap());
        tenant.count(1);
        assert_eq!(little.enter().unwrap_err().code(), Code::TenantExhausted);
        assert_eq!(tenant.counts(), TenantCounts { active: 0, requests: 4, refused: 3, bytes: 10 });
    }

    #[test]
    fn what_is_paced_comes_to_the_bandwidth_however_many_take_of_it() {
        let tenant = Arc::new(Tenant::new("a"));
        let paced = allotment(&tenant, TenantLimits { bandwidth: Some(1000.0), ..OPEN });
        let mut now = Instant::now() + Duration::from_secs(10);
        let began = now;
        assert_eq!(paced.pace(1000, now), None, "a second's worth comes at once");
        for _ in 0..20 {
            let next = paced.pace(500, now).unwrap();
            assert_eq!(next, paced.pace(0, now).unwrap(), "another waits as long");
            now = next;
        }
        assert_eq!(now.duration_since(began), Duration::from_secs(10));
        assert_eq!(allotment(&tenant, OPEN).pace(1, now), None);
    }

    #[test]
    fn a_new_tenant_looks_at_a_bounded_number_of_those_that_are_known() {
        let tenants = Tenants::new(5000);
        let held: Vec<_> = (0..5000).map(|number| tenants.named(&number.to_string()).unwrap()).collect();
        assert_eq!(lock(&tenants.known).let_one_go(), (false, LOOKED_AT));
        assert_eq!(tenants.named("a").unwrap_err().code(), Code::TooManyTenants);
        drop(held);
        for number in 0..5000 {
            tenants.named(&number.to_string()).unwrap();
        }
        // All of them were named lately; after their turns they are not.
        let looks: Vec<_> = (0..25).map(|_| lock(&tenants.known).let_one_go()).collect();
        assert!(looks.iter().all(|(is_gone, looks)| *is_gone && *looks <= LOOKED_AT), "{looks:?}");
        assert_eq!(looks.last(), Some(&(true, 1)));
        let ring = lock(&tenants.known);
        assert_eq!((ring.known.len(), ring.turns.len()), (4975, 4975));
    }

    #[test]
    fn those_who_are_remembered_stay_and_others_leave_for_new_ones() {
        let tenants = Tenants::new(2);
        let held = tenants.named("a").unwrap();
        held.count(5);
        drop(tenants.named("b").unwrap());
        let other = tenants.named("c").unwrap();
        assert_eq!(tenants.named("d").unwrap_err().code(), Code::TooManyTenants);
        assert_eq!(tenants.named("a").unwrap().counts().bytes, 5, "what was counted stays");
        drop(other);
        drop(tenants.named("d").unwrap());
        let mut names: Vec<_> = tenants.counts().into_iter().map(|(name, _)| name).collect();
        names.sort();
        assert_eq!(names, ["a".into(), "d".into()] as [Box<str>; 2]);
        assert!(tenants.renew("a") && !tenants.renew("c"));
        assert_eq!(held.counts().bytes, 0);
    }
}
