//! Whether an engine is healthy, and whether it is ready: a list of checks, and its JSON.

use std::fmt::Write;
use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::timeout;

use super::Board;
use crate::app::Queue;
use crate::edge::Shown;
use crate::pool::PoolState;
use crate::pressure::Part;
use crate::sync::lock;

/// How long a readiness probe waits for the application's sign: longer than a busy loop takes, and shorter than probes
/// wait. If the sign is still missing and too old, the loop hangs. Arbitrary.
const SIGN: Duration = Duration::from_millis(500);

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// Whether it has passed.
    pub is_good: bool,
    /// The detail. It has no character that JSON escapes.
    pub seen: String,
}

impl Board {
    /// Checks whether each engine thread has turned within `hung`.
    pub fn health(&self, hung: Duration) -> Vec<Check> {
        vec![self.check_threads(hung)]
    }

    /// Checks whether the engine is ready for new work: it is healthy, sites listen, there is memory, and the
    /// application takes requests, each within `behind`.
    pub fn ready(&self, hung: Duration, behind: Duration) -> Vec<Check> {
        let mut checks = self.health(hung);
        let sites = lock(&self.sites).there();
        // Relaxed: the lock orders it.
        if self.serves.load(Ordering::Relaxed) {
            let listening = sites.iter().filter(|site| site.is_listening()).count();
            let seen = format!("{listening} of {} sites listen", sites.len());
            checks.push(Check { name: "listening", is_good: listening > 0, seen });
        }
        let state = self.parts.pool.state();
        let seen = format!("the pool is {}", state.name());
        checks.push(Check { name: "pool", is_good: state != PoolState::Full, seen });
        // Good in any case: an engine that is taken away leaves its load to others, and this one serves what it admits.
        let seen = Part::ALL.map(|part| self.parts.pressure().why(part)).join("; ");
        checks.push(Check { name: "pressure", is_good: true, seen });
        for queue in sites.iter().filter(|site| site.is_listening()).filter_map(|site| site.queue()) {
            let has_room = queue.waiting < queue.bound;
            let who = match queue.processes {
                None => "the event loop has owed".to_owned(),
                Some(count) => format!("each of {count} workers that take them has owed"),
            };
            let seen = format!(
                "{} of {} requests wait, the first for {:.3} s; {who} a sign for {:.3} s",
                queue.waiting,
                queue.bound,
                queue.oldest.as_secs_f64(),
                queue.owed.as_secs_f64(),
            );
            let is_good = has_room && queue.oldest <= behind && queue.owed <= behind;
            checks.push(Check { name: "application", is_good, seen });
        }
        checks
    }

    fn check_threads(&self, hung: Duration) -> Check {
        let activity = self.parts.threads.activity();
        let silent = activity.iter().map(|activity| activity.silent).max().unwrap_or_default();
        let hangs = activity.iter().filter(|activity| activity.silent > hung).count();
        let seen = format!(
            "{hangs} of {} engine threads hang; the longest silence is {:.3} s",
            activity.len(),
            silent.as_secs_f64()
        );
        Check { name: "threads", is_good: hangs == 0, seen }
    }

    /// Asks the applications of all sites for a sign.
    pub(super) fn ask_signs(&self) {
        self.applications().iter().for_each(Queue::ask_sign);
    }

    /// Waits until all of them have given one, for a limited time.
    pub(super) async fn await_signs(&self) {
        for queue in self.applications() {
            // If there is no sign, its age is reported.
            let _ = timeout(SIGN, poll_fn(|context| queue.poll_sign(context))).await;
        }
    }

    fn applications(&self) -> Vec<Queue> {
        lock(&self.sites).there().iter().filter_map(|site| site.application()).collect()
    }
}

/// The page of `checks`, whose result has the name `word`.
pub(super) fn shown(word: &str, checks: &[Check]) -> Shown {
    let is_good = checks.iter().all(|check| check.is_good);
    let mut text = format!("{{\"{word}\": {is_good}, \"checks\": [");
    for (at, Check { name, is_good, seen }) in checks.iter().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        write!(text, "{comma}{{\"check\": \"{name}\", \"ok\": {is_good}, \"seen\": \"{seen}\"}}")
            .expect("a String takes all that is written");
    }
    text.push_str("]}\n");
    let status = if is_good { 200 } else { 503 };
    Shown { content_type: "application/json", ..Shown::text(status, text) }
}
