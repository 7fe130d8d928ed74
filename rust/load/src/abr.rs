//! How a player chooses the rendition of its next segment, as pure functions of what it has measured.

use serde::Deserialize;

use crate::bola::{self, Bola};
use crate::estimate::{Download, Estimate, Measured};
use crate::situation::{Choice, Insufficient, Network, Situation};

/// A rule.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// Always the same rendition.
    Fixed {
        /// From 0, the lowest, on; the highest if there are fewer.
        level: usize,
    },
    /// The highest rendition whose segment the estimated throughput carries within its own time.
    Throughput {
        /// The share of the estimate that a rendition may need.
        share: f64,
        /// The rule against an insufficient buffer.
        insufficient: Insufficient,
        /// The estimate.
        estimate: Estimate,
    },
    /// As hls.js: the highest rendition that the estimated throughput carries before the buffer is empty.
    Starvation {
        /// The share of the estimate that the rendition in use may need.
        stay: f64,
        /// The share of the estimate that a higher one may need.
        up: f64,
        /// Seconds of a stall that are accepted for a higher rendition if each would stall.
        stall: f64,
        /// The estimate.
        estimate: Estimate,
    },
    /// By the buffer.
    Bola {
        /// The figures of BOLA.
        bola: Bola,
        /// The estimate.
        estimate: Estimate,
    },
    /// As dash.js: by the throughput with a small buffer, and by BOLA with a large one.
    Dynamic {
        /// Seconds in the buffer from which on BOLA chooses.
        high: f64,
        /// Seconds in the buffer below which the throughput does again.
        low: f64,
        /// The share of the estimate that a rendition may need.
        share: f64,
        /// The rule against an insufficient buffer, while the throughput decides.
        insufficient: Insufficient,
        /// The figures of BOLA.
        bola: Bola,
        /// The estimate.
        estimate: Estimate,
    },
}

/// What the rule of one player has measured and decided.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    measured: Measured,
    bola: bola::State,
    /// Whether BOLA chooses now.
    by_buffer: bool,
    /// Choices by the throughput.
    chosen: u32,
}

impl Rule {
    fn estimate(&self) -> Option<&Estimate> {
        match self {
            Self::Fixed { .. } => None,
            Self::Throughput { estimate, .. }
            | Self::Starvation { estimate, .. }
            | Self::Bola { estimate, .. }
            | Self::Dynamic { estimate, .. } => Some(estimate),
        }
    }

    fn bola(&self) -> Option<&Bola> {
        match self {
            Self::Bola { bola, .. } | Self::Dynamic { bola, .. } => Some(bola),
            Self::Fixed { .. } | Self::Throughput { .. } | Self::Starvation { .. } => None,
        }
    }

    /// Takes note of a segment of the rendition `level` that arrived, with which there are `buffer` seconds.
    pub fn arrived(
        &self,
        meter: &mut Meter,
        bitrates: &[f64],
        level: usize,
        buffer: f64,
        download: &Download,
    ) {
        if let Some(estimate) = self.estimate() {
            meter.measured.add(estimate, download);
        }
        if let Some(bola) = self.bola() {
            bola.arrived(&mut meter.bola, bitrates, level, buffer, download.waited + download.took);
        }
    }

    /// Takes note of a wait of so many seconds for room in the buffer.
    pub fn waited(&self, meter: &mut Meter, seconds: f64) {
        meter.bola.waited(seconds);
    }

    /// Takes note that the buffer was thrown away.
    pub fn sought(&self, meter: &mut Meter) {
        meter.bola.sought();
    }

    /// Takes note of a segment that was given up for one of the rendition `level`.
    pub fn gave_up(&self, meter: &mut Meter, bitrates: &[f64], level: usize, buffer: f64) {
        if let Some(bola) = self.bola() {
            bola.gave_up(&mut meter.bola, bitrates, level, buffer);
        }
    }

    /// Bits a second that the rule expects; 0 if it does not measure.
    pub fn estimated(&self, meter: &Meter) -> f64 {
        self.estimate().map_or(0.0, |estimate| meter.measured.throughput(estimate))
    }

