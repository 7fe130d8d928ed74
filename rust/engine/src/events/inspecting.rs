//! Shows an [`Inspector`] the blocks that pass.

use std::time::Instant as Plain;

use tokio::time::Instant;

use super::body::{Cause, EventBody, Observer};
use crate::inspect::{Content, Inspector};
use crate::wire::Head;

impl Observer for Inspector {
    fn note(&mut self, block: &[u8], now: Instant) {
        Self::note(self, block, now.into_std());
    }

    fn is_satisfied(&self) -> bool {
        Self::is_satisfied(self)
    }

    fn end(&mut self, _: Cause<'_>) {
        Self::end(self, Plain::now());
    }
}

impl EventBody {
    /// Shows the blocks to `inspector`, if there is one.
    pub(crate) fn inspected(self, inspector: Option<Inspector>) -> Self {
        match inspector {
            Some(inspector) => self.observed(Box::new(inspector)),
            None => self,
        }
    }
}

/// Ends the inspection, also if the task that reads on is dropped with the engine.
pub(super) struct EndOnDrop(pub(super) Inspector);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end(Plain::now());
    }
}

/// Shows `inspector` the head of the response. Returns whether the body has to be cut into events.
pub fn begin_inspection(inspector: &Inspector, head: &Head) -> bool {
    inspector.begin(head.get("content-type"), head.get("content-encoding")) == Content::Events
}
