//! Answers a request by a small text of the engine's own, or by a redirect.

use std::future::poll_fn;
use std::num::NonZeroUsize;
use std::task::Poll;

use super::{Responder, answer_alone};
use crate::edge::exchange::{Task, send};
use crate::edge::head::{Persistence, encode};
use crate::edge::inbound::Inbound;
use crate::edge::pages::{Asked, Pages, Shown};
use crate::error::{Code, Result};
use crate::events::Leave;
use crate::net::{Outgoing, Payload, Piece, Supply};
use crate::relay::redirected;
use crate::wire::{BodyFraming, encode_chunk_head, encode_last_chunk};

impl Responder for Pages {
    async fn respond(&self, task: &mut Task<'_>, inbound: &mut Inbound<'_>) -> Result<()> {
        if !self.exhibit.takes_bodies() {
            task.refuse_body("a request for a page has no body")?;
        } else if task.announced()?.has_bytes() {
            task.progress.close(true);
        }
        let task = &*task;
        let _guard = self.enter(task.incoming)?;
        answer_alone(task, inbound, async {
            let mut outgoing = Outgoing::new(task.site.config.write_timeout, Code::Internal);
            let is_events = begin(task, self, &mut outgoing).await?;
            send(task, &Leave::Cancel, is_events, None, &mut outgoing, |_| {}).await
        })
        .await
    }
}

/// Puts a page into `outgoing`. Whether its body is events, which go on.
///
/// # Errors
/// `NO_ROUTE`: there is no such page. `TOO_MANY_REQUESTS`: it has as many viewers as it may. Nothing was sent.
async fn begin(task: &Task<'_>, pages: &Pages, outgoing: &mut Outgoing) -> Result<bool> {
    let (incoming, progress) = (task.incoming, task.progress);
    let accept = incoming.get_all("accept").collect::<Vec<_>>().join(&b","[..]);
    let target = incoming.origin_form();
    let (method, authority) = (incoming.method(), incoming.authority());
    let mut showing = pages.exhibit.show(Asked { method, target: &target, authority, accept: &accept });
    // A profile takes its time, and ends if the client leaves.
    let shown = poll_fn(|context| match task.check() {
        Ok(()) => showing.as_mut().poll(context),
        Err(error) => Poll::Ready(Err(error)),
    });
    let shown = shown.await?;
    let length = shown.text.len().to_string();
    let mut fields: Vec<(&[u8], &[u8])> = vec![
        (b"Content-Type", shown.content_type.as_bytes()),
        (b"Cache-Control", b"no-store"),
        (b"X-Content-Type-Options", b"nosniff"),
    ];
    let has_length = shown.trailers.is_empty() && shown.events.is_none();
    if has_length {
        fields.push((b"Content-Length", length.as_bytes()));
    }
    fields.extend(shown.field.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
    let framing = if has_length {
        BodyFraming::Length(shown.text.len() as u64)
    } else {
        BodyFraming::Chunked.sent_to(incoming.minor_version)
    };
    if framing == BodyFraming::UntilClose || task.site.parts_from(task.client) {
        progress.close(true);
    }
    let persistence = Persistence::of(progress.closes(), incoming.minor_version);
    let head = encode(
        (shown.status, reason(shown.status)),
        redirected(None, fields.into_iter()),
        framing,
        persistence,
        None,
        &[],
        (&[], task.hsts()),
    );
    progress.begin(shown.status);
    progress.set_head(head.len());
    outgoing.push(Piece::Bytes(head));
    Ok(method != "HEAD" && put_body(shown, framing, outgoing))
}

/// Puts the body of a page into `outgoing`. Whether it is events.
fn put_body(shown: Shown, framing: BodyFraming, outgoing: &mut Outgoing) -> bool {
    if let Some(events) = shown.events {
        outgoing.attach(Supply::Source(Box::new(events)), framing);
        return true;
    }
    if let Some(length) = NonZeroUsize::new(shown.text.len()) {
        let text = shown.text.into_bytes();
        if framing == BodyFraming::Chunked {
            let fields = shown.trailers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            outgoing.push(Piece::Chunk(encode_chunk_head(length), Payload::Text(text)));
            outgoing.push(Piece::Bytes(encode_last_chunk(fields)));
        } else {
            outgoing.push(Piece::Bytes(text));
        }
    }
    false
}

fn reason(status: u16) -> &'static [u8] {
    match status {
        200 => b"OK",
        301 => b"Moved Permanently",
        308 => b"Permanent Redirect",
        400 => b"Bad Request",
        405 => b"Method Not Allowed",
        429 => b"Too Many Requests",
        _ => b"Service Unavailable",
    }
}
