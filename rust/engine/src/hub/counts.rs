//! The counts of a topic. The hub keeps those of topics that are gone.

penstock_memory::counts! {
    /// What has been counted so far.
    pub struct Counted from Counts {
        /// Events that were published.
        events,
        /// Bytes of them on the wire.
        bytes,
        /// Events that were given to subscribers to be sent, once for each.
        delivered,
        /// Subscriptions.
        subscribed,
        /// Subscriptions that resumed and got all that they had missed.
        resumed,
        /// Gaps that were announced.
        gaps,
        /// Subscribers that were cut off because they did not keep up.
        slow,
        /// Events that subscribers missed and went on after a gap.
        dropped,
        /// Events that newer ones of their keys replaced.
        conflated,
    }
}
