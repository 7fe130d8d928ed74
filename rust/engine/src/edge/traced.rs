//! The trace of a request: what is told of the request at its end, and of a stream while it goes on.

use std::sync::Arc as Plain;
use std::time::Duration;

use penstock_trace::{
    Answered, Attribute, Following, Parent, Trace, TraceId, Tracer, Value, host_and_port, known_method,
};

use super::client::Client;
use super::followed::Followed;
use super::progress::Progress;
use super::record::Record;
use super::site::Site;
use crate::access::Decision;
use crate::clock;
use crate::error::{Error, Source};
use crate::net::Supply;
use crate::wire::{Incoming, is_one_of, shown};

/// A request's trace, and what keeps it.
#[derive(Debug)]
pub(super) struct Traced {
    /// `None`: it collects attempts for the log alone.
    tracer: Option<Plain<Tracer>>,
    pub(super) trace: Plain<Trace>,
    /// The request tells of a trace.
    has_fields: bool,
}

impl Traced {
    /// Of a request of `site` that has come now, if something is kept of it. `is_traffic`: it is a client's.
    pub(super) fn begin(site: &Site, is_traffic: bool, incoming: &Incoming) -> Option<Self> {
        if let Some(tracer) = site.supplies.tracer.as_ref().filter(|_| is_traffic) {
            let [parent, state] = penstock_trace::FIELDS;
            let has_fields = incoming.headers().any(|(name, _)| is_one_of(name, &penstock_trace::FIELDS));
            let parent = has_fields.then(|| Parent::of(incoming.get_all(parent), incoming.get_all(state)));
            let parent = parent.flatten();
            let trace = tracer.begin(parent, site.config.trusts_trace_context, clock::now().into_std());
            return Some(Self { tracer: Some(Plain::clone(tracer)), trace, has_fields });
        }
        let log = site.log.as_ref()?;
        log.format.tells_of_attempts().then(|| Self {
            tracer: None,
            trace: Trace::untold(clock::now().into_std()),
            has_fields: false,
        })
    }

    /// Whether the request tells of a trace in fields that other servers are told differently.
    pub(super) fn replaces_fields(&self) -> bool {
        self.has_fields && self.trace.is_told()
    }

    /// The trace, if it is kept for sure.
    pub(super) fn kept(&self) -> Option<TraceId> {
        let context = self.trace.context;
        context.is_sampled.then_some(context.trace)
    }

    /// The fields that say of which trace what follows is a part.
    pub(super) fn fields(&self) -> Vec<(&'static str, Vec<u8>)> {
        let mut fields = Vec::new();
        self.trace.tell(&self.trace.context, |name, value| fields.push((name, value.to_vec())));
        fields
    }

    /// The response begins with `status`, and may go on for hours: its request is told now, and the rest an interval at a time.
    pub(super) fn follow(&self, record: &Record<'_>, status: Option<u16>, supply: Supply) -> Supply {
        let Some(tracer) = self.tracer.as_ref().filter(|_| self.trace.context.is_sampled) else {
            return supply;
        };
        let following = tracer.follow(&self.trace, &name(record));
        if !record.progress.follow(Plain::clone(&following)) {
            // One response is followed once: an application may send several streams one after the other.
            return supply;
        }
        self.keep(record, status.unwrap_or_default(), None, true);
        Supply::Source(Box::new(Followed::new(supply, following)))
    }

    /// The request is over, with what the client got.
    pub(super) fn end(&self, record: &Record<'_>, status: u16, error: Option<&Error>) {
        match (record.progress.followed(), &self.tracer) {
            (Some(following), Some(tracer)) => tracer.leave(&following, how(error)),
            _ => self.keep(record, status, error, false),
        }
    }

    fn keep(&self, record: &Record<'_>, status: u16, error: Option<&Error>, is_stream: bool) {
        // A client's fault is no failure of the server's (OpenTelemetry, semantic conventions for HTTP, "Status").
        let is_failure = status >= 500 || error.is_some_and(|error| error.code().source() != Source::Client);
        let took = record.progress.elapsed();
        let Some(tracer) = &self.tracer else { return };
        let Some(kept) = tracer.keeps(&self.trace, is_failure, took) else { return };
        let told = Told::of(record, status);
        let decision = record.progress.decision();
        let status_text = if is_failure { status.to_string() } else { String::new() };
        let mut attributes = told.attributes(record);
        attributes.push(("penstock.stream", Value::Flag(is_stream)));
        let tenant = decision.as_deref().and_then(Decision::tenant);
        attributes.extend(tenant.map(|tenant| ("penstock.tenant", Value::Text(tenant))));
        if is_failure {
            let error = error.map_or(&*status_text, |error| error.code().name());
            attributes.push(("error.type", Value::Text(error)));
        }
        let answered = Answered { name: &name(record), attributes: &attributes, is_failure, took };
        tracer.keep(&self.trace, kept, &answered);
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.trace.spare();
    }
}

