//! What an engine lends to a site: memory, connections to origins, and counters.

use std::sync::Arc as Plain;

use penstock_trace::Tracer;

use super::heads::Heads;
use super::tally::Ledger;
use crate::framing::Framing;
use crate::origin::Origins;
use crate::pool::Pool;
use crate::stream::{Allowance, Feed, FlowConfig, Meter, ReadSizes, Stream, channel};
use crate::sync::Arc;

/// What an engine lends to a site.
#[derive(Debug, Clone)]
pub struct Supplies {
    /// Where bytes are held.
    pub pool: Pool,
    /// How much may be under way to one client.
    pub flow: FlowConfig,
    /// How much memory one read is offered.
    pub reads: ReadSizes,
    /// Counts streams.
    pub meter: Plain<Meter>,
    /// The connections to origins, by engine thread.
    pub origins: Vec<Arc<Origins>>,
    /// Where requests are counted.
    pub ledger: Arc<Ledger>,
    /// What clients have begun to send.
    pub heads: Arc<Heads>,
    /// Keeps the traces of requests, if they have some.
    pub tracer: Option<Plain<Tracer>>,
}

impl Supplies {
    /// The two ends of a body, which is not cut.
    pub(crate) fn stream(&self) -> (Feed, Stream) {
        channel(&self.pool, self.flow, &Framing::Raw, &self.meter)
    }

    /// The window of a body that is read by the task that sends it.
    pub(super) fn allowance(&self) -> Allowance {
        Allowance::new(&self.pool, self.flow, &self.meter)
    }
}
