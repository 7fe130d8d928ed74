//! A body on a tenant's account: counted as it is sent, no faster than the tenant's rate, and ended when the tenant's quota
//! is used up.

use std::task::{Context, Poll, ready};
use std::time::Instant;

use crate::access::Allotment;
use crate::error::Result;
use crate::net::{Payload, Piped, Pipes, Source, Supply, Watch};
use crate::sync::Arc;
use crate::takeover::streams::Resting;

/// A source around a body.
#[derive(Debug)]
pub(super) struct Metered {
    supply: Supply,
    allotment: Allotment,
    /// Bytes that the body has written itself, and that are counted.
    aside: u64,
    /// Nothing more is given before.
    waits: bool,
    timer: Watch,
}

impl Metered {
    pub(super) fn new(supply: Supply, allotment: Allotment) -> Self {
        Self { supply, allotment, aside: 0, waits: false, timer: Watch::default() }
    }

    fn count_aside(&mut self) {
        let aside = self.supply.aside();
        self.allotment.tenant.count(aside - self.aside);
        self.aside = aside;
    }

    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.waits {
            ready!(self.timer.poll_expired(context));
            self.waits = false;
        }
        Poll::Ready(())
    }

    fn take(&mut self, bytes: usize) {
        let now = Instant::now();
        self.allotment.tenant.count(bytes as u64);
        if let Some(until) = self.allotment.pace(bytes, now) {
            self.waits = true;
            self.timer.start(Some(until.duration_since(now)));
        }
    }
}

impl Source for Metered {
    fn poll_next(&mut self, context: &mut Context<'_>, held: usize) -> Poll<Option<Result<Payload>>> {
        self.count_aside();
        ready!(self.poll_turn(context));
        let next = ready!(self.supply.poll_next(context, held));
        if let Some(Ok(payload)) = &next {
            // Of a body that ends with the last of them nothing is missing.
            if let Err(error) = self.allotment.check_total() {
                return Poll::Ready(Some(Err(error)));
            }
            self.take(payload.len());
        }
        Poll::Ready(next)
    }

    fn splices(&self) -> bool {
        // A body that is to end is told so by `poll_next`.
        self.supply.splices() && self.allotment.check_total().is_ok()
    }

    fn poll_spliced(&mut self, context: &mut Context<'_>, pipes: &Arc<Pipes>) -> Poll<Option<Piped>> {
        ready!(self.poll_turn(context));
        let moved = ready!(self.supply.poll_spliced(context, pipes));
        if let Some(moved) = &moved {
            self.take(moved.len());
        }
        Poll::Ready(moved)
    }

    fn attend(&mut self, context: &mut Context<'_>) {
        self.supply.attend(context);
    }

    fn idle(&mut self) {
        self.supply.idle();
    }

    fn aside(&self) -> u64 {
        self.supply.aside()
    }

    fn rest(&mut self) -> Option<Payload> {
        self.supply.rest()
    }

    fn last(&mut self) -> Option<Payload> {
        self.count_aside();
        // What it may only have later it comes back for.
        if self.waits || self.allotment.check_total().is_err() {
            return None;
        }
        let last = self.supply.last()?;
        self.take(last.len());
        Some(last)
    }

    fn client_left(&mut self) {
        self.supply.client_left();
    }

    fn trailers(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.supply.trailers()
    }

    fn at_rest(&mut self) -> Option<Resting> {
        if self.waits { None } else { self.supply.at_rest() }
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        self.count_aside();
    }
}
