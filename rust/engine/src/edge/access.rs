//! Lets a request in: what is remembered at once, what is asked for while the client is listened to; and has a response end whose
//! authorisation does.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::exchange::Task;
use super::progress::{Progress, Stopped};
use crate::access::{Asked, Gate, Pass, Permit};
use crate::error::{Code, Result};
use crate::net::{Called, Watch};

/// How long a subscription waits before it asks again where too many ask. Arbitrary: some answers take that long.
const PAUSE: Duration = Duration::from_millis(50);

/// How soon after it was let in a subscription asks again at the earliest. Arbitrary.
const LEAST: Duration = Duration::from_secs(1);

impl Task<'_> {
    /// The request, as the gate's decision sees it. `target` is in origin-form.
    pub(super) fn asked<'a>(&'a self, target: &'a str, prefix: &'a str) -> Asked<'a> {
        Asked {
            method: self.incoming.method(),
            target,
            prefix,
            authority: self.incoming.authority(),
            remote: self.client.addresses.host.as_deref(),
            headers: self.incoming,
        }
    }
}

/// What is decided about a request at once; none: it is to be asked, by [`admit`].
///
/// # Errors
/// It is refused.
pub(super) fn look(gate: &Gate, asked: &Asked<'_>, task: &Task<'_>) -> Result<Option<Pass>> {
    let found = gate.look(asked).map_err(|refusal| task.progress.refuse(refusal))?;
    if let Some(pass) = &found {
        task.progress.let_in(pass.decision())?;
    }
    Ok(found)
}

/// Lets in what runs for longer than a moment. `pass`: what was decided at once.
///
/// # Errors
/// The request is refused, there was no decision, the client left, or the site is stopped.
pub(super) async fn admit(
    gate: &Gate,
    asked: &Asked<'_>,
    mut pass: Option<Pass>,
    task: &Task<'_>,
) -> Result<Permit> {
    let progress = task.progress;
    loop {
        let is_new = pass.is_none();
        let found = if let Some(pass) = pass.take() {
            pass
        } else {
            let mut ask = pin!(gate.ask(asked));
            let asking = poll_fn(|context| {
                task.check()?;
                ask.as_mut().poll(context).map_err(|refusal| progress.refuse(refusal))
            });
            asking.await?
        };
        if is_new {
            progress.let_in(found.decision())?;
        }
        // None: what was found was revoked meanwhile.
        if let Some(permit) = gate.hold(&found) {
            return Ok(permit);
        }
    }
}

/// Ready when what `permit` stands for is revoked.
pub(super) async fn revoked(permit: &Permit) {
    poll_fn(|context| permit.poll_cut(context)).await;
}

/// Ready when a response may go on no longer: it was revoked, or its time is over and it was not let in again.
pub(super) async fn lapsed(gate: &Gate, asked: &Asked<'_>, mut permit: Permit) {
    loop {
        let until = Instant::from_std(permit.decision().until).max(Instant::now() + LEAST);
        tokio::select! {
            biased;
            () = revoked(&permit) => return,
            () = sleep_until(until) => {}
        }
        let renewed = tokio::select! {
            biased;
            () = revoked(&permit) => return,
            renewed = renew(gate, asked) => renewed,
        };
        match renewed {
            Some(renewed) => permit = renewed,
            None => return,
        }
    }
}

/// Asks again. Where many subscriptions have begun together their time is over together, and they take turns.
async fn renew(gate: &Gate, asked: &Asked<'_>) -> Option<Permit> {
    let give_up = Instant::now() + gate.timeout();
    loop {
        match gate.ask(asked).await {
            Ok(pass) => {
                if let Some(permit) = gate.hold(&pass) {
                    return Some(permit);
                }
            }
            Err(refusal) if refusal.error.code() == Code::AccessBusy && Instant::now() < give_up => {
                sleep(PAUSE).await;
            }
            Err(_) => return None,
        }
    }
}

/// Carries `answer` out until `end` is ready, which has it end: behind a whole event, or visibly before its end.
pub(super) async fn until(
    end: impl Future<Output = ()>,
    progress: &Progress,
    linger: Duration,
    answer: impl Future<Output = Result<()>>,
) -> Result<()> {
    let (mut end, mut answer) = (pin!(end), pin!(answer));
    let mut overdue = Watch::default();
    let mut has_ended = false;
    // Polled when it is woken: the response itself may be woken for each event.
    let mut aside = Called::new(poll_fn(|context| {
        if !has_ended && end.as_mut().poll(context).is_ready() {
            has_ended = true;
            progress.stop(Stopped::Revoked);
            overdue.start(Some(linger));
        }
        overdue.poll_expired(context)
    }));
    poll_fn(|context| {
        if aside.poll(context).is_ready() {
            return Poll::Ready(Err(Stopped::Revoked.error()));
        }
        answer.as_mut().poll(context)
    })
    .await
}
