//! Chance, so that what begins together does not go on together. Nobody is to be surprised by it, so none of it is secret.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// From three quarters of `time` to all of it: nothing takes longer than was asked for.
pub(crate) fn shortened(time: Duration) -> Duration {
    // The one way to chance in std: hashers are keyed at random, each anew.
    #[expect(clippy::cast_possible_truncation, reason = "a part of what is random is as random")]
    let random = RandomState::new().build_hasher().finish() as u16;
    time.mul_f64(1.0 - f64::from(random) / f64::from(u16::MAX) / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_spread_over_their_last_quarter() {
        let time = Duration::from_secs(1000);
        let times: Vec<_> = (0..1000).map(|_| shortened(time)).collect();
        assert!(times.iter().all(|shorter| (time * 3 / 4..=time).contains(shorter)));
        let early = times.iter().filter(|shorter| **shorter < time * 7 / 8).count();
        assert!((300..700).contains(&early), "{early} of 1000 in the first half");
    }
}
