//! Which requests are kept.

/// Which requests a tracer keeps. Declared and validated in Python; there are no defaults here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// The share of the traces that begin here, between 0 and 1.
    pub ratio: f64,
    /// Besides, all requests that fail.
    pub failures: bool,
    /// Besides, so many requests of each [`crate::Batch`] that took longest.
    pub slowest: usize,
}

/// The randomness of a trace is a number of so many bits.
const BITS: i32 = 56;

impl Sampling {
    /// The least randomness of a trace that is kept: the higher part of them is, as OpenTelemetry's samplers do it
    /// (opentelemetry.io, "Probability Sampling"), so that two servers of one ratio keep the same traces.
    pub(crate) fn threshold(&self) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 2^56")]
        let threshold = ((1.0 - self.ratio.clamp(0.0, 1.0)) * 2f64.powi(BITS)) as u64;
        threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::TraceId;

    fn sampling(ratio: f64) -> Sampling {
        Sampling { ratio, failures: false, slowest: 0 }
    }

    #[test]
    fn a_ratio_is_a_threshold() {
        assert_eq!(sampling(1.0).threshold(), 0);
        assert_eq!(sampling(0.5).threshold(), 1 << 55);
        assert_eq!(sampling(0.0).threshold(), 1 << 56, "no trace has so much");
    }

    #[test]
    fn so_many_traces_are_kept() {
        let threshold = sampling(0.1).threshold();
        let kept = (0..100_000).filter(|_| TraceId::random().randomness() >= threshold).count();
        // Six times the deviation of 95 on either side.
        assert!((9_430..10_570).contains(&kept), "{kept}");
    }
}
