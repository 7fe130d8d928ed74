//! BOLA-E: which rendition by the buffer (Spiteri, Sitaraman and Sparacio 2018, "From theory to practice: improving bitrate
//! adaptation in the DASH reference player"), as dash.js has it.
//!
//! A placeholder stands for media that was not fetched though there would have been time, so that a player which begins, or
//! which waits because its buffer is full, does not choose as if its network were slow.

use serde::Deserialize;

use crate::situation::{Choice, Insufficient, Network, Situation};

/// The figures of BOLA.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bola {
    /// Seconds in the buffer up to which the lowest rendition is chosen.
    pub low: f64,
    /// Seconds besides for each rendition.
    pub per_level: f64,
    /// Seconds in the buffer from which on the highest is chosen, at least.
    pub stable: f64,
    /// The share of the throughput that a rendition may need which is chosen by it: the first one, and each that is higher
    /// than the one before.
    pub share: f64,
    /// The rule against an insufficient buffer.
    pub insufficient: Insufficient,
}

/// What BOLA knows of one player.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    /// It has chosen by the throughput once, and since then by the buffer.
    steady: bool,
    /// Seconds of media that is not there.
    placeholder: f64,
    /// The rendition of the segment before.
    last: usize,
    /// Choices by the buffer.
    chosen: u32,
}

/// Scores of the renditions of a ladder.
struct Curve<'a> {
    bitrates: &'a [f64],
    /// Seconds of buffer for each unit of utility.
    scale: f64,
    gain: f64,
}

impl Bola {
    /// `None` for a ladder of which nothing is to be chosen.
    #[expect(clippy::cast_precision_loss, reason = "a ladder is short")]
    fn curve<'a>(&self, bitrates: &'a [f64]) -> Option<Curve<'a>> {
        let [lowest, .., highest] = bitrates else { return None };
        let target = self.stable.max(self.low + self.per_level * bitrates.len() as f64);
        let gain = (highest / lowest.max(1.0)).ln() / (target / self.low - 1.0);
        (gain > 0.0).then(|| Curve { bitrates, scale: self.low / gain, gain })
    }

    /// The rendition for the next segment, of which the network carries `by_throughput`.
    pub(crate) fn choose(
        &self,
        state: &mut State,
        now: &Situation<'_>,
        network: Network,
        by_throughput: usize,
    ) -> Choice {
        let Some(curve) = self.curve(now.bitrates) else { return Choice { level: 0, delay: 0.0 } };
        if !state.steady {
            state.steady = network.is_measured;
            state.chosen = 0;
            state.placeholder = (curve.least(by_throughput) - now.buffer).max(0.0);
            return Choice { level: by_throughput, delay: 0.0 };
        }
        let mut level = curve.best(now.buffer + state.placeholder);
        if level > state.last && level > by_throughput {
            level = state.last.max(by_throughput).min(curve.highest());
        }
        let mut delay = state.without_surplus(now.buffer + state.placeholder - curve.most(level));
        if level == curve.highest() {
            delay = 0.0;
        }
        let safe = self.insufficient.level(state.chosen, now, network);
        state.chosen = state.chosen.saturating_add(1);
        if safe < level {
            (level, delay) = (safe, 0.0);
            state.placeholder = state.placeholder.min((curve.least(level) - now.buffer).max(0.0));
        }
        Choice { level, delay }
    }

    /// A segment arrived after so many seconds, with which there are `buffer` seconds.
    pub(crate) fn arrived(
        &self,
        state: &mut State,
        bitrates: &[f64],
        level: usize,
        buffer: f64,
        seconds: f64,
    ) {
        state.last = level;
        let Some(curve) = self.curve(bitrates) else { return };
        let before = buffer + seconds;
        state.placeholder = state.placeholder.min((curve.most(level) - before).max(0.0));
        // The rendition may have been chosen by another rule.
        state.placeholder = state.placeholder.max(curve.least(level) - before);
    }

    /// A segment was given up for one of the rendition `level`: something is wrong with the network.
    pub(crate) fn gave_up(&self, state: &mut State, bitrates: &[f64], level: usize, buffer: f64) {
        let Some(curve) = self.curve(bitrates) else { return };
        let wanted = if level > 0 { curve.least(level) } else { self.low };
        state.placeholder = state.placeholder.min((wanted - buffer).max(0.0));
    }
}

impl State {
    /// The player waited for so many seconds because its buffer was full.
    pub(crate) fn waited(&mut self, seconds: f64) {
        self.placeholder += seconds;
    }

    /// The buffer was thrown away.
    pub(crate) fn sought(&mut self) {
        self.steady = false;
    }

