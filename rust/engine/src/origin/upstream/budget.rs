//! The retry budget: a share of the requests of the last seconds, and a number per second besides.
//!
//! Without it, each request would become several when all origins fail, when they can bear it least. The invariant: in
//! any window of [`WINDOW`] seconds there are no more retries than the requests of that window and the policy allow.

use std::collections::VecDeque;

use tokio::time::Instant;

/// The seconds that count. Ten, as in Finagle and Linkerd: long enough to collect a budget on a quiet route, short enough
/// to forget old traffic.
const WINDOW: u64 = 10;

/// The budget and its use.
#[derive(Debug)]
pub(super) struct RetryBudget {
    percent: u64,
    per_second: u64,
    start: Instant,
    /// The seconds with requests or retries, the latest last.
    slots: VecDeque<Slot>,
}

/// One second.
#[derive(Debug)]
struct Slot {
    second: u64,
    requests: u64,
    retries: u64,
}

impl RetryBudget {
    pub(super) fn new(percent: u32, per_second: u32, now: Instant) -> Self {
        Self { percent: percent.into(), per_second: per_second.into(), start: now, slots: VecDeque::new() }
    }

    /// Counts a request.
    pub(super) fn earn(&mut self, now: Instant) {
        self.slot(now).requests += 1;
    }

    /// Takes a retry from the budget, if there is one.
    pub(super) fn spend(&mut self, now: Instant) -> bool {
        let is_left = self.left(now) > 0;
        if is_left {
            self.slot(now).retries += 1;
        }
        is_left
    }

    /// Retries that may begin now.
    pub(super) fn left(&self, now: Instant) -> u64 {
        let now = self.second(now);
        let counted = self.slots.iter().filter(|slot| slot.second + WINDOW > now);
        let (requests, retries) =
            counted.fold((0, 0), |sum: (u64, u64), slot| (sum.0 + slot.requests, sum.1 + slot.retries));
        (requests * self.percent / 100 + self.per_second * WINDOW).saturating_sub(retries)
    }

    fn second(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).as_secs()
    }

    fn slot(&mut self, now: Instant) -> &mut Slot {
        // Threads read the clock before they take the lock, so one may come with an earlier second than the last.
        let second = self.slots.back().map_or(0, |latest| latest.second).max(self.second(now));
        self.slots.retain(|slot| slot.second + WINDOW > second);
        if self.slots.back().is_none_or(|latest| latest.second < second) {
            self.slots.push_back(Slot { second, requests: 0, retries: 0 });
        }
        let latest = self.slots.len() - 1;
        &mut self.slots[latest]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_share_of_the_requests_may_be_sent_again() {
        let now = Instant::now();
        let mut budget = RetryBudget::new(20, 0, now);
        assert!(!budget.spend(now), "there was no request yet");
        for _ in 0..10 {
            budget.earn(now);
        }
        assert_eq!((0..10).filter(|_| budget.spend(now)).count(), 2);
    }

    #[test]
    fn what_is_a_window_ago_is_forgotten() {
        let now = Instant::now();
        let mut budget = RetryBudget::new(100, 0, now);
        budget.earn(now);
        assert_eq!(budget.left(now + Duration::from_secs(WINDOW - 1)), 1);
        assert_eq!(budget.left(now + Duration::from_secs(WINDOW)), 0);
    }

    #[test]
    fn a_quiet_upstream_may_retry_as_well() {
        let now = Instant::now();
        let mut budget = RetryBudget::new(0, 2, now);
        assert_eq!((0..100).filter(|_| budget.spend(now)).count(), 20);
        let later = now + Duration::from_secs(WINDOW);
        assert_eq!((0..100).filter(|_| budget.spend(later)).count(), 20);
    }

    proptest! {
        #[test]
        fn no_window_has_more_retries_than_its_requests_allow(
            percent in 0..200_u32,
            per_second in 0..5_u32,
            events in prop::collection::vec((0..3000_u64, any::<bool>()), 1..200),
        ) {
            let start = Instant::now();
            let mut budget = RetryBudget::new(percent, per_second, start);
            let (mut at, mut requests, mut retries) = (0, Vec::new(), Vec::new());
            for (pause, is_request) in events {
                at += pause;
                let now = start + Duration::from_millis(at);
                let second = at / 1000;
                let counted = |all: &[u64]| all.iter().filter(|then| **then + WINDOW > second).count() as u64;
                if is_request {
                    budget.earn(now);
                    requests.push(second);
                } else {
                    let allowed = counted(&requests) * u64::from(percent) / 100
                        + u64::from(per_second) * WINDOW;
                    let granted = budget.spend(now);
                    prop_assert_eq!(granted, counted(&retries) < allowed);
                    if granted {
                        retries.push(second);
                    }
                }
            }
        }
    }
}
