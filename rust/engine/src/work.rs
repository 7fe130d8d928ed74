//! What the time of an engine thread goes to, for a profile.
//!
//! While a profile runs, the clock is read wherever a thread turns from one kind of work to another, and the time between two
//! readings counts for the kind before: each moment counts once, for the innermost work. What is outside of all of them, the
//! thread does not count: it may be asleep. Without a profile a turn is one look at a count. The time is that of the wall: also
//! a thread that has to wait for a core is at work.

use std::cell::{Cell, OnceCell};
use std::pin::Pin;
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize as Plain;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;

use crate::holder;
use crate::sync::{Arc, AtomicU64, Ordering};

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A client's connection: heads, routes, gates, limits, and bodies on their way to it.
    Client,
    /// Connections to origins, requests, and heads of responses; and bodies that go elsewhere than to a client.
    Origin,
    /// The cache, in memory and on disk.
    Cache,
    /// Topics and their subscribers.
    Hub,
    /// What goes to the application and comes from it, worker processes included.
    Application,
    /// Looking into bodies.
    Inspection,
    /// Frames, fields and flow control of HTTP/2.
    Http2,
    /// Encryption, and the handshakes with origins.
    Tls,
    /// The kernel's reads and writes of sockets, and the row of subscribers that is written to at once.
    Sockets,
    /// Lines of the access log, and spans of traces.
    Log,
}

impl Work {
    /// Every kind.
    pub const ALL: [Self; 10] = [
        Self::Client,
        Self::Origin,
        Self::Cache,
        Self::Hub,
        Self::Application,
        Self::Inspection,
        Self::Http2,
        Self::Tls,
        Self::Sockets,
        Self::Log,
    ];

    /// The word for it in a profile.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Origin => "origin",
            Self::Cache => "cache",
            Self::Hub => "hub",
            Self::Application => "application",
            Self::Inspection => "inspection",
            Self::Http2 => "http2",
            Self::Tls => "tls",
            Self::Sockets => "sockets",
            Self::Log => "log",
        }
    }
}

/// How many profiles run in this process.
static PROFILES: Plain = Plain::new(0);

/// A profile, until it is dropped.
#[derive(Debug)]
pub struct Profiling(());

