//! What the cache does with the origin's answer (RFC 9111, sections 3, 3.4, 4.2.4 and 4.3; RFC 5861,
//! section 4).

use super::freshness::{State, Timing};
use super::policy::Policy;
use super::request::Request;
use super::storable::Refusal;
use super::stored::{Content, Stored};
use super::time::Time;
use super::validate::Validators;
use penstock_http::wire::ContentRange;
use penstock_http::wire::Span;
use penstock_http::wire::list::{Lines, values};

/// The head of an origin's final answer.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    /// Its status.
    pub status: u16,
    /// Its end-to-end fields, as [`response_fields`](penstock_http::relay::response_fields) gives them.
    pub lines: &'a Lines<'a>,
    /// When the request was sent, and when the answer came.
    pub timing: Timing,
}

/// The condition of the cache in the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The request had no condition of the cache.
    Nothing,
    /// Whether the stored response is still valid.
    Validity,
    /// A range: the missing part of the stored response.
    Rest,
}

/// What the cache does with an answer.
#[derive(Debug)]
pub enum Outcome {
    /// It is stored in place of the selected response, if there was one, and clients are answered from it. Fields that
    /// are not stored go only to the client whose request was sent. If that client's Range was sent unchanged it gets
    /// the answer unchanged, because an origin may answer with other bytes than were requested.
    Store {
        /// The stored head.
        stored: Box<Stored>,
        /// The bytes of the representation that the body has, if it is a part.
        span: Option<Span>,
    },
    /// The stored response is confirmed and answers the client, also a HEAD.
    Update {
        /// The head that replaces the old one.
        stored: Box<Stored>,
        /// Why it is dropped after it has answered this request; `None` if it is kept.
        dropped: Option<Refusal>,
    },
    /// The body is a part to be added to the stored response, which has the same strong validator.
    Extend {
        /// The head that takes the place of the old one.
        stored: Box<Stored>,
        /// The bytes that the body has.
        span: Span,
    },
    /// The stored response is served in place of this error.
    ServeStale,
    /// The answer is not about the stored response: the request is sent again, once, without condition and range.
    Refetch,
    /// The answer goes to the client and is not stored.
    Pass {
        /// Why.
        refusal: Refusal,
        /// What the cache does with the selected response.
        held: Held,
        /// Whether the waiters of the key are released, and the key is noted as hit-for-miss: answers to their
        /// requests will not be stored either.
        hit_for_miss: bool,
    },
}

/// What the cache does with a stored response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// It is kept unchanged.
    Kept,
    /// It is stale from now on (RFC 9111, section 4.3.5).
    Stale,
    /// It is dropped, because the origin has a newer one.
    Dropped,
}

/// Decides about the answer to a request for which `stored` was selected, if there was one.
pub fn answered(
    request: &Request<'_>,
    asked: Asked,
    stored: Option<&Stored>,
    reply: Reply<'_>,
    policy: &Policy,
    now: Time,
) -> Outcome {
    let Reply { status, lines, timing } = reply;
    if request.method == "HEAD" {
        return head(request, stored, reply, policy);
    }
    if stored.is_none() && asked == Asked::Validity && status == 304 {
        // It confirms none of the stored responses that were named in the request.
        return Outcome::Refetch;
    }
    if let Some(stored) = stored {
        let validators = Validators::of(lines, timing.received);
        if status == 304 && asked != Asked::Nothing {
            if asked == Asked::Rest || !stored.validators.confirmed_by(&validators) {
                return Outcome::Refetch;
            }
            let (updated, may) = stored.updated(request, lines, timing, policy);
            return Outcome::Update { stored: Box::new(updated), dropped: may.err() };
        }
        if status == 416 && asked == Asked::Rest {
            return Outcome::Refetch;
        }
        if is_error(status) && stands_in(request, stored, policy, now) {
            return Outcome::ServeStale;
        }
        if let Some(range) = extension(stored, status, lines, &validators) {
            let (mut updated, may) = stored.updated(request, lines, timing, policy);
            if let (Content::Parts(_, length), Ok(()), Some(span)) = (&mut updated.content, may, range.span) {
                *length = length.or(range.length);
                return Outcome::Extend { stored: Box::new(updated), span };
            }
        }
    }
    match Stored::of(request, status, lines, timing, policy) {
        Ok(stored) => Outcome::Store { span: part(status, lines), stored: Box::new(stored) },
        Err(refusal) => Outcome::Pass {
            refusal,
            held: if supersedes(request, status, refusal) { Held::Dropped } else { Held::Kept },
            hit_for_miss: !matches!(refusal, Refusal::Method | Refusal::RequestNoStore) && !is_of_one(status),
        },
    }
}

