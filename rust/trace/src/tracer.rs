//! What the traces of one process share: the rule by which they are kept, and the spans that were.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::buffer::{Batch, Buffer};
use crate::context::{Parent, SpanContext, State};
use crate::following::Following;
use crate::id::{SpanId, TraceId};
use crate::otlp::write_span;
use crate::sampling::Sampling;
use crate::span::{Attribute, Kind, Span};
use crate::trace::{Clocks, Trace};

/// Makes traces, and keeps some.
#[derive(Debug)]
pub struct Tracer {
    sampling: Sampling,
    threshold: u64,
    buffer: Buffer,
    slow: Mutex<Vec<Slow>>,
    /// The duration in nanoseconds from which on a request is one of the slowest.
    floor: AtomicU64,
    spans: AtomicU64,
    /// The streams that are followed.
    live: Mutex<Vec<Weak<Following>>>,
    interval: Duration,
}

/// A request that is kept if no slower ones come.
#[derive(Debug)]
struct Slow {
    took: Duration,
    batch: Batch,
}

/// What a tracer has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Spans that were kept.
    pub kept: u64,
    /// Spans that were lost.
    pub dropped: u64,
}

/// Why a request is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Its trace is.
    Sampled,
    /// It has failed.
    Failed,
    /// It may be one of the slowest.
    Slow,
}

/// What is told of a request at its end.
#[derive(Debug, Clone, Copy)]
pub struct Answered<'a> {
    /// The method and the route.
    pub name: &'a str,
    /// What is known of it.
    pub attributes: &'a [Attribute<'a>],
    /// The server is at fault.
    pub is_failure: bool,
    /// How long it took.
    pub took: Duration,
}

impl Tracer {
    /// One that keeps what `sampling` says, and holds at most so many bytes of spans. Streams are told of once an `interval`.
    pub fn new(sampling: Sampling, most_bytes: usize, interval: Duration) -> Self {
        Self {
            sampling,
            threshold: sampling.threshold(),
            buffer: Buffer::new(most_bytes),
            slow: Mutex::default(),
            floor: AtomicU64::new(0),
            spans: AtomicU64::new(0),
            live: Mutex::default(),
            interval,
        }
    }

    /// The trace of a request that came at `began` and says that `parent` is its caller. If that is not trusted, the trace is a new
    /// one with a link to it: a client would else choose what is kept.
    pub fn begin(&self, parent: Option<Parent>, is_trusted: bool, began: Instant) -> Arc<Trace> {
        let (parent, link) = match parent {
            Some(parent) if is_trusted => (Some(parent), None),
            Some(stranger) => (None, Some(stranger.context)),
            None => (None, None),
        };
        if let Some(Parent { context, state }) = parent {
            let own = SpanContext { span: SpanId::random(), ..context };
            return Trace::start(own, Some(context.span), None, state, began, true);
        }
        let trace = TraceId::random();
        let is_sampled = trace.randomness() >= self.threshold;
        let context = SpanContext { trace, span: SpanId::random(), is_sampled, is_random: true };
        Trace::start(context, None, link, State::default(), began, true)
    }

    /// Whether a request is kept that ends now.
    pub fn keeps(&self, trace: &Trace, has_failed: bool, took: Duration) -> Option<Kept> {
        if trace.context.is_sampled {
            return Some(Kept::Sampled);
        }
        if has_failed && self.sampling.failures {
            return Some(Kept::Failed);
        }
        // Relaxed: a floor that was raised a moment ago costs a look at the list.
        let floor = Duration::from_nanos(self.floor.load(Ordering::Relaxed));
        (self.sampling.slowest > 0 && took > floor).then_some(Kept::Slow)
    }

    /// Keeps a request that has ended, for the reason that [`Tracer::keeps`] has said.
    pub fn keep(&self, trace: &Trace, kept: Kept, answered: &Answered<'_>) {
        let batch = spans(trace, answered);
        if kept == Kept::Slow {
            self.keep_slow(answered.took, batch);
        } else {
            self.put(&batch);
        }
    }

