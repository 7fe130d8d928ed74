//! Decisions by key: cached until they expire, bounded in number; asked for once for all requests that wait; revoked at
//! once.
//!
//! The cached decision of a key, its open question and the responses in progress are in one shard, under one short lock. So
//! the invariants hold on every thread: a key has at most one open question; an answer is cached only if no revocation came
//! after its question; a lookup after a revocation never finds a decision from before it. Denials have a table of their
//! own, so that guesses evict no decision that lets in.

mod holder;
mod moving;

use std::collections::HashMap;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::counts::{ByRoute, Counted, DecisionStats, Names};
use super::decision::{Decision, Grant, Verdict};
use super::inbox::{Inbox, Request};
use super::question::{Outcome, Question, Waiting};
use super::table::{ByKey, Key, Table};
use super::tenants::{Allotment, TenantCounts, TenantLimits, Tenants};
use penstock_error::{Code, Error, Result};
use penstock_memory::counters::Histogram;
use penstock_memory::sync::{Arc, Mutex, lock};

use holder::Holder;
pub use holder::Permit;
pub use moving::Remembered;

/// Sizes and limits of the decisions.
#[derive(Debug, Clone, Copy)]
pub struct AccessConfig {
    /// Cached decisions to let in.
    pub decisions: usize,
    /// Cached decisions to refuse.
    pub denials: usize,
    /// Questions that the hook has at a time; as many again wait.
    pub questions: usize,
    /// How long a question may take.
    pub timeout: Duration,
    /// Tenants at a time.
    pub tenants: usize,
    /// Their limits, unless a decision has others.
    pub tenant_limits: TenantLimits,
}

/// Shards at most, and entries in a shard at least. Arbitrary.
const SHARDS: usize = 16;
const LEAST: usize = 64;

/// Decisions about requests, for all threads.
#[derive(Debug)]
pub struct Decisions {
    shards: Box<[Mutex<Shard>]>,
    inbox: Inbox,
    timeout: Duration,
    tenants: Tenants,
    limits: TenantLimits,
    /// The names of the routes.
    names: Names,
}

#[derive(Debug)]
struct Shard {
    allowed: Table<Arc<Decision>>,
    denied: Table<Arc<Decision>>,
    open: ByKey<Arc<Question>>,
    running: HashMap<u64, Arc<Holder>>,
    /// The number of the next permit.
    next: u64,
    /// Revocations so far.
    revocations: u64,
    by_route: ByRoute<Row>,
    /// How long the questions of each route took.
    took: ByRoute<Histogram>,
}

/// The counts of one route.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    running: usize,
    counted: Counted,
}

/// The result of [`Decisions::join`].
#[derive(Debug)]
pub enum Joined {
    /// A cached decision, and the number of revocations before the lookup.
    Decided(Arc<Decision>, u64),
    /// The question is open.
    Waiting(Waiting),
}

/// Which decisions to revoke.
#[derive(Debug, Clone, Copy)]
pub enum Whose<'a> {
    /// The decision of one key.
    Key(Key),
    /// The decisions of a tenant.
    Tenant(&'a str),
    /// All decisions.
    All,
}

impl Whose<'_> {
    fn matches(&self, key: &Key, decision: &Decision) -> bool {
        match self {
            Self::Key(other) => key == other,
            Self::Tenant(name) => decision.tenant() == Some(name),
            Self::All => true,
        }
    }
}

impl Decisions {
    /// No decisions, and no listener yet.
    pub fn new(config: &AccessConfig) -> Self {
        let count = (config.decisions.min(config.denials) / LEAST).clamp(1, SHARDS);
        let shard = || Shard {
            allowed: Table::new(config.decisions.div_ceil(count)),
            denied: Table::new(config.denials.div_ceil(count)),
            open: ByKey::default(),
            running: HashMap::new(),
            next: 0,
            revocations: 0,
            by_route: ByRoute::default(),
            took: ByRoute::default(),
        };
        let shards = (0..count).map(|_| Mutex::new(shard())).collect();
        let (inbox, tenants) = (Inbox::new(config.questions), Tenants::new(config.tenants));
        let (timeout, limits, names) = (config.timeout, config.tenant_limits, Names::default());
        Self { shards, inbox, timeout, tenants, limits, names }
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        &self.shards[key.shard(self.shards.len())]
    }

    /// The number of the route called `name`, for its keys.
    pub(super) fn route(&self, name: &str) -> u16 {
        self.names.number(name)
    }

