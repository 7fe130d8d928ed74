//! `Engine`: threads, pool and origins, as one Python object.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use penstock_engine::app::Order;
use penstock_engine::edge::{Heads, Ledger, Supplies};
use penstock_engine::events;
use penstock_engine::framing::Framing as Cut;
use penstock_engine::hub;
use penstock_engine::metrics::{Board, Format, Parts};
use penstock_engine::origin::{self, Notice, Notices, OriginLimits, Origins, Request, RequestBody};
use penstock_engine::pool::{CopyReason, Pool, PoolConfig, PoolState};
use penstock_engine::runtime::Threads;
use penstock_engine::source;
use penstock_engine::store::{self, Cache, DiskConfig, Overrides};
use penstock_engine::stream::{Feed, FlowConfig, Meter, ReadSizes, Stream, channel};
use penstock_engine::{Code, Error};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::access::Decisions;
use crate::cache::{Caching, OverrideSettings};
use crate::errors::{IntoPython, exception, os_error};
use crate::events::{Drain, EventPolicy, leave, policy as policy_of};
use crate::framing::Framing;
use crate::inspect::{Counts, Expected, Inspector, Watched};
use crate::lock;
use crate::port::{LoopPort, Receive, Slot};
use crate::record::record;
use crate::request::{Endpoint, Fields, Timeouts};
use crate::settings::{Settings, TlsSettings};
use crate::stats::{origin_stats, pool_stats, relay_stats};
use crate::stream::{FrameStream, Source};
use crate::transport::Transport;
use crate::upload::Upload;
use crate::upstream::Upstream;

/// By way of which cache, and what was decided about the request.
type Cached<'py> = (Bound<'py, Caching>, Option<OverrideSettings>);

/// Describes what is fetched from, to the process that does, and what was decided about the request.
type Planned<'py> = (Vec<u8>, Option<OverrideSettings>, Option<Bound<'py, Expected>>);

/// Who writes to the log what there is to say of origins, and where that is called.
#[derive(Default)]
struct Telling {
    tell: Option<Py<PyAny>>,
    /// On the loop that the engine was used on last. None before it was used on one.
    slot: Option<Slot>,
}

/// What there is to say of an origin.
#[pyclass(frozen, get_all, module = "penstock._native")]
pub(crate) struct OriginNotice {
    origin: String,
    /// Of the origin, if that is known.
    address: Option<String>,
    /// Its name, such as that of an error code.
    event: &'static str,
    reason: String,
    /// Whether the origin can be used again.
    is_good: bool,
    /// Notices of the origin that were left out since the one before.
    left_out: u64,
}

/// Calls `tell` with each notice.
struct Teller {
    notices: Arc<Notices>,
    tell: Py<PyAny>,
}

impl Receive for Teller {
    fn receive(&self, py: Python<'_>) {
        while let Some(notice) = self.notices.take() {
            let Notice { origin, address, event, reason, left_out } = notice;
            let notice = OriginNotice {
                origin: origin.to_string(),
                address: address.map(|address| address.to_string()),
                event: event.name(),
                reason,
                is_good: event == origin::Event::Up,
                left_out,
            };
            if let Err(error) = self.tell.bind(py).call1((notice,)) {
                error.write_unraisable(py, Some(self.tell.bind(py)));
            }
        }
    }
}

#[pyclass(frozen, module = "penstock._native")]
pub(crate) struct Engine {
    pool: Pool,
    flow: FlowConfig,
    reads: ReadSizes,
    meter: Arc<Meter>,
    threads: Arc<Threads>,
    origins: Vec<Arc<Origins>>,
    notices: Arc<Notices>,
    telling: Mutex<Telling>,
    /// Ports of the loops that this engine was used on; the latest first.
    ports: Mutex<Vec<Py<LoopPort>>>,
    /// Set before the ports are let go of: one that was taken after that would never be.
    closed: AtomicBool,
    requests: AtomicU64,
    ledger: Arc<Ledger>,
    heads: Arc<Heads>,
    board: Arc<Board>,
}

