//! The network of one session in virtual time: when bytes come over a link whose rate changes.
//!
//! It knows no socket. A run reads from its sockets no faster than the link carries.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use crate::random::Random;

/// Rates of a chain: an urn of as many balls less one, of which one changes sides (Ehrenfest). It is in the middle most of
/// the time, as a binomial distribution has it, which is close to a normal one of the logarithm.
const LEVELS: u8 = 9;
const MIDDLE: f64 = 4.0;
/// The deviation of that distribution, in levels.
const DEVIATION: f64 = std::f64::consts::SQRT_2;
/// Seconds of a step of a chain.
const STEP: f64 = 1.0;
/// Seconds of what was not carried that a link of a run makes up for: timers are late.
const SLACK: f64 = 0.01;
/// Seconds of what is read at once.
const PIECE: f64 = 0.01;
const PACKET: f64 = 1460.0;

/// A kind of network.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Network {
    /// A rate that changes at random, of each session another.
    Chain(Chain),
    /// A rate that was recorded, from a random place on, again and again.
    Trace(Trace),
}

/// A Markov chain over the logarithm of the rate, with outages.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// Bits a second that half of the steps exceed.
    pub median: f64,
    /// The deviation of the logarithm of the rate.
    pub sigma: f64,
    /// The probability that the rate changes within a second.
    pub changes: f64,
    /// The probability that an outage begins within a second.
    pub outages: f64,
    /// Seconds of an outage, in the mean.
    pub outage: f64,
    /// Seconds of a round trip.
    pub round_trip: f64,
}

/// A trace.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// One after the other, from the first again after the last. Some carry something.
    #[serde(deserialize_with = "shared")]
    pub steps: Arc<[Step]>,
}

/// A part of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// How long it lasts; more than nothing.
    pub seconds: f64,
    /// Bits a second.
    pub rate: f64,
    /// Seconds of a round trip.
    pub round_trip: f64,
}

fn shared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[Step]>, D::Error> {
    Vec::deserialize(deserializer).map(Into::into)
}

/// Where steps come from.
#[derive(Debug)]
enum Course {
    Chain {
        chain: Chain,
        random: Random,
        level: u8,
        /// It carries nothing now.
        is_out: bool,
    },
    Trace {
        trace: Trace,
        next: usize,
    },
}

/// The link of one session. Times are seconds since the session's arrival.
#[derive(Debug)]
pub struct Link {
    course: Course,
    /// Until then all that it carries has been used.
    used: f64,
    /// The end of the step that lasts.
    end: f64,
    /// Bytes a second in it.
    rate: f64,
    round_trip: f64,
    /// Seconds of what was not carried that it makes up for.
    slack: f64,
}

impl Link {
    /// A link of the network. `random` decides its course.
    pub fn new(network: &Network, mut random: Random) -> Self {
        match network {
            Network::Chain(chain) => Self::along(Course::chain(*chain, random), 0.0, SLACK),
            Network::Trace(trace) => {
                let whole: f64 = trace.steps.iter().map(|step| step.seconds).sum();
                Self::along(Course::Trace { trace: trace.clone(), next: 0 }, whole * random.uniform(), SLACK)
            }
        }
    }

    /// A link over a trace from its beginning on, in virtual time, in which nothing is late.
    pub fn over(trace: Trace) -> Self {
        Self::along(Course::Trace { trace, next: 0 }, 0.0, 0.0)
    }

    /// A link of which so many seconds are past.
    fn along(course: Course, skipped: f64, slack: f64) -> Self {
        let mut link = Self { course, used: 0.0, end: -skipped, rate: 0.0, round_trip: 0.0, slack };
        link.pass(0.0);
        link
    }

    /// When the last of so many bytes has come, which began to come at `now`.
    pub fn carry(&mut self, now: f64, bytes: f64) -> f64 {
        self.pass(now - self.slack);
        let mut left = bytes;
        loop {
            let room = (self.end - self.used) * self.rate;
            if left <= room {
                self.used += if left > 0.0 { left / self.rate } else { 0.0 };
                return self.used;
            }
            left -= room;
            self.used = self.end;
            self.turn();
        }
    }

    /// Seconds of a round trip now.
    pub fn round_trip(&mut self, now: f64) -> f64 {
        self.pass(now - self.slack);
        self.round_trip
    }

    /// Bytes that are on their way while none is taken.
    pub fn window(&self) -> f64 {
        self.rate * self.round_trip
    }

    /// Bytes to read at once.
    pub fn piece(&self) -> f64 {
        (self.rate * PIECE).max(PACKET)
    }

    /// What could be carried before `now` and was not is gone.
    fn pass(&mut self, now: f64) {
        self.used = self.used.max(now);
        while self.end <= self.used {
            self.turn();
        }
    }

    /// The next step.
    fn turn(&mut self) {
        let step = self.course.next();
        self.end += step.seconds;
        self.rate = step.rate / 8.0;
        self.round_trip = step.round_trip;
    }
}

impl Chain {
    /// A course of the chain for so many seconds or more, as a trace.
    pub fn trace(self, random: Random, seconds: f64) -> Trace {
        let (mut course, mut steps, mut length) = (Course::chain(self, random), Vec::new(), 0.0);
        while length < seconds {
            let step = course.next();
            length += step.seconds;
            steps.push(step);
        }
        Trace { steps: steps.into() }
    }
}

impl Course {
    fn chain(chain: Chain, mut random: Random) -> Self {
        let level = (1..LEVELS).map(|_| u8::from(random.uniform() < 0.5)).sum();
        Self::Chain { chain, random, level, is_out: false }
    }

    fn next(&mut self) -> Step {
        match self {
            Self::Trace { trace, next } => {
                let step = trace.steps[*next];
                *next = (*next + 1) % trace.steps.len();
                step
            }
            Self::Chain { chain, random, level, is_out } => {
                *is_out = !*is_out && random.uniform() < chain.outages;
                if *is_out {
                    let seconds = (chain.outage * random.exponential()).max(SLACK);
                    return Step { seconds, rate: 0.0, round_trip: chain.round_trip };
                }
                if random.uniform() < chain.changes {
                    let falls = random.uniform() * f64::from(LEVELS - 1) < f64::from(*level);
                    *level = if falls { *level - 1 } else { *level + 1 };
                }
                let deviations = (f64::from(*level) - MIDDLE) / DEVIATION;
                let rate = chain.median * (chain.sigma * deviations).exp();
                Step { seconds: STEP, rate, round_trip: chain.round_trip }
            }
        }
    }
}

#[cfg(test)]
mod tests;
