//! Where a subscriber begins: behind what it had, if it can be shown that nothing is missing; else with what is there, and
//! a gap that is announced.

use super::log::Log;
use super::{Id, Join};

/// Whether a subscriber that had something before gets all that it lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumption {
    /// It had nothing before.
    Fresh,
    /// All that it lacks.
    Full,
    /// What is there; something may be missing before that.
    Gap,
}

impl Resumption {
    /// The word of the field `Penstock-Resume`.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Fresh => None,
            Self::Full => Some("full"),
            Self::Gap => Some("gap"),
        }
    }
}

/// Where a subscriber begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Beginning {
    pub(super) place: u64,
    pub(super) resumption: Resumption,
}

/// For one that had `after`, or had nothing and asks for `join`.
pub(super) fn begin(log: &Log, after: Option<&str>, join: Join) -> Beginning {
    let fresh = |place| Beginning { place, resumption: Resumption::Fresh };
    match (after, join) {
        (Some(after), _) => match log.place_after(after) {
            Some(place) => Beginning { place, resumption: Resumption::Full },
            None if cfg!(all(test, planted_bug = "malformed-id-replays-all"))
                && after.parse::<Id>().is_err() =>
            {
                Beginning { place: log.first(), resumption: Resumption::Full }
            }
            // It is older than all that is there, or not of this topic, or of a life of it that is not remembered here:
            // which of them, and what came between, is not known.
            None => Beginning { place: log.first(), resumption: Resumption::Gap },
        },
        (None, Join::Now) => fresh(log.tail()),
        (None, Join::Start) => fresh(log.first()),
        (None, Join::Last(count)) => fresh(log.tail().saturating_sub(count as u64).max(log.first())),
    }
}
