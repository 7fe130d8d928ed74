//! A client that subscribes to events, and holds what comes against what the origin has told.

use std::time::Duration;

use tokio::time::Instant;

use super::origin::{Told, World};
use super::plan::{Ends, Route};
use super::seen::Seen;
use crate::edge::simulation::http::{self, Message, Parsed};
use crate::edge::simulation::link::{Ended, Link};
use crate::edge::simulation::rig::{HEARTBEAT, IDLE};
use crate::net::simulated::End;
use crate::simulation::{Trace, Verdict, hold};

/// What a client gets later than it should, the network takes.
const SLACK: Duration = Duration::from_secs(3);

/// A connection to the edge, with one stream at a time.
#[expect(clippy::struct_excessive_bools, reason = "what a connection has come to, each by itself")]
pub(in crate::edge::simulation) struct Client {
    name: usize,
    link: Link,
    request: usize,
    route: Route,
    is_old: bool,
    got: Vec<u8>,
    /// It has not always read.
    has_stalled: bool,
    /// It has all of a response.
    is_whole: bool,
    /// No other response follows on the connection.
    is_last: bool,
    seen: Seen,
    /// The stream of the origin that it is sent.
    stream: Option<usize>,
    /// When something has come.
    fresh: Instant,
}

impl Client {
    pub(in crate::edge::simulation) fn new(name: usize, end: End) -> Self {
        Self {
            name,
            link: Link::new(end),
            request: 0,
            route: Route::Quiet,
            is_old: false,
            got: Vec::new(),
            has_stalled: false,
            is_whole: true,
            is_last: false,
            seen: Seen::default(),
            stream: None,
            fresh: Instant::now(),
        }
    }

    /// Whether it may ask again on the connection.
    pub(in crate::edge::simulation) fn takes_more(&self) -> bool {
        self.is_whole && !self.is_last && self.link.ended.is_none()
    }

    /// Whether it has been sent all that it will be.
    pub(in crate::edge::simulation) fn is_over(&self) -> bool {
        self.is_whole || self.link.ended.is_some()
    }

    /// The number of what it has asked for last.
    pub(in crate::edge::simulation) fn request(&self) -> usize {
        self.request
    }

    /// Whether what has begun to come is broken off, and not for the silence of its origin.
    pub(in crate::edge::simulation) fn is_broken(&self, world: &World) -> bool {
        let Some(told) = self.stream.map(|stream| &world.told[stream]) else { return false };
        let is_silent = self.seen.has_fault && matches!(told.script.ends, Ends::Stall(_));
        self.link.ended.is_some() && !self.is_whole && !is_silent
    }

    /// Whether the stream has begun to come.
    pub(in crate::edge::simulation) fn has_begun(&self) -> bool {
        self.stream.is_some()
    }

    pub(in crate::edge::simulation) fn subscribe(&mut self, request: usize, route: Route, is_old: bool) {
        let version = if is_old { "1.0" } else { "1.1" };
        let head = format!("GET /{}/{request} HTTP/{version}\r\nHost: edge.test\r\n\r\n", route.name());
        self.link.push(head.into_bytes());
        (self.request, self.route, self.is_old) = (request, route, is_old);
        (self.is_whole, self.is_last, self.stream) = (false, is_old, None);
        self.seen = Seen::default();
        self.has_stalled = !self.link.reads;
        self.fresh = Instant::now();
    }

    pub(in crate::edge::simulation) fn read(&mut self, reads: bool) {
        self.link.reads = reads;
        self.has_stalled |= !reads;
    }

    /// Leaves, with a reset or an orderly end.
    pub(in crate::edge::simulation) fn leave(self, resets: bool) {
        self.link.leave(resets);
    }

    /// Sends and reads what can be, and holds what has come against `world`.
    pub(in crate::edge::simulation) fn go_on(&mut self, world: &World, trace: &mut Trace) -> Verdict {
        if self.link.ended.is_some() {
            return Ok(());
        }
        let before = self.got.len();
        self.link.send();
        while let Some(bytes) = self.link.receive() {
            self.got.extend(bytes);
        }
        if self.got.len() > before {
            self.fresh = Instant::now();
        }
        if self.got.len() > before || self.link.ended.is_some() {
            self.look(world, trace)?;
        }
        let is_open = self.stream.is_some() && !self.is_over() && !self.has_stalled;
        let silent = self.fresh.elapsed();
        hold!(
            !(is_open && self.route == Route::Beating && silent > HEARTBEAT + SLACK),
            "request {} has got nothing for {silent:?}",
            self.request
        );
        Ok(())
    }

    fn look(&mut self, world: &World, trace: &mut Trace) -> Verdict {
        let (name, request) = (self.name, self.request);
        if self.is_whole {
            hold!(self.got.is_empty(), "client {name} got what it has not asked for");
            trace.note(format_args!("client {name}: {:?} while it asks for nothing", self.link.ended));
            return Ok(());
        }
        let message = match http::response(&self.got, true, self.link.ended == Some(Ended::Orderly))? {
            Parsed::Nothing => None,
            Parsed::Part(message) => Some(message),
            Parsed::Whole(message, length) => {
                self.got.drain(..length);
                self.is_whole = true;
                Some(message)
            }
        };
        let Some(message) = message else {
            if self.link.ended.is_some() {
                trace.note(format_args!("request {request} is not answered: {:?}", self.link.ended));
            }
            return Ok(());
        };
        self.is_last |= message.field("connection").is_some_and(|value| value.contains("close"));
        if message.status() != 200 {
            hold!(message.status() >= 500, "request {request} got {}", message.status());
            if self.is_over() {
                trace.note(format_args!("request {request} is refused by {}", message.status()));
            }
            return Ok(());
        }
        let told = self.judge(&message, world)?;
        if self.is_whole {
            self.judge_whole(&message, told, world)?;
        } else if let Some(ended) = self.link.ended {
            self.judge_broken(ended, told, world)?;
        }
        if self.is_over() {
            self.tell(told, world, trace);
        }
        Ok(())
    }

