//! The HTTP client of a session: connections of its own, one for each server that it asks.

use std::fmt::Write;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hyper::StatusCode;

use crate::connection::{Connection, Opened, SCRATCH};
use crate::context::Context;
use crate::failure::Failure;
use crate::network::Link;
use crate::player::{Coming, Player};
use crate::record::{Class, Timing, count};
use crate::url::Url;

/// Kept of a playlist at most.
const KEPT: usize = 16 * 1024 * 1024;
/// Bytes that the kernel may receive ahead of a session with a network, at least and at most. What it receives at the speed of
/// the machine is no part of the network.
const LEAST_BUFFER: f64 = 16.0 * 1024.0;
const LARGEST_BUFFER: f64 = 1024.0 * 1024.0;

/// A request.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) url: &'a Url,
    pub(crate) class: Class,
    /// When it was to be sent.
    pub(crate) due: Instant,
    /// First byte and length of what is asked for.
    pub(crate) range: Option<(u64, u64)>,
    /// Further fields.
    pub(crate) fields: &'a [(&'static str, String)],
    /// What is posted; `None` makes it a GET.
    pub(crate) body: Option<&'a str>,
    /// Whether the body is looked at.
    pub(crate) keep: bool,
    /// What is fetched, if it may be given up.
    pub(crate) wanted: Option<Wanted<'a>>,
}

/// A segment that a player waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) player: &'a Player,
    pub(crate) level: usize,
    /// Seconds of its media.
    pub(crate) seconds: f64,
}

/// A response whose body has arrived.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) body: Vec<u8>,
    pub(crate) bytes: u64,
    pub(crate) timing: Timing,
    /// The rendition for which it was given up in the middle.
    pub(crate) lower: Option<usize>,
}

/// A link, and when its time began.
#[derive(Debug)]
struct Paced {
    link: Link,
    since: Instant,
}

impl Paced {
    fn now(&self) -> f64 {
        self.since.elapsed().as_secs_f64()
    }

    /// Waits for so many round trips.
    async fn trips(&mut self, count: f64) {
        let trip = self.link.round_trip(self.now());
        tokio::time::sleep(Duration::from_secs_f64(trip * count)).await;
    }

    /// Waits until so many bytes have come, and says when that is. A timer that is late has no part in it.
    async fn carry(&mut self, bytes: usize) -> Instant {
        #[expect(clippy::cast_precision_loss, reason = "bytes of one read")]
        let until = self.link.carry(self.now(), bytes as f64);
        let until = self.since + Duration::from_secs_f64(until);
        tokio::time::sleep_until(until.into()).await;
        until
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
    fn buffer(&self) -> u32 {
        self.link.window().clamp(LEAST_BUFFER, LARGEST_BUFFER) as u32
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the buffer is the most that is read"
    )]
    fn piece(&self) -> usize {
        self.link.piece() as usize
    }
}

/// The client of one session.
pub(crate) struct Client {
    context: Rc<Context>,
    /// One for each server: mostly one.
    connections: Vec<Connection>,
    paced: Option<Box<Paced>>,
}

impl Client {
    pub(crate) fn new(context: Rc<Context>) -> Self {
        Self { context, connections: Vec::with_capacity(1), paced: None }
    }

    /// Bytes to read at once.
    pub(crate) fn piece(&self) -> usize {
        self.paced.as_ref().map_or(SCRATCH, |paced| paced.piece())
    }

    /// Waits until the network has carried so many bytes that were read, and says when that is.
    pub(crate) async fn pace(&mut self, bytes: usize) -> Instant {
        match &mut self.paced {
            Some(paced) => paced.carry(bytes).await,
            None => Instant::now(),
        }
    }

    /// A client that reads no faster than a link carries, whose time begins then.
    pub(crate) fn over(context: Rc<Context>, link: Option<Link>, since: Instant) -> Self {
        let paced = link.map(|link| Box::new(Paced { link, since }));
        Self { context, connections: Vec::with_capacity(1), paced }
    }

    /// Makes a request, reads its response to the end and records both.
    pub(crate) async fn get(&mut self, ask: &Ask<'_>) -> Result<Reply, Failure> {
        let limit = Duration::from_secs_f64(self.context.plan.timeout);
        let context = Rc::clone(&self.context);
        let found = tokio::time::timeout(limit, self.exchange(ask)).await.unwrap_or(Err(Failure::Timeout));
        match &found {
            Ok(reply) if reply.lower.is_some() => {}
            Ok(reply) => {
                count(&context.live.requests, 1);
                context.recorder.borrow_mut().response(ask.class, reply.timing, reply.bytes);
            }
            // The connection has been closed: what is left of the exchange would be taken for the next response.
            Err(failure) => self.failed(ask.class, failure),
        }
        found
    }

    /// Records a failure.
    pub(crate) fn failed(&self, class: Class, failure: &Failure) {
        count(&self.context.live.errors, 1);
        self.context.recorder.borrow_mut().failure(class, failure.to_string());
    }

