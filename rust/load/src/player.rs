//! A player in virtual time: its buffer, when it plays, stalls and pauses, and what it fetches next.
//!
//! It is told of each segment that arrives, at times that only rise, and asks for the next one. It knows no socket: the same
//! code plays over a trace in a test.

use std::sync::Arc;

use crate::abr::Meter;
use crate::estimate::Download;
use crate::plan;
use crate::qoe::Qoe;
use crate::situation::Situation;
use crate::viewer::Viewer;

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Fetch a segment of this rendition.
    Fetch(usize),
    /// There is time until then: seconds since the arrival.
    Wait(f64),
}

/// What a viewer does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Another part of the media is wanted.
    Seek,
    /// The viewer has seen enough, or has waited for too long after the start.
    Leave,
    /// The viewer has waited too long for a first frame.
    GiveUp,
}

/// Whether frames are shown.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Starting,
    Playing,
    Stalled,
    /// After a seek, until there is something to show.
    Seeking,
    /// Until that time.
    Paused(f64),
}

/// A segment that is on its way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coming {
    /// Its rendition.
    pub level: usize,
    /// Seconds of its media.
    pub seconds: f64,
    /// Bytes of it.
    pub whole: u64,
    /// Bytes that have come.
    pub bytes: u64,
    /// Seconds from its request to its first byte.
    pub waited: f64,
    /// Seconds since then.
    pub took: f64,
}

/// A player. All times are seconds since the session's arrival.
#[derive(Debug, Clone)]
pub struct Player {
    settings: Arc<plan::Player>,
    bitrates: Vec<f64>,
    viewer: Option<Box<Viewer>>,
    meter: Meter,
    state: State,
    now: f64,
    /// Seconds of media that are ahead.
    buffer: f64,
    level: Option<usize>,
    /// The rendition of the next segment, if it was chosen before a wait, or because another was given up.
    decided: Option<usize>,
    /// All media has arrived: an empty buffer is the end, and no stall.
    complete: bool,
    qoe: Qoe,
}

impl Player {
    /// A player, before it knows its renditions.
    pub fn new(settings: impl Into<Arc<plan::Player>>, viewer: Option<Box<Viewer>>) -> Self {
        Self {
            settings: settings.into(),
            bitrates: Vec::new(),
            viewer,
            meter: Meter::default(),
            state: State::Starting,
            now: 0.0,
            buffer: 0.0,
            level: None,
            decided: None,
            complete: false,
            qoe: Qoe::default(),
        }
    }

    /// Tells it the bitrates of the renditions, in bits a second, which rise.
    pub fn set_ladder(&mut self, bitrates: Vec<f64>) {
        self.bitrates = bitrates;
    }

    /// Lets time pass: plays what is in the buffer, pauses, and stalls without media.
    pub fn advance(&mut self, now: f64) {
        let mut left = (now - self.now).max(0.0);
        self.now = self.now.max(now);
        while left > 0.0 {
            left = self.pass(left);
        }
    }

    /// Passes so many seconds, or less up to a change of state. What is left of them.
    fn pass(&mut self, left: f64) -> f64 {
        match self.state {
            State::Starting => 0.0,
            State::Stalled => {
                self.qoe.stalled += left;
                0.0
            }
            State::Seeking => {
                self.qoe.seeking += left;
                0.0
            }
            State::Paused(until) => {
                let paused = left.min((until - (self.now - left)).max(0.0));
                self.qoe.paused += paused;
                if paused < left {
                    self.state = State::Playing;
                }
                left - paused
            }
            State::Playing => self.play(left),
        }
    }

    fn play(&mut self, left: f64) -> f64 {
        let until_pause =
            self.viewer.as_ref().map_or(f64::INFINITY, |each| each.until_pause(self.qoe.played));
        let played = left.min(self.buffer).min(until_pause);
        self.qoe.played += played;
        self.buffer -= played;
        if let Some(viewer) = self.viewer.as_mut().filter(|_| played >= until_pause) {
            self.qoe.pauses += 1;
            self.state = State::Paused(self.now - (left - played) + viewer.pause(self.qoe.played));
            return left - played;
        }
        if played >= left || self.complete {
            return 0.0;
        }
        self.state = State::Stalled;
        self.qoe.stalls += 1;
        left - played
    }

