//! Reads the settings off the dataclasses of `penstock.config`, which has validated them, by the names of their fields.
//!
//! `settings!` writes how a configuration of the engine is read. A field of the engine that it does not name does not
//! compile, and one that Python does not have is an `AttributeError` at the first use. A word that is not known is an
//! error: there are no defaults here.

use std::path::PathBuf;
use std::time::Duration;

use penstock_engine::access::{self, AccessConfig, TenantLimits};
use penstock_engine::app::Queue;
use penstock_engine::cache::{Cookies, Languages, Names, Policy, Query, READ, RangeFill};
use penstock_engine::edge::{ClientLimits, EdgeConfig, HandshakeLimits, Http2Limits, ListenOptions};
use penstock_engine::hub::{History, HubConfig, Join, Limits, LogCounted, LogStats, Slow, Terms};
use penstock_engine::origin::{
    CheckPolicy, Endpoint, HealthPolicy, Hedge, Http2Origins, OriginLimits, RetryPolicy, Roots, Scheme,
    SessionLimits, Timeouts, Tls,
};
use penstock_engine::pool::PoolConfig;
use penstock_engine::relay::FillFields;
use penstock_engine::relay_spec::RouteLimits;
use penstock_engine::store::{CachePolicy, Unread};
use penstock_engine::stream::{FlowConfig, ReadSizes};
use penstock_engine::tls::{CertificateFiles, ClientAuth, TlsSettings, UnknownNames, Version};
use penstock_engine::wire::{BodyLimits, HeadLimits, IncomingLimits};
use penstock_engine::{Code, Result};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::exception;

/// An argument that is a dataclass of `penstock.config`, in the engine's form.
pub(crate) struct Settings<T>(pub(crate) T);

/// A type that a setting is read as.
pub(crate) trait Setting: Sized {
    fn read(value: &Bound<'_, PyAny>) -> PyResult<Self>;
}

impl<'py, T: Setting> FromPyObject<'_, 'py> for Settings<T> {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        T::read(&value).map(Self)
    }
}

macro_rules! plain {
    ($($type:ty),+) => {$(
        impl Setting for $type {
            fn read(value: &Bound<'_, PyAny>) -> PyResult<Self> {
                value.extract()
            }
        }
    )+};
}

plain!(bool, u8, u16, u32, u64, i32, usize, f64, String, PathBuf);

impl<T: Setting> Setting for Option<T> {
    fn read(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if value.is_none() { Ok(None) } else { T::read(value).map(Some) }
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn read(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        value.try_iter()?.map(|one| T::read(&one?)).collect()
    }
}

impl Setting for Box<str> {
    fn read(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        String::read(value).map(Into::into)
    }
}

/// Seconds.
impl Setting for Duration {
    fn read(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let seconds = f64::read(value)?;
        Self::try_from_secs_f64(seconds).map_err(|error| unknown(value.py(), format!("{seconds} s: {error}")))
    }
}

impl Setting for Names {
    fn read(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        Vec::<String>::read(value).map(Self::new)
    }
}

fn unknown(py: Python<'_>, detail: String) -> PyErr {
    exception(py, &Code::BadConfiguration.error(detail))
}

/// The value of `word` in `known`.
pub(crate) fn word<T: Copy>(py: Python<'_>, word: &str, known: &[(&str, T)]) -> PyResult<T> {
    known.iter().find(|(name, _)| *name == word).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        unknown(py, format!("{word:?} is not one of {}", names.join(", ")))
    })
}

fn get<T: Setting>(from: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) -> PyResult<T> {
    T::read(&from.getattr(name)?)
}

/// `field` is read from the attribute of that name; `field = value` is computed.
macro_rules! settings {
    (@value $from:ident $field:ident) => {
        get($from, intern!($from.py(), stringify!($field)))?
    };
    (@value $from:ident $field:ident = $value:expr) => { $value };
    ($($type:ident($from:ident) { $($field:ident $(= $value:expr)?),+ $(,)? })+) => {$(
        impl Setting for $type {
            fn read($from: &Bound<'_, PyAny>) -> PyResult<Self> {
                Ok(Self { $($field: settings!(@value $from $field $(= $value)?)),+ })
            }
        }

        impl From<Settings<$type>> for $type {
            fn from(settings: Settings<$type>) -> Self {
                settings.0
            }
        }
    )+};
}

