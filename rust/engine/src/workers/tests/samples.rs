//! Every message that there is, with anything in it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::message::{Attached, FeedTopic, Fetch, FetchBody, Message, Subscribe};
use crate::app::{Ends, Note, Outcome, TlsSession};
use crate::error::{Code, Error};
use crate::inspect::{Content, Hidden, Report};
use crate::origin::Timeouts;
use crate::store::Overrides;
use crate::stream::{ResponseHead, Timings};
use crate::wire::{Fields, Head};

/// A message, and the bytes that it borrows.
#[derive(Debug)]
pub(super) enum Sample {
    Whole(Message<'static>),
    Request { head: Vec<u8>, flags: [bool; 3], ends: Ends },
    Data(u32, Vec<u8>),
    Body(Vec<u8>),
    Write(Vec<u8>),
}

impl Sample {
    pub(super) fn encoded(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.look(|message| message.encode(&mut bytes));
        bytes
    }

    pub(super) fn look<T>(&self, see: impl FnOnce(&Message<'_>) -> T) -> T {
        match self {
            Self::Whole(message) => see(message),
            Self::Request { head, flags: [has_body, chunked, is_proven], ends } => see(&Message::Request {
                head,
                has_body: *has_body,
                chunked: *chunked,
                is_proven: *is_proven,
                ends: ends.clone(),
            }),
            Self::Data(flow, bytes) => see(&Message::Data(*flow, bytes)),
            Self::Body(bytes) => see(&Message::Body(bytes)),
            Self::Write(bytes) => see(&Message::Write(bytes)),
        }
    }

    /// Whether its last part is as long as the message says, so that less of it is another message.
    pub(super) fn is_open_ended(&self) -> bool {
        !matches!(self, Self::Whole(_))
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40)
}

fn duration() -> impl Strategy<Value = Duration> {
    (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos))
}

fn limit() -> impl Strategy<Value = Option<Duration>> {
    option::of(duration())
}

fn fields() -> impl Strategy<Value = Fields> {
    vec((bytes(), bytes()), 0..6).prop_map(|fields| fields.into_iter().collect())
}

fn code() -> impl Strategy<Value = Code> {
    select(Code::all()).prop_map(|row| row.code)
}

fn error() -> impl Strategy<Value = Error> {
    (code(), any::<String>(), option::of(any::<String>())).prop_map(|(code, detail, origin)| {
        let error = code.error(detail);
        match origin {
            Some(origin) => error.at(&origin.into()),
            None => error,
        }
    })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    (any::<u64>(), any::<bool>(), option::of(error())).prop_map(|(bytes, begun, failure)| Outcome {
        bytes,
        begun,
        failure,
    })
}

fn head() -> impl Strategy<Value = Head> {
    (any::<u16>(), any::<u8>(), bytes(), fields()).prop_map(|(status, minor_version, reason, fields)| {
        let mut head = Head::new(status, &reason, fields.iter());
        head.minor_version = minor_version;
        head
    })
}

fn response_head() -> impl Strategy<Value = ResponseHead> {
    let stages = (duration(), duration(), duration(), duration(), duration());
    (head(), any::<bool>(), stages).prop_map(|(head, reused, (queue, resolve, connect, tls, first_byte))| {
        ResponseHead { head, reused, timings: Timings { queue, resolve, connect, tls, first_byte } }
    })
}

fn timeouts() -> impl Strategy<Value = Timeouts> {
    let limits = (limit(), limit(), limit(), limit(), limit(), limit(), limit(), limit());
    (limits, any::<bool>()).prop_map(
        |((queue, resolve, connect, tls, first_byte, between_bytes, tunnel, total), lets_events_pause)| {
            Timeouts {
                queue,
                resolve,
                connect,
                tls,
                first_byte,
                between_bytes,
                tunnel,
                total,
                lets_events_pause,
            }
        },
    )
}

fn overrides() -> impl Strategy<Value = Overrides> {
    let text = || any::<String>().prop_map(String::into_boxed_str);
    (option::of(text()), limit(), vec(text(), 0..4), any::<bool>())
        .prop_map(|(key, lifetime, tags, bypass)| Overrides { key, lifetime, tags, bypass })
}

fn fetch() -> impl Strategy<Value = Fetch> {
    let body = prop_oneof![
        Just(FetchBody::None),
        bytes().prop_map(FetchBody::Bytes),
        any::<Option<u64>>().prop_map(FetchBody::Flow),
        any::<Option<u64>>().prop_map(FetchBody::Client),
    ];
    let texts = (any::<String>(), any::<String>());
    let inspection = any::<Option<(u64, bool)>>();
    (any::<u32>(), bytes(), texts, fields(), timeouts(), body, option::of(overrides()), inspection).prop_map(
        |(flow, plan, (method, target), fields, timeouts, body, overrides, inspection)| Fetch {
            flow,
            plan,
            method,
            target,
            fields,
            timeouts,
            body,
            overrides,
            inspection,
        },
    )
}

fn report() -> impl Strategy<Value = Report> {
    let content = select(vec![Content::Events, Content::Json, Content::Other]);
    let hidden = select(vec![None, Some(Hidden::Encoded), Some(Hidden::TooLarge)]);
    let times = (limit(), limit(), duration());
    (content, any::<bool>(), any::<(u64, u64)>(), times, option::of(bytes()), hidden).prop_map(
        |(content, amended, (events, bytes), (first, longest_gap, total), usage, hidden)| Report {
            content,
            amended,
            events,
            bytes,
            first,
            longest_gap,
            total,
            usage,
            hidden,
        },
    )
}

fn subscribe() -> impl Strategy<Value = Subscribe> {
    let texts = (any::<String>(), any::<[Option<String>; 3]>());
    (any::<u32>(), bytes(), texts, option::of((any::<u64>(), limit()))).prop_map(
        |(flow, plan, (topic, [after, tenant, address]), lease)| Subscribe {
            flow,
            plan,
            topic,
            after,
            tenant,
            address,
            lease,
        },
    )
}

fn feed() -> impl Strategy<Value = FeedTopic> {
    any::<(u32, u32, bool, u64, String, String)>().prop_map(
        |(flow, source, is_own, hub, topic, error_event)| FeedTopic {
            flow,
            source,
            is_own,
            hub,
            topic,
            error_event,
        },
    )
}

fn attached() -> impl Strategy<Value = Attached> {
    let rest = option::of((any::<u64>(), option::of(bytes())));
    (any::<u32>(), any::<[bool; 3]>(), rest).prop_map(|(flow, [is_own, is_events, has_policy], rest)| {
        Attached { flow, is_own, is_events, has_policy, rest }
    })
}

fn request() -> impl Strategy<Value = Sample> {
    let ends = (any::<Option<SocketAddr>>(), any::<Option<SocketAddr>>(), option::of(session()));
    (bytes(), any::<[bool; 3]>(), ends).prop_map(|(head, flags, (remote, local, tls))| Sample::Request {
        head,
        flags,
        ends: Ends { remote, local, tls: tls.map(Arc::new) },
    })
}

fn session() -> impl Strategy<Value = TlsSession> {
    let name = option::of(any::<String>().prop_map(Into::into));
    let certificates = vec(bytes().prop_map(Into::into), 0..3);
    (any::<[u16; 2]>(), name, bytes(), certificates, any::<bool>()).prop_map(
        |([version, suite], server_name, protocol, certificates, is_resumed)| TlsSession {
            version,
            suite,
            server_name,
            protocol: protocol.into(),
            certificates,
            is_resumed,
        },
    )
}

/// Messages that say no more than their kind.
fn plain() -> impl Strategy<Value = Message<'static>> {
    (0..8_u8).prop_map(|number| match number {
        0 => Message::Control,
        1 => Message::Tunnel,
        2 => Message::Ping,
        3 => Message::Pong,
        4 => Message::Done,
        5 => Message::Close,
        6 => Message::Abort,
        _ => Message::Leave,
    })
}

