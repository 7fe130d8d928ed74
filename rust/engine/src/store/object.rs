//! One stored response: what is known of it, and the bodies that hold its bytes. Neither changes: what replaces or
//! confirms a response makes another object, which shares the bodies.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use super::body::{Body, Follower};
use crate::cache::{Span, Stored};
use crate::error::Result;
use crate::pool::Slice;
use crate::stream::Ending;
use crate::sync::Arc;

/// A stored response. Held by the index and by whoever serves it.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) stored: Stored,
    /// As the origin wrote it.
    pub(super) reason: Box<[u8]>,
    parts: Box<[Part]>,
}

/// A body, and where in the representation its first byte lies.
#[derive(Debug, Clone)]
struct Part {
    start: u64,
    body: Arc<Body>,
}

impl Object {
    /// A response whose body is all of it.
    pub(super) fn whole(stored: Stored, reason: &[u8], body: Arc<Body>) -> Self {
        Self { stored, reason: reason.into(), parts: [Part { start: 0, body }].into() }
    }

    /// The same bytes, about which something newer is known.
    pub(super) fn updated(&self, stored: Stored) -> Self {
        Self { stored, reason: self.reason.clone(), parts: self.parts.clone() }
    }

    /// What keeping it costs.
    pub(super) fn cost(&self) -> usize {
        self.parts.iter().map(|part| part.body.cost()).sum()
    }

    /// Whether both are the same bytes.
    pub(super) fn shares(&self, body: &Arc<Body>) -> bool {
        self.parts.iter().any(|part| Arc::ptr_eq(&part.body, body))
    }

    /// Bytes of the body once all have come, where the parts are one whole.
    pub(super) fn length(&self) -> Option<u64> {
        let [Part { start: 0, body }] = &*self.parts else { return None };
        body.ending().map(|_| body.length())
    }

    /// Reads these bytes of the representation; all where it is not said which.
    pub(super) fn read(&self, span: Option<Span>) -> Reader {
        let (start, end) = span.map_or((0, u64::MAX), |span| (span.start(), span.end()));
        let followers = self.parts.iter().filter(|part| part.start < end).map(|part| {
            Body::follow(&part.body, start.saturating_sub(part.start)..end - part.start)
        });
        Reader { followers: followers.collect(), body: self.parts.last().map(|part| Arc::clone(&part.body)) }
    }
}

/// Reads a response's bytes, body after body.
#[derive(Debug)]
pub(super) struct Reader {
    followers: VecDeque<Follower>,
    body: Option<Arc<Body>>,
}

impl Reader {
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Slice>>> {
        while let Some(follower) = self.followers.front_mut() {
            match follower.poll_next(context) {
                Poll::Ready(None) => drop(self.followers.pop_front()),
                other => return other,
            }
        }
        Poll::Ready(None)
    }

    /// What followed the last of the bodies.
    pub(super) fn ending(&self) -> Ending {
        self.body.as_ref().and_then(|body| body.ending()).unwrap_or_default()
    }
}
