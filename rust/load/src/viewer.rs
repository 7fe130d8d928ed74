//! What a viewer does besides watching: pauses, seeks, and leaves if it takes too long. Seeded, and without a clock: times are
//! seconds of media that were played, or seconds since the arrival.

use serde::Deserialize;

use crate::random::Random;

/// How often viewers seek, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seeks {
    /// Seconds that are played from one to the next, in the mean; exponential.
    pub every: f64,
    /// Seconds of media by which they seek, in the mean; exponential.
    pub distance: f64,
    /// The share of the seeks that go back.
    pub back: f64,
}

/// How often viewers pause, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pauses {
    /// Seconds that are played from one to the next, in the mean; exponential.
    pub every: f64,
    /// Seconds that half of them exceed; log-normal.
    pub median: f64,
    /// The deviation of the logarithm.
    pub sigma: f64,
}

/// When viewers give up.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patience {
    /// Seconds of a startup that all viewers wait for.
    pub startup: f64,
    /// The share of the viewers who leave in each further second.
    pub leaves: f64,
    /// Seconds by which each second of a stall shortens what is watched.
    pub stall: f64,
}

/// What viewers of a workload do.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Habits {
    /// `None`: they do not seek.
    pub seek: Option<Seeks>,
    /// `None`: they do not pause.
    pub pause: Option<Pauses>,
    /// `None`: they wait as long as they would have watched.
    pub patience: Option<Patience>,
}

/// One viewer.
#[derive(Debug, Clone)]
pub struct Viewer {
    habits: Habits,
    random: Random,
    /// Seconds of media after which the next seek, and the next pause, comes.
    seeks: f64,
    pauses: f64,
    /// Seconds of that pause.
    pause: f64,
    /// Seconds of a startup that this viewer waits for.
    patience: f64,
}

impl Viewer {
    /// A viewer with these habits; `None` without a habit.
    pub fn new(habits: &Habits, mut random: Random) -> Option<Self> {
        if *habits == (Habits { seek: None, pause: None, patience: None }) {
            return None;
        }
        // All are drawn, so that one habit changes nothing for the others.
        let mut next = |mean: Option<f64>| {
            let drawn = random.exponential();
            mean.map_or(f64::INFINITY, |mean| mean * drawn)
        };
        let seeks = next(habits.seek.map(|seek| seek.every));
        let pauses = next(habits.pause.map(|pause| pause.every));
        // Of a share that leaves in each second, the mean time until one does.
        let mean = |patience: Patience| -1.0 / (1.0 - patience.leaves).ln();
        let patience =
            habits.patience.map_or(f64::INFINITY, |each| each.startup) + next(habits.patience.map(mean));
        let mut viewer = Self { habits: *habits, random, seeks, pauses, pause: 0.0, patience };
        viewer.pause = viewer.length();
        Some(viewer)
    }

    /// Seconds of a pause.
    fn length(&mut self) -> f64 {
        let drawn = self.random.normal();
        self.habits.pause.map_or(0.0, |pause| pause.median * (pause.sigma * drawn).exp())
    }

    /// Seconds of media that are played before the next pause.
    pub(crate) fn until_pause(&self, played: f64) -> f64 {
        (self.pauses - played).max(0.0)
    }

    /// Seconds of media that are played before the next seek.
    pub(crate) fn until_seek(&self, played: f64) -> f64 {
        (self.seeks - played).max(0.0)
    }

    /// Seconds of the next pause.
    pub(crate) fn pause_length(&self) -> f64 {
        self.pause
    }

    /// The pause begins. Seconds that it lasts.
    pub(crate) fn pause(&mut self, played: f64) -> f64 {
        let every = self.habits.pause.map_or(f64::INFINITY, |pause| pause.every);
        self.pauses = played + every * self.random.exponential();
        let next = self.length();
        std::mem::replace(&mut self.pause, next)
    }

    /// Seconds by which the seek that is due goes on, or back if they are negative.
    pub(crate) fn seek(&mut self, played: f64) -> f64 {
        let Some(seek) = self.habits.seek else { return 0.0 };
        self.seeks = played + seek.every * self.random.exponential();
        let distance = seek.distance * self.random.exponential();
        if self.random.uniform() < seek.back { -distance } else { distance }
    }

    /// Seconds since the arrival after which this viewer has waited long enough for a first frame.
    pub(crate) fn patience(&self) -> f64 {
        self.patience
    }

    /// Seconds by which each second of a stall shortens what is watched.
    pub(crate) fn shortens(&self) -> f64 {
        self.habits.patience.map_or(0.0, |patience| patience.stall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    const HABITS: Habits = Habits {
        seek: Some(Seeks { every: 60.0, distance: 30.0, back: 0.25 }),
        pause: Some(Pauses { every: 100.0, median: 10.0, sigma: 0.5 }),
        patience: Some(Patience { startup: 2.0, leaves: 0.058, stall: 5.0 }),
    };

    fn viewer(habits: &Habits, index: u64) -> Viewer {
        Viewer::new(habits, Random::new(7, 0, Purpose::Viewer(index))).unwrap()
    }

    #[test]
    fn a_viewer_without_habits_is_none() {
        let habits = Habits { seek: None, pause: None, patience: None };
        assert!(Viewer::new(&habits, Random::new(7, 0, Purpose::Viewer(0))).is_none());
    }

    #[test]
    fn one_habit_changes_nothing_for_the_others() {
        let only = Habits { seek: None, pause: None, ..HABITS };
        assert!((viewer(&only, 3).patience() - viewer(&HABITS, 3).patience()).abs() < f64::EPSILON);
        assert!(viewer(&only, 3).until_seek(0.0).is_infinite());
    }

    #[test]
    fn of_those_who_wait_longer_than_they_like_the_share_leaves_each_second() {
        let count = 20_000u32;
        let left =
            |second: f64| (0..count).filter(|at| viewer(&HABITS, u64::from(*at)).patience() < second).count();
        assert_eq!(left(2.0), 0);
        for second in [3, 5, 12] {
            let expected = (1.0 - 0.942f64.powi(second - 2)) * f64::from(count);
            let found = f64::from(u32::try_from(left(f64::from(second))).unwrap());
            assert!((found / expected - 1.0).abs() < 0.06, "{found} of {expected} after {second} s");
        }
    }

    #[test]
    fn seeks_go_back_in_their_share_and_have_their_mean_distance() {
        let mut viewer = viewer(&HABITS, 1);
        let jumps: Vec<f64> = (0..10_000).map(|_| viewer.seek(0.0)).collect();
        let back = jumps.iter().filter(|jump| **jump < 0.0).count();
        assert!((2300..2700).contains(&back), "{back}");
        let mean = jumps.iter().map(|jump| jump.abs()).sum::<f64>() / 10_000.0;
        assert!((mean - 30.0).abs() < 1.0, "{mean}");
    }
}
