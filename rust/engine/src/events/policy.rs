//! The policy of event streams, by route or by request. Python declares and validates it; there are no defaults
//! here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::Error;

/// The policy for the event streams of a route.
#[derive(Debug)]
pub struct Policy {
    /// After this time without a byte to the client, a comment is sent.
    pub heartbeat: Option<Duration>,
    /// The longest time without an event of the origin (`EVENT_TIMEOUT`).
    pub idle: Option<Duration>,
    /// Whether fields tell proxies on the way not to buffer, and caches to revalidate, unless the origin
    /// sends such fields.
    pub unbuffered: bool,
    /// The name of the event that tells the client of a failure after the head.
    pub error_event: Option<String>,
    /// What happens to the origin's stream when its client leaves.
    pub leave: Leave,
}

/// A name and a value.
pub type Field = (&'static [u8], &'static [u8]);

/// nginx reads it as `proxy_buffering off` and does not pass it on. Without it, nginx would hold events back until a buffer
/// is full.
pub(crate) const NO_BUFFERING: Field = (b"X-Accel-Buffering", b"no");

/// As in the examples of the HTML standard; it keeps a cache from holding a stream back.
pub(crate) const NO_CACHE: Field = (b"Cache-Control", b"no-cache");

impl Policy {
    /// The fields of the head, unless the origin sends its own.
    pub fn fields(&self) -> &'static [Field] {
        if self.unbuffered { &[NO_BUFFERING, NO_CACHE] } else { &[] }
    }

    /// The event that tells the client of `error`, without its detail, which may name the origin.
    pub(crate) fn told(&self, error: &Error) -> Option<Vec<u8>> {
        let name = self.error_event.as_ref()?;
        Some(format!("event: {name}\ndata: {}\n\n", error_data(error)).into_bytes())
    }
}

/// `error` for a client, as JSON on one line, without its detail, which may name the origin.
pub(crate) fn error_data(error: &Error) -> String {
    let code = error.code();
    let (number, row, retryable) = (code.number(), code.name(), code.retryable());
    let message = code.meaning();
    format!(
        "{{\"error\":{{\"code\":\"0x{number:03X}\",\"name\":\"{row}\",\"message\":\"{message}\",\
         \"retryable\":{retryable}}}}}"
    )
}

/// What happens to the origin's response when its client leaves.
#[derive(Debug, Clone)]
pub enum Leave {
    /// It is cancelled at once.
    Cancel,
    /// It is read on, so that the origin can finish.
    Drain(Arc<Drain>),
}

impl Leave {
    /// Whether it is read on.
    pub(crate) fn drains(&self) -> bool {
        matches!(self, Self::Drain(_))
    }

    /// The rule before the kind of body is known: of the two, the one that reads on.
    pub(crate) fn before_head<'a>(all: &'a Self, events: Option<&'a Policy>) -> &'a Self {
        events.map(|policy| &policy.leave).filter(|leave| leave.drains()).unwrap_or(all)
    }

    /// The rule for a body, of events or not.
    pub(crate) fn of<'a>(all: &'a Self, events: Option<&'a Policy>, is_events: bool) -> &'a Self {
        events.filter(|_| is_events).map_or(all, |policy| &policy.leave)
    }
}

/// The limits of responses that are read on after their clients have left.
#[derive(Debug)]
pub struct Drain {
    pub(super) bytes: u64,
    pub(super) time: Duration,
    most: usize,
    active: AtomicUsize,
}

impl Drain {
    /// Up to `bytes` and `time` each, and at most `most` at a time.
    pub fn new(bytes: u64, time: Duration, most: usize) -> Self {
        Self { bytes, time, most, active: AtomicUsize::new(0) }
    }

    /// Takes a place, if one is free.
    pub(super) fn enter(&self) -> bool {
        let one_more = |active| (active < self.most).then_some(active + 1);
        // Relaxed: a count, on which no memory depends.
        self.active.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Gives the place back.
    pub(super) fn leave(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::error::Code;

    fn policy(error_event: Option<&str>) -> Policy {
        let error_event = error_event.map(str::to_owned);
        Policy { heartbeat: None, idle: None, unbuffered: true, error_event, leave: Leave::Cancel }
    }

    #[test]
    fn an_error_event_is_one_line_of_json_whatever_the_code() {
        for row in Code::all() {
            let error = row.code.error("at 10.0.0.1").at(&Arc::from("http://secret:1"));
            let told = String::from_utf8(policy(Some("fault")).told(&error).unwrap()).unwrap();
            assert!(!told.contains("10.0.0.1") && !told.contains("secret"), "{told}");
            let json = told.strip_prefix("event: fault\ndata: ").unwrap().strip_suffix("\n\n").unwrap();
            let value: serde_json::Value = serde_json::from_str(json).unwrap();
            assert_eq!(value["error"]["name"], row.name);
            assert_eq!(value["error"]["message"], row.meaning);
            assert_eq!(value["error"]["retryable"], row.retryable);
            assert_eq!(value["error"]["code"], format!("0x{:03X}", row.code.number()));
        }
        assert_eq!(policy(None).told(&Code::Internal.error("")), None);
    }

    #[test]
    fn a_drain_has_so_many_places() {
        let drain = Drain::new(1, Duration::ZERO, 2);
        assert_eq!([drain.enter(), drain.enter(), drain.enter()], [true, true, false]);
        drain.leave();
        assert_eq!([drain.enter(), drain.enter()], [true, false]);
        assert!(!Drain::new(1, Duration::ZERO, 0).enter());
    }

    #[test]
    fn before_the_head_a_drain_of_either_kind_goes_on() {
        let drain = || Leave::Drain(Arc::new(Drain::new(1, Duration::ZERO, 1)));
        let (mut events, plain) = (policy(None), policy(None));
        events.leave = drain();
        assert!(Leave::before_head(&Leave::Cancel, Some(&events)).drains());
        assert!(Leave::before_head(&drain(), Some(&plain)).drains());
        assert!(Leave::before_head(&drain(), None).drains());
        assert!(!Leave::before_head(&Leave::Cancel, Some(&plain)).drains());
        assert!(!Leave::of(&Leave::Cancel, Some(&events), false).drains());
        assert!(Leave::of(&Leave::Cancel, Some(&events), true).drains());
        assert!(!Leave::of(&drain(), Some(&plain), true).drains(), "the policy of events is for events");
        assert!(Leave::of(&drain(), None, true).drains());
    }
}
