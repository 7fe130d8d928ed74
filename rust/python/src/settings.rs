//! Reads the resolved settings off the dataclasses of `penstock.config`, field by field of the same name.

use std::time::Duration;

use penstock_engine::Result;
use penstock_engine::access::{self, AccessConfig, TenantLimits};
use penstock_engine::cache::{Cookies, Languages, Names, Policy, Query, READ, RangeFill};
use penstock_engine::edge::{ClientLimits, EdgeConfig, ListenOptions, RouteLimits};
use penstock_engine::hub::{History, HubConfig, Join, Limits, Slow, Terms};
use penstock_engine::origin::{OriginLimits, Roots, Tls};
use penstock_engine::pool::PoolConfig;
use penstock_engine::relay::FillFields;
use penstock_engine::store::{CachePolicy, Unread};
use penstock_engine::stream::{FlowConfig, ReadSizes};
use penstock_engine::wire::{BodyLimits, HeadLimits, IncomingLimits};
use pyo3::FromPyObject;

#[derive(FromPyObject)]
pub(crate) struct PoolSettings {
    memory: usize,
    reserve: usize,
    heads: usize,
    pressed_percent: usize,
    full_percent: usize,
    hysteresis_percent: usize,
    prefault: usize,
    huge_pages: bool,
    lock: bool,
    caches: usize,
}

impl From<PoolSettings> for PoolConfig {
    fn from(settings: PoolSettings) -> Self {
        Self {
            budget: settings.memory,
            reserve: settings.reserve,
            heads: settings.heads,
            pressed_percent: settings.pressed_percent,
            full_percent: settings.full_percent,
            hysteresis_percent: settings.hysteresis_percent,
            prefault: settings.prefault,
            huge_pages: settings.huge_pages,
            lock: settings.lock,
            caches: settings.caches,
        }
    }
}

#[derive(FromPyObject)]
pub(crate) struct FlowSettings {
    floor: usize,
    ceiling: usize,
}

impl From<FlowSettings> for FlowConfig {
    fn from(settings: FlowSettings) -> Self {
        Self { floor: settings.floor, ceiling: settings.ceiling }
    }
}

#[derive(FromPyObject)]
pub(crate) struct ReadSettings {
    least: usize,
    unknown: usize,
    known: usize,
    most: usize,
}

impl From<ReadSettings> for ReadSizes {
    fn from(settings: ReadSettings) -> Self {
        Self { least: settings.least, unknown: settings.unknown, known: settings.known, most: settings.most }
    }
}

#[derive(FromPyObject)]
pub(crate) struct LimitSettings {
    connections: usize,
    waiting: usize,
    upload_part: usize,
    upload_wait: Option<f64>,
    upload_percent: usize,
    idle_timeout: f64,
    requests_per_connection: u64,
    connection_age: f64,
    name_lifetime: f64,
    log_interval: f64,
    head_bytes: usize,
    head_fields: usize,
    interim_responses: usize,
    chunk_extension_bytes: usize,
    trailer_bytes: usize,
}

impl From<LimitSettings> for OriginLimits {
    fn from(settings: LimitSettings) -> Self {
        Self {
            connections: settings.connections,
            waiting: settings.waiting,
            upload_part: settings.upload_part,
            upload_wait: settings.upload_wait.map(Duration::from_secs_f64),
            upload_percent: settings.upload_percent,
            idle_timeout: Duration::from_secs_f64(settings.idle_timeout),
            requests_per_connection: settings.requests_per_connection,
            connection_age: Duration::from_secs_f64(settings.connection_age),
            name_lifetime: Duration::from_secs_f64(settings.name_lifetime),
            log_interval: Duration::from_secs_f64(settings.log_interval),
            head: HeadLimits {
                bytes: settings.head_bytes,
                fields: settings.head_fields,
                interim: settings.interim_responses,
            },
            body: BodyLimits {
                chunk_extension_bytes: settings.chunk_extension_bytes,
                trailer_bytes: settings.trailer_bytes,
            },
        }
    }
}

#[derive(FromPyObject)]
pub(crate) struct EdgeSettings {
    line_bytes: usize,
    head_bytes: usize,
    head_fields: usize,
    chunk_extension_bytes: usize,
    trailer_bytes: usize,
    max_body: Option<u64>,
    idle_timeout: Option<f64>,
    head_timeout: Option<f64>,
    body_timeout: Option<f64>,
    body_total_timeout: Option<f64>,
    least_rate: Option<u64>,
    head_patience: f64,
    body_patience: f64,
    write_timeout: Option<f64>,
    stall_grace: f64,
    client_connections: Option<usize>,
    client_requests: Option<usize>,
    client_prefix: u8,
    linger: f64,
    max_event: usize,
    event_backlog: Option<u32>,
    backlog: i32,
    reuse_port: bool,
}

