//! A limit on waiting that is set anew for every read, without touching the runtime's timer for every read.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::clock;

/// Expires when a wait takes longer than its limit. The timer stays where it was set and is moved only when it
/// fires too early: once per limit and not once per read.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    due: Option<Instant>,
    timer: Option<Timer>,
}

#[derive(Debug)]
struct Timer {
    sleep: Pin<Box<Sleep>>,
    /// When it fires; a look at `sleep` would cost more than all else here.
    fires: Instant,
    /// Whom it wakes then.
    task: Waker,
}

impl Watch {
    /// One that runs already.
    pub(crate) fn started(limit: Option<Duration>) -> Self {
        let mut watch = Self::default();
        watch.start(limit);
        watch
    }

    /// From now on; `None` for ever.
    pub(crate) fn start(&mut self, limit: Option<Duration>) {
        self.due = limit.map(|limit| clock::now() + limit);
    }

    /// As [`Watch::start`] at `now`, which is now, for a task that is about to wait: ready if there is no time to wait.
    ///
    /// A timer that is still to fire, and fires within the limit, is not asked: it wakes the task in any case.
    pub(crate) fn poll_start(
        &mut self,
        context: &mut Context<'_>,
        now: Instant,
        limit: Option<Duration>,
    ) -> Poll<()> {
        self.due = limit.map(|limit| now + limit);
        match (self.due, &self.timer) {
            (Some(due), Some(timer)) if timer.serves(context, now, due) => Poll::Pending,
            _ => self.poll_expired(context),
        }
    }

    /// Drops a timer that has fired. One that is armed stays for the next limit: to make and to arm another takes longer
    /// than all else here, for each request on a connection.
    pub(crate) fn drop_fired(&mut self) {
        self.due = None;
        self.timer.take_if(|timer| timer.sleep.is_elapsed());
    }

    /// Whether there is something to expire.
    pub(crate) fn is_running(&self) -> bool {
        self.due.is_some()
    }

    /// Ready when the limit has passed since the last [`Watch::start`].
    pub(crate) fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(due) = self.due else { return Poll::Pending };
        let task = context.waker();
        let timer = self.timer.get_or_insert_with(|| Timer {
            sleep: Box::pin(sleep_until(due)),
            fires: due,
            task: task.clone(),
        });
        timer.task.clone_from(task);
        if due < timer.fires {
            timer.set(due);
        }
        // Without the runtime's budget of operations: a timer that it holds up would not know its task.
        while Pin::new(&mut unconstrained(timer.sleep.as_mut())).poll(context).is_ready() {
            if timer.fires >= due {
                return Poll::Ready(());
            }
            timer.set(due);
        }
        Poll::Pending
    }
}

impl Timer {
    fn set(&mut self, at: Instant) {
        self.sleep.as_mut().reset(at);
        self.fires = at;
    }

    /// Whether it wakes the task of `context` between `now` and `due`.
    fn serves(&self, context: &Context<'_>, now: Instant, due: Instant) -> bool {
        now < self.fires && self.fires <= due && self.task.will_wake(context.waker())
    }
}

/// From three quarters of `time` to all of it, at random, so that what begins together does not go on together: nothing takes
/// longer than was asked for. None of it is secret.
pub(crate) fn shortened(time: Duration) -> Duration {
    time.mul_f64(1.0 - chance() / 4.0)
}

/// From 0 to 1, at random.
pub(crate) fn chance() -> f64 {
    #[cfg(test)]
    if let Some(chance) = super::simulated::chance() {
        return chance;
    }
    // The one way to chance in std: hashers are keyed at random, each anew.
    #[expect(clippy::cast_possible_truncation, reason = "a part of what is random is as random")]
    let random = RandomState::new().build_hasher().finish() as u32;
    f64::from(random) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    async fn expired(watch: &mut Watch) -> bool {
        poll_fn(|context| Poll::Ready(watch.poll_expired(context).is_ready())).await
    }

    #[tokio::test(start_paused = true)]
    async fn each_start_counts_from_now() {
        let mut watch = Watch::default();
        for _ in 0..3 {
            watch.start(Some(LIMIT));
            assert!(!expired(&mut watch).await);
            tokio::time::advance(LIMIT / 2 + LIMIT / 4).await;
            assert!(!expired(&mut watch).await, "a limit ran on from an earlier wait");
        }
        tokio::time::advance(LIMIT / 2).await;
        assert!(expired(&mut watch).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_its_own_limit_although_the_timer_of_an_earlier_one_stands() {
        let mut watch = Watch::default();
        for _ in 0..3 {
            let start = poll_fn(|context| {
                Poll::Ready(watch.poll_start(context, Instant::now(), Some(LIMIT)).is_pending())
            });
            assert!(start.await);
            tokio::time::advance(LIMIT / 2).await;
        }
        let _ = poll_fn(|context| Poll::Ready(watch.poll_start(context, Instant::now(), Some(LIMIT)))).await;
        let started = Instant::now();
        poll_fn(|context| watch.poll_expired(context)).await;
        assert_eq!(started.elapsed(), LIMIT);
        let at_once = poll_fn(|context| watch.poll_start(context, Instant::now(), Some(Duration::ZERO)));
        at_once.await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_that_another_task_set_is_not_relied_on() {
        let mut watch = Watch::default();
        let noop = &mut Context::from_waker(Waker::noop());
        assert!(watch.poll_start(noop, Instant::now(), Some(LIMIT)).is_pending());
        let mut begun = false;
        poll_fn(|context| {
            if std::mem::replace(&mut begun, true) {
                Poll::Ready(())
            } else {
                watch.poll_start(context, Instant::now(), Some(LIMIT * 2))
            }
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_that_does_not_ask_the_timer_is_woken_by_it() {
        let mut watch = Watch::default();
        let before = Instant::now();
        poll_fn(|context| Poll::Ready(watch.poll_start(context, before, Some(LIMIT)).is_pending())).await;
        tokio::time::advance(LIMIT / 2).await;
        let mut begun = false;
        poll_fn(|context| {
            if std::mem::replace(&mut begun, true) {
                Poll::Ready(())
            } else {
                watch.poll_start(context, Instant::now(), Some(LIMIT))
            }
        })
        .await;
        assert_eq!(before.elapsed(), LIMIT, "the timer of the first wait");
    }

    #[tokio::test(start_paused = true)]
    async fn a_shorter_limit_moves_the_timer_forward() {
        let mut watch = Watch::default();
        watch.start(Some(LIMIT * 100));
        assert!(!expired(&mut watch).await);
        watch.start(Some(LIMIT));
        let started = Instant::now();
        poll_fn(|context| watch.poll_expired(context)).await;
        assert_eq!(started.elapsed(), LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn no_limit_never_expires() {
        let mut watch = Watch::default();
        watch.start(Some(LIMIT));
        assert!(!expired(&mut watch).await);
        watch.start(None);
        tokio::time::advance(LIMIT * 2).await;
        assert!(!expired(&mut watch).await);
    }

    #[test]
    fn times_are_spread_over_their_last_quarter() {
        let time = Duration::from_secs(1000);
        let times: Vec<_> = (0..1000).map(|_| shortened(time)).collect();
        assert!(times.iter().all(|shorter| (time * 3 / 4..=time).contains(shorter)));
        let early = times.iter().filter(|shorter| **shorter < time * 7 / 8).count();
        assert!((300..700).contains(&early), "{early} of 1000 in the first half");
    }
}
