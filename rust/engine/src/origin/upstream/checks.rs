//! Active checks: asks origins at intervals whether they are up, on an engine thread that has sent a request to
//! the upstream.
//!
//! One task checks all origins of an upstream, on whichever thread its requests run. It ends with the upstream or with
//! its engine thread; the next request then starts another one.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc as Plain;
use std::task::Poll;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until, timeout};

use super::Upstream;
use super::policy::{CheckPolicy, Member};
use super::turn::is_of_origin;
use crate::error::Code;
use crate::origin::attempt::attempt;
use crate::origin::limits::Timeouts;
use crate::origin::origins::Origins;
use crate::origin::payload::Payload;
use crate::origin::request::{Passing, Request, RequestBody};
use crate::sync::Arc;

/// The right to check an upstream.
#[derive(Debug)]
struct Checking(std::sync::Weak<Upstream>);

impl Drop for Checking {
    fn drop(&mut self) {
        if let Some(upstream) = self.0.upgrade() {
            upstream.state().is_checked = false;
        }
    }
}

/// Starts the checks of `upstream`, if they are configured and do not run.
pub(super) fn ensure(upstream: &Arc<Upstream>, origins: &Plain<Origins>) {
    if upstream.policy.check.is_none() || std::mem::replace(&mut upstream.state().is_checked, true) {
        return;
    }
    let checking = Checking(Arc::downgrade(upstream));
    let Ok(runtime) = Handle::try_current() else { return };
    runtime.spawn(run(checking, Plain::clone(origins)));
}

async fn run(checking: Checking, origins: Plain<Origins>) {
    let mut due = Instant::now();
    // Between two checks the task does not keep the upstream alive.
    while let Some(upstream) = checking.0.upgrade() {
        let Some(policy) = &upstream.policy.check else { return };
        due += policy.interval;
        if !round(&upstream, policy, &origins).await {
            return;
        }
        drop(upstream);
        due = due.max(Instant::now());
        sleep_until(due).await;
    }
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Well,
    /// With the reason.
    Unwell(String),
    /// No result: this process had no room for it.
    Nothing,
    /// The engine is being closed.
    Closed,
}

/// The check of one origin.
type Checked = Pin<Box<dyn Future<Output = (u64, Found)> + Send>>;

/// Checks all origins once, at the same time. Returns whether the engine is open.
async fn round(upstream: &Arc<Upstream>, policy: &CheckPolicy, origins: &Plain<Origins>) -> bool {
    let seats: Vec<_> =
        upstream.state().seats.iter().map(|seat| (seat.id, Plain::clone(&seat.member))).collect();
    let mut checks: Vec<Checked> = Vec::new();
    let mut names: HashMap<u64, Plain<str>> = HashMap::new();
    for (id, member) in seats {
        names.insert(id, Plain::from(member.endpoint.to_string()));
        let (policy, origins) = (policy.clone(), Plain::clone(origins));
        checks.push(Box::pin(async move { (id, check(&policy, &member, &origins).await) }));
    }
    let mut goes_on = true;
    poll_fn(|context| {
        checks.retain_mut(|check| {
            let Poll::Ready((id, found)) = check.as_mut().poll(context) else { return true };
            goes_on &= found != Found::Closed;
            let (is_well, reason) = match found {
                Found::Well => (true, format!("it has passed {} checks in a row", policy.rise)),
                Found::Unwell(reason) => (
                    false,
                    format!("it has failed {} checks in a row, the last because {reason}", policy.fall),
                ),
                Found::Nothing | Found::Closed => return false,
            };
            let (now, mut has_changed) = (Instant::now(), false);
            upstream.with_seat(id, |seat, _| has_changed = seat.health.check(is_well, policy, now));
            if let Some(origin) = names.remove(&id).filter(|_| has_changed) {
                origins.notices.checked(origin, is_well, reason);
            }
            false
        });
        if checks.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    goes_on
}

async fn check(policy: &CheckPolicy, member: &Member, origins: &Plain<Origins>) -> Found {
    let request = Request {
        endpoint: member.endpoint.clone(),
        upstream: None,
        method: "GET".into(),
        target: policy.path.clone(),
        authority: member.authority.clone(),
        headers: Plain::default(),
        body: RequestBody::None,
        timeouts: Timeouts {
            // An origin at its limit of connections is busy, not down.
            queue: Some(policy.timeout / 2),
            total: None,
            ..Timeouts::each(Some(policy.timeout))
        },
        is_proven: true,
        reports: false,
        passing: Passing::Body,
        in_frames: false,
        trace: None,
    };
    let place = origins.place(&member.endpoint);
    let asked =
        attempt(origins, place, (&member.endpoint, &member.authority), &request, Payload::None, &|_| {});
    // The body is not read, and the connection closes with it: the next check tests whether one can be opened.
    match timeout(policy.timeout, asked).await {
        Ok(Ok((head, ..))) if policy.statuses.contains(&head.head.status) => Found::Well,
        Ok(Err(failed)) if failed.error.code() == Code::EngineClosed => Found::Closed,
        Ok(Err(failed)) if !is_of_origin(failed.error.code()) => Found::Nothing,
        Ok(Ok((head, ..))) => Found::Unwell(format!("it answered {}", head.head.status)),
        Ok(Err(failed)) => {
            Found::Unwell(format!("of {}: {}", failed.error.code().name(), failed.error.detail()))
        }
        Err(_) => Found::Unwell(format!("it did not answer within {:?}", policy.timeout)),
    }
}
