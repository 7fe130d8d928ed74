//! Goes on with a body that broke off: asks another origin for the rest of the same bytes.
//!
//! Only if a strong entity tag shows that they are the same (RFC 9110, section 8.8.1), and the position in the body is
//! known. The rest is requested by Range with If-Range, and accepted only from a 206 of the same tag that begins where the
//! first answer broke off and has the same end. The invariant: the reader gets the bytes of one representation, each once
//! and in order, or an error.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc as Plain;
use std::task::{Context, Poll, ready};

use super::{Reason, Turn, Upstream};
use crate::error::{Code, Error, Result};
use crate::origin::attempt::{Answer, attempt, limited};
use crate::origin::origins::Origins;
use crate::origin::payload::Payload;
use crate::origin::request::{Passing, Request, RequestBody};
use crate::sync::Arc;
use crate::wire::{BodyFraming, Fields, Head, body_of, is_one_of};
use crate::wire::{ContentRange, EntityTag};

/// Fields of a request that a resumption has none of, or others.
const REPLACED: [&str; 6] =
    ["range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since"];

/// A body, and what it takes to have the rest of it from elsewhere.
pub(in crate::origin) struct Resume {
    origins: Plain<Origins>,
    request: Plain<Request>,
    key: u64,
    tag: EntityTag,
    /// The byte of the representation that comes next.
    at: u64,
    /// The one behind the last, if that is known.
    end: Option<u64>,
    /// Bytes of the representation, if that is known.
    length: Option<u64>,
    /// Origins that this byte was asked of.
    tried: Vec<u64>,
    /// Where `tried` is from.
    stands: u64,
    asking: Option<Pin<Box<dyn Future<Output = Option<Resumed>> + Send>>>,
    /// What has broken the body off.
    cause: Option<Error>,
}

/// The rest of a body.
pub(in crate::origin) struct Resumed {
    pub(in crate::origin) turn: Turn,
    pub(in crate::origin) answer: Answer,
    end: u64,
    length: Option<u64>,
}

impl Resume {
    /// For the body of the response `head` to `request`, if that can be resumed.
    pub(in crate::origin) fn of(
        origins: &Plain<Origins>,
        request: Box<Request>,
        head: &Head,
        key: u64,
    ) -> Option<Box<Self>> {
        if request.method != "GET" {
            return None;
        }
        let tag = strong_tag(head)?;
        let (at, end, length) = match head.status {
            200 => {
                let length = match body_of(head, &request.method).ok()? {
                    BodyFraming::Empty => return None,
                    BodyFraming::Length(length) => Some(length),
                    BodyFraming::Chunked | BodyFraming::UntilClose | BodyFraming::Tunnel => None,
                };
                (0, length, length)
            }
            206 => {
                let range = content_range(head)?;
                let span = range.span?;
                (span.start(), Some(span.end()), range.length)
            }
            _ => return None,
        };
        Some(Box::new(Self {
            origins: Plain::clone(origins),
            request: Plain::from(request),
            key,
            tag,
            at,
            end,
            length,
            tried: Vec::new(),
            stands: at,
            asking: None,
            cause: None,
        }))
    }

    /// Bytes of the body have come.
    ///
    /// # Errors
    /// `BAD_PART` if they are more than there are.
    pub(in crate::origin) fn advance(&mut self, bytes: usize) -> Result<()> {
        self.at += bytes as u64;
        match self.end {
            Some(end) if self.at > end => {
                let excess = self.at - end;
                Err(Code::BadPart.error(format!("{excess} bytes follow the end that was told")))
            }
            _ => Ok(()),
        }
    }

    /// The body says that it has ended.
    ///
    /// # Errors
    /// `BODY_TRUNCATED` if bytes are missing.
    pub(in crate::origin) fn end(&self) -> Result<()> {
        match self.end {
            Some(end) if self.at < end => {
                let missing = end - self.at;
                Err(Code::BodyTruncated.error(format!("the body ended with {missing} bytes missing")))
            }
            _ => Ok(()),
        }
    }

    pub(in crate::origin) fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    /// The body of `turn` has broken off with `cause`. Whether the rest is asked for elsewhere.
    pub(in crate::origin) fn begin(&mut self, turn: &Turn, cause: &Error) -> bool {
        let is_break = matches!(
            cause.code(),
            Code::IoTimeout | Code::OriginReset | Code::OriginClosed | Code::BodyTruncated
        );
        if !is_break || self.end == Some(self.at) {
            return false;
        }
        if self.at > self.stands {
            // There was progress: origins that failed before may be asked again.
            self.tried.clear();
            self.stands = self.at;
        }
        self.tried.push(turn.seat);
        self.cause = Some(cause.clone());
        let tried = self.tried.clone();
        let wanted =
            Wanted { key: self.key, tag: self.tag.clone(), at: self.at, end: self.end, length: self.length };
        let (origins, request) = (Plain::clone(&self.origins), Plain::clone(&self.request));
        let upstream = Arc::clone(&turn.upstream);
        self.asking = Some(Box::pin(async move { wanted.ask(&origins, &upstream, &request, tried).await }));
        true
    }

