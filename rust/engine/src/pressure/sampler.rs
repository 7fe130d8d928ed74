//! Reads how an engine is doing, twenty times a second.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::machine::{Machine, Reading};
use super::stalls::Stalls;
use super::{Cause, Level, Part, Pressure};
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
/// For so long after work was shed it is certain that it was no handler that blocked its loop, and no more patience is needed.
const RECENT: Duration = Duration::from_secs(30);
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
    /// The latest that the application was, and for how many readings more it counts.
    late: (Duration, u32),
    /// When the application's work was last shed.
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
            late: (Duration::ZERO, 0),
            shed: None,
        };
        loop {
            sleep(PAUSE).await;
            let Some(lateness) = threads.upgrade().map(|threads| threads.lateness()) else { return };
            sampler.look(&self, lateness);
        }
    }
}

/// For how many readings the application may be late after the first three, where its work was last shed at `shed`.
fn patience(now: Duration, shed: Option<Duration>) -> u32 {
    if shed.is_some_and(|shed| now.saturating_sub(shed) < RECENT) { SOON } else { LATER }
}

impl Sampler {
    fn look(&mut self, pressure: &Pressure, threads: Duration) {
        let now = self.begun.elapsed();
        let engine = self.engine(now, threads);
        self.follow(pressure, Part::Engine, now, &engine);
        let late = pressure.application();
        if late >= self.late.0 || self.late.1 == 0 {
            self.late = (late, KEPT);
        } else {
            self.late.1 -= 1;
        }
        let late = self.late.0;
        if self.machines[Part::Application as usize].level() == Level::Shedding {
            self.shed = Some(now);
        }
        let application = Seen {
            load: late.as_secs_f64() / self.limit.as_secs_f64(),
            patience: patience(now, self.shed),
            cause: Cause::Application(late),
        };
        self.follow(pressure, Part::Application, now, &application);
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

    #[test]
    fn an_application_that_was_overloaded_lately_is_given_less_time() {
        let second = Duration::from_secs(1);
        assert_eq!(patience(second, None), LATER);
        assert_eq!(patience(100 * second, Some(71 * second)), SOON);
        assert_eq!(patience(100 * second, Some(70 * second)), LATER);
    }
}
