//! What a player knows of its network: how many bits a second it carries, and how long a first byte takes.

use serde::Deserialize;

/// How throughput is estimated: two means with exponential weights, of which the lower counts.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// Seconds of downloading after which a sample has half of its weight, in the one that follows fast.
    pub fast: f64,
    /// The same in the one that follows slowly.
    pub slow: f64,
    /// Bits a second before anything was measured.
    pub first: f64,
}

/// A download.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Download {
    /// Seconds of its media.
    pub seconds: f64,
    /// Its bytes.
    pub bytes: u64,
    /// Seconds from its request to its first byte.
    pub waited: f64,
    /// Seconds from there to its last byte.
    pub took: f64,
}

/// A mean whose samples have less weight the longer they are past; corrected for its start at zero, as hls.js and
/// dash.js have it.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    value: f64,
    /// The share of the samples' weights that is still missing.
    missing: f64,
}

impl Mean {
    /// A sample of a weight that is so many half-lives.
    fn add(&mut self, half_lives: f64, sample: f64, is_first: bool) {
        let keep = 0.5f64.powf(half_lives);
        self.value = sample * (1.0 - keep) + keep * self.value;
        self.missing = if is_first { keep } else { self.missing * keep };
    }

    fn get(&self) -> f64 {
        self.value / (1.0 - self.missing)
    }
}

/// What one player has measured.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    fast: Mean,
    slow: Mean,
    /// Seconds to first bytes, by the same half-lives.
    fast_wait: Mean,
    slow_wait: Mean,
    any: bool,
}

impl Measured {
    /// Takes note of a download. What it waited for its first byte is no part of its throughput.
    #[expect(clippy::cast_precision_loss, reason = "no segment has 2^53 bytes")]
    pub fn add(&mut self, estimate: &Estimate, download: &Download) {
        // A body in one packet takes no time that could be measured.
        let took = download.took.max(0.001);
        let rate = download.bytes as f64 * 8.0 / took;
        let is_first = !self.any;
        self.fast.add(took / estimate.fast, rate, is_first);
        self.slow.add(took / estimate.slow, rate, is_first);
        // Waits are weighted by what was waited for.
        let seconds = download.seconds.max(0.001);
        self.fast_wait.add(seconds / estimate.fast, download.waited, is_first);
        self.slow_wait.add(seconds / estimate.slow, download.waited, is_first);
        self.any = true;
    }

    /// Whether there was a download.
    pub fn any(&self) -> bool {
        self.any
    }

    /// Bits a second.
    pub fn throughput(&self, estimate: &Estimate) -> f64 {
        if self.any { self.fast.get().min(self.slow.get()) } else { estimate.first }
    }

    /// Seconds to a first byte: of the two means the higher.
    pub fn wait(&self) -> f64 {
        if self.any { self.fast_wait.get().max(self.slow_wait.get()) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ESTIMATE: Estimate = Estimate { fast: 3.0, slow: 9.0, first: 500_000.0 };

    fn add(measured: &mut Measured, bytes: u64, took: f64, waited: f64) {
        measured.add(&ESTIMATE, &Download { seconds: 4.0, bytes, waited, took });
    }

    #[test]
    fn a_constant_link_is_estimated_exactly_from_the_first_sample_on() {
        let mut measured = Measured::default();
        assert!((measured.throughput(&ESTIMATE) - 5e5).abs() < f64::EPSILON);
        for _ in 0..20 {
            add(&mut measured, 500_000, 1.0, 0.25);
            assert!((measured.throughput(&ESTIMATE) - 4e6).abs() < 1.0);
            assert!((measured.wait() - 0.25).abs() < 1e-9);
        }
    }

    #[test]
    fn a_fall_counts_at_once_and_a_rise_slowly() {
        let mut measured = Measured::default();
        add(&mut measured, 1_000_000, 10.0, 0.0);
        let before = measured.throughput(&ESTIMATE);
        add(&mut measured, 4_000_000, 2.0, 0.0);
        assert!(measured.throughput(&ESTIMATE) < 16e6 * 0.5 && measured.throughput(&ESTIMATE) > before);
        add(&mut measured, 100_000, 4.0, 0.0);
        assert!(measured.throughput(&ESTIMATE) < 4e6);
    }

    #[test]
    fn a_long_wait_counts_at_once_and_is_forgotten_slowly() {
        let mut measured = Measured::default();
        for waited in [0.1, 0.1, 2.0, 0.1] {
            add(&mut measured, 100_000, 1.0, waited);
        }
        assert!(measured.wait() > 0.4 && measured.wait() < 2.0, "{}", measured.wait());
    }
}
