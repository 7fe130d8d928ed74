//! On whose account requests are: what each may have at most, over all of the engine's threads, and what it had.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc as Plain;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::limiter::{Entered, Limiter, Limits};
use penstock_error::{Code, Result};
use penstock_memory::sync::{Arc, Mutex, lock};

/// What a tenant may have at most.
#[derive(Debug, Clone, Copy)]
pub struct TenantLimits {
    /// Requests at a time, and by the second.
    pub requests: Limits,
    /// Bytes of bodies a second, over time.
    pub bandwidth: Option<f64>,
    /// Bytes of bodies in all.
    pub total: Option<u64>,
}

/// How long a tenant's bodies may run ahead of its bandwidth after a pause. Arbitrary: the first segment of a player.
const AHEAD: Duration = Duration::from_secs(1);

/// One on whose account requests are.
pub struct Tenant {
    name: Box<str>,
    limiter: Limiter,
    requests: AtomicU64,
    refused: AtomicU64,
    bytes: AtomicU64,
    /// When what it was given so far would have been sent at its bandwidth.
    sent_at: Mutex<Instant>,
}

/// What a tenant has had.
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
            sent_at: Mutex::new(Instant::now()),
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Counts bytes of a body.
    pub fn count(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What it has had.
    pub fn counts(&self) -> TenantCounts {
        TenantCounts {
            active: self.limiter.active(),
            requests: self.requests.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }

    /// It has had nothing of its total.
    fn renew(&self) {
        self.bytes.store(0, Ordering::Relaxed);
    }
}

/// What a tenant may have by a decision.
#[derive(Debug, Clone)]
pub struct Allotment {
    /// Who.
    pub tenant: Arc<Tenant>,
    /// What at most.
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

    /// Whether bodies are held to something: then they have to be looked at on their way.
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

    /// Takes so many bytes of the bandwidth. From when on more may be taken: all bodies of the tenant wait in one line. None: now.
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

/// The most tenants that are looked at for one that may leave, on the thread of the request that names a new one. Arbitrary.
const LOOKED_AT: usize = 256;

/// Those that are known, bounded in number.
#[derive(Debug)]
pub(super) struct Tenants {
    most: usize,
    known: Mutex<Ring>,
}

/// By name, and the names in turns: one that was named since its last turn has another.
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
    /// Lets one go about whom nothing is remembered, most likely one that was not named lately; whether there was one among those
    /// that were looked at, and how many those were.
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
        // All have been named lately.
        let is_gone = idle.is_some_and(|name| self.known.remove(&name).is_some());
        (is_gone, looked_at)
    }
}

impl Tenants {
    pub(super) fn new(most: usize) -> Self {
        Self { most, known: Mutex::default() }
    }

    /// The one of that name, which is known from now on. Where there are too many one leaves that was not named lately, of those
    /// about whom nothing is remembered.
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

    /// Has a tenant begin its total anew; whether it is known.
    pub(super) fn renew(&self, name: &str) -> bool {
        lock(&self.known).known.get(name).is_some_and(|one| {
            one.tenant.renew();
            true
        })
    }

    /// What each has had.
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