    /// How long a question may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The cached decision of `key`, and the number of revocations before the lookup.
    pub fn look(&self, key: &Key, now: Instant) -> Option<(Arc<Decision>, u64)> {
        lock(self.shard(key)).look(key, now)
    }

    /// As [`Decisions::look`]; if there is no decision, joins the open question of `key`, or asks one with `request`.
    ///
    /// # Errors
    /// `ACCESS_UNAVAILABLE`, `ACCESS_BUSY`.
    pub fn join(&self, key: &Key, now: Instant, request: impl FnOnce() -> Request) -> Result<Joined> {
        let mut shard = lock(self.shard(key));
        if let Some((decision, revocations)) = shard.look(key, now) {
            return Ok(Joined::Decided(decision, revocations));
        }
        let overdue = match shard.open.get(key) {
            Some(question) if question.until > now => {
                let waiting = Waiting::new(question);
                shard.counted(key).joined += 1;
                return Ok(Joined::Waiting(waiting));
            }
            _ => shard.open.remove(key),
        };
        let question = Arc::new(Question::new(*key, now + self.timeout));
        let put = self.inbox.put(&question, request());
        if put.is_ok() {
            shard.counted(key).asked += 1;
            shard.open.insert(*key, Arc::clone(&question));
        }
        if let Some(overdue) = &overdue {
            shard.counted(key).failed += 1;
            shard.timed(overdue, self.took(overdue, now));
        }
        drop(shard);
        if let Some(overdue) = overdue {
            overdue.settle(Outcome::Failed(too_late()));
            self.inbox.forget(&overdue);
        }
        if let Some(gone) = put? {
            self.fail(&gone, self.inbox.busy());
        }
        Ok(Joined::Waiting(Waiting::new(&question)))
    }

    /// A decision that is not cached.
    ///
    /// # Errors
    /// `TOO_MANY_TENANTS`.
    pub fn decide(&self, verdict: Verdict, lifetime: Duration, now: Instant) -> Result<Arc<Decision>> {
        let tenant = match &verdict {
            Verdict::Allow(Grant { tenant: Some(name), limits, .. }) => {
                let limits = limits.unwrap_or(self.limits);
                Some(Allotment { tenant: self.tenants.named(name)?, limits })
            }
            Verdict::Allow(_) | Verdict::Deny(_) => None,
        };
        Ok(Arc::new(Decision { verdict, allotment: tenant, until: now + lifetime }))
    }

    /// Caches a decision that needed no question.
    ///
    /// # Errors
    /// `TOO_MANY_TENANTS`.
    pub fn remember(&self, key: Key, verdict: Verdict, lifetime: Duration) -> Result<(Arc<Decision>, u64)> {
        let now = Instant::now();
        let decision = self.decide(verdict, lifetime, now)?;
        let mut shard = lock(self.shard(&key));
        shard.put(key, &decision, now);
        Ok((decision, shard.revocations))
    }

    /// The number of revocations that concern `key`.
    pub fn revocations(&self, key: &Key) -> u64 {
        lock(self.shard(key)).revocations
    }

    /// Refuses the requests that wait for this answer, because it is too late.
    pub fn expire(&self, waiting: &Waiting) {
        self.fail(&waiting.question, too_late());
    }

    /// How long `question` has been open at `now`.
    fn took(&self, question: &Question, now: Instant) -> Duration {
        (now + self.timeout).saturating_duration_since(question.until)
    }

    fn fail(&self, question: &Arc<Question>, error: Error) {
        {
            let mut shard = lock(self.shard(&question.key));
            if shard.close(question) {
                shard.counted(&question.key).failed += 1;
                shard.timed(question, self.took(question, Instant::now()));
            }
        }
        question.settle(Outcome::Failed(error));
        self.inbox.forget(question);
    }

    fn answer(&self, question: &Arc<Question>, verdict: Verdict, lifetime: Duration) {
        let now = Instant::now();
        let decision = match self.decide(verdict, lifetime, now) {
            Ok(decision) => decision,
            Err(error) => return self.fail(question, error),
        };
        let outcome = {
            let mut shard = lock(self.shard(&question.key));
            if shard.close(question) {
                shard.timed(question, self.took(question, now));
                shard.put(question.key, &decision, now);
                Outcome::Decided(decision, shard.revocations)
            } else {
                // It was revoked or is too late, and those requests have been settled.
                Outcome::Void
            }
        };
        question.settle(outcome);
    }

