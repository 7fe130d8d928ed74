//! One lookup: the client's request, as what fetches on its behalf keeps it, and the plan of a fetch: what the origin is to be
//! asked, and about what.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;

use super::object::Object;
use crate::cache::{Asked, CacheStatus, Fill, Key, Query, Request, SOCKET, Target, Time, Why, confirmed};
use crate::origin::{self, Endpoint, RequestBody, Timeouts, Upstream};
use crate::sync::Arc;
use crate::wire::list::Lines;
use crate::wire::{Fields, Ranges, Span, Spec, is_one_of};

/// Fields that ask for less than all of a response: what is fetched for a cache is fetched whole.
const PARTIAL: [&str; 6] =
    ["if-none-match", "if-modified-since", "if-match", "if-unmodified-since", "if-range", "range"];

/// What stands among the fields of a request for the socket of its origin.
pub(super) fn socket(endpoint: &Endpoint) -> Option<(&[u8], &[u8])> {
    endpoint.unix().map(|path| (SOCKET.as_bytes(), path.as_os_str().as_bytes()))
}

/// A request without a body.
#[derive(Debug)]
pub(super) struct Lookup {
    endpoint: Endpoint,
    upstream: Option<Arc<Upstream>>,
    pub(super) method: String,
    target: String,
    authority: String,
    headers: Arc<Fields>,
    timeouts: Timeouts,
    is_proven: bool,
    pub(super) key: Key,
}

impl Lookup {
    /// `key` stands in place of path and query in the key, if there is one. Where the answer may be stored, `request` is
    /// from now on for what `query` leaves of its target, and nothing else: see [`Query`].
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

    /// As the cache reads it.
    pub(super) fn read<'a>(&'a self, lines: &'a Lines<'a>) -> Request<'a> {
        Request::read(&self.method, self.target(), lines)
    }

    /// Whether a range is asked for, of whatever state there is.
    pub(super) fn has_range(&self) -> bool {
        let has = |name| self.headers.iter().any(|(other, _)| is_one_of(other, &[name]));
        self.method == "GET" && has("range") && !has("if-range")
    }

    /// What the origin is asked: for all of it, under `conditions` of the cache's own. HEAD is asked as it came.
    pub(super) fn origin_request(&self, conditions: &Fields) -> Box<origin::Request> {
        let headers = if self.method == "HEAD" {
            Arc::clone(&self.headers)
        } else {
            let kept = self.headers.iter().filter(|(name, _)| !is_one_of(name, &PARTIAL));
            Arc::new(kept.chain(conditions.iter()).collect())
        };
        self.with(headers)
    }

    /// What the origin is asked if there were no cache.
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
            // Many may wait for what it brings, and nobody for what is refreshed.
            reports: true,
        })
    }
}

/// How much of a representation is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it.
    Whole,
    /// What the client asks for; which bytes those are is known where it is one range with two ends.
    Asked(Option<Span>),
    /// These bytes, in a Range of the cache's own: what comes does for the client only together with what is stored.
    Own(Span),
}

/// What the origin is to be asked, and about what.
pub(super) struct FetchPlan {
    /// The status that its client is told.
    pub(super) status: CacheStatus,
    /// What is stored and no longer fresh, or not all that is wanted.
    pub(super) stored: Option<Arc<Object>>,
    /// What other requests have selected, the newest first: any of it may be good for this one.
    pub(super) variants: Vec<Arc<Object>>,
    pub(super) conditions: Fields,
    pub(super) asked: Asked,
    pub(super) extent: Extent,
    /// Whoever asks is in the middle of what is stored: nothing else will do.
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

    /// What a 304 with the fields `lines` is about.
    pub(super) fn confirmed(&self, lines: &Lines<'_>, received: Time) -> Option<Arc<Object>> {
        let states = self.variants.iter().map(|object| &object.stored.validators);
        confirmed(states, lines, received).map(|place| Arc::clone(&self.variants[place]))
    }

    /// For the rest of `stored`, if that is still its state: `if_range` is its entity tag.
    pub(super) fn rest(stored: Arc<Object>, span: Span, if_range: &[u8]) -> Self {
        let mut plan = Self { stored: Some(stored), asked: Asked::Rest, ..Self::new(Why::Partial) };
        plan.range(span);
        plan.conditions.push(b"If-Range", if_range);
        plan
    }

    /// For these bytes alone.
    fn range(&mut self, span: Span) {
        self.conditions.push(b"Range", format!("bytes={span}").as_bytes());
        self.extent = Extent::Own(span);
    }

    /// The same, for so much.
    pub(super) fn with_fill(mut self, wanted: Fill, request: &Request<'_>) -> Self {
        self.fill(wanted, request);
        self
    }

    /// For so much.
    pub(super) fn fill(&mut self, wanted: Fill, request: &Request<'_>) {
        match wanted {
            Fill::Whole => {}
            Fill::Span(span) => self.range(span),
            Fill::Asked => self.range_of(request),
        }
    }

    /// For what the client asks for.
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

    /// The same anew, about nothing that is stored.
    pub(super) fn forget_conditions(&mut self) {
        (self.asked, self.extent) = (Asked::Nothing, Extent::Whole);
        self.conditions = Fields::default();
        self.variants.clear();
    }

    /// The bytes that others may wait for; none where it is not known what will come.
    pub(super) fn awaited(&self) -> Option<Span> {
        match self.extent {
            Extent::Whole => Some(Span::ALL),
            Extent::Asked(span) => span,
            Extent::Own(span) => Some(span),
        }
    }
}
