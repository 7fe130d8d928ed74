//! A request for events, and what has come of it, held against what the origin has told.

use std::time::Duration;

use tokio::time::Instant;

use super::origin::{Told, World};
use super::plan::{Ends, Route};
use super::seen::{Seen, tail_of};
use crate::edge::simulation::http::Message;
use crate::edge::simulation::rig::{HEARTBEAT, IDLE};
use crate::simulation::{Trace, Verdict, hold};

/// What a client gets later than it should, the network takes.
const SLACK: Duration = Duration::from_secs(3);

/// One request, and the stream that answers it.
pub(in crate::edge::simulation) struct Subscription {
    pub(in crate::edge::simulation) number: usize,
    route: Route,
    /// Its client cannot tell a good end from a bad one, unless that is a reset.
    is_old: bool,
    /// Its client has not always read.
    pub(in crate::edge::simulation) has_stalled: bool,
    seen: Seen,
    /// The stream of the origin that it is sent.
    stream: Option<usize>,
    /// When something has come.
    fresh: Instant,
    over: Option<Over>,
}

/// How a response has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::edge::simulation) enum Over {
    Whole,
    /// Its client sees that it is not whole, and has what was sent before.
    Broken,
    /// What was on its way may be lost.
    Reset,
}

impl Subscription {
    pub(in crate::edge::simulation) fn new(number: usize, route: Route, is_old: bool) -> Self {
        Self {
            number,
            route,
            is_old,
            has_stalled: false,
            seen: Seen::default(),
            stream: None,
            fresh: Instant::now(),
            over: None,
        }
    }

    pub(in crate::edge::simulation) fn path(&self) -> String {
        format!("/{}/{}", self.route.name(), self.number)
    }

    /// Whether its client has been sent all that it will be.
    pub(in crate::edge::simulation) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Whether the stream has begun to come.
    pub(in crate::edge::simulation) fn has_begun(&self) -> bool {
        self.stream.is_some()
    }

    /// Whether the origin has not come to the end of the stream that its client is sent.
    pub(super) fn is_told_more(&self, world: &World) -> bool {
        !self.is_over() && self.stream.is_some_and(|stream| !world.told[stream].is_over)
    }

    /// Looks at the response as far as it has come, which is `over` if it has an end.
    pub(in crate::edge::simulation) fn look(
        &mut self,
        response: Option<&Message>,
        over: Option<Over>,
        world: &World,
        trace: &mut Trace,
    ) -> Verdict {
        self.fresh = Instant::now();
        self.over = over;
        let number = self.number;
        let Some(response) = response else {
            if let Some(over) = over {
                trace.note(format_args!("request {number} is not answered: {over:?}"));
            }
            return Ok(());
        };
        if response.status() != 200 {
            hold!(response.status() >= 500, "request {number} got {}", response.status());
            if self.is_over() {
                trace.note(format_args!("request {number} is refused by {}", response.status()));
            }
            return Ok(());
        }
        let told = self.judge(response, world)?;
        match over {
            None => return Ok(()),
            Some(Over::Whole) => self.judge_whole(told, world)?,
            Some(over) => self.judge_broken(over, told, world)?,
        }
        self.tell(told, world, trace);
        Ok(())
    }

    /// What holds at any time.
    pub(in crate::edge::simulation) fn check(&self) -> Verdict {
        let is_open = self.has_begun() && !self.is_over() && !self.has_stalled;
        let silent = self.fresh.elapsed();
        hold!(
            !(is_open && self.route == Route::Beating && silent > HEARTBEAT + SLACK),
            "request {} has got nothing for {silent:?}",
            self.number
        );
        Ok(())
    }

