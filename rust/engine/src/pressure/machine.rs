//! When to give way and when to return: readings in, a level and a share of admitted work out. It knows no clock.
//!
//! Three readings in a row over the limit are pressure, and more of them overload: then the admitted share of new work falls by
//! a quarter at a time, and it rises by a tenth of all at a time once the readings are below. The invariants: nothing is refused
//! before the level is [`Level::Shedding`]; the share never falls to nothing, so that it is seen whether more can be served; and
//! whatever came before, a load that stays below its limit leads back to [`Level::Ok`] with all work admitted, in a bounded time.

use std::time::Duration;

/// How much gives way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    Ok,
    /// Work that no client waits for.
    Pressed,
    /// A share of new work as well.
    Shedding,
}

impl Level {
    /// Every level, in order.
    pub const ALL: [Self; 3] = [Self::Ok, Self::Pressed, Self::Shedding];

    /// The word for it in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Pressed => "pressed",
            Self::Shedding => "shedding",
        }
    }
}

/// What stands for all work where shares of it are counted.
pub(super) const ALL_WORK: u32 = 1000;

/// Readings in a row over the limit that are pressure. One may be chance.
const PRESSED_AFTER: u32 = 3;
/// How long a share is tried before it falls again: what was admitted before is still being served.
const CUT_PAUSE: Duration = Duration::from_millis(100);
/// The least share. Arbitrary; without any nothing would be known of how the rest is served.
const LEAST_SHARE: u32 = ALL_WORK / 20;
/// By how much the share rises at a time.
const RISE: u32 = ALL_WORK / 10;
/// After how long below half of the limit it rises.
const RISE_PAUSE: Duration = Duration::from_millis(200);
/// After how long below half of the limit the level falls, when all work is admitted.
const CALM: Duration = Duration::from_secs(1);
/// Between half of the limit and the limit the return takes so many times as long. Without it, a load that stays there would
/// be shed for ever.
const NEAR: u32 = 5;

/// One look at a load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// When, since any fixed moment; never earlier than before.
    pub(super) at: Duration,
    /// The load as a multiple of its limit.
    pub(super) load: f64,
    /// How many readings in a row over the limit there are after the first three before work is shed.
    pub(super) patience: u32,
}

/// What has been read so far, and what follows from it.
#[derive(Debug)]
pub(super) struct Machine {
    level: Level,
    /// Whether less is admitted in the last level.
    cuts: bool,
    /// In thousandths of the work that is offered.
    share: u32,
    /// Readings in a row over the limit.
    over: u32,
    /// Since when no reading has been over the limit.
    below: Option<Duration>,
    /// Since when all were below half of it.
    calm: Option<Duration>,
    /// When the level or the share last changed.
    changed: Duration,
}

impl Machine {
    /// One that, if it `cuts`, admits less at the last level.
    pub(super) fn new(cuts: bool) -> Self {
        Self {
            level: Level::Ok,
            cuts,
            share: ALL_WORK,
            over: 0,
            below: None,
            calm: None,
            changed: Duration::ZERO,
        }
    }

    pub(super) fn level(&self) -> Level {
        self.level
    }

    /// The share of new work that is admitted, of [`ALL_WORK`].
    pub(super) fn share(&self) -> u32 {
        self.share
    }

    pub(super) fn read(&mut self, reading: Reading) {
        if reading.load >= 1.0 {
            self.give_way(reading);
        } else {
            self.come_back(reading);
        }
    }

    fn give_way(&mut self, Reading { at, patience, .. }: Reading) {
        (self.below, self.calm) = (None, None);
        self.over = self.over.saturating_add(1);
        match self.level {
            Level::Ok if self.over >= PRESSED_AFTER => self.change(Level::Pressed, at),
            Level::Pressed if self.over >= PRESSED_AFTER.saturating_add(patience) => {
                self.change(Level::Shedding, at);
                self.cut();
            }
            Level::Shedding if at.saturating_sub(self.changed) >= CUT_PAUSE => {
                self.changed = at;
                self.cut();
            }
            _ => {}
        }
    }

    fn cut(&mut self) {
        if self.cuts {
            self.share = (self.share / 4 * 3).max(LEAST_SHARE);
        }
    }

    fn come_back(&mut self, Reading { at, load, .. }: Reading) {
        self.over = 0;
        let below = *self.below.get_or_insert(at);
        self.calm = if load < 0.5 { self.calm.or(Some(at)) } else { None };
        let changed = self.changed;
        let has_passed = |since: Duration, pause| at.saturating_sub(since.max(changed)) >= pause;
        let is_due = |pause: Duration| {
            self.calm.is_some_and(|calm| has_passed(calm, pause)) || has_passed(below, pause * NEAR)
        };
        if self.share < ALL_WORK {
            if is_due(RISE_PAUSE) {
                self.share = (self.share + RISE).min(ALL_WORK);
                self.changed = at;
            }
        } else if self.level != Level::Ok && is_due(CALM) {
            self.change(if self.level == Level::Shedding { Level::Pressed } else { Level::Ok }, at);
        }
    }

    fn change(&mut self, level: Level, at: Duration) {
        (self.level, self.changed) = (level, at);
    }
}
