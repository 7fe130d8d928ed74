//! A site with four routes for bodies, two for events and three for topics, and what it is lent.

use std::sync::Arc as Plain;
use std::time::Duration;

use super::origin::address;
use super::plan::ORIGINS;
use super::topics;
use crate::access::Limits;
use crate::cache::{Cookies, Languages, Names, Policy, Query, RangeFill};
use crate::edge::{
    ClientLimits, EdgeConfig, Heads, Http2Limits, Ledger, Pattern, Route, Routes, Service, Site, Supplies,
    Topics,
};
use crate::events::{self, Drain, Leave};
use crate::hub::{History, Hub, HubConfig};
use crate::origin::testing::{READS, limits, origins_speaking};
use crate::origin::{
    Balance, Endpoint, HealthPolicy, Hedge, Http2Origins, Member, Origins, RetryPolicy, Scheme,
    SessionLimits, Timeouts, Upstream, UpstreamPolicy,
};
use crate::pool::testing::config;
use crate::pool::{Pool, REGION};
use crate::relay::{FillFields, Forwarding};
use crate::relay_spec::{Origin, RelaySpec, RouteLimits};
use crate::store::{Cache, CachePolicy, Caching, Unread};
use crate::stream::{FlowConfig, Meter};
use crate::sync::Arc;
use crate::wire::{BodyLimits, HeadLimits, IncomingLimits};

const SECOND: Duration = Duration::from_secs(1);
const FLOW: FlowConfig = FlowConfig { floor: 1 << 16, ceiling: 1 << 18 };
const BODY: BodyLimits = BodyLimits { chunk_extension_bytes: 64, trailer_bytes: 64 };
/// What the routes with one origin ask.
pub(super) const NAME: &str = "origin.test";
/// What the routes of events ask.
pub(super) const OF_EVENTS: &str = "events.test";
/// Without a byte for so long a client of the route `beating` gets a comment.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(2);
/// Without an event for so long a stream of the route `beating` fails.
pub(super) const IDLE: Duration = Duration::from_secs(15);
/// In which what is ended goes on to its end: more than a client on a quick network takes for what is on its way to it.
pub(super) const LINGER: Duration = Duration::from_secs(2);
/// Streams of a connection that are open at a time.
pub(super) const STREAMS: u32 = 4;

pub(super) struct Rig {
    pub(super) pool: Pool,
    pub(super) meter: Plain<Meter>,
    pub(super) origins: Arc<Origins>,
    pub(super) cache: Arc<Cache>,
    pub(super) hub: Arc<Hub>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) site: Arc<Site>,
}

impl Rig {
    /// `window`: origins speak HTTP/2, and so many bytes of a body may come before they are read.
    pub(super) fn new(hedges: bool, window: Option<u32>) -> Self {
        let pool = Pool::new(config(8 * REGION)).expect("a small mapping");
        let meter = Plain::<Meter>::default();
        let limits = crate::origin::OriginLimits {
            connections: 3,
            waiting: 20,
            requests_per_connection: 5,
            idle_timeout: Duration::from_secs(4),
            head: HeadLimits { head_bytes: 1 << 12, head_fields: 20, interim_responses: 1 },
            ..limits(Duration::from_secs(60))
        };
        // A line of the log that waits is a task, and at rest there is no task.
        let origins = Arc::new(origins_speaking(&pool, limits, Duration::from_secs(10), http2(window)));
        let cache = Arc::new(Cache::new(pool.clone(), 2 * REGION, 8, FLOW, Plain::clone(&meter)));
        let hub = Arc::new(Hub::new(pool.clone(), hub_config()));
        let routes = routes(&cache, &hub, hedges);
        let supplies = Supplies {
            pool: pool.clone(),
            flow: FLOW,
            reads: READS,
            meter: Plain::clone(&meter),
            origins: vec![Arc::clone(&origins)],
            ledger: Arc::new(Ledger::new(1)),
            heads: Arc::new(Heads::new(&pool)),
            tracer: None,
        };
        let ledger = Arc::clone(&supplies.ledger);
        let site = Arc::new(Site::new(edge_config(), supplies, routes, None, None));
        Self { pool, meter, origins, cache, hub, ledger, site }
    }
}

