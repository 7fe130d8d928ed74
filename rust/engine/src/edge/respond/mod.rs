//! What answers requests: an origin or a cache, a hub, the engine about itself, and the application.

mod amendment;
mod application;
mod asking;
mod pages;
mod relay;
mod topics;

pub(super) use application::Application;

use std::pin::pin;

use super::exchange::{Task, beside, live, send};
use super::inbound::Inbound;
use crate::error::{Code, Result};
use crate::events::Leave;
use crate::net::{Outgoing, Piece};
use crate::wire::BodyFraming;

/// Answers requests. The rest of an exchange is the connection's, whatever answers: it counts and logs the exchange, and
/// decides whether its connection serves again, is closed, or is reset.
pub(super) trait Responder {
    /// Answers the request of `task`. Its body is read from `inbound`. The future ends when the kernel has all of the response.
    ///
    /// # Errors
    /// The reason why there is no whole response. Unless the task's progress has a status, nothing was sent.
    ///
    /// # Cancellation
    /// The request is abandoned wherever it is. The connection then has to be reset.
    async fn respond(&self, task: &mut Task<'_>, inbound: &mut Inbound<'_>) -> Result<()>;
}

/// Answers with `bytes`, the whole of a response of `status` without a body.
async fn answer_whole(task: &Task<'_>, inbound: &mut Inbound<'_>, status: u16, bytes: Vec<u8>) -> Result<()> {
    task.refuse_body("such a request has no body")?;
    let Task { site, progress, .. } = *task;
    let life = live(site)?;
    let mut outgoing = Outgoing::new(site.config.write_timeout, Code::Internal);
    progress.begin(status);
    progress.set_head(bytes.len());
    outgoing.push(Piece::Bytes(bytes));
    let listen = pin!(inbound.listen(BodyFraming::Empty, None, None));
    let answer = pin!(send(task, &Leave::Cancel, false, None, &mut outgoing, |_| {}));
    beside(site, progress, &life, listen, answer).await
}
