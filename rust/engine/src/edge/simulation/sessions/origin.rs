//! An origin that speaks HTTP/2: several streams on a connection, each answered as the plan says, well or not.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use penstock_http2::{ErrorCode, First, Item, Limits, Session};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep_until};

use crate::edge::simulation::given::{Given, Kind, told_length};
use crate::edge::simulation::http;
use crate::edge::simulation::origin::{accept, address};
use crate::edge::simulation::plan::{Answer, Break, Fault, Framing, ORIGINS, Sessions, upload};
use crate::edge::simulation::world::{Asked, World};
use crate::net::Socket;
use crate::net::simulated::{End, Network};
use crate::sync::{Arc, Mutex, lock};

const FRAME: usize = 1000;
const GOAWAY: u8 = 7;
const PING: u8 = 6;
/// Frames that carry nothing, from which on a connection may be ended for them.
const FLOOD: usize = 1000;
/// In which nothing is due.
const LONG: Duration = Duration::from_secs(3600);

/// Whether the connection goes on.
type GoesOn = Option<()>;

/// One connection to an origin.
struct Served {
    socket: Socket,
    session: Session,
    world: Arc<Mutex<World>>,
    name: String,
    replies: BTreeMap<u32, Reply>,
    /// Of all exchanges on it.
    places: Vec<usize>,
    /// Frames that are no session's.
    extra: Vec<u8>,
    /// Streams above this are not looked at.
    last: Option<u32>,
    /// It ends now, with a reset or in order.
    cut: Option<bool>,
    /// So many frames come that the edge may end it. If it does not, what it asks later waits in it for long: its answers to
    /// them go first, and the origin reads none of these while it writes.
    floods: bool,
}

/// A request, and how far it is answered.
struct Reply {
    asked: Asked,
    answer: Answer,
    is_deaf: bool,
    upload: Vec<u8>,
    /// When something is to be done; `None`: all of the request is waited for.
    due: Option<Instant>,
    has_head: bool,
    body: VecDeque<u8>,
    /// Bytes of the body that are sent, and then how it ends.
    left: usize,
    ends: Option<Break>,
    /// Bytes that wait for a window.
    waiting: VecDeque<u8>,
    is_over: bool,
}

/// Has origins serve the connections that have come.
pub(in crate::edge::simulation) fn serve_all(
    network: &Network,
    world: &Arc<Mutex<World>>,
    sessions: &Sessions,
) {
    for origin in 0..ORIGINS {
        for end in network.come(address(origin)) {
            let limits = Limits {
                streams: sessions.streams,
                window: sessions.window,
                connection_window: 0,
                head_bytes: 4096,
            };
            tokio::spawn(serve(end, accept(world, origin), Arc::clone(world), limits));
        }
    }
}

/// Answers on the connection until it ends.
async fn serve(end: End, name: String, world: Arc<Mutex<World>>, limits: Limits) {
    let mut served = Served {
        socket: Socket::Simulated(end),
        session: Session::server(limits),
        world,
        name,
        replies: BTreeMap::new(),
        places: Vec::new(),
        extra: Vec::new(),
        last: None,
        cut: None,
        floods: false,
    };
    while served.turn().await.is_some() {}
}

impl Served {
    async fn turn(&mut self) -> GoesOn {
        while let Some(stream) = self.session.accept() {
            self.begin(stream);
        }
        if let Some(resets) = self.cut {
            return self.cut(resets);
        }
        let streams: Vec<u32> = self.replies.keys().copied().collect();
        for stream in streams {
            self.go_on(stream);
        }
        self.write().await?;
        let is_left = self.last.is_some() && self.replies.is_empty();
        if is_left || self.session.is_over() {
            return self.leave().await;
        }
        let due = self.replies.values().filter_map(|reply| reply.due).min();
        let mut bytes = [0; 2048];
        tokio::select! {
            biased;
            read = self.socket.read(&mut bytes) => {
                let count = read.ok().filter(|count| *count > 0)?;
                if let Err(failure) = self.session.receive(&bytes[..count]) {
                    lock(&self.world).blame(format!("{} was sent what breaks the rules: {failure:?}", self.name));
                    return None;
                }
            }
            () = sleep_until(due.unwrap_or_else(|| Instant::now() + LONG)) => {}
        }
        Some(())
    }

