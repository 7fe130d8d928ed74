//! Chance, so that what begins together does not go on together. Nobody is to be surprised by it, so none of it is secret.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// A source of chance.
#[derive(Debug)]
pub(super) struct Jitter(u64);

impl Default for Jitter {
    fn default() -> Self {
        // The one way to a seed in std; never zero, of which nothing else would come.
        Self(RandomState::new().build_hasher().finish() | 1)
    }
}

impl Jitter {
    /// Three quarters of `time` to all of it.
    pub(super) fn shorten(&mut self, time: Duration) -> Duration {
        // xorshift64 (Marsaglia, 2003).
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let share = u32::try_from(self.0 >> 54).unwrap_or_default();
        time.saturating_sub(time / 4 * share / 1024)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn times_are_spread_over_their_last_quarter() {
        let mut jitter = Jitter::default();
        let time = Duration::from_secs(1000);
        let times: Vec<_> = (0..1000).map(|_| jitter.shorten(time)).collect();
        assert!(times.iter().all(|shorter| (time * 3 / 4..=time).contains(shorter)));
        let early = times.iter().filter(|shorter| **shorter < time * 7 / 8).count();
        assert!((300..700).contains(&early), "{early} of 1000 in the first half");
    }
}
