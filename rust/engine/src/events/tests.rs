//! Event bodies over scripted sources, in paused time.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, advance};

use super::{Cause, EventBody, Leave, Observer, Policy};
use crate::error::{Code, Error, Result};
use crate::net::{Payload, Source, Supply};
use crate::stream::Meter;

const PAUSE: Duration = Duration::from_secs(16);
const IDLE: Duration = Duration::from_secs(100);
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// What a source has, in order; behind that it has nothing yet.
#[derive(Debug, Clone, Default)]
struct Script(Arc<Mutex<VecDeque<Next>>>);

/// A block, a failure, or the end.
type Next = Option<Result<Vec<u8>>>;

impl Script {
    fn put(&self, block: &[u8]) {
        self.0.lock().unwrap().push_back(Some(Ok(block.to_vec())));
    }

    fn fail(&self, error: Error) {
        self.0.lock().unwrap().push_back(Some(Err(error)));
    }

    fn end(&self) {
        self.0.lock().unwrap().push_back(None);
    }
}

impl Source for Script {
    fn poll_next(&mut self, _: &mut Context<'_>, _: usize) -> Poll<Option<Result<Payload>>> {
        match self.0.lock().unwrap().pop_front() {
            Some(next) => Poll::Ready(next.map(|block| block.map(Payload::Text))),
            None => Poll::Pending,
        }
    }
}

/// What an observer has seen.
#[derive(Debug, Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observer for Seen {
    fn note(&mut self, block: &[u8], _: Instant) {
        self.0.lock().unwrap().push(String::from_utf8_lossy(block).trim().to_owned());
    }

    fn is_satisfied(&self) -> bool {
        self.0.lock().unwrap().iter().any(|block| block == "data: usage")
    }

    fn end(&mut self, cause: Cause<'_>) {
        self.0.lock().unwrap().push(format!("{cause:?}").split('(').next().unwrap().to_owned());
    }
}

fn policy() -> Policy {
    Policy {
        heartbeat: Some(PAUSE),
        idle: Some(IDLE),
        unbuffered: true,
        error_event: Some("error".to_owned()),
        leave: Leave::Cancel,
    }
}

fn body(policy: Policy) -> (Script, EventBody, Arc<Meter>) {
    let (script, meter) = (Script::default(), Arc::new(Meter::default()));
    let supply = Supply::Source(Box::new(script.clone()));
    let body = EventBody::new(supply, Some(Arc::new(policy)), Arc::clone(&meter));
    (script, body, meter)
}

/// What comes now, while `held` waits to be sent: `None` if nothing does.
async fn now(body: &mut EventBody, held: usize) -> Option<Next> {
    poll_fn(|context| {
        Poll::Ready(match body.poll_next(context, held) {
            Poll::Ready(next) => Some(next.map(|block| block.map(|block| block.to_vec()))),
            Poll::Pending => None,
        })
    })
    .await
}

async fn block(body: &mut EventBody) -> Vec<u8> {
    now(body, 0).await.expect("something comes").expect("it has not ended").expect("it has not failed")
}

async fn failure(body: &mut EventBody) -> Code {
    now(body, 0).await.expect("something comes").expect("it has not ended").expect_err("it has failed").code()
}

#[tokio::test(start_paused = true)]
async fn a_comment_wakes_whoever_waits_when_nothing_was_sent_for_so_long() {
    let (_script, mut body, meter) = body(policy());
    for _ in 0..6 {
        let before = Instant::now();
        let beat = poll_fn(|context| body.poll_next(context, 0)).await.unwrap().unwrap();
        assert_eq!(&beat[..], b":\n\n");
        let waited = before.elapsed();
        // Timers have whole milliseconds.
        assert!(PAUSE * 3 / 4 <= waited && waited <= PAUSE + Duration::from_millis(1), "{waited:?}");
        drop(beat);
    }
    assert_eq!(meter.relays().heartbeats, 6);
}