    /// What to do for a segment of so many seconds.
    pub fn next(&mut self, now: f64, seconds: f64) -> Step {
        self.advance(now);
        if let Some(level) = self.decided.take() {
            return Step::Fetch(level);
        }
        let over = self.buffer + seconds - self.settings.buffer;
        // A segment that is longer than the buffer is fetched when all else has been played.
        if matches!(self.state, State::Playing | State::Paused(_)) && over > 1e-9 && self.buffer > 1e-9 {
            let wait = over.min(self.buffer);
            self.settings.rule.waited(&mut self.meter, wait);
            return Step::Wait(self.shown(wait));
        }
        let situation = Situation {
            bitrates: &self.bitrates,
            current: self.level,
            buffer: self.buffer,
            segment: seconds,
            started: self.state != State::Starting,
        };
        let choice = self.settings.rule.choose(&mut self.meter, &situation);
        if choice.delay <= 0.0 {
            return Step::Fetch(choice.level);
        }
        self.decided = Some(choice.level);
        Step::Wait(self.now + choice.delay)
    }

    /// A segment of the rendition `level` arrived.
    pub fn arrived(&mut self, now: f64, level: usize, download: &Download) {
        self.advance(now);
        self.buffer += download.seconds;
        self.settings.rule.arrived(&mut self.meter, &self.bitrates, level, self.buffer, download);
        match self.level {
            Some(before) if level > before => self.qoe.up += 1,
            Some(before) if level < before => self.qoe.down += 1,
            _ => {}
        }
        self.level = Some(level);
        self.qoe.media += download.seconds;
        self.qoe.bits += download.seconds * self.bitrates.get(level).copied().unwrap_or_default();
        self.start_if_ready();
    }

    fn start_if_ready(&mut self) {
        let wanted = match self.state {
            State::Starting => self.settings.startup,
            State::Stalled | State::Seeking => self.settings.resume,
            State::Playing | State::Paused(_) => return,
        };
        if self.buffer + 1e-9 >= wanted || (self.complete && self.buffer > 0.0) {
            if self.state == State::Starting {
                self.qoe.startup = Some(self.now);
            }
            self.state = State::Playing;
        }
    }

    /// The lower rendition for which a segment that comes too slowly is given up, as dash.js does (`AbandonRequestsRule`): if
    /// it looks as if the whole would take longer than a multiple of its length, and the other has fewer bytes than are left.
    #[expect(clippy::cast_precision_loss, reason = "no segment has 2^53 bytes")]
    pub fn gives_up(&self, coming: &Coming) -> Option<usize> {
        let abandon = self.settings.abandon?;
        let whole_time = coming.waited + coming.took;
        if coming.bytes == 0 || coming.took <= 0.0 || whole_time < abandon.after {
            return None;
        }
        let rate = coming.bytes as f64 / coming.took;
        let left = coming.whole.saturating_sub(coming.bytes) as f64;
        if whole_time + left / rate <= abandon.times * coming.seconds {
            return None;
        }
        let situation = Situation {
            bitrates: &self.bitrates,
            current: Some(coming.level),
            buffer: self.buffer,
            segment: coming.seconds,
            started: true,
        };
        let lower = self.settings.rule.carried_by(&situation, rate * 8.0);
        let bitrate = |level: usize| self.bitrates.get(level).copied().unwrap_or_default();
        (lower < coming.level && coming.whole as f64 * bitrate(lower) / bitrate(coming.level) < left)
            .then_some(lower)
    }

    /// A segment was given up for one of the rendition `level`.
    pub fn gave_up(&mut self, now: f64, level: usize) {
        self.advance(now);
        self.settings.rule.gave_up(&mut self.meter, &self.bitrates, level, self.buffer);
        self.qoe.abandoned += 1;
        self.decided = Some(level);
    }

