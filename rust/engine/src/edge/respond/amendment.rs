//! Reads a request whole and adds what its route adds, before the origin is asked.

use std::future::poll_fn;
use std::task::{Poll, ready};

use crate::edge::exchange::{Left, Task};
use crate::edge::grpc_web::TextBody;
use crate::edge::inbound::check_size;
use crate::error::Result;
use crate::inspect::Rules;
use crate::net::Outgoing;
use crate::origin::RequestBody;
use crate::pool::CopyReason;
use crate::relay_spec::Relay;
use crate::stream::Stream;

/// The body of the request as it is sent to the origin, and whether it was changed. What is no JSON is not read.
///
/// # Errors
/// `REQUEST_TOO_LARGE`, and what went wrong with the client.
pub(super) async fn amend(
    task: &Task<'_>,
    relay: &Relay,
    rules: &Rules,
    body: RequestBody,
    left: &mut Left,
    outgoing: &mut Outgoing,
) -> Result<(RequestBody, bool)> {
    let field = |name| task.incoming.get_all(name).next();
    let amendment = rules.amendment.as_ref();
    let Some(amendment) =
        amendment.filter(|_| rules.amends(field("content-type"), field("content-encoding")))
    else {
        return Ok((body, false));
    };
    let RequestBody::Stream { stream, length } = body else { return Ok((body, false)) };
    check_size(length.unwrap_or_default(), Some(rules.max_request))?;
    let mut whole = Vec::new();
    read(task, relay, &stream, left, outgoing, |piece| {
        check_size((whole.len() + piece.len()) as u64, Some(rules.max_request))?;
        whole.extend_from_slice(piece);
        Ok(())
    })
    .await?;
    task.site.supplies.pool.count_copy(CopyReason::Inspection, whole.len());
    Ok(match amendment.apply(&whole) {
        Some(amended) => (RequestBody::Bytes(amended), true),
        None => (RequestBody::Bytes(whole), false),
    })
}

/// The body of a request of gRPC-Web that is text, as its origin is sent it.
///
/// # Errors
/// `BAD_REQUEST_BODY`, `REQUEST_TOO_LARGE`, and what went wrong with the client.
pub(super) async fn decode_text(
    task: &Task<'_>,
    relay: &Relay,
    body: RequestBody,
    left: &mut Left,
    outgoing: &mut Outgoing,
) -> Result<RequestBody> {
    let RequestBody::Stream { stream, .. } = body else { return Ok(body) };
    let mut text = TextBody::default();
    read(task, relay, &stream, left, outgoing, |piece| text.push(piece)).await?;
    let bytes = text.end()?;
    task.site.supplies.pool.count_copy(CopyReason::Inspection, bytes.len());
    Ok(RequestBody::Bytes(bytes))
}

/// Reads the body of a request to its end, and gives each piece of it to `take`.
async fn read(
    task: &Task<'_>,
    relay: &Relay,
    stream: &Stream,
    left: &mut Left,
    outgoing: &mut Outgoing,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    poll_fn(|context| {
        loop {
            // Among others, tells the client that its body may come.
            task.wait(context, relay, left, Vec::new(), outgoing)?;
            let Some(piece) = ready!(stream.poll_next(context)) else { return Poll::Ready(Ok(())) };
            take(&piece?)?;
        }
    })
    .await
}
