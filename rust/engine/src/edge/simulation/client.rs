//! A client: sends requests on one connection, reads what comes, and holds it against what the origins have.

use std::collections::VecDeque;

use super::http::{self, Message, Parsed};
use super::link::{Ended, Link};
use super::plan::{Route, What, body, upload};
use super::world::World;
use crate::net::simulated::End;
use crate::simulation::{Trace, Verdict, hold};

/// A request that has not been answered to the end.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) number: usize,
    pub(super) route: Route,
    pub(super) key: usize,
    pub(super) what: What,
}

/// A connection to the edge.
pub(super) struct Client {
    name: usize,
    pub(super) link: Link,
    pub(super) asked: VecDeque<Asked>,
    got: Vec<u8>,
    /// The last response has been asked for, or the edge has said so.
    is_last: bool,
    /// The numbers of requests that were not answered, and of answers that promise another one.
    pub(super) unanswered: Vec<usize>,
    pub(super) promising: Vec<usize>,
}

impl Client {
    pub(super) fn new(name: usize, end: End) -> Self {
        Self {
            name,
            link: Link::new(end),
            asked: VecDeque::new(),
            got: Vec::new(),
            is_last: false,
            unanswered: Vec::new(),
            promising: Vec::new(),
        }
    }

    /// Whether another request may be sent on it.
    pub(super) fn takes_more(&self) -> bool {
        self.link.ended.is_none() && !self.is_last
    }

    pub(super) fn ask(&mut self, number: usize, route: Route, key: usize, what: What, is_old: bool) {
        let asked = Asked { number, route, key, what };
        let (method, target, range) = asked.first();
        let version = if is_old { "1.0" } else { "1.1" };
        let field = match (what, range) {
            (What::Post(length), _) => format!("Content-Length: {length}\r\n"),
            (_, Some(range)) => format!("Range: {range}\r\n"),
            _ => String::new(),
        };
        let sent = if let What::Post(length) = what { upload(number, length) } else { Vec::new() };
        let head = format!("{method} {target} HTTP/{version}\r\nHost: edge.test\r\n{field}\r\n");
        self.link.push(head.into_bytes());
        self.link.push(sent);
        self.asked.push_back(asked);
        self.is_last |= is_old;
    }

    /// Leaves, with a reset or an orderly end.
    pub(super) fn leave(self, resets: bool) {
        self.link.leave(resets);
    }

    /// Sends and reads what can be, and holds what has come against `world`.
    pub(super) fn go_on(&mut self, world: &mut World, trace: &mut Trace) -> Verdict {
        self.exchange(trace);
        self.take_answers(world, trace)?;
        if self.asked.is_empty() {
            let (name, length) = (self.name, self.got.len());
            hold!(length == 0, "client {name} got {length} bytes that it has not asked for");
        }
        if self.link.ended.is_some() {
            for asked in self.asked.drain(..) {
                trace.note(format_args!("{} is not answered, of {} bytes", asked.number, self.got.len()));
                self.unanswered.push(asked.number);
                self.got.clear();
            }
        }
        Ok(())
    }

    fn exchange(&mut self, trace: &mut Trace) {
        let had_ended = self.link.ended.is_some();
        self.link.send();
        while let Some(bytes) = self.link.receive() {
            self.got.extend(bytes);
        }
        if !had_ended && self.link.ended.is_some() {
            trace.note(format_args!("client {}: {:?}", self.name, self.link.ended));
        }
    }

    /// Takes what is whole, and looks at what is not.
    fn take_answers(&mut self, world: &mut World, trace: &mut Trace) -> Verdict {
        while let Some(asked) = self.asked.front() {
            let has_ended = self.link.ended == Some(Ended::Orderly);
            let has_body = asked.what != What::Head;
            match http::response(&self.got, has_body, has_ended)? {
                Parsed::Nothing => break,
                Parsed::Part(message) => {
                    world.begun.insert(asked.number);
                    asked.judge(&message, false, world)?;
                    let (number, length) = (asked.number, message.body.len());
                    hold!(!has_ended, "{number} got {length} bytes, and then an orderly end");
                    break;
                }
                Parsed::Whole(message, length) => {
                    world.begun.insert(asked.number);
                    asked.judge(&message, true, world)?;
                    let (number, body) = (asked.number, message.body.len());
                    trace.note(format_args!("{number} is answered: {}, {body} bytes", message.status()));
                    let is_last = message.field("connection").is_some_and(|value| value.contains("close"));
                    self.is_last |= is_last;
                    if !is_last {
                        self.promising.push(number);
                    }
                    self.got.drain(..length);
                    self.asked.pop_front();
                }
            }
        }
        Ok(())
    }
}

