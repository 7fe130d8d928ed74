//! The health of one origin: whether it is ejected, and how much of its share it gets.
//!
//! A state machine without a clock, a lock or a socket. An ejected origin comes back by itself when its time is over, with
//! a small share; the first failure then ejects it again for twice as long, the first success restores its full share.

use std::time::Duration;

use tokio::time::Instant;

use super::policy::{CheckPolicy, HealthPolicy};

/// The share of an origin that has just come back. Small enough that its failures are within the retry budget, large
/// enough to warm its caches. Arbitrary.
const FIRST_SHARE: f64 = 0.1;

/// One origin's health.
#[derive(Debug)]
pub(super) struct Health {
    consecutive: u32,
    window: Window,
    ejection: Option<Ejection>,
    /// Since when its share has been growing.
    returning: Option<Instant>,
    checks: Checks,
}

#[derive(Debug, Default)]
struct Window {
    since: Option<Instant>,
    requests: u32,
    failures: u32,
}

/// The latest ejection.
#[derive(Debug, Clone, Copy)]
struct Ejection {
    until: Instant,
    length: Duration,
}

/// The result of active checks.
#[derive(Debug, Default)]
struct Checks {
    is_down: bool,
    /// Consecutive results that contradict it.
    contrary: u32,
}

impl Health {
    /// `is_new`: it joins others that already serve, and its share grows slowly.
    pub(super) fn new(is_new: bool, now: Instant) -> Self {
        Self {
            consecutive: 0,
            window: Window::default(),
            ejection: None,
            returning: is_new.then_some(now),
            checks: Checks::default(),
        }
    }

    /// Notes a request that succeeded.
    pub(super) fn succeed(&mut self, policy: &HealthPolicy, now: Instant) {
        self.consecutive = 0;
        self.window.count(false, policy, now);
    }

    /// Notes a request that failed. Returns whether the origin is ejected for it.
    pub(super) fn fail(&mut self, policy: &HealthPolicy, now: Instant) -> bool {
        self.consecutive = self.consecutive.saturating_add(1);
        self.window.count(true, policy, now);
        // Requests that were under way at the ejection fail later, and do not eject again.
        if self.ejected_for(now).is_some() {
            return false;
        }
        let in_a_row = policy.failures.is_some_and(|most| self.consecutive >= most);
        let is_bad = in_a_row || self.window.is_bad(policy);
        if is_bad {
            self.eject(policy, now);
        }
        is_bad
    }

    fn eject(&mut self, policy: &HealthPolicy, now: Instant) {
        // An origin that has been up for as long as it was ejected starts again with the first
        // period.
        let soon = self.ejection.filter(|last| now < last.until + last.length);
        let length = soon.map_or(policy.eject, |last| last.length * 2).min(policy.max_eject);
        self.ejection = Some(Ejection { until: now + length, length });
        self.returning = Some(now + length);
        self.window = Window::default();
    }

    /// Notes the result of a check. Returns whether the origin is now down, or up again.
    pub(super) fn check(&mut self, is_well: bool, policy: &CheckPolicy, now: Instant) -> bool {
        if is_well != self.checks.is_down {
            self.checks.contrary = 0;
            return false;
        }
        self.checks.contrary += 1;
        let needed = if is_well { policy.rise } else { policy.fall };
        if self.checks.contrary < needed {
            return false;
        }
        self.checks = Checks { is_down: !is_well, contrary: 0 };
        if is_well {
            // Earlier results of requests are older than this check.
            self.ejection = None;
            self.consecutive = 0;
            self.returning = Some(now);
        }
        true
    }

    /// Whether checks have found it up, or have no result.
    pub(super) fn is_up(&self) -> bool {
        !self.checks.is_down
    }

    /// How long it remains ejected by failures of requests.
    pub(super) fn ejected_for(&self, now: Instant) -> Option<Duration> {
        let left = self.ejection?.until.checked_duration_since(now)?;
        Some(left).filter(|left| !left.is_zero())
    }

    pub(super) fn is_available(&self, now: Instant) -> bool {
        self.is_up() && self.ejected_for(now).is_none()
    }

    /// The share of its weight that it gets.
    pub(super) fn share(&self, policy: &HealthPolicy, now: Instant) -> f64 {
        // An ejected origin is used only if there is no better one.
        let passed = self.returning.and_then(|since| now.checked_duration_since(since));
        let Some(passed) = passed.filter(|passed| *passed < policy.slow_start) else { return 1.0 };
        let grown = passed.as_secs_f64() / policy.slow_start.as_secs_f64();
        FIRST_SHARE + (1.0 - FIRST_SHARE) * grown
    }
}

