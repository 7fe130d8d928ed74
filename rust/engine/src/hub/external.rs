//! A hub whose events are kept elsewhere, where other processes publish too.
//!
//! A reader outside the engine learns which topics are wanted ([`Hub::wanted`](super::Hub::wanted)), gives what was published
//! before ([`Hub::load`]), and follows with what is published ([`Hub::take`]). It opens no topics: one that has gone here
//! need not be followed, and is wanted again when it is back.

use super::topic::{Gone, Topic};
use super::topics::check_name;
use super::{Event, Hub, Id};
use crate::error::Result;
use crate::sync::Arc;

pub use super::topic::{Published, Taken};

impl Hub {
    /// Gives a topic that is waiting all that was published behind `floor`, and opens it. Whether it was.
    ///
    /// # Errors
    /// `BAD_TOPIC`, `HUB_CLOSED`.
    pub fn load(&self, topic: &str, floor: Id, events: &[Published<'_>]) -> Result<bool> {
        let loaded = self.existing(topic, |topic| topic.load(floor, events, self.now()))?;
        Ok(loaded == Some(true))
    }

    /// Gives a topic what follows on all that it has. `None` if it is not there, or waits to be loaded.
    ///
    /// # Errors
    /// As [`Hub::load`].
    pub fn take(&self, topic: &str, events: &[Published<'_>]) -> Result<Option<Taken>> {
        Ok(self.existing(topic, |topic| topic.take(events, self.now()))?.flatten())
    }

    /// Says that it is not known what was published to a topic up to `floor`; subscribers are told. False if it is not there, or
    /// waits to be loaded.
    ///
    /// # Errors
    /// As [`Hub::load`].
    pub fn interrupt(&self, topic: &str, floor: Id) -> Result<bool> {
        Ok(self.existing(topic, |topic| topic.interrupt(floor, self.now()))? == Some(true))
    }

    /// Gives the subscribers of a topic an event that nobody can come back by. Whether there is such a topic.
    ///
    /// # Errors
    /// As [`Hub::publish`](super::Hub::publish).
    pub fn deliver(&self, topic: &str, event: &Event<'_>) -> Result<bool> {
        event.check()?;
        let delivered = self.existing(topic, |topic| topic.deliver(event, self.now()))?;
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

    /// Whether an event could be published, before anybody else is given it.
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
