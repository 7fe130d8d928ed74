//! `Engine`: threads, pool and origins, as one Python object.

use std::fs::File;
use std::io::{BufWriter, Seek};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use penstock_engine::edge::{Heads, Ledger, Supplies};
use penstock_engine::framing::Framing as Cut;
use penstock_engine::hub;
use penstock_engine::metrics::{Board, Format, Parts};
use penstock_engine::origin::{Http2Origins, Notices, OriginLimits, Origins};
use penstock_engine::pool::{Pool, PoolConfig, PoolState};
use penstock_engine::runtime::Threads;
use penstock_engine::source;
use penstock_engine::store::{Cache, DiskConfig};
use penstock_engine::stream::{Feed, FlowConfig, Meter, ReadSizes, Stream, channel};
use penstock_engine::work::{Work, worked};
use penstock_engine::{Code, Error, duplicate};
use pyo3::prelude::*;

use crate::errors::{IntoPython, exception, os_error};
use crate::framing::Framing;
use crate::lock;
use crate::notices::{Teller, Telling};
use crate::port::{LoopPort, Receive, Slot};
use crate::record::record;
use crate::settings::{OriginHttp2Settings, OriginTlsSettings, Settings};
use crate::stats::{origin_stats, pool_stats, relay_stats};
use crate::stream::Source;
use crate::tracing::{Means, Tracing, TracingSettings};
use crate::upstream::Upstream;

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
    /// Ports of the loops that have used this engine; the latest first.
    ports: Mutex<Vec<Py<LoopPort>>>,
    /// Set before the ports are released: a port that was taken after that would never be released.
    closed: AtomicBool,
    requests: AtomicU64,
    ledger: Arc<Ledger>,
    heads: Arc<Heads>,
    board: Arc<Board>,
    tracing: Option<Tracing>,
}

impl Engine {
    /// All sources of the metrics.
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

    /// Logs notices of origins on the loop of `port` from now on.
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

