//! What was decided, by key: remembered for its time and bounded in number, asked for once however many want to know, revoked at
//! once.
//!
//! All that concerns a key lies in one shard, under one short lock: what is remembered, the question that is open, and what runs.
//! So the invariants hold on every thread: of a key at most one question counts; an answer counts only if nothing was revoked since
//! the question; and what was remembered before a revocation is used by nobody who looks behind it. Denials have a part of their
//! own, so that those who try at random push out nobody who may.

use std::collections::HashMap;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::decision::{Decision, Grant, Verdict};
use super::holder::{Holder, Permit};
use super::inbox::{Inbox, Request};
use super::question::{Outcome, Question, Waiting};
use super::table::{ByKey, Key, Table};
use super::tenants::{Allotment, TenantCounts, TenantLimits, Tenants};
use crate::error::{Code, Error, Result};
use crate::sync::{Arc, Mutex, lock};

/// How much is remembered, and asked at a time.
#[derive(Debug, Clone, Copy)]
pub struct AccessConfig {
    /// Decisions to let in.
    pub allowed: usize,
    /// Decisions to refuse.
    pub denied: usize,
    /// Questions that are not answered.
    pub questions: usize,
    /// How long a question may take.
    pub timeout: Duration,
    /// Tenants that are known.
    pub tenants: usize,
    /// What each of them may have, where a decision says nothing else.
    pub limits: TenantLimits,
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
    counted: Counted,
}

/// What was counted so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Requests that were let in by what was remembered.
    pub allowed: u64,
    /// Requests that were refused by what was remembered.
    pub denied: u64,
    /// Questions.
    pub asked: u64,
    /// Requests that waited for the answer to a question that another had asked.
    pub joined: u64,
    /// Questions that nobody answered in time, or that could not be answered.
    pub failed: u64,
    /// Decisions that were forgotten before their time, for want of room.
    pub evicted: u64,
    /// Decisions that were revoked.
    pub revoked: u64,
}

/// How full it is, and what was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DecisionStats {
    /// Decisions to let in that are remembered.
    pub allowed: usize,
    /// Decisions to refuse that are remembered.
    pub denied: usize,
    /// Questions that are not answered.
    pub open: usize,
    /// Responses that run.
    pub running: usize,
    /// Since the beginning.
    pub counted: Counted,
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
        let count = (config.allowed.min(config.denied) / LEAST).clamp(1, SHARDS);
        let shard = || Shard {
            allowed: Table::new(config.allowed.div_ceil(count)),
            denied: Table::new(config.denied.div_ceil(count)),
            open: ByKey::default(),
            running: HashMap::new(),
            next: 0,
            revocations: 0,
            counted: Counted::default(),
        };
        let shards = (0..count).map(|_| Mutex::new(shard())).collect();
        let (inbox, tenants) = (Inbox::new(config.questions), Tenants::new(config.tenants));
        Self { shards, inbox, timeout: config.timeout, tenants, limits: config.limits }
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        &self.shards[key.shard(self.shards.len())]
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
                shard.counted.joined += 1;
                return Ok(Joined::Waiting(waiting));
            }
            _ => shard.open.remove(key),
        };
        let question = Arc::new(Question::new(*key, now + self.timeout));
        let put = self.inbox.put(&question, request());
        if put.is_ok() {
            shard.counted.asked += 1;
            shard.open.insert(*key, Arc::clone(&question));
        }
        shard.counted.failed += u64::from(overdue.is_some());
        drop(shard);
        if let Some(overdue) = overdue {
            overdue.settle(Outcome::Failed(too_late()));
        }
        put.map(|()| Joined::Waiting(Waiting::new(&question)))
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
                shard.counted.failed += 1;
            }
        }
        question.settle(Outcome::Failed(error));
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

    /// The question that has waited for longest.
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
        drop(shard);
        Some(Permit { decisions: Arc::clone(this), holder, number })
    }

    pub(super) fn let_go(&self, key: &Key, number: u64) {
        let holder = lock(self.shard(key)).running.remove(&number);
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
        let mut stats = DecisionStats { open: self.inbox.open(), ..DecisionStats::default() };
        for shard in &self.shards {
            let shard = lock(shard);
            stats.allowed += shard.allowed.len();
            stats.denied += shard.denied.len();
            stats.running += shard.running.len();
            stats.counted.add(&shard.counted);
        }
        stats
    }
}

impl Shard {
    fn look(&mut self, key: &Key, now: Instant) -> Option<(Arc<Decision>, u64)> {
        if let Some(decision) = self.allowed.get(key, now) {
            self.counted.allowed += 1;
            return Some((Arc::clone(decision), self.revocations));
        }
        let decision = Arc::clone(self.denied.get(key, now)?);
        self.counted.denied += 1;
        Some((decision, self.revocations))
    }

    fn put(&mut self, key: Key, decision: &Arc<Decision>, now: Instant) {
        let (other, table) = match decision.verdict {
            Verdict::Allow(_) => (&mut self.denied, &mut self.allowed),
            Verdict::Deny(_) => (&mut self.allowed, &mut self.denied),
        };
        other.remove(&key);
        if decision.until > now {
            self.counted.evicted += u64::from(table.put(key, Arc::clone(decision), decision.until, now));
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
        let tables = [&mut self.allowed, &mut self.denied];
        let forgotten = match &whose {
            Whose::Key(key) => tables.map(|table| usize::from(table.remove(key).is_some())),
            Whose::Tenant(name) => tables.map(|table| table.forget(|one| one.tenant() == Some(name))),
            Whose::Everybody => tables.map(|table| table.forget(|_| true)),
        };
        let forgotten = forgotten.into_iter().sum();
        self.counted.revoked += forgotten as u64;
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

impl Counted {
    fn add(&mut self, other: &Self) {
        let Self { allowed, denied, asked, joined, failed, evicted, revoked } = other;
        self.allowed += allowed;
        self.denied += denied;
        self.asked += asked;
        self.joined += joined;
        self.failed += failed;
        self.evicted += evicted;
        self.revoked += revoked;
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
