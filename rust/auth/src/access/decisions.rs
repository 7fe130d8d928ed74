//! What was decided, by key: remembered for its time and bounded in number, asked for once however many want to know, revoked at
//! once.
//!
//! All that concerns a key lies in one shard, under one short lock: what is remembered, the question that is open, and what runs.
//! So the invariants hold on every thread: of a key at most one question counts; an answer counts only if nothing was revoked since
//! the question; and what was remembered before a revocation is used by nobody who looks behind it. Denials have a part of their
//! own, so that those who try at random push out nobody who may.

mod holder;

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
use penstock_memory::sync::{Arc, Mutex, lock};

use holder::Holder;
pub use holder::Permit;

/// How much is remembered, and asked at a time.
#[derive(Debug, Clone, Copy)]
pub struct AccessConfig {
    /// Decisions to let in.
    pub decisions: usize,
    /// Decisions to refuse.
    pub denials: usize,
    /// Questions that are asked at a time; as many again wait.
    pub questions: usize,
    /// How long a question may take.
    pub timeout: Duration,
    /// Tenants that are known.
    pub tenants: usize,
    /// What each of them may have, where a decision says nothing else.
    pub tenant_limits: TenantLimits,
}

/// Locks at most, and entries of one at least: less is not worth dividing. Arbitrary.
const SHARDS: usize = 16;
const LEAST: usize = 64;

/// Decisions about requests. Any thread may look and answer.
#[derive(Debug)]
pub struct Decisions {
    shards: Box<[Mutex<Shard>]>,
    inbox: Inbox,
    timeout: Duration,
    tenants: Tenants,
    limits: TenantLimits,
    /// Those of the routes that ask here.
    names: Names,
}

#[derive(Debug)]
struct Shard {
    allowed: Table<Arc<Decision>>,
    denied: Table<Arc<Decision>>,
    open: ByKey<Arc<Question>>,
    running: HashMap<u64, Arc<Holder>>,
    /// The number of the next that runs.
    next: u64,
    /// How often something was revoked here.
    revocations: u64,
    by_route: ByRoute<Row>,
}

/// What concerns the keys of one route.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    running: usize,
    counted: Counted,
}

/// What is known of a key.
#[derive(Debug)]
pub enum Joined {
    /// It has been decided. With the number of revocations before which that was.
    Decided(Arc<Decision>, u64),
    /// It is being asked.
    Waiting(Waiting),
}

/// Whose decisions are meant.
#[derive(Debug, Clone, Copy)]
pub enum Whose<'a> {
    /// The one of a key.
    Key(Key),
    /// Those about a tenant.
    Tenant(&'a str),
    /// Everybody's.
    Everybody,
}

impl Whose<'_> {
    fn matches(&self, key: &Key, decision: &Decision) -> bool {
        match self {
            Self::Key(other) => key == other,
            Self::Tenant(name) => decision.tenant() == Some(name),
            Self::Everybody => true,
        }
    }
}

