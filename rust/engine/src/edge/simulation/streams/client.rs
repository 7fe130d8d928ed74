//! A client that speaks HTTP/2: several streams on a connection, each read or not. Some are streams of events.
//!
//! Heads are written and read by the project's own crate; what the edge sends is held against the rules by [`Wire`], which shares
//! nothing with it.

use std::collections::{BTreeMap, VecDeque};

use penstock_http2::{ErrorCode, First, Item, Limits, Reset, Session};

use super::wire::Wire;
use crate::edge::simulation::client::Asked;
use crate::edge::simulation::events::{self, Over, Subscription};
use crate::edge::simulation::http::{self, Message};
use crate::edge::simulation::link::{Ended, Link};
use crate::edge::simulation::plan::{What, upload};
use crate::edge::simulation::stage::Stage;
use crate::edge::simulation::world::World;
use crate::net::simulated::End;
use crate::simulation::{Trace, Verdict, hold};

/// Bytes that are put in order before the socket takes them: a stream that is reset has few on their way.
const AHEAD: usize = 1000;
/// Of a frame of a request's body.
const FRAME: usize = 700;

/// A connection to the edge.
pub(in crate::edge::simulation) struct Client {
    name: usize,
    link: Link,
    session: Session,
    wire: Wire,
    streams: BTreeMap<u32, Stream>,
    /// It has not always read.
    has_stalled: bool,
    is_leaving: bool,
    /// The numbers of requests that were broken off.
    pub(in crate::edge::simulation) unanswered: Vec<usize>,
}

/// What is asked for on a stream.
enum Wanted {
    Body(Asked),
    Events(Subscription),
}

/// What happens outside of the engine.
pub(in crate::edge::simulation) struct Outside<'a> {
    pub(in crate::edge::simulation) world: &'a mut World,
    pub(in crate::edge::simulation) told: &'a events::World,
}

/// A request that has not been answered to the end.
struct Stream {
    wanted: Wanted,
    upload: VecDeque<u8>,
    response: Option<Message>,
    reads: bool,
    has_stalled: bool,
    /// Bytes of the response that have come and count for the window.
    held: usize,
    /// The client wants no more of it.
    is_reset: bool,
}

impl Client {
    /// One that takes `window` bytes of a stream before it reads them.
    fn new(name: usize, end: End, window: u32) -> Self {
        let limits = Limits { streams: 0, window, connection_window: 0, head_bytes: 4096 };
        Self {
            name,
            link: Link::new(end),
            session: Session::client(limits),
            wire: Wire::new(window),
            streams: BTreeMap::new(),
            has_stalled: false,
            is_leaving: false,
            unanswered: Vec::new(),
        }
    }