settings! {
    PoolConfig(from) {
        memory,
        reserve,
        heads,
        pressed_percent,
        full_percent,
        hysteresis_percent,
        prefault,
        huge_pages,
        lock,
        caches,
    }
    FlowConfig(from) { floor, ceiling }
    ReadSizes(from) { least, unknown, known, most }

    HeadLimits(from) { head_bytes, head_fields, interim_responses }
    BodyLimits(from) { chunk_extension_bytes, trailer_bytes }
    OriginLimits(from) {
        connections,
        waiting,
        upload_part,
        upload_wait,
        upload_percent,
        idle_timeout,
        requests_per_connection,
        connection_age,
        name_lifetime,
        log_interval,
        head = HeadLimits::read(from)?,
        body = BodyLimits::read(from)?,
    }
    Timeouts(from) {
        queue,
        resolve,
        connect,
        tls,
        first_byte,
        between_bytes,
        tunnel,
        total,
        lets_events_pause = false,
    }

    IncomingLimits(from) { line_bytes, head_bytes, head_fields }
    ClientLimits(from) { client_connections, client_requests, client_prefix }
    EdgeConfig(from) {
        head = IncomingLimits::read(from)?,
        body = BodyLimits::read(from)?,
        max_body,
        idle_timeout,
        head_timeout,
        body_timeout,
        body_total_timeout,
        least_rate,
        head_patience,
        body_patience,
        write_timeout,
        stall_grace,
        overload_after,
        trusts_trace_context = get(from, intern!(from.py(), "trust_trace_context"))?,
        clients = ClientLimits::read(from)?,
        linger,
        max_event,
        event_backlog,
        http2,
    }
    Http2Limits(from) { streams, requests, age, window, connection_window }
    ListenOptions(from) { backlog, reuse_port, write_timeout }
    EdgeSettings(from) {
        config = EdgeConfig::read(from)?,
        listen = ListenOptions::read(from)?,
        tls = SiteTls::of(from)?,
    }
    HandshakeLimits(from) { handshake_timeout, handshakes }
    RouteLimits(from) { requests = access::Limits::read(from)?, body }
    StatusSettings(from) { hung, behind, scrapes, viewers }

    AccessConfig(from) {
        decisions,
        denials,
        questions,
        timeout,
        tenants,
        tenant_limits,
    }
    TenantLimits(from) {
        requests = access::Limits {
            concurrency: get(from, intern!(from.py(), "streams"))?,
            rate: get(from, intern!(from.py(), "rate"))?,
            burst: get(from, intern!(from.py(), "burst"))?,
        },
        bandwidth,
        total,
    }

    Policy(from) {
        name,
        targets,
        lifetime,
        heuristic_percent,
        heuristic_max,
        negative,
        stale_while_revalidate,
        stale_if_error,
        store_cookies,
        clients_may_refresh,
        languages,
        range_fill = range_fill(from)?,
        max_ranges,
    }
    Query(from) { keep_parameters, drop_parameters, sort_parameters }
    CachePolicy(from) {
        rules = Policy::read(from)?,
        query = Query::read(from)?,
        fields = FillFields::new(
            get(from, intern!(from.py(), "keep_fields"))?,
            get(from, intern!(from.py(), "drop_fields"))?,
            &READ,
        ),
        max_object,
        apart,
        unread,
        tags,
    }

    History(from) { events, bytes, age }
    HubConfig(from) { memory, topics, history = History::read(from)?, finished_age, external = false }
    Limits(from) { per_topic, per_tenant, per_address, most }
    Terms(from) {
        join,
        slow = slow(from)?,
        retry = get::<Option<Duration>>(from, intern!(from.py(), "retry"))?.map(milliseconds),
        open,
        heartbeat,
        max_age,
        limits = Limits::read(from)?,
    }
    LogCounted(from) { published, refused, delivered, received, gaps, connections }
    LogStats(from) { is_ready = is_ready(from)?, topics, behind, counted = LogCounted::read(from)? }

    HealthPolicy(from) {
        failures,
        failure_percent,
        least_requests,
        window,
        statuses,
        eject,
        max_eject,
        slow_start,
        panic_percent,
    }
    CheckPolicy(from) { path, interval, timeout, statuses, fall, rise }
    RetryPolicy(from) { tries, statuses, try_timeout, hedge, resume, budget_percent, budget_per_second }
}

