//! What the parts of one exchange tell each other. One task polls them all, so the order of these flags is the order
//! of the program; they are atomics because a task may be made on another thread.

use std::sync::Arc as Plain;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use penstock_trace::{Following, TraceId};
use tokio::time::Instant;

use super::network::OpenStream;
use super::tally::{End, Tally};
use crate::access::{Allotment, Decision, Entered, Refusal};
use crate::app::Note;
use crate::cache::CacheStatus;
use crate::clock;
use crate::error::{Code, Error, Result};
use crate::outcome::Outcome;
use crate::sync::{Arc, Mutex, lock};

/// How far an exchange has come.
#[derive(Debug)]
pub(super) struct Progress {
    tally: Arc<Tally>,
    began: Instant,
    status: AtomicU16,
    /// From then to the head, in nanoseconds.
    first_byte: AtomicU64,
    payload: AtomicU64,
    received: AtomicU64,
    /// Bytes that the kernel took, and those of them that are not the body's: heads, also of interim responses.
    written: AtomicU64,
    interim: AtomicU64,
    head: AtomicU64,
    note: Mutex<Option<Note>>,
    left: AtomicBool,
    /// What is asked of it: none, one or several of the bits below.
    asked: AtomicU8,
    close: AtomicBool,
    torn: AtomicBool,
    visible: AtomicBool,
    metered: AtomicBool,
    decision: Mutex<Option<Arc<Decision>>>,
    entered: Mutex<Option<Entered>>,
    web: Mutex<Option<Plain<WebAnswer>>>,
    /// How the cache has answered, where that is asked for.
    cached: OnceLock<&'static str>,
    /// Tells of a stream while it goes on.
    pub(super) following: OnceLock<Plain<Following>>,
    /// The response is a stream of events, whose connection is looked at meanwhile.
    open: OnceLock<OpenStream>,
    /// The head of the origin's response, if another process could go on with the exchange.
    origin_head: OnceLock<Box<[u8]>>,
    /// Whether the next process has it, if it was frozen.
    outcome: Mutex<Option<Arc<Outcome>>>,
}

/// It is to end at once.
const STOPPED: u8 = Stopped::Draining as u8 | Stopped::Revoked as u8;
/// It goes to the next process when it is at rest.
const MOVES: u8 = 4;
/// It is neither read nor written.
const FROZEN: u8 = 8;
/// The next process has it.
const GIVEN: u8 = 16;

/// How a call of gRPC-Web is answered, whatever with.
#[derive(Debug, Default)]
pub(super) struct WebAnswer {
    /// The media type.
    pub(super) kind: Vec<u8>,
    /// The fields by which a page may read it.
    pub(super) fields: Vec<(&'static [u8], Vec<u8>)>,
}

/// Why an exchange is to end at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stopped {
    /// Everything does.
    Draining = 1,
    /// The client may no longer have it.
    Revoked = 2,
}

impl Stopped {
    pub(super) fn error(self) -> Error {
        match self {
            Self::Draining => Code::Draining.error("the time for requests to finish is over"),
            Self::Revoked => Code::AccessRevoked.error("the authorisation was revoked, or not renewed"),
        }
    }
}

impl Progress {
    /// Of one that begins now.
    pub(super) fn new(tally: Arc<Tally>) -> Self {
        tally.begin();
        Self {
            tally,
            began: clock::now(),
            status: AtomicU16::new(0),
            first_byte: AtomicU64::new(0),
            payload: AtomicU64::new(0),
            received: AtomicU64::new(0),
            written: AtomicU64::new(0),
            interim: AtomicU64::new(0),
            head: AtomicU64::new(0),
            note: Mutex::default(),
            left: AtomicBool::new(false),
            asked: AtomicU8::new(0),
            close: AtomicBool::new(false),
            torn: AtomicBool::new(false),
            visible: AtomicBool::new(false),
            metered: AtomicBool::new(false),
            decision: Mutex::default(),
            entered: Mutex::default(),
            web: Mutex::default(),
            cached: OnceLock::new(),
            following: OnceLock::new(),
            open: OnceLock::new(),
            origin_head: OnceLock::new(),
            outcome: Mutex::default(),
        }
    }

    /// Another process has begun it at `began`, and a response of `status` so much later.
    pub(super) fn begin_elsewhere(&mut self, began: Instant, status: u16, first_byte: Duration) {
        self.began = began;
        *self.first_byte.get_mut() = u64::try_from(first_byte.as_nanos()).unwrap_or(u64::MAX);
        *self.status.get_mut() = status;
    }

    /// It is a call of gRPC-Web, which is answered so.
    pub(super) fn note_web(&self, answer: WebAnswer) {
        *lock(&self.web) = Some(Plain::new(answer));
    }

    /// How it is answered, if it is a call of gRPC-Web.
    pub(super) fn web(&self) -> Option<Plain<WebAnswer>> {
        lock(&self.web).clone()
    }

    /// The response is the stream of events `open`.
    pub(super) fn note_events(&self, open: OpenStream) {
        let _ = self.open.set(open);
    }

