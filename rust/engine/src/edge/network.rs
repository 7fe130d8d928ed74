//! What the network does to responses, by sample: what the kernel knows of the connections (`TCP_INFO`).
//!
//! A look at a connection takes the lock of its socket for about a microsecond. So one response in [`SAMPLE`] has one, at its
//! end, and there is one in [`PAUSE`] at most. An event stream, which may go on for hours, has one in [`ROUND`] meanwhile.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc as Plain;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock;
use crate::counters::{Buckets, Counter, Histogram};
use crate::net::{Connection, TcpInfo, TcpTotals};
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};

/// Of so many responses one is looked at, the first one too. Arbitrary: a look is a thirtieth of what a small response costs.
const SAMPLE: u64 = 32;
/// Between two looks at the ends of responses: a hundred a second. Arbitrary.
const PAUSE: Duration = Duration::from_millis(10);
/// In which each event stream has a look, where there are no more than [`MOST`] for each of its seconds.
const ROUND: usize = 60;
/// Between two looks at event streams: a little less than a second, for callers that come once a second.
const STREAMS_PAUSE: Duration = Duration::from_millis(900);
/// Event streams that have a look in one second. Arbitrary.
const MOST: usize = 100;

/// Whether the response to a site's request of this `number`, from 0 on, is one that is looked at.
pub(super) fn is_sampled(number: u64) -> bool {
    number % SAMPLE == 0
}

/// What a response is, for the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseClass {
    /// A stream of events that the engine relays or publishes: small writes for a long time.
    Events,
    /// Another one that the engine has sent alone: a segment, a hit.
    Bulk,
    /// One of the application.
    App,
}

impl ResponseClass {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Events, Self::Bulk, Self::App];

    /// The word used for it in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Bulk => "bulk",
            Self::App => "app",
        }
    }
}

/// The upper bounds of the buckets of rates, in bytes a second: 0.25 Mbit/s, and twice as much each time up to 1 Gbit/s.
pub const RATES: [u64; 13] = {
    let mut bounds = [31_250; 13];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 2;
        at += 1;
    }
    bounds
};

/// Rates, counted by [`RATES`]; the last bucket has no bound.
#[derive(Debug, Default)]
struct RateBuckets {
    counts: [Counter; RATES.len() + 1],
    sum: Counter,
}

/// What was seen of the responses of one class.
#[derive(Debug, Default)]
struct Seen {
    looks: Counter,
    rtt: Buckets,
    rates: RateBuckets,
    sent: Counter,
    retransmitted: Counter,
    busy: Counter,
    receiver_limited: Counter,
    buffer_limited: Counter,
}

/// What was seen of the responses of one class so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkSums {
    /// Of which class.
    pub class: ResponseClass,
    /// How often it was looked.
    pub looks: u64,
    /// Round trips, smoothed.
    pub rtt: Histogram,
    /// Bytes a second, where the client and the network set the pace: counts by [`RATES`], and their sum.
    pub rates: ([u64; RATES.len() + 1], u64),
    /// Bytes that were sent between two looks at a connection.
    pub sent: u64,
    /// Those of them that were sent again.
    pub retransmitted: u64,
    /// The time in which something was under way, between two looks at a connection.
    pub busy: Duration,
    /// The part of it in which the client had no room.
    pub receiver_limited: Duration,
    /// The part of it in which the kernel's buffer was too small.
    pub buffer_limited: Duration,
}

impl Seen {
    fn add(&self, info: &TcpInfo, new: &TcpTotals) {
        self.looks.add(1);
        self.rtt.add(info.rtt);
        if let Some(rate) = info.delivery_rate {
            self.rates.counts[RATES.partition_point(|bound| *bound < rate)].add(1);
            self.rates.sum.add(rate);
        }
        self.sent.add(new.sent);
        self.retransmitted.add(new.retransmitted);
        self.busy.add(new.busy);
        self.receiver_limited.add(new.receiver_limited);
        self.buffer_limited.add(new.buffer_limited);
    }

    fn sums(&self, class: ResponseClass) -> NetworkSums {
        let mut rtt = Histogram::default();
        rtt.add(&self.rtt);
        let micros = |counter: &Counter| Duration::from_micros(counter.get());
        NetworkSums {
            class,
            looks: self.looks.get(),
            rtt,
            rates: (std::array::from_fn(|at| self.rates.counts[at].get()), self.rates.sum.get()),
            sent: self.sent.get(),
            retransmitted: self.retransmitted.get(),
            busy: micros(&self.busy),
            receiver_limited: micros(&self.receiver_limited),
            buffer_limited: micros(&self.buffer_limited),
        }
    }
}

/// A connection, and what it had added up to at the last look. Shared by the streams of a connection.
#[derive(Debug, Clone)]
pub(super) struct Looked {
    pub(super) connection: Arc<Connection>,
    pub(super) totals: Plain<Mutex<TcpTotals>>,
}

/// The looks of an engine.
#[derive(Debug)]
pub(super) struct Network {
    began: Instant,
    /// When the next response may be looked at, and when event streams are, in microseconds since `began`.
    due: AtomicU64,
    streams_due: AtomicU64,
    seen: [Seen; ResponseClass::ALL.len()],
    streams: Mutex<EventStreams>,
}