impl Engine {
    /// What knows all that counts something.
    pub(crate) fn board(&self) -> &Arc<Board> {
        &self.board
    }

    pub(crate) fn port(&self, py: Python<'_>) -> PyResult<Py<LoopPort>> {
        let latest = lock(&self.ports).first().map(|port| port.clone_ref(py));
        let (port, moved) = LoopPort::of_running_loop(py, latest.as_ref())?;
        if moved {
            let mut ports = lock(&self.ports);
            if let Some(at) = ports.iter().position(|known| known.is(&port)) {
                ports.swap(0, at);
            } else {
                port.get().enter();
                ports.insert(0, port.clone().unbind());
            }
            drop(ports);
            self.tell_on(py, port.clone().unbind());
        }
        Ok(port.unbind())
    }

    /// Has what there is to say of origins be told on the loop of `port` from now on.
    fn tell_on(&self, py: Python<'_>, port: Py<LoopPort>) {
        let mut telling = lock(&self.telling);
        let Some(tell) = telling.tell.as_ref().map(|tell| tell.clone_ref(py)) else { return };
        let slot = Slot::receiving(port, Arc::new(Teller { notices: Arc::clone(&self.notices), tell }));
        self.notices.listen(slot.waker());
        let before = telling.slot.replace(slot);
        drop(telling);
        drop(before);
    }

    /// In a forked child locks may be held for ever.
    fn check_alive(&self, py: Python<'_>) -> PyResult<()> {
        if self.pool.dead() {
            return Err(exception(
                py,
                &Code::PoolDead.error("this engine was made before a fork; make one in the child"),
            ));
        }
        Ok(())
    }

    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.check_alive(py)?;
        if self.closed.load(Ordering::Relaxed) {
            return Err(exception(py, &Code::EngineClosed.error("the engine has been closed")));
        }
        if self.pool.state() == PoolState::Full {
            return Err(exception(
                py,
                &Code::PoolFull.error("the pool is full; new work is refused until it is not"),
            ));
        }
        Ok(())
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn threads(&self) -> Arc<Threads> {
        Arc::clone(&self.threads)
    }

    /// What a site needs of the engine.
    pub(crate) fn lend(&self, py: Python<'_>) -> PyResult<(Supplies, Arc<Threads>)> {
        self.check(py)?;
        let supplies = Supplies {
            pool: self.pool.clone(),
            flow: self.flow,
            reads: self.reads,
            meter: Arc::clone(&self.meter),
            origins: self.origins.clone(),
            ledger: Arc::clone(&self.ledger),
            heads: Arc::clone(&self.heads),
        };
        Ok((supplies, Arc::clone(&self.threads)))
    }

