//! A hub whose events are kept elsewhere, where other processes publish too.
//!
//! A reader outside the engine learns which topics are wanted ([`Hub::wanted`](crate::hub::Hub::wanted)), gives what was published
//! before ([`Hub::load`]), and follows with what is published ([`Hub::take`]). It opens no topics: one that has gone here
//! need not be followed, and is wanted again when it is back.

use super::super::clock::now;
use super::super::topic::{Gone, Topic};
use super::super::{Event, Hub, Id};
use super::check_name;
use crate::error::Result;
use crate::sync::{Arc, lock};

pub use super::super::topic::{Published, Refused, Taken};

/// How a hub fares with the log that its events are kept in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Whether the log can be reached.
    pub is_ready: bool,
    /// Topics that are followed.
    pub topics: usize,
    /// Those of them that wait for room, or for what they lack.
    pub behind: usize,
    /// So far.
    pub counted: LogCounted,
}

penstock_memory::counts! {
    /// What has been counted of a log.
    pub struct LogCounted {
        /// Events that it has confirmed.
        published,
        /// Events that it has refused.
        refused,
        /// Events that were delivered to the hub's own subscribers alone.
        delivered,
        /// Entries that were received from it.
        received,
        /// Times that the next entry of a topic was missing.
        gaps,
        /// Connections to it.
        connections,
    }
}

impl Hub {
    /// Notes how it fares with its log, as its follower says.
    pub fn set_log(&self, stats: LogStats) {
        *lock(&self.log) = Some(stats);
    }

    /// How it fares with its log, if it has one, as was said last.
    pub fn log(&self) -> Option<LogStats> {
        *lock(&self.log)
    }

    /// Gives a topic that is waiting all that was published after `floor`, and opens it. Gives the events that it refuses;
    /// `None` if it was not waiting.
    ///
    /// # Errors
    /// `BAD_TOPIC`, `HUB_CLOSED`.
    pub fn load(&self, topic: &str, floor: Id, events: &[Published<'_>]) -> Result<Option<Refused>> {
        Ok(self.existing(topic, |topic| topic.load(floor, events, now()))?.flatten())
    }

    /// Gives a topic what follows on all that it has. `None` if it is not there, or waits to be loaded.
    ///
    /// # Errors
    /// As [`Hub::load`].
    pub fn take(&self, topic: &str, events: &[Published<'_>]) -> Result<Option<Taken>> {
        Ok(self.existing(topic, |topic| topic.take(events, now()))?.flatten())
    }

    /// Says that it is not known what was published to a topic up to `floor`; subscribers are told. False if it is not there, or
    /// waits to be loaded.
    ///
    /// # Errors
    /// As [`Hub::load`].
    pub fn interrupt(&self, topic: &str, floor: Id) -> Result<bool> {
        Ok(self.existing(topic, |topic| topic.interrupt(floor, now()))? == Some(true))
    }

    /// Gives the subscribers of a topic an event that no client can come back by. Whether there is such a topic.
    ///
    /// # Errors
    /// As [`Hub::publish`](super::Hub::publish).
    pub fn deliver(&self, topic: &str, event: &Event<'_>) -> Result<bool> {
        event.check()?;
        let delivered = self.existing(topic, |topic| topic.deliver(event, now()))?;
        delivered.map_or(Ok(false), |delivered| delivered.map(|()| true))
    }

    /// Says that a topic has all that was published when it was wanted again.
    ///
    /// # Errors
    /// As [`Hub::load`].
    pub fn checked(&self, topic: &str) -> Result<()> {
        self.existing(topic, |topic| {
            topic.checked();
            Ok(())
        })?;
        Ok(())
    }

    /// Whether an event could be published, before any subscriber is given it.
    ///
    /// # Errors
    /// `BAD_TOPIC`, `HUB_CLOSED`; `BAD_EVENT` also for one that is larger than its topic's history.
    pub fn check(&self, topic: &str, event: &Event<'_>) -> Result<()> {
        check_name(topic)?;
        self.find(topic)?;
        event.check()?;
        self.room.fit(event.length()).map(|_| ())
    }

    /// Calls `work` with a topic if it is there.
    fn existing<T>(
        &self,
        name: &str,
        work: impl FnOnce(&Topic) -> std::result::Result<T, Gone>,
    ) -> Result<Option<T>> {
        let Some(topic): Option<Arc<Topic>> = self.find(name)? else { return Ok(None) };
        Ok(work(&topic).inspect_err(|Gone| self.forget(&topic)).ok())
    }
}
