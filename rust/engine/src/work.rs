//! What the time of an engine thread goes to, for a profile.
//!
//! While a profile runs, the clock is read wherever a thread turns from one kind of work to another, and the time between two
//! readings counts for the kind before: each moment counts once, for the innermost work. Without a profile a turn is one look
//! at a count. The time is that of the wall: also a thread that has to wait for a core is at work.

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
    /// The scheduler: waiting tasks, timers, and asking the kernel what has happened; and tasks that have no kind.
    Scheduler,
    /// A client's connection: heads, routes, gates, limits, and the response on its way out.
    Client,
    /// Requests to origins and their responses.
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
    /// The kernel's reads and writes of sockets.
    Sockets,
    /// Lines of the access log.
    Log,
}

impl Work {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::Scheduler,
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
            Self::Scheduler => "scheduler",
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
    work: Cell<Work>,
    /// The last reading; `None` while there is no profile, and while the thread sleeps.
    since: Cell<Option<Instant>>,
}

thread_local! {
    static CLOCK: OnceCell<Clock> = const { OnceCell::new() };
}

impl Clock {
    /// Counts the time so far, and returns the work that it was for.
    fn turn_to(&self, work: Work) -> Work {
        let now = Instant::now();
        let before = self.work.replace(work);
        if let Some(since) = self.since.replace(Some(now)) {
            self.spent.add(before, now.saturating_duration_since(since));
        }
        before
    }
}

/// From now on the calling thread counts what it spends in `spent`.
pub(crate) fn count_in(spent: Arc<Spent>) {
    let own = std::fs::read_link("/proc/thread-self").ok();
    if let Some(number) = own.as_ref().and_then(|path| path.file_name()?.to_str()) {
        let _ = spent.number.set(number.to_owned());
    }
    let clock = Clock { spent, work: Cell::new(Work::Scheduler), since: Cell::new(None) };
    // A thread counts in one place.
    let _ = CLOCK.with(|slot| slot.set(clock));
}

/// The calling thread is about to sleep.
pub(crate) fn sleep() {
    with_clock(|clock| {
        if clock.since.get().is_some() {
            clock.turn_to(Work::Scheduler);
            clock.since.set(None);
        }
    });
}

/// The calling thread has slept.
pub(crate) fn wake() {
    if is_profiled() {
        with_clock(|clock| clock.since.set(Some(Instant::now())));
    }
}

fn with_clock<T>(work: impl FnOnce(&Clock) -> T) -> Option<T> {
    CLOCK.with(|slot| slot.get().map(work))
}

/// The calling thread does `work`, until this is dropped; then it goes on with the work before.
#[derive(Debug)]
#[must_use]
pub(crate) struct Doing(Option<Work>);

/// Counts the time from now on for `work`.
#[inline]
pub(crate) fn doing(work: Work) -> Doing {
    Doing(if is_profiled() { turn(work) } else { None })
}

/// Out of line, because profiles are rare.
#[cold]
fn turn(work: Work) -> Option<Work> {
    with_clock(|clock| clock.turn_to(work))
}

impl Drop for Doing {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            turn(before);
        }
    }
}

/// The calling thread takes memory in the name of a holder, until this is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct Holding(u8);

/// Takes memory in the name of `holder` from now on.
pub(crate) fn holding(holder: u8) -> Holding {
    Holding(holder::replace(holder))
}

impl Drop for Holding {
    fn drop(&mut self) {
        holder::replace(self.0);
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
        let _holding = holding(*this.holder);
        this.future.poll(context)
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
            wake();
            work();
            sleep();
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
    fn sleep_counts_for_nothing() {
        let times = spent(|| {
            sleep();
            std::thread::sleep(4 * PAUSE);
            wake();
        });
        assert!(times.iter().sum::<Duration>() < 4 * PAUSE, "{times:?}");
    }

    #[test]
    fn a_task_takes_memory_in_the_name_it_began_with() {
        let outer = holding(7);
        let future = worked(Work::Cache, std::future::poll_fn(|_| Poll::Ready(holder::current())));
        drop(outer);
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
