//! A response that may go on for hours: what is told of it while it does, an interval at a time.
//!
//! A span is told when it has ended, and that of a stream would be told tomorrow. So the span of its request ends with the head,
//! and each interval after it has a span of its own: a part of that one, linked to the interval before.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::context::{SpanContext, State};
use crate::id::SpanId;
use crate::span::{Attribute, Kind, Span, Value};
use crate::trace::{Clocks, Trace};

/// Latencies are counted by powers of two of a microsecond: the last is above half an hour.
const BUCKETS: usize = 32;
/// Bytes of an event's id that are told. Arbitrary.
const MOST_ID: usize = 128;

/// A stream that is followed.
#[derive(Debug)]
pub struct Following {
    context: SpanContext,
    state: State,
    came: Instant,
    clocks: Clocks,
    name: Box<str>,
    /// The time up to its first event.
    first: OnceLock<Duration>,
    bytes: AtomicU64,
    events: AtomicU64,
    latencies: [AtomicU32; BUCKETS],
    interval: Mutex<Interval>,
}

/// The interval that goes on.
#[derive(Debug)]
struct Interval {
    number: u64,
    began: Instant,
    /// What there was before.
    bytes: u64,
    events: u64,
    before: SpanContext,
    /// The id of the last event.
    id: String,
    /// It was the last.
    is_over: bool,
}

impl Following {
    /// Follows the response to the request of `trace`, whose span is called `name`.
    pub fn new(trace: &Trace, name: &str) -> Self {
        let interval = Interval {
            number: 0,
            began: Instant::now(),
            bytes: 0,
            events: 0,
            before: trace.context,
            id: String::new(),
            is_over: false,
        };
        Self {
            context: trace.context,
            state: trace.state.clone(),
            came: trace.began,
            clocks: Clocks::now(),
            name: format!("{name} stream").into(),
            first: OnceLock::new(),
            bytes: AtomicU64::new(0),
            events: AtomicU64::new(0),
            latencies: [const { AtomicU32::new(0) }; BUCKETS],
            interval: Mutex::new(interval),
        }
    }

    fn interval(&self) -> MutexGuard<'_, Interval> {
        // What is behind the lock is whole between any two statements.
        self.interval.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many bytes of it are sent, which end so many events.
    pub fn sent(&self, bytes: usize, events: u64) {
        // Relaxed, here and below: counts, which order nothing.
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if events > 0 {
            self.events.fetch_add(events, Ordering::Relaxed);
            self.first.get_or_init(|| self.came.elapsed());
        }
    }

    /// The id of the last event that was sent.
    pub fn note_id(&self, id: &str) {
        let end = (0..=id.len().min(MOST_ID)).rev().find(|end| id.is_char_boundary(*end)).unwrap_or(0);
        let mut interval = self.interval();
        interval.id.clear();
        interval.id.push_str(&id[..end]);
    }