impl Window {
    fn count(&mut self, failed: bool, policy: &HealthPolicy, now: Instant) {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= policy.window) {
            *self = Self { since: Some(now), ..Self::default() };
        }
        self.requests += 1;
        self.failures += u32::from(failed);
    }

    fn is_bad(&self, policy: &HealthPolicy) -> bool {
        policy.failure_percent.is_some_and(|percent| {
            self.requests >= policy.least_requests
                && u64::from(self.failures) * 100 >= u64::from(self.requests) * u64::from(percent)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn policy() -> HealthPolicy {
        HealthPolicy {
            failures: Some(3),
            failure_percent: Some(50),
            least_requests: 10,
            window: 10 * SECOND,
            statuses: vec![500],
            eject: SECOND,
            max_eject: 4 * SECOND,
            slow_start: 10 * SECOND,
            panic_percent: 0,
        }
    }

    fn check() -> CheckPolicy {
        CheckPolicy {
            path: "/".to_owned(),
            interval: SECOND,
            timeout: SECOND,
            statuses: vec![200],
            fall: 2,
            rise: 3,
        }
    }

    #[test]
    fn failures_in_a_row_eject_and_a_success_breaks_the_row() {
        let now = Instant::now();
        let mut health = Health::new(false, now);
        for failed in [true, true, false, true, true] {
            if failed {
                assert!(!health.fail(&policy(), now));
            } else {
                health.succeed(&policy(), now);
            }
        }
        assert!(health.fail(&policy(), now));
        assert_eq!(health.ejected_for(now), Some(SECOND));
        assert!(!health.is_available(now));
        assert!(health.is_available(now + SECOND));
    }

    #[test]
    fn a_share_of_failures_ejects_without_a_row() {
        let now = Instant::now();
        let mut health = Health::new(false, now);
        for _ in 0..4 {
            assert!(!health.fail(&policy(), now));
            health.succeed(&policy(), now);
        }
        health.succeed(&policy(), now);
        assert!(health.fail(&policy(), now), "five of ten have failed");
    }

    #[test]
    fn what_failed_in_an_earlier_window_does_not_count() {
        let now = Instant::now();
        let mut health = Health::new(false, now);
        for _ in 0..5 {
            health.fail(&policy(), now);
            health.succeed(&policy(), now);
        }
        let later = now + policy().window;
        health.succeed(&policy(), later);
        assert!(!health.fail(&policy(), later));
    }

    #[test]
    fn who_comes_back_is_out_again_at_its_first_failure_and_for_twice_as_long() {
        let mut now = Instant::now();
        let mut health = Health::new(false, now);
        for _ in 0..3 {
            health.fail(&policy(), now);
        }
        for length in [2, 4, 4] {
            now += health.ejected_for(now).unwrap();
            assert!(health.fail(&policy(), now));
            assert_eq!(health.ejected_for(now), Some(length * SECOND));
        }
    }

    #[test]
    fn one_that_was_well_for_long_begins_anew() {
        let now = Instant::now();
        let mut health = Health::new(false, now);
        for _ in 0..3 {
            health.fail(&policy(), now);
        }
        let later = now + 3 * SECOND;
        health.succeed(&policy(), later);
        for _ in 0..3 {
            health.fail(&policy(), later);
        }
        assert_eq!(health.ejected_for(later), Some(SECOND));
    }

    #[test]
    fn what_was_under_way_does_not_lengthen_the_ejection() {
        let now = Instant::now();
        let mut health = Health::new(false, now);
        for _ in 0..3 {
            health.fail(&policy(), now);
        }
        assert!(!health.fail(&policy(), now + SECOND / 2));
        assert!(health.is_available(now + SECOND));
    }

    #[test]
    fn the_share_grows_from_a_tenth_to_the_whole() {
        let now = Instant::now();
        let mut health = Health::new(false, now);
        assert!((health.share(&policy(), now) - 1.0).abs() < 1e-9);
        for _ in 0..3 {
            health.fail(&policy(), now);
        }
        for (after, share) in [(1, 0.1), (6, 0.55), (11, 1.0), (100, 1.0)] {
            let got = health.share(&policy(), now + after * SECOND);
            assert!((got - share).abs() < 1e-9, "{got} after {after} s");
        }
    }

    #[test]
    fn checks_take_out_and_bring_back_by_rows_of_their_own() {
        let now = Instant::now();
        let mut health = Health::new(false, now);
        let mut check = |is_well| {
            health.check(is_well, &check(), now);
            health.is_up()
        };
        assert!([false, true, false].map(&mut check).iter().all(|up| *up));
        assert!(!check(false));
        assert!([true, true, false, true, true].map(&mut check).iter().all(|up| !up));
        assert!(check(true));
    }

    #[test]
    fn a_check_that_brings_one_back_ends_its_ejection() {
        let now = Instant::now();
        let mut health = Health::new(false, now);
        for _ in 0..3 {
            health.fail(&policy(), now);
        }
        for is_well in [false, false, true, true, true] {
            health.check(is_well, &check(), now);
        }
        assert!(health.is_available(now));
    }
}