    /// The edge may not see what was sent on the connection.
    fn lose(&self) {
        let mut world = lock(&self.world);
        self.places.iter().for_each(|place| world.exchanges[*place].is_strayed = true);
    }

    /// Ends the connection at once, and with it what is on its way.
    fn cut(&self, resets: bool) -> GoesOn {
        self.lose();
        if resets {
            drop(self.socket.reset_on_close());
        }
        None
    }

    /// Ends the connection when the edge has all that was sent.
    async fn leave(&mut self) -> GoesOn {
        self.socket.shutdown().await.ok()?;
        let mut bytes = [0; 2048];
        while self.socket.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
        None
    }

    async fn write(&mut self) -> GoesOn {
        loop {
            let mut bytes = std::mem::take(self.session.control());
            bytes.append(&mut self.extra);
            if let Some(frame) = self.session.frame(FRAME, FRAME, &mut bytes) {
                if let Some(reply) = self.replies.get_mut(&frame.stream) {
                    bytes.extend(reply.waiting.drain(..frame.bytes));
                    let place = reply.asked.place;
                    lock(&self.world).exchanges[place].sent += frame.bytes;
                }
            }
            if bytes.is_empty() {
                return Some(());
            }
            self.socket.write_all(&bytes).await.ok()?;
        }
    }

    /// A request has come.
    fn begin(&mut self, stream: u32) {
        let Some(Item::Head(text)) = self.session.read(stream) else { return };
        if self.last.is_some_and(|last| stream > last) {
            return;
        }
        // What it held up, the edge may have given up and sent again. A head that waits to be written is written all the same,
        // and a reset after it.
        let is_held_up = self.floods;
        let fault = lock(&self.world).faults.pop_front().flatten();
        if let Some(fault) = fault {
            lock(&self.world).note(format!("{}, stream {stream}: {fault:?}", self.name));
        }
        match fault {
            Some(Fault::Refuse) => {
                self.session.reset(stream, ErrorCode::REFUSED_STREAM);
                return self.session.close(stream);
            }
            Some(Fault::Abandon) => {
                let last = stream.saturating_sub(2);
                self.last = Some(last);
                let payload = [last.to_be_bytes(), [0; 4]].concat();
                return frame(GOAWAY, &payload, &mut self.extra);
            }
            Some(Fault::Leave) => self.session.drain(),
            Some(Fault::Cut(resets)) => self.cut = Some(resets),
            Some(Fault::Pings(count)) => {
                self.floods |= count >= FLOOD;
                (0..count).for_each(|_| frame(PING, &[0; 8], &mut self.extra));
            }
            Some(Fault::Deaf) | None => {}
        }
        let Some((head, _)) = http::head(&[&text[..], b"\r\n"].concat()) else { return };
        let (asked, answer) = lock(&self.world).arrive(&self.name, &head, stream > 1, is_held_up);
        self.places.push(asked.place);
        if self.floods {
            self.lose();
        }
        let reply = Reply {
            asked,
            answer,
            is_deaf: fault == Some(Fault::Deaf),
            upload: Vec::new(),
            due: None,
            has_head: false,
            body: VecDeque::new(),
            left: 0,
            ends: None,
            waiting: VecDeque::new(),
            is_over: false,
        };
        self.replies.insert(stream, reply);
    }

    /// Does what is due on a stream.
    fn go_on(&mut self, stream: u32) {
        let Self { session, replies, world, .. } = self;
        let Some(reply) = replies.get_mut(&stream) else { return };
        while let Some(item) = session.read(stream) {
            if let Item::Data(bytes) = item {
                reply.upload.extend(&bytes[..]);
                if !reply.is_deaf {
                    session.release(stream, bytes.len());
                }
            }
        }
        let has_all = session.has_received_all(stream);
        let is_enough =
            has_all || reply.upload.len() * 2 > reply.asked.length && reply.answer.broken.is_some();
        if reply.due.is_none() && !reply.is_over && is_enough {
            reply.check_upload(has_all, &mut lock(world));
            reply.due = Some(Instant::now() + Duration::from_millis(reply.answer.wait));
        }
        while reply.due.is_some_and(|due| due <= Instant::now()) {
            reply.answer(stream, session, &mut lock(world));
        }
        let has_ended = session.reset_of(stream).is_some() || session.has_sent_all(stream);
        if has_ended && (reply.is_over || session.reset_of(stream).is_some()) {
            if !session.has_received_all(stream) {
                session.reset(stream, ErrorCode::NO_ERROR);
            }
            session.close(stream);
            replies.remove(&stream);
        }
    }
}

