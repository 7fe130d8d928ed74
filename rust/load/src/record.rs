//! What a run records: histograms by class and second, failures, sessions.
//!
//! A histogram leaves as its values and their counts, which add up over threads and machines without loss. Values are
//! microseconds with three digits, from 1 µs to 120 s.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};

use crate::qoe::Qoe;
use crate::sequence::Found;

const LONGEST: u64 = 120_000_000;
const DIGITS: u8 = 3;

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A playlist.
    Playlist,
    /// An initialisation section.
    Init,
    /// A segment.
    Segment,
    /// A request of its own.
    Request,
    /// A subscription, up to its head.
    Subscribe,
    /// An event, from its publication on.
    Event,
    /// A completion, up to its first token.
    FirstToken,
    /// A token, from the one before on.
    Token,
}

const CLASSES: [Class; 8] = [
    Class::Playlist,
    Class::Init,
    Class::Segment,
    Class::Request,
    Class::Subscribe,
    Class::Event,
    Class::FirstToken,
    Class::Token,
];

/// When the parts of an exchange were.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// When the request was to be sent.
    pub due: Instant,
    /// When it was.
    pub sent: Instant,
    /// When the head of the response arrived.
    pub first: Instant,
    /// When the body had arrived.
    pub done: Instant,
}

/// Values and how often each occurred.
pub type Counts = Vec<(u64, u64)>;

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("the bounds are constants")
}

fn counts(histogram: &Histogram<u64>) -> Counts {
    histogram
        .iter_recorded()
        .map(|each| (each.value_iterated_to(), each.count_since_last_iteration()))
        .collect()
}

fn add(histogram: &mut Histogram<u64>, time: Duration) {
    histogram.saturating_record(u64::try_from(time.as_micros()).unwrap_or(LONGEST).clamp(1, LONGEST));
}

/// The requests of a class.
#[derive(Debug)]
struct Requests {
    /// From due to done, in the second that lasts.
    current: Histogram<u64>,
    seconds: Vec<(u64, Counts)>,
    due: Histogram<u64>,
    sent: Histogram<u64>,
    first: Histogram<u64>,
    bytes: u64,
}

/// The requests of a class, at the end.
#[derive(Debug, Serialize)]
pub struct ClassRecord {
    /// Which.
    pub class: Class,
    /// Bytes of bodies.
    pub bytes: u64,
    /// From when a request was due to the end of its response.
    pub due: Counts,
    /// From when it was sent.
    pub sent: Counts,
    /// From when it was sent to the head of its response.
    pub first: Counts,
    /// As `due`, by the second in which the response ended.
    pub seconds: Vec<(u64, Counts)>,
}

/// Counts at the end of a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Second {
    /// Seconds since the start.
    pub at: u64,
    /// Sessions.
    pub active: u64,
    /// Sessions that began so far.
    pub started: u64,
    /// Responses so far.
    pub requests: u64,
    /// Bytes so far.
    pub bytes: u64,
    /// Failed requests so far.
    pub errors: u64,
}

/// A session, at its end.
#[derive(Debug, Clone, Serialize)]
pub struct SessionRecord {
    /// The workload's index.
    pub workload: usize,
    /// From 0 on, over all machines.
    pub index: u64,
    /// Its title.
    pub title: usize,
    /// When it arrived, in seconds.
    pub arrived: f64,
    /// Seconds that it lasted.
    pub lasted: f64,
    /// `completed`, `left`, `gave_up` before the first frame, `failed`, or `cut` by the end of the run.
    pub ended: &'static str,
    /// Why it failed.
    pub cause: Option<String>,
    /// Which of the networks of its workload it has.
    pub network: Option<usize>,
    /// What the viewer experienced, at the end: while a session runs, its player has it.
    #[serde(serialize_with = "figures")]
    pub qoe: Option<Box<Qoe>>,
    /// What was found in its events.
    pub events: Option<Found>,
    /// Time, seconds in the buffer and rendition, of a sampled session.
    pub ribbon: Vec<(f64, f64, usize)>,
}

#[expect(clippy::ref_option, reason = "serde calls it so")]
fn figures<S: Serializer>(qoe: &Option<Box<Qoe>>, serializer: S) -> Result<S::Ok, S::Error> {
    match qoe {
        Some(qoe) => qoe.serialize(serializer),
        None => Qoe::default().serialize(serializer),
    }
}

/// Counts that others may read while threads run.
#[derive(Debug, Default)]
pub struct Live {
    /// Sessions that began.
    pub started: AtomicU64,
    /// Sessions that ended.
    pub ended: AtomicU64,
    /// Arrivals for which there was no place.
    pub dropped: AtomicU64,
    /// Responses.
    pub requests: AtomicU64,
    /// Bytes of bodies.
    pub bytes: AtomicU64,
    /// Requests that failed.
    pub errors: AtomicU64,
}

/// Adds to a count.
pub(crate) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

/// Reads a count.
pub(crate) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// The records of a thread.
#[derive(Debug)]
pub(crate) struct Recorder {
    start: Instant,
    second: u64,
    classes: Vec<Requests>,
    errors: BTreeMap<(Class, String), u64>,
    seconds: Vec<Second>,
    lateness: Histogram<u64>,
    pub(crate) sessions: Vec<SessionRecord>,
}

