//! Shared by the tests: a policy, messages written as text, and a cache of one key without bodies.

mod conditions;
mod control;
mod decisions;
mod freshness;
mod keys;
mod parsers;
mod partial;
mod plain;
mod reference;
mod storing;
mod updates;
mod vary;

use std::time::Duration;

use super::*;
use penstock_http::wire::list::{Lines, elements, values};
use penstock_http::wire::{ContentRange, EntityTag, Fields, Multipart, Ranges, Selected, Span, Spans};

/// Sun, 06 Nov 1994 08:49:37 GMT.
pub(super) const START: u64 = 784_111_777;

pub(super) const TARGET: Target<'static> =
    Target { scheme: "http", authority: "media.test", path: "/live/1.m4s?a=1" };

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// So many seconds after the start.
pub(super) fn at(offset: u64) -> Time {
    Time::from_secs(START + offset)
}

/// The date so many seconds after the start.
pub(super) fn date(offset: i64) -> String {
    Time::from_secs(START.saturating_add_signed(offset)).to_string()
}

pub(super) fn policy() -> Policy {
    Policy {
        name: "penstock".to_owned(),
        targets: vec!["penstock-cache-control".to_owned(), "cdn-cache-control".to_owned()],
        lifetime: None,
        heuristic_percent: 10,
        heuristic_max: seconds(86_400),
        negative: Duration::ZERO,
        stale_while_revalidate: Duration::ZERO,
        stale_if_error: Duration::ZERO,
        store_cookies: Cookies::Explicit,
        clients_may_refresh: true,
        languages: Languages::Preferred,
        range_fill: RangeFill::Asked,
        max_ranges: 8,
    }
}

/// The fields of a message, one a line; `{n}` is the date n seconds after the start.
pub(super) struct Text(Fields);

impl Text {
    pub(super) fn new(text: &str) -> Self {
        let mut fields = Fields::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').expect("a field");
            fields.push(name.as_bytes(), dates(value.trim()).as_bytes());
        }
        Self(fields)
    }

    pub(super) fn lines(&self) -> Vec<(&[u8], &[u8])> {
        self.0.iter().collect()
    }
}

fn dates(value: &str) -> String {
    let Some((before, rest)) = value.split_once('{') else { return value.to_owned() };
    let (offset, after) = rest.split_once('}').expect("a closing brace");
    format!("{before}{}{after}", date(offset.parse().expect("a number")))
}

/// A cache with the heads of one key.
pub(super) struct Cache {
    pub(super) policy: Policy,
    pub(super) held: Vec<Stored>,
    pub(super) now: Time,
}

/// The result of an exchange.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Became {
    Stored,
    Updated,
    UpdatedOnce,
    Extended,
    Stale,
    Refetch,
    Passed(Refusal),
}

impl Cache {
    pub(super) fn new() -> Self {
        Self { policy: policy(), held: Vec::new(), now: at(0) }
    }

    pub(super) fn with(change: impl FnOnce(&mut Policy)) -> Self {
        let mut cache = Self::new();
        change(&mut cache.policy);
        cache
    }

    /// A cache that has fetched one response, at the start.
    pub(super) fn holding(response: &str) -> Self {
        let mut cache = Self::new();
        assert_eq!(cache.fetch("", 200, response), Became::Stored, "{response:?}");
        cache
    }

    pub(super) fn after(mut self, offset: u64) -> Self {
        self.now = at(offset);
        self
    }

    pub(super) fn decide(&self, method: &str, request: &str) -> Decision {
        let text = Text::new(request);
        let lines = text.lines();
        let request = Request::read(method, TARGET, &lines);
        let held: Vec<_> = self.held.iter().collect();
        let each = decide(&request, &Candidates { all: &held, variants: None }, &self.policy, self.now);
        let found = Variants::of(self.held.iter());
        let found = Candidates { all: &held, variants: Some(&found) };
        assert_eq!(decide(&request, &found, &self.policy, self.now), each, "found by hash");
        each
    }

    pub(super) fn get(&self, request: &str) -> Decision {
        self.decide("GET", request)
    }

