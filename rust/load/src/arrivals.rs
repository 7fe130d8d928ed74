//! When sessions arrive: an open loop, which does not wait for the sessions before.
//!
//! All curves are Poisson processes with a rate that may change, made by thinning (Lewis and Shedler 1979): candidates
//! arrive at the highest rate, and each is kept with the share that the rate at its time is of the highest.

use serde::Deserialize;

use crate::random::Random;

/// How the rate of arrivals changes. Times are seconds from the start of the run, rates are sessions a second.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "curve", rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrivals {
    /// The same rate all the time.
    Steady {
        /// The rate.
        rate: f64,
    },
    /// A rate that changes evenly over the run.
    Ramp {
        /// The rate at the start.
        rate: f64,
        /// The rate at the end.
        to: f64,
    },
    /// A sine, from the trough at the start.
    Day {
        /// The rate at the trough.
        rate: f64,
        /// The rate at the peak.
        to: f64,
        /// Seconds from one trough to the next.
        period: f64,
    },
    /// A rate that jumps.
    Step {
        /// The rate before.
        rate: f64,
        /// The rate after.
        to: f64,
        /// When it jumps.
        at: f64,
    },
    /// A steady rate, and a crowd of a fixed number besides.
    Flash {
        /// The rate all the time.
        rate: f64,
        /// How many come besides.
        crowd: u32,
        /// When the first of them may come.
        at: f64,
        /// Seconds in which they come, each at a time that is as likely as any other.
        within: f64,
    },
    /// These times.
    Trace {
        /// In any order.
        times: Vec<f64>,
    },
}

impl Arrivals {
    /// The times of all arrivals before `duration`, in their order.
    pub fn times(&self, duration: f64, random: &mut Random) -> Vec<f64> {
        let mut times = match self {
            Self::Trace { times } => times.clone(),
            _ => self.thinned(duration, random),
        };
        if let Self::Flash { crowd, at, within, .. } = self {
            times.extend((0..*crowd).map(|_| at + within * random.uniform()));
        }
        times.retain(|time| *time < duration);
        times.sort_by(f64::total_cmp);
        times
    }

    fn thinned(&self, duration: f64, random: &mut Random) -> Vec<f64> {
        let highest = match self {
            Self::Steady { rate } | Self::Flash { rate, .. } => *rate,
            Self::Ramp { rate, to } | Self::Day { rate, to, .. } | Self::Step { rate, to, .. } => {
                rate.max(*to)
            }
            Self::Trace { .. } => 0.0,
        };
        let (mut times, mut now) = (Vec::new(), 0.0);
        if highest <= 0.0 {
            return times;
        }
        loop {
            now += random.exponential() / highest;
            if now >= duration {
                return times;
            }
            if random.uniform() * highest < self.rate(now, duration) {
                times.push(now);
            }
        }
    }

    /// The rate of the process at a time, without the crowd of a flash.
    pub fn rate(&self, now: f64, duration: f64) -> f64 {
        match self {
            Self::Steady { rate } | Self::Flash { rate, .. } => *rate,
            Self::Ramp { rate, to } => rate + (to - rate) * now / duration,
            Self::Day { rate, to, period } => {
                rate + (to - rate) * (1.0 - (std::f64::consts::TAU * now / period).cos()) / 2.0
            }
            Self::Step { rate, to, at } => {
                if now < *at {
                    *rate
                } else {
                    *to
                }
            }
            Self::Trace { .. } => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    /// The largest distance between the times, mapped by the integral of the rate, and the uniform distribution.
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    fn distance(times: &[f64], share: impl Fn(f64) -> f64) -> f64 {
        let count = times.len() as f64;
        let distances = times.iter().enumerate().map(|(at, time)| {
            let expected = share(*time);
            (expected - at as f64 / count).abs().max(((at + 1) as f64 / count - expected).abs())
        });
        distances.fold(0.0, f64::max)
    }

    /// Kolmogorov and Smirnov at 1 %: 1.628 / √n.
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    fn passes(times: &[f64], share: impl Fn(f64) -> f64) {
        assert!(times.len() > 1000, "{}", times.len());
        let limit = 1.628 / (times.len() as f64).sqrt();
        let found = distance(times, share);
        assert!(found < limit, "{found} is not below {limit}");
    }

    fn times(arrivals: &Arrivals, duration: f64) -> Vec<f64> {
        arrivals.times(duration, &mut Random::new(11, 0, Purpose::Arrivals))
    }

    #[test]
    fn inter_arrivals_of_a_steady_rate_are_exponential() {
        let times = times(&Arrivals::Steady { rate: 50.0 }, 100.0);
        let mut gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps.sort_by(f64::total_cmp);
        passes(&gaps, |gap| 1.0 - (-50.0 * gap).exp());
    }

    #[test]
    fn each_curve_has_its_share_of_arrivals_at_each_time() {
        passes(&times(&Arrivals::Steady { rate: 50.0 }, 100.0), |time| time / 100.0);
        passes(&times(&Arrivals::Ramp { rate: 0.0, to: 100.0 }, 100.0), |time| (time / 100.0).powi(2));
        let day = Arrivals::Day { rate: 0.0, to: 80.0, period: 100.0 };
        passes(&times(&day, 100.0), |time| {
            (time - (std::f64::consts::TAU * time / 100.0).sin() * 100.0 / std::f64::consts::TAU) / 100.0
        });
        let step = Arrivals::Step { rate: 10.0, to: 90.0, at: 50.0 };
        passes(&times(&step, 100.0), |time| {
            if time < 50.0 { time * 0.1 / 50.0 } else { 0.1 + (time - 50.0) * 0.9 / 50.0 }
        });
    }

    #[test]
    fn a_flash_brings_its_crowd_within_its_time() {
        let times = times(&Arrivals::Flash { rate: 0.0, crowd: 2000, at: 3.0, within: 1.0 }, 10.0);
        assert_eq!(times.len(), 2000);
        passes(&times, |time| time - 3.0);
    }

    #[test]
    fn a_trace_is_sorted_and_cut_at_the_end() {
        let trace = Arrivals::Trace { times: vec![5.0, 1.0, 12.0] };
        assert_eq!(times(&trace, 10.0), [1.0, 5.0]);
    }

    #[test]
    fn the_same_seed_gives_the_same_times() {
        let curve = Arrivals::Steady { rate: 20.0 };
        assert_eq!(times(&curve, 10.0), times(&curve, 10.0));
        assert_ne!(times(&curve, 10.0), curve.times(10.0, &mut Random::new(12, 0, Purpose::Arrivals)));
    }
}