impl Reply {
    fn check_upload(&self, is_whole: bool, world: &mut World) {
        let Asked { number, length, .. } = self.asked;
        let came = self.upload.len();
        let is_own = number.is_some_and(|number| upload(number, length).starts_with(&self.upload));
        if came > 0 && !is_own || is_whole && came != length {
            world.blame(format!("request {number:?} came with {came} bytes of other ones, of {length}"));
        }
    }

    /// Does what is due now, and says when something is again.
    fn answer(&mut self, stream: u32, session: &mut Session, world: &mut World) {
        self.due = Some(Instant::now() + Duration::from_millis(self.answer.pause));
        if !self.has_head {
            self.has_head = true;
            if !self.prepare(stream, session, world) {
                self.due = None;
            }
            return;
        }
        let count = self.answer.piece.min(self.left);
        if count > 0 {
            self.left -= count;
            self.waiting.extend(self.body.drain(..count));
            return session.offer(stream, count);
        }
        self.due = None;
        self.end(stream, session, world);
    }

    /// Sends the head, unless the answer ends before that; whether there is more.
    fn prepare(&mut self, stream: u32, session: &mut Session, world: &mut World) -> bool {
        let Self { asked, answer, .. } = self;
        let given = Given::of(asked, answer);
        let has_body = asked.method != "HEAD" && given.kind != Kind::Unchanged;
        let body = if has_body { given.payload.clone() } else { Vec::new() };
        // The head counts as a byte.
        let all = body.len() + 1;
        let most = answer.broken.map_or(all, |(at, _)| at * all / 1000);
        self.ends = answer.broken.filter(|_| most < all).map(|(_, how)| how);
        (self.left, self.body) = (most.saturating_sub(1), body.into());
        if most == 0 {
            // A stream cannot end well without a head.
            self.ends = self.ends.map(|how| if how == Break::End { Break::Reset } else { how });
            self.end(stream, session, world);
            return false;
        }
        let is_whole = given.kind == Kind::Whole;
        let length = told_length(&given.payload, answer, !is_whole || asked.method == "HEAD").to_string();
        let mut fields = given.fields;
        let says_length = given.kind == Kind::Failure || answer.framing == Framing::Length;
        if given.kind != Kind::Unchanged && says_length {
            fields.push(("content-length", length.clone()));
        }
        let said = if says_length { length.parse().ok() } else { Some(self.left) };
        if let (true, true, Some(said)) = (is_whole, has_body, said) {
            let is_end = says_length || self.ends == Some(Break::End);
            if is_end {
                world.said.insert((asked.key, asked.version, said));
            }
        }
        let is_short = given.kind == Kind::Part && !says_length && self.ends == Some(Break::End);
        world.short_parts.extend(asked.number.filter(|_| is_short).map(|number| (number, self.left)));
        let fields: Vec<_> = fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let status = given.status.as_bytes().get(..3).unwrap_or_default();
        session.send_head(stream, First::Status(status), fields, !has_body);
        world.exchanges[asked.place].sent += 1;
        self.is_over = !has_body;
        has_body
    }

    /// All that is sent is handed on: ends the stream as it is to end.
    fn end(&mut self, stream: u32, session: &mut Session, world: &mut World) {
        let Some(ends) = self.ends else {
            world.exchanges[self.asked.place].is_well = self.answer.is_good();
            self.is_over = true;
            return session.end(stream, []);
        };
        world.note(format!("answer {} is broken off by {ends:?}", self.asked.place));
        self.is_over = true;
        match ends {
            Break::End => session.end(stream, []),
            Break::Reset => session.reset(stream, ErrorCode::INTERNAL_ERROR),
            Break::Stall => {}
        }
    }
}

/// Adds a frame of the connection.
fn frame(kind: u8, payload: &[u8], out: &mut Vec<u8>) {
    let length = u8::try_from(payload.len()).unwrap_or(u8::MAX);
    out.extend([0, 0, length, kind, 0, 0, 0, 0, 0]);
    out.extend(payload);
}
