//! Answers a request from the application, or by the relay that the application orders in place of an answer.

use super::Responder;
use super::relay::answer_by_relay;
use crate::app::{Fault, Loss, Queue, RelayOrder};
use crate::edge::account::Account;
use crate::edge::answer::refusal;
use crate::edge::exchange::{Announced, Task, live, may_refuse, send_whole};
use crate::edge::inbound::Inbound;
use crate::edge::lane::{Ordered, answer};
use crate::error::{Code, Error, Result};
use crate::sys::boxed;
use crate::wire::shown;
use crate::work::{Work, worked};

/// The application, if the site has one.
pub(crate) struct Application<'a>(pub(crate) Option<&'a Queue>);

impl Responder for Application<'_> {
    async fn respond(&self, task: &mut Task<'_>, inbound: &mut Inbound<'_>) -> Result<()> {
        let task = &*task;
        let Task { site, incoming, progress, .. } = *task;
        let (announced, life) = (task.announced()?, live(task)?);
        let Some(queue) = self.0.filter(|queue| queue.has_application()) else {
            let detail = format!("no route for {} {}", incoming.method(), incoming.path());
            return Err(Code::NoRoute.error(detail));
        };
        task.let_in_to(queue)?;
        let announced = announced.within(site.config.max_body)?;
        let answering = worked(Work::Application, answer(task, inbound, announced, queue, &life));
        let Some(ordered) = answering.await? else {
            return Ok(());
        };
        // The relay has one of its own.
        drop(life);
        // On the heap: what the application answers itself needs no room for it.
        let result = boxed(|| answer_by_order(task, inbound, announced, &ordered.order)).await;
        end(ordered, task, &result, queue);
        match result {
            Err(error) if may_refuse(&error, progress) => {
                // On the heap, because few requests fail.
                boxed(|| answer_failure(task, &error)).await
            }
            result => result,
        }
    }
}

/// Answers as the application has ordered.
async fn answer_by_order(
    task: &Task<'_>,
    inbound: &mut Inbound<'_>,
    announced: Announced,
    order: &RelayOrder,
) -> Result<()> {
    let Task { site, client, incoming, progress, .. } = *task;
    let account = Account::open(site.app.as_ref(), &order.relay, client, incoming, progress);
    let target_at = Some(order.target.as_str());
    let ordered = Task { account: account.as_deref(), target_at, stripped: None, ..*task };
    let result = answer_by_relay(&ordered, inbound, announced, &order.relay, None).await;
    if let Some(account) = account {
        account.close(result.as_ref().err());
    }
    result
}

/// Answers that an ordered relay has failed before its head, as the application does for its relays: it is a response like
/// any other, and another request may follow.
async fn answer_failure(task: &Task<'_>, error: &Error) -> Result<()> {
    let Task { site, client, incoming, progress, .. } = *task;
    // The answer says nothing of a connection that HTTP/1.0 keeps.
    progress.close(progress.closes() || incoming.minor_version == 0 || site.parts_from(client));
    progress.begin(error.code().status());
    let head_only = incoming.method() == "HEAD";
    let bytes = refusal(error, None, task.hsts(), progress.closes(), head_only);
    if send_whole(site, client, bytes, progress).await {
        return Ok(());
    }
    Err(Code::ClientGone.error("the client left before the end of the response"))
}

/// Tells the application how the relay that it has ordered has ended, and the operator if it has failed.
fn end(ordered: Ordered, task: &Task<'_>, result: &Result<()>, queue: &Queue) {
    let Ordered { near, .. } = ordered;
    let Task { incoming, progress, .. } = *task;
    let error = result.as_ref().err();
    progress.set_note(near.take_note(), error);
    // The access log tells of a client that has left.
    if let Some(error) = error.filter(|error| error.code() != Code::ClientGone) {
        let request = Some(format!("{} {}", incoming.method(), shown(incoming.target())));
        queue.reports().fault(Fault { request, error: error.clone(), is_relay: true });
    }
    let loss = error.map_or(Loss::Closed, |error| Loss::Failed(error.clone()));
    near.lose(loss, progress.status().is_some());
}