    /// Takes so many seconds away: of the placeholder, and the rest by a wait.
    fn without_surplus(&mut self, surplus: f64) -> f64 {
        let surplus = surplus.max(0.0);
        let taken = surplus.min(self.placeholder);
        self.placeholder -= taken;
        surplus - taken
    }
}

impl Curve<'_> {
    fn highest(&self) -> usize {
        self.bitrates.len() - 1
    }

    /// The lowest has 1: the maximum of the score over a continuous ladder is then at `low` seconds for it.
    fn utility(&self, level: usize) -> f64 {
        1.0 + (self.bitrates[level] / self.bitrates[0].max(1.0)).ln()
    }

    /// The rendition with the highest score; of equal ones the lowest.
    fn best(&self, buffer: f64) -> usize {
        let score =
            |level: usize| (self.scale * (self.utility(level) + self.gain) - buffer) / self.bitrates[level];
        (1..self.bitrates.len()).fold(0, |best, level| if score(level) > score(best) { level } else { best })
    }

    /// Seconds in the buffer from which on the rendition is better than each lower one.
    fn least(&self, level: usize) -> f64 {
        let (bitrate, utility) = (self.bitrates[level], self.utility(level));
        let each = (0..level).filter(|lower| self.bitrates[*lower] < bitrate).map(|lower| {
            let (below, worth) = (self.bitrates[lower], self.utility(lower));
            self.scale * (self.gain + (bitrate * worth - below * utility) / (bitrate - below))
        });
        each.fold(0.0, f64::max)
    }

    /// Seconds in the buffer up to which there is a use for the rendition.
    fn most(&self, level: usize) -> f64 {
        self.scale * (self.utility(level) + self.gain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LADDER: [f64; 4] = [300_000.0, 1_000_000.0, 3_000_000.0, 6_000_000.0];
    const ALL: Insufficient = Insufficient { first: 1e9, falls: 1.0, least: 1e9 };
    const BOLA: Bola = Bola { low: 10.0, per_level: 2.0, stable: 12.0, share: 0.9, insufficient: ALL };

    fn situation(buffer: f64) -> Situation<'static> {
        Situation { bitrates: &LADDER, current: Some(0), buffer, segment: 4.0, started: true }
    }

    fn fast() -> Network {
        Network { throughput: 1e9, wait: 0.0, is_measured: true }
    }

    #[test]
    fn the_lowest_is_chosen_up_to_the_low_buffer_and_the_highest_from_the_target_on() {
        let curve = BOLA.curve(&LADDER).unwrap();
        assert_eq!((curve.best(9.9), curve.best(17.9)), (0, 3));
        let levels: Vec<usize> = (0..36).map(|half| curve.best(f64::from(half) / 2.0)).collect();
        assert!(levels.is_sorted(), "{levels:?}");
        assert_eq!((levels.contains(&1), levels.contains(&2)), (true, true));
        for level in 1..4 {
            assert_eq!(curve.best(curve.least(level) + 1e-6), level);
            assert_eq!(curve.best(curve.least(level) - 1e-6), level - 1);
        }
    }

    #[test]
    fn the_placeholder_carries_the_first_choice_on_while_the_buffer_is_small() {
        let mut state = State::default();
        assert_eq!(BOLA.choose(&mut state, &situation(4.0), fast(), 2).level, 2);
        BOLA.arrived(&mut state, &LADDER, 2, 7.0, 1.0);
        assert_eq!(BOLA.choose(&mut state, &situation(7.0), fast(), 2).level, 2);
        state.sought();
        assert_eq!(BOLA.choose(&mut state, &situation(0.0), fast(), 1).level, 1);
    }

    #[test]
    fn a_buffer_that_no_rendition_below_the_highest_needs_is_waited_for() {
        let mut state = State { steady: true, last: 1, ..State::default() };
        let choice = BOLA.choose(&mut state, &situation(40.0), fast(), 1);
        assert_eq!(choice.level, 1, "the network carries no higher one");
        assert!((choice.delay - (40.0 - BOLA.curve(&LADDER).unwrap().most(1))).abs() < 1e-9);
        state.placeholder = 100.0;
        assert!(BOLA.choose(&mut state, &situation(10.0), fast(), 1).delay.abs() < f64::EPSILON);
        assert!(state.placeholder < 100.0, "the placeholder is taken first");
    }

    #[test]
    fn one_rendition_is_no_choice() {
        let now = Situation { bitrates: &LADDER[..1], ..situation(30.0) };
        assert_eq!(BOLA.choose(&mut State::default(), &now, fast(), 0), Choice { level: 0, delay: 0.0 });
    }
}