/// `penstock.config.TLS`.
pub(crate) struct SiteTls {
    pub(crate) settings: TlsSettings,
    pub(crate) limits: HandshakeLimits,
    /// The value of Strict-Transport-Security.
    pub(crate) hsts: Option<String>,
}

/// What clients have to show to the authorities of a file.
type PolicyOfClients = fn(PathBuf) -> ClientAuth;

impl SiteTls {
    /// That of `penstock.config.Edge`, if it has any.
    fn of(edge: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = edge.py();
        let tls = edge.getattr(intern!(py, "tls"))?;
        let speaks_http2 = !edge.getattr(intern!(py, "http2"))?.is_none();
        if tls.is_none() { Ok(None) } else { Self::read(&tls, speaks_http2).map(Some) }
    }

    fn read(from: &Bound<'_, PyAny>, speaks_http2: bool) -> PyResult<Self> {
        let py = from.py();
        // The first that the client offers too (RFC 7301, section 3.2).
        let protocols: &[&[u8]] = if speaks_http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
        let path = |name: &str| Option::<PathBuf>::read(&from.getattr(name)?);
        let choice = |name: &str| String::read(&from.getattr(name)?);
        let (certificate, key) = (path("cert")?, path("key")?);
        let pair = certificate.map(|certificate| CertificateFiles {
            key: key.unwrap_or_else(|| certificate.clone()),
            certificate,
        });
        let kinds: [(&str, PolicyOfClients); 3] = [
            ("off", |_| ClientAuth::Off),
            ("optional", |authorities| ClientAuth::Optional { authorities }),
            ("required", |authorities| ClientAuth::Required { authorities }),
        ];
        let clients = word(py, &choice("clients")?, &kinds)?(path("client_ca")?.unwrap_or_default());
        let names = [("default", UnknownNames::Default), ("refuse", UnknownNames::Refuse)];
        let settings = TlsSettings {
            pairs: pair.into_iter().collect(),
            directory: path("directory")?,
            unknown_names: word(py, &choice("unknown_names")?, &names)?,
            minimum: word(py, &choice("min_version")?, &[("1.2", Version::Tls12), ("1.3", Version::Tls13)])?,
            protocols: protocols.iter().map(|protocol| protocol.to_vec()).collect(),
            clients,
            revoked: path("crl")?,
            ticket_keys: path("ticket_keys")?,
            ticket_period: get(from, intern!(py, "ticket_period"))?,
            name: String::new(),
        };
        let hsts = from.getattr("hsts")?;
        let hsts = if hsts.is_none() { None } else { Some(String::read(&hsts.call_method0("field")?)?) };
        Ok(Self { settings, limits: HandshakeLimits::read(from)?, hsts })
    }
}

/// The settings of a server of clients.
pub(crate) struct EdgeSettings {
    pub(crate) config: EdgeConfig,
    pub(crate) listen: ListenOptions,
    pub(crate) tls: Option<SiteTls>,
}

/// The settings of the status pages.
pub(crate) struct StatusSettings {
    pub(crate) hung: f64,
    pub(crate) behind: f64,
    pub(crate) scrapes: usize,
    pub(crate) viewers: usize,
}

/// `penstock.config.Edge`: the requests that may wait for the application, and the ends of others that it is to be told.
impl Setting for Queue {
    fn read(from: &Bound<'_, PyAny>) -> PyResult<Self> {
        let waiting = get(from, intern!(from.py(), "app_waiting"))?;
        let limit = get(from, intern!(from.py(), "app_wait"))?;
        let queue = Self::new(waiting, limit, get(from, intern!(from.py(), "app_ends"))?);
        Ok(queue.in_order_within(get(from, intern!(from.py(), "overload_after"))?))
    }
}

impl Setting for access::Limits {
    fn read(from: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self {
            concurrency: get(from, intern!(from.py(), "concurrency"))?,
            rate: get(from, intern!(from.py(), "rate"))?,
            burst: get(from, intern!(from.py(), "burst"))?,
        })
    }
}

impl Setting for Cookies {
    fn read(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(if bool::read(value)? { Self::Explicit } else { Self::Refuse })
    }
}

