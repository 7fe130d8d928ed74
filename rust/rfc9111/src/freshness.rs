//! The age of a response, and how long it is fresh (RFC 9111, section 4.2; RFC 5861).

use std::time::Duration;

use super::control::ResponseControl;
use super::policy::Policy;
use super::time::{LONGEST, Time, delta_seconds};
use penstock_http::wire::list::{Lines, elements, values};

/// When an exchange with the origin took place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// When the request was sent.
    pub requested: Time,
    /// When the head of the response had been read.
    pub received: Time,
}

/// The source of a lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The origin has set it.
    Explicit,
    /// It is a heuristic from the time of the last modification.
    Heuristic,
    /// The operator has set it.
    Policy,
    /// There is no source: the response is stale from the beginning.
    Nothing,
}

/// Whether a response is fresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is fresh for this much longer.
    Fresh(Duration),
    /// It has been stale for this long.
    Stale(Duration),
}

/// The data from which the age and freshness of a response follow at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    /// The source of the lifetime.
    pub basis: Basis,
    /// How long it is fresh, counted from its Date.
    pub lifetime: Duration,
    /// How long after that it may be served while it is revalidated.
    pub while_revalidate: Duration,
    /// How long it may be served in place of an error.
    pub if_error: Duration,
    pub(super) initial_age: Duration,
    pub(super) received: Time,
}

impl Freshness {
    /// The freshness of a response whose head is `lines`. `targeted`: a targeted field gave `control`, and Expires
    /// is ignored (RFC 9213, section 2.2).
    pub fn of(
        status: u16,
        lines: &Lines<'_>,
        (control, targeted): &(ResponseControl, bool),
        timing: Timing,
        policy: &Policy,
    ) -> Self {
        let received = timing.received;
        let date = values(lines, "date").next().and_then(Time::parse);
        let (basis, lifetime) = policy.lifetime.map_or_else(
            || lifetime(status, lines, control, *targeted, date.unwrap_or(received), policy),
            |lifetime| (Basis::Policy, lifetime),
        );
        let stale = |said: Option<Duration>, default: Duration| match said {
            _ if control.forbids_stale() => Duration::ZERO,
            said => said.unwrap_or(default),
        };
        // A response without a lifetime is validated each time, unless the origin cannot be reached.
        let unasked = if basis == Basis::Nothing { Duration::ZERO } else { policy.stale_while_revalidate };
        Self {
            basis,
            lifetime,
            while_revalidate: stale(control.stale_while_revalidate, unasked),
            if_error: stale(control.stale_if_error, policy.stale_if_error),
            initial_age: initial_age(lines, date, timing),
            received,
        }
    }

    /// Its age (RFC 9111, section 4.2.3), [`LONGEST`] at most.
    pub fn age(&self, now: Time) -> Duration {
        self.initial_age.saturating_add(now.since(self.received)).min(LONGEST)
    }

    /// Whether it is fresh.
    pub fn state(&self, now: Time) -> State {
        let age = self.age(now);
        match self.lifetime.checked_sub(age) {
            Some(left) if !left.is_zero() => State::Fresh(left),
            _ => State::Stale(age.saturating_sub(self.lifetime)),
        }
    }

    /// How long a stale response that cannot be validated is worth its room: as long as the origin allows it to be served
    /// stale, or the operator allows it while it is revalidated. The default time in place of an error does not count: live
    /// segments would stay on the disk for it.
    pub fn beyond(&self, control: &ResponseControl) -> Duration {
        let if_error = control.stale_if_error.map_or(Duration::ZERO, |_| self.if_error);
        self.while_revalidate.max(if_error)
    }

    /// When it came, or was last confirmed.
    pub fn received(&self) -> Time {
        self.received
    }

    /// Makes it stale from `now` on, if it is fresh.
    pub fn expire(&mut self, now: Time) {
        self.lifetime = self.lifetime.min(self.age(now));
    }
}

/// `corrected_initial_age` (RFC 9111, section 4.2.3).
fn initial_age(lines: &Lines<'_>, date: Option<Time>, timing: Timing) -> Duration {
    let received = timing.received;
    // Dates have whole seconds. To count the fraction of the time of arrival would make a new response older
    // than it is.
    let apparent = date.map_or(0, |date| received.as_secs().saturating_sub(date.as_secs()));
    // The first member of the first line; ignored if that is not a number (section 5.1).
    let age = values(lines, "age")
        .next()
        .and_then(|value| elements(value).next())
        .and_then(delta_seconds)
        .unwrap_or_default();
    let corrected = age.saturating_add(received.since(timing.requested));
    corrected.max(Duration::from_secs(apparent)).min(LONGEST)
}

/// `freshness_lifetime` (RFC 9111, section 4.2.1).
fn lifetime(
    status: u16,
    lines: &Lines<'_>,
    control: &ResponseControl,
    targeted: bool,
    date: Time,
    policy: &Policy,
) -> (Basis, Duration) {
    if let Some(span) = control.s_maxage.or(control.max_age) {
        return (Basis::Explicit, span);
    }
    // An invalid date is in the past (section 5.3), and of two dates the earlier one counts.
    let expires = values(lines, "expires")
        .map(|value| Time::parse(value).map_or(Duration::ZERO, |time| time.since(date)))
        .min();
    if let Some(span) = expires.filter(|_| !targeted) {
        return (Basis::Explicit, span.min(LONGEST));
    }
    let modified = values(lines, "last-modified").next().and_then(Time::parse);
    match modified {
        Some(modified) if control.public || allows_heuristic(status) => {
            let unchanged = date.since(modified).min(LONGEST);
            let guess = unchanged.saturating_mul(policy.heuristic_percent) / 100;
            (Basis::Heuristic, guess.min(policy.heuristic_max))
        }
        None if matches!(status, 404 | 405 | 410 | 414 | 501) && !policy.negative.is_zero() => {
            (Basis::Policy, policy.negative)
        }
        _ => (Basis::Nothing, Duration::ZERO),
    }
}

/// Statuses that are heuristically cacheable (RFC 9110, section 15.1).
pub fn allows_heuristic(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}