    /// What has come is what the origin has told it, in its order, and what this route adds.
    fn judge<'a>(&mut self, message: &Message, world: &'a World) -> Result<&'a Told, String> {
        let (request, route) = (self.request, self.route);
        let stream = message.field("x-stream").and_then(|stream| stream.parse().ok());
        let stream: usize =
            stream.ok_or_else(|| format!("request {request} got a stream without a number"))?;
        let told = world.told.get(stream).filter(|told| told.request == request);
        let told = told.ok_or_else(|| format!("request {request} got stream {stream}, of another one"))?;
        self.stream = Some(stream);
        self.seen = Seen::of(&message.body, |event| told.script.event((request, stream, event)))
            .map_err(|wrong| format!("request {request}: {wrong}"))?;
        let seen = &self.seen;
        hold!(seen.beats == 0 || route == Route::Beating, "request {request} got a heartbeat");
        hold!(!seen.has_fault || route == Route::Beating, "request {request} got a fault");
        hold!(!seen.has_retry || world.is_drained, "request {request} is told when to come back");
        Ok(told)
    }

    /// A stream that is whole has all events, and ends within one only where the origin has ended it there.
    fn judge_whole(&self, message: &Message, told: &Told, world: &World) -> Verdict {
        let (request, seen, script) = (self.request, &self.seen, &told.script);
        if world.is_drained && !told.has_good_end() {
            hold!(seen.tail.is_empty(), "request {request} was drained within an event: {:?}", seen.tail);
            hold!(seen.has_retry, "request {request} was drained, and not told when to come back");
            return Ok(());
        }
        hold!(told.has_good_end(), "request {request} got a good end of {told:?}");
        hold!(!seen.has_fault, "request {request} got a fault and a good end");
        let (events, all) = (seen.events, script.events);
        hold!(
            events == all || world.is_drained,
            "request {request} got {events} of {all} events and a good end"
        );
        let next = script.event((request, self.stream.unwrap_or_default(), all));
        let part = &next.as_bytes()[..next.len() * script.part() / 1000];
        let is_part = events == all && message.body.ends_with(part);
        hold!(seen.tail.is_empty() || is_part, "request {request} got {:?} and a good end", seen.tail);
        hold!(world.is_drained || is_part, "request {request} has lost a part of the last event");
        Ok(())
    }

    /// What is broken off ends after an event, unless it is reset, which is only for clients that could take it for whole, or that
    /// have not read.
    fn judge_broken(&self, ended: Ended, told: &Told, world: &World) -> Verdict {
        let (request, seen) = (self.request, &self.seen);
        if self.has_stalled {
            return Ok(());
        }
        let (is_well, may_idle) = (told.has_good_end(), self.may_idle(told));
        hold!(!is_well || may_idle, "request {request} got no good end of a stream that has one: {ended:?}");
        if ended == Ended::Reset {
            hold!(
                self.is_old || world.is_drained,
                "request {request} was reset after {} events",
                seen.events
            );
            return Ok(());
        }
        hold!(seen.tail.is_empty(), "request {request} ends within an event: {:?}", seen.tail);
        let is_told = self.route == Route::Quiet || seen.has_fault || world.is_drained;
        hold!(is_told, "request {request} was not told of the failure");
        let is_cut = told.is_over && matches!(told.script.ends, Ends::Cut(_)) && !may_idle;
        hold!(
            !is_cut || seen.events == told.events,
            "request {request} got {} of {} events",
            seen.events,
            told.events
        );
        Ok(())
    }

    /// Whether the silence of the origin may have ended the stream.
    fn may_idle(&self, told: &Told) -> bool {
        let is_long = |(_, time)| Duration::from_millis(time) + SLACK > IDLE;
        self.route == Route::Beating && told.script.rest.is_some_and(is_long)
    }

    fn tell(&self, told: &Told, world: &World, trace: &mut Trace) {
        let Seen { events, beats, has_fault, .. } = self.seen;
        let how = match self.link.ended {
            _ if self.is_whole && world.is_drained && !told.has_good_end() => "drained",
            _ if self.is_whole => "whole",
            Some(Ended::Orderly) => "broken off",
            _ => "reset",
        };
        let within = if self.seen.tail.is_empty() { "" } else { ", within an event" };
        let fault = if has_fault { ", with a fault" } else { "" };
        trace.note(format_args!(
            "request {} is {how}{within}{fault}: {events} events, {beats} heartbeats",
            self.request
        ));
    }

    /// When nothing is on its way any more: what the origin has told is here.
    pub(in crate::edge::simulation) fn check_rest(&self, world: &World) -> Verdict {
        let Some(told) = self.stream.map(|stream| &world.told[stream]) else { return Ok(()) };
        if self.has_stalled || world.is_drained || self.may_idle(told) {
            return Ok(());
        }
        let (request, seen) = (self.request, &self.seen);
        hold!(
            self.is_whole || !told.has_good_end(),
            "request {request} has no good end of a stream that has one"
        );
        hold!(
            self.is_over() || seen.events == told.events,
            "request {request} is held back events: {} of {}",
            seen.events,
            told.events
        );
        Ok(())
    }
}
