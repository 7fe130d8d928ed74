//! What is asked for: the client's request, as whoever fetches on its behalf keeps it.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;

use crate::cache::{Key, Query, Request, SOCKET, Target};

use crate::origin::{self, Endpoint, RequestBody, Timeouts, Upstream};
use crate::sync::Arc;
use crate::wire::list::Lines;
use crate::wire::{Fields, is_one_of};

/// Fields that ask for less than all of a response: what is fetched for a cache is fetched whole.
const PARTIAL: [&str; 6] =
    ["if-none-match", "if-modified-since", "if-match", "if-unmodified-since", "if-range", "range"];

/// What stands among the fields of a request for the socket of its origin.
pub(super) fn socket(endpoint: &Endpoint) -> Option<(&[u8], &[u8])> {
    endpoint.unix().map(|path| (SOCKET.as_bytes(), path.as_os_str().as_bytes()))
}

/// A request without a body.
#[derive(Debug)]
pub(super) struct Asking {
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

impl Asking {
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
    pub(super) fn order(&self, conditions: &Fields) -> Box<origin::Request> {
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
