//! A lookup: the client's request as a fill keeps it, and the plan of a fetch from the origin.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc as Plain;

use penstock_trace::Trace;

use super::object::Object;
use crate::cache::{Asked, CacheStatus, Fill, Key, Query, Request, SOCKET, Target, Time, Why, confirmed};
use crate::origin::{self, Endpoint, RequestBody, Timeouts, Upstream};
use crate::sync::Arc;
use crate::wire::list::Lines;
use crate::wire::{Fields, Ranges, Span, Spec, is_one_of};

/// Fields that ask for less than the whole response: a fill fetches the whole.
const PARTIAL: [&str; 6] =
    ["if-none-match", "if-modified-since", "if-match", "if-unmodified-since", "if-range", "range"];

/// The pseudo-field for the socket of the origin.
pub(super) fn socket(endpoint: &Endpoint) -> Option<(&[u8], &[u8])> {
    endpoint.unix().map(|path| (SOCKET.as_bytes(), path.as_os_str().as_bytes()))
}

/// A request without a body.
#[derive(Debug)]
pub(super) struct Lookup {
    endpoint: Endpoint,
    upstream: Option<Arc<Upstream>>,
    pub(super) method: Cow<'static, str>,
    target: String,
    authority: Plain<str>,
    headers: Arc<Fields>,
    timeouts: Timeouts,
    pub(super) is_proven: bool,
    trace: Option<Plain<Trace>>,
    pub(super) key: Key,
}

impl Lookup {
    /// `key` replaces path and query in the key. If the answer may be stored, the target of `request` is reduced to
    /// what `query` keeps: see [`Query`].
    pub(super) fn new(
        request: &mut origin::Request,
        query: &Query,
        key: Option<&str>,
        may_be_stored: bool,
    ) -> Self {
        let left = query.target(&request.target);
        let asked = Target {
            scheme: request.endpoint.scheme().name(),
            authority: &request.authority,
            path: key.unwrap_or(&left),
        };
        let key = Key::exact(asked);
        if let (true, Cow::Owned(left)) = (may_be_stored, left) {
            request.target = left;
        }
        let origin::Request {
            endpoint,
            upstream,
            method,
            target,
            authority,
            headers,
            timeouts,
            is_proven,
            trace,
            ..
        } = request;
        Self {
            key,
            endpoint: endpoint.clone(),
            upstream: upstream.clone(),
            method: method.clone(),
            target: target.clone(),
            authority: authority.clone(),
            headers: Arc::clone(headers),
            timeouts: *timeouts,
            is_proven: *is_proven,
            trace: trace.clone(),
        }
    }

    /// The key of a target of the same origin.
    pub(super) fn key_of(&self, target: &str, query: &Query) -> Key {
        if target == self.target {
            return self.key.clone();
        }
        Key::new(Target { path: target, ..self.target() }, query)
    }

    pub(super) fn target(&self) -> Target<'_> {
        Target { scheme: self.endpoint.scheme().name(), authority: &self.authority, path: &self.target }
    }

    pub(super) fn lines(&self) -> Vec<(&[u8], &[u8])> {
        self.headers.iter().chain(socket(&self.endpoint)).collect()
    }

    /// The request as the cache reads it.
    pub(super) fn read<'a>(&'a self, lines: &'a Lines<'a>) -> Request<'a> {
        Request::read(&self.method, self.target(), lines)
    }

    /// Whether nothing but a stream of events is wanted, as by what reads one in a browser (HTML, section 9.2).
    pub(super) fn accepts_events_alone(&self) -> bool {
        let mut accepted = self.headers.iter().filter(|(name, _)| is_one_of(name, &["accept"]));
        accepted.next().is_some_and(|(_, value)| value.eq_ignore_ascii_case(b"text/event-stream"))
            && accepted.next().is_none()
    }

    /// Whether a range is requested without If-Range.
    pub(super) fn has_range(&self) -> bool {
        let has = |name| self.headers.iter().any(|(other, _)| is_one_of(other, &[name]));
        self.method == "GET" && has("range") && !has("if-range")
    }

    /// The request to the origin for the whole, under the `conditions` of the cache. HEAD is sent unchanged.
    pub(super) fn origin_request(&self, conditions: &Fields) -> Box<origin::Request> {
        let headers = if self.method == "HEAD" {
            Arc::clone(&self.headers)
        } else {
            let kept = self.headers.iter().filter(|(name, _)| !is_one_of(name, &PARTIAL));
            Arc::new(kept.chain(conditions.iter()).collect())
        };
        self.with(headers)
    }

    /// The client's request unchanged, as without a cache.
    pub(super) fn as_it_came(&self) -> Box<origin::Request> {
        self.with(Arc::clone(&self.headers))
    }

    fn with(&self, headers: Arc<Fields>) -> Box<origin::Request> {
        Box::new(origin::Request {
            endpoint: self.endpoint.clone(),
            upstream: self.upstream.clone(),
            method: self.method.clone(),
            target: self.target.clone(),
            authority: self.authority.clone(),
            headers,
            body: RequestBody::None,
            timeouts: self.timeouts,
            is_proven: self.is_proven,
            // Many clients may wait for the answer, or none for a background revalidation.
            reports: true,
            passing: origin::Passing::Body,
            in_frames: false,
            trace: self.trace.clone(),
        })
    }
}

