//! The rest of a response, of which another process has had the beginning from the origin.

use std::os::fd::OwnedFd;
use std::time::Duration;

use super::arriving::Arriving;
use super::exchange::{Answered, Terms};
use super::limits::Deadline;
use super::origins::Origins;
use super::relayed::Begun;
use super::request::Request;
use super::upload::{Progress, Upload};
use crate::error::{Code, Result};
use crate::net::{Connection, DetachedSocket, Peer, Reader, Transport, Watch};
use crate::stream::{ResponseHead, Timings};
use crate::wire::{Head, body_of, keeps_alive};

/// Goes on with the response to `request`, which began with `head` so long ago and comes over `socket`: the process before has
/// taken all of the body that has come, up to the end of a chunk. Must run on the thread that `origins` belongs to.
///
/// The connection counts as one in use, even if there are as many as there may be.
///
/// # Errors
/// `ORIGIN_RESET` if this process cannot wait for the socket, and what is wrong with the head.
pub(crate) fn adopt(
    origins: &Origins,
    request: &Request,
    head: Head,
    socket: OwnedFd,
    elapsed: Duration,
) -> Result<(ResponseHead, Begun)> {
    let attached = DetachedSocket::from(socket).attach();
    let socket = attached.map_err(|error| {
        Code::OriginReset
            .error(format!("the connection that another process has given cannot be used: {error}"))
    })?;
    let mut connection = Connection::new(Transport::Plain(socket));
    let peer = connection.with_socket(|socket| socket.option(|socket| socket.peer_addr()));
    connection.peer = peer.ok().and_then(|peer| peer.as_socket());
    connection.requests = 1;
    let mut lease = origins.place(&request.endpoint).adopt(Box::new(connection), request.is_proven);
    lease.reports = request.reports;
    let body = body_of(&head, &request.method)?;
    let progress = Progress::default();
    progress.answered();
    let keep = keeps_alive(&head);
    let answered = Answered {
        head: ResponseHead { head, timings: Timings::default(), reused: true },
        rest: (),
        reader: Reader::new(Peer::Origin, &origins.pool, Watch::default()),
        body,
        keep,
        progress,
    };
    let mut timeouts = request.timeouts;
    timeouts.total = timeouts.total.map(|total| total.saturating_sub(elapsed));
    let terms = Terms {
        pool: &origins.pool,
        limits: &origins.limits,
        reads: origins.reads,
        timeouts: &timeouts,
        method: &request.method,
        handshake: None,
        timings: Timings::default(),
        reused: true,
        in_frames: false,
    };
    let (head, (), arriving) = Arriving::new(answered, lease, Upload::complete(), &terms);
    Ok((head, Begun { body: arriving.into(), rest: None, deadline: Deadline::of(&timeouts) }))
}
