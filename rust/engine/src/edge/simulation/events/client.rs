//! A client that subscribes to events by HTTP/1.1.

use super::origin::World;
use super::plan::Route;
use super::subscription::{Over, Subscription};
use crate::edge::simulation::http::{self, Parsed};
use crate::edge::simulation::link::{Ended, Link};
use crate::net::simulated::End;
use crate::simulation::{Trace, Verdict, hold};

/// A connection to the edge, with one stream at a time.
pub(in crate::edge::simulation) struct Client {
    name: usize,
    link: Link,
    got: Vec<u8>,
    /// No other response follows on the connection.
    is_last: bool,
    subscription: Option<Subscription>,
}

impl Client {
    pub(in crate::edge::simulation) fn new(name: usize, end: End) -> Self {
        Self { name, link: Link::new(end), got: Vec::new(), is_last: false, subscription: None }
    }

    /// Whether it may ask again on the connection.
    pub(in crate::edge::simulation) fn takes_more(&self) -> bool {
        let is_free = self.subscription.as_ref().is_none_or(Subscription::is_over);
        is_free && !self.is_last && self.link.ended.is_none()
    }

    /// What it has asked for last.
    pub(in crate::edge::simulation) fn subscription(&self) -> Option<&Subscription> {
        self.subscription.as_ref()
    }

    pub(in crate::edge::simulation) fn subscribe(&mut self, number: usize, route: Route, is_old: bool) {
        let version = if is_old { "1.0" } else { "1.1" };
        let mut subscription = Subscription::new(number, route, is_old);
        subscription.has_stalled = !self.link.reads;
        let head = format!("GET {} HTTP/{version}\r\nHost: edge.test\r\n\r\n", subscription.path());
        self.link.push(head.into_bytes());
        self.is_last = is_old;
        self.subscription = Some(subscription);
    }

    pub(in crate::edge::simulation) fn read(&mut self, reads: bool) {
        self.link.reads = reads;
        if let Some(subscription) = &mut self.subscription {
            subscription.has_stalled |= !reads;
        }
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
        if self.got.len() > before || self.link.ended.is_some() {
            self.look(world, trace)?;
        }
        self.subscription.as_ref().map_or(Ok(()), Subscription::check)
    }

    fn look(&mut self, world: &World, trace: &mut Trace) -> Verdict {
        let (name, ended) = (self.name, self.link.ended);
        let open = self.subscription.as_mut().filter(|subscription| !subscription.is_over());
        let Some(subscription) = open else {
            hold!(self.got.is_empty(), "client {name} got what it has not asked for");
            trace.note(format_args!("client {name}: {ended:?} while it asks for nothing"));
            return Ok(());
        };
        let over = ended.map(|ended| match ended {
            Ended::Orderly => Over::Broken,
            Ended::Reset => Over::Reset,
        });
        let (message, over) = match http::response(&self.got, true, ended == Some(Ended::Orderly))? {
            Parsed::Nothing => (None, over),
            Parsed::Part(message) => (Some(message), over),
            Parsed::Whole(message, length) => {
                self.got.drain(..length);
                (Some(message), Some(Over::Whole))
            }
        };
        let says_last = |value: &str| value.contains("close");
        self.is_last |=
            message.as_ref().and_then(|message| message.field("connection")).is_some_and(says_last);
        subscription.look(message.as_ref(), over, world, trace)
    }
}
