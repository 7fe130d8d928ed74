//! A request's turn at one origin, from the choice to the end of the body.

use std::sync::Arc as Plain;

use tokio::time::Instant;

use super::Upstream;
use super::policy::Member;
use crate::error::{Code, Kind, Source};
use crate::sync::Arc;

/// Counts as a request under way until it is dropped. Its outcome is noted at most once; without one, it says nothing
/// about the origin: a client that leaves is not the origin's failure.
#[derive(Debug)]
pub(in crate::origin) struct Turn {
    pub(in crate::origin) upstream: Arc<Upstream>,
    pub(in crate::origin) member: Plain<Member>,
    pub(super) seat: u64,
    is_told: bool,
}

impl Turn {
    pub(super) fn new(upstream: Arc<Upstream>, seat: u64, member: Plain<Member>) -> Self {
        Self { upstream, member, seat, is_told: false }
    }

    /// The response has come to its end.
    pub(in crate::origin) fn succeed(&mut self) {
        if !std::mem::replace(&mut self.is_told, true) {
            let now = Instant::now();
            let policy = &self.upstream.policy.health;
            self.upstream.with_seat(self.seat, |seat, _| seat.health.succeed(policy, now));
        }
    }

    /// It has not, or says that the origin is not well.
    pub(in crate::origin) fn fail(&mut self) {
        if !std::mem::replace(&mut self.is_told, true) {
            self.upstream.fail(self.seat);
        }
    }

    /// It ends in an error, of the origin or not.
    pub(in crate::origin) fn end_in(&mut self, code: Code) {
        if is_of_origin(code) {
            self.fail();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if cfg!(all(test, planted_bug = "seat-leak")) && !self.is_told {
            return;
        }
        self.upstream.with_seat(self.seat, |seat, _| seat.leave());
    }
}

/// Whether the origin is to blame: neither the client, nor the limits and the memory of this side.
pub(super) fn is_of_origin(code: Code) -> bool {
    code.source() == Source::Origin
        && code.kind() != Kind::Frame
        && !matches!(code, Code::QueueTimeout | Code::QueueFull | Code::TotalTimeout | Code::EventTimeout)
}