    /// A cache of so many bytes in the engine's pool, and so many variants of one key, and a disk's.
    pub(crate) fn cache(
        &self,
        py: Python<'_>,
        memory: usize,
        variants: usize,
        disk: Option<&DiskConfig>,
    ) -> PyResult<Arc<Cache>> {
        self.check(py)?;
        let (pool, flow, meter) = (self.pool.clone(), self.flow, Arc::clone(&self.meter));
        let cache = match disk {
            None => Arc::new(Cache::new(pool, memory, variants, flow, meter)),
            Some(disk) => Cache::with_disk(pool, memory, variants, disk, flow, meter).into_python(py)?,
        };
        self.board.set_cache(&cache);
        Ok(cache)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a request, each once")]
    fn start(
        &self,
        py: Python<'_>,
        endpoint: &Endpoint,
        method: &str,
        target: &str,
        headers: &Fields,
        body: RequestBody,
        timeouts: &Timeouts,
        framing: Option<&Bound<'_, Framing>>,
        caching: Option<Cached<'_>>,
        near: Option<&Bound<'_, Transport>>,
        plan: Option<Planned<'_>>,
        is_clients: bool,
    ) -> PyResult<Source> {
        self.check(py)?;
        let port = self.port(py)?;
        let cut = framing.map_or(Cut::Raw, |framing| framing.get().0.clone());
        let (feed, stream) = channel(&self.pool, self.flow, &cut, &self.meter);
        self.requests.fetch_add(1, Ordering::Relaxed);
        if let Some((plan, overrides, expected)) = plan {
            let order = Order {
                plan,
                method: method.to_owned(),
                target: target.to_owned(),
                fields: Arc::clone(&headers.0),
                body,
                timeouts: timeouts.0,
                overrides: overrides.map(Overrides::from),
                is_clients,
                inspection: expected.and_then(|expected| expected.get().begin()),
            };
            let edge = near.and_then(|transport| transport.get().edge());
            match edge {
                Some(edge) => edge.fetch(order, feed, &stream),
                None => feed.fail(Code::ClientGone.error("the client left before the request was sent on")),
            }
            return Ok(Source::new(stream, port));
        }
        let request = Box::new(Request {
            endpoint: endpoint.endpoint.clone(),
            upstream: endpoint.upstream.clone(),
            method: method.to_owned(),
            target: target.to_owned(),
            authority: endpoint.authority.clone(),
            headers: Arc::clone(&headers.0),
            body,
            timeouts: timeouts.0,
            // Without a client it is what the application asks for by itself.
            is_proven: near.is_none_or(|transport| transport.get().is_proven()),
            // Who asked is told.
            reports: false,
        });
        let thread = near
            .and_then(|transport| transport.get().thread(&self.threads))
            .unwrap_or_else(|| self.threads.pick());
        let origins = Arc::clone(&self.origins[thread]);
        match caching {
            None => self.threads.spawn(thread, || origin::fetch(origins, request, feed)),
            Some((caching, overrides)) => {
                let overrides = overrides.map_or_else(Overrides::default, Overrides::from);
                let access = caching.get().0.access(origins, overrides);
                self.threads.spawn(thread, || store::fetch(access, request, feed));
            }
        }
        Ok(Source::new(stream, port))
    }

    /// The two ends of a body that is cut by `framing`.
    pub(crate) fn channel(&self, py: Python<'_>, framing: &Cut) -> PyResult<(Feed, Stream)> {
        self.check(py)?;
        Ok(channel(&self.pool, self.flow, framing, &self.meter))
    }

    /// Starts `start`, which feeds a stream cut by `framing`, on the engine thread of the client of `near` if that is given and
    /// one of this engine's.
    pub(crate) fn feed_stream<F>(
        &self,
        py: Python<'_>,
        framing: &Framing,
        near: Option<&Bound<'_, Transport>>,
        start: impl FnOnce(Feed) -> F + Send + 'static,
    ) -> PyResult<Source>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.check(py)?;
        let port = self.port(py)?;
        let (feed, stream) = channel(&self.pool, self.flow, &framing.0, &self.meter);
        let thread = near
            .and_then(|transport| transport.get().thread(&self.threads))
            .unwrap_or_else(|| self.threads.pick());
        self.threads.spawn(thread, || start(feed));
        Ok(Source::new(stream, port))
    }

    /// Has the events of `stream` published where `claim` says.
    pub(crate) fn feed_topic(&self, claim: hub::Claim, stream: Stream, error_event: String) {
        let notices = Arc::clone(&self.notices);
        let note = move |error: &Error| {
            if let Some(origin) = error.origin() {
                notices.failed(&Arc::from(origin), None, error);
            }
        };
        self.threads.spawn(self.threads.pick(), || hub::feed(claim, stream, error_event, note));
    }