fn whole() -> impl Strategy<Value = Message<'static>> {
    prop_oneof![
        plain(),
        (any::<u32>(), duration(), fields())
            .prop_map(|(flow, body, trailers)| Message::End(flow, body, trailers)),
        (any::<u32>(), error()).prop_map(|(flow, error)| Message::Fail(flow, error)),
        any::<(u32, u32)>().prop_map(|(flow, bytes)| Message::Credit(flow, bytes)),
        any::<u32>().prop_map(Message::Closed),
        (any::<u32>(), head()).prop_map(|(flow, head)| Message::Interim(flow, head)),
        (any::<u32>(), response_head()).prop_map(|(flow, head)| Message::Head(flow, head)),
        (option::of(error()), any::<bool>()).prop_map(|(error, begun)| Message::Lost(error, begun)),
        any::<u64>().prop_map(Message::Sent),
        outcome().prop_map(Message::Outcome),
        (any::<u64>(), outcome(), limit())
            .prop_map(|(ticket, outcome, body)| Message::Over(ticket, outcome, body)),
        any::<u64>().prop_map(Message::Heard),
        (any::<u64>(), option::of(report())).prop_map(|(ticket, report)| Message::Seen(ticket, report)),
        any::<u64>().prop_map(Message::Call),
        any::<u64>().prop_map(Message::Line),
        any::<(i32, i32, i32)>().prop_map(|(level, name, value)| Message::Option(level, name, value)),
        fetch().prop_map(|fetch| Message::Fetch(Box::new(fetch))),
        subscribe().prop_map(|subscribe| Message::Subscribe(Box::new(subscribe))),
        feed().prop_map(|feed| Message::Feed(Box::new(feed))),
        (any::<u64>(), limit()).prop_map(|(lease, time)| Message::Renew(lease, time)),
        attached().prop_map(Message::Attach),
        error().prop_map(Message::Refused),
        (option::of(any::<String>()), option::of(code()))
            .prop_map(|(tenant, failure)| Message::Note(Note { tenant, failure })),
    ]
}

/// Any message.
pub(super) fn sample() -> impl Strategy<Value = Sample> {
    prop_oneof![
        12 => whole().prop_map(Sample::Whole),
        1 => request(),
        1 => (any::<u32>(), bytes()).prop_map(|(flow, bytes)| Sample::Data(flow, bytes)),
        1 => bytes().prop_map(Sample::Body),
        1 => bytes().prop_map(Sample::Write),
    ]
}