    /// The highest rendition that so many bits a second carry, of which a rule takes its share.
    pub fn carried_by(&self, now: &Situation<'_>, throughput: f64) -> usize {
        let share = match self {
            Self::Fixed { level } => return *level,
            Self::Throughput { share, .. } | Self::Dynamic { share, .. } => *share,
            Self::Starvation { stay, .. } => *stay,
            Self::Bola { bola, .. } => bola.share,
        };
        carried(now, Network { throughput, wait: 0.0, is_measured: true }, share)
    }

    /// The rendition for the next segment.
    pub fn choose(&self, meter: &mut Meter, now: &Situation<'_>) -> Choice {
        let at_once = |level| Choice { level, delay: 0.0 };
        let network = Network {
            throughput: self.estimated(meter),
            wait: meter.measured.wait(),
            is_measured: meter.measured.any(),
        };
        match self {
            Self::Fixed { level } => at_once((*level).min(now.bitrates.len().saturating_sub(1))),
            Self::Throughput { share, insufficient, .. } => {
                at_once(meter.by_throughput(now, network, *share, insufficient))
            }
            Self::Starvation { stay, up, stall, .. } => {
                // Without a stall if that is possible, otherwise with the whole of the estimate and a short one.
                let level = within(now, network, *stay, *up, now.buffer);
                at_once(if level > 0 { level } else { within(now, network, *stay, *up, now.buffer + stall) })
            }
            Self::Bola { bola, .. } => {
                bola.choose(&mut meter.bola, now, network, carried(now, network, bola.share))
            }
            Self::Dynamic { high, low, share, insufficient, bola, .. } => {
                meter.by_buffer = now.buffer >= if meter.by_buffer { *low } else { *high };
                if meter.by_buffer {
                    return bola.choose(&mut meter.bola, now, network, carried(now, network, bola.share));
                }
                at_once(meter.by_throughput(now, network, *share, insufficient))
            }
        }
    }
}

impl Meter {
    fn by_throughput(
        &mut self,
        now: &Situation<'_>,
        network: Network,
        share: f64,
        insufficient: &Insufficient,
    ) -> usize {
        let level = carried(now, network, share);
        if !network.is_measured {
            return level;
        }
        let safe = insufficient.level(self.chosen, now, network);
        self.chosen = self.chosen.saturating_add(1);
        level.min(safe)
    }
}

/// The highest rendition whose segment arrives within its own time, by a share of the throughput.
fn carried(now: &Situation<'_>, network: Network, share: f64) -> usize {
    let most = if now.segment > 0.0 { now.segment } else { f64::INFINITY };
    within(now, network, share, share, most)
}