    /// Wakes `waker` when questions wait; at once if some do.
    pub fn listen(&self, waker: &Waker) {
        self.inbox.listen(waker);
    }

    /// The next question, if the hook may have another.
    pub fn take(this: &Arc<Self>) -> Option<Posed> {
        while let Some((question, request)) = this.inbox.take() {
            if question.is_settled() {
                this.inbox.give_back();
                continue;
            }
            return Some(Posed { request, question: Some(question), decisions: Arc::clone(this) });
        }
        None
    }

    /// The listener is gone: refuses the requests whose questions wait.
    pub fn close(&self) {
        for question in self.inbox.close() {
            self.fail(&question, Code::AccessUnavailable.error("no hook takes questions any more"));
        }
    }

    /// Removes decisions, and voids open questions, which are asked again: a lookup after this returns finds no decision
    /// from before. With `cut`, the responses that use them end as well. Returns the number of removed decisions and of cut
    /// responses.
    pub fn revoke(&self, whose: Whose<'_>, cut: bool) -> (usize, usize) {
        let (mut forgotten, mut cuts) = (0, 0);
        let shards = match &whose {
            Whose::Key(key) => std::slice::from_ref(self.shard(key)),
            Whose::Tenant(_) | Whose::All => &self.shards[..],
        };
        for shard in shards {
            let (count, voided, running) = lock(shard).revoke(whose, cut);
            forgotten += count;
            cuts += running.len();
            for question in voided {
                question.settle(Outcome::Void);
                self.inbox.forget(&question);
            }
            for holder in running {
                holder.cut();
            }
        }
        (forgotten, cuts)
    }

    /// Registers a response that uses `decision`, which was found after `revocations`. `None`: there was another revocation
    /// since.
    pub fn hold(this: &Arc<Self>, key: Key, decision: Arc<Decision>, revocations: u64) -> Option<Permit> {
        let holder = Arc::new(Holder::new(key, decision));
        let mut shard = lock(this.shard(&key));
        if shard.revocations != revocations {
            return None;
        }
        let number = shard.next;
        shard.next += 1;
        shard.running.insert(number, Arc::clone(&holder));
        shard.by_route.at(key.route()).running += 1;
        drop(shard);
        Some(Permit { decisions: Arc::clone(this), holder, number })
    }

    pub(super) fn let_go(&self, key: &Key, number: u64) {
        let mut shard = lock(self.shard(key));
        shard.by_route.at(key.route()).running -= 1;
        let holder = shard.running.remove(&number);
        drop(shard);
        drop(holder);
    }

    /// The counts of each tenant.
    pub fn tenants(&self) -> Vec<(Box<str>, TenantCounts)> {
        self.tenants.counts()
    }

    /// Resets the total of a tenant. False if there is no such tenant.
    pub fn renew(&self, tenant: &str) -> bool {
        self.tenants.renew(tenant)
    }

    /// How full it is, and what was counted.
    pub fn stats(&self) -> DecisionStats {
        let mut stats = DecisionStats::default();
        for shard in &self.shards {
            for row in lock(shard).rows().iter() {
                stats += &row;
            }
        }
        // Including voided questions that the hook still has.
        stats.open = self.inbox.open();
        stats
    }

    /// How long the questions of each route took, by name, up to their answer or their failure. Voided questions are not
    /// counted.
    pub fn answer_times(&self) -> Vec<(Box<str>, Histogram)> {
        // Names first: a route that is added later has no row here yet.
        let names = self.names.all();
        let mut routes: Vec<_> = names.into_iter().map(|name| (name, Histogram::default())).collect();
        for shard in &self.shards {
            for (took, (_, sum)) in lock(shard).took.iter().zip(&mut routes) {
                *sum += &took;
            }
        }
        routes
    }

    /// The statistics of each route, by name. Voided questions are not counted.
    pub fn stats_by_route(&self) -> Vec<(Box<str>, DecisionStats)> {
        // Names first: a route that is added later has no row here yet.
        let names = self.names.all();
        let mut routes: Vec<_> = names.into_iter().map(|name| (name, DecisionStats::default())).collect();
        for shard in &self.shards {
            for (row, (_, stats)) in lock(shard).rows().iter().zip(&mut routes) {
                *stats += &row;
            }
        }
        routes
    }
}

impl Shard {
    /// The counts of the route of `key`.
    fn counted(&mut self, key: &Key) -> &mut Counted {
        &mut self.by_route.at(key.route()).counted
    }