    /// Whether the response is a stream of events.
    pub(super) fn is_events(&self) -> bool {
        self.open.get().is_some()
    }

    /// When it began.
    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// How long it has taken so far.
    pub(super) fn elapsed(&self) -> Duration {
        clock::since(self.began)
    }

    /// It is over after `duration`, with what the client got.
    pub(super) fn end(
        &self,
        status: u16,
        error: Option<&Error>,
        received: u64,
        duration: Duration,
        trace: Option<TraceId>,
    ) {
        self.received.store(received, Ordering::Relaxed);
        self.tally.end(&End { status, error, received, first_byte: self.first_byte(), duration, trace });
    }

    /// Bytes of the body of a request that is over.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// The time up to the head of the response, if one was begun.
    pub(super) fn first_byte(&self) -> Option<Duration> {
        self.status().map(|_| Duration::from_nanos(self.first_byte.load(Ordering::Relaxed)))
    }

    /// Notes how the cache has answered, which the head of the response says.
    pub(super) fn note_cache<'a>(&self, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) {
        let mut fields = fields;
        if let Some((_, value)) = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"cache-status")) {
            let _ = self.cached.set(CacheStatus::result(value));
        }
    }

    /// How the cache has answered, in the words of `penstock_cache_requests_total`.
    pub(super) fn cached(&self) -> Option<&'static str> {
        self.cached.get().copied()
    }

    /// The kernel took so many bytes of the response.
    pub(super) fn sent(&self, bytes: usize) {
        if bytes > 0 {
            self.tally.sent(bytes);
            let written = self.written.load(Ordering::Relaxed) + bytes as u64;
            self.written.store(written, Ordering::Relaxed);
        }
    }

    /// The head of the response has so many bytes.
    pub(super) fn set_head(&self, bytes: usize) {
        self.head.store(bytes as u64, Ordering::Relaxed);
    }

    /// The client has the head, and so many bytes after it, from another process.
    pub(super) fn go_on_after(&self, sent: u64) {
        self.written.store(self.head.load(Ordering::Relaxed) + sent, Ordering::Relaxed);
    }

    /// So many bytes of interim responses go before it.
    pub(super) fn add_interim(&self, bytes: usize) {
        let interim = self.interim.load(Ordering::Relaxed) + bytes as u64;
        self.interim.store(interim, Ordering::Relaxed);
    }

    /// Bytes that the kernel took of what follows the head: the body in its framing, as nginx's `$body_bytes_sent`.
    pub(super) fn body_bytes(&self) -> u64 {
        let [written, interim, head] =
            [&self.written, &self.interim, &self.head].map(|count| count.load(Ordering::Relaxed));
        written.saturating_sub(interim + head)
    }

    /// What the application has said of the exchange, and why the engine has ended its response, if that did not go well.
    pub(super) fn set_note(&self, note: Option<Note>, error: Option<&Error>) {
        let mut note = note.unwrap_or_default();
        // A handler that has failed breaks the exchange off, and knows better why.
        note.failure = note.failure.or(error.map(Error::code));
        *lock(&self.note) = Some(note);
    }

    pub(super) fn note(&self) -> Option<Note> {
        lock(&self.note).take()
    }

    /// The status of the response whose head was begun to be sent.
    pub(super) fn status(&self) -> Option<u16> {
        Some(self.status.load(Ordering::Relaxed)).filter(|status| *status != 0)
    }

    /// The head of a response of this status is about to be sent; 0 if it is not after all.
    pub(super) fn begin(&self, status: u16) {
        if self.status().is_none() {
            let elapsed = u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.first_byte.store(elapsed, Ordering::Relaxed);
        }
        self.status.store(status, Ordering::Relaxed);
        if status == 0 {
            self.set_head(0);
        }
    }

    /// Bytes of its body that were taken to be sent.
    pub(super) fn payload(&self) -> u64 {
        self.payload.load(Ordering::Relaxed)
    }

    pub(super) fn set_payload(&self, bytes: u64) {
        self.payload.store(bytes, Ordering::Relaxed);
    }

    /// Whether the client has left, or what it sends can be read no further.
    pub(super) fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    pub(super) fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// Whether anything is asked of it.
    #[inline]
    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed) != 0
    }

    fn has_any(&self, bits: u8) -> bool {
        self.asked.load(Ordering::Relaxed) & bits != 0
    }

    fn set(&self, bits: u8) {
        // One task does.
        self.asked.store(self.asked.load(Ordering::Relaxed) | bits, Ordering::Relaxed);
    }

    fn unset(&self, bits: u8) {
        self.asked.store(self.asked.load(Ordering::Relaxed) & !bits, Ordering::Relaxed);
    }

    /// Whether it is to end at once.
    pub(super) fn is_stopped(&self) -> bool {
        self.has_any(STOPPED)
    }

    /// Whether it is to end because everything does.
    pub(super) fn is_draining(&self) -> bool {
        self.has_any(Stopped::Draining as u8)
    }

    /// Whether it may go on.
    pub(super) fn check_stopped(&self) -> Result<()> {
        match self.asked.load(Ordering::Relaxed) & STOPPED {
            0 => Ok(()),
            why if why == Stopped::Revoked as u8 => Err(Stopped::Revoked.error()),
            _ => Err(Stopped::Draining.error()),
        }
    }

    pub(super) fn stop(&self, why: Stopped) {
        self.unset(STOPPED);
        self.set(why as u8);
    }

    /// It is to go to the next process when it is at rest.
    pub(super) fn ask_to_move(&self) {
        self.set(MOVES);
    }

    /// Undoes [`Progress::ask_to_move`].
    pub(super) fn stay(&self) {
        self.unset(MOVES);
    }

    /// Whether it was asked to move.
    pub(super) fn moves(&self) -> bool {
        self.has_any(MOVES)
    }

    /// It is neither read nor written until its `outcome` is decided.
    pub(super) fn freeze(&self, outcome: Arc<Outcome>) {
        *lock(&self.outcome) = Some(outcome);
        self.set(FROZEN);
    }

    /// Whether it is neither read nor written.
    #[inline]
    pub(super) fn is_frozen(&self) -> bool {
        self.has_any(FROZEN)
    }

    /// Ready when it is frozen no longer: whether the next process has it.
    pub(super) fn poll_given(&self, context: &Context<'_>) -> Poll<bool> {
        let outcome = lock(&self.outcome).clone();
        let is_given = ready!(outcome.map_or(Poll::Ready(false), |outcome| outcome.poll_given(context)));
        self.unset(FROZEN);
        if is_given {
            self.set(GIVEN);
        }
        Poll::Ready(is_given)
    }

    /// Whether the next process has it.
    pub(super) fn is_given(&self) -> bool {
        self.has_any(GIVEN)
    }

    /// Keeps the head of the origin's response.
    pub(super) fn keep_head(&self, head: Vec<u8>) {
        let _ = self.origin_head.set(head.into());
    }

    /// The head of the origin's response, if it was kept.
    pub(super) fn kept_head(&self) -> Option<&[u8]> {
        self.origin_head.get().map(AsRef::as_ref)
    }

    /// Notes the decision that refuses the request, for its answer.
    pub(super) fn refuse(&self, refusal: Refusal) -> Error {
        if let Some(decision) = refusal.decision {
            *lock(&self.decision) = Some(decision);
        }
        refusal.error
    }

    /// Notes by what the request is let in, and counts it on its tenant's account until it is over.
    ///
    /// # Errors
    /// `TENANT_LIMITED`, `TENANT_EXHAUSTED`.
    pub(super) fn let_in(&self, decision: &Arc<Decision>) -> Result<()> {
        *lock(&self.decision) = Some(Arc::clone(decision));
        if let Some(allotment) = &decision.allotment {
            // Behind what it had before: a request that was asked about twice is one.
            self.give_back();
            let entered = allotment.enter().inspect_err(|_| self.tally.refuse_tenant())?;
            self.tally.begin_tenant();
            *lock(&self.entered) = Some(entered);
        }
        Ok(())
    }

    /// It is on no tenant's account any more.
    fn give_back(&self) {
        if lock(&self.entered).take().is_some() {
            self.tally.end_tenant();
        }
    }

    /// What was decided about the request, if anything.
    pub(super) fn decision(&self) -> Option<Arc<Decision>> {
        lock(&self.decision).clone()
    }

    /// What its tenant may have, if it has one.
    pub(super) fn allotment(&self) -> Option<Allotment> {
        lock(&self.decision).as_ref()?.allotment.clone()
    }

    /// Its body is counted as it goes.
    pub(super) fn meter(&self) {
        self.metered.store(true, Ordering::Relaxed);
    }

    /// Counts what was sent on its tenant's account, unless that was done as it went.
    fn settle(&self) {
        let Some(allotment) = self.allotment() else { return };
        self.tally.sent_of_tenant(self.payload());
        if !self.metered.load(Ordering::Relaxed) {
            allotment.tenant.count(self.payload());
        }
    }

    /// Whether the client may have half of something, such as an interim response: what is sent after it would be read as
    /// the other half.
    pub(super) fn is_torn(&self) -> bool {
        self.torn.load(Ordering::Relaxed)
    }

    pub(super) fn tear(&self, torn: bool) {
        self.torn.store(torn, Ordering::Relaxed);
    }

    /// Whether the client sees by the framing that what it has of a response that failed is not the whole, and the connection
    /// need not be reset: that could overtake what was sent before, such as the last events of a stream.
    pub(super) fn ends_visibly(&self) -> bool {
        self.visible.load(Ordering::Relaxed)
    }

    pub(super) fn end_visibly(&self) {
        self.visible.store(true, Ordering::Relaxed);
    }

    /// Whether the connection ends with this response, which says so.
    pub(super) fn closes(&self) -> bool {
        self.close.load(Ordering::Relaxed)
    }

    pub(super) fn close(&self, close: bool) {
        self.close.store(close, Ordering::Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.settle();
        self.give_back();
    }
}
