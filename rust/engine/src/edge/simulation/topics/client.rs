//! A client that subscribes to topics, and comes back with the id of its last event.

use super::plan::{Route, TOPICS};
use crate::edge::simulation::http::{self, Message, Parsed};
use crate::edge::simulation::link::Link;
use crate::hub::model::{Block, Follower, Written, blocks, newest};
use crate::hub::{Id, Slow};
use crate::net::simulated::End;
use crate::simulation::{Trace, Verdict, hold};

/// A client, and its connection if it has one.
#[derive(Default)]
pub(super) struct Client {
    /// The id of the last event of each topic.
    last: [Option<String>; TOPICS],
    subscribed: Option<Subscribed>,
}

/// A connection with one response.
struct Subscribed {
    link: Link,
    number: usize,
    route: Route,
    topic: usize,
    after: Option<String>,
    got: Vec<u8>,
    /// It has not always read.
    has_stalled: bool,
    /// The newest event when it asked.
    newest: Id,
    follower: Option<Follower>,
    /// Bytes of the body that were looked at.
    seen: usize,
    is_over: bool,
}

impl Client {
    /// Asks on a new connection, `after` what it has had last or something else.
    pub(super) fn subscribe(
        &mut self,
        (number, end): (usize, End),
        route: Route,
        topic: usize,
        after: Option<String>,
        written: &[Written],
    ) {
        let mut link = Link::new(end);
        let field = after.as_ref().map(|after| format!("Last-Event-ID: {after}\r\n")).unwrap_or_default();
        let head = format!("GET /{}/{topic} HTTP/1.1\r\nHost: edge.test\r\n{field}\r\n", route.name());
        link.push(head.into_bytes());
        self.subscribed = Some(Subscribed {
            link,
            number,
            route,
            topic,
            after,
            got: Vec::new(),
            has_stalled: false,
            newest: newest(written, topic),
            follower: None,
            seen: 0,
            is_over: false,
        });
    }

    /// The id of the last event that it has had of `topic`.
    pub(super) fn last(&self, topic: usize) -> Option<String> {
        self.last[topic].clone()
    }

    pub(super) fn read(&mut self, reads: bool) {
        if let Some(subscribed) = &mut self.subscribed {
            subscribed.link.reads = reads;
            subscribed.has_stalled |= !reads;
        }
    }

    /// Leaves, with a reset or an orderly end.
    pub(super) fn leave(&mut self, resets: bool) {
        if let Some(subscribed) = self.subscribed.take() {
            subscribed.link.leave(resets);
        }
    }

    /// Sends and reads what can be, and holds what has come against what was published.
    pub(super) fn go_on(&mut self, written: &[Written], trace: &mut Trace) -> Verdict {
        let Some(subscribed) = self.subscribed.as_mut().filter(|subscribed| !subscribed.is_over) else {
            return Ok(());
        };
        let before = subscribed.got.len();
        subscribed.link.send();
        while let Some(bytes) = subscribed.link.receive() {
            subscribed.got.extend(bytes);
        }
        if subscribed.got.len() > before || subscribed.link.ended.is_some() {
            subscribed.look(&mut self.last, written, trace)?;
        }
        Ok(())
    }

    /// When nothing is on its way any more.
    pub(super) fn check_rest(&self, written: &[Written], is_there: bool) -> Verdict {
        let Some(subscribed) = self.subscribed.as_ref().filter(|subscribed| !subscribed.is_over) else {
            return Ok(());
        };
        let number = subscribed.number;
        let follower = subscribed.follower.as_ref();
        let follower = follower.ok_or_else(|| format!("subscription {number} has no answer at rest"))?;
        let newest = newest(written, subscribed.topic);
        hold!(
            !is_there || follower.place.is_some_and(|place| place >= newest),
            "subscription {number} has {:?} at rest, of {newest}",
            follower.place
        );
        Ok(())
    }

    /// The topic that it subscribes to.
    pub(super) fn topic(&self) -> Option<usize> {
        self.subscribed.as_ref().map(|subscribed| subscribed.topic)
    }
}