/// Whether a stored response may be served because the origin cannot be reached, or has answered with an error
/// (RFC 9111, section 4.2.4; RFC 5861, section 4).
pub fn stands_in(request: &Request<'_>, stored: &Stored, policy: &Policy, now: Time) -> bool {
    if stored.is_invalid || stored.control.forbids_stale() {
        return false;
    }
    if policy.clients_may_refresh && request.control.no_cache {
        return false;
    }
    let tolerated = request.control.stale_if_error.unwrap_or_default().max(stored.freshness.if_error);
    let timely = match stored.freshness.state(now) {
        State::Fresh(_) => true,
        State::Stale(span) => span <= tolerated && !tolerated.is_zero(),
    };
    timely && super::answer::answer(request, stored, policy).is_ok()
}

/// Whether an answer that is not stored makes the stored response stale. An answer about the client and not about the
/// resource does not: otherwise a client with bad credentials could empty the cache.
fn supersedes(request: &Request<'_>, status: u16, refusal: Refusal) -> bool {
    let of_client = matches!(
        refusal,
        Refusal::Method
            | Refusal::RequestNoStore
            | Refusal::Authorization
            | Refusal::Private
            | Refusal::Range
    );
    !of_client && !request.authorized && matches!(status, 200..=303 | 307 | 308 | 404 | 410)
}

/// Whether an answer may be about this request alone, so that other requests may get another answer. Otherwise a client
/// whose requests the origin refuses could switch off request collapsing for all others.
fn is_of_one(status: u16) -> bool {
    matches!(status, 400..=599) && !matches!(status, 404 | 410)
}

/// The errors in whose place a stale response may be served.
fn is_error(status: u16) -> bool {
    matches!(status, 500 | 502 | 503 | 504)
}

/// What the answer to a HEAD does to the stored response to GET (RFC 9111, section 4.3.5).
fn head(request: &Request<'_>, stored: Option<&Stored>, reply: Reply<'_>, policy: &Policy) -> Outcome {
    let pass = |held| Outcome::Pass { refusal: Refusal::Method, held, hit_for_miss: false };
    let Some(stored) = stored.filter(|_| reply.status == 200) else { return pass(Held::Kept) };
    let theirs = Validators::of(reply.lines, reply.timing.received);
    let ours = &stored.validators;
    let length = values(reply.lines, "content-length").next().and_then(penstock_http::wire::list::number);
    let differs = (theirs.etag.is_some() && theirs.etag != ours.etag)
        || (theirs.last_modified.is_some() && theirs.last_modified != ours.last_modified)
        || length.is_some_and(|length| stored.length().is_some_and(|ours| ours != length));
    if differs || stored.status != 200 {
        return pass(Held::Stale);
    }
    let (updated, may) = stored.updated(request, reply.lines, reply.timing, policy);
    Outcome::Update { stored: Box::new(updated), dropped: may.err() }
}

/// The bytes that a 206 adds to a stored response, if both have the same strong validator and length (RFC
/// 9111, section 3.4).
fn extension(
    stored: &Stored,
    status: u16,
    lines: &Lines<'_>,
    validators: &Validators,
) -> Option<ContentRange> {
    let Content::Parts(present, length) = &stored.content else { return None };
    let same = stored.validators.strong()?.is_same(validators.etag.as_ref()?);
    let range = content_range(lines).filter(|_| same && status == 206)?;
    let span = range.span?;
    let end = present.iter().chain([span]).map(Span::end).max();
    let agrees = match (*length, range.length) {
        (Some(ours), Some(theirs)) => ours == theirs,
        (ours, theirs) => ours.or(theirs).is_none_or(|length| end.is_none_or(|end| end <= length)),
    };
    let framed = values(lines, "content-length").next().and_then(penstock_http::wire::list::number);
    (agrees && framed.is_none_or(|framed| framed == span.len())).then_some(range)
}

fn part(status: u16, lines: &Lines<'_>) -> Option<Span> {
    content_range(lines).filter(|_| status == 206)?.span
}

/// The Content-Range of a response, if it has exactly one and that is valid.
pub(super) fn content_range(lines: &Lines<'_>) -> Option<ContentRange> {
    let mut ranges = values(lines, "content-range");
    ranges.next().filter(|_| ranges.next().is_none()).and_then(ContentRange::parse)
}
