//! A limit on waiting that is set anew for every read, without touching the runtime's timer for every read.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Expires when a wait takes longer than its limit. The timer stays where it was set and is moved only when it
/// fires too early: once per limit and not once per read.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    due: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Watch {
    /// From now on; `None` for ever.
    pub(crate) fn start(&mut self, limit: Option<Duration>) {
        self.due = limit.map(|limit| Instant::now() + limit);
    }

    /// Whether there is something to expire.
    pub(crate) fn is_running(&self) -> bool {
        self.due.is_some()
    }

    /// Ready when the limit has passed since the last [`Watch::start`].
    pub(crate) fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(due) = self.due else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if due < timer.deadline() {
            timer.as_mut().reset(due);
        }
        while timer.as_mut().poll(context).is_ready() {
            if timer.deadline() >= due {
                return Poll::Ready(());
            }
            timer.as_mut().reset(due);
        }
        Poll::Pending
    }
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
}