#[tokio::test(start_paused = true)]
async fn streams_that_begin_together_do_not_beat_together() {
    let mut moments = std::collections::BTreeSet::new();
    for _ in 0..16 {
        let (_script, mut body, _) = body(policy());
        let before = Instant::now();
        let _ = poll_fn(|context| body.poll_next(context, 0)).await;
        moments.insert(before.elapsed());
    }
    assert!(moments.len() > 8, "{moments:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_puts_the_comment_off() {
    let (script, mut body, _) = body(policy());
    for _ in 0..5 {
        assert!(now(&mut body, 0).await.is_none());
        advance(PAUSE / 2).await;
        script.put(b"data: x\n\n");
        assert_eq!(block(&mut body).await, b"data: x\n\n");
    }
    assert!(now(&mut body, 0).await.is_none());
    advance(PAUSE).await;
    assert_eq!(block(&mut body).await, b":\n\n");
}

#[tokio::test(start_paused = true)]
async fn there_is_no_comment_while_something_waits_to_be_sent() {
    let (_script, mut body, _) = body(policy());
    for _ in 0..5 {
        assert!(now(&mut body, 1).await.is_none());
        advance(PAUSE).await;
    }
    assert!(now(&mut body, 1).await.is_none());
    advance(PAUSE).await;
    assert_eq!(block(&mut body).await, b":\n\n", "it has been sent meanwhile");
}

#[tokio::test(start_paused = true)]
async fn comments_of_the_origin_put_ours_off_but_are_no_events() {
    let (script, mut body, meter) = body(policy());
    script.put(b"data: x\n\n");
    block(&mut body).await;
    let mut waited = Duration::ZERO;
    for comment in [&b": ping\n"[..], b"\n", b"\r\n", b":\n"].iter().cycle() {
        assert!(now(&mut body, 0).await.is_none());
        if waited + PAUSE / 2 >= IDLE {
            break;
        }
        advance(PAUSE / 2).await;
        waited += PAUSE / 2;
        script.put(comment);
        assert_eq!(&block(&mut body).await, comment);
    }
    advance(IDLE.saturating_sub(waited)).await;
    let told = String::from_utf8(block(&mut body).await).unwrap();
    assert!(told.starts_with("event: error\ndata: {") && told.contains("EVENT_TIMEOUT"), "{told}");
    assert_eq!(failure(&mut body).await, Code::EventTimeout);
    assert_eq!(failure(&mut body).await, Code::EventTimeout, "and that is all");
    assert_eq!((meter.relays().idle, meter.relays().told, meter.relays().heartbeats), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_event_without_data_is_an_event() {
    let (script, mut body, _) = body(Policy { heartbeat: None, ..policy() });
    for _ in 0..4 {
        assert!(now(&mut body, 0).await.is_none());
        advance(IDLE * 99 / 100).await;
        script.put(b"event: ping\n\n");
        block(&mut body).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_idle_limit_does_not_run_while_it_is_the_client_who_is_slow() {
    let (script, mut body, _) = body(policy());
    script.put(b"data: x\n\n");
    block(&mut body).await;
    for _ in 0..5 {
        script.fail(Code::WindowHeld.error(""));
        assert_eq!(failure(&mut body).await, Code::WindowHeld);
        advance(IDLE).await;
    }
    script.put(b"data: y\n\n");
    assert_eq!(block(&mut body).await, b"data: y\n\n");
    assert!(now(&mut body, 0).await.is_none());
    let before = Instant::now();
    while block_or_failure(&mut body).await.is_ok() {}
    assert!(before.elapsed() >= IDLE);
}

async fn block_or_failure(body: &mut EventBody) -> Result<()> {
    poll_fn(|context| body.poll_next(context, 0)).await.unwrap().map(drop)
}

#[tokio::test(start_paused = true)]
async fn the_limit_holds_while_comments_of_ours_are_sent() {
    let (_script, mut body, meter) = body(policy());
    let before = Instant::now();
    while block_or_failure(&mut body).await.is_ok() {}
    let waited = before.elapsed();
    assert!(IDLE <= waited && waited <= IDLE + Duration::from_millis(1), "{waited:?}");
    assert!(meter.relays().heartbeats >= 6);
}

#[tokio::test(start_paused = true)]
async fn without_limits_nothing_is_waited_for() {
    let (_script, mut body, _) = body(Policy { heartbeat: None, idle: None, ..policy() });
    assert!(now(&mut body, 0).await.is_none());
    advance(IDLE * 100).await;
    assert!(now(&mut body, 0).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_byte_order_mark_is_sent_first_or_not_at_all() {
    let (script, mut first, _) = body(policy());
    script.put(MARK);
    assert_eq!(block(&mut first).await, MARK);
    let (script, mut late, _) = body(policy());
    poll_fn(|context| late.poll_next(context, 0)).await.unwrap().unwrap();
    script.put(MARK);
    script.put(b"data: x\n\n");
    script.put(MARK);
    assert_eq!(block(&mut late).await, b"data: x\n\n", "behind our comment it would be a part of a name");
    assert_eq!(block(&mut late).await, MARK, "that one is content");
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_once_and_then_repeats() {
    let (script, mut body, _) = body(policy());
    script.put(b"data: x\n\n");
    script.fail(Code::BodyTruncated.error("at http://10.0.0.1"));
    block(&mut body).await;
    let told = block(&mut body).await;
    assert!(told.starts_with(b"event: error\ndata: ") && !told.windows(4).any(|part| part == b"10.0"));
    for _ in 0..3 {
        assert_eq!(failure(&mut body).await, Code::BodyTruncated);
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_error_event_a_failure_is_only_one() {
    let (script, mut body, meter) = body(Policy { error_event: None, ..policy() });
    script.fail(Code::OriginReset.error(""));
    assert_eq!(failure(&mut body).await, Code::OriginReset);
    assert_eq!(meter.relays().told, 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_left_is_sent_nothing_of_ours() {
    let (script, mut body, meter) = body(policy());
    assert!(now(&mut body, 0).await.is_none());
    body.client_left();
    advance(PAUSE).await;
    assert!(now(&mut body, 0).await.is_none());
    script.put(b"data: x\n\n");
    block(&mut body).await;
    let before = Instant::now();
    assert_eq!(
        poll_fn(|context| body.poll_next(context, 0)).await.unwrap().err().unwrap().code(),
        Code::EventTimeout,
        "the origin's limit goes on"
    );
    assert!(before.elapsed() + PAUSE >= IDLE);
    assert_eq!((meter.relays().heartbeats, meter.relays().told), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_each_block_of_the_origin_and_one_end() {
    let seen = Seen::default();
    let observed = || {
        let (script, body, _) = body(policy());
        (script, body.observed(Box::new(seen.clone())))
    };

    let (script, mut whole) = observed();
    poll_fn(|context| whole.poll_next(context, 0)).await.unwrap().unwrap();
    script.put(b": ping\n");
    script.put(b"data: x\n\n");
    script.end();
    block(&mut whole).await;
    block(&mut whole).await;
    assert!(now(&mut whole, 0).await.unwrap().is_none());
    assert!(now(&mut whole, 0).await.unwrap().is_none());
    drop(whole);
    assert_eq!(seen.take(), [": ping", "data: x", "Whole"], "and no comment of ours");

    let (script, mut failed) = observed();
    script.fail(Code::OriginReset.error(""));
    block(&mut failed).await;
    failure(&mut failed).await;
    drop(failed);
    assert_eq!(seen.take(), ["Failed"]);

    let (_script, dropped) = observed();
    drop(dropped);
    assert_eq!(seen.take(), ["Dropped"]);
}

#[tokio::test(start_paused = true)]
async fn reading_on_ends_when_the_observer_has_what_it_needs() {
    let seen = Seen::default();
    let (script, body, _) = body(policy());
    let mut body = body.observed(Box::new(seen.clone()));
    for data in [&b"data: x\n\n"[..], b"data: usage\n\n", b"data: y\n\n"] {
        script.put(data);
    }
    block(&mut body).await;
    body.client_left();
    assert_eq!(block(&mut body).await, b"data: usage\n\n");
    assert!(now(&mut body, 0).await.unwrap().is_none(), "nothing more is needed");
    drop(body);
    assert_eq!(seen.take(), ["data: x", "data: usage", "Satisfied"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_was_seen_enough_of_is_not_read_on() {
    let seen = Seen::default();
    let (script, body, _) = body(policy());
    let mut body = body.observed(Box::new(seen.clone()));
    script.put(b"data: usage\n\n");
    script.put(b"data: x\n\n");
    block(&mut body).await;
    assert_eq!(block(&mut body).await, b"data: x\n\n", "the client gets all of it");
    script.put(b"data: y\n\n");
    body.client_left();
    assert!(now(&mut body, 0).await.unwrap().is_none());
    assert_eq!(seen.take(), ["data: usage", "data: x", "Satisfied"]);
}