    /// The client in `place`, a new one if the old one takes no more and nothing is under way there; nothing if it cannot ask now.
    pub(in crate::edge::simulation) fn free<'a>(
        place: &'a mut Option<Self>,
        stage: &mut Stage,
        name: usize,
        window: u32,
    ) -> Option<&'a mut Self> {
        place.take_if(|client| client.is_over() && !client.takes_more());
        let client = place.get_or_insert_with(|| Self::new(name, stage.connect_for_streams(), window));
        Some(client).filter(|client| client.takes_more() && client.session.room() > 0)
    }

    /// Whether another request may be sent on it.
    fn takes_more(&self) -> bool {
        self.link.ended.is_none() && !self.is_leaving && !self.session.is_refused()
    }

    /// Whether it knows that the edge takes no more requests, or is at its end.
    pub(in crate::edge::simulation) fn is_parted(&self) -> bool {
        self.link.ended.is_some() || self.wire.last().is_some()
    }

    /// Whether nothing is asked for that could still be answered.
    pub(in crate::edge::simulation) fn is_over(&self) -> bool {
        self.streams.is_empty()
    }

    /// Whether something is asked for that comes to an end.
    pub(super) fn is_waiting(&self) -> bool {
        self.streams.values().any(|stream| matches!(stream.wanted, Wanted::Body(_)))
    }

    /// When nothing is on its way any more.
    pub(super) fn check_rest(&self, told: &events::World) -> Verdict {
        self.subscriptions().try_for_each(|subscription| subscription.check_rest(told))
    }

    pub(in crate::edge::simulation) fn ask(&mut self, asked: Asked) {
        let upload = match asked.what {
            What::Post(length) => upload(asked.number, length),
            What::Get | What::Head | What::Range(..) => Vec::new(),
        };
        self.open(asked.first(), upload, Wanted::Body(asked));
    }

    pub(in crate::edge::simulation) fn subscribe(&mut self, number: usize, route: events::Route) {
        let mut subscription = Subscription::new(number, route, false);
        subscription.has_stalled = !self.link.reads;
        self.open(("GET", subscription.path(), None), Vec::new(), Wanted::Events(subscription));
    }

    /// Asks on a new stream, with the method, the path, and the value of Range if there is one.
    fn open(
        &mut self,
        (method, path, range): (&'static str, String, Option<String>),
        upload: Vec<u8>,
        wanted: Wanted,
    ) {
        let Some(id) = self.session.open() else { return };
        let length = upload.len().to_string();
        let mut fields: Vec<(&[u8], &[u8])> = Vec::new();
        fields.extend(range.as_ref().map(|range| (b"range".as_slice(), range.as_bytes())));
        if method == "POST" {
            fields.push((b"content-length", length.as_bytes()));
        }
        let first = First::Request {
            method: method.as_bytes(),
            scheme: b"https",
            authority: b"edge.test",
            path: path.as_bytes(),
        };
        if method == "HEAD" {
            self.session.expect_no_body(id);
        }
        self.session.send_head(id, first, fields, upload.is_empty());
        if !upload.is_empty() {
            self.session.offer(id, upload.len());
            self.session.end(id, []);
        }
        let stream = Stream {
            wanted,
            upload: upload.into(),
            response: None,
            reads: true,
            has_stalled: false,
            held: 0,
            is_reset: false,
        };
        self.streams.insert(id, stream);
    }

    pub(super) fn read(&mut self, reads: bool) {
        self.link.reads = reads;
        self.has_stalled |= !reads;
        if !reads {
            self.streams.values_mut().for_each(Stream::stall);
        }
    }

    pub(super) fn read_stream(&mut self, place: usize, reads: bool) {
        if let Some(stream) = self.streams.values_mut().nth(place) {
            stream.reads = reads;
            if !reads {
                stream.stall();
            }
        }
    }

    pub(super) fn reset(&mut self, place: usize) {
        if let Some((id, stream)) = self.streams.iter_mut().nth(place) {
            stream.is_reset = true;
            self.session.reset(*id, ErrorCode::CANCEL);
        }
    }

    /// It asks for nothing more.
    pub(super) fn go_away(&mut self) {
        if !std::mem::replace(&mut self.is_leaving, true) {
            self.session.drain();
        }
    }

    /// Leaves, with a reset or an orderly end.
    pub(in crate::edge::simulation) fn leave(self, resets: bool) {
        self.link.leave(resets);
    }

    /// The requests for events that have not come to an end.
    pub(in crate::edge::simulation) fn subscriptions(&self) -> impl Iterator<Item = &Subscription> {
        self.streams.values().filter_map(|stream| match &stream.wanted {
            Wanted::Events(subscription) => Some(subscription),
            Wanted::Body(_) => None,
        })
    }

    /// Sends and reads what can be, and holds what has come against what happens outside.
    pub(in crate::edge::simulation) fn go_on(
        &mut self,
        outside: &mut Outside<'_>,
        trace: &mut Trace,
    ) -> Verdict {
        if self.link.ended.is_none() {
            self.receive(trace)?;
        }
        let numbers: Vec<u32> = self.streams.keys().copied().collect();
        for id in numbers {
            self.take(id, outside, trace)?;
        }
        self.subscriptions().try_for_each(Subscription::check)?;
        self.send()
    }

    fn send(&mut self) -> Verdict {
        loop {
            let mut bytes = std::mem::take(self.session.control());
            if self.link.unsent() + bytes.len() < AHEAD {
                if let Some(frame) = self.session.frame(FRAME, FRAME, &mut bytes) {
                    if let Some(stream) = self.streams.get_mut(&frame.stream) {
                        bytes.extend(stream.upload.drain(..frame.bytes));
                    }
                }
            }
            self.wire.sends(&bytes)?;
            self.link.push(bytes);
            if self.link.unsent() == 0 || !self.link.send_once() {
                return Ok(());
            }
        }
    }

    fn receive(&mut self, trace: &mut Trace) -> Verdict {
        let filled = self.wire.filled;
        while let Some(bytes) = self.link.receive() {
            self.wire.receives(&bytes)?;
            let received = self.session.receive(&bytes);
            received.map_err(|failure| format!("client {}: {failure:?}", self.name))?;
        }
        if self.wire.filled > filled {
            trace.note(format_args!("the edge has filled a window of client {}", self.name));
        }
        if let Some(ended) = self.link.ended {
            trace.note(format_args!("client {}: {ended:?}, last {:?}", self.name, self.wire.last()));
            let is_clean = ended == Ended::Reset || self.wire.is_between_frames();
            hold!(is_clean, "the connection of client {} ends within a frame", self.name);
            self.session.lose();
        }
        Ok(())
    }

    /// Takes what has come on a stream.
    fn take(&mut self, id: u32, outside: &mut Outside<'_>, trace: &mut Trace) -> Verdict {
        let Self { session, streams, .. } = self;
        let Some(stream) = streams.get_mut(&id) else { return Ok(()) };
        let before = stream.held;
        while let Some(item) = session.read(id) {
            stream.receive(item, outside.world)?;
        }
        if stream.held != before {
            stream.look(None, outside, trace)?;
        }
        if stream.reads && stream.held > 0 {
            session.release(id, std::mem::take(&mut stream.held));
        }
        let reset = session.reset_of(id);
        if reset.is_none() && session.has_received_all(id) {
            let status = stream.response.as_ref().ok_or("a stream ends without a head")?.status();
            stream.look(Some(Over::Whole), outside, trace)?;
            // It sends its body as fast as it may, unless it does not hear that it may. That of an origin has no body.
            let is_late = status == 408 && stream.length() > 0;
            hold!(!is_late || self.has_stalled, "{} was not let send its body", stream.number());
            // The rest of the request is of no use.
            session.reset(id, ErrorCode::CANCEL);
        } else if let Some(reset) = reset {
            if let Wanted::Body(asked) = &stream.wanted {
                self.unanswered.push(asked.number);
            }
            self.take_reset(id, reset, outside, trace)?;
        } else {
            return Ok(());
        }
        self.session.close(id);
        self.streams.remove(&id);
        Ok(())
    }

    /// A stream is broken off only for its origin, or because its client has not read.
    fn take_reset(&mut self, id: u32, reset: Reset, outside: &mut Outside<'_>, trace: &mut Trace) -> Verdict {
        let Self { streams, has_stalled, .. } = self;
        let Some(stream) = streams.get_mut(&id) else { return Ok(()) };
        let (number, length) = (stream.number(), stream.length());
        let (code, over) = match reset {
            Reset::Sent(code) => {
                hold!(stream.is_reset, "{number} breaks the rules of HTTP/2: {code}");
                ("its client".to_owned(), None)
            }
            Reset::Received(code) => (code.to_string(), Some(Over::Broken)),
            Reset::Refused => {
                hold!(stream.response.is_none(), "{number} is refused after the head of its response");
                hold!(!outside.world.is_asked(number), "{number} is refused, and was sent to an origin");
                ("a refusal".to_owned(), Some(Over::Broken))
            }
            Reset::Lost => ("the end of the connection".to_owned(), Some(Over::Reset)),
        };
        trace.note(format_args!("{number} is reset by {code} after {length} bytes"));
        if let Some(over) = over {
            stream.look(Some(over), outside, trace)?;
        }
        let world = &*outside.world;
        let has_read = !stream.has_stalled && !*has_stalled && !stream.is_reset && !world.is_closed;
        hold!(
            !(has_read && world.is_well(number)),
            "{number} is broken off, and its origin has answered well"
        );
        Ok(())
    }
}

