//! What the edge and a worker process say to each other: one message after the other on a Unix socket, each behind its
//! length. One connection carries one exchange, so that nothing of one can stand in the way of another.
//!
//! Bodies travel in flows, each with a number: 0 is the request's, [`TUNNEL`] what follows it where the protocol has
//! changed, and each thing that the worker has the edge fetch or send has one of its own. A number names at most one flow
//! each way. Of a flow nothing is sent that the other side has not granted, so both sides can always read on.

use std::net::SocketAddr;
use std::time::Duration;

use super::codec::{Put, Take, malformed};
use crate::app::{Note, Outcome};
use crate::error::{Error, Result};
use crate::inspect::{Content, Hidden, Report};
use crate::origin::Timeouts;
use crate::store::Overrides;
use crate::stream::{ResponseHead, Timings};
use crate::wire::{Fields, Head};

/// The flow of what a client sends once the protocol has changed.
pub(super) const TUNNEL: u32 = 1;

/// The first number that a worker gives to a flow of its own.
pub(super) const FIRST: u32 = 2;

/// Bytes of the longest message. Heads are shorter by far, and data is cut.
pub(super) const LONGEST: usize = 1 << 20;

/// Bytes of data in one message. Arbitrary: a slab of the most usual size.
pub(super) const PIECE: usize = 64 * 1024;

/// Bytes that may be on their way to a client: what the application writes beyond that waits with the worker, but for one
/// piece. Arbitrary: several times what asyncio has an application write before it is paused.
pub(super) const UNSENT: usize = 512 * 1024;

/// What a worker has the edge fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fetch {
    /// Of the response's body, and of the request's the other way.
    pub(super) flow: u32,
    /// Describes what is fetched from, to who can make that of it.
    pub(super) plan: Vec<u8>,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) fields: Fields,
    pub(super) timeouts: Timeouts,
    pub(super) body: FetchBody,
    pub(super) overrides: Option<Overrides>,
    /// The response is inspected, by its plan: by which the worker knows what is seen of it, and whether the request was
    /// amended.
    pub(super) inspection: Option<(u64, bool)>,
}

/// The body of a request that is fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FetchBody {
    None,
    /// All of it, behind what has come of it before.
    Bytes(Vec<u8>),
    /// It follows; its length, if that is known.
    Flow(Option<u64>),
    /// It is the client's, of which what has come to the worker follows, and the rest is the edge's own.
    Client(Option<u64>),
}

/// Whom a worker has let in to a topic, whose events are a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subscribe {
    pub(super) flow: u32,
    /// Describes hub and terms, to who can make that of it.
    pub(super) plan: Vec<u8>,
    pub(super) topic: String,
    /// What was had before.
    pub(super) after: Option<String>,
    pub(super) tenant: Option<String>,
    pub(super) address: Option<String>,
    /// For how long it may go on, and by which number of the worker's that is renewed.
    pub(super) lease: Option<(u64, Option<Duration>)>,
}

/// What a worker has a topic fed by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FeedTopic {
    /// Has no bytes: it ends when the topic is fed, or fails as that does.
    pub(super) flow: u32,
    /// What its events come from.
    pub(super) source: u32,
    /// The worker sends that; else it is what the edge has fetched for it.
    pub(super) is_own: bool,
    /// What the worker calls the hub.
    pub(super) hub: u64,
    pub(super) topic: String,
    /// The type of the event that tells of a failure.
    pub(super) error_event: String,
}

/// What is attached to the response of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attached {
    /// Which.
    pub(super) flow: u32,
    /// The worker sends it; else it is what the edge has fetched for it.
    pub(super) is_own: bool,
    /// It is cut into events.
    pub(super) is_events: bool,
    /// It goes by the policy of its plan.
    pub(super) has_policy: bool,
    /// It is all that is left of the body.
    pub(super) rest: Option<Rest>,
}

/// By which the worker knows who hears of an end, and what says to another one who would.
pub(super) type Rest = (u64, Option<Vec<u8>>);

