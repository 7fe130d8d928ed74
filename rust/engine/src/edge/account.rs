//! The result of an exchange that the engine answers alone: for the application's completion callback, and for
//! inspection. It is reported once, even if the engine is closed first.

use std::time::Instant;

use super::client::Client;
use super::progress::Progress;
use crate::app::{Ended, Queue, Stages};
use crate::error::{Code, Error};
use crate::inspect::Inspector;
use crate::relay_spec::Relay;
use crate::stream::{ResponseHead, Timings};
use crate::sync::{Mutex, lock};
use crate::wire::Incoming;

/// An exchange whose result is reported.
#[derive(Debug)]
pub(super) struct Account<'a> {
    /// Where the result goes, and its ticket.
    queue: Option<(&'a Queue, u64)>,
    client: &'a Client,
    incoming: &'a Incoming,
    progress: &'a Progress,
    /// The timings of the origin's head, whether its connection was reused, and when it came.
    head: Mutex<Option<(Timings, bool, Instant)>>,
    inspector: Mutex<Option<Inspector>>,
    is_closed: bool,
}

impl<'a> Account<'a> {
    /// Of an exchange of `relay`, if its ends are told by `queue` or its responses inspected.
    pub(super) fn open(
        queue: Option<&'a Queue>,
        relay: &Relay,
        client: &'a Client,
        incoming: &'a Incoming,
        progress: &'a Progress,
    ) -> Option<Box<Self>> {
        let queue = queue.zip(relay.spec().completion);
        if queue.is_none() && relay.spec().inspect.is_none() {
            return None;
        }
        let (head, inspector) = (Mutex::new(None), Mutex::new(None));
        Some(Box::new(Self { queue, client, incoming, progress, head, inspector, is_closed: false }))
    }

    /// The origin has answered.
    pub(super) fn note_head(&self, head: &ResponseHead) {
        *lock(&self.head) = Some((head.timings, head.reused, Instant::now()));
    }

    /// The response is looked at.
    pub(super) fn note_inspector(&self, inspector: &Inspector) {
        *lock(&self.inspector) = Some(inspector.clone());
    }

    /// The exchange is over.
    pub(super) fn close(mut self, error: Option<&Error>) {
        self.tell(error);
    }

    /// The exchange goes on in another process, which tells its result.
    pub(super) fn hand_on(mut self) {
        self.is_closed = true;
    }

    fn tell(&mut self, error: Option<&Error>) {
        self.is_closed = true;
        let now = Instant::now();
        let report = lock(&self.inspector).take().map(|inspector| inspector.end(now));
        let Some((queue, ticket)) = self.queue else { return };
        let stages = lock(&self.head).take().map(|(timings, reused, begun)| Stages {
            timings,
            body: now.saturating_duration_since(begun),
            reused,
        });
        queue.reports().end(Ended {
            ticket,
            method: self.incoming.method().to_owned(),
            target: self.incoming.target().to_owned(),
            client: self.client.addresses.host.as_deref().map(str::to_owned),
            status: self.progress.status(),
            bytes: self.progress.payload(),
            stages,
            tenant: self.progress.decision().and_then(|decision| decision.tenant().map(str::to_owned)),
            error: error.cloned(),
            report,
        });
    }
}

impl Drop for Account<'_> {
    fn drop(&mut self) {
        if !self.is_closed {
            self.tell(Some(
                &Code::EngineClosed.error("the engine was closed before the end of the exchange"),
            ));
        }
    }
}
