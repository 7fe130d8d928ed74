//! Reads how an engine is doing, twenty times a second.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::machine::{Machine, Reading};
use super::stalls::Stalls;
use super::{Cause, Level, Part, Pressure, Waits};
use crate::pool::{Pool, PoolState};
use crate::runtime::Threads;

/// The time between two readings: three of them have to be over the limit, and pressure is to be known after 200 ms.
const PAUSE: Duration = Duration::from_millis(50);

/// The share of time in which all tasks wait for memory that is too much. Arbitrary: a machine that swaps has more.
const STALLED: f64 = 0.1;

/// Readings after which work is shed because a thread of the engine is late: none ever waits.
const SOON: u32 = 3;
/// The same for the application: a second in all. A handler may block its loop for half of one now and then, and what waits for it
/// then is better served late than refused.
const LATER: u32 = 17;
/// For so long after work was shed no patience is needed, and requests that would wait for too long are refused at once.
const RECENT: Duration = Duration::from_secs(30);
/// Readings in a row after which it is certain that more comes than an application takes.
const GROWN: u32 = 3;
/// An application that is asked for more than this part of what it takes besides is overloaded: a quarter. Where less is refused
/// it was a few that came together.
const REFUSED: u64 = 4;
/// Memory comes back by itself once stalled clients are cut (`stall_grace`), and the kernel's figure is of the last second.
const MEMORY: u32 = 40;

/// For how many readings a wait counts. The next turn of a busy loop begins with requests that have not waited yet.
const KEPT: u32 = 2;

/// Reads until the engine is gone.
struct Sampler {
    pool: Pool,
    /// How late a thread, or the application, may be.
    limit: Duration,
    begun: Instant,
    stalls: Stalls,
    machines: [Machine; Part::ALL.len()],
    lateness: Lateness,
}

/// How late the application is.
#[derive(Debug, Default)]
struct Lateness {
    /// The latest that it was, and for how many readings more that counts.
    latest: (Duration, u32),
    /// For how many readings in a row more requests have come to it than it took.
    grown: u32,
    /// When its work was last shed.
    shed: Option<Duration>,
}

/// A reading, and what it is of.
struct Seen {
    load: f64,
    patience: u32,
    cause: Cause,
}

impl Pressure {
    /// Reads how the engine with `threads` and `pool` is doing, until it is gone. An engine thread, or the application, that is
    /// late by `limit` is overloaded.
    pub async fn follow_engine(self: Arc<Self>, threads: Weak<Threads>, pool: Pool, limit: Duration) {
        let mut sampler = Sampler {
            pool,
            limit,
            begun: Instant::now(),
            stalls: Stalls::new(),
            machines: Part::ALL.map(|part| Machine::new(part == Part::Engine)),
            lateness: Lateness::default(),
        };
        loop {
            sleep(PAUSE).await;
            let Some(lateness) = threads.upgrade().map(|threads| threads.lateness()) else { return };
            sampler.look(&self, lateness);
        }
    }
}

impl Lateness {
    /// How late the application is at `now`, and for how many readings it may be so after the first three.
    fn read(&mut self, waits: Waits, now: Duration) -> (Duration, u32) {
        let (latest, kept) = self.latest;
        self.latest =
            if waits.longest >= latest || kept == 0 { (waits.longest, KEPT) } else { (latest, kept - 1) };
        // Where none was taken a handler blocks the application.
        let is_growing = waits.taken > 0 && waits.have_grown;
        self.grown = if is_growing { self.grown.saturating_add(1) } else { 0 };
        let is_certain = self.grown >= GROWN || self.was_shed_lately(now);
        (self.latest.0, if is_certain { SOON } else { LATER })
    }

    fn was_shed_lately(&self, now: Duration) -> bool {
        self.shed.is_some_and(|shed| now.saturating_sub(shed) < RECENT)
    }
}

impl Sampler {
    fn look(&mut self, pressure: &Pressure, threads: Duration) {
        let now = self.begun.elapsed();
        let engine = self.engine(now, threads);
        self.follow(pressure, Part::Engine, now, &engine);
        let waits = pressure.application();
        let (late, patience) = self.lateness.read(waits, now);
        let load = late.as_secs_f64() / self.limit.as_secs_f64();
        // Where requests are refused for how long they would wait, none waits for long, and what is too much is seen by them.
        let is_more = u64::from(pressure.take_refused()) * REFUSED > waits.taken;
        let load = if is_more { load.max(1.0) } else { load };
        self.follow(
            pressure,
            Part::Application,
            now,
            &Seen { load, patience, cause: Cause::Application(late) },
        );
        if self.machines[Part::Application as usize].level() == Level::Shedding {
            self.lateness.shed = Some(now);
        }
        pressure.be_wary(self.lateness.was_shed_lately(now));
    }

    /// The worst of what is read of the engine.
    fn engine(&mut self, now: Duration, threads: Duration) -> Seen {
        let stalled = self.stalls.share(now);
        let thread = Seen {
            load: threads.as_secs_f64() / self.limit.as_secs_f64(),
            patience: SOON,
            cause: Cause::Thread(threads),
        };
        let memory = Seen { load: stalled / STALLED, patience: MEMORY, cause: Cause::Memory(stalled) };
        // The pool has a hysteresis of its own.
        let load = if self.pool.state() == PoolState::Full { 1.0 } else { 0.0 };
        let pool = Seen { load, patience: MEMORY, cause: Cause::Pool };
        [memory, pool]
            .into_iter()
            .fold(thread, |worst, seen| if seen.load > worst.load { seen } else { worst })
    }

    fn follow(&mut self, pressure: &Pressure, part: Part, now: Duration, seen: &Seen) {
        let machine = &mut self.machines[part as usize];
        machine.read(Reading { at: now, load: seen.load, patience: seen.patience });
        pressure.follow(part, machine, Some(seen.cause).filter(|_| seen.load >= 1.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const CALM: Waits = Waits { longest: Duration::ZERO, taken: 1, have_grown: false };
    const GROWING: Waits = Waits { longest: SECOND, taken: 1, have_grown: true };

    #[test]
    fn an_application_that_was_overloaded_lately_is_given_less_time() {
        let patience = |now, shed| Lateness { shed, ..Lateness::default() }.read(CALM, now).1;
        assert_eq!(patience(SECOND, None), LATER);
        assert_eq!(patience(100 * SECOND, Some(71 * SECOND)), SOON);
        assert_eq!(patience(100 * SECOND, Some(70 * SECOND)), LATER);
    }

    #[test]
    fn an_application_that_takes_requests_and_is_asked_for_more_is_given_less_time() {
        let mut lateness = Lateness::default();
        let blocked = Waits { taken: 0, ..GROWING };
        let mut read = |waits| lateness.read(waits, SECOND).1;
        assert_eq!([GROWING, GROWING, blocked, GROWING, GROWING].map(&mut read), [LATER; 5], "not in a row");
        assert_eq!([GROWING, GROWING, blocked].map(&mut read), [SOON, SOON, LATER]);
    }

    #[test]
    fn a_wait_counts_for_two_readings_more() {
        let mut lateness = Lateness::default();
        let late = [GROWING, CALM, CALM, CALM].map(|waits| lateness.read(waits, SECOND).0);
        assert_eq!(late, [SECOND, SECOND, SECOND, Duration::ZERO]);
    }
}