impl From<&EdgeSettings> for EdgeConfig {
    fn from(settings: &EdgeSettings) -> Self {
        let seconds = |value: Option<f64>| value.map(Duration::from_secs_f64);
        Self {
            head: IncomingLimits {
                line: settings.line_bytes,
                bytes: settings.head_bytes,
                fields: settings.head_fields,
            },
            body: BodyLimits {
                chunk_extension_bytes: settings.chunk_extension_bytes,
                trailer_bytes: settings.trailer_bytes,
            },
            max_body: settings.max_body,
            idle_timeout: seconds(settings.idle_timeout),
            head_timeout: seconds(settings.head_timeout),
            body_timeout: seconds(settings.body_timeout),
            body_total_timeout: seconds(settings.body_total_timeout),
            least_rate: settings.least_rate,
            head_patience: Duration::from_secs_f64(settings.head_patience),
            body_patience: Duration::from_secs_f64(settings.body_patience),
            write_timeout: seconds(settings.write_timeout),
            stall_grace: Duration::from_secs_f64(settings.stall_grace),
            clients: ClientLimits {
                connections: settings.client_connections,
                requests: settings.client_requests,
                prefix: settings.client_prefix,
            },
            linger: Duration::from_secs_f64(settings.linger),
            max_event: settings.max_event,
            event_backlog: settings.event_backlog,
        }
    }
}

impl From<&EdgeSettings> for ListenOptions {
    fn from(settings: &EdgeSettings) -> Self {
        Self {
            backlog: settings.backlog,
            reuse_port: settings.reuse_port,
            silence: settings.write_timeout.map(Duration::from_secs_f64),
        }
    }
}

#[derive(FromPyObject)]
pub(crate) struct RouteLimitSettings {
    concurrency: Option<usize>,
    rate: Option<f64>,
    burst: f64,
    body: Option<u64>,
}

impl From<RouteLimitSettings> for RouteLimits {
    fn from(settings: RouteLimitSettings) -> Self {
        let RouteLimitSettings { concurrency, rate, burst, body } = settings;
        Self { requests: access::Limits { concurrency, rate, burst }, body }
    }
}

#[derive(FromPyObject)]
pub(crate) struct AccessSettings {
    decisions: usize,
    denials: usize,
    questions: usize,
    timeout: f64,
    tenants: usize,
    tenant_limits: TenantLimitSettings,
}

#[derive(FromPyObject)]
pub(crate) struct TenantLimitSettings {
    streams: Option<usize>,
    rate: Option<f64>,
    burst: f64,
    bandwidth: Option<f64>,
    total: Option<u64>,
}

impl From<TenantLimitSettings> for TenantLimits {
    fn from(settings: TenantLimitSettings) -> Self {
        let requests =
            access::Limits { concurrency: settings.streams, rate: settings.rate, burst: settings.burst };
        Self { requests, bandwidth: settings.bandwidth, total: settings.total }
    }
}

impl From<AccessSettings> for AccessConfig {
    fn from(settings: AccessSettings) -> Self {
        Self {
            allowed: settings.decisions,
            denied: settings.denials,
            questions: settings.questions,
            timeout: Duration::from_secs_f64(settings.timeout),
            tenants: settings.tenants,
            limits: settings.tenant_limits.into(),
        }
    }
}

#[derive(FromPyObject)]
pub(crate) struct CachingSettings {
    name: String,
    targets: Vec<String>,
    lifetime: Option<f64>,
    heuristic_percent: u32,
    heuristic_max: f64,
    negative: f64,
    stale_while_revalidate: f64,
    stale_if_error: f64,
    store_cookies: bool,
    clients_may_refresh: bool,
    languages: String,
    range_fill: String,
    slice: u64,
    max_ranges: usize,
    max_object: u64,
    keep_parameters: Option<Vec<String>>,
    drop_parameters: Vec<String>,
    sort_parameters: bool,
    keep_fields: Option<Vec<String>>,
    drop_fields: Vec<String>,
    apart: f64,
    unread: u8,
    tags: Vec<String>,
}

