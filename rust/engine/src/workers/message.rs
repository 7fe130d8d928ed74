//! The messages between the edge and a worker process: one after the other on a Unix socket, each after its length.
//! One connection carries one exchange, so that no exchange can block another.
//!
//! Bodies are flows, each with a number: 0 is the request's body, [`TUNNEL`] the bytes after it when the protocol has
//! changed, and each body that the worker has the edge fetch or send has a number of its own. A number is at most one
//! flow each way. A flow never sends more than the other side has granted, so both sides can always read on.

use std::time::Duration;

use super::ends::{put_ends, take_ends};
use crate::app::{Ends, Note, Outcome};
use crate::codec::{Put, Take, malformed};
use crate::error::{Error, Result};
use crate::inspect::{Content, Hidden, Report};
use crate::origin::Timeouts;
use crate::store::Overrides;
use crate::stream::{ResponseHead, Timings};
use crate::wire::{Fields, Head};

/// The flow of a client's bytes after the protocol has changed.
pub(super) const TUNNEL: u32 = 1;

/// The first number that a worker gives to a flow of its own.
pub(super) const FIRST: u32 = 2;

/// The limit of a message in bytes. Heads are much shorter, and data is cut.
pub(super) const LONGEST: usize = 1 << 20;

/// Bytes of data in one message. Arbitrary: a slab of the most usual size.
pub(super) const PIECE: usize = 64 * 1024;

/// The limit of bytes on their way to a client, besides one piece; further writes of the application wait in the worker.
/// Arbitrary: several times what asyncio lets an application write before it is paused.
pub(super) const UNSENT: usize = 512 * 1024;

/// A request that the edge fetches for a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fetch {
    /// The flow of the response's body, and the other way of the request's body.
    pub(super) flow: u32,
    /// The description of the relay's plan.
    pub(super) plan: Vec<u8>,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) fields: Fields,
    pub(super) timeouts: Timeouts,
    pub(super) body: FetchBody,
    pub(super) overrides: Option<Overrides>,
    /// If the response is inspected: the ticket of the report, and whether the request was amended.
    pub(super) inspection: Option<(u64, bool)>,
}

/// The body of such a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FetchBody {
    None,
    /// All of it, after the parts in [`Message::Body`].
    Bytes(Vec<u8>),
    /// It follows as a flow; its length, if known.
    Flow(Option<u64>),
    /// It is the client's body: what the worker has received follows as a flow, and the edge adds the
    /// rest.
    Client(Option<u64>),
}

/// A subscriber that a worker has admitted to a topic, whose events are a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subscribe {
    pub(super) flow: u32,
    /// The description of the plan: hub and terms.
    pub(super) plan: Vec<u8>,
    pub(super) topic: String,
    /// The id of the last event that it has received.
    pub(super) after: Option<String>,
    pub(super) tenant: Option<String>,
    pub(super) address: Option<String>,
    /// The number and the time of its lease, which the worker renews.
    pub(super) lease: Option<(u64, Option<Duration>)>,
}

/// A topic that the edge feeds for a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FeedTopic {
    /// A flow without bytes: it ends when the feeding has begun, or fails.
    pub(super) flow: u32,
    /// The flow of its events.
    pub(super) source: u32,
    /// Whether the worker sends the source; else the edge has fetched it.
    pub(super) is_own: bool,
    /// The worker's number of the hub.
    pub(super) hub: u64,
    pub(super) topic: String,
    /// The type of the event that tells of a failure.
    pub(super) error_event: String,
}

/// A flow that is attached to the response of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attached {
    /// Its number.
    pub(super) flow: u32,
    /// Whether the worker sends it; else the edge has fetched it.
    pub(super) is_own: bool,
    /// Whether it is cut into events.
    pub(super) is_events: bool,
    /// Whether the policy of its plan applies.
    pub(super) has_policy: bool,
    /// If it is the whole rest of the body: who is told of its end.
    pub(super) rest: Option<Rest>,
}

/// The worker's ticket of a completion, and its account for another worker, if this one is gone by
/// then.
pub(super) type Rest = (u64, Option<Vec<u8>>);