/// The part of a representation that is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// The whole.
    Whole,
    /// What the client asks for; the bytes are known if that is one range with two ends.
    Asked(Option<Span>),
    /// These bytes, in a Range of the cache: the client gets them only together with stored bytes.
    Own(Span),
}

/// A request to the origin: its conditions, and the stored response that it is about.
pub(super) struct FetchPlan {
    /// The status that the client is told.
    pub(super) status: CacheStatus,
    /// The stored response that is not fresh, or not complete.
    pub(super) stored: Option<Arc<Object>>,
    /// Variants for other requests, the newest first: any may be valid for this request.
    pub(super) variants: Vec<Arc<Object>>,
    pub(super) conditions: Fields,
    pub(super) asked: Asked,
    pub(super) extent: Extent,
    /// The client is in the middle of the stored response: only the same state is of use.
    pub(super) continues: bool,
}

impl FetchPlan {
    pub(super) fn new(why: Why) -> Self {
        let status = CacheStatus { forwarded: Some(why), ..CacheStatus::default() };
        let (conditions, asked, extent) = (Fields::default(), Asked::Nothing, Extent::Whole);
        Self { status, stored: None, variants: Vec::new(), conditions, asked, extent, continues: false }
    }

    /// Asks whether `stored` is still valid, or for another response if there are no conditions.
    pub(super) fn validation(why: Why, stored: Arc<Object>, conditions: Fields) -> Self {
        let asked = if conditions.is_empty() { Asked::Nothing } else { Asked::Validity };
        Self { stored: Some(stored), conditions, asked, ..Self::new(why) }
    }

    /// Asks which of `variants` is valid for this request too.
    pub(super) fn selection(variants: Vec<Arc<Object>>, conditions: Fields) -> Self {
        Self { variants, conditions, asked: Asked::Validity, ..Self::new(Why::VaryMiss) }
    }

    /// The variant that a 304 with the fields `lines` confirms.
    pub(super) fn confirmed(&self, lines: &Lines<'_>, received: Time) -> Option<Arc<Object>> {
        let states = self.variants.iter().map(|object| &object.stored.validators);
        confirmed(states, lines, received).map(|place| Arc::clone(&self.variants[place]))
    }

    /// Asks for the missing part of `stored`, if that is still its state: `if_range` is its entity tag.
    pub(super) fn rest(stored: Arc<Object>, span: Span, if_range: &[u8]) -> Self {
        let mut plan = Self { stored: Some(stored), asked: Asked::Rest, ..Self::new(Why::Partial) };
        plan.range(span);
        plan.conditions.push(b"If-Range", if_range);
        plan
    }

    /// Asks for these bytes.
    fn range(&mut self, span: Span) {
        self.conditions.push(b"Range", format!("bytes={span}").as_bytes());
        self.extent = Extent::Own(span);
    }

    /// As [`FetchPlan::fill`].
    pub(super) fn with_fill(mut self, wanted: Fill, request: &Request<'_>) -> Self {
        self.fill(wanted, request);
        self
    }

    /// Asks for this part.
    pub(super) fn fill(&mut self, wanted: Fill, request: &Request<'_>) {
        match wanted {
            Fill::Whole => {}
            Fill::Span(span) => self.range(span),
            Fill::Asked => self.range_of(request),
        }
    }

    /// Asks for the client's range.
    fn range_of(&mut self, request: &Request<'_>) {
        for (name, value) in request.lines.iter().filter(|(name, _)| is_one_of(name, &["range", "if-range"]))
        {
            self.conditions.push(name, value);
        }
        let span = match request.ranges.as_ref().map(Ranges::specs) {
            Some([Spec::From(first, Some(last))]) if request.if_range.is_none() => {
                Span::new(*first, last.saturating_add(1))
            }
            _ => None,
        };
        self.extent = Extent::Asked(span);
    }

    /// Removes all conditions.
    pub(super) fn forget_conditions(&mut self) {
        (self.asked, self.extent) = (Asked::Nothing, Extent::Whole);
        self.conditions = Fields::default();
        self.variants.clear();
    }

    /// The bytes that others may wait for; `None` if they are not known.
    pub(super) fn awaited(&self) -> Option<Span> {
        match self.extent {
            Extent::Whole => Some(Span::ALL),
            Extent::Asked(span) => span,
            Extent::Own(span) => Some(span),
        }
    }
}