/// One message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// The first on a connection that carries no exchange: the edge asks on it for signs of life, and says there how
    /// things have ended.
    Home,
    /// The first on a connection that carries one.
    Request {
        head: &'a [u8],
        has_body: bool,
        chunked: bool,
        is_proven: bool,
        remote: Option<SocketAddr>,
        local: Option<SocketAddr>,
    },
    /// The first on a connection for what belongs to no request, which the worker has called for by this number.
    Line(u64),
    /// A part of a flow.
    Data(u32, &'a [u8]),
    /// A flow has ended well; how long it took, and what followed it.
    End(u32, Duration, Fields),
    /// A flow has failed, also one whose head has not come.
    Fail(u32, Error),
    /// So many more bytes of a flow may be sent.
    Credit(u32, u32),
    /// Nobody takes the rest of a flow.
    Closed(u32),
    /// An interim response to something that is fetched.
    Interim(u32, Head),
    /// The head of something that is fetched.
    Head(u32, ResponseHead),
    /// The exchange is over for the client: why, if not as the worker has asked; whether some of the head had left.
    Lost(Option<Error>, bool),
    /// So many bytes of what was written have left.
    Sent(u64),
    /// What became of something that was attached as a part.
    Outcome(Outcome),
    /// The protocol has changed: flow [`TUNNEL`] begins.
    Tunnel,
    /// Of the worker's event loop a sign is wanted.
    Ping,
    /// It has given one.
    Pong,
    /// What became of the rest of a response, and how long its body took.
    Over(u64, Outcome, Option<Duration>),
    /// Whoever was to hear of that has.
    Heard(u64),
    /// What was seen of a response that was to be inspected and is over, if it was. Stands in front of a [`Message::Over`] of
    /// the same.
    Seen(u64, Option<Report>),
    /// One connection more is wanted, for what belongs to no request.
    Call(u64),
    /// For how long from now on what the worker has called by a number may go on; none: for ever.
    Renew(u64, Option<Duration>),
    /// Bytes for the client.
    Write(&'a [u8]),
    /// Something for the access log.
    Note(Note),
    /// The response has ended.
    Done,
    /// Close behind what was written.
    Close,
    /// Break off.
    Abort,
    /// The worker is done with the exchange.
    Leave,
    /// An option of the client's socket.
    Option(i32, i32, i32),
    /// A part of a body that stands in front of the one in the next [`Message::Fetch`].
    Body(&'a [u8]),
    /// Fetch something.
    Fetch(Box<Fetch>),
    /// Let somebody in to a topic.
    Subscribe(Box<Subscribe>),
    /// Have a topic fed.
    Feed(Box<FeedTopic>),
    /// Send a flow.
    Attach(Attached),
    /// The worker does not take the request.
    Refused(Error),
}

macro_rules! kinds {
    ($($name:ident = $number:literal),* $(,)?) => { $(const $name: u8 = $number;)* };
}

kinds! {
    HOME = 1, REQUEST = 2, DATA = 3, END = 4, FAIL = 5, CREDIT = 6, CLOSED = 7, INTERIM = 8, HEAD = 9, LOST = 10,
    SENT = 11, OUTCOME = 12, TUNNELLED = 13, PING = 14, PONG = 15, OVER = 16, HEARD = 17, WRITE = 18, DONE = 19,
    CLOSE = 20, ABORT = 21, LEAVE = 22, OPTION = 23, FETCH = 24, ATTACH = 25, REFUSED = 26, BODY = 27,
    SUBSCRIBE = 28, FEED = 29, RENEW = 30, CALL = 31, LINE = 32, SEEN = 33, NOTE = 34,
}

/// Bytes in front of a message: its length without them, and its kind.
pub(super) const PREFIX: usize = 5;

impl Message<'_> {
    /// Writes the message behind what `buffer` has.
    pub(super) fn encode(&self, buffer: &mut Vec<u8>) {
        let start = buffer.len();
        let mut put = Put(buffer);
        put.u32(0).u8(self.kind());
        self.put(&mut put);
        let length = u32::try_from(buffer.len() - start - PREFIX).unwrap_or(u32::MAX);
        buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Home => HOME,
            Self::Request { .. } => REQUEST,
            Self::Data(..) => DATA,
            Self::End(..) => END,
            Self::Fail(..) => FAIL,
            Self::Credit(..) => CREDIT,
            Self::Closed(..) => CLOSED,
            Self::Interim(..) => INTERIM,
            Self::Head(..) => HEAD,
            Self::Lost(..) => LOST,
            Self::Sent(..) => SENT,
            Self::Outcome(..) => OUTCOME,
            Self::Tunnel => TUNNELLED,
            Self::Ping => PING,
            Self::Pong => PONG,
            Self::Over(..) => OVER,
            Self::Heard(..) => HEARD,
            Self::Seen(..) => SEEN,
            Self::Write(..) => WRITE,
            Self::Note(..) => NOTE,
            Self::Done => DONE,
            Self::Close => CLOSE,
            Self::Abort => ABORT,
            Self::Leave => LEAVE,
            Self::Option(..) => OPTION,
            Self::Body(..) => BODY,
            Self::Fetch(..) => FETCH,
            Self::Subscribe(..) => SUBSCRIBE,
            Self::Feed(..) => FEED,
            Self::Renew(..) => RENEW,
            Self::Call(..) => CALL,
            Self::Line(..) => LINE,
            Self::Attach(..) => ATTACH,
            Self::Refused(..) => REFUSED,
        }
    }

    fn put(&self, put: &mut Put<'_>) {
        match self {
            Self::Home
            | Self::Tunnel
            | Self::Ping
            | Self::Pong
            | Self::Done
            | Self::Close
            | Self::Abort
            | Self::Leave => put,
            Self::Request { head, has_body, chunked, is_proven, remote, local } => put
                .flag(*has_body)
                .flag(*chunked)
                .flag(*is_proven)
                .address(*remote)
                .address(*local)
                .rest(head),
            Self::Data(flow, bytes) => put.u32(*flow).rest(bytes),
            Self::Write(bytes) | Self::Body(bytes) => put.rest(bytes),
            Self::End(flow, body, trailers) => put.u32(*flow).duration(*body).fields(Pairs::of(trailers)),
            Self::Fail(flow, error) => put.u32(*flow).error(error),
            Self::Credit(flow, bytes) => put.u32(*flow).u32(*bytes),
            Self::Closed(flow) => put.u32(*flow),
            Self::Interim(flow, head) => put_head(put.u32(*flow), head),
            Self::Head(flow, ResponseHead { head, timings, reused }) => {
                let Timings { queue, resolve, connect, tls, first_byte } = *timings;
                put.u32(*flow);
                for stage in [queue, resolve, connect, tls, first_byte] {
                    put.duration(stage);
                }
                put_head(put.flag(*reused), head)
            }
            Self::Lost(error, begun) => {
                put.option(error.as_ref(), |put, error| put.error(error)).flag(*begun)
            }
            Self::Note(Note { tenant, failure }) => put
                .option(tenant.as_ref(), |put, tenant| put.bytes(tenant.as_bytes()))
                .option(failure.as_ref(), |put, code| put.error(&code.error(""))),
            Self::Sent(bytes) => put.u64(*bytes),
            Self::Outcome(outcome) => put_outcome(put, outcome),
            Self::Over(ticket, outcome, body) => put_outcome(put.u64(*ticket), outcome).limit(*body),
            Self::Seen(ticket, report) => put.u64(*ticket).option(report.as_ref(), put_report),
            Self::Heard(number) | Self::Call(number) | Self::Line(number) => put.u64(*number),
            Self::Option(level, name, value) => put.i32(*level).i32(*name).i32(*value),
            Self::Fetch(fetch) => put_fetch(put, fetch),
            Self::Subscribe(subscribe) => put_subscribe(put, subscribe),
            Self::Feed(feed) => put_feed(put, feed),
            Self::Renew(lease, time) => put.u64(*lease).limit(*time),
            Self::Attach(attached) => put_attached(put, attached),
            Self::Refused(error) => put.error(error),
        };
    }

    /// Reads the message of `kind` that has these `bytes` behind its prefix.
    ///
    /// # Errors
    /// `INTERNAL`: it is none.
    pub(super) fn decode(kind: u8, bytes: &[u8]) -> Result<Message<'_>> {
        let mut take = Take(bytes);
        let message = match kind {
            HOME => Message::Home,
            REQUEST => {
                let (has_body, chunked, is_proven) = (take.flag()?, take.flag()?, take.flag()?);
                let (remote, local) = (take.address()?, take.address()?);
                Message::Request { head: take.rest(), has_body, chunked, is_proven, remote, local }
            }
            DATA => Message::Data(take.u32()?, take.rest()),
            END => Message::End(take.u32()?, take.duration()?, take.fields()?),
            FAIL => Message::Fail(take.u32()?, take.error()?),
            CREDIT => Message::Credit(take.u32()?, take.u32()?),
            CLOSED => Message::Closed(take.u32()?),
            INTERIM => Message::Interim(take.u32()?, take_head(&mut take)?),
            HEAD => Message::Head(take.u32()?, take_response_head(&mut take)?),
            LOST => Message::Lost(take.option(Take::error)?, take.flag()?),
            NOTE => Message::Note(Note {
                tenant: take.option(Take::text)?.map(str::to_owned),
                failure: take.option(Take::error)?.map(|error| error.code()),
            }),
            SENT => Message::Sent(take.u64()?),
            OUTCOME => Message::Outcome(take_outcome(&mut take)?),
            TUNNELLED => Message::Tunnel,
            PING => Message::Ping,
            PONG => Message::Pong,
            OVER => Message::Over(take.u64()?, take_outcome(&mut take)?, take.limit()?),
            HEARD => Message::Heard(take.u64()?),
            SEEN => Message::Seen(take.u64()?, take.option(take_report)?),
            WRITE => Message::Write(take.rest()),
            DONE => Message::Done,
            CLOSE => Message::Close,
            ABORT => Message::Abort,
            LEAVE => Message::Leave,
            OPTION => Message::Option(take.i32()?, take.i32()?, take.i32()?),
            FETCH => Message::Fetch(Box::new(take_fetch(&mut take)?)),
            SUBSCRIBE => Message::Subscribe(Box::new(take_subscribe(&mut take)?)),
            FEED => Message::Feed(Box::new(take_feed(&mut take)?)),
            RENEW => Message::Renew(take.u64()?, take.limit()?),
            CALL => Message::Call(take.u64()?),
            LINE => Message::Line(take.u64()?),
            ATTACH => Message::Attach(take_attached(&mut take)?),
            REFUSED => Message::Refused(take.error()?),
            BODY => Message::Body(take.rest()),
            _ => return Err(malformed()),
        };
        take.end()?;
        Ok(message)
    }
}