impl Asked {
    /// The method, the target, and the value of Range if it has one.
    pub(super) fn first(&self) -> (&'static str, String, Option<String>) {
        let Self { number, route, key, what } = *self;
        let method = match what {
            What::Get | What::Range(..) => "GET",
            What::Head => "HEAD",
            What::Post(_) => "POST",
        };
        let target = match route {
            Route::Relay => format!("/relay/{key}?n={number}"),
            Route::Two => format!("/two/{key}?n={number}"),
            // A cache knows what it is asked for by the target.
            Route::Whole if method != "POST" => format!("/whole/{key}"),
            Route::Sliced if method != "POST" => format!("/sliced/{key}"),
            Route::Whole => format!("/whole/{key}?n={number}"),
            Route::Sliced => format!("/sliced/{key}?n={number}"),
        };
        let range = match what {
            What::Range(first, length) => Some(format!("bytes={first}-{}", first + length - 1)),
            What::Get | What::Head | What::Post(_) => None,
        };
        (method, target, range)
    }

    /// What is of an origin is all of one version, or a part of it that is known to be one.
    pub(super) fn judge(&self, message: &Message, is_whole: bool, world: &World) -> Verdict {
        let Asked { number, key, .. } = *self;
        let status = message.status();
        let Some(tag) = message.field("etag") else {
            hold!(!matches!(status, 200 | 206), "{number} got {status} without a tag");
            return Ok(());
        };
        let tag = tag
            .trim_matches('"')
            .split_once('-')
            .and_then(|(key, version)| Some((key.parse::<usize>().ok()?, version.parse::<usize>().ok()?)));
        let (of, version) = tag.ok_or_else(|| format!("{number} got an unknown tag"))?;
        hold!(of == key, "{number} asked for {key} and got {of}");
        let is_of = matches!(self.route, Route::Relay | Route::Two).then_some(number);
        hold!(
            world.has_served(is_of, key, version),
            "{number} got version {version}, which no origin has sent it"
        );
        let all = body(key, version);
        let (got, length) = (&message.body, message.body.len());
        let (wanted, ends) = match status {
            200 => (&all[..], world.is_whole(key, version, length)),
            206 => {
                let range = message.field("content-range").and_then(|range| range.strip_prefix("bytes "));
                let (range, total) =
                    range.and_then(|range| range.split_once('/')).ok_or("a part without a range")?;
                let total = total.parse().map_err(|_| "a range without a length")?;
                hold!(world.is_whole(key, version, total), "{number} got a part of {total} bytes");
                let (first, end) = http::span(&format!("bytes={range}"), total).ok_or("no such range")?;
                let What::Range(from, count) = self.what else {
                    return Err(format!("{number} got a part, and asked for none"));
                };
                hold!((first, end) == (from, (from + count).min(total)), "{number} got the part {range}");
                // A part without a length is as long as its origin has it: its client sees what is missing by Content-Range.
                let ends = length == end - first || world.short_parts.contains(&(number, length));
                (&all[first.min(all.len())..end.min(all.len())], ends)
            }
            // The range begins after the end.
            416 => return Ok(()),
            status => return Err(format!("{number} got {status} with a tag")),
        };
        if self.what == What::Head {
            return Ok(());
        }
        hold!(wanted.starts_with(got), "{number} got bytes that are not of version {version}");
        hold!(!is_whole || ends, "{number} got {length} of {} bytes, and a good end", wanted.len());
        Ok(())
    }
}