impl Stream {
    fn number(&self) -> usize {
        match &self.wanted {
            Wanted::Body(asked) => asked.number,
            Wanted::Events(subscription) => subscription.number,
        }
    }

    /// Bytes of the response's body that have come.
    fn length(&self) -> usize {
        self.response.as_ref().map_or(0, |response| response.body.len())
    }

    /// It is not read for a time.
    fn stall(&mut self) {
        self.has_stalled = true;
        if let Wanted::Events(subscription) = &mut self.wanted {
            subscription.has_stalled = true;
        }
    }

    fn receive(&mut self, item: Item, world: &mut World) -> Verdict {
        match item {
            Item::Head(text) => {
                let (head, _) = http::head(&[&text[..], b"\r\n"].concat()).ok_or("a head has no end")?;
                if head.status() >= 200 {
                    world.begun.insert(self.number());
                    self.response = Some(head);
                }
            }
            Item::Data(bytes) => {
                self.held += bytes.len();
                let response = self.response.as_mut().ok_or("a body came before its head")?;
                response.body.extend(&bytes[..]);
            }
            Item::Trailers(fields) => {
                return Err(format!("{} got trailers, which no origin sends: {fields:?}", self.number()));
            }
        }
        Ok(())
    }

    /// Holds what has come against what happens outside. It is `over` if it has an end.
    fn look(&mut self, over: Option<Over>, outside: &Outside<'_>, trace: &mut Trace) -> Verdict {
        let response = self.response.as_ref();
        match (&mut self.wanted, response) {
            (Wanted::Events(subscription), response) => {
                subscription.look(response, over, outside.told, trace)
            }
            (Wanted::Body(asked), Some(response)) => {
                let is_whole = over == Some(Over::Whole);
                asked.judge(response, is_whole, outside.world)?;
                if is_whole {
                    let (number, length) = (asked.number, response.body.len());
                    trace.note(format_args!("{number} is answered: {}, {length} bytes", response.status()));
                }
                Ok(())
            }
            (Wanted::Body(_), None) => Ok(()),
        }
    }
}
