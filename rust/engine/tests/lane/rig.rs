//! A site with an application's queue behind it, and what must be left of both when a test is over.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use penstock_engine::app::{Fault, Queue};
use penstock_engine::edge::{
    ClientLimits, EdgeConfig, Heads, Ledger, ListenOptions, Listener, Routes, Site, Supplies,
};
use penstock_engine::framing::Framing;
use penstock_engine::origin::{Notices, OriginLimits, Origins, Roots, Tls};
use penstock_engine::pool::{Pool, PoolConfig, Purpose, Slice};
use penstock_engine::runtime::Threads;
use penstock_engine::stream::{Feed, FlowConfig, Meter, ReadSizes, Stream, channel};
use penstock_engine::wire::{BodyLimits, HeadLimits, IncomingLimits};
use penstock_memory::pool::testing::config;

use crate::application::Exchange;
use crate::client::Client;

/// Long enough that only a hang reaches it.
pub(crate) const AMPLE: Duration = Duration::from_secs(20);
/// Short enough to wait for, and longer than a busy machine needs to hand a request over.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

const READS: ReadSizes = ReadSizes { least: 4 << 10, unknown: 16 << 10, known: 64 << 10, most: 256 << 10 };
const BODY: BodyLimits = BodyLimits { chunk_extension_bytes: 1024, trailer_bytes: 1024 };

/// A window of a stream: what is under way in user space at most.
pub(crate) const WINDOW: usize = 1 << 20;

/// How an application is waited for.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) waiting: usize,
    pub(crate) limit: Duration,
}

pub(crate) struct Rig {
    pub(crate) pool: Pool,
    pub(crate) queue: Queue,
    pub(crate) site: Arc<Site>,
    pub(crate) address: SocketAddr,
    meter: Arc<Meter>,
    threads: Arc<Threads>,
}

/// Runs `test` on a site of one engine thread, and on one of three.
pub(crate) fn on_each(test: &impl AsyncFn(&Rig)) {
    on_each_with(Patience { waiting: 64, limit: AMPLE }, test);
}

pub(crate) fn on_each_with(patience: Patience, test: &impl AsyncFn(&Rig)) {
    for threads in [1, 3] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let rig = Rig::new(threads, patience);
            tokio::time::timeout(AMPLE, test(&rig)).await.expect("the test hangs");
            rig.check().await;
        });
    }
}

impl Rig {
    fn new(count: usize, patience: Patience) -> Self {
        let pool = Pool::new(PoolConfig { reserve: 256 << 10, ..config(8 << 20) }).unwrap();
        let limits = OriginLimits {
            connections: 1,
            waiting: 0,
            upload_part: 0,
            upload_wait: None,
            upload_percent: 75,
            idle_timeout: AMPLE,
            requests_per_connection: 1,
            connection_age: AMPLE,
            name_lifetime: AMPLE,
            log_interval: AMPLE,
            head: HeadLimits { head_bytes: 4096, head_fields: 8, interim_responses: 0 },
            body: BODY,
        };
        let meter = Arc::new(Meter::default());
        let origins = |_| {
            Arc::new(Origins::new(
                &pool,
                limits,
                READS,
                Tls::new(Roots::WebPki).unwrap(),
                Arc::new(Notices::new(Duration::from_secs(10))),
            ))
        };
        let supplies = Supplies {
            pool: pool.clone(),
            flow: FlowConfig { floor: 64 << 10, ceiling: WINDOW },
            reads: READS,
            meter: Arc::clone(&meter),
            origins: (0..count).map(origins).collect(),
            ledger: Arc::new(Ledger::new(count)),
            heads: Arc::new(Heads::new(&pool)),
        };
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
            linger: SHORT,
            max_event: 64 << 10,
            event_backlog: None,
        };
        let queue = Queue::new(patience.waiting, Some(patience.limit), 1 << 20);
        let site = Arc::new(Site::new(config, supplies, Routes::default(), None, Some(queue.clone())));
        let threads = Arc::new(Threads::start(count).unwrap());
        let options = ListenOptions { backlog: 64, reuse_port: false, write_timeout: None };
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), options).unwrap();
        let address = listener.address().unwrap();
        listener.serve(&site, &threads);
        Self { pool, queue, site, address, meter, threads }
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    /// The next request that the application is given.
    pub(crate) async fn request(&self) -> Exchange {
        let request = poll_fn(|context| {
            let taken = self.queue.take();
            if taken.is_none() {
                self.queue.listen(context.waker());
            }
            taken.map_or(Poll::Pending, Poll::Ready)
        });
        Exchange::new(request.await)
    }

    /// What the application is told of its next mistake.
    pub(crate) async fn fault(&self) -> Fault {
        let mut faults = Vec::new();
        until(|| {
            faults.append(&mut self.queue.reports().take_faults());
            !faults.is_empty()
        })
        .await;
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults.remove(0)
    }

    /// The two ends of a stream that the application can have sent.
    pub(crate) fn stream(&self, framing: &Framing) -> (Feed, Stream) {
        let flow = FlowConfig { floor: 64 << 10, ceiling: WINDOW };
        channel(&self.pool, flow, framing, &self.meter)
    }

    pub(crate) fn slice(&self, bytes: &[u8]) -> Slice {
        let mut writer = self.pool.writer(bytes.len(), Purpose::Bulk).unwrap();
        writer.spare()[..bytes.len()].copy_from_slice(bytes);
        writer.commit(bytes.len())
    }

    /// Every test ends here, with its clients and exchanges gone: nothing is held, and nobody is connected.
    async fn check(self) {
        until(|| self.site.counts().connections == 0 && self.site.active() == 0).await;
        until(|| self.meter.live() == 0 && self.pool.stats().live_bytes == 0).await;
        assert!(self.queue.is_empty(), "a request waits for nobody");
        assert!(self.queue.reports().take_faults().is_empty(), "a mistake that no test has expected");
        self.site.close();
        self.threads.stop();
        self.threads.join();
    }
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
