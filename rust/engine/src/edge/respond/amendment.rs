//! Reads a request whole and adds what its route adds, before the origin is asked.

use std::future::poll_fn;
use std::task::{Poll, ready};

use crate::edge::exchange::{Left, Task};
use crate::edge::inbound::check_size;
use crate::error::Result;
use crate::inspect::Rules;
use crate::net::Outgoing;
use crate::origin::RequestBody;
use crate::pool::CopyReason;
use crate::relay_spec::Relay;

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
    poll_fn(|context| {
        loop {
            // Among others, tells the client that its body may come.
            task.wait(context, relay, left, Vec::new(), outgoing)?;
            let Some(piece) = ready!(stream.poll_next(context)) else { return Poll::Ready(Ok(())) };
            let piece = piece?;
            check_size((whole.len() + piece.len()) as u64, Some(rules.max_request))?;
            whole.extend_from_slice(&piece);
        }
    })
    .await?;
    task.site.supplies.pool.count_copy(CopyReason::Inspection, whole.len());
    Ok(match amendment.apply(&whole) {
        Some(amended) => (RequestBody::Bytes(amended), true),
        None => (RequestBody::Bytes(whole), false),
    })
}
