//! What the time of the engine's threads and the memory of its pool go to, over some seconds that an operator asks for.

use std::cmp::Reverse;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::Parts;
use super::json::{Json, float, size};
use crate::edge::Lane;
use crate::error::{Code, Result};
use crate::holder::Holding;
use crate::runtime::ThreadSpent;
use crate::work::{Profiling, Work};

/// The shortest and the longest profile, in seconds. Arbitrary: a client waits for its end.
const LEAST: f64 = 0.1;
const MOST: f64 = 300.0;

/// How long a profile takes that does not say.
const USUAL: Duration = Duration::from_secs(10);

/// How long the reports of threads are waited for. Arbitrary.
const REPORTS: Duration = Duration::from_millis(200);

/// Makes profiles, one at a time: threads read the clock more often meanwhile.
#[derive(Debug, Default)]
pub(super) struct Profiler {
    is_busy: AtomicBool,
}

/// A profile that is being made, until it is dropped.
struct Turn<'a>(&'a Profiler);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Relaxed, here and below: nothing is ordered by it.
        self.0.is_busy.store(false, Ordering::Relaxed);
    }
}

impl Profiler {
    /// A profile, as JSON, of the seconds that the query of `target` says.
    ///
    /// # Errors
    /// `BAD_REQUEST`; `TOO_MANY_REQUESTS` if another is being made.
    ///
    /// # Cancellation
    /// The profile ends.
    pub(super) async fn profile(&self, parts: &Parts, target: &str) -> Result<String> {
        let length = length(target)?;
        if self.is_busy.swap(true, Ordering::Relaxed) {
            return Err(
                Code::TooManyRequests.error("another profile is being made; ask again when it is over")
            );
        }
        let _turn = Turn(self);
        let profiling = Profiling::begin();
        let (before, begun) = (Reading::of(parts).await, Instant::now());
        sleep(length).await;
        let (after, took) = (Reading::of(parts).await, begun.elapsed());
        drop(profiling);
        Ok(written(parts, &before, &after, took))
    }
}

/// The length of a profile: `?seconds=`.
fn length(target: &str) -> Result<Duration> {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let mut length = USUAL;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let seconds = pair.strip_prefix("seconds=").and_then(|text| text.parse::<f64>().ok());
        let seconds = seconds.filter(|seconds| (LEAST..=MOST).contains(seconds));
        let told = || format!("a profile takes ?seconds={LEAST} to {MOST}, and nothing else");
        length = Duration::from_secs_f64(seconds.ok_or_else(|| Code::BadRequest.error(told()))?);
    }
    Ok(length)
}

/// What the kernel says of a thread.
struct Scheduled {
    number: String,
    name: String,
    /// On a core.
    ran: Duration,
    /// Ready to run, without a core.
    waited: Duration,
}

/// The counts at a moment.
struct Reading<'a> {
    engine: Vec<ThreadSpent<'a>>,
    threads: Vec<Scheduled>,
    holdings: Vec<Holding>,
}

impl<'a> Reading<'a> {
    async fn of(parts: &'a Parts) -> Self {
        // A thread that hangs is taken as it was.
        let _ = timeout(REPORTS, parts.threads.report()).await;
        Self {
            engine: parts.threads.spent().collect(),
            threads: scheduled(),
            holdings: parts.pool.holdings(),
        }
    }
}

/// All threads of the process, as far as the kernel tells (Documentation/scheduler/sched-stats.rst).
fn scheduled() -> Vec<Scheduled> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    tasks
        .filter_map(|task| {
            let path = task.ok()?.path();
            let stat = fs::read_to_string(path.join("schedstat")).ok()?;
            let mut times = stat.split_whitespace().map(|word| word.parse().map(Duration::from_nanos));
            let (ran, waited) = (times.next()?.ok()?, times.next()?.ok()?);
            let name = fs::read_to_string(path.join("comm")).ok()?.trim_end().to_owned();
            Some(Scheduled { number: path.file_name()?.to_str()?.to_owned(), name, ran, waited })
        })
        .collect()
}

fn written(parts: &Parts, before: &Reading, after: &Reading, took: Duration) -> String {
    let mut out = Json::default();
    out.open('{');
    out.name("version").text(parts.version);
    out.name("pid").number(Some(f64::from(std::process::id())));
    out.name("seconds").seconds(took);
    write_threads(&mut out, before, after);
    write_holdings(&mut out, parts, before, after);
    out.close('}');
    out.finish() + "\n"
}

