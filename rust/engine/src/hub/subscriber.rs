//! One subscriber, as the body of a response: what the topic has from its place on, then what comes.
//!
//! It keeps to the order of the log, and where it cannot it says so in the stream before it goes on, or ends behind a whole
//! event. Polled on the engine thread whose row it has its seat in.

use std::task::{Context, Poll, Waker};

use super::Slow;
use super::admitted::{Admitted, Member, Wire};
use super::budget::Charge;
use super::encode::{end, framed, gap, place};
use super::lease::{Lease, Watched};
use super::log::{Found, Name, Run};
use super::topic::{Phase, Rest, Row, Seat, Times, Topic, Turn};
use crate::error::{Code, Result};
use crate::events::HEARTBEAT;
use crate::net::{Payload, Source};
use crate::sync::Arc;
use crate::takeover::streams::{Place, Resting};
use crate::work::{Work, doing};

/// Bytes that wait to be sent, beyond which no more of the history is taken: one full slab that events share.
const MOST: usize = 64 * 1024;

/// A subscriber of a topic.
#[derive(Debug)]
pub(crate) struct Subscriber {
    member: Member,
    seat: Seat,
    /// The number of the event that it gets next.
    place: u64,
    slow: Slow,
    chunked: bool,
    /// What is sent before all else.
    text: Option<Vec<u8>>,
    /// What the last event that it was given is called, if it had one.
    last: Option<Name>,
    /// How long it may go on, if its authoriser says so meanwhile.
    lease: Option<Watched>,
    /// It has once had all that there was.
    has_caught_up: bool,
    is_over: bool,
    /// Bytes that it may still be given, once it is to end.
    left: usize,
    /// What is taken of the hub's memory by what has not been sent.
    held: Vec<Arc<Charge>>,
}

impl Admitted {
    /// Has the calling engine thread serve it, until `lease` has run out if there is one.
    pub(crate) fn seat(self, wire: Wire, lease: Option<Lease>) -> Subscriber {
        let Self { member, place, terms, opening, last, .. } = self;
        let Wire { chunked, express } = wire;
        let times = Times { heartbeat: terms.heartbeat, most: terms.max_age };
        let seat = Row::seat(&member.topic, express, times);
        Subscriber {
            member,
            seat,
            place,
            slow: terms.slow,
            chunked,
            text: Some(framed(opening, chunked)).filter(|text| !text.is_empty()),
            last,
            lease: lease.map(Watched::new),
            has_caught_up: false,
            is_over: false,
            left: MOST,
            held: Vec::new(),
        }
    }
}

impl Subscriber {
    fn topic(&self) -> &Topic {
        &self.member.topic
    }

    /// Goes on where the row has left off; what that has begun to write, and not written.
    fn take_over(&mut self) -> Option<Payload> {
        let Turn { place, last, rest, beats, ends } = self.seat.take_over();
        self.place = place.unwrap_or(self.place);
        if last.is_some() {
            self.last = last;
        }
        self.is_over |= ends;
        if beats {
            return Some(self.say(HEARTBEAT.to_owned()));
        }
        rest.map(|rest| {
            let Rest { bytes, charge } = *rest;
            self.held.extend(charge);
            bytes
        })
    }

    /// What there is next, but for what this subscriber says itself.
    fn poll_read(&mut self, context: &Context<'_>) -> Poll<Option<Payload>> {
        let conflate = self.slow == Slow::NewestPerKey;
        let mut waits = false;
        loop {
            match self.topic().read(self.place, self.chunked, conflate) {
                (_, Phase::Gone) => return self.end(),
                (Found::Run(run), _) if self.keeps_up() => return Poll::Ready(Some(self.take(run))),
                (Found::Run(_), _) => return self.cut_off(),
                (Found::Evicted, _) if matches!(self.slow, Slow::Disconnect { .. }) => {
                    return self.cut_off();
                }
                (Found::Evicted, _) => return Poll::Ready(Some(self.skip())),
                (Found::Nothing, Phase::Finished(_)) => {
                    self.is_over = true;
                    return Poll::Ready(Some(self.say(end(&self.topic().last_name()))));
                }
                (Found::Nothing, _) if waits => return Poll::Pending,
                (Found::Nothing, _) => {
                    self.has_caught_up = true;
                    // Before the next look, so that what comes between the two is met by one of them.
                    self.seat.wait(context);
                    waits = true;
                }
            }
        }
    }