    /// Makes a request, and records how long the head of its response took. The body is read by the caller. `None`: there
    /// is no content (204).
    pub(crate) async fn open(&mut self, ask: &Ask<'_>) -> Result<Option<Opened>, Failure> {
        let limit = Duration::from_secs_f64(self.context.plan.timeout);
        let found = tokio::time::timeout(limit, self.head(ask)).await.unwrap_or(Err(Failure::Timeout));
        let opened = match found {
            Ok(opened) => opened,
            Err(failure) => {
                self.failed(ask.class, &failure);
                return Err(failure);
            }
        };
        count(&self.context.live.requests, 1);
        // The first token of a completion is what counts, and not its head.
        if ask.class == Class::Subscribe {
            let now = Instant::now();
            let timing = Timing { due: ask.due, sent: opened.sent, first: now, done: now };
            self.context.recorder.borrow_mut().response(ask.class, timing, 0);
        }
        Ok((opened.head.status != StatusCode::NO_CONTENT).then_some(opened))
    }

    /// Makes a request, up to the head of a response that is a success.
    async fn head(&mut self, ask: &Ask<'_>) -> Result<Opened, Failure> {
        let request = request(ask)?;
        let sent = Instant::now();
        let opened = loop {
            let known = self.connections.iter().position(|each| each.is_to(ask.url));
            let is_new = known.is_none();
            if let Some(paced) = &mut self.paced {
                paced.trips(if is_new { 2.0 } else { 1.0 }).await;
            }
            let connection = if let Some(at) = known {
                self.connections.swap_remove(at)
            } else {
                let buffer = self.paced.as_ref().map(|paced| paced.buffer());
                Connection::open(&self.context, ask.url, buffer).await?
            };
            match connection.ask(&self.context, request.as_bytes(), sent).await {
                // A server may close an idle connection at any time: the request is made again on a new one (RFC 9110,
                // section 9.2.2). A POST may have been acted upon.
                Err(Failure::NoHead) if !is_new && ask.body.is_none() => {}
                opened => break opened?,
            }
        };
        let status = opened.head.status;
        if ask.range.is_some() && status == StatusCode::OK {
            // The whole is not what was asked for, and may be large: it is not read.
            return Err(Failure::NotPartial);
        }
        if status.is_success() {
            return Ok(opened);
        }
        self.keep(opened);
        Err(Failure::Status(status))
    }

    /// Keeps the connection of a response for the next request, if nothing of the response is left on it.
    fn keep(&mut self, opened: Opened) {
        if opened.is_done() {
            self.connections.extend(opened.into_connection());
        }
    }

    async fn exchange(&mut self, ask: &Ask<'_>) -> Result<Reply, Failure> {
        let mut opened = self.head(ask).await?;
        let (first, mut kept, mut bytes) = (Instant::now(), Vec::new(), 0);
        let mut done = first;
        while !opened.is_done() {
            let most = self.piece();
            let read = if ask.keep {
                opened.more(&self.context, most, |data| kept.extend_from_slice(data)).await?
            } else {
                opened.skip(&self.context, most).await?
            };
            done = self.pace(read).await.max(first);
            bytes += read as u64;
            let left = opened.head.body.length();
            let lower =
                ask.wanted.zip(left).and_then(|(wanted, left)| wanted.lower(bytes, left, opened.sent, first));
            if lower.is_some() && !opened.is_done() {
                // The connection ends with it: there is no other way to stop a response of HTTP/1.1.
                let timing = Timing { due: ask.due, sent: opened.sent, first, done };
                return Ok(Reply { body: kept, bytes, timing, lower });
            }
            if kept.len() > KEPT {
                return Err(Failure::Playlist("it is larger than 16 MiB"));
            }
        }
        let timing = Timing { due: ask.due, sent: opened.sent, first, done };
        self.keep(opened);
        Ok(Reply { body: kept, bytes, timing, lower: None })
    }
}

impl Wanted<'_> {
    /// The rendition for which the player gives it up, when so many bytes have come and so many are left.
    fn lower(&self, bytes: u64, left: u64, sent: Instant, first: Instant) -> Option<usize> {
        let (level, seconds, whole) = (self.level, self.seconds, bytes + left);
        let (waited, took) = ((first - sent).as_secs_f64(), first.elapsed().as_secs_f64());
        self.player.gives_up(&Coming { level, seconds, whole, bytes, waited, took })
    }
}

/// The head and the body of a request.
fn request(ask: &Ask<'_>) -> Result<String, Failure> {
    let Url { authority, path, .. } = ask.url;
    if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(Failure::Address(ask.url.to_string()));
    }
    let method = if ask.body.is_some() { "POST" } else { "GET" };
    let mut text = format!(
        "{method} {path} HTTP/1.1\r\nhost: {authority}\r\nuser-agent: penstock-load/{}\r\n",
        env!("CARGO_PKG_VERSION")
    );
    let mut field = |name: &str, value: &str| {
        if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            return Err(Failure::Address(format!("{}: the field {name} has {value:?}", ask.url)));
        }
        for part in [name, ": ", value, "\r\n"] {
            text.push_str(part);
        }
        Ok(())
    };
    if !ask.fields.iter().any(|(name, _)| *name == "accept") {
        field("accept", "*/*")?;
    }
    if let Some((first, length)) = ask.range {
        field("range", &format!("bytes={first}-{}", first.saturating_add(length.max(1) - 1)))?;
    }
    for (name, value) in ask.fields {
        field(name, value)?;
    }
    let body = ask.body.unwrap_or_default();
    if ask.body.is_some() {
        // Writing to a text cannot fail.
        let _written = write!(text, "content-length: {}\r\n", body.len());
    }
    text.push_str("\r\n");
    text.push_str(body);
    Ok(text)
}
