//! One request on one connection, up to the head of its response.

mod head;

use std::pin::pin;

use super::limits::{OriginLimits, Timeouts};
use super::upload::{Progress, Upload, alongside};
use crate::clock;
use crate::error::{Code, Error, Kind, Result};
use crate::net::{Connection, Peer, Reader, Watch};
use crate::pool::{Pool, Slice};
use crate::stream::reading::ReadSizes;
use crate::stream::{ResponseHead, Timings};
use crate::wire::{BodyFraming, Handshake, Head, body_of, keeps_alive};

use head::HeadReader;

/// The receiver of interim responses.
pub(crate) type Interim<'a> = dyn Fn(Head) + Send + Sync + 'a;

/// The parameters of an exchange.
#[derive(Debug)]
pub(super) struct Terms<'a> {
    pub(super) pool: &'a Pool,
    pub(super) limits: &'a OriginLimits,
    pub(super) timeouts: &'a Timeouts,
    pub(super) reads: ReadSizes,
    pub(super) method: &'a str,
    /// The expected 101, if the request offers WebSocket.
    pub(super) handshake: Option<Handshake>,
    /// The times of the stages before.
    pub(super) timings: Timings,
    pub(super) reused: bool,
    /// See [`Request::in_frames`](super::request::Request::in_frames).
    pub(super) in_frames: bool,
}

/// A response after its head: the head, and the bytes after it in the same read.
#[derive(Debug)]
pub(super) struct Answered<R = Slice> {
    pub(super) head: ResponseHead,
    /// The bytes in the same read as the end of the head.
    pub(super) rest: R,
    pub(super) reader: Reader,
    pub(super) body: BodyFraming,
    /// Whether the connection may serve again after it.
    pub(super) keep: bool,
    pub(super) progress: Progress,
}

impl Answered {
    /// Whether the origin says that it waited too long for a request, as some do before they close an idle connection
    /// (RFC 9110, section 15.5.9). On a connection that was idle, it answers no request.
    pub(super) fn is_of_idleness(&self) -> bool {
        self.head.head.status == 408 && !self.keep
    }
}

/// The failure of an exchange.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: Error,
    /// The connection ended without a byte of a response, as one does that the origin had given up while it was idle; or
    /// it brought bytes that are not a response, as after the origin has written to an idle connection.
    pub(super) unanswered: bool,
}

/// Sends, and receives a head. `limit` is the timer of the connection's last reader. Dropping the future closes the
/// connection once its owner drops it.
pub(super) async fn exchange(
    limit: Watch,
    connection: &Connection,
    upload: &mut Upload,
    terms: &Terms<'_>,
    interim: &Interim<'_>,
) -> std::result::Result<Answered, Failure> {
    let progress = Progress::default();
    let mut reader = Reader::new(Peer::Origin, terms.pool, limit);
    let mut head = HeadReader::new(terms, clock::now());
    let outcome = {
        let read = pin!(head.read(&mut reader, connection, &progress, interim));
        alongside(upload, connection, &progress, read).await
    };
    let (response, rest, first_byte) = outcome.map_err(|error| Failure {
        unanswered: match error.code() {
            Code::OriginReset | Code::OriginClosed => {
                !head.has_begun() || cfg!(all(test, planted_bug = "retry-after-first-byte"))
            }
            _ => !head.has_parsed() && error.code().kind() == Kind::Protocol,
        },
        error,
    })?;
    progress.answered();
    let (body, keep) = begin(&response, upload, terms).map_err(midway)?;
    head.note(connection, body);
    let timings = Timings { first_byte, ..terms.timings };
    let head = ResponseHead { head: response, timings, reused: terms.reused };
    Ok(Answered { head, rest, reader, body, keep, progress })
}

fn midway(error: Error) -> Failure {
    Failure { error, unanswered: false }
}

/// How the body is delimited, and whether the connection may serve again after it.
fn begin(response: &Head, upload: &mut Upload, terms: &Terms<'_>) -> Result<(BodyFraming, bool)> {
    let body = match terms.handshake.as_ref().filter(|_| response.status == 101) {
        Some(handshake) => {
            handshake.check(response)?;
            upload.switch();
            BodyFraming::Tunnel
        }
        None => body_of(response, terms.method)?,
    };
    let keep = keeps_alive(response);
    if !keep && response.status >= 400 {
        // The origin has refused the request and reads no more of it (RFC 9112, section 9.6).
        upload.abandon();
    }
    Ok((body, keep))
}
