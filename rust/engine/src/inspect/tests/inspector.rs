//! What is counted and timed, and when.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use super::*;
use crate::counters::{BOUNDS, Histogram};
use crate::pool::CopyReason;

const EVENTS: &str = "text/event-stream; charset=utf-8";

#[test]
fn events_are_what_a_browser_dispatches_and_tokens_some_of_them() {
    let now = Instant::now();
    let cases: &[(&[u8], u64, bool)] = &[
        (b"data: x\n\n", 1, true),
        (b"data:\n\n", 1, true),
        (b"data\r\n\r\n", 1, true),
        (b"data: x\r\n\r\n", 1, true),
        (b"data: x\r\r", 1, true),
        (b"data: a\ndata: b\n\n", 1, true),
        (b"data: a\nevent: ping\n\n", 1, false),
        (b"id: 1\ndata: x\n\n", 1, true),
        (b"event: message\ndata: x\n\n", 1, true),
        (b"event: content_block_delta\ndata: x\n\n", 1, true),
        (b"event: response.output_text.delta\ndata: x\n\n", 1, true),
        (b"event: message_delta\ndata: x\n\n", 1, false),
        (b"event: message_start\ndata: x\n\n", 1, false),
        (b"data: [DONE]\n\n", 1, false),
        (b"data:[DONE]\r\n\r\n", 1, false),
        (b"id: 9\ndata: [DONE]\n\n", 1, false),
        (b": ping\n", 0, false),
        (b":\n\n", 0, false),
        (b"\n", 0, false),
        (b"event: x\n\n", 0, false),
        (b"\xEF\xBB\xBF", 0, false),
        (b"data: broken off\n", 0, false),
        (b"data: broken off", 0, false),
    ];
    for (block, events, is_token) in cases {
        let (inspector, counts) = begun(rules(paths()), EVENTS, now);
        inspector.note(block, now);
        let report = inspector.end(now);
        let text = String::from_utf8_lossy(block);
        assert_eq!((report.events, report.bytes), (*events, block.len() as u64), "{text:?}");
        assert_eq!(report.first.is_some(), *is_token, "{text:?}");
        assert_eq!((counts.sums().events, counts.sums().bytes), (*events, block.len() as u64), "{text:?}");
    }
}

#[test]
fn times_run_from_the_request_and_from_token_to_token() {
    let start = Instant::now();
    let at = |milliseconds| start + Duration::from_millis(milliseconds);
    let (inspector, counts) = begun(rules(paths()), EVENTS, start);
    inspector.note(b": ping\n", at(10));
    inspector.note(b"event: message_start\ndata: x\n\n", at(20));
    inspector.note(b"data: a\n\n", at(200));
    inspector.note(b"data: b\n\n", at(230));
    inspector.note(b": ping\n", at(500));
    inspector.note(b"data: c\n\n", at(1230));
    inspector.note(b"data: [DONE]\n\n", at(3000));
    let report = inspector.end(at(3100));
    assert_eq!(report.first, Some(Duration::from_millis(200)));
    assert_eq!(report.longest_gap, Some(Duration::from_secs(1)));
    assert_eq!(report.total, Duration::from_millis(3100));
    let sums = counts.sums();
    let taken = |histogram: &Histogram| -> Vec<(Option<Duration>, u64)> {
        let bounds = BOUNDS.iter().copied().map(Some).chain([None]);
        bounds.zip(histogram.counts).filter(|(_, count)| *count > 0).collect()
    };
    assert_eq!(taken(&sums.first), [(Some(Duration::from_millis(200)), 1)], "a bound is within its bucket");
    assert_eq!(taken(&sums.gaps), [(Some(Duration::from_millis(30)), 1), (Some(Duration::from_secs(1)), 1)]);
    assert_eq!(sums.gaps.sum, Duration::from_millis(1030));
    assert_eq!(taken(&sums.totals), [(Some(Duration::from_secs(5)), 1)]);
    assert_eq!((sums.streams, sums.responses, sums.events), (1, 0, 5));
}

#[test]
fn what_takes_longer_than_all_bounds_is_counted_too() {
    let start = Instant::now();
    let (inspector, counts) = begun(rules(paths()), EVENTS, start);
    inspector.end(start + Duration::from_secs(3600));
    assert_eq!(counts.sums().totals.counts.last(), Some(&1));
    assert!(BOUNDS.is_sorted());
}