    /// Whether it works.
    pub(crate) fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        self.check_alive(py)?;
        if self.closed.load(Ordering::Relaxed) {
            return Err(exception(py, &Code::EngineClosed.error("the engine has been closed")));
        }
        Ok(())
    }

    /// Whether it works, and has memory for new work.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.check_open(py)?;
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

    /// The parts of the engine that a site needs.
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
            tracer: self.tracing.as_ref().map(|tracing| Arc::clone(&tracing.tracer)),
        };
        Ok((supplies, Arc::clone(&self.threads)))
    }

    /// A cache of `memory` bytes in the engine's pool, with `variants` of one key at most.
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

    /// Counts a request.
    pub(crate) fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// The origins of an engine thread.
    pub(crate) fn origins(&self, thread: usize) -> Arc<Origins> {
        Arc::clone(&self.origins[thread])
    }

    pub(crate) fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    /// The two ends of a body that `framing` cuts.
    pub(crate) fn channel(&self, py: Python<'_>, framing: &Cut) -> PyResult<(Feed, Stream)> {
        self.check_open(py)?;
        Ok(channel(&self.pool, self.flow, framing, &self.meter))
    }

    /// Runs `start`, which feeds a stream cut by `framing`, on an engine thread; `None`: on the next one.
    pub(crate) fn feed_stream<F>(
        &self,
        py: Python<'_>,
        framing: &Framing,
        thread: Option<usize>,
        start: impl FnOnce(Feed) -> F + Send + 'static,
    ) -> PyResult<Source>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.check(py)?;
        let port = self.port(py)?;
        let (feed, stream) = channel(&self.pool, self.flow, &framing.0, &self.meter);
        self.threads.spawn(thread.unwrap_or_else(|| self.threads.pick()), || start(feed));
        Ok(Source::new(stream, port))
    }

    /// Publishes the events of `stream` to the topic of `claim`.
    pub(crate) fn feed_topic(&self, claim: hub::Claim, stream: Stream, error_event: String) {
        let notices = Arc::clone(&self.notices);
        let note = move |error: &Error| {
            if let Some(origin) = error.origin() {
                notices.failed(&Arc::from(origin), None, error);
            }
        };
        self.threads
            .spawn(self.threads.pick(), || worked(Work::Hub, hub::feed(claim, stream, error_event, note)));
    }

    /// Runs `read`, a source that is not HTTP, on the next thread.
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
    #[pyo3(signature = (threads, pool, flow, reads, origins, tracing=None))]
    fn new(
        py: Python<'_>,
        threads: usize,
        pool: Settings<PoolConfig>,
        flow: Settings<FlowConfig>,
        reads: Settings<ReadSizes>,
        origins: (Settings<OriginLimits>, OriginTlsSettings, OriginHttp2Settings),
        tracing: Option<(TracingSettings, Settings<PoolConfig>)>,
    ) -> PyResult<Self> {
        let (limits, tls, http2) = origins;
        let flow = FlowConfig::from(flow);
        let pool = Pool::new(pool.into()).into_python(py)?;
        let (limits, reads) = (OriginLimits::from(limits), ReadSizes::from(reads));
        let tls = tls.load().into_python(py)?;
        let notices = Arc::new(Notices::new(limits.log_interval));
        let threads = Threads::start(threads).into_python(py)?;
        let http2 = Arc::new(http2.load().into_python(py)?);
        let pressure = Arc::default();
        let origins = |_| {
            let (notices, http2) = (Arc::clone(&notices), Arc::clone(&http2));
            let origins = Origins::new(&pool, limits, reads, tls.clone(), notices, http2);
            Arc::new(origins.under(&pressure))
        };
        let origins: Vec<_> = (0..threads.count()).map(origins).collect();
        let (meter, ledger) = (Arc::new(Meter::default()), Arc::new(Ledger::new(threads.count())));
        let heads = Arc::new(Heads::new(&pool));
        let threads = Arc::new(threads);
        let begin = |(settings, pool): (TracingSettings, Settings<PoolConfig>)| {
            let (notices, pool) = (Arc::clone(&notices), pool.into());
            let http2 = Arc::new(Http2Origins { endpoints: Vec::new(), limits: http2.limits });
            Tracing::begin(settings, Means { pool, flow, reads, limits, tls, notices, http2 })
        };
        let tracing = tracing.map(begin).transpose().into_python(py)?;
        let board = Board::new(Parts {
            version: env!("CARGO_PKG_VERSION"),
            pool: pool.clone(),
            threads: Arc::clone(&threads),
            origins: origins.clone(),
            meter: Arc::clone(&meter),
            ledger: Arc::clone(&ledger),
            tracer: tracing.as_ref().map(|tracing| Arc::clone(&tracing.tracer)),
        });
        Ok(Self {
            pool,
            flow,
            reads,
            meter,
            threads,
            origins,
            notices,
            telling: Mutex::default(),
            ledger,
            heads,
            board: Arc::new(board),
            tracing,
            ports: Mutex::new(Vec::new()),
            closed: AtomicBool::new(false),
            requests: AtomicU64::new(0),
        })
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
                bytes_spliced: self.meter.spliced(),
                wakeups,
                origins: origin_stats(py, &self.origins)?,
                pool: pool_stats(py, &self.pool)?,
                relays: relay_stats(py, &self.meter)?,
            }
        )
    }

    /// Adds the counts of `upstream` to the metrics.
    fn add_upstream(&self, upstream: &Bound<'_, Upstream>) {
        self.board.add_upstream(upstream.get().shared());
    }

    /// Counts a reading of the server's configuration: it was applied, or was bad.
    fn note_reload(&self, is_applied: bool) {
        self.board.note_reload(is_applied);
    }

    /// All metrics, in Prometheus' text format, or as `OpenMetrics`.
    fn metrics(&self, py: Python<'_>, open: bool) -> PyResult<String> {
        self.check_alive(py)?;
        let format = if open { Format::OpenMetrics } else { Format::Text };
        // Without the interpreter: locks of engine threads are taken.
        Ok(py.detach(|| self.board.metrics(format)))
    }

    /// Writes counters to a file: `anew` all of them, and else by how much they have grown since the last call. Returns how many
    /// samples that are.
    fn write_counters(&self, py: Python<'_>, descriptor: i32, anew: bool) -> PyResult<usize> {
        let written = py.detach(|| {
            let mut file = BufWriter::new(File::from(duplicate(descriptor)?));
            self.board.write_counters(anew, &mut file)
        });
        written.map_err(os_error)
    }

    /// Adds the counters in a file to those of the metrics, from its beginning.
    fn take_counters(&self, py: Python<'_>, descriptor: i32) -> PyResult<()> {
        let taken = py.detach(|| {
            let mut file = File::from(duplicate(descriptor)?);
            file.rewind()?;
            self.board.take_counters(file)
        });
        taken.map_err(os_error)
    }

    /// What is wrong with the engine's threads, if one of them has made no progress for `hung` seconds: as the page
    /// `/penstock/health` has it.
    fn fault(&self, hung: f64) -> Option<String> {
        let checks = self.board.health(Duration::from_secs_f64(hung));
        checks.into_iter().find(|check| !check.is_good).map(|check| check.seen)
    }

    /// Tells the threads to drop everything, and does not wait. Idempotent.
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
            py.detach(|| {
                self.threads.join();
                if let Some(tracing) = &self.tracing {
                    tracing.end();
                }
            });
        }
    }

    /// Stops, waits, and releases the event loops.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.stop();
        self.join(py);
        let ports = std::mem::take(&mut *lock(&self.ports));
        if self.pool.dead() {
            // A forked child shares eventfd and epoll instance with its parent: to remove the reader here would
            // remove it there.
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

    /// Calls `tell` with each notice of an origin, on the loop that used the engine last.
    fn tell_of_origins(&self, tell: Py<PyAny>) {
        lock(&self.telling).tell = Some(tell);
    }
}