/// The event streams that are open.
#[derive(Debug, Default)]
struct EventStreams {
    open: BTreeMap<u64, Looked>,
    next: u64,
    /// The last one that was looked at.
    cursor: u64,
}

/// An event stream that is open.
#[derive(Debug)]
pub(super) struct OpenStream {
    network: Arc<Network>,
    number: u64,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let closed = lock(&self.network.streams).open.remove(&self.number);
        // The connection may end with it: not under the lock.
        drop(closed);
    }
}

impl Network {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            due: AtomicU64::new(0),
            streams_due: AtomicU64::new(0),
            seen: Default::default(),
            streams: Mutex::default(),
        }
    }

    /// Whether a response may be looked at now; then none may for a while.
    pub(super) fn is_due(&self) -> bool {
        self.takes_turn(&self.due, PAUSE)
    }

    /// Whether it is the time of `due`, which is put off by `pause` then.
    fn takes_turn(&self, due: &AtomicU64, pause: Duration) -> bool {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let now = micros(clock::since(self.began));
        // Relaxed, both: of the threads that find the same number one looks, and nothing else depends on it.
        let before = due.load(Ordering::Relaxed);
        let next = now.saturating_add(micros(pause));
        now >= before && due.compare_exchange(before, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Looks at the connection of a response of `class`.
    pub(super) fn look(&self, class: ResponseClass, looked: &Looked) {
        let Some(info) = looked.connection.with_socket(TcpInfo::of) else { return };
        let before = std::mem::replace(&mut *lock(&looked.totals), info.totals);
        self.seen[class as usize].add(&info, &info.totals.since(&before));
    }

    /// An event stream begins. It is looked at until what this returns is dropped.
    pub(super) fn open(self: &Arc<Self>, looked: Looked) -> OpenStream {
        let mut streams = lock(&self.streams);
        streams.next += 1;
        let number = streams.next;
        streams.open.insert(number, looked);
        OpenStream { network: Arc::clone(self), number }
    }

    /// Looks at the event streams whose turn it is, once a second however often it is called.
    pub(super) fn look_at_streams(&self) {
        if !self.takes_turn(&self.streams_due, STREAMS_PAUSE) {
            return;
        }
        let due = lock(&self.streams).due();
        for looked in due {
            self.look(ResponseClass::Events, &looked);
        }
    }

    /// What was seen so far, by class.
    pub(super) fn sums(&self) -> Vec<NetworkSums> {
        ResponseClass::ALL.into_iter().map(|class| self.seen[class as usize].sums(class)).collect()
    }
}

impl EventStreams {
    /// The next ones in turn.
    fn due(&mut self) -> Vec<Looked> {
        let count = self.open.len().div_ceil(ROUND).min(MOST);
        let after = self.open.range((Bound::Excluded(self.cursor), Bound::Unbounded));
        let due: Vec<_> = after.chain(self.open.range(..=self.cursor)).take(count).collect();
        let last = due.last().map(|(number, _)| **number);
        let due = due.into_iter().map(|(_, looked)| looked.clone()).collect();
        self.cursor = last.unwrap_or(self.cursor);
        due
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::net::{Socket, Transport};

    fn looked() -> Looked {
        let (socket, _) = tokio::net::UnixStream::pair().unwrap();
        let connection = Arc::new(Connection::new(Transport::Plain(Socket::Unix(socket))));
        Looked { connection, totals: Plain::default() }
    }

    #[tokio::test]
    async fn each_event_stream_has_its_turn_in_a_round() {
        let network = Arc::new(Network::new());
        let open: Vec<_> = (0..150).map(|_| network.open(looked())).collect();
        let turn = || {
            let mut streams = lock(&network.streams);
            let before = streams.cursor;
            (streams.due().len(), before, streams.cursor)
        };
        let turns: Vec<_> = (0..50).map(|_| turn()).collect();
        assert!(turns.iter().all(|(count, ..)| *count == 3));
        assert_eq!((turns[0].1, turns[49].2), (0, 150));
        assert_eq!(turn().2, 3, "it begins anew");
        drop(open);
        assert_eq!(turn().0, 0);
        assert!(lock(&network.streams).open.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn responses_are_looked_at_once_in_a_while() {
        let network = Network::new();
        assert!(network.is_due() && !network.is_due());
        tokio::time::advance(PAUSE).await;
        assert!(network.is_due() && !network.is_due());
    }

    #[test]
    fn what_was_seen_adds_up() {
        let seen = Seen::default();
        let totals =
            TcpTotals { sent: 100, retransmitted: 10, busy: 5, receiver_limited: 2, buffer_limited: 3 };
        let info = TcpInfo { rtt: Duration::from_millis(2), delivery_rate: Some(62_500), totals };
        seen.add(&info, &totals);
        seen.add(&TcpInfo { delivery_rate: None, ..info }, &TcpTotals::default());
        let sums = seen.sums(ResponseClass::Bulk);
        assert_eq!((sums.looks, sums.rtt.sum, sums.rates.0[1], sums.rates.1), (2, info.rtt * 2, 1, 62_500));
        assert_eq!((sums.sent, sums.retransmitted, sums.busy), (100, 10, Duration::from_micros(5)));
        assert_eq!(RATES[12], 128_000_000);
    }
}
