//! A site whose requests go to workers, and what must be left of both when a test is over.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use penstock_engine::Code;
use penstock_engine::access::Limits as AccessLimits;
use penstock_engine::app::Queue;
use penstock_engine::edge::{
    ClientLimits, EdgeConfig, Heads, Ledger, ListenOptions, Listener, Routes, Site, Supplies,
};
use penstock_engine::events::Leave;
use penstock_engine::hub::{History, Hub, HubConfig, Join, Limits, Slow, Terms};
use penstock_engine::origin::{Endpoint, Notices, OriginLimits, Origins, Roots, Scheme, Timeouts, Tls};
use penstock_engine::pool::{Pool, PoolConfig};
use penstock_engine::relay::Forwarding;
use penstock_engine::relay_spec::{Origin, Relay, RelaySpec, RouteLimits};
use penstock_engine::runtime::Threads;
use penstock_engine::stream::{FlowConfig, Meter, ReadSizes};
use penstock_engine::wire::{BodyLimits, HeadLimits, IncomingLimits};
use penstock_engine::workers::{Notice, Orphan, Plan, Topics, Workers};
use penstock_memory::pool::testing::config;
use tempfile::TempDir;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

use crate::client::Client;
use crate::process::Process;

/// Long enough that only a hang reaches it.
pub(crate) const AMPLE: Duration = Duration::from_secs(20);

const READS: ReadSizes = ReadSizes { least: 4 << 10, unknown: 16 << 10, known: 64 << 10, most: 256 << 10 };
const BODY: BodyLimits = BodyLimits { chunk_extension_bytes: 1024, trailer_bytes: 1024 };

/// A window of a stream: what is under way in user space at most.
pub(crate) const WINDOW: usize = 1 << 20;

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

pub(crate) struct Rig {
    pub(crate) pool: Pool,
    pub(crate) site: Arc<Site>,
    pub(crate) workers: Arc<Workers>,
    /// What is described by `topics`.
    pub(crate) hub: Arc<Hub>,
    pub(crate) address: SocketAddr,
    meter: Arc<Meter>,
    threads: Arc<Threads>,
    directory: TempDir,
    notices: Mutex<mpsc::UnboundedReceiver<Notice>>,
    telling: JoinHandle<()>,
}

/// Runs `test` on a site of one engine thread, and on one of three. Requests wait for workers as long as `patience`.
pub(crate) fn on_each_with(patience: Duration, test: &impl AsyncFn(&Rig)) {
    for threads in [1, 3] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let rig = Rig::new(threads, patience);
            tokio::time::timeout(AMPLE, test(&rig)).await.expect("the test hangs");
            rig.check().await;
        });
    }
}

pub(crate) fn on_each(test: &impl AsyncFn(&Rig)) {
    on_each_with(AMPLE, test);
}

/// What an engine of `count` threads lends to a site.
pub(crate) fn supplies(count: usize) -> Supplies {
    let pool = Pool::new(PoolConfig { reserve: 256 << 10, ..config(8 << 20) }).unwrap();
    let limits = OriginLimits {
        connections: 4,
        waiting: 4,
        upload_part: 0,
        upload_wait: None,
        upload_percent: 75,
        idle_timeout: AMPLE,
        requests_per_connection: 1,
        connection_age: AMPLE,
        name_lifetime: AMPLE,
        log_interval: AMPLE,
        head: HeadLimits { head_bytes: 4096, head_fields: 8, interim_responses: 2 },
        body: BODY,
    };
    let origins = |_| {
        Arc::new(Origins::new(
            &pool,
            limits,
            READS,
            Tls::new(Roots::WebPki).unwrap(),
            Arc::new(Notices::new(Duration::from_secs(10))),
        ))
    };
    Supplies {
        pool: pool.clone(),
        flow: FlowConfig { floor: 64 << 10, ceiling: WINDOW },
        reads: READS,
        meter: Arc::new(Meter::default()),
        origins: (0..count).map(origins).collect(),
        ledger: Arc::new(Ledger::new(count)),
        heads: Arc::new(Heads::new(&pool)),
    }
}