/// The highest rendition that a share of the throughput carries, and whose segment takes `most` seconds at most.
fn within(now: &Situation<'_>, network: Network, stay: f64, up: f64, most: f64) -> usize {
    let fits = |(level, bitrate): (usize, &f64)| {
        let share = if now.current.is_some_and(|current| level > current) { up } else { stay };
        let rate = network.throughput * share;
        *bitrate <= rate && network.wait + bitrate * now.segment / rate <= most
    };
    now.bitrates.iter().enumerate().rposition(fits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ESTIMATE: Estimate = Estimate { fast: 3.0, slow: 9.0, first: 500_000.0 };
    const LADDER: [f64; 4] = [300_000.0, 1_000_000.0, 3_000_000.0, 6_000_000.0];
    const INSUFFICIENT: Insufficient = Insufficient { first: 0.9, falls: 0.9, least: 0.5 };
    const BOLA: Bola =
        Bola { low: 10.0, per_level: 2.0, stable: 18.0, share: 0.9, insufficient: INSUFFICIENT };

    fn throughput() -> Rule {
        Rule::Throughput { share: 0.9, insufficient: INSUFFICIENT, estimate: ESTIMATE }
    }

    fn starvation() -> Rule {
        Rule::Starvation { stay: 0.95, up: 0.7, stall: 4.0, estimate: ESTIMATE }
    }

    fn situation(current: Option<usize>, buffer: f64) -> Situation<'static> {
        Situation { bitrates: &LADDER, current, buffer, segment: 4.0, started: true }
    }

    /// After one segment over a link, whose first byte took `waited` seconds.
    fn measured(rule: &Rule, megabits: u32, waited: f64) -> Meter {
        let mut meter = Meter::default();
        let download = Download { seconds: 4.0, bytes: u64::from(megabits) * 125_000, waited, took: 1.0 };
        rule.arrived(&mut meter, &LADDER, 0, 4.0, &download);
        meter
    }

    fn level(rule: &Rule, meter: &mut Meter, current: Option<usize>, buffer: f64) -> usize {
        rule.choose(meter, &situation(current, buffer)).level
    }

    #[test]
    fn a_fixed_rule_stays_within_the_ladder() {
        let mut meter = Meter::default();
        assert_eq!(level(&Rule::Fixed { level: 2 }, &mut meter, None, 0.0), 2);
        assert_eq!(level(&Rule::Fixed { level: 9 }, &mut meter, None, 0.0), 3);
    }

    #[test]
    fn the_first_choice_is_by_the_first_estimate() {
        assert_eq!(level(&throughput(), &mut Meter::default(), None, 0.0), 0);
        assert_eq!(level(&starvation(), &mut Meter::default(), None, 0.0), 0);
    }

    #[test]
    fn a_segment_and_its_first_byte_must_come_within_its_time() {
        // 3 of 3.6 Mbit/s take 3.33 s of 4.
        let rule = throughput();
        assert_eq!(level(&rule, &mut measured(&rule, 4, 0.6), Some(2), 20.0), 2);
        assert_eq!(level(&rule, &mut measured(&rule, 4, 0.7), Some(2), 20.0), 1);
        assert_eq!(level(&rule, &mut measured(&rule, 3, 0.0), Some(2), 20.0), 1);
    }

    #[test]
    fn an_insufficient_buffer_allows_less_and_less() {
        let (rule, mut meter) = (throughput(), Meter::default());
        meter.measured = measured(&rule, 4, 0.0).measured;
        // 3 Mbit/s for 4 s are 12 Mbit: 0.9 of 4 Mbit/s for 3.4 s are as many, and half of it is not.
        assert_eq!(level(&rule, &mut meter, Some(2), 3.4), 2);
        for _ in 0..20 {
            level(&rule, &mut meter, Some(2), 20.0);
        }
        assert_eq!(level(&rule, &mut meter, Some(2), 3.4), 1);
        assert_eq!(level(&rule, &mut meter, Some(2), 6.1), 2);
    }

    #[test]
    fn a_higher_rendition_must_not_empty_the_buffer_and_may_stall_shortly_if_there_is_no_other() {
        // Segments of 3 Mbit/s over 3.8 take 3.2 s.
        let rule = starvation();
        assert_eq!(level(&rule, &mut measured(&rule, 4, 0.0), Some(2), 10.0), 2);
        assert_eq!(level(&rule, &mut measured(&rule, 4, 0.0), Some(2), 2.0), 1);
        assert_eq!(level(&rule, &mut measured(&rule, 4, 0.0), Some(2), 0.0), 2);
        // 3 of 4 Mbit/s are 75 %: too much to go up.
        assert_eq!(level(&rule, &mut measured(&rule, 4, 0.0), Some(1), 10.0), 1);
    }

    #[test]
    fn dynamic_switches_to_the_buffer_and_back_at_half() {
        let rule = Rule::Dynamic {
            high: 18.0,
            low: 9.0,
            share: 0.9,
            insufficient: INSUFFICIENT,
            bola: BOLA,
            estimate: ESTIMATE,
        };
        let mut meter = measured(&rule, 4, 0.0);
        let buffers = [(17.0, false), (18.0, true), (9.5, true), (8.5, false), (17.0, false)];
        for (buffer, by_buffer) in buffers {
            level(&rule, &mut meter, Some(2), buffer);
            assert_eq!(meter.by_buffer, by_buffer, "{buffer}");
        }
    }
}
