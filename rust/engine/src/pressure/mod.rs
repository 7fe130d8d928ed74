//! Whether there is more to do than can be done, and what gives way then (docs/decisions/067-degrade-and-return.md).
//!
//! The sampler reads what the engine knows of itself, a machine for each part says what follows, and
//! whatever begins work asks here first: `Pressure::is_pressed` before work that no client waits for, `Pressure::admit` before
//! work that one does. Any thread may ask; it takes two loads of memory unless work is being shed.

mod machine;
mod sampler;
mod stalls;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

pub use machine::Level;
use machine::{ALL_WORK, Machine};

use crate::error::{Code, Error, Result};
use crate::sync::{Mutex, lock};

/// What can be overloaded by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Its memory and its threads: everything depends on them.
    Engine,
    /// The application: what the engine answers without it goes on.
    Application,
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 2] = [Self::Engine, Self::Application];

    /// The word for it in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Application => "application",
        }
    }
}

/// New work, in the order in which it gives way. What has begun, and what is stored, does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// An origin is asked for what may be stored, for a client that has taken no response to its end so far.
    Fill,
    /// As that, for one that has.
    ProvenFill,
    /// A request that is not answered from a cache, of a client that has taken no response to its end so far.
    Request,
    /// As that, of one that has.
    ProvenRequest,
}

/// How many there are.
const RANKS: usize = 4;

impl Rank {
    /// What an origin is asked for a cache.
    pub fn fill(is_proven: bool) -> Self {
        if is_proven { Self::ProvenFill } else { Self::Fill }
    }

    /// A request.
    pub fn request(is_proven: bool) -> Self {
        if is_proven { Self::ProvenRequest } else { Self::Request }
    }

    /// What is admitted of it where `share` of the work of the last rank is: each rank before that has the share of the next
    /// one, times `share`.
    fn of(self, share: u32) -> u32 {
        (self as usize + 1..RANKS).fold(share, |admitted, _| admitted * share / ALL_WORK)
    }
}

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cause {
    /// The pool is full.
    Pool,
    /// An engine thread came late to its timer, by so much.
    Thread(Duration),
    /// Tasks waited for memory for this share of the time.
    Memory(f64),
    /// A request waited for the application for so long.
    Application(Duration),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool => f.write_str("the pool is full"),
            Self::Thread(late) => write!(f, "an engine thread is {:.3} s late", late.as_secs_f64()),
            Self::Memory(share) => {
                write!(f, "the machine waits for memory for {:.0} % of the time", share * 100.0)
            }
            Self::Application(late) => {
                write!(f, "a request waits for the application for {:.3} s", late.as_secs_f64())
            }
        }
    }
}

/// A change of a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Change {
    part: Part,
    to: Level,
    cause: Option<Cause>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, to, cause } = self;
        write!(f, "the {} is {}", part.name(), to.name())?;
        if let Some(cause) = cause {
            write!(f, " because {cause}")?;
        }
        f.write_str(match to {
            Level::Ok => ": all work is done again",
            Level::Pressed => ": all requests are answered, and nothing is begun that no client waits for",
            Level::Shedding => ": a part of the new requests is refused",
        })
    }
}

/// How a part is doing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartState {
    /// Its level.
    pub level: Level,
    /// The share of new requests of proven clients that is admitted, from 0 to 1.
    pub admitted: f64,
}

#[derive(Debug)]
struct Standing {
    level: AtomicU8,
    share: AtomicU32,
    /// By rank, what has been offered, weighed by its share: a request is admitted whenever it comes past another whole one.
    offered: [AtomicU32; RANKS],
    cause: Mutex<Option<Cause>>,
}

impl Standing {
    fn new() -> Self {
        Self {
            level: AtomicU8::new(Level::Ok as u8),
            share: AtomicU32::new(ALL_WORK),
            offered: Default::default(),
            cause: Mutex::default(),
        }
    }

    // Relaxed throughout: a request more or less does not matter.

    fn level(&self) -> Level {
        Level::ALL[usize::from(self.level.load(Ordering::Relaxed))]
    }

    fn admits(&self, rank: Rank) -> bool {
        let share = self.share.load(Ordering::Relaxed);
        if share == ALL_WORK {
            return true;
        }
        let share = rank.of(share);
        let before = self.offered[rank as usize].fetch_add(share, Ordering::Relaxed);
        before / ALL_WORK != before.wrapping_add(share) / ALL_WORK
    }
}

/// How the requests of an application have waited for it in some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// The longest that one did.
    pub(crate) longest: Duration,
    /// How many were taken.
    pub(crate) taken: u64,
    /// More wait than before, or some found no room.
    pub(crate) have_grown: bool,
}

/// How the requests of one application have waited for it since that was asked last; `None` once it is no more. It is
/// given the wait from which on they are refused, if they are.
type Application = Box<dyn Fn(Option<Duration>) -> Option<Waits> + Send>;

/// The levels of an engine. Without a sampler they stay [`Level::Ok`].
pub struct Pressure {
    parts: [Standing; Part::ALL.len()],
    applications: Mutex<Vec<Application>>,
    is_followed: AtomicBool,
    /// How late an application may be, in microseconds.
    limit: AtomicU64,
    /// An application's work was shed lately: the next overload is met by its first requests.
    is_wary: AtomicBool,
    /// Requests to one that were refused since the last reading.
    refused: AtomicU32,
    /// That were not told.
    changes: Mutex<Vec<Change>>,
}