/// The threads, the busiest first. Times are in seconds.
fn write_threads(out: &mut Json, before: &Reading, after: &Reading) {
    let mut rows: Vec<_> = (after.threads.iter())
        .map(|thread| {
            let old = before.threads.iter().find(|old| old.number == thread.number);
            let zero = Duration::ZERO;
            let ran = thread.ran.saturating_sub(old.map_or(zero, |old| old.ran));
            let waited = thread.waited.saturating_sub(old.map_or(zero, |old| old.waited));
            (thread, ran, waited)
        })
        .collect();
    rows.sort_by_key(|(_, ran, _)| Reverse(*ran));
    out.name("threads").open('[');
    for (thread, ran, waited) in rows {
        let is_same = |engine: &&ThreadSpent<'_>| engine.number == Some(&thread.number);
        let engine = after.engine.iter().find(is_same);
        out.open('{');
        // The kernel keeps 15 bytes of a name.
        out.name("name").text(engine.map_or(&*thread.name, |engine| engine.name));
        out.name("ran").seconds(ran);
        out.name("waited").seconds(waited);
        if let Some(engine) = engine {
            let old = before.engine.iter().find(is_same);
            let mut rest = engine.busy.saturating_sub(old.map_or(Duration::ZERO, |old| old.busy));
            out.name("work").open('{');
            for work in Work::ALL {
                let spent = engine.times[work as usize];
                let spent = spent.saturating_sub(old.map_or(Duration::ZERO, |old| old.times[work as usize]));
                rest = rest.saturating_sub(spent);
                out.name(work.name()).seconds(spent);
            }
            out.name("scheduler").seconds(rest);
            out.close('}');
        }
        out.close('}');
    }
    out.close(']');
}

/// What the requests of a route have of the pool. Without a route it is what all the rest has.
struct Holder {
    route: Option<(Lane, Box<str>)>,
    now: Holding,
    taken: u64,
    taken_bytes: u64,
}

/// Who has taken and who holds memory of the pool, the largest first.
fn write_holdings(out: &mut Json, parts: &Parts, before: &Reading, after: &Reading) {
    let routes =
        parts.ledger.holders().into_iter().map(|(lane, route, number)| (Some((lane, route)), number));
    let mut holders: Vec<_> = std::iter::once((None, 0))
        .chain(routes)
        .map(|(route, number)| {
            let (old, now) = (before.holdings[usize::from(number)], after.holdings[usize::from(number)]);
            let (taken, taken_bytes) = (now.taken - old.taken, now.taken_bytes - old.taken_bytes);
            Holder { route, now, taken, taken_bytes }
        })
        .filter(|holder| holder.now.slabs > 0 || holder.taken > 0)
        .collect();
    holders.sort_by_key(|holder| Reverse((holder.now.bytes, holder.taken_bytes)));
    out.name("memory").open('[');
    for Holder { route, now, taken, taken_bytes } in holders {
        out.open('{');
        out.name("lane").text_or_null(route.as_ref().map(|(lane, _)| lane.name()));
        out.name("route").text_or_null(route.as_ref().map(|(_, route)| &**route));
        out.numbers(&[
            ("slabs", Some(size(now.slabs))),
            ("bytes", Some(size(now.bytes))),
            ("taken", Some(float(taken))),
            ("taken_bytes", Some(float(taken_bytes))),
        ]);
        out.close('}');
    }
    out.close(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_a_number_of_seconds_within_its_limits() {
        assert_eq!(length("/profile").unwrap(), USUAL);
        assert_eq!(length("/profile?").unwrap(), USUAL);
        assert_eq!(length("/profile?seconds=0.5").unwrap(), Duration::from_millis(500));
        for bad in [
            "seconds=",
            "seconds=0",
            "seconds=301",
            "seconds=nan",
            "seconds=inf",
            "seconds=-1",
            "s=1",
            "seconds=1&x",
        ] {
            assert_eq!(length(&format!("/profile?{bad}")).unwrap_err().code(), Code::BadRequest, "{bad}");
        }
    }

    #[test]
    fn the_kernel_tells_of_this_thread() {
        let own = fs::read_link("/proc/thread-self").unwrap();
        let number = own.file_name().unwrap().to_str().unwrap();
        assert!(scheduled().iter().any(|thread| thread.number == number));
    }
}