    /// Starts `read`, a source that is not HTTP, on the next thread.
    fn begin<R>(
        &self,
        py: Python<'_>,
        framing: &Bound<'_, Framing>,
        read: impl FnOnce(source::Intake) -> R + Send + 'static,
    ) -> PyResult<Source>
    where
        R: Future<Output = ()> + Send + 'static,
    {
        let (pool, reads) = (self.pool.clone(), self.reads);
        self.feed_stream(py, framing.get(), None, move |feed| read(source::Intake::new(pool, reads, feed)))
    }
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (threads, pool, flow, reads, limits, tls))]
    fn new(
        py: Python<'_>,
        threads: usize,
        pool: Settings<PoolConfig>,
        flow: Settings<FlowConfig>,
        reads: Settings<ReadSizes>,
        limits: Settings<OriginLimits>,
        tls: TlsSettings,
    ) -> PyResult<Self> {
        let pool = Pool::new(pool.into()).into_python(py)?;
        let (limits, reads) = (OriginLimits::from(limits), ReadSizes::from(reads));
        let tls = tls.load().into_python(py)?;
        let notices = Arc::new(Notices::new(limits.log_interval));
        let threads = Threads::start(threads).into_python(py)?;
        let origins = |_| Arc::new(Origins::new(&pool, limits, reads, tls.clone(), Arc::clone(&notices)));
        let origins: Vec<_> = (0..threads.count()).map(origins).collect();
        let (meter, ledger) = (Arc::new(Meter::default()), Arc::new(Ledger::new(threads.count())));
        let heads = Arc::new(Heads::new(&pool));
        let threads = Arc::new(threads);
        let board = Board::new(Parts {
            version: env!("CARGO_PKG_VERSION"),
            pool: pool.clone(),
            threads: Arc::clone(&threads),
            origins: origins.clone(),
            meter: Arc::clone(&meter),
            ledger: Arc::clone(&ledger),
        });
        Ok(Self {
            pool,
            flow: flow.into(),
            reads,
            meter,
            threads,
            origins,
            notices,
            telling: Mutex::default(),
            ledger,
            heads,
            board: Arc::new(board),
            ports: Mutex::new(Vec::new()),
            closed: AtomicBool::new(false),
            requests: AtomicU64::new(0),
        })
    }

    /// On the engine thread of the client of `near`, if that is given and one of this engine's.
    ///
    /// With a `plan`, in a worker process, it is fetched where the client of `near` is, from what that describes.
    #[pyo3(signature = (endpoint, method, target, headers, body, timeouts, framing, caching, near, plan=None))]
    #[expect(clippy::too_many_arguments, reason = "the parts of a request, each once")]
    fn fetch(
        &self,
        py: Python<'_>,
        endpoint: &Bound<'_, Endpoint>,
        method: &str,
        target: &str,
        headers: &Bound<'_, Fields>,
        body: Option<&Bound<'_, PyBytes>>,
        timeouts: &Bound<'_, Timeouts>,
        framing: Option<&Bound<'_, Framing>>,
        caching: Option<Cached<'_>>,
        near: Option<&Bound<'_, Transport>>,
        plan: Option<Planned<'_>>,
    ) -> PyResult<Source> {
        let body = match body {
            None => RequestBody::None,
            Some(bytes) => {
                self.pool.count_copy(CopyReason::Upload, bytes.as_bytes().len());
                RequestBody::Bytes(bytes.as_bytes().to_vec())
            }
        };
        self.start(
            py,
            endpoint.get(),
            method,
            target,
            headers.get(),
            body,
            timeouts.get(),
            framing,
            caching,
            near,
            plan,
            false,
        )
    }

    /// As `fetch`, for a body that follows piece by piece. `length` is announced, and then enforced. `is_clients`, with a plan:
    /// it is the body of the client's request, and what has not come here goes on without coming here. `is_tunnel`: there is no
    /// body, but what the client of a WebSocket sends once the origin has switched to it.
    #[pyo3(signature = (endpoint, method, target, headers, length, timeouts, framing, caching, near, plan=None, is_clients=false, is_tunnel=false))]
    #[expect(clippy::too_many_arguments, reason = "the parts of a request, each once")]
    fn fetch_upload(
        &self,
        py: Python<'_>,
        endpoint: &Bound<'_, Endpoint>,
        method: &str,
        target: &str,
        headers: &Bound<'_, Fields>,
        length: Option<u64>,
        timeouts: &Bound<'_, Timeouts>,
        framing: Option<&Bound<'_, Framing>>,
        caching: Option<Cached<'_>>,
        near: Option<&Bound<'_, Transport>>,
        plan: Option<Planned<'_>>,
        is_clients: bool,
        is_tunnel: bool,
    ) -> PyResult<(Source, Upload)> {
        let (feed, stream) = self.channel(py, &Cut::Raw)?;
        let upload = Upload::new(feed, self.pool.clone(), self.port(py)?);
        let body =
            if is_tunnel { RequestBody::Tunnel(stream) } else { RequestBody::Stream { stream, length } };
        let source = self.start(
            py,
            endpoint.get(),
            method,
            target,
            headers.get(),
            body,
            timeouts.get(),
            framing,
            caching,
            near,
            plan,
            is_clients,
        )?;
        Ok((source, upload))
    }

    fn open_file(
        &self,
        py: Python<'_>,
        path: PathBuf,
        offset: u64,
        length: Option<u64>,
        framing: &Bound<'_, Framing>,
    ) -> PyResult<Source> {
        self.begin(py, framing, move |intake| source::read_file(path, offset, length, intake))
    }

    /// Reads from a duplicate of `descriptor`, which is closed with the stream.
    fn open_fd(&self, py: Python<'_>, descriptor: i32, framing: &Bound<'_, Framing>) -> PyResult<Source> {
        let descriptor = penstock_engine::duplicate(descriptor).map_err(os_error)?;
        self.begin(py, framing, |intake| source::read_descriptor(descriptor, intake))
    }

    fn open_process(
        &self,
        py: Python<'_>,
        arguments: Vec<std::ffi::OsString>,
        directory: Option<PathBuf>,
        environment: Option<Vec<(std::ffi::OsString, std::ffi::OsString)>>,
        framing: &Bound<'_, Framing>,
    ) -> PyResult<Source> {
        let command = source::Command { arguments, directory, environment };
        self.begin(py, framing, |intake| source::read_process(command, intake))
    }

    fn notices(&self) -> Vec<String> {
        self.pool.notices().to_vec()
    }

    fn address_range(&self) -> (usize, usize) {
        self.pool.address_range()
    }

    /// The body `stream` as `policy` has the events of one sent that is cut into them with every byte, seen by `inspector`. Who
    /// takes it is the client; when that leaves, `drain` says what becomes of it.
    #[pyo3(signature = (stream, policy, drain, inspector))]
    fn relay_seen(
        &self,
        py: Python<'_>,
        stream: &Bound<'_, FrameStream>,
        policy: Option<&Bound<'_, EventPolicy>>,
        drain: Option<&Bound<'_, Drain>>,
        inspector: Option<&Bound<'_, Inspector>>,
    ) -> PyResult<Source> {
        self.check(py)?;
        let (port, stream) = (self.port(py)?, stream.get().hand_over(py)?);
        let (feed, relayed) = channel(&self.pool, self.flow, &Cut::Raw, &self.meter);
        let (policy, inspector) =
            (policy_of(policy), inspector.map(|inspector| inspector.get().response.clone()));
        let leave = policy.as_ref().map_or_else(|| leave(drain), |policy| policy.leave.clone());
        let meter = Arc::clone(&self.meter);
        let work = move || events::pipe(stream, policy, leave, inspector, meter, feed, None);
        self.threads.spawn(self.threads.pick(), work);
        Ok(Source::new(relayed, port))
    }

    /// As `relay_seen`, of a stream that is read to its end for no client; and how it ends.
    #[pyo3(signature = (stream, inspector))]
    fn watch(
        &self,
        py: Python<'_>,
        stream: &Bound<'_, FrameStream>,
        inspector: Option<&Bound<'_, Inspector>>,
    ) -> PyResult<(Source, Watched)> {
        self.check(py)?;
        let (port, stream) = (self.port(py)?, stream.get().hand_over(py)?);
        let (feed, relayed) = channel(&self.pool, self.flow, &Cut::Raw, &self.meter);
        let inspector = inspector.map(|inspector| inspector.get().response.clone());
        let meter = Arc::clone(&self.meter);
        let (watched, ended) = Watched::new(port.clone_ref(py));
        let work = move || events::pipe(stream, None, leave(None), inspector, meter, feed, Some(ended));
        self.threads.spawn(self.threads.pick(), work);
        Ok((Source::new(relayed, port), watched))
    }

    /// The client of `stream` has left: reads it on, by `drain`, or by `policy` if it is one of events. Neither: cancels it.
    /// `inspected` is what sees it, and how events are cut for that.
    #[pyo3(signature = (stream, drain, policy, inspected))]
    fn read_on(
        &self,
        py: Python<'_>,
        stream: &Bound<'_, FrameStream>,
        drain: Option<&Bound<'_, Drain>>,
        policy: Option<&Bound<'_, EventPolicy>>,
        inspected: Option<(Bound<'_, Inspector>, Bound<'_, Framing>)>,
    ) -> PyResult<()> {
        let stream = stream.get().hand_over(py)?;
        let (leave, policy, meter) = (leave(drain), policy_of(policy), Arc::clone(&self.meter));
        let inspection =
            inspected.map(|(inspector, framing)| (inspector.get().response.clone(), framing.get().0.clone()));
        let work = move || events::read_on(stream, leave, policy, inspection, meter);
        self.threads.spawn(self.threads.pick(), work);
        Ok(())
    }

    /// `penstock.stats.EngineStats`.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let wakeups: u64 = lock(&self.ports).iter().map(|port| port.get().wakeups()).sum();
        record!(
            py,
            "penstock.stats",
            EngineStats {
                requests: self.requests.load(Ordering::Relaxed),
                streams: self.meter.live(),
                bytes_received: self.meter.bytes(),
                wakeups,
                origins: origin_stats(py, &self.origins)?,
                pool: pool_stats(py, &self.pool)?,
                relays: relay_stats(py, &self.meter)?,
            }
        )
    }

    /// What `decisions` come to is among the metrics from now on.
    fn add_decisions(&self, decisions: &Bound<'_, Decisions>) {
        self.board.add_decisions(decisions.get().shared());
    }

    /// What `counts` come to is among the metrics from now on.
    fn add_inspected(&self, counts: &Bound<'_, Counts>) {
        counts.get().add_to(&self.board);
    }

    /// What `upstream` comes to is among the metrics from now on.
    fn add_upstream(&self, upstream: &Bound<'_, Upstream>) {
        self.board.add_upstream(upstream.get().shared());
    }

    /// All metrics, in Prometheus' text format, or as `OpenMetrics`.
    fn metrics(&self, py: Python<'_>, open: bool) -> PyResult<String> {
        self.check_alive(py)?;
        let format = if open { Format::OpenMetrics } else { Format::Text };
        // Without the interpreter: locks of engine threads are taken.
        Ok(py.detach(|| self.board.metrics(format)))
    }

    /// Tells the threads to drop everything. Idempotent, does not wait.
    fn stop(&self) {
        // Relaxed: to close an engine while another thread begins to use it is the caller's race.
        self.closed.store(true, Ordering::Relaxed);
        if !self.pool.dead() {
            for origins in &self.origins {
                origins.close();
            }
            self.threads.stop();
        }
    }

    /// Waits for the threads to end.
    fn join(&self, py: Python<'_>) {
        if !self.pool.dead() {
            py.detach(|| self.threads.join());
        }
    }

    /// Stops, waits, and lets go of the event loops.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.stop();
        self.join(py);
        let ports = std::mem::take(&mut *lock(&self.ports));
        if self.pool.dead() {
            // A forked child shares eventfd and epoll instance with its parent: to take its reader out here would
            // take it out there.
            return Ok(());
        }
        let Telling { tell, slot } = std::mem::take(&mut *lock(&self.telling));
        if let Some(tell) = tell {
            Teller { notices: Arc::clone(&self.notices), tell }.receive(py);
        }
        drop(slot);
        for port in ports {
            LoopPort::leave(port.bind(py))?;
        }
        Ok(())
    }

    /// Has `tell` called with what there is to say of origins that fail, on the loops that the engine is used on.
    fn tell_of_origins(&self, tell: Py<PyAny>) {
        lock(&self.telling).tell = Some(tell);
    }
}