/// Which origins speak HTTP/2: all that have bodies, if there is a window.
fn http2(window: Option<u32>) -> Http2Origins {
    let names = (0..ORIGINS).map(|origin| address(origin).ip().to_string()).chain([NAME.to_owned()]);
    let endpoint = |name: String| Endpoint::new(Scheme::Http, &name, 80, None).expect("a name");
    let endpoints = names.filter(|_| window.is_some()).map(endpoint).collect();
    Http2Origins { endpoints, limits: SessionLimits { streams: 6, window: window.unwrap_or(1 << 16) } }
}

fn routes(cache: &Arc<Cache>, hub: &Arc<Hub>, hedges: bool) -> Routes {
    let cached = |range_fill| Some(Caching::new(Arc::clone(cache), cache_policy(range_fill), "simulated"));
    let all = [
        ("relay", None, None),
        ("two", Some(upstream(hedges)), None),
        ("whole", None, cached(RangeFill::Whole)),
        ("sliced", None, cached(RangeFill::Slices(1024))),
    ];
    let all = all.map(|(name, upstream, caching)| spec(name, upstream, caching));
    let all = all.into_iter().chain([beating(), quiet()]);
    let all = all.map(|spec| Service::Relay(Arc::new(Route::new(None, spec, None))));
    let topics = topics::Route::ALL.map(|route| Service::Topics(Arc::new(of_topics(hub, route))));
    Routes::new(all.chain(topics).collect()).expect("nine prefixes")
}

/// All topics of the hub, for subscribers of one kind.
fn of_topics(hub: &Arc<Hub>, route: topics::Route) -> Topics {
    let name = route.name();
    let pattern = Pattern { host: None, prefix: format!("/{name}/") };
    Topics::new(name.to_owned(), pattern, Arc::clone(hub), route.terms(), no_limits(), Vec::new(), None)
}

fn hub_config() -> HubConfig {
    HubConfig {
        memory: 64 * 1024,
        topics: 4,
        history: History { events: 8, bytes: 12_000, age: Some(30 * SECOND) },
        finished_age: 4 * SECOND,
        external: false,
    }
}

fn no_limits() -> RouteLimits {
    RouteLimits { requests: Limits { concurrency: None, rate: None, burst: 1.0 }, body: None }
}

/// Events with comments between them, and with an event that tells of a failure.
fn beating() -> RelaySpec {
    let policy = events::Policy {
        heartbeat: Some(HEARTBEAT),
        idle: Some(IDLE),
        unbuffered: true,
        error_event: Some("fault".to_owned()),
        leave: Leave::Cancel,
    };
    let mut spec = of_events("beating");
    spec.events = Some(Plain::new(policy));
    spec
}

/// Events as they come, of which one stream is read on without its client.
fn quiet() -> RelaySpec {
    let mut spec = of_events("quiet");
    spec.drain = Leave::Drain(Plain::new(Drain::new(3000, 2 * SECOND, 1)));
    spec
}

fn of_events(name: &str) -> RelaySpec {
    let mut spec = spec(name, None, None);
    let endpoint = Endpoint::new(Scheme::Http, OF_EVENTS, 80, None).expect("a name");
    spec.origin = Origin { endpoint, upstream: None, authority: OF_EVENTS.into() };
    (spec.timeouts.total, spec.timeouts.lets_events_pause) = (None, true);
    spec
}

