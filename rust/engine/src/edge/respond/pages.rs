//! Answers a request for a page about the engine itself.

use std::pin::pin;

use super::Responder;
use crate::edge::exchange::{Task, beside, live, send};
use crate::edge::head::{Persistence, encode};
use crate::edge::inbound::Inbound;
use crate::edge::pages::{Pages, Shown, page_of};
use crate::error::{Code, Result};
use crate::events::Leave;
use crate::net::{Outgoing, Piece};
use crate::relay::redirected;
use crate::wire::BodyFraming;

impl Responder for Pages {
    async fn respond(&self, task: &mut Task<'_>, inbound: &mut Inbound<'_>) -> Result<()> {
        task.refuse_body("a request for a page has no body")?;
        let task = &*task;
        let Task { site, incoming, progress, .. } = *task;
        let _guard = self.enter(incoming)?;
        let life = live(site)?;
        let mut outgoing = Outgoing::new(site.config.write_timeout, Code::Internal);
        let answer = async {
            begin(task, self, &mut outgoing).await?;
            send(task, &Leave::Cancel, false, None, &mut outgoing, |_| {}).await
        };
        let listen = pin!(inbound.listen(BodyFraming::Empty, None, None));
        beside(site, progress, &life, listen, pin!(answer)).await
    }
}

/// Puts a page into `outgoing`.
///
/// # Errors
/// `NO_ROUTE`: there is no such page. Nothing was sent.
async fn begin(task: &Task<'_>, pages: &Pages, outgoing: &mut Outgoing) -> Result<()> {
    let (incoming, progress) = (task.incoming, task.progress);
    let page = page_of(incoming).ok_or_else(|| Code::NoRoute.error("there is no such page"))?;
    let is_read = matches!(incoming.method(), "GET" | "HEAD");
    let shown = if is_read {
        let accept = incoming.get_all("accept").collect::<Vec<_>>().join(&b","[..]);
        pages.exhibit.show(page, &accept).await
    } else {
        let text = "pages are read by GET or HEAD\n".to_owned();
        Shown { status: 405, content_type: "text/plain; charset=utf-8", text }
    };
    let reason: &[u8] = match shown.status {
        200 => b"OK",
        405 => b"Method Not Allowed",
        _ => b"Service Unavailable",
    };
    let length = shown.text.len().to_string();
    let mut fields: Vec<(&[u8], &[u8])> = vec![
        (b"Content-Type", shown.content_type.as_bytes()),
        (b"Content-Length", length.as_bytes()),
        (b"Cache-Control", b"no-store"),
        (b"X-Content-Type-Options", b"nosniff"),
    ];
    if !is_read {
        fields.push((b"Allow", b"GET, HEAD"));
    }
    if task.site.is_draining() {
        progress.close(true);
    }
    let persistence = Persistence::of(progress.closes(), incoming.minor_version);
    let framing = BodyFraming::Length(shown.text.len() as u64);
    let head = encode(
        (shown.status, reason),
        redirected(None, fields.into_iter()),
        framing,
        persistence,
        None,
        &[],
        &[],
    );
    progress.begin(shown.status);
    progress.set_head(head.len());
    outgoing.push(Piece::Bytes(head));
    if incoming.method() != "HEAD" {
        outgoing.push(Piece::Bytes(shown.text.into_bytes()));
    }
    Ok(())
}
