//! Log lines about origins that fail: one for each cause, and not for each request.
//!
//! Any thread notes a failure; the writer of the log takes the lines that are ready, and is woken for them. For each origin
//! and code there is a line at once, and then one in each interval, with the number of failures that it stands for. The
//! invariant: an origin that fails every request of a flood costs its log no more than one that fails a few.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use crate::error::{Code, Error};
use crate::sync::{Mutex, lock};
use crate::wire::without_tokens;

/// The limit of causes with lines of their own, and of lines that wait. Arbitrary: the number of origins has a
/// bound of its own.
const MOST: usize = 1024;

/// A line of the log.
#[derive(Debug, Clone)]
pub struct Notice {
    /// `scheme://authority`.
    pub origin: Arc<str>,
    /// The address of the connection, if there was one.
    pub address: Option<SocketAddr>,
    /// The event.
    pub event: Event,
    /// The reason, in a sentence.
    pub reason: String,
    /// The number of further failures of this kind since the line before.
    pub left_out: u64,
}

/// The events of an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A request failed, or the origin broke the protocol.
    Failed(Code),
    /// Checks have found it down: it gets no more requests.
    Down,
    /// Checks have found it up again.
    Up,
}

impl Event {
    /// The word for logs: the name of the code, `ORIGIN_DOWN` or `ORIGIN_UP`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Failed(code) => code.name(),
            Self::Down => "ORIGIN_DOWN",
            Self::Up => "ORIGIN_UP",
        }
    }
}

/// The notices of all engine threads.
#[derive(Debug)]
pub struct Notices {
    pause: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    causes: HashMap<(Arc<str>, Code), Cause>,
    ready: VecDeque<Notice>,
    listener: Option<Waker>,
}

/// A cause that has had a line.
#[derive(Debug)]
struct Cause {
    /// It is the first.
    until: Instant,
    /// The latest failure without a line, which stands for all such failures.
    latest: Option<Notice>,
}

impl State {
    fn push(&mut self, mut notice: Notice) -> Option<Waker> {
        // No writer takes them: the first are as useful as the last.
        if self.ready.len() >= MOST {
            return None;
        }
        // A reason may quote the origin, and the origin may have repeated the request's target.
        notice.reason = without_tokens(&notice.reason).into_owned();
        self.ready.push_back(notice);
        self.listener.clone().filter(|_| self.ready.len() == 1)
    }
}

impl Notices {
    /// No notices yet. `pause` is the time between two lines of one cause.
    pub fn new(pause: Duration) -> Self {
        Self { pause, state: Mutex::default() }
    }

    /// Sets the waker of the task that writes the log; it is woken at once if a line is ready.
    pub fn listen(&self, waker: &Waker) {
        let mut state = lock(&self.state);
        state.listener = Some(waker.clone());
        let is_due = !state.ready.is_empty();
        drop(state);
        if is_due {
            waker.wake_by_ref();
        }
    }

    /// Takes the line that has waited for longest.
    pub fn take(&self) -> Option<Notice> {
        lock(&self.state).ready.pop_front()
    }

    /// Notes that a request to `origin` has failed with `error`, or that the origin broke the
    /// protocol.
    pub fn failed(self: &Arc<Self>, origin: &Arc<str>, address: Option<SocketAddr>, error: &Error) {
        let notice = Notice {
            origin: Arc::clone(origin),
            address,
            event: Event::Failed(error.code()),
            reason: error.detail().to_owned(),
            left_out: 0,
        };
        let now = Instant::now();
        let key = (Arc::clone(origin), error.code());
        let mut state = lock(&self.state);
        let waker = match state.causes.get_mut(&key) {
            Some(Cause { until, latest: Some(latest) }) if *until > now => {
                *latest = Notice { left_out: latest.left_out + 1, ..notice };
                None
            }
            Some(Cause { until, latest }) if *until > now => {
                *latest = Some(notice);
                let until = *until;
                drop(state);
                self.write_at(until, key);
                return;
            }
            Some(cause) => {
                // Failures without a line get one now, if the timer has not fired yet.
                let left_out = cause.latest.take().map_or(0, |latest| latest.left_out + 1);
                cause.until = now + self.pause;
                state.push(Notice { left_out, ..notice })
            }
            None => {
                if state.causes.len() >= MOST {
                    state.causes.retain(|_, cause| cause.until > now || cause.latest.is_some());
                }
                if state.causes.len() >= MOST {
                    return;
                }
                state.causes.insert(key, Cause { until: now + self.pause, latest: None });
                state.push(notice)
            }
        };
        drop(state);
        wake(waker);
    }