fn upstream(hedges: bool) -> Arc<Upstream> {
    let members = (0..ORIGINS).map(|origin| {
        let address = address(origin);
        Member {
            authority: address.to_string().into(),
            endpoint: Endpoint::new(Scheme::Http, &address.ip().to_string(), address.port(), None)
                .expect("an address"),
            weight: 1,
            backup: false,
            max_requests: None,
        }
    });
    let policy = UpstreamPolicy {
        balance: Balance::RoundRobin,
        health: HealthPolicy {
            failures: Some(3),
            failure_percent: None,
            least_requests: 1,
            window: Duration::from_secs(10),
            statuses: vec![500],
            eject: Duration::from_secs(1),
            max_eject: Duration::from_secs(4),
            slow_start: Duration::ZERO,
            panic_percent: 0,
        },
        check: None,
        retries: RetryPolicy {
            tries: 3,
            statuses: vec![500],
            try_timeout: None,
            hedge: hedges.then_some(Hedge::After(Duration::from_secs(1))),
            resume: true,
            budget_percent: 100,
            budget_per_second: 10,
        },
    };
    Arc::new(Upstream::new("http://two.test".into(), policy, members.collect()))
}

fn spec(name: &str, upstream: Option<Arc<Upstream>>, caching: Option<Caching>) -> RelaySpec {
    // Without a limit on the whole only the limits of its parts end what stalls.
    let total = Some(30 * SECOND).filter(|_| upstream.is_none());
    let endpoint = Endpoint::new(Scheme::Http, NAME, 80, None).expect("a name");
    RelaySpec {
        name: name.to_owned(),
        origin: Origin { endpoint, upstream, authority: NAME.into() },
        prefix: format!("/{name}/"),
        replacement: format!("/{name}/"),
        forwarding: Forwarding {
            x_forwarded: false,
            forwarded: false,
            via: None,
            trust_incoming: false,
            preserve_host: false,
            map_location: false,
            trailers: false,
            grpc_web: None,
        },
        timeouts: Timeouts {
            queue: Some(5 * SECOND),
            resolve: Some(SECOND),
            connect: Some(SECOND),
            tls: None,
            first_byte: Some(3 * SECOND),
            between_bytes: Some(2 * SECOND),
            tunnel: None,
            total,
            lets_events_pause: false,
        },
        limits: no_limits(),
        request: Vec::new(),
        response: Vec::new(),
        drain: Leave::Cancel,
        events: None,
        max_event: None,
        caching,
        inspect: None,
        completion: None,
    }
}

fn cache_policy(range_fill: RangeFill) -> CachePolicy {
    let names = || Names::new(Vec::<String>::new());
    CachePolicy {
        rules: Policy {
            name: "penstock".to_owned(),
            targets: Vec::new(),
            lifetime: None,
            heuristic_percent: 10,
            heuristic_max: Duration::from_secs(86_400),
            negative: Duration::ZERO,
            stale_while_revalidate: Duration::ZERO,
            stale_if_error: Duration::ZERO,
            store_cookies: Cookies::Explicit,
            clients_may_refresh: true,
            languages: Languages::Preferred,
            range_fill,
            max_ranges: 8,
        },
        query: Query { keep_parameters: None, drop_parameters: names(), sort_parameters: false },
        fields: FillFields::new(None, Vec::new(), &[]),
        max_object: 1 << 20,
        apart: Duration::from_secs(3),
        unread: Unread::Finish,
        tags: Vec::new(),
    }
}

fn edge_config() -> EdgeConfig {
    EdgeConfig {
        head: IncomingLimits { line_bytes: 1024, head_bytes: 4096, head_fields: 16 },
        body: BODY,
        max_body: None,
        idle_timeout: Some(20 * SECOND),
        head_timeout: Some(10 * SECOND),
        body_timeout: Some(10 * SECOND),
        body_total_timeout: None,
        least_rate: None,
        head_patience: Duration::ZERO,
        body_patience: Duration::ZERO,
        write_timeout: Some(10 * SECOND),
        stall_grace: Duration::from_secs(2),
        overload_after: None,
        http2: Some(Http2Limits {
            streams: STREAMS,
            requests: 12,
            age: 120 * SECOND,
            window: 4000,
            connection_window: 65_535,
        }),
        trusts_trace_context: false,
        clients: ClientLimits { client_connections: None, client_requests: None, client_prefix: 64 },
        linger: LINGER,
        max_event: 4096,
        event_backlog: None,
    }
}