impl Rig {
    fn new(count: usize, patience: Duration) -> Self {
        let supplies = supplies(count);
        let config = EdgeConfig {
            head: IncomingLimits { line_bytes: 1024, head_bytes: 8192, head_fields: 32 },
            body: BODY,
            max_body: None,
            idle_timeout: Some(AMPLE),
            head_timeout: Some(AMPLE),
            body_timeout: Some(AMPLE),
            body_total_timeout: None,
            least_rate: None,
            head_patience: Duration::ZERO,
            body_patience: Duration::ZERO,
            write_timeout: Some(AMPLE),
            stall_grace: Duration::from_secs(1),
            clients: ClientLimits { client_connections: None, client_requests: None, client_prefix: 64 },
            linger: Duration::from_secs(1),
            max_event: 64 << 10,
            event_backlog: None,
        };
        let (pool, meter) = (supplies.pool.clone(), Arc::clone(&supplies.meter));
        let threads = Arc::new(Threads::start(count).unwrap());
        let queue = Queue::new(64, Some(patience), 1 << 20);
        let workers = Arc::new(Workers::new(supplies.clone(), &queue, &threads));
        let site = Arc::new(Site::new(config, supplies, Routes::default(), None, Some(queue)));
        let options = ListenOptions { backlog: 64, reuse_port: false, write_timeout: None };
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), options).unwrap();
        let address = listener.address().unwrap();
        listener.serve(&site, &threads);
        let (tell, notices) = mpsc::unbounded_channel();
        let history = History { events: 100, bytes: 1 << 16, age: None };
        let (memory, finished_age) = (1 << 20, Duration::from_secs(3600));
        let config = HubConfig { memory, topics: 10, history, finished_age, external: false };
        let hub = Arc::new(Hub::new(pool.clone(), config));
        let telling = tokio::spawn(look_after(Arc::clone(&workers), Arc::clone(&hub), tell));
        let directory = TempDir::new().unwrap();
        let notices = Mutex::new(notices);
        Self { pool, site, workers, hub, address, meter, threads, directory, notices, telling }
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Where the worker of this number listens.
    pub(crate) fn path(&self, number: u32) -> PathBuf {
        self.directory.path().join(number.to_string())
    }

    /// A worker that takes requests, once its generation does.
    pub(crate) async fn worker(&self, number: u32, generation: u32) -> Process {
        let process = Process::start(&self.path(number), 64);
        self.add(number, generation).await.unwrap();
        process
    }

    /// Has whatever listens at the path of this number reached.
    pub(crate) async fn add(&self, number: u32, generation: u32) -> Result<(), Code> {
        self.workers.add(number, generation, self.path(number));
        self.notice(|notice| match notice {
            Notice::Reached(reached, result) if reached == number => {
                Some(result.map_err(|error| error.code()))
            }
            _ => None,
        })
        .await
    }

    /// What is told of something whose worker is gone.
    pub(crate) async fn orphan(&self) -> Orphan {
        self.notice(|notice| match notice {
            Notice::Orphan(orphan) => Some(*orphan),
            _ => None,
        })
        .await
    }

    /// The first notice that `pick` finds something in. Those before it are passed over.
    pub(crate) async fn notice<T>(&self, mut pick: impl FnMut(Notice) -> Option<T>) -> T {
        let mut notices = self.notices.lock().await;
        loop {
            if let Some(found) = pick(notices.recv().await.unwrap()) {
                return found;
            }
        }
    }

    /// Every test ends here, with its clients and workers gone: nothing is held, and nobody is connected.
    async fn check(self) {
        until(|| self.site.counts().connections == 0 && self.site.active() == 0).await;
        until(|| self.hub.stats().subscribers == 0).await;
        self.hub.close();
        until(|| self.meter.live() == 0 && self.pool.stats().live_bytes == 0).await;
        self.workers.close();
        self.telling.abort();
        self.site.close();
        self.threads.stop();
        self.threads.join();
    }
}

/// Makes the plans that are wanted, and passes on what else is told.
async fn look_after(workers: Arc<Workers>, hub: Arc<Hub>, tell: mpsc::UnboundedSender<Notice>) {
    loop {
        let notices = poll_fn(|context| {
            workers.listen(Some(context.waker().clone()));
            let notices = workers.take_notices();
            if notices.is_empty() { Poll::Pending } else { Poll::Ready(notices) }
        });
        for notice in notices.await {
            match notice {
                // Who wanted it may have gone.
                Notice::Plan(description, planned) => drop(planned.send(plan(&hub, &description))),
                // The test may be over.
                other => drop(tell.send(other)),
            }
        }
    }
}

/// A plan that is described by the port of its origin; or `topics` of `hub`, of which a tenant may have one.
fn plan(hub: &Arc<Hub>, description: &[u8]) -> penstock_engine::Result<Plan> {
    if description == b"topics" {
        let terms = Terms {
            join: Join::Now,
            slow: Slow::DropOldest,
            retry: None,
            open: true,
            heartbeat: None,
            max_age: None,
            limits: Limits { per_tenant: Some(1), ..Limits::default() },
        };
        return Ok(Plan::Topics(Arc::new(Topics { hub: Arc::clone(hub), terms })));
    }
    let wrong = || Code::BadConfiguration.error("that is no port");
    let port = std::str::from_utf8(description).ok().and_then(|port| port.parse().ok()).ok_or_else(wrong)?;
    let origin = Origin {
        endpoint: Endpoint::new(Scheme::Http, "127.0.0.1", port, None)?,
        upstream: None,
        authority: "origin.example".to_owned(),
    };
    Ok(Plan::Relay(Arc::new(Relay::new(RelaySpec {
        name: "a relay".to_owned(),
        origin,
        prefix: "/".to_owned(),
        replacement: "/".to_owned(),
        forwarding: Forwarding {
            x_forwarded: false,
            forwarded: false,
            via: None,
            trust_incoming: false,
            preserve_host: false,
            map_location: false,
        },
        timeouts: Timeouts {
            queue: None,
            resolve: None,
            connect: None,
            tls: None,
            first_byte: None,
            between_bytes: None,
            tunnel: None,
            total: None,
            lets_events_pause: false,
        },
        limits: RouteLimits {
            requests: AccessLimits { concurrency: None, rate: None, burst: 1.0 },
            body: None,
        },
        request: Vec::new(),
        response: Vec::new(),
        drain: Leave::Cancel,
        events: None,
        max_event: Some(1024),
        caching: None,
        inspect: None,
        completion: None,
    }))))
}

/// Waits for what another thread brings about.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(AMPLE / 2, wait).await.expect("it never comes about");
}

/// `size` bytes that show where they have been shifted.
pub(crate) fn pattern(size: usize) -> Vec<u8> {
    (0..=250).cycle().take(size).collect()
}
