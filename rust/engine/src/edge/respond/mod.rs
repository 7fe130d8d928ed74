//! What answers requests: an origin or a cache, a hub, the engine about itself, and the application.

mod amendment;
mod application;
mod asking;
mod beginning;
mod pages;
mod relay;
mod topics;

pub(super) use application::Application;

use std::pin::pin;

use super::exchange::{Task, beside, live};
use super::inbound::Inbound;
use crate::error::Result;
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

/// Answers by `answer` a request without a body, and listens to the client meanwhile.
async fn answer_alone(
    task: &Task<'_>,
    inbound: &mut Inbound<'_>,
    answer: impl Future<Output = Result<()>>,
) -> Result<()> {
    let life = live(task)?;
    let listen = pin!(inbound.listen(BodyFraming::Empty, None, None));
    beside(task, &life, listen, pin!(answer)).await
}
