//! An admitted subscriber of a topic, from the decision, which any thread may make, to the engine thread that serves it.
//!
//! The two lie apart because an application decides before the head and hands the body over after it. The invariant:
//! a subscriber that is counted in is counted out once, served or not.

use super::Terms;
use super::encode::gap;
use super::guests::Counted;
use super::log::Name;
use super::resume::Resumption;
use super::topic::{Entered, Topic};
use crate::events::retry;
use crate::net::Connection;
use crate::sync::Arc;

/// A subscriber that is counted among those of its topic until this is dropped.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) topic: Arc<Topic>,
    _counted: Counted,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.topic.leave();
    }
}

/// A subscriber that is admitted, and not served yet.
#[derive(Debug)]
pub struct Admitted {
    pub(super) member: Member,
    /// The number of the event that it gets first.
    pub(super) place: u64,
    pub(super) terms: Terms,
    resumption: Resumption,
    /// What it is told before all else.
    pub(super) opening: String,
    /// What the last event that it had is called, if it had one.
    pub(super) last: Option<Name>,
}

/// How what a subscriber is given goes to the client.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    /// As chunks of HTTP/1.1.
    pub(super) chunked: bool,
    /// As it is: this may be written to past who sends it.
    pub(super) express: Option<Arc<Connection>>,
}

impl Wire {
    /// Over `connection`, in chunks or to its end.
    pub(crate) fn over(connection: &Arc<Connection>, chunked: bool) -> Self {
        let is_express = chunked && !connection.is_tls();
        Self { chunked, express: is_express.then(|| Arc::clone(connection)) }
    }

    /// Through its sender alone, such as one that counts what passes.
    pub(crate) fn through(chunked: bool) -> Self {
        Self { chunked, express: None }
    }
}

impl Admitted {
    pub(super) fn new(
        topic: Arc<Topic>,
        entered: Entered,
        after: Option<&str>,
        terms: Terms,
        counted: Counted,
    ) -> Self {
        let Entered { beginning, resumed, .. } = entered;
        let resumption = beginning.resumption;
        let mut opening = terms.retry.map(retry).unwrap_or_default();
        if resumption == Resumption::Gap {
            opening += &gap(after, &resumed);
        }
        let last = match resumption {
            Resumption::Fresh => None,
            Resumption::Full => after.map(|after| Name::Own(after.into())),
            Resumption::Gap => Some(Name::Own(resumed.into())),
        };
        let member = Member { topic, _counted: counted };
        Self { member, place: beginning.place, terms, resumption, opening, last }
    }

    /// One that another process has served, from `place` on. `last`: what the last event that it had is called, if it had one.
    pub(super) fn moved(
        topic: Arc<Topic>,
        place: u64,
        last: Option<String>,
        terms: Terms,
        counted: Counted,
    ) -> Self {
        let last = last.map(|last| Name::Own(last.into()));
        let member = Member { topic, _counted: counted };
        Self { member, place, terms, resumption: Resumption::Full, opening: String::new(), last }
    }

    /// Whether it gets all that it lacks.
    pub fn resumption(&self) -> Resumption {
        self.resumption
    }
}