#[test]
fn a_response_ends_once() {
    let start = Instant::now();
    let (inspector, counts) = begun(rules(paths()), EVENTS, start);
    inspector.note(b"data: {\"usage\":{\"a\":1}}\n\n", start);
    let other = inspector.clone();
    let report = inspector.end(start + Duration::from_secs(1));
    other.note(b"data: {\"usage\":{\"a\":2}}\n\n", start);
    assert_eq!(other.end(start + Duration::from_secs(2)), report);
    let sums = counts.sums();
    assert_eq!((sums.streams, sums.events, sums.with_usage), (1, 1, 1));
}

#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn whoever_waits_for_the_end_is_woken_once() {
    let now = Instant::now();
    let (inspector, _) = begun(rules(paths()), EVENTS, now);
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    assert!(!inspector.is_over(&waker));
    inspector.note(b"data: x\n\n", now);
    assert_eq!(bell.0.load(Ordering::Relaxed), 0);
    inspector.end(now);
    inspector.end(now);
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    assert!(inspector.is_over(&waker));
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
}

#[test]
fn what_is_coded_is_passed_over_and_counted() {
    let now = Instant::now();
    let (inspector, counts) = begun(rules(paths()), EVENTS, now);
    assert_eq!(inspector.begin(Some(b"text/event-stream"), Some(b"gzip")), Content::Other);
    inspector.note(b"data: {\"usage\":{\"a\":1}}\n\n", now);
    let report = inspector.end(now);
    assert_eq!((report.content, report.hidden), (Content::Events, Some(Hidden::Encoded)));
    assert_eq!((report.usage, report.events, report.bytes), (None, 0, 25));
    assert_eq!(counts.sums().hidden, 1);
    let (inspector, _) = begun(rules(paths()), EVENTS, now);
    assert_eq!(inspector.begin(Some(b"Application/JSON"), Some(b"Identity")), Content::Json);
}

#[test]
fn kinds_of_content_are_told_by_their_media_type() {
    let now = Instant::now();
    for (kind, content) in [
        ("text/event-stream", Content::Events),
        ("Text/Event-Stream ; charset=utf-8", Content::Events),
        ("application/json; charset=utf-8", Content::Json),
        ("application/problem+JSON", Content::Json),
        ("text/event-streams", Content::Other),
        ("application/jsonl", Content::Other),
        ("+json", Content::Other),
        ("video/mp4", Content::Other),
        ("", Content::Other),
    ] {
        let (inspector, _) = begun(rules(paths()), "", now);
        assert_eq!(inspector.begin(Some(kind.as_bytes()), None), content, "{kind}");
        assert_eq!(inspector.begin(None, None), Content::Other);
    }
}

#[test]
fn json_that_is_no_stream_is_kept_up_to_a_limit() {
    let now = Instant::now();
    let body = format!("{{\"x\":\"{}\",\"usage\":{{\"a\":1}}}}", "x".repeat(4096 - 28));
    assert_eq!(body.len(), 4096 - 4);
    for (padding, usage, hidden) in [(4, true, None), (5, false, Some(Hidden::TooLarge))] {
        let (inspector, counts) = begun(rules(paths()), "application/json", now);
        inspector.note(body.as_bytes(), now);
        for _ in 0..padding {
            inspector.note(b" ", now);
        }
        let report = inspector.end(now);
        assert_eq!((report.usage.is_some(), report.hidden), (usage, hidden), "{padding}");
        assert_eq!((report.events, report.first), (0, None));
        let copied = POOL.with(|pool| pool.stats().bytes_copied[CopyReason::Inspection as usize]);
        assert!(copied >= body.len(), "what is kept is counted");
        let sums = counts.sums();
        assert_eq!((sums.streams, sums.responses, sums.with_usage), (0, 1, u64::from(usage)));
    }
}

#[test]
fn counts_of_many_threads_are_one_sum() {
    let counts = Arc::new(Counts::default());
    let (rules, now) = (rules(paths()), Instant::now());
    std::thread::scope(|scope| {
        for thread in 0..20 {
            let (rules, counts) = (Arc::clone(&rules), Arc::clone(&counts));
            scope.spawn(move || {
                let inspector = POOL.with(|pool| Inspector::new(rules, counts, pool, thread, false, now));
                inspector.begin(Some(b"text/event-stream"), None);
                for _ in 0..100 {
                    inspector.note(b"data: x\n\n", now);
                }
                inspector.end(now);
            });
        }
    });
    let sums = counts.sums();
    assert_eq!((sums.streams, sums.events, sums.bytes), (20, 2000, 18_000));
    assert_eq!(sums.gaps.counts.iter().sum::<u64>(), 20 * 99);
}