    /// What has come is what the origin has told it, in its order, and what this route adds.
    fn judge<'a>(&mut self, response: &Message, world: &'a World) -> Result<&'a Told, String> {
        let (number, route) = (self.number, self.route);
        let stream = response.field("x-stream").and_then(|stream| stream.parse().ok());
        let stream: usize =
            stream.ok_or_else(|| format!("request {number} got a stream without a number"))?;
        let told = world.told.get(stream).filter(|told| told.request == number);
        let told = told.ok_or_else(|| format!("request {number} got stream {stream}, of another one"))?;
        self.stream = Some(stream);
        self.seen = Seen::of(&response.body, |event| told.script.event((number, stream, event)))
            .map_err(|wrong| format!("request {number}: {wrong}"))?;
        let seen = &self.seen;
        hold!(seen.beats == 0 || route == Route::Beating, "request {number} got a heartbeat");
        hold!(!seen.has_fault || route == Route::Beating, "request {number} got a fault");
        hold!(!seen.has_retry || world.is_drained, "request {number} is told when to come back");
        Ok(told)
    }

    /// A stream that is whole has all events, and ends within one only where the origin has ended it there.
    fn judge_whole(&self, told: &Told, world: &World) -> Verdict {
        let (number, seen, script) = (self.number, &self.seen, &told.script);
        if world.is_drained && !told.has_good_end() {
            hold!(seen.tail.is_empty(), "request {number} was drained within an event: {:?}", seen.tail);
            hold!(seen.has_retry, "request {number} was drained, and not told when to come back");
            return Ok(());
        }
        hold!(told.has_good_end(), "request {number} got a good end of {told:?}");
        hold!(!seen.has_fault, "request {number} got a fault and a good end");
        let (events, all) = (seen.events, script.events);
        hold!(
            events == all || world.is_drained,
            "request {number} got {events} of {all} events and a good end"
        );
        let next = script.event((number, self.stream.unwrap_or_default(), all));
        // A heartbeat may stand after a comment of the event.
        let is_part = events == all && seen.tail == tail_of(&next[..next.len() * script.part() / 1000])?;
        hold!(seen.tail.is_empty() || is_part, "request {number} got {:?} and a good end", seen.tail);
        hold!(world.is_drained || is_part, "request {number} has lost a part of the last event");
        Ok(())
    }

    /// What is broken off ends after an event, unless it is reset, which is only for clients that could take it for whole, or that
    /// have not read. The drain breaks nothing off.
    fn judge_broken(&self, over: Over, told: &Told, world: &World) -> Verdict {
        let (number, seen) = (self.number, &self.seen);
        if self.has_stalled || world.is_closed {
            return Ok(());
        }
        let (is_well, may_idle) = (told.has_good_end(), self.may_idle(told));
        hold!(!is_well || may_idle, "request {number} got no good end of a stream that has one: {over:?}");
        let is_silent = seen.has_fault && matches!(told.script.ends, Ends::Stall(_));
        hold!(!world.is_drained || is_silent, "event stream {number} was broken off by the drain");
        if over == Over::Reset {
            hold!(self.is_old, "request {number} was reset after {} events", seen.events);
            return Ok(());
        }
        hold!(seen.tail.is_empty(), "request {number} ends within an event: {:?}", seen.tail);
        let is_told = self.route == Route::Quiet || seen.has_fault;
        hold!(is_told, "request {number} was not told of the failure");
        let is_cut = told.is_over && matches!(told.script.ends, Ends::Cut(_)) && !may_idle;
        hold!(
            !is_cut || seen.events == told.events,
            "request {number} got {} of {} events",
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
        let how = match self.over {
            Some(Over::Whole) if world.is_drained && !told.has_good_end() => "drained",
            Some(Over::Whole) => "whole",
            Some(Over::Broken) => "broken off",
            _ => "reset",
        };
        let within = if self.seen.tail.is_empty() { "" } else { ", within an event" };
        let fault = if has_fault { ", with a fault" } else { "" };
        trace.note(format_args!(
            "request {} is {how}{within}{fault}: {events} events, {beats} heartbeats",
            self.number
        ));
    }

    /// When nothing is on its way any more: what the origin has told is here.
    pub(in crate::edge::simulation) fn check_rest(&self, world: &World) -> Verdict {
        let Some(told) = self.stream.map(|stream| &world.told[stream]) else { return Ok(()) };
        if self.has_stalled || world.is_drained || self.may_idle(told) {
            return Ok(());
        }
        let (number, seen) = (self.number, &self.seen);
        hold!(
            self.over == Some(Over::Whole) || !told.has_good_end(),
            "request {number} has no good end of a stream that has one"
        );
        hold!(
            self.is_over() || seen.events == told.events,
            "request {number} is held back events: {} of {}",
            seen.events,
            told.events
        );
        Ok(())
    }
}
