//! The trace of one request: its span, and the attempts at origins within it.

use std::borrow::Cow;
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::context::{FIELDS, SpanContext, State};
use crate::id::{SpanId, TraceId};
use crate::span::{Attribute, Kind, Span, Value};

/// Attempts of one request that are told. Those of an upstream's retries are fewer. Arbitrary.
const MOST_ATTEMPTS: usize = 32;

thread_local! {
    /// A trace that is over, whose memory the thread's next one takes.
    static SPARE: Cell<Option<Arc<Trace>>> = const { Cell::new(None) };
}

/// The trace of a request, from when it came.
#[derive(Debug)]
pub struct Trace {
    /// The span that stands for the request.
    pub context: SpanContext,
    pub(crate) parent: Option<SpanId>,
    pub(crate) link: Option<SpanContext>,
    /// What tracing systems have to say, which is passed on as it came.
    pub state: State,
    /// When it came.
    pub(crate) began: Instant,
    /// Attempts that were begun.
    begun: AtomicU32,
    attempts: Mutex<Attempts>,
    is_told: bool,
}

/// Both clocks at one moment. Spans that are told together are dated by one reading, so that a clock that is set in between
/// does not tear them apart; and requests that are not told read no clock for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clocks {
    unix: u64,
    instant: Instant,
}

impl Clocks {
    pub(crate) fn now() -> Self {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { unix: nanos(unix), instant: Instant::now() }
    }