impl Decisions {
    /// None yet, and nobody who could be asked.
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
        };
        let shards = (0..count).map(|_| Mutex::new(shard())).collect();
        let (inbox, tenants) = (Inbox::new(config.questions), Tenants::new(config.tenants));
        let (timeout, limits, names) = (config.timeout, config.tenant_limits, Names::default());
        Self { shards, inbox, timeout, tenants, limits, names }
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        &self.shards[key.shard(self.shards.len())]
    }

    /// The number of the route called `name`, for the keys of its requests.
    pub(super) fn route(&self, name: &str) -> u16 {
        self.names.number(name)
    }

    /// How long a question may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// What is remembered of `key`. With the number of revocations before which that was.
    pub fn look(&self, key: &Key, now: Instant) -> Option<(Arc<Decision>, u64)> {
        lock(self.shard(key)).look(key, now)
    }

    /// As [`Decisions::look`]; where nothing is remembered it is asked, unless it is being asked already. `request` says about what.
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
        shard.counted(key).failed += u64::from(overdue.is_some());
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

    /// What is decided, as a decision that is not remembered.
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

    /// Remembers what was decided without a question.
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

    /// How often decisions about `key`, among others, were revoked.
    pub fn revocations(&self, key: &Key) -> u64 {
        lock(self.shard(key)).revocations
    }

    /// Who waits for the answer is refused: its time is over.
    pub fn expire(&self, waiting: &Waiting) {
        self.fail(&waiting.question, too_late());
    }

    fn fail(&self, question: &Arc<Question>, error: Error) {
        {
            let mut shard = lock(self.shard(&question.key));
            if shard.close(question) {
                shard.counted(&question.key).failed += 1;
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
                shard.put(question.key, &decision, now);
                Outcome::Decided(decision, shard.revocations)
            } else {
                // It was revoked, or too late: whoever waited knows already.
                Outcome::Void
            }
        };
        question.settle(outcome);
    }

    /// Names the waker of whoever takes questions; woken at once if some wait.
    pub fn listen(&self, waker: &Waker) {
        self.inbox.listen(waker);
    }

    /// The question whose turn it is, if one more may be asked.
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

    /// Nobody takes questions any more: those that wait are refused.
    pub fn close(&self) {
        for question in self.inbox.close() {
            self.fail(&question, Code::AccessUnavailable.error("nobody is there to be asked any more"));
        }
    }

    /// Forgets decisions, and has questions that are open be asked anew: when this returns none of what was decided before counts
    /// for anybody who looks then. With `cut`, what runs by them ends as well. How many were forgotten, and cut.
    pub fn revoke(&self, whose: Whose<'_>, cut: bool) -> (usize, usize) {
        let (mut forgotten, mut cuts) = (0, 0);
        let shards = match &whose {
            Whose::Key(key) => std::slice::from_ref(self.shard(key)),
            Whose::Tenant(_) | Whose::Everybody => &self.shards[..],
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

    /// Notes that a response runs by `decision`, which was found before the revocation of that number. None: there was one since.
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

    /// What each tenant has had that is known.
    pub fn tenants(&self) -> Vec<(Box<str>, TenantCounts)> {
        self.tenants.counts()
    }

    /// Has a tenant begin its total anew; whether it is known.
    pub fn renew(&self, tenant: &str) -> bool {
        self.tenants.renew(tenant)
    }

    /// How full it is, and what was counted.
    pub fn stats(&self) -> DecisionStats {
        let mut stats = DecisionStats::default();
        for shard in &self.shards {
            for row in lock(shard).rows().iter() {
                stats += row;
            }
        }
        // As well as those that count for nobody any more and are still in the hands of who answers.
        stats.open = self.inbox.open();
        stats
    }

    /// The same by the name of the route; questions as far as their answers are waited for.
    pub fn stats_by_route(&self) -> Vec<(Box<str>, DecisionStats)> {
        // Names first: a route that came behind it has no row here yet.
        let names = self.names.all();
        let mut routes: Vec<_> = names.into_iter().map(|name| (name, DecisionStats::default())).collect();
        for shard in &self.shards {
            for (row, (_, stats)) in lock(shard).rows().iter().zip(&mut routes) {
                *stats += row;
            }
        }
        routes
    }
}

impl Shard {
    /// What is counted of the route of `key`.
    fn counted(&mut self, key: &Key) -> &mut Counted {
        &mut self.by_route.at(key.route()).counted
    }

    /// How it is with each route, in the order of their numbers.
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

    /// Whether `question` is the one that counts, which it is no longer.
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
                Whose::Everybody => table.forget(|_| true, &mut note),
            };
        }
        let voided = match &whose {
            Whose::Key(key) => self.open.remove(key).into_iter().collect(),
            // Whom an answer will be about is not known.
            Whose::Tenant(_) | Whose::Everybody => self.open.drain().map(|(_, question)| question).collect(),
        };
        let runs = |holder: &&Arc<Holder>| cut && whose.matches(&holder.key, &holder.decision);
        let running = self.running.values().filter(runs).map(Arc::clone).collect();
        (forgotten, voided, running)
    }
}

fn too_late() -> Error {
    Code::AccessTimeout.error("whoever decides has not answered within the limit")
}

/// A question in the hands of whoever answers it. One that is dropped has failed.
#[derive(Debug)]
pub struct Posed {
    /// About what.
    pub request: Request,
    question: Option<Arc<Question>>,
    decisions: Arc<Decisions>,
}

impl Posed {
    /// Answers it. What is answered is remembered for `lifetime`, unless something was revoked since.
    pub fn answer(mut self, verdict: Verdict, lifetime: Duration) {
        if let Some(question) = self.question.take() {
            self.decisions.answer(&question, verdict, lifetime);
        }
    }

    /// Says that there is no answer.
    pub fn fail(mut self, error: Error) {
        if let Some(question) = self.question.take() {
            self.decisions.fail(&question, error);
        }
    }
}

impl Drop for Posed {
    fn drop(&mut self) {
        if let Some(question) = self.question.take() {
            let error = Code::AccessFailed.error("whoever decides has dropped the question");
            self.decisions.fail(&question, error);
        }
        self.decisions.inbox.give_back();
    }
}