/// Fields, which know how many they are.
struct Pairs<I>(I, usize);

impl<'a> Pairs<()> {
    fn of(fields: &'a Fields) -> Pairs<impl Iterator<Item = (&'a [u8], &'a [u8])>> {
        Pairs(fields.iter(), fields.len())
    }
}

impl<I: Iterator> Iterator for Pairs<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.1 = self.1.saturating_sub(1);
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.1, Some(self.1))
    }
}

impl<I: Iterator> ExactSizeIterator for Pairs<I> {}

fn put_head<'a, 'b>(put: &'a mut Put<'b>, head: &Head) -> &'a mut Put<'b> {
    put.u16(head.status).u8(head.minor_version).bytes(head.reason()).fields(head.headers())
}

fn take_head(take: &mut Take<'_>) -> Result<Head> {
    let (status, minor_version, reason) = (take.u16()?, take.u8()?, take.bytes()?);
    let mut head = Head::new(status, reason, take.fields()?.iter());
    head.minor_version = minor_version;
    Ok(head)
}

fn take_response_head(take: &mut Take<'_>) -> Result<ResponseHead> {
    let timings = Timings {
        queue: take.duration()?,
        resolve: take.duration()?,
        connect: take.duration()?,
        tls: take.duration()?,
        first_byte: take.duration()?,
    };
    Ok(ResponseHead { reused: take.flag()?, head: take_head(take)?, timings })
}