    /// What the viewer does next, and when, if no segment arrives before. `leaves` is when the viewer would leave without a
    /// stall.
    pub fn act(&self, leaves: f64) -> (f64, Act) {
        let Some(viewer) = &self.viewer else { return (leaves, Act::Leave) };
        if self.qoe.startup.is_none() {
            return if viewer.patience() < leaves {
                (viewer.patience(), Act::GiveUp)
            } else {
                (leaves, Act::Leave)
            };
        }
        // Each second of a stall takes so many from what is left.
        let (dry, shortens) = (self.dry(), viewer.shortens());
        let early = leaves - shortens * self.qoe.stalled;
        let leaves = if early <= dry { early } else { dry + (early - dry) / (1.0 + shortens) };
        let until_seek = viewer.until_seek(self.qoe.played);
        let seeks = self.shown(until_seek);
        if self.buffer > 0.0 && until_seek <= self.buffer && seeks < leaves {
            return (seeks, Act::Seek);
        }
        (leaves, Act::Leave)
    }

    /// When so many seconds of media will have been shown, of which the buffer has enough.
    fn shown(&self, seconds: f64) -> f64 {
        let pause = self.viewer.as_ref().filter(|each| each.until_pause(self.qoe.played) < seconds);
        match self.state {
            State::Playing => self.now + seconds + pause.map_or(0.0, |viewer| viewer.pause_length()),
            State::Paused(until) => until.max(self.now) + seconds,
            State::Starting | State::Stalled | State::Seeking => f64::INFINITY,
        }
    }

    /// When the buffer is empty, if nothing arrives.
    fn dry(&self) -> f64 {
        match self.state {
            _ if self.complete => f64::INFINITY,
            State::Stalled => self.now,
            _ => self.shown(self.buffer),
        }
    }

    /// By how many seconds the viewer seeks now, on or back; the media that is `past` seconds long has been before what is
    /// shown, and `ahead` seconds come after it. `None` if the buffer has the place: then it is shown at once.
    pub fn seek(&mut self, now: f64, past: f64, ahead: f64) -> Option<f64> {
        self.advance(now);
        let by = self.viewer.as_mut().map_or(0.0, |viewer| viewer.seek(self.qoe.played)).clamp(-past, ahead);
        self.qoe.seeks += 1;
        if (0.0..=self.buffer).contains(&by) {
            self.buffer -= by;
            return None;
        }
        self.buffer = 0.0;
        self.complete = false;
        self.decided = None;
        self.state = State::Seeking;
        self.settings.rule.sought(&mut self.meter);
        Some(by)
    }

    /// A segment of a live playlist arrived, in which so many seconds of media come after it, some of them since it was read.
    pub fn live(&mut self, after: f64) {
        self.qoe.behind += self.buffer + after;
        self.qoe.live += 1;
    }

    /// The last segment has arrived.
    pub fn completed(&mut self, now: f64) {
        self.advance(now);
        self.complete = true;
        self.start_if_ready();
    }

    /// Whether all media has been shown.
    pub fn is_over(&self) -> bool {
        self.complete && self.buffer <= 1e-9
    }

    /// Whether all media has arrived.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// When all media that has arrived will have been shown.
    pub fn ends(&self) -> f64 {
        self.shown(self.buffer)
    }

    /// Seconds of media that are ahead.
    pub fn buffer(&self) -> f64 {
        self.buffer
    }

    /// The rendition of the segment that arrived last.
    pub fn level(&self) -> Option<usize> {
        self.level
    }

    /// Whether it has played, and does not because the buffer is empty.
    pub fn is_stalled(&self) -> bool {
        self.state == State::Stalled
    }

    /// Bits a second that its rule expects; 0 if it does not measure.
    pub fn estimated(&self) -> f64 {
        self.settings.rule.estimated(&self.meter)
    }

    /// What the viewer experienced up to the last time that was told.
    pub fn qoe(&self) -> &Qoe {
        &self.qoe
    }
}

#[cfg(test)]
mod tests;