/// One message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// The first message on the control connection, on which the edge asks for signs of life and tells of ends.
    Control,
    /// The first message on the connection of an exchange.
    Request { head: &'a [u8], has_body: bool, chunked: bool, is_proven: bool, ends: Ends },
    /// The first message on a connection for tasks that belong to no request. The worker has called for it by
    /// this number.
    Line(u64),
    /// A part of a flow.
    Data(u32, &'a [u8]),
    /// A flow has ended well: its time, and its trailers.
    End(u32, Duration, Fields),
    /// A flow has failed, before its head or after.
    Fail(u32, Error),
    /// More bytes of a flow may be sent.
    Credit(u32, u32),
    /// The receiver does not want the rest of a flow.
    Closed(u32),
    /// An interim response to a fetch.
    Interim(u32, Head),
    /// The head of a fetched response.
    Head(u32, ResponseHead),
    /// The exchange is over for the client: the error, if it did not end as the worker asked; whether some of the
    /// head had left.
    Lost(Option<Error>, bool),
    /// Bytes that were written have left.
    Sent(u64),
    /// The outcome of a flow that was attached as a part.
    Outcome(Outcome),
    /// The protocol has changed: flow [`TUNNEL`] begins.
    Tunnel,
    /// Asks for a sign of the worker's event loop.
    Ping,
    /// The event loop has given a sign.
    Pong,
    /// The outcome of the rest of a response, and the time of its body.
    Over(u64, Outcome, Option<Duration>),
    /// The completion of that ticket has been told.
    Heard(u64),
    /// The inspection report of a response that is over; `None` if it was not inspected. Comes before the [`Message::Over`]
    /// of the same response.
    Seen(u64, Option<Report>),
    /// Asks for a connection for tasks that belong to no request.
    Call(u64),
    /// Renews a lease for this time; `None` is without limit.
    Renew(u64, Option<Duration>),
    /// Bytes for the client.
    Write(&'a [u8]),
    /// A note for the access log.
    Note(Note),
    /// The response has ended.
    Done,
    /// Close the connection after what was written.
    Close,
    /// Cut the response off.
    Abort,
    /// The worker is done with the exchange.
    Leave,
    /// An option of the client's socket.
    Option(i32, i32, i32),
    /// A part of a body, before the last part in the next [`Message::Fetch`].
    Body(&'a [u8]),
    /// Fetch a response.
    Fetch(Box<Fetch>),
    /// Admit a subscriber to a topic.
    Subscribe(Box<Subscribe>),
    /// Feed a topic.
    Feed(Box<FeedTopic>),
    /// Attach a flow to the response.
    Attach(Attached),
    /// The worker refuses the request.
    Refused(Error),
}

macro_rules! kinds {
    ($($name:ident = $number:literal),* $(,)?) => { $(const $name: u8 = $number;)* };
}

kinds! {
    CONTROL = 1, REQUEST = 2, DATA = 3, END = 4, FAIL = 5, CREDIT = 6, CLOSED = 7, INTERIM = 8, HEAD = 9, LOST = 10,
    SENT = 11, OUTCOME = 12, TUNNELLED = 13, PING = 14, PONG = 15, OVER = 16, HEARD = 17, WRITE = 18, DONE = 19,
    CLOSE = 20, ABORT = 21, LEAVE = 22, OPTION = 23, FETCH = 24, ATTACH = 25, REFUSED = 26, BODY = 27,
    SUBSCRIBE = 28, FEED = 29, RENEW = 30, CALL = 31, LINE = 32, SEEN = 33, NOTE = 34,
}

/// Bytes before a message: its length without them, and its kind.
pub(super) const PREFIX: usize = 5;

impl Message<'_> {
    /// Appends the message to `buffer`.
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
            Self::Control => CONTROL,
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
            Self::Control
            | Self::Tunnel
            | Self::Ping
            | Self::Pong
            | Self::Done
            | Self::Close
            | Self::Abort
            | Self::Leave => put,
            Self::Request { head, has_body, chunked, is_proven, ends } => {
                put_ends(put.flag(*has_body).flag(*chunked).flag(*is_proven), ends).rest(head)
            }
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
                .option(*failure, Put::code),
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

    /// Decodes a message of `kind` from the `bytes` after its prefix.
    ///
    /// # Errors
    /// `INTERNAL`: they are no such message.
    pub(super) fn decode(kind: u8, bytes: &[u8]) -> Result<Message<'_>> {
        let mut take = Take(bytes);
        let message = match kind {
            CONTROL => Message::Control,
            REQUEST => {
                let (has_body, chunked, is_proven) = (take.flag()?, take.flag()?, take.flag()?);
                let ends = take_ends(&mut take)?;
                Message::Request { head: take.rest(), has_body, chunked, is_proven, ends }
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
                failure: take.option(Take::code)?,
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