impl Profiling {
    /// Threads read the clock from now on.
    pub fn begin() -> Self {
        // Relaxed, as all of it: a thread that sees it late counts less.
        PROFILES.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Profiling {
    fn drop(&mut self) {
        PROFILES.fetch_sub(1, Ordering::Relaxed);
    }
}

fn is_profiled() -> bool {
    PROFILES.load(Ordering::Relaxed) > 0
}

/// What a thread has spent on each kind of work. One thread writes it.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    /// In nanoseconds.
    sums: [AtomicU64; Work::ALL.len()],
    /// The thread's number in `/proc`.
    number: OnceLock<String>,
}

impl Spent {
    fn add(&self, work: Work, time: Duration) {
        let sum = &self.sums[work as usize];
        let more = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        sum.store(sum.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// In the order of [`Work::ALL`].
    pub(crate) fn times(&self) -> [Duration; Work::ALL.len()] {
        self.sums.each_ref().map(|sum| Duration::from_nanos(sum.load(Ordering::Relaxed)))
    }

    /// The thread's number in `/proc`, once it has begun.
    pub(crate) fn number(&self) -> Option<&str> {
        self.number.get().map(String::as_str)
    }
}

/// The clock of an engine thread.
#[derive(Debug)]
struct Clock {
    spent: Arc<Spent>,
    /// What the thread does since the last reading; `None` outside of all work, and while there is no profile.
    doing: Cell<Option<(Work, Instant)>>,
}

thread_local! {
    static CLOCK: OnceCell<Clock> = const { OnceCell::new() };
}

impl Clock {
    /// Counts the time so far, and returns the work that it was for.
    fn turn_to(&self, work: Option<Work>) -> Option<Work> {
        let now = Instant::now();
        let (before, since) = self.doing.replace(work.map(|work| (work, now)))?;
        self.spent.add(before, now.saturating_duration_since(since));
        Some(before)
    }
}

/// From now on the calling thread counts what it spends in `spent`.
pub(crate) fn count_in(spent: Arc<Spent>) {
    let own = std::fs::read_link("/proc/thread-self").ok();
    if let Some(number) = own.as_ref().and_then(|path| path.file_name()?.to_str()) {
        let _ = spent.number.set(number.to_owned());
    }
    let clock = Clock { spent, doing: Cell::new(None) };
    // A thread counts in one place.
    let _ = CLOCK.with(|slot| slot.set(clock));
}

/// The calling thread does some work, until this is dropped; then it goes on with the work before.
#[derive(Debug)]
#[must_use]
pub(crate) struct Doing {
    before: Before,
}

/// What a thread goes on with.
#[derive(Debug, Clone, Copy)]
enum Before {
    /// There was no profile, and nothing is counted.
    Uncounted,
    Nothing,
    Work(Work),
}

/// Counts the time from now on for `work`.
#[inline]
pub(crate) fn doing(work: Work) -> Doing {
    let turned = || turn_to(Some(work)).map_or(Before::Nothing, Before::Work);
    Doing { before: if is_profiled() { turned() } else { Before::Uncounted } }
}

/// Out of line, because profiles are rare.
#[cold]
fn turn_to(work: Option<Work>) -> Option<Work> {
    CLOCK.with(|slot| slot.get()?.turn_to(work))
}

impl Drop for Doing {
    #[inline]
    fn drop(&mut self) {
        match self.before {
            Before::Uncounted => {}
            Before::Nothing => drop(turn_to(None)),
            Before::Work(work) => drop(turn_to(Some(work))),
        }
    }
}

pin_project! {
    /// A future whose polls are one kind of work, and take memory in one name.
    #[derive(Debug)]
    pub struct Worked<F> {
        work: Work,
        holder: u8,
        #[pin]
        future: F,
    }
}

/// `future` as `work`, with memory in the name of the calling thread's holder: also in a task of its own.
pub fn worked<F>(work: Work, future: F) -> Worked<F> {
    Worked { work, holder: holder::current(), future }
}

impl<F: Future> Future for Worked<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _doing = doing(*this.work);
        holder::within(*this.holder, || this.future.poll(context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(5);

    /// What a thread spends that does `work` while a profile runs.
    fn spent(work: impl FnOnce() + Send + 'static) -> [Duration; Work::ALL.len()] {
        let spent = Arc::new(Spent::default());
        let counted = Arc::clone(&spent);
        let _profiling = Profiling::begin();
        let thread = std::thread::spawn(move || {
            count_in(counted);
            work();
        });
        thread.join().unwrap();
        spent.times()
    }

    #[test]
    fn each_moment_counts_once_for_the_innermost_work() {
        let begun = Instant::now();
        let times = spent(|| {
            let _client = doing(Work::Client);
            std::thread::sleep(PAUSE);
            {
                let _tls = doing(Work::Tls);
                std::thread::sleep(2 * PAUSE);
            }
            std::thread::sleep(PAUSE);
        });
        let all = begun.elapsed();
        assert!(times[Work::Client as usize] >= 2 * PAUSE, "{times:?}");
        assert!(times[Work::Tls as usize] >= 2 * PAUSE, "{times:?}");
        assert!(times.iter().sum::<Duration>() <= all, "{times:?}");
        assert!(times[Work::Origin as usize].is_zero());
    }

    #[test]
    fn what_is_outside_of_all_work_counts_for_nothing() {
        let times = spent(|| {
            drop(doing(Work::Client));
            std::thread::sleep(4 * PAUSE);
            drop(doing(Work::Client));
        });
        assert!(times.iter().sum::<Duration>() < 4 * PAUSE, "{times:?}");
    }

    #[test]
    fn a_task_takes_memory_in_the_name_it_began_with() {
        let current = || std::future::poll_fn(|_| Poll::Ready(holder::current()));
        let future = holder::within(7, || worked(Work::Cache, current()));
        assert_eq!(holder::current(), 0);
        let mut future = std::pin::pin!(future);
        assert_eq!(future.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())), Poll::Ready(7));
        assert_eq!(holder::current(), 0);
    }

    #[test]
    fn every_kind_has_its_place_and_name() {
        for (place, work) in Work::ALL.into_iter().enumerate() {
            assert_eq!(work as usize, place);
            assert_eq!(Work::ALL.iter().filter(|other| other.name() == work.name()).count(), 1);
        }
    }
}