    /// Ready when the rest comes.
    ///
    /// # Errors
    /// The error of the body, if no origin has the rest.
    pub(in crate::origin) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Resumed>> {
        let Some(asking) = &mut self.asking else { return Poll::Pending };
        let resumed = ready!(asking.as_mut().poll(context));
        self.asking = None;
        Poll::Ready(match (resumed, self.cause.take()) {
            (Some(resumed), _) => {
                (self.end, self.length) = (Some(resumed.end), resumed.length);
                Ok(resumed)
            }
            (None, cause) => {
                Err(cause.unwrap_or_else(|| Code::Internal.error("what broke a body off is gone")))
            }
        })
    }
}

impl fmt::Debug for Resume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tag, at, end, length, .. } = self;
        let mut shown = f.debug_struct("Resume");
        shown.field("tag", tag).field("at", at).field("end", end).field("length", length);
        shown.finish_non_exhaustive()
    }
}

/// The rest of a representation.
struct Wanted {
    key: u64,
    tag: EntityTag,
    at: u64,
    end: Option<u64>,
    length: Option<u64>,
}

impl Wanted {
    /// Asks one origin after the other, and the one that broke off once more if there is no other.
    async fn ask(
        self,
        origins: &Plain<Origins>,
        upstream: &Arc<Upstream>,
        request: &Request,
        mut tried: Vec<u64>,
    ) -> Option<Resumed> {
        let retries = &upstream.policy.retries;
        let request = self.request(request);
        let broken = tried.last().copied();
        let mut is_last = false;
        for _ in 0..retries.tries {
            if !upstream.has_beside(&tried) {
                if std::mem::replace(&mut is_last, true) {
                    return None;
                }
                tried.retain(|seat| Some(*seat) != broken);
            }
            let mut turn = upstream.choose(self.key, &tried, Reason::Resume)?;
            tried.push(turn.seat);
            let member = Plain::clone(&turn.member);
            let place = origins.place(&member.endpoint);
            let target = (&member.endpoint, &*member.authority);
            let known = Arc::clone(&place);
            let asked = attempt(origins, place, target, &request, Payload::None, &|_| {});
            match limited(retries.try_timeout, &known, request.reports, asked).await {
                Err(failed) => turn.end_in(failed.error.code()),
                Ok(answer) => {
                    let head = &answer.0.head;
                    if upstream.policy.health.statuses.contains(&head.status) {
                        turn.fail();
                    }
                    if let Some((end, length)) = self.is_met_by(head) {
                        return Some(Resumed { turn, answer, end, length });
                    }
                }
            }
        }
        None
    }

    fn request(&self, request: &Request) -> Request {
        let mut headers: Fields =
            request.headers.iter().filter(|(name, _)| !is_one_of(name, &REPLACED)).collect();
        let end = self.end.map(|end| (end - 1).to_string()).unwrap_or_default();
        headers.push(b"Range", format!("bytes={}-{end}", self.at).as_bytes());
        headers.push(b"If-Range", &self.tag.to_bytes());
        Request {
            endpoint: request.endpoint.clone(),
            upstream: None,
            method: request.method.clone(),
            target: request.target.clone(),
            authority: Plain::clone(&request.authority),
            headers: Plain::new(headers),
            body: RequestBody::None,
            timeouts: request.timeouts,
            is_proven: request.is_proven,
            reports: request.reports,
            passing: Passing::Body,
            in_frames: request.in_frames,
            trace: request.trace.clone(),
        }
    }

    /// Where it ends, and how long the representation is, if `head` is that of these bytes and no others.
    fn is_met_by(&self, head: &Head) -> Option<(u64, Option<u64>)> {
        let range = content_range(head).filter(|_| head.status == 206)?;
        let span = range.span.filter(|span| span.start() == self.at)?;
        let is_same = strong_tag(head).is_some_and(|tag| tag.is_same(&self.tag))
            || cfg!(all(test, planted_bug = "resumed-from-other-version"));
        let is_as_long = match (self.length, range.length) {
            (Some(before), Some(now)) => before == now,
            _ => true,
        };
        let ends = match self.end {
            Some(end) => span.end() == end,
            // The rest, which is only known as such if the whole is known.
            None => range.length == Some(span.end()),
        };
        (is_same && is_as_long && ends).then_some((span.end(), range.length.or(self.length)))
    }
}

fn strong_tag(head: &Head) -> Option<EntityTag> {
    let mut values = head.get_all("etag");
    let tag = values.next().and_then(EntityTag::parse).filter(EntityTag::is_strong)?;
    values.next().is_none().then_some(tag)
}

fn content_range(head: &Head) -> Option<ContentRange> {
    let mut values = head.get_all("content-range");
    let range = values.next().and_then(ContentRange::parse)?;
    values.next().is_none().then_some(range)
}