fn put_outcome<'a, 'b>(put: &'a mut Put<'b>, outcome: &Outcome) -> &'a mut Put<'b> {
    put.u64(outcome.bytes).flag(outcome.begun).option(outcome.failure.as_ref(), |put, error| put.error(error))
}

fn take_outcome(take: &mut Take<'_>) -> Result<Outcome> {
    Ok(Outcome { bytes: take.u64()?, begun: take.flag()?, failure: take.option(Take::error)? })
}

fn put_report<'a, 'b>(put: &'a mut Put<'b>, report: &Report) -> &'a mut Put<'b> {
    let Report { content, amended, events, bytes, first, longest_gap, total, usage, hidden } = report;
    put.u8(match content {
        Content::Events => 0,
        Content::Json => 1,
        Content::Other => 2,
    })
    .flag(*amended)
    .u64(*events)
    .u64(*bytes)
    .limit(*first)
    .limit(*longest_gap)
    .duration(*total)
    .option(usage.as_ref(), |put, usage| put.bytes(usage))
    .u8(match hidden {
        None => 0,
        Some(Hidden::Encoded) => 1,
        Some(Hidden::TooLarge) => 2,
    })
}

fn take_report(take: &mut Take<'_>) -> Result<Report> {
    Ok(Report {
        content: match take.u8()? {
            0 => Content::Events,
            1 => Content::Json,
            2 => Content::Other,
            _ => return Err(malformed()),
        },
        amended: take.flag()?,
        events: take.u64()?,
        bytes: take.u64()?,
        first: take.limit()?,
        longest_gap: take.limit()?,
        total: take.duration()?,
        usage: take.option(Take::bytes)?.map(<[u8]>::to_vec),
        hidden: match take.u8()? {
            0 => None,
            1 => Some(Hidden::Encoded),
            2 => Some(Hidden::TooLarge),
            _ => return Err(malformed()),
        },
    })
}

