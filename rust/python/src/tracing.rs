//! Traces of an engine's requests, and the thread that sends them to a collector.

use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use penstock_engine::Result;
use penstock_engine::collector::{Collector, CollectorConfig};
use penstock_engine::origin::{Endpoint, Http2Origins, Notices, OriginLimits, Origins, Scheme, Tls};
use penstock_engine::pool::{Pool, PoolConfig};
use penstock_engine::runtime::Threads;
use penstock_engine::stream::{FlowConfig, ReadSizes};
use penstock_engine::trace::{Sampling, Tracer};
use pyo3::prelude::*;

use crate::lock;

/// `penstock.config.Tracing`.
#[derive(FromPyObject)]
pub(crate) struct TracingSettings {
    ratio: f64,
    failures: bool,
    slowest: usize,
    buffer: usize,
    interval: f64,
    stream_interval: f64,
    timeout: f64,
    linger: f64,
    place: (String, String, u16),
    authority: String,
    target: String,
    fields: Vec<(String, String)>,
    described: Vec<(String, String)>,
}

/// What the connections to a collector are made with.
pub(crate) struct Means {
    pub(crate) pool: PoolConfig,
    pub(crate) flow: FlowConfig,
    pub(crate) reads: ReadSizes,
    pub(crate) limits: OriginLimits,
    pub(crate) tls: Tls,
    pub(crate) notices: Arc<Notices>,
    /// A collector is asked by HTTP/1.1: no origin is named.
    pub(crate) http2: Arc<Http2Origins>,
}

/// A tracer, and what sends its spans.
pub(crate) struct Tracing {
    pub(crate) tracer: Arc<Tracer>,
    collector: Arc<Collector>,
    threads: Threads,
    /// Tells of the end of what sends.
    ended: Mutex<Receiver<()>>,
    patience: Duration,
}

impl Tracing {
    pub(crate) fn begin(settings: TracingSettings, means: Means) -> Result<Self> {
        let TracingSettings { ratio, failures, slowest, .. } = settings;
        let (scheme, host, port) = settings.place;
        let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
        let seconds = Duration::from_secs_f64;
        let tracer = Arc::new(Tracer::new(
            Sampling { ratio, failures, slowest },
            settings.buffer,
            seconds(settings.stream_interval),
        ));
        let config = CollectorConfig {
            endpoint: Endpoint::new(scheme, &host, port, None)?,
            authority: settings.authority.into(),
            target: settings.target,
            headers: settings.fields,
            resource: settings.described,
            version: env!("CARGO_PKG_VERSION"),
            every: seconds(settings.interval),
            timeout: seconds(settings.timeout),
            linger: seconds(settings.linger),
        };
        let Means { pool, flow, reads, limits, tls, notices, http2 } = means;
        let pool = Pool::new(pool)?;
        let threads = Threads::start_named("penstock-trace", 1)?;
        let origins = Arc::new(Origins::new(&pool, limits, reads, tls, notices, http2));
        let collector = Arc::new(Collector::new(config, Arc::clone(&tracer), pool, flow));
        let (running, (sender, ended)) = (Arc::clone(&collector), sync_channel(1));
        threads.spawn(0, move || async move {
            running.run(origins).await;
            let _ = sender.send(());
        });
        let patience = seconds(settings.linger);
        Ok(Self { tracer, collector, threads, ended: Mutex::new(ended), patience })
    }

    /// Sends the last spans, if the collector takes them soon, and ends the thread. Idempotent. After the engine's threads.
    pub(crate) fn end(&self) {
        self.collector.close();
        // It gives up by itself after as long; an error is that it has ended before.
        let _ = lock(&self.ended).recv_timeout(2 * self.patience);
        self.threads.stop();
        self.threads.join();
    }
}
