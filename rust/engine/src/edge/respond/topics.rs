//! Answers a request for a topic of a hub.
//!
//! The body is the subscriber's, which gives events as they stand in the topic's history; from then on it is sent like
//! any other.

use std::pin::pin;

use super::Responder;
use crate::access::Decision;
use crate::edge::access::{admit, lapsed, look, until};
use crate::edge::exchange::{Task, beside, live, send};
use crate::edge::head::{Persistence, encode};
use crate::edge::inbound::Inbound;
use crate::edge::moved::{Beginning, Moved};
use crate::edge::topics::Topics;
use crate::error::{Code, Result};
use crate::events::Leave;
use crate::hub::{Admission, Admitted, Asked, Guest, Resumption, fields};
use crate::net::{Outgoing, Supply};
use crate::relay::redirected;
use crate::sys::boxed;
use crate::wire::BodyFraming;

impl Responder for Topics {
    /// Lets a client subscribe, and sends it what is published.
    async fn respond(&self, task: &mut Task<'_>, inbound: &mut Inbound<'_>) -> Result<()> {
        task.refuse_body("a request for a topic has no body")?;
        let task = &*task;
        let Task { site, incoming, progress, .. } = *task;
        let _guard = self.location.enter()?;
        task.let_in()?;
        let life = live(task)?;
        let mut outgoing = Outgoing::new(site.config.write_timeout, Code::Internal);
        outgoing.begin_life(&life);
        let listen = pin!(inbound.listen(BodyFraming::Empty, None, None));
        let result = if let Some(gate) = &self.location.gate {
            let answer = async {
                let target = incoming.origin_form();
                let wanted = task.asked(&target, &self.location.pattern.prefix);
                let mut pass = look(gate, &wanted, task)?;
                let stripped = pass.as_mut().and_then(|pass| pass.target.take());
                let permit = admit(gate, &wanted, pass, task).await?;
                let task = Task { stripped, ..*task };
                begin(&task, self, &mut outgoing).await?;
                site.note_resumable(&life);
                let send = send(&task, &Leave::Cancel, true, None, &mut outgoing, |_| {});
                until(lapsed(gate, &wanted, permit), progress, site.config.linger, send).await
            };
            // On the heap: where all are let in there is no room for it.
            beside(task, &life, listen, Box::pin(answer).as_mut()).await
        } else {
            let answer = async {
                begin(task, self, &mut outgoing).await?;
                site.note_resumable(&life);
                send(task, &Leave::Cancel, true, None, &mut outgoing, |_| {}).await
            };
            beside(task, &life, listen, pin!(answer)).await
        };
        progress.tear(outgoing.is_torn());
        result
    }
}

/// Puts the head of the answer into `outgoing`, and the subscriber after it.
///
/// # Errors
/// What went wrong. Nothing was sent.
async fn begin(task: &Task<'_>, topics: &Topics, outgoing: &mut Outgoing) -> Result<()> {
    let incoming = task.incoming;
    let framing = BodyFraming::Chunked.sent_to(incoming.minor_version);
    if let Some(Beginning::Place(admitted)) = task.moved.and_then(Moved::take) {
        attach(task, topics, framing, *admitted, outgoing);
        return Ok(());
    }
    let (topic, after) = topics.asked(incoming, &task.target())?;
    let decision = task.progress.decision();
    let tenant = decision.as_deref().and_then(Decision::tenant);
    let guest = Guest { tenant, address: task.client.addresses.host.as_deref() };
    let asked = Asked { after: after.as_deref(), terms: topics.terms, guest };
    // On the heap: what is sent for hours keeps nothing of it.
    let admission = boxed(|| topics.hub.subscribe(&topic, asked)).await?;
    let admitted = match admission {
        // The way to have an EventSource come back no more (HTML Living Standard 9.2.2).
        Admission::Over => {
            put_head(topics, task, (204, b"No Content"), BodyFraming::Empty, Resumption::Full, outgoing);
            return Ok(());
        }
        Admission::Admitted(admitted) => admitted,
    };
    if incoming.method() == "HEAD" {
        put_head(topics, task, (200, b"OK"), framing, admitted.resumption(), outgoing);
        return Ok(());
    }
    attach(task, topics, framing, *admitted, outgoing);
    Ok(())
}

/// Puts the head of the answer into `outgoing`, and the subscriber after it. What another process has sent is not sent again.
fn attach(
    task: &Task<'_>,
    topics: &Topics,
    framing: BodyFraming,
    admitted: Admitted,
    outgoing: &mut Outgoing,
) {
    put_head(topics, task, (200, b"OK"), framing, admitted.resumption(), outgoing);
    if let Some(moved) = task.moved {
        task.progress.go_on_after(moved.sent);
        outgoing.go_on_after(moved.payload);
    }
    let chunked = framing == BodyFraming::Chunked;
    task.begin_events();
    let supply = task.metered(Supply::Source(Box::new(admitted.seat(task.wire(chunked), None))));
    let supply = task.followed(task.progress.status(), supply);
    outgoing.attach_framed(supply, framing);
    if topics.hub.moves() {
        task.let_move(Vec::new, outgoing);
    }
}

fn put_head(
    topics: &Topics,
    task: &Task<'_>,
    (status, reason): (u16, &[u8]),
    framing: BodyFraming,
    resumption: Resumption,
    outgoing: &mut Outgoing,
) {
    let progress = task.progress;
    if framing == BodyFraming::UntilClose || task.site.parts_from(task.client) {
        progress.close(true);
    }
    let persistence = Persistence::of(progress.closes(), task.incoming.minor_version);
    let fields = fields(resumption, framing == BodyFraming::Empty);
    let bytes = encode(
        (status, reason),
        redirected(None, fields.into_iter()),
        framing,
        persistence,
        None,
        &topics.response,
        (&[], task.hsts()),
    );
    progress.begin(status);
    progress.set_head(bytes.len());
    outgoing.push_head(bytes);
}