fn put_fetch<'a, 'b>(put: &'a mut Put<'b>, fetch: &Fetch) -> &'a mut Put<'b> {
    put.u32(fetch.flow)
        .bytes(&fetch.plan)
        .bytes(fetch.method.as_bytes())
        .bytes(fetch.target.as_bytes())
        .fields(Pairs::of(&fetch.fields));
    let Timeouts { queue, resolve, connect, tls, first_byte, between_bytes, tunnel, total, .. } =
        fetch.timeouts;
    for limit in [queue, resolve, connect, tls, first_byte, between_bytes, tunnel, total] {
        put.limit(limit);
    }
    put.flag(fetch.timeouts.lets_events_pause);
    match &fetch.body {
        FetchBody::None => put.u8(0),
        FetchBody::Bytes(bytes) => put.u8(1).bytes(bytes),
        FetchBody::Flow(length) => put.u8(2).option(*length, |put, length| put.u64(length)),
        FetchBody::Client(length) => put.u8(3).option(*length, |put, length| put.u64(length)),
    };
    put.option(fetch.overrides.as_ref(), |put, Overrides { key, lifetime, tags, bypass }| {
        put.option(key.as_deref(), |put, key| put.bytes(key.as_bytes()))
            .limit(*lifetime)
            .u32(u32::try_from(tags.len()).unwrap_or(u32::MAX));
        for tag in tags {
            put.bytes(tag.as_bytes());
        }
        put.flag(*bypass)
    })
    .option(fetch.inspection, |put, (ticket, amended)| put.u64(ticket).flag(amended))
}