impl From<CachingSettings> for CachePolicy {
    fn from(settings: CachingSettings) -> Self {
        let rules = Policy {
            name: settings.name,
            targets: settings.targets,
            lifetime: settings.lifetime.map(Duration::from_secs_f64),
            heuristic_percent: settings.heuristic_percent,
            heuristic_max: Duration::from_secs_f64(settings.heuristic_max),
            negative: Duration::from_secs_f64(settings.negative),
            stale_while_revalidate: Duration::from_secs_f64(settings.stale_while_revalidate),
            stale_if_error: Duration::from_secs_f64(settings.stale_if_error),
            cookies: if settings.store_cookies { Cookies::Explicit } else { Cookies::Refuse },
            clients_may_refresh: settings.clients_may_refresh,
            languages: match settings.languages.as_str() {
                "ordered" => Languages::Ordered,
                "weighted" => Languages::Weighted,
                _ => Languages::Preferred,
            },
            range_fill: match settings.range_fill.as_str() {
                "asked" => RangeFill::Asked,
                "slices" => RangeFill::Slices(settings.slice),
                "auto" => RangeFill::Auto(settings.slice.min(settings.max_object)),
                _ => RangeFill::Whole,
            },
            max_ranges: settings.max_ranges,
        };
        Self {
            rules,
            query: Query {
                kept: settings.keep_parameters.map(Names::new),
                dropped: Names::new(settings.drop_parameters),
                sorted: settings.sort_parameters,
            },
            fields: FillFields::new(settings.keep_fields, settings.drop_fields, &READ),
            max_object: settings.max_object,
            apart: Duration::from_secs_f64(settings.apart),
            unread: match settings.unread {
                0 => Unread::Finish,
                100.. => Unread::End,
                percent => Unread::Past(percent),
            },
            tags: settings.tags.into_iter().map(Into::into).collect(),
        }
    }
}

#[derive(FromPyObject)]
pub(crate) struct HistorySettings {
    events: usize,
    bytes: usize,
    age: Option<f64>,
    memory: usize,
    topics: usize,
    finished_age: f64,
}

impl HistorySettings {
    /// `external`: what has been published is kept elsewhere, and comes from there.
    pub(crate) fn config(self, external: bool) -> HubConfig {
        HubConfig {
            memory: self.memory,
            topics: self.topics,
            history: History {
                events: self.events,
                bytes: self.bytes,
                age: self.age.map(Duration::from_secs_f64),
            },
            finished_age: Duration::from_secs_f64(self.finished_age),
            external,
        }
    }
}

/// How the pages about the engine are served.
#[derive(FromPyObject)]
pub(crate) struct StatusSettings {
    pub(crate) hung: f64,
    pub(crate) behind: f64,
    pub(crate) scrapes: usize,
}

/// "now", "start", or how many of the newest.
#[derive(FromPyObject)]
enum JoinSetting {
    Last(usize),
    Word(String),
}

#[derive(FromPyObject)]
pub(crate) struct SubscriptionSettings {
    join: JoinSetting,
    slow: String,
    behind: Option<u64>,
    retry: Option<f64>,
    open: bool,
    heartbeat: Option<f64>,
    max_age: Option<f64>,
    per_topic: Option<usize>,
    per_tenant: Option<usize>,
    per_address: Option<usize>,
    most: Option<usize>,
}

impl From<SubscriptionSettings> for Terms {
    fn from(settings: SubscriptionSettings) -> Self {
        Self {
            join: match settings.join {
                JoinSetting::Last(count) => Join::Last(count),
                JoinSetting::Word(word) if word == "start" => Join::Start,
                JoinSetting::Word(_) => Join::Now,
            },
            slow: match settings.slow.as_str() {
                "drop-oldest" => Slow::DropOldest,
                "newest-per-key" => Slow::NewestPerKey,
                _ => Slow::Disconnect { behind: settings.behind },
            },
            retry: settings.retry.map(|seconds| milliseconds(Duration::from_secs_f64(seconds))),
            open: settings.open,
            heartbeat: settings.heartbeat.map(Duration::from_secs_f64),
            age: settings.max_age.map(Duration::from_secs_f64),
            limits: Limits {
                topic: settings.per_topic,
                tenant: settings.per_tenant,
                address: settings.per_address,
                all: settings.most,
            },
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[derive(FromPyObject)]
pub(crate) struct TlsSettings {
    roots: String,
}

impl TlsSettings {
    /// Loads the roots.
    pub(crate) fn load(self) -> Result<Tls> {
        Tls::new(match self.roots.as_str() {
            "system" => Roots::System,
            "webpki" => Roots::WebPki,
            path => Roots::Pem(std::fs::read(path).map_err(|error| {
                penstock_engine::Code::BadConfiguration
                    .error(format!("cannot read the roots in {path}: {error}"))
            })?),
        })
    }
}
