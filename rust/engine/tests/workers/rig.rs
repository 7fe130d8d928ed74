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
use penstock_engine::edge::{Routes, Site};
use penstock_engine::events::Leave;
use penstock_engine::hub::{History, Hub, HubConfig, Join, Limits, Slow, Terms};
use penstock_engine::origin::{Endpoint, Scheme, Timeouts};
use penstock_engine::pool::Pool;
use penstock_engine::relay::Forwarding;
use penstock_engine::relay_spec::{Origin, Relay, RelaySpec, RouteLimits};
use penstock_engine::runtime::Threads;
use penstock_engine::stream::Meter;
use penstock_engine::workers::{Notice, Orphan, Plan, Topics, Workers};
use tempfile::TempDir;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

use crate::client::Client;
use crate::process::Process;
use crate::settings::AMPLE;
use crate::sites::{edge_config, listen, supplies, until};

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

impl Rig {
    fn new(count: usize, patience: Duration) -> Self {
        let supplies = supplies(count);
        let (pool, meter) = (supplies.pool.clone(), Arc::clone(&supplies.meter));
        let threads = Arc::new(Threads::start(count).unwrap());
        let queue = Queue::new(64, Some(patience), 1 << 20);
        let workers = Arc::new(Workers::new(supplies.clone(), &queue, &threads));
        let site = Arc::new(Site::new(edge_config(), supplies, Routes::default(), None, Some(queue)));
        let address = listen(&site, &threads);
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

    /// Every test ends here, with its clients and workers gone: nothing is held, and no client is connected.
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
        authority: "origin.example".into(),
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
            trailers: false,
            grpc_web: None,
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