    /// The kernel has what was read so long ago.
    pub fn delivered(&self, after: Duration) {
        let micros = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
        let place = (u64::BITS - micros.leading_zeros()) as usize;
        self.latencies[place.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the interval if it has gone on for `length`, or the stream has ended, and calls `write` with its span. `end` says
    /// how it has ended.
    pub(crate) fn turn(&self, length: Duration, end: Option<&str>, write: impl FnOnce(&Span<'_>)) {
        let mut interval = self.interval();
        let now = Instant::now();
        let is_due = end.is_some() || now.saturating_duration_since(interval.began) >= length;
        if !is_due || interval.is_over {
            return;
        }
        interval.is_over = end.is_some();
        let (bytes, events) = (self.bytes.load(Ordering::Relaxed), self.events.load(Ordering::Relaxed));
        let context = SpanContext { span: SpanId::random(), ..self.context };
        let stream = self.context.span.to_string();
        let latencies = self.take_latencies();
        let mut attributes: Vec<Attribute<'_>> = vec![
            ("penstock.stream_id", Value::Text(&stream)),
            ("penstock.interval", Value::count(interval.number)),
            ("penstock.bytes", Value::count(bytes - interval.bytes)),
            ("penstock.events", Value::count(events - interval.events)),
        ];
        if !interval.id.is_empty() {
            attributes.push(("penstock.partition_offset", Value::Text(&interval.id)));
        }
        if let Some([half, most]) = latencies {
            attributes.push(("penstock.processing_latency_ms.p50", Value::millis(half)));
            attributes.push(("penstock.processing_latency_ms.p99", Value::millis(most)));
        }
        if let Some(first) = self.first.get() {
            attributes.push(("penstock.first_event_ms", Value::millis(*first)));
        }
        attributes.extend(end.map(|end| ("penstock.end", Value::Text(end))));
        write(&Span {
            context,
            parent: Some(self.context.span),
            is_remote: false,
            state: &self.state,
            name: &self.name,
            kind: Kind::Internal,
            began: self.clocks.at(interval.began),
            ended: self.clocks.at(now),
            attributes: &attributes,
            is_failure: end.is_some_and(|end| end != "whole" && end != "client"),
            link: Some(interval.before),
        });
        drop(attributes);
        interval.number += 1;
        interval.began = now;
        (interval.bytes, interval.events, interval.before) = (bytes, events, context);
    }

    /// The upper bounds of the median and the 99th percentile of the interval.
    fn take_latencies(&self) -> Option<[Duration; 2]> {
        let counts = self.latencies.each_ref().map(|count| u64::from(count.swap(0, Ordering::Relaxed)));
        let all: u64 = counts.iter().sum();
        if all == 0 {
            return None;
        }
        Some([50, 99].map(|percent| {
            let wanted = (all * percent).div_ceil(100);
            let mut sum = 0;
            let place = counts.iter().position(|count| {
                sum += count;
                sum >= wanted
            });
            Duration::from_micros(1 << place.unwrap_or(BUCKETS - 1))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Sampling;
    use crate::tracer::Tracer;

    fn followed() -> (Tracer, Following) {
        let tracer =
            Tracer::new(Sampling { ratio: 1.0, failures: false, slowest: 0 }, 1 << 20, Duration::ZERO);
        let following = Following::new(&tracer.begin(None, false, Instant::now()), "GET /a");
        (tracer, following)
    }

    /// What a span says under a name.
    fn said(span: &Span<'_>, wanted: &str) -> Option<String> {
        let (_, value) = span.attributes.iter().find(|(name, _)| *name == wanted)?;
        Some(match value {
            Value::Text(text) => (*text).to_owned(),
            Value::Number(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Flag(flag) => flag.to_string(),
        })
    }

    #[test]
    fn an_interval_tells_what_has_come_in_it() {
        let (_, following) = followed();
        following.sent(100, 2);
        following.note_id("7-1");
        following.turn(Duration::MAX, None, |_| panic!("it goes on"));
        let mut first = None;
        following.turn(Duration::ZERO, None, |span| {
            assert_eq!(span.name, "GET /a stream");
            assert_eq!((span.parent, span.link), (Some(following.context.span), Some(following.context)));
            let [bytes, events, id] =
                ["bytes", "events", "partition_offset"].map(|name| said(span, &format!("penstock.{name}")));
            assert_eq!(
                (bytes.unwrap(), events.unwrap(), id.unwrap()),
                ("100".into(), "2".into(), "7-1".into())
            );
            assert!(said(span, "penstock.first_event_ms").is_some() && !span.is_failure);
            first = Some(span.context);
        });
        following.sent(1, 0);
        following.turn(Duration::MAX, Some("ORIGIN_RESET"), |span| {
            assert_eq!((span.link, span.is_failure), (first, true));
            assert_eq!(said(span, "penstock.bytes").unwrap(), "1");
            assert_eq!(said(span, "penstock.interval").unwrap(), "1");
            assert_eq!(said(span, "penstock.end").unwrap(), "ORIGIN_RESET");
        });
        following.turn(Duration::ZERO, None, |_| panic!("it is over"));
    }

    #[test]
    fn latencies_are_told_to_a_power_of_two() {
        let (_, following) = followed();
        assert_eq!(following.take_latencies(), None);
        for _ in 0..98 {
            following.delivered(Duration::from_micros(100));
        }
        following.delivered(Duration::from_millis(3));
        following.delivered(Duration::MAX);
        let found = following.take_latencies().unwrap();
        assert_eq!(found, [Duration::from_micros(128), Duration::from_micros(4096)]);
        assert_eq!(following.take_latencies(), None, "an interval has its own");
    }

    #[test]
    fn a_long_id_is_cut() {
        let (_, following) = followed();
        following.note_id(&"é".repeat(100));
        assert_eq!(following.interval().id.len(), 128);
    }
}