    /// Sends the request that a decision needs to the origin, and applies the answer.
    pub(super) fn fetch(&mut self, request: &str, status: u16, response: &str) -> Became {
        self.exchange("GET", request, status, response)
    }

    pub(super) fn exchange(&mut self, method: &str, request: &str, status: u16, response: &str) -> Became {
        let decision = self.decide(method, request);
        let (request, response) = (Text::new(request), Text::new(response));
        let (request, lines) = (request.lines(), response.lines());
        let request = Request::read(method, TARGET, &request);
        let held: Vec<_> = self.held.iter().collect();
        let candidates = Candidates { all: &held, variants: None };
        let (asked, place) = match &decision {
            Decision::Revalidate { stored, .. } => (Asked::Validity, Some(*stored)),
            Decision::HitStale { stored, refresh: Some(fields), .. } => {
                (if fields.is_empty() { Asked::Nothing } else { Asked::Validity }, Some(*stored))
            }
            Decision::Select { among, .. } => {
                let variants = among.iter().map(|place| &held[*place].validators);
                let confirmed = confirmed(variants, &lines, self.now).filter(|_| status == 304);
                (Asked::Validity, confirmed.map(|chosen| among[chosen]))
            }
            Decision::Complete { stored, .. } => (Asked::Rest, Some(*stored)),
            Decision::Miss { stored, .. } => {
                (Asked::Nothing, stored.or(select(&request, &candidates, &self.policy)))
            }
            Decision::Bypass(_) => (Asked::Nothing, None),
            other => panic!("the origin is not asked: {other:?}"),
        };
        let timing = Timing { requested: self.now, received: self.now };
        let reply = Reply { status, lines: &lines, timing };
        let stored = place.map(|place| held[place]);
        let outcome = answered(&request, asked, stored, reply, &self.policy, self.now);
        let mut put = |stored: Stored| match place {
            Some(place) => self.held[place] = stored,
            None => self.held.push(stored),
        };
        match outcome {
            Outcome::Store { mut stored, span } => {
                if let (Content::Parts(present, _), Some(span)) = (&mut stored.content, span) {
                    present.insert(span);
                }
                put(*stored);
                Became::Stored
            }
            Outcome::Update { stored, dropped: None } => {
                put(*stored);
                Became::Updated
            }
            Outcome::Update { dropped: Some(_), .. } => {
                self.held.remove(place.expect("it was there"));
                Became::UpdatedOnce
            }
            Outcome::Extend { mut stored, span } => {
                let Content::Parts(present, _) = &mut stored.content else { panic!("parts") };
                present.insert(span);
                put(*stored);
                Became::Extended
            }
            Outcome::ServeStale => Became::Stale,
            Outcome::Refetch => Became::Refetch,
            Outcome::Pass { refusal, held, .. } => {
                match (held, place) {
                    (Held::Dropped, Some(place)) => drop(self.held.remove(place)),
                    (Held::Stale, Some(place)) => self.held[place].freshness.expire(self.now),
                    _ => {}
                }
                Became::Passed(refusal)
            }
        }
    }

    /// The value of a stored field.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        let lines: Vec<_> = self.held[0].fields.iter().collect();
        let values: Vec<_> = values(&lines, name).collect();
        (!values.is_empty()).then(|| String::from_utf8(values.join(b"|".as_slice())).expect("text"))
    }
}

pub(super) fn is_hit(decision: &Decision) -> bool {
    matches!(decision, Decision::Hit { .. })
}

/// The Cache-Status of a request that needs the origin.
pub(super) fn why(decision: &Decision) -> &'static str {
    match decision {
        Decision::Revalidate { why, .. } | Decision::Miss { why, .. } | Decision::Bypass(why) => why.token(),
        Decision::Begin { .. } | Decision::Complete { .. } => "partial",
        Decision::Select { .. } => "vary-miss",
        Decision::OnlyIfCached => "504",
        Decision::Hit { .. } => "hit",
        Decision::HitStale { .. } => "hit-stale",
    }
}
