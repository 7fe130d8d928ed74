//! A site with an application's queue, and what must be left of both after a test.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use penstock_engine::app::{Fault, Queue};
use penstock_engine::edge::{Routes, Site};
use penstock_engine::framing::Framing;
use penstock_engine::pool::{Pool, Purpose, Slice};
use penstock_engine::runtime::Threads;
use penstock_engine::stream::{Feed, FlowConfig, Meter, Stream, channel};

use crate::application::Exchange;
use crate::client::Client;
use crate::settings::AMPLE;
use crate::sites::{WINDOW, edge_config, listen, supplies, until};

/// Short enough to wait for, and longer than a busy machine needs to hand a request over.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

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
        let supplies = supplies(count);
        let (pool, meter) = (supplies.pool.clone(), Arc::clone(&supplies.meter));
        let queue = Queue::new(patience.waiting, Some(patience.limit), 1 << 20);
        let site = Arc::new(Site::new(edge_config(), supplies, Routes::default(), None, Some(queue.clone())));
        let threads = Arc::new(Threads::start(count).unwrap());
        let address = listen(&site, &threads);
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

    /// Every test ends here, with its clients and exchanges gone: nothing is held, and no client is connected.
    async fn check(self) {
        until(|| self.site.counts().connections == 0 && self.site.active() == 0).await;
        until(|| self.meter.live() == 0 && self.pool.stats().live_bytes == 0).await;
        assert!(self.queue.is_empty(), "a request waits for no client");
        assert!(self.queue.reports().take_faults().is_empty(), "a mistake that no test has expected");
        self.site.close();
        self.threads.stop();
        self.threads.join();
    }
}