    /// Notes that checks have found `origin` up or down, after the opposite.
    pub(super) fn checked(&self, origin: Arc<str>, is_up: bool, reason: String) {
        let event = if is_up { Event::Up } else { Event::Down };
        let notice = Notice { origin, address: None, event, reason, left_out: 0 };
        let waker = lock(&self.state).push(notice);
        wake(waker);
    }

    /// Has the latest failure of a cause written after its pause.
    fn write_at(self: &Arc<Self>, until: Instant, key: (Arc<str>, Code)) {
        // Failures are noted on engine threads. On any other thread, the next failure writes the
        // line.
        let Ok(runtime) = Handle::try_current() else { return };
        let this = Arc::downgrade(self);
        runtime.spawn(async move {
            sleep_until(until).await;
            if let Some(this) = this.upgrade() {
                this.write(&key);
            }
        });
    }

    fn write(&self, key: &(Arc<str>, Code)) {
        let mut state = lock(&self.state);
        let latest = state.causes.get_mut(key).and_then(|cause| {
            let latest = cause.latest.take()?;
            cause.until = Instant::now() + self.pause;
            Some(latest)
        });
        let waker = latest.and_then(|latest| state.push(latest));
        drop(state);
        wake(waker);
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(10);

    fn told(notices: &Notices) -> Vec<(String, &'static str, String, u64)> {
        std::iter::from_fn(|| notices.take())
            .map(|notice| (notice.origin.to_string(), notice.event.name(), notice.reason, notice.left_out))
            .collect()
    }

    fn line(origin: &str, code: Code, reason: &str, left_out: u64) -> (String, &'static str, String, u64) {
        (origin.to_owned(), code.name(), reason.to_owned(), left_out)
    }

    #[tokio::test(start_paused = true)]
    async fn a_cause_has_a_line_at_once_and_then_one_in_each_pause_that_counts_the_others() {
        let notices = Arc::new(Notices::new(PAUSE));
        let (a, b): (Arc<str>, Arc<str>) = ("http://a".into(), "http://b".into());
        let refused = |detail: &'static str| Code::ConnectFailed.error(detail);
        notices.failed(&a, None, &refused("first"));
        notices.failed(&b, None, &refused("other"));
        notices.failed(&a, None, &Code::BadHead.error("another"));
        for _ in 0..1000 {
            notices.failed(&a, None, &refused("again"));
        }
        assert_eq!(
            told(&notices),
            [
                line("http://a", Code::ConnectFailed, "first", 0),
                line("http://b", Code::ConnectFailed, "other", 0),
                line("http://a", Code::BadHead, "another", 0),
            ]
        );
        tokio::time::sleep(PAUSE + Duration::from_millis(1)).await;
        assert_eq!(told(&notices), [line("http://a", Code::ConnectFailed, "again", 999)]);
        // The pause begins again with that line.
        notices.failed(&a, None, &refused("late"));
        assert_eq!(told(&notices), []);
        tokio::time::sleep(PAUSE * 3).await;
        assert_eq!(told(&notices), [line("http://a", Code::ConnectFailed, "late", 0)]);
        tokio::time::sleep(PAUSE * 3).await;
        notices.failed(&a, None, &refused("much later"));
        assert_eq!(told(&notices), [line("http://a", Code::ConnectFailed, "much later", 0)]);
    }

    #[tokio::test(start_paused = true)]
    async fn no_line_shows_a_token_whatever_its_reason_quotes() {
        crate::wire::hide("of_a_notice");
        let notices = Arc::new(Notices::new(PAUSE));
        let origin: Arc<str> = "http://a".into();
        for _ in 0..2 {
            notices.failed(&origin, None, &Code::BadHead.error("it began with \"/a?of_a_notice=abc HTTP\""));
        }
        tokio::time::sleep(PAUSE + Duration::from_millis(1)).await;
        notices.checked(Arc::clone(&origin), false, "/up?of_a_notice=abc answered 500".to_owned());
        let reasons: Vec<_> = told(&notices).into_iter().map(|line| line.2).collect();
        let quoted = "it began with \"/a?of_a_notice=*** HTTP\"";
        assert_eq!(reasons, [quoted, quoted, "/up?of_a_notice=*** answered 500"]);
    }

    #[tokio::test]
    async fn without_a_pause_each_has_its_line_and_nobody_who_writes_them_bounds_them() {
        let notices = Arc::new(Notices::new(Duration::ZERO));
        for number in 0..2 * MOST {
            notices.failed(&format!("http://{number}").into(), None, &Code::OriginClosed.error("closed"));
        }
        assert_eq!(told(&notices).len(), MOST);
        assert!(lock(&notices.state).causes.len() <= MOST);
    }
}