    /// Nanoseconds since 1970 at another moment.
    pub(crate) fn at(&self, instant: Instant) -> u64 {
        match instant.checked_duration_since(self.instant) {
            Some(later) => self.unix.saturating_add(nanos(later)),
            None => self.unix.saturating_sub(nanos(self.instant.saturating_duration_since(instant))),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The first has its place in the trace: nearly all requests have one, and need no more memory.
#[derive(Debug, Default)]
struct Attempts {
    first: Option<Attempted>,
    rest: Vec<Attempted>,
}

/// An attempt at an origin that goes on.
#[derive(Debug)]
pub struct Attempt {
    /// Its span, which the origin is told of.
    pub context: SpanContext,
    began: Instant,
    /// How many came before.
    resent: u32,
}

/// What came of an attempt.
#[derive(Debug, Clone)]
pub struct Attempted {
    /// The method of the request.
    pub method: Cow<'static, str>,
    /// `scheme://host:port`.
    pub origin: Arc<str>,
    /// The path that was asked for, without its query; nothing if it is not worth keeping.
    pub path: Option<Box<str>>,
    /// The address that it went to.
    pub address: Option<SocketAddr>,
    /// The status of the response, if there was one.
    pub status: Option<u16>,
    /// The name of the error, if there was one.
    pub error: Option<&'static str>,
    /// It was given up before there was a response.
    pub cancelled: bool,
    /// The wait for a connection, and what opening one took.
    pub queued: Duration,
    /// See `queued`.
    pub connected: Option<Duration>,
    /// An earlier request had opened the connection.
    pub reused: bool,
    span: SpanId,
    began: Instant,
    ended: Instant,
    pub(crate) resent: u32,
}

impl Attempt {
    /// It is over now, up to the head of its response; the rest is to be filled in.
    #[inline]
    fn end(&self, method: Cow<'static, str>, origin: Arc<str>, now: Instant) -> Attempted {
        Attempted {
            method,
            origin,
            path: None,
            address: None,
            status: None,
            error: None,
            cancelled: false,
            queued: Duration::ZERO,
            connected: None,
            reused: false,
            span: self.context.span,
            began: self.began,
            ended: now,
            resent: self.resent,
        }
    }
}

impl Trace {
    /// In the memory of one of this thread that is over, if there is such: all requests have a trace, and few are kept.
    pub(crate) fn start(
        context: SpanContext,
        parent: Option<SpanId>,
        link: Option<SpanContext>,
        state: State,
        began: Instant,
        is_told: bool,
    ) -> Arc<Self> {
        if let Some(mut spare) = SPARE.take() {
            // What still has it is a hedge that has lost.
            if let Some(trace) = Arc::get_mut(&mut spare) {
                let attempts = trace.attempts.get_mut().unwrap_or_else(PoisonError::into_inner);
                attempts.first = None;
                attempts.rest.clear();
                *trace.begun.get_mut() = 0;
                (trace.context, trace.parent, trace.link) = (context, parent, link);
                (trace.state, trace.began, trace.is_told) = (state, began, is_told);
                return spare;
            }
        }
        Arc::new(Self {
            context,
            parent,
            link,
            state,
            began,
            begun: AtomicU32::new(0),
            attempts: Mutex::default(),
            is_told,
        })
    }

    /// One that collects attempts for a log, and that no other server is told of.
    pub fn untold(began: Instant) -> Arc<Self> {
        let context = SpanContext {
            trace: TraceId([0; 16]),
            span: SpanId([0; 8]),
            is_sampled: false,
            is_random: false,
        };
        Self::start(context, None, None, State::default(), began, false)
    }

    /// Its request is over: another one may have its memory.
    pub fn spare(self: &Arc<Self>) {
        // A thread that ends has no next one.
        let _ = SPARE.try_with(|spare| spare.set(Some(Arc::clone(self))));
    }

    /// Whether other servers are told of it.
    pub fn is_told(&self) -> bool {
        self.is_told
    }

    /// Calls `put` with each field, and its value, that tells another server that `span` of the trace calls it (W3C Trace
    /// Context, section 3.4); not once if no server is told.
    pub fn tell(&self, span: &SpanContext, mut put: impl FnMut(&'static str, &[u8])) {
        if !self.is_told {
            return;
        }
        let [parent, state] = FIELDS;
        put(parent, &span.write());
        if !self.state.as_str().is_empty() {
            put(state, self.state.as_str().as_bytes());
        }
    }

    /// Appends to `head` what [`Trace::tell`] tells, as lines.
    pub fn write(&self, span: &SpanContext, head: &mut Vec<u8>) {
        if !self.is_told {
            return;
        }
        head.extend_from_slice(&span.line());
        let state = self.state.as_str();
        if !state.is_empty() {
            for part in [FIELDS[1], ": ", state, "\r\n"] {
                head.extend_from_slice(part.as_bytes());
            }
        }
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        // What is behind the lock is whole between any two statements.
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an attempt now.
    pub fn attempt(&self, now: Instant) -> Attempt {
        // Relaxed: a count.
        let resent = self.begun.fetch_add(1, Ordering::Relaxed);
        let context = SpanContext { span: SpanId::random(), ..self.context };
        Attempt { context, began: now, resent }
    }

    /// Ends `attempt`, a request of `method` to `origin`, now; `tell` says what came of it. A hedge that has lost may end after the
    /// request, and is not told.
    #[inline]
    pub fn end(
        &self,
        attempt: &Attempt,
        method: Cow<'static, str>,
        origin: Arc<str>,
        now: Instant,
        tell: impl FnOnce(&mut Attempted),
    ) {
        let mut attempts = self.attempts();
        // It has 200 bytes, and is made where it stays.
        if attempts.first.is_none() {
            tell(attempts.first.insert(attempt.end(method, origin, now)));
        } else if attempts.rest.len() < MOST_ATTEMPTS {
            let mut attempted = attempt.end(method, origin, now);
            tell(&mut attempted);
            attempts.rest.push(attempted);
        }
    }

    /// Calls `look` with each of the attempts so far.
    pub fn each_attempt(&self, look: impl FnMut(&Attempted)) {
        let attempts = self.attempts();
        attempts.first.iter().chain(&attempts.rest).for_each(look);
    }
}

impl Attempted {
    /// How long it took.
    pub fn took(&self) -> Duration {
        self.ended.saturating_duration_since(self.began)
    }

    /// Calls `write` with its span, a part of `trace`.
    pub(crate) fn write(&self, trace: &Trace, clocks: &Clocks, write: impl FnOnce(&Span<'_>)) {
        let (scheme, rest) = self.origin.split_once("://").unwrap_or(("http", &self.origin));
        let (host, port) = host_and_port(rest, scheme);
        let url = self.path.as_ref().map(|path| [&*self.origin, path].concat());
        // A status is the error of a client's span from 400 on, and of a server's from 500 on.
        let status = self.status.filter(|status| *status >= 400).map(|status| status.to_string());
        let address = self.address;
        let ip = address.map(|address| address.ip().to_string());
        let name = known_method(&self.method);
        let mut attributes: Vec<Attribute<'_>> = Vec::with_capacity(14);
        attributes.push(("http.request.method", Value::Text(name)));
        if name != self.method {
            attributes.push(("http.request.method_original", Value::Text(&self.method)));
        }
        attributes.push(("server.address", Value::Text(host)));
        attributes.extend(port.map(|port| ("server.port", Value::Number(port.into()))));
        attributes.push(("url.full", Value::Text(url.as_deref().unwrap_or(&self.origin))));
        if let (Some(address), Some(ip)) = (address, &ip) {
            attributes.push(("network.peer.address", Value::Text(ip)));
            attributes.push(("network.peer.port", Value::Number(address.port().into())));
        }
        if let Some(status) = self.status {
            attributes.push(("http.response.status_code", Value::Number(status.into())));
        }
        let failed = self.error.or(status.as_deref());
        attributes.extend(failed.map(|error| ("error.type", Value::Text(error))));
        if self.resent > 0 {
            attributes.push(("http.request.resend_count", Value::Number(self.resent.into())));
        }
        if self.cancelled {
            attributes.push(("penstock.cancelled", Value::Flag(true)));
        }
        attributes.push(("penstock.connection_reused", Value::Flag(self.reused)));
        attributes.push(("penstock.queue_ms", Value::millis(self.queued)));
        attributes.extend(self.connected.map(|time| ("penstock.connect_ms", Value::millis(time))));
        write(&Span {
            context: SpanContext { span: self.span, ..trace.context },
            parent: Some(trace.context.span),
            is_remote: false,
            state: &trace.state,
            name: if name == "_OTHER" { "HTTP" } else { name },
            kind: Kind::Client,
            began: clocks.at(self.began),
            ended: clocks.at(self.ended),
            attributes: &attributes,
            is_failure: failed.is_some(),
            link: None,
        });
    }
}

/// A method that is known, or `_OTHER` (OpenTelemetry, semantic conventions for HTTP, `http.request.method`): the number of names
/// has a bound.
pub fn known_method(method: &str) -> &str {
    const KNOWN: [&str; 10] =
        ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"];
    if KNOWN.contains(&method) { method } else { "_OTHER" }
}

/// The host, without the brackets of an IPv6 address, and the port, or that of the scheme.
pub fn host_and_port<'a>(authority: &'a str, scheme: &str) -> (&'a str, Option<u16>) {
    let default = match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    let end = authority.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = match authority.as_bytes()[end..].iter().rposition(|byte| *byte == b':') {
        Some(at) => (&authority[..end + at], authority[end + at + 1..].parse().ok()),
        None => (authority, default),
    };
    (host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host), port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Parent;

    #[test]
    fn an_authority_is_a_host_and_a_port() {
        for (authority, scheme, expected) in [
            ("a.example:81", "http", ("a.example", Some(81))),
            ("a.example", "https", ("a.example", Some(443))),
            ("[::1]:81", "http", ("::1", Some(81))),
            ("[::1]", "http", ("::1", Some(80))),
            ("a:x", "http", ("a", None)),
            ("/run/a.sock", "unix", ("/run/a.sock", None)),
        ] {
            assert_eq!(host_and_port(authority, scheme), expected, "{authority}");
        }
    }

    #[test]
    fn a_trace_in_the_memory_of_another_has_nothing_of_it() {
        let now = Instant::now();
        let first = Trace::untold(now);
        for _ in 0..3 {
            first.end(&first.attempt(now), "GET".into(), "http://a:1".into(), now, |_| ());
        }
        first.spare();
        let held = Trace::untold(now);
        assert!(!Arc::ptr_eq(&first, &held), "the first is still held");
        first.spare();
        let memory = Arc::as_ptr(&first);
        drop(first);
        let second = Trace::untold(now);
        assert_eq!(Arc::as_ptr(&second), memory);
        let mut attempts = 0;
        second.each_attempt(|_| attempts += 1);
        assert_eq!((attempts, second.attempt(now).resent), (0, 0));
    }

    #[test]
    fn what_is_told_is_a_line_for_each_field() {
        let context = SpanContext {
            trace: TraceId::random(),
            span: SpanId::random(),
            is_sampled: true,
            is_random: true,
        };
        let (now, caller) = (Instant::now(), context.write());
        let state = Parent::of([&caller[..]], [&b"a=1"[..]]).unwrap().state;
        for (state, told) in [(state, true), (State::default(), true), (State::default(), false)] {
            let trace = Trace::start(context, None, None, state, now, told);
            let (mut lines, mut expected) = (Vec::new(), Vec::new());
            trace.write(&context, &mut lines);
            trace.tell(&context, |name, value| {
                expected.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
            });
            assert_eq!((lines.is_empty(), &lines), (!told, &expected));
        }
    }

    #[test]
    fn methods_have_a_bound() {
        assert_eq!(
            (known_method("GET"), known_method("get"), known_method("PURGE")),
            ("GET", "_OTHER", "_OTHER")
        );
    }
}
