//! What an origin is told of a request's trace, and what the trace is told of an attempt at the origin.

use std::net::SocketAddr;
use std::sync::Arc;

use penstock_trace::{Attempt, Attempted, Trace};

use super::place::Place;
use super::request::Request;
use crate::clock;
use crate::error::Error;
use crate::stream::ResponseHead;
use crate::wire::{shown, write_field};

/// An attempt of a request that has a trace. Dropped, it was given up.
#[derive(Debug)]
pub(super) struct Traced<'a> {
    trace: &'a Trace,
    attempt: Attempt,
    request: &'a Request,
    origin: Arc<str>,
    is_over: bool,
}

impl<'a> Traced<'a> {
    /// Begins one at the origin of `place`.
    pub(super) fn begin(request: &'a Request, place: &Place) -> Option<Self> {
        let trace = request.trace.as_deref()?;
        let (attempt, origin) = (trace.attempt(clock::now().into_std()), Arc::clone(&place.origin));
        Some(Self { trace, attempt, request, origin, is_over: false })
    }

    /// Adds the fields that tell of the attempt to `head`, before its empty line.
    pub(super) fn tell(&self, head: &mut Vec<u8>) {
        if !self.trace.is_told() {
            return;
        }
        head.truncate(head.len() - 2);
        self.trace.tell(&self.attempt.context, |name, value| write_field(head, name.as_bytes(), value));
        head.extend_from_slice(b"\r\n");
    }

    /// Notes what came of it. It ends with the head: a body may come for hours, which the request's own span tells.
    pub(super) fn end(mut self, answer: Result<&ResponseHead, (&Error, Option<SocketAddr>)>) {
        self.is_over = true;
        let mut attempted = self.attempted();
        match answer {
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
        }
        self.trace.note(attempted);
    }

    fn attempted(&self) -> Attempted {
        let now = clock::now().into_std();
        let mut attempted = self.attempt.end(self.request.method.clone(), Arc::clone(&self.origin), now);
        if self.trace.context.is_sampled {
            // What follows may hold a token; so may the path.
            let target = shown(&self.request.target);
            attempted.path = Some(target.split(['?', '#']).next().unwrap_or_default().into());
        }
        attempted
    }
}

impl Drop for Traced<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let mut attempted = self.attempted();
            attempted.cancelled = true;
            self.trace.note(attempted);
        }
    }
}