    /// Whether what waits for it is within what may. To come back for much is not to be slow.
    fn keeps_up(&self) -> bool {
        match self.slow {
            Slow::Disconnect { behind: Some(most) } if self.has_caught_up => {
                self.topic().behind(self.place) <= most
            }
            _ => true,
        }
    }

    fn take(&mut self, run: Run) -> Payload {
        self.place = run.next;
        self.last = Some(run.last);
        self.topic().counts.delivered.add(run.events);
        self.topic().counts.conflated.add(run.conflated);
        self.held.push(run.charge);
        Payload::Kept(run.bytes)
    }

    fn skip(&mut self) -> Payload {
        let (first, resumed) = self.topic().oldest();
        self.topic().counts.gaps.add(1);
        self.topic().counts.dropped.add(first - self.place);
        self.place = first;
        let had = self.last.take().map(|last| last.to_string());
        let text = gap(had.as_deref(), &resumed);
        self.last = Some(Name::Own(resumed.into()));
        self.say(text)
    }

    fn say(&self, text: String) -> Payload {
        Payload::Text(framed(text, self.chunked))
    }

    fn cut_off(&mut self) -> Poll<Option<Payload>> {
        self.topic().counts.slow.add(1);
        self.end()
    }

    fn end(&mut self) -> Poll<Option<Payload>> {
        self.is_over = true;
        Poll::Ready(None)
    }
}

impl Source for Subscriber {
    fn poll_next(&mut self, context: &mut Context<'_>, held: usize) -> Poll<Option<Result<Payload>>> {
        let _doing = doing(Work::Hub);
        if held == 0 {
            self.held.clear();
        }
        if self.lease.as_mut().is_some_and(|lease| lease.is_over(context)) {
            self.lease = None;
            self.is_over = true;
        }
        if let Some(rest) = self.take_over() {
            return Poll::Ready(Some(Ok(rest)));
        }
        if let Some(text) = self.text.take() {
            return Poll::Ready(Some(Ok(Payload::Text(text))));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        if held >= MOST {
            let detail = "what waits for the subscriber has to be sent first";
            return Poll::Ready(Some(Err(Code::WindowHeld.error(detail))));
        }
        self.poll_read(context).map(|payload| payload.map(Ok))
    }

    fn at_rest(&mut self) -> Option<Resting> {
        if self.text.is_some() || self.is_over || self.lease.is_some() || !self.seat.is_whole() {
            return None;
        }
        // From here on the row does not write: what is published is written by this subscriber's task, if it goes on here.
        self.take_over();
        let id = self.topic().id_before(self.place)?.to_string();
        Some(Resting::Place(Place { id, has_had: self.last.is_some() }))
    }

    fn idle(&mut self) {
        self.held = Vec::new();
        self.seat.rest(self.place);
    }

    fn aside(&self) -> u64 {
        self.seat.written()
    }

    fn rest(&mut self) -> Option<Payload> {
        self.take_over()
    }

    /// What was published before the end. One that has had no event is told the id to come back with.
    fn last(&mut self) -> Option<Payload> {
        let mut context = Context::from_waker(Waker::noop());
        if self.lease.as_mut().is_some_and(|lease| lease.is_over(&mut context)) {
            self.lease = None;
            self.is_over = true;
        }
        if let Some(text) = self.text.take() {
            return Some(Payload::Text(text));
        }
        if !self.is_over && self.left > 0 {
            if let Poll::Ready(Some(payload)) = self.poll_read(&context) {
                self.left = self.left.saturating_sub(payload.len());
                return Some(payload);
            }
            self.is_over = true;
            if self.last.is_none() {
                return self.topic().name_before(self.place).map(|name| self.say(place(&name)));
            }
        }
        self.is_over = true;
        None
    }
}