impl fmt::Debug for Pressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pressure").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl Default for Pressure {
    fn default() -> Self {
        Self {
            parts: Part::ALL.map(|_| Standing::new()),
            applications: Mutex::default(),
            is_followed: AtomicBool::new(false),
            limit: AtomicU64::new(u64::MAX),
            is_wary: AtomicBool::new(false),
            refused: AtomicU32::new(0),
            changes: Mutex::default(),
        }
    }
}

impl Pressure {
    /// Whether nothing is to be begun that no client waits for.
    pub(crate) fn is_pressed(&self) -> bool {
        self.parts[Part::Engine as usize].level() != Level::Ok
    }

    /// Lets work in that the engine does, or refuses it.
    ///
    /// # Errors
    /// `OVERLOADED`.
    pub(crate) fn admit(&self, rank: Rank) -> Result<()> {
        if self.parts[Part::Engine as usize].admits(rank) {
            return Ok(());
        }
        Err(self.refusal(Part::Engine))
    }

    /// Lets a request to an application in, or refuses it. `wait`: for how long it would wait there.
    ///
    /// No share is refused, but each request that would wait for too long: the queue is as short as it may be
    /// without being empty. A share is known only once what was admitted before has been served, and what waits too long
    /// is served in vain.
    ///
    /// # Errors
    /// `OVERLOADED`.
    pub(crate) fn admit_to_application(&self, rank: Rank, wait: impl FnOnce() -> Duration) -> Result<()> {
        self.admit(rank)?;
        if self.hold(rank).is_none_or(|hold| wait() < hold) {
            return Ok(());
        }
        // Relaxed, here and in the sampler: a request more or less does not matter.
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(self.refusal(Part::Application))
    }

    /// Whether requests to an application are refused that would wait for too long, before it is certain that it is overloaded.
    fn be_wary(&self, is_wary: bool) {
        self.is_wary.store(is_wary, Ordering::Relaxed);
    }

    /// How many were refused since the last call, for how long they would wait.
    fn take_refused(&self) -> u32 {
        self.refused.swap(0, Ordering::Relaxed)
    }

    /// What the client of a request is told that is refused because of `part`.
    pub(crate) fn refusal(&self, part: Part) -> Error {
        Code::Overloaded.error(self.why(part))
    }

    /// How long a request of `rank` may wait for the application, if it may not for any time.
    fn hold(&self, rank: Rank) -> Option<Duration> {
        let limit = self.limit();
        if self.parts[Part::Application as usize].level() == Level::Shedding {
            let is_proven = matches!(rank, Rank::ProvenFill | Rank::ProvenRequest);
            return Some(if is_proven { limit / 4 } else { limit / 8 });
        }
        self.is_wary.load(Ordering::Relaxed).then_some(limit / 5 * 2)
    }

    /// The state of `part`.
    pub fn state(&self, part: Part) -> PartState {
        let standing = &self.parts[part as usize];
        let share = standing.share.load(Ordering::Relaxed);
        PartState { level: standing.level(), admitted: f64::from(share) / f64::from(ALL_WORK) }
    }

    /// What is to be said of the state of `part`.
    pub(crate) fn why(&self, part: Part) -> String {
        let PartState { level, admitted } = self.state(part);
        let cause = *lock(&self.parts[part as usize].cause);
        let cause = cause.filter(|_| level != Level::Ok);
        let cause = cause.map_or_else(String::new, |cause| format!(" because {cause}"));
        if let Some(hold) = self.hold(Rank::ProvenRequest).filter(|_| part == Part::Application) {
            let hold = hold.as_secs_f64();
            let lately = if level == Level::Shedding { "" } else { ", and was overloaded lately" };
            return format!(
                "the application is {}{cause}{lately}; requests that would wait for {hold:.3} s are refused",
                level.name()
            );
        }
        format!(
            "the {} is {}{cause}; {:.0} % of new requests are admitted",
            part.name(),
            level.name(),
            admitted * 100.0
        )
    }

    /// An application may be late by `limit`. Whether this is the first call: one sampler is enough.
    pub(crate) fn begin(&self, limit: Duration) -> bool {
        self.limit.store(u64::try_from(limit.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        !self.is_followed.swap(true, Ordering::Relaxed)
    }

    /// How late an application may be.
    fn limit(&self) -> Duration {
        Duration::from_micros(self.limit.load(Ordering::Relaxed))
    }

    /// Asks `application` from now on.
    pub(crate) fn watch(&self, application: impl Fn(Option<Duration>) -> Option<Waits> + Send + 'static) {
        lock(&self.applications).push(Box::new(application));
    }

    /// The changes since the last call.
    pub(crate) fn take_changes(&self) -> Vec<Change> {
        std::mem::take(&mut *lock(&self.changes))
    }

    /// How the requests of all applications have waited. While work is shed what has waited for too long is refused.
    fn application(&self) -> Waits {
        let is_shed = self.parts[Part::Application as usize].level() == Level::Shedding;
        let refused = is_shed.then(|| self.limit());
        let mut all = Waits::default();
        lock(&self.applications).retain(|application| match application(refused) {
            Some(Waits { longest, taken, have_grown }) => {
                all.longest = all.longest.max(longest);
                all.taken += taken;
                all.have_grown |= have_grown;
                true
            }
            None => false,
        });
        all
    }

    /// Takes over what `machine` says of `part`, after a reading because of `cause`.
    fn follow(&self, part: Part, machine: &Machine, cause: Option<Cause>) {
        let (standing, level) = (&self.parts[part as usize], machine.level());
        if cause.is_some() {
            *lock(&standing.cause) = cause;
        }
        standing.share.store(machine.share(), Ordering::Relaxed);
        if standing.level() != level {
            standing.level.store(level as u8, Ordering::Relaxed);
            lock(&self.changes).push(Change { part, to: level, cause });
        }
    }
}