    fn put(&self, batch: &Batch) {
        // Relaxed: a count.
        self.spans.fetch_add(batch.count, Ordering::Relaxed);
        self.buffer.put(&batch.spans, batch.count);
    }

    fn slow(&self) -> MutexGuard<'_, Vec<Slow>> {
        // What is behind the lock is whole between any two statements.
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_slow(&self, took: Duration, batch: Batch) {
        let mut slow = self.slow();
        if slow.len() == self.sampling.slowest {
            let Some(fastest) = slow.iter_mut().min_by_key(|other| other.took) else { return };
            if fastest.took >= took {
                return;
            }
            *fastest = Slow { took, batch };
        } else {
            slow.push(Slow { took, batch });
        }
        if slow.len() == self.sampling.slowest {
            let floor = slow.iter().map(|other| other.took).min().unwrap_or_default();
            // Relaxed, as in `keeps`.
            self.floor.store(u64::try_from(floor.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// Follows the response to the request of `trace`, whose span is called `name`, until [`Tracer::leave`].
    pub fn follow(&self, trace: &Trace, name: &str) -> Arc<Following> {
        let following = Arc::new(Following::new(trace, name));
        self.live().push(Arc::downgrade(&following));
        following
    }

    /// A response that was followed is over. `end` says how: `whole`, `client` if that has left, or the name of an error.
    pub fn leave(&self, following: &Following, end: &str) {
        following.turn(self.interval, Some(end), |span| self.write(span));
    }

    fn write(&self, span: &Span<'_>) {
        let mut batch = Batch { spans: Vec::with_capacity(512), count: 1 };
        write_span(span, &mut batch.spans);
        self.put(&batch);
    }

    fn live(&self) -> MutexGuard<'_, Vec<Weak<Following>>> {
        // As above.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is for a collector: all that was kept since the last call, and the intervals of streams that are over. Bytes of
    /// a batch count until the next call.
    pub fn take(&self) -> Batch {
        let mut live = Vec::new();
        self.live().retain(|following| {
            live.extend(following.upgrade());
            following.strong_count() > 0
        });
        for following in &live {
            following.turn(self.interval, None, |span| self.write(span));
        }
        let slow = {
            let mut slow = self.slow();
            // Relaxed, as in `keeps`.
            self.floor.store(0, Ordering::Relaxed);
            std::mem::take(&mut *slow)
        };
        for Slow { batch, .. } in &slow {
            self.put(batch);
        }
        self.buffer.take()
    }

    /// So many spans did not reach a collector.
    pub fn lose(&self, count: u64) {
        self.buffer.drop(count);
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        // Relaxed: a count.
        Counts { kept: self.spans.load(Ordering::Relaxed), dropped: self.buffer.dropped() }
    }
}

/// The spans of a request: its own, and one of each attempt.
fn spans(trace: &Trace, answered: &Answered<'_>) -> Batch {
    let mut batch = Batch { spans: Vec::with_capacity(2048), count: 1 };
    let clocks = Clocks::now();
    trace.each_attempt(|attempted| {
        attempted.write(trace, &clocks, |span| write_span(span, &mut batch.spans));
        batch.count += 1;
    });
    let span = Span {
        context: trace.context,
        parent: trace.parent,
        is_remote: trace.parent.is_some(),
        state: &trace.state,
        name: answered.name,
        kind: Kind::Server,
        began: clocks.at(trace.began),
        ended: clocks.at(Instant::now()),
        attributes: answered.attributes,
        is_failure: answered.is_failure,
        link: trace.link,
    };
    write_span(&span, &mut batch.spans);
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Sampling = Sampling { ratio: 0.0, failures: false, slowest: 0 };
    const CALLER: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn tracer(sampling: Sampling) -> Tracer {
        Tracer::new(sampling, 1 << 20, Duration::ZERO)
    }

    fn answered(took: Duration) -> Answered<'static> {
        Answered { name: "GET /", attributes: &[], is_failure: false, took }
    }

    fn caller() -> Parent {
        Parent::of([CALLER], [&b"a=1"[..]]).unwrap()
    }

    #[test]
    fn a_caller_that_is_trusted_decides() {
        let trace = tracer(NONE).begin(Some(caller()), true, Instant::now());
        assert_eq!(
            (trace.context.trace, trace.parent),
            (caller().context.trace, Some(caller().context.span))
        );
        assert_ne!(trace.context.span, caller().context.span);
        assert!(trace.context.is_sampled);
        assert_eq!(trace.state.as_str(), "a=1");
        let mut unsampled = caller();
        unsampled.context.is_sampled = false;
        let all = Sampling { ratio: 1.0, ..NONE };
        assert!(!tracer(all).begin(Some(unsampled), true, Instant::now()).context.is_sampled);
    }

    #[test]
    fn any_other_caller_is_linked_to() {
        let trace = tracer(NONE).begin(Some(caller()), false, Instant::now());
        assert_ne!(trace.context.trace, caller().context.trace);
        assert_eq!((trace.parent, trace.link), (None, Some(caller().context)));
        assert!(!trace.context.is_sampled);
        assert_eq!(trace.state.as_str(), "");
    }

    #[test]
    fn an_attempt_is_a_part_of_its_request() {
        let trace = tracer(Sampling { ratio: 1.0, ..NONE }).begin(None, false, Instant::now());
        let [first, second] = [trace.attempt(Instant::now()), trace.attempt(Instant::now())];
        assert_eq!(first.context.trace, trace.context.trace);
        assert!(first.context.is_sampled);
        assert_ne!(first.context.span, second.context.span);
        trace.end(&second, "GET".into(), "http://a:1".into(), Instant::now(), |_| ());
        trace.each_attempt(|attempted| assert_eq!(attempted.resent, 1));
    }

    #[test]
    fn failures_are_kept() {
        let tracer = tracer(Sampling { failures: true, ..NONE });
        let trace = tracer.begin(None, false, Instant::now());
        assert_eq!(tracer.keeps(&trace, false, Duration::MAX), None);
        assert_eq!(tracer.keeps(&trace, true, Duration::ZERO), Some(Kept::Failed));
        tracer.keep(&trace, Kept::Failed, &answered(Duration::ZERO));
        assert_eq!(tracer.take().count, 1);
    }

    #[test]
    fn the_slowest_of_each_batch_are_kept() {
        let tracer = tracer(Sampling { slowest: 2, ..NONE });
        for round in 0..2 {
            for took in [3, 1, 5, 4, 2].map(Duration::from_millis) {
                let trace = tracer.begin(None, false, Instant::now());
                let attempt = trace.attempt(Instant::now());
                trace.end(&attempt, "GET".into(), "http://a".into(), Instant::now(), |_| ());
                if let Some(kept) = tracer.keeps(&trace, false, took) {
                    tracer.keep(&trace, kept, &answered(took));
                }
            }
            let trace = tracer.begin(None, false, Instant::now());
            assert_eq!(
                tracer.keeps(&trace, false, Duration::from_millis(4)),
                None,
                "there are two slower ones"
            );
            assert_eq!(tracer.take().count, 4, "two requests with an attempt each");
            assert_eq!(tracer.counts(), Counts { kept: 4 * (round + 1), dropped: 0 });
        }
        assert_eq!(tracer.take().count, 0);
    }

    #[test]
    fn a_stream_is_told_of_while_it_goes_on() {
        let tracer = tracer(Sampling { ratio: 1.0, ..NONE });
        let trace = tracer.begin(None, false, Instant::now());
        let following = tracer.follow(&trace, "GET /a");
        assert_eq!([tracer.take().count, tracer.take().count], [1, 1]);
        tracer.leave(&following, "whole");
        drop(following);
        assert_eq!([tracer.take().count, tracer.take().count], [1, 0]);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let tracer = Tracer::new(Sampling { ratio: 1.0, ..NONE }, 10, Duration::ZERO);
        let trace = tracer.begin(None, false, Instant::now());
        let kept = tracer.keeps(&trace, false, Duration::ZERO).unwrap();
        tracer.keep(&trace, kept, &answered(Duration::ZERO));
        assert_eq!(tracer.counts(), Counts { kept: 1, dropped: 1 });
        assert_eq!(tracer.take().count, 0);
    }
}