impl Subscribed {
    fn look(
        &mut self,
        last: &mut [Option<String>; TOPICS],
        written: &[Written],
        trace: &mut Trace,
    ) -> Verdict {
        let (number, ended) = (self.number, self.link.ended);
        let (message, is_whole) = match http::response(&self.got, true, false)? {
            Parsed::Nothing => (None, false),
            Parsed::Part(message) => (Some(message), false),
            Parsed::Whole(message, _) => (Some(message), true),
        };
        self.is_over = is_whole || ended.is_some();
        let Some(message) = message else {
            hold!(!self.is_over || self.has_stalled, "subscription {number} is not answered: {ended:?}");
            return Ok(());
        };
        match message.status() {
            200 => {}
            204 => return self.judge_no_more(trace),
            status => return Err(format!("subscription {number} got {status}")),
        }
        if self.follower.is_none() {
            self.follower = Some(self.begin(&message, written, trace)?);
        }
        let Some(follower) = &mut self.follower else { return Ok(()) };
        let (found, length) = blocks(&message.body[self.seen..]);
        self.seen += length;
        for block in found {
            trace.note(format_args!("subscription {number} gets {}", block.told()));
            if let Some(id) = &block.id {
                last[self.topic] = Some(id.clone());
            }
            follower.take(&block, written).map_err(|wrong| format!("subscription {number} {wrong}"))?;
        }
        if self.is_over {
            let tail = &message.body[self.seen..];
            self.judge_end(is_whole, tail, trace)?;
        }
        Ok(())
    }

    /// What it follows from when the head has come.
    fn begin(&self, message: &Message, written: &[Written], trace: &mut Trace) -> Result<Follower, String> {
        let word = message.field("penstock-resume");
        trace.note(format_args!("subscription {} begins: {word:?} after {:?}", self.number, self.after));
        let (number, after) = (self.number, &self.after);
        hold!(word.is_some() == after.is_some(), "subscription {number} after {after:?} is {word:?}");
        let id: Option<Id> = after.as_ref().and_then(|after| after.parse().ok());
        hold!(
            word != Some("full") || id.is_some(),
            "subscription {number} after {after:?} is said to be full"
        );
        let mut follower = Follower::new(self.topic, self.route.terms().slow, id);
        if after.is_none() {
            // What is published from now on it gets; of what was before, a part.
            follower.place = Some(newest(written, self.topic));
            follower.last = Id::default();
        }
        Ok(follower)
    }

    fn judge_no_more(&mut self, trace: &mut Trace) -> Verdict {
        let Self { number, after, newest, .. } = self;
        trace.note(format_args!("subscription {number} is over before it begins"));
        self.is_over = true;
        let id: Option<Id> = after.as_ref().and_then(|after| after.parse().ok());
        let has_all = after.is_none() || id.is_some_and(|id| id >= *newest);
        hold!(has_all, "subscription {number} after {after:?} is told that this is all, of {newest}");
        Ok(())
    }

    /// A response ends after a whole event, and for a reason.
    fn judge_end(&self, is_whole: bool, tail: &[u8], trace: &mut Trace) -> Verdict {
        let (number, ended) = (self.number, self.link.ended);
        let is_told = self.follower.as_ref().is_some_and(|follower| follower.is_told_of_end);
        let how = if is_whole { "whole" } else { "broken off" };
        trace.note(format_args!("subscription {number} ends: {how}, told {is_told}, {ended:?}"));
        let text = String::from_utf8_lossy(tail);
        hold!(!is_whole || tail.is_empty(), "subscription {number} has a good end within an event: {text:?}");
        hold!(is_whole || self.has_stalled, "subscription {number} is broken off: {ended:?}");
        let may_be_cut = matches!(self.route.terms().slow, Slow::Disconnect { .. });
        hold!(is_told || may_be_cut || self.has_stalled, "subscription {number} has ended without a reason");
        Ok(())
    }
}

impl Block {
    /// For the trace.
    fn told(&self) -> String {
        format!("{:?} {:?}, {} bytes", self.id, self.kind, self.data.len())
    }
}