/// How a stream has ended.
fn how(error: Option<&Error>) -> &'static str {
    match error.map(Error::code) {
        None => "whole",
        Some(code) if code.source() == Source::Client => "client",
        Some(code) => code.name(),
    }
}

/// The method and the route, of which there is a bounded number.
fn name(record: &Record<'_>) -> String {
    let method = known_method(record.incoming.map_or("_OTHER", Incoming::method));
    let method = if method == "_OTHER" { "HTTP" } else { method };
    match record.route() {
        Some(route) => [method, " ", route].concat(),
        None => method.to_owned(),
    }
}

/// What is known of a request, in the form in which it is told.
struct Told {
    status: u16,
    version: &'static str,
    path: String,
    host: String,
    port: Option<u16>,
    agent: Option<String>,
    first_byte: Option<Duration>,
}

impl Told {
    fn of(record: &Record<'_>, status: u16) -> Self {
        let Record { client, progress, .. } = record;
        let (authority, scheme) = (record.incoming.map_or("", Incoming::authority), Client::scheme(client));
        let (host, port) = host_and_port(authority, scheme);
        let path = record.incoming.map_or_else(String::new, |incoming| {
            // What follows may hold a token; so may the path.
            shown(&incoming.origin_form()).split('?').next().unwrap_or_default().to_owned()
        });
        let agent = record.incoming.and_then(|incoming| incoming.get_all("user-agent").next());
        Self {
            status,
            version: match client.version(record.incoming.map_or(1, |incoming| incoming.minor_version)) {
                (2, _) => "2",
                (_, 0) => "1.0",
                _ => "1.1",
            },
            path,
            host: host.to_owned(),
            port,
            agent: agent.map(|agent| String::from_utf8_lossy(agent).into_owned()),
            first_byte: progress.first_byte(),
        }
    }

    fn attributes<'a>(&'a self, record: &'a Record<'_>) -> Vec<Attribute<'a>> {
        let Record { client, progress, .. } = record;
        let method = record.incoming.map_or("_OTHER", Incoming::method);
        let known = known_method(method);
        let mut attributes = Vec::with_capacity(20);
        attributes.push(("http.request.method", Value::Text(known)));
        if known != method {
            attributes.push(("http.request.method_original", Value::Text(method)));
        }
        attributes.push(("url.scheme", Value::Text(client.scheme())));
        attributes.push(("url.path", Value::Text(&self.path)));
        attributes.extend(record.route().map(|route| ("http.route", Value::Text(route))));
        if self.status > 0 {
            attributes.push(("http.response.status_code", Value::Number(self.status.into())));
        }
        if !self.host.is_empty() {
            attributes.push(("server.address", Value::Text(&self.host)));
            attributes.extend(self.port.map(|port| ("server.port", Value::Number(port.into()))));
        }
        let address = client.addresses.host.as_deref();
        attributes.extend(address.map(|address| ("client.address", Value::Text(address))));
        attributes.push(("network.protocol.version", Value::Text(self.version)));
        attributes.extend(self.agent.as_deref().map(|agent| ("user_agent.original", Value::Text(agent))));
        attributes.push(("penstock.lane", Value::Text(record.lane().name())));
        attributes.extend(progress.cached().map(|word| ("penstock.cache", Value::Text(word))));
        let first_byte = self.first_byte.map(|time| ("penstock.first_byte_ms", Value::millis(time)));
        attributes.extend(first_byte);
        attributes.push(("penstock.bytes", Value::count(progress.body_bytes())));
        attributes
    }
}

/// Keeps what is followed until the end of its exchange.
impl Progress {
    fn follow(&self, following: Plain<Following>) -> bool {
        self.following.set(following).is_ok()
    }

    fn followed(&self) -> Option<Plain<Following>> {
        self.following.get().cloned()
    }
}
