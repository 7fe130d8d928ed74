//! What an origin is told of a request's trace, and what the trace is told of an attempt at the origin.

use std::net::SocketAddr;
use std::sync::Arc;

use penstock_trace::{Attempt, Attempted, FIELDS, Trace};

use super::place::Place;
use super::request::Request;
use crate::clock;
use crate::error::Error;
use crate::stream::ResponseHead;
use crate::wire::{Fields, is_one_of, shown};

/// The trace that an application's request is a part of, which was made for a client's, and its headers without what told the
/// application of that. A trace that the application has written itself stands.
pub fn traced(headers: Arc<Fields>, trace: Option<Arc<Trace>>) -> (Arc<Fields>, Option<Arc<Trace>>) {
    let Some(trace) = trace else { return (headers, None) };
    if !trace.is_told() || !headers.iter().any(|(name, _)| is_one_of(name, &FIELDS)) {
        return (headers, Some(trace));
    }
    let ours = trace.context.write();
    let is_other = |(name, value): (&[u8], &[u8])| is_one_of(name, &FIELDS[..1]) && value != ours;
    if headers.iter().any(is_other) {
        return (headers, None);
    }
    let rest = headers.iter().filter(|(name, _)| !is_one_of(name, &FIELDS)).collect();
    (Arc::new(rest), Some(trace))
}

/// An attempt of a request that has a trace. Dropped, it was given up.
#[derive(Debug)]
pub(super) struct Traced<'a> {
    trace: &'a Trace,
    attempt: Attempt,
    request: &'a Request,
    place: &'a Place,
    is_over: bool,
}

impl<'a> Traced<'a> {
    /// Begins one at the origin of `place`.
    pub(super) fn begin(request: &'a Request, place: &'a Place) -> Option<Self> {
        let trace = request.trace.as_deref()?;
        let attempt = trace.attempt(clock::now().into_std());
        Some(Self { trace, attempt, request, place, is_over: false })
    }

    /// Adds the fields that tell of the attempt to `head`, before its empty line.
    pub(super) fn tell(&self, head: &mut Vec<u8>) {
        head.truncate(head.len() - 2);
        self.trace.write(&self.attempt.context, head);
        head.extend_from_slice(b"\r\n");
    }

    /// Notes what came of it. It ends with the head: a body may come for hours, which the request's own span tells.
    pub(super) fn end(mut self, answer: Result<&ResponseHead, (&Error, Option<SocketAddr>)>) {
        self.is_over = true;
        self.note(|attempted| match answer {
            Ok(head) => {
                let timings = &head.timings;
                attempted.status = Some(head.head.status);
                attempted.reused = head.reused;
                attempted.queued = timings.queue;
                attempted.connected =
                    (!head.reused).then_some(timings.resolve + timings.connect + timings.tls);
            }
            Err((error, address)) => {
                attempted.error = Some(error.code().name());
                attempted.address = address;
            }
        });
    }

    #[inline]
    fn note(&self, tell: impl FnOnce(&mut Attempted)) {
        let (method, origin) = (self.request.method.clone(), Arc::clone(&self.place.origin));
        self.trace.end(&self.attempt, method, origin, clock::now().into_std(), |attempted| {
            if self.trace.context.is_sampled {
                // What follows may hold a token; so may the path.
                let target = shown(&self.request.target);
                attempted.path = Some(target.split(['?', '#']).next().unwrap_or_default().into());
            }
            tell(attempted);
        });
    }
}

impl Drop for Traced<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.note(|attempted| attempted.cancelled = true);
        }
    }
}