impl Setting for Languages {
    fn read(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let known =
            [("ordered", Self::Ordered), ("weighted", Self::Weighted), ("preferred", Self::Preferred)];
        word(value.py(), &String::read(value)?, &known)
    }
}

fn range_fill(from: &Bound<'_, PyAny>) -> PyResult<RangeFill> {
    let py = from.py();
    let slice: u64 = get(from, intern!(py, "slice"))?;
    let max_object: u64 = get(from, intern!(py, "max_object"))?;
    let known = [
        ("asked", RangeFill::Asked),
        ("slices", RangeFill::Slices(slice)),
        ("auto", RangeFill::Auto(slice.min(max_object))),
        ("whole", RangeFill::Whole),
    ];
    word(py, &get::<String>(from, intern!(py, "range_fill"))?, &known)
}

/// Percent.
impl Setting for Unread {
    fn read(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        match u8::read(value)? {
            0 => Ok(Self::Finish),
            100 => Ok(Self::End),
            percent @ 1..100 => Ok(Self::Past(percent)),
            percent => Err(unknown(value.py(), format!("{percent} is no percentage"))),
        }
    }
}

/// "now", "start", or how many of the newest.
impl Setting for Join {
    fn read(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        match value.cast::<PyString>() {
            Ok(text) => word(value.py(), text.to_str()?, &[("now", Self::Now), ("start", Self::Start)]),
            Err(_) => usize::read(value).map(Self::Last),
        }
    }
}

fn slow(from: &Bound<'_, PyAny>) -> PyResult<Slow> {
    let py = from.py();
    let known = [
        ("drop-oldest", Slow::DropOldest),
        ("newest-per-key", Slow::NewestPerKey),
        ("disconnect", Slow::Disconnect { behind: get(from, intern!(py, "behind"))? }),
    ];
    word(py, &get::<String>(from, intern!(py, "slow"))?, &known)
}

fn is_ready(from: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = from.py();
    word(py, &get::<String>(from, intern!(py, "state"))?, &[("ready", true), ("away", false)])
}

/// Seconds, or "p95" and the like.
impl Setting for Hedge {
    fn read(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Ok(text) = value.cast::<PyString>() else { return Duration::read(value).map(Self::After) };
        let text = text.to_str()?;
        let percent = text.strip_prefix('p').and_then(|digits| digits.parse().ok());
        percent.map(Self::Percentile).ok_or_else(|| unknown(value.py(), format!("{text:?} is no percentile")))
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// `penstock.config.OriginHttp2`.
#[derive(FromPyObject)]
pub(crate) struct OriginHttp2Settings {
    places: Vec<(String, String, u16)>,
    streams: u32,
    window: u32,
}

impl OriginHttp2Settings {
    /// The origins, and what each of their connections may carry.
    pub(crate) fn load(self) -> Result<Http2Origins> {
        let Self { places, streams, window } = self;
        let endpoints = places.into_iter().map(|(scheme, host, port)| {
            let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
            Endpoint::new(scheme, &host, port, None)
        });
        Ok(Http2Origins {
            endpoints: endpoints.collect::<Result<_>>()?,
            limits: SessionLimits { streams, window },
        })
    }
}

/// `penstock.config.OriginTls`.
#[derive(FromPyObject)]
pub(crate) struct OriginTlsSettings {
    roots: String,
    shown: Vec<ShownCertificate>,
}

/// What one origin is shown: the files of a certificate and its key.
#[derive(FromPyObject)]
struct ShownCertificate {
    host: String,
    port: u16,
    cert: PathBuf,
    key: PathBuf,
}

impl OriginTlsSettings {
    /// Loads the roots, and what origins are shown.
    pub(crate) fn load(self) -> Result<Tls> {
        let identities = self.shown.into_iter().map(|shown| {
            let ShownCertificate { host, port, cert: certificate, key } = shown;
            Ok((Endpoint::new(Scheme::Https, &host, port, None)?, CertificateFiles { certificate, key }))
        });
        let identities = identities.collect::<Result<_>>()?;
        let roots = match self.roots.as_str() {
            "system" => Roots::System,
            "webpki" => Roots::WebPki,
            path => Roots::Pem(std::fs::read(path).map_err(|error| {
                Code::BadConfiguration.error(format!("cannot read the roots in {path}: {error}"))
            })?),
        };
        Tls::new(roots, identities)
    }
}