fn take_fetch(take: &mut Take<'_>) -> Result<Fetch> {
    Ok(Fetch {
        flow: take.u32()?,
        plan: take.bytes()?.to_vec(),
        method: take.text()?.to_owned(),
        target: take.text()?.to_owned(),
        fields: take.fields()?,
        timeouts: Timeouts {
            queue: take.limit()?,
            resolve: take.limit()?,
            connect: take.limit()?,
            tls: take.limit()?,
            first_byte: take.limit()?,
            between_bytes: take.limit()?,
            tunnel: take.limit()?,
            total: take.limit()?,
            lets_events_pause: take.flag()?,
        },
        body: match take.u8()? {
            0 => FetchBody::None,
            1 => FetchBody::Bytes(take.bytes()?.to_vec()),
            2 => FetchBody::Flow(take.option(Take::u64)?),
            3 => FetchBody::Client(take.option(Take::u64)?),
            _ => return Err(malformed()),
        },
        overrides: take.option(|take| {
            let key = take.option(Take::text)?.map(Into::into);
            let lifetime = take.limit()?;
            let tags = (0..take.count()?).map(|_| take.text().map(Into::into)).collect::<Result<_>>()?;
            Ok(Overrides { key, lifetime, tags, bypass: take.flag()? })
        })?,
        inspection: take.option(|take| Ok((take.u64()?, take.flag()?)))?,
    })
}

fn put_subscribe<'a, 'b>(put: &'a mut Put<'b>, subscribe: &Subscribe) -> &'a mut Put<'b> {
    let Subscribe { flow, plan, topic, after, tenant, address, lease } = subscribe;
    put.u32(*flow).bytes(plan).bytes(topic.as_bytes());
    for text in [after, tenant, address] {
        put.option(text.as_ref(), |put, text| put.bytes(text.as_bytes()));
    }
    put.option(*lease, |put, (number, time)| put.u64(number).limit(time))
}

fn take_subscribe(take: &mut Take<'_>) -> Result<Subscribe> {
    fn text(take: &mut Take<'_>) -> Result<Option<String>> {
        Ok(take.option(Take::text)?.map(str::to_owned))
    }
    Ok(Subscribe {
        flow: take.u32()?,
        plan: take.bytes()?.to_vec(),
        topic: take.text()?.to_owned(),
        after: text(take)?,
        tenant: text(take)?,
        address: text(take)?,
        lease: take.option(|take| Ok((take.u64()?, take.limit()?)))?,
    })
}

fn put_feed<'a, 'b>(put: &'a mut Put<'b>, feed: &FeedTopic) -> &'a mut Put<'b> {
    let FeedTopic { flow, source, is_own, hub, topic, error_event } = feed;
    put.u32(*flow).u32(*source).flag(*is_own).u64(*hub).bytes(topic.as_bytes()).bytes(error_event.as_bytes())
}

fn take_feed(take: &mut Take<'_>) -> Result<FeedTopic> {
    Ok(FeedTopic {
        flow: take.u32()?,
        source: take.u32()?,
        is_own: take.flag()?,
        hub: take.u64()?,
        topic: take.text()?.to_owned(),
        error_event: take.text()?.to_owned(),
    })
}

fn put_attached<'a, 'b>(put: &'a mut Put<'b>, attached: &Attached) -> &'a mut Put<'b> {
    let Attached { flow, is_own, is_events, has_policy, rest } = attached;
    put.u32(*flow)
        .flag(*is_own)
        .flag(*is_events)
        .flag(*has_policy)
        .option(rest.as_ref(), |put, (ticket, account)| {
            put.u64(*ticket).option(account.as_ref(), |put, account| put.bytes(account))
        })
}

fn take_attached(take: &mut Take<'_>) -> Result<Attached> {
    Ok(Attached {
        flow: take.u32()?,
        is_own: take.flag()?,
        is_events: take.flag()?,
        has_policy: take.flag()?,
        rest: take.option(|take| Ok((take.u64()?, take.option(Take::bytes)?.map(<[u8]>::to_vec))))?,
    })
}