    /// Counts the time of a question that is over.
    fn timed(&mut self, question: &Question, took: Duration) {
        self.took.at(question.key.route()).count(took);
    }

    /// The statistics of each route, in the order of their numbers.
    fn rows(&self) -> ByRoute<DecisionStats> {
        let mut rows = ByRoute::<DecisionStats>::default();
        for (route, Row { running, counted }) in self.by_route.iter().enumerate() {
            *rows.at(route) = DecisionStats { running, counted, ..DecisionStats::default() };
        }
        for (route, allowed) in self.allowed.by_route().enumerate() {
            rows.at(route).allowed = allowed;
        }
        for (route, denied) in self.denied.by_route().enumerate() {
            rows.at(route).denied = denied;
        }
        for key in self.open.keys() {
            rows.at(key.route()).open += 1;
        }
        rows
    }

    fn look(&mut self, key: &Key, now: Instant) -> Option<(Arc<Decision>, u64)> {
        if let Some(decision) = self.allowed.get(key, now) {
            self.by_route.at(key.route()).counted.allowed += 1;
            return Some((Arc::clone(decision), self.revocations));
        }
        let decision = Arc::clone(self.denied.get(key, now)?);
        self.counted(key).denied += 1;
        Some((decision, self.revocations))
    }

    fn put(&mut self, key: Key, decision: &Arc<Decision>, now: Instant) {
        let (other, table) = match decision.verdict {
            Verdict::Allow(_) => (&mut self.denied, &mut self.allowed),
            Verdict::Deny(_) => (&mut self.allowed, &mut self.denied),
        };
        other.remove(&key);
        if decision.until > now {
            if let Some(evicted) = table.put(key, Arc::clone(decision), decision.until, now) {
                self.counted(&evicted).evicted += 1;
            }
        }
    }

    /// Removes `question` if it is the open one of its key, and returns whether it was.
    fn close(&mut self, question: &Arc<Question>) -> bool {
        let counts = self.open.get(&question.key).is_some_and(|open| Arc::ptr_eq(open, question));
        if counts {
            self.open.remove(&question.key);
        }
        counts
    }

    fn revoke(&mut self, whose: Whose<'_>, cut: bool) -> (usize, Vec<Arc<Question>>, Vec<Arc<Holder>>) {
        self.revocations += 1;
        let Self { allowed, denied, by_route, .. } = self;
        let mut note = |key: &Key| by_route.at(key.route()).counted.revoked += 1;
        let mut forgotten = 0;
        for table in [allowed, denied] {
            forgotten += match &whose {
                Whose::Key(key) => usize::from(table.remove(key).inspect(|_| note(key)).is_some()),
                Whose::Tenant(name) => table.forget(|one| one.tenant() == Some(name), &mut note),
                Whose::All => table.forget(|_| true, &mut note),
            };
        }
        let voided = match &whose {
            Whose::Key(key) => self.open.remove(key).into_iter().collect(),
            // The tenant of an answer is not known yet.
            Whose::Tenant(_) | Whose::All => self.open.drain().map(|(_, question)| question).collect(),
        };
        let runs = |holder: &&Arc<Holder>| cut && whose.matches(&holder.key, &holder.decision);
        let running = self.running.values().filter(runs).map(Arc::clone).collect();
        (forgotten, voided, running)
    }
}

fn too_late() -> Error {
    Code::AccessTimeout.error("the hook has not answered within the limit")
}

/// A question that the hook has. If it is dropped, it has failed.
#[derive(Debug)]
pub struct Posed {
    /// The request in question.
    pub request: Request,
    question: Option<Arc<Question>>,
    decisions: Arc<Decisions>,
}

impl Posed {
    /// Answers it. The answer is cached for `lifetime`, unless there was a revocation since.
    pub fn answer(mut self, verdict: Verdict, lifetime: Duration) {
        if let Some(question) = self.question.take() {
            self.decisions.answer(&question, verdict, lifetime);
        }
    }

    /// Ends it without an answer.
    pub fn fail(mut self, error: Error) {
        if let Some(question) = self.question.take() {
            self.decisions.fail(&question, error);
        }
    }
}

impl Drop for Posed {
    fn drop(&mut self) {
        if let Some(question) = self.question.take() {
            let error = Code::AccessFailed.error("the hook has dropped the question");
            self.decisions.fail(&question, error);
        }
        self.decisions.inbox.give_back();
    }
}