/// What a thread recorded.
#[derive(Debug, Serialize)]
pub struct Records {
    /// The classes that had requests.
    pub classes: Vec<ClassRecord>,
    /// Class, cause and count.
    pub errors: Vec<(Class, String, u64)>,
    /// One row a second.
    pub seconds: Vec<Second>,
    /// How much later than intended the thread's timers fired, in microseconds.
    pub lateness: Counts,
    /// In the order of their ends.
    pub sessions: Vec<SessionRecord>,
    /// Processor time of the thread, in seconds.
    pub cpu: f64,
    /// Seconds that it ran.
    pub wall: f64,
    /// Arrivals for which there was no place.
    pub dropped: u64,
}

impl Records {
    /// As JSON.
    ///
    /// # Errors
    /// A value has no form in JSON, in words.
    pub fn to_json(records: &[Self]) -> Result<String, String> {
        serde_json::to_string(records).map_err(|error| format!("records cannot be written: {error}"))
    }
}

impl Recorder {
    pub(crate) fn new(start: Instant) -> Self {
        let requests = || Requests {
            current: histogram(),
            seconds: Vec::new(),
            due: histogram(),
            sent: histogram(),
            first: histogram(),
            bytes: 0,
        };
        Self {
            start,
            second: 0,
            classes: CLASSES.iter().map(|_| requests()).collect(),
            errors: BTreeMap::new(),
            seconds: Vec::new(),
            lateness: histogram(),
            sessions: Vec::new(),
        }
    }

    /// A response arrived.
    pub(crate) fn response(&mut self, class: Class, timing: Timing, bytes: u64) {
        self.turn(timing.done);
        let requests = &mut self.classes[class as usize];
        let latency = timing.done.saturating_duration_since(timing.due);
        add(&mut requests.current, latency);
        add(&mut requests.due, latency);
        add(&mut requests.sent, timing.done.saturating_duration_since(timing.sent));
        add(&mut requests.first, timing.first.saturating_duration_since(timing.sent));
        requests.bytes += bytes;
    }

    /// A request failed.
    pub(crate) fn failure(&mut self, class: Class, cause: String) {
        *self.errors.entry((class, cause)).or_default() += 1;
    }

    /// A timer fired so much later than it was to.
    pub(crate) fn late(&mut self, by: Duration) {
        add(&mut self.lateness, by);
    }

    /// Counts of this second.
    pub(crate) fn tick(&mut self, now: Instant, counts: Second) {
        let at = now.saturating_duration_since(self.start).as_secs();
        self.seconds.push(Second { at, ..counts });
    }

    /// Closes the histograms of the seconds before `now`.
    fn turn(&mut self, now: Instant) {
        let second = now.saturating_duration_since(self.start).as_secs();
        if second <= self.second {
            return;
        }
        for requests in &mut self.classes {
            if !requests.current.is_empty() {
                requests.seconds.push((self.second, counts(&requests.current)));
                requests.current.reset();
            }
        }
        self.second = second;
    }

    pub(crate) fn finish(mut self, cpu: f64, wall: f64, dropped: u64) -> Records {
        self.turn(self.start + Duration::from_secs(self.second + 1));
        let classes = CLASSES.into_iter().zip(self.classes).filter(|(_, requests)| !requests.due.is_empty());
        let classes = classes.map(|(class, requests)| ClassRecord {
            class,
            bytes: requests.bytes,
            due: counts(&requests.due),
            sent: counts(&requests.sent),
            first: counts(&requests.first),
            seconds: requests.seconds,
        });
        Records {
            classes: classes.collect(),
            errors: self.errors.into_iter().map(|((class, cause), count)| (class, cause, count)).collect(),
            seconds: self.seconds,
            lateness: counts(&self.lateness),
            sessions: self.sessions,
            cpu,
            wall,
            dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seconds_of_a_class_add_up_to_the_whole() {
        let start = Instant::now();
        let mut recorder = Recorder::new(start);
        for at in 0..500u64 {
            let due = start + Duration::from_millis(at * 10);
            let timing = Timing {
                due,
                sent: due + Duration::from_micros(at),
                first: due,
                done: due + Duration::from_millis(at),
            };
            recorder.response(Class::Segment, timing, 3);
        }
        let records = recorder.finish(0.0, 5.0, 0);
        let [class] = &records.classes[..] else { panic!("one class") };
        let mut added: BTreeMap<u64, u64> = BTreeMap::new();
        for (value, count) in class.seconds.iter().flat_map(|(_, counts)| counts) {
            *added.entry(*value).or_default() += count;
        }
        assert!(class.seconds.len() >= 5);
        assert_eq!(added.into_iter().collect::<Counts>(), class.due);
        assert_eq!((class.class, class.bytes), (Class::Segment, 1500));
    }

    #[test]
    fn what_is_longer_than_the_longest_counts_as_the_longest() {
        let mut histogram = histogram();
        add(&mut histogram, Duration::from_secs(9999));
        add(&mut histogram, Duration::ZERO);
        let found = counts(&histogram);
        assert_eq!(found[0], (1, 1));
        assert!(found[1].0 >= LONGEST && found[1].1 == 1);
    }
}
