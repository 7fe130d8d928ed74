//! The status of an engine for operators: health, readiness, and metrics.
//!
//! A [`Board`] has a reference to each object with counts, and keeps only the engine's own parts alive. Each object
//! counts for itself; here counts are read, summed and written ([`Exposition`]). A lock is never held across a wait, and
//! the GIL is never taken, so that the pages are correct while the interpreter hangs. To add metrics, write a file
//! beside these with a function `write`, and call it in `Board::write`.
//!
//! The invariant: the values of each label are a bounded set. A value from a client never becomes a
//! label.

mod cache;
mod carried;
mod configuration;
mod decisions;
mod exposition;
mod grpc_health;
mod health;
mod hub;
mod inspection;
mod json;
mod kept;
mod live;
mod network;
mod origins;
mod pool;
mod pressure;
mod process;
mod profile;
mod requests;
mod sites;
mod tls;
mod traces;
mod upstreams;
mod value;
mod workers;

use std::io::{self, Read, Write};
use std::sync::Arc as Plain;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use exposition::{Exposition, Family, Format, Histograms, Labels};
pub use grpc_health::{GRPC_HEALTH, GrpcHealth};
pub use health::Check;
pub use value::Value;

use memchr::memmem;
use penstock_trace::Tracer;

use crate::access::Decisions;
use crate::app::QueueStats;
use crate::counters::ByName;
use crate::edge::{Asked, Exhibit, Ledger, Showing, Shown, Site, nothing_there};
use crate::error::Result;
use crate::hub::Hub;
use crate::inspect::{Counts, Sums};
use crate::origin::{Origins, Upstream};
use crate::pool::Pool;
use crate::pressure::Pressure;
use crate::runtime::Threads;
use crate::store::Cache;
use crate::stream::Meter;
use crate::sync::{Arc, Mutex, lock};
use crate::workers::{Counted, Workers};
use carried::Carried;
use configuration::Reloads;
use hub::HubTotals;
use kept::Kept;
use live::Live;
use profile::Profiler;
use sites::SiteTotals;

/// The parts of an engine that live as long as the engine.
#[derive(Debug)]
pub struct Parts {
    /// The version of the package.
    pub version: &'static str,
    /// Its memory.
    pub pool: Pool,
    /// Its threads.
    pub threads: Arc<Threads>,
    /// Its connections, by thread.
    pub origins: Vec<Arc<Origins>>,
    /// Its streams.
    pub meter: Arc<Meter>,
    /// The requests of its clients.
    pub ledger: Arc<Ledger>,
    /// What keeps the traces of requests, if they have some.
    pub tracer: Option<Plain<Tracer>>,
}

impl Parts {
    /// What the engine is under.
    fn pressure(&self) -> &Pressure {
        self.origins[0].pressure()
    }
}

/// All objects with counts in an engine.
#[derive(Debug)]
pub struct Board {
    parts: Parts,
    cache: Mutex<Weak<Cache>>,
    /// Whether there has been a site.
    serves: AtomicBool,
    sites: Mutex<Kept<Site, SiteTotals>>,
    workers: Mutex<Kept<Workers, Counted>>,
    hubs: Mutex<Kept<Hub, HubTotals>>,
    decisions: Mutex<Kept<Decisions, ByName<decisions::Counted>>>,
    upstreams: Mutex<Kept<Upstream, ByName<upstreams::Counted>>>,
    inspected: Mutex<ByName<Kept<Counts, Sums>>>,
    reloads: Reloads,
    carried: Arc<Carried>,
}

impl Board {
    /// The board of a new engine.
    pub fn new(parts: Parts) -> Self {
        Self {
            parts,
            cache: Mutex::default(),
            serves: AtomicBool::new(false),
            sites: Mutex::default(),
            workers: Mutex::default(),
            hubs: Mutex::default(),
            decisions: Mutex::default(),
            upstreams: Mutex::default(),
            inspected: Mutex::default(),
            reloads: Reloads::default(),
            carried: Arc::default(),
        }
    }

    /// Adds the engine's cache.
    pub fn set_cache(&self, cache: &Arc<Cache>) {
        *lock(&self.cache) = Arc::downgrade(cache);
    }

    /// Adds a site of the engine.
    pub fn add_site(&self, site: &Arc<Site>) {
        // Relaxed: the lock orders it.
        self.serves.store(true, Ordering::Relaxed);
        lock(&self.sites).add(site);
    }

    /// Adds the worker processes of a site.
    pub fn add_workers(&self, workers: &Arc<Workers>) {
        lock(&self.workers).add(workers);
    }

    /// Adds a hub of the engine.
    pub fn add_hub(&self, hub: &Arc<Hub>) {
        lock(&self.hubs).add(hub);
    }

    /// Adds the inspected responses of the route `name`, counted in `counts`.
    pub fn add_inspected(&self, name: &str, counts: &Arc<Counts>) {
        lock(&self.inspected).entry(name).add(counts);
    }

    /// Adds the decisions about requests to the engine.
    pub fn add_decisions(&self, decisions: &Arc<Decisions>) {
        lock(&self.decisions).add(decisions);
    }

    /// Adds an upstream of several origins.
    pub fn add_upstream(&self, upstream: &Arc<Upstream>) {
        lock(&self.upstreams).add(upstream);
    }

    /// The server's configuration was read again: its routes are in place, or it was bad and nothing has changed.
    pub fn note_reload(&self, is_applied: bool) {
        self.reloads.note(is_applied);
    }

    /// All metrics, in the text of `format`.
    pub fn metrics(&self, format: Format) -> String {
        let mut out = Exposition::carrying(format, &self.carried);
        self.write(&mut out);
        out.finish()
    }

    /// Writes counters for the process that takes the place of this one: `anew` all of them, and else by how much they have
    /// grown since the last call. Returns how many samples that are.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write_counters(&self, anew: bool, to: &mut impl Write) -> io::Result<usize> {
        let mut out = Exposition::carrying(Format::Text, &self.carried);
        out.keep_counters();
        self.write(&mut out);
        self.carried.write(out.into_counters(), anew, to)
    }

    /// Adds what the process before this one has written of its counters.
    ///
    /// # Errors
    /// That cannot be read, or is something else.
    pub fn take_counters(&self, from: impl Read) -> io::Result<()> {
        self.carried.take(from)
    }

    fn write(&self, out: &mut Exposition) {
        let (sites, totals) = {
            let mut sites = lock(&self.sites);
            (sites.there(), sites.sums(SiteTotals::of))
        };
        process::write(self.parts.version, &self.parts.threads, out);
        self.reloads.write(out);
        pool::write(&self.parts.pool, &self.parts.meter, out);
        pressure::write(self.parts.pressure(), out);
        sites::write(&totals, out);
        tls::write(&sites, &totals.tls, out);
        let routes = self.parts.ledger.sums();
        requests::write(&routes, out);
        // Relaxed: see `add_site`.
        if self.serves.load(Ordering::Relaxed) {
            network::write(&self.parts.ledger.network(), out);
        }
        self.write_decisions(out);
        decisions::write_tenants(&routes, out);
        let queues: Vec<QueueStats> = sites.iter().filter_map(|site| site.queue()).collect();
        sites::write_queues(&queues, &totals, out);
        self.write_workers(out);
        origins::write(&self.parts.origins, out);
        self.write_upstreams(out);
        if let Some(cache) = lock(&self.cache).upgrade() {
            cache::write(&cache, out);
        }
        self.write_hubs(out);
        self.write_inspected(&sites, out);
        if let Some(tracer) = &self.parts.tracer {
            traces::write(tracer, out);
        }
    }
}

/// The index: a line for each page.
const INDEX: &str = "\
/penstock/health   200, or 503 if an engine thread hangs
/penstock/ready    200, or 503 if no new work is taken
/penstock/metrics  metrics for Prometheus
/penstock/profile  what the next ?seconds= go to, as JSON
";

/// The line of the events, if there may be viewers.
const EVENTS: &str = "/penstock/events   what flows now: an event a second, as JSON\n";

/// The pages of an engine, with the limits of its operator.
#[derive(Debug)]
pub struct Status {
    board: Arc<Board>,
    hung: Duration,
    behind: Duration,
    /// What flows now; `None` if no viewer is allowed.
    live: Option<Plain<Live>>,
    profiler: Profiler,
}

/// The limits of an operator.
#[derive(Debug, Clone, Copy)]
pub struct StatusLimits {
    /// A thread without a report for longer than this hangs.
    pub hung: Duration,
    /// An application that lets a request or a sign wait for longer than this is not ready.
    pub behind: Duration,
    /// Viewers of what flows at a time.
    pub viewers: usize,
}

/// The optional prefix of the pages' names, for several services at one address. Scrapers ask without it by default.
const PREFIX: &str = "/penstock";

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    /// Which pages there are; for a browser with what flows now.
    Index,
    /// What flows now, as events.
    Events,
    /// Whether the process and its engine threads turn.
    Health,
    /// Whether new work is taken.
    Ready,
    /// All that is counted.
    Metrics,
    /// What time and memory go to.
    Profile,
}

impl Page {
    fn at(path: &str) -> Option<Self> {
        match path.strip_prefix(PREFIX).unwrap_or(path) {
            "" | "/" => Some(Self::Index),
            "/events" => Some(Self::Events),
            "/health" => Some(Self::Health),
            "/ready" => Some(Self::Ready),
            "/metrics" => Some(Self::Metrics),
            "/profile" => Some(Self::Profile),
            _ => None,
        }
    }
}

impl Status {
    /// Those about the engine of `board`.
    pub fn new(board: Arc<Board>, limits: StatusLimits) -> Self {
        let StatusLimits { hung, behind, viewers } = limits;
        let live = (viewers > 0).then(|| Live::new(Arc::clone(&board), hung, behind, viewers));
        Self { board, hung, behind, live, profiler: Profiler::default() }
    }

    /// Whether new work is taken, once the application has given its sign or should have.
    async fn readiness(&self) -> Vec<Check> {
        self.board.ask_signs();
        self.board.await_signs().await;
        self.board.ready(self.hung, self.behind)
    }

    /// What stands on `page` now, in a form that is preferred.
    ///
    /// # Errors
    /// `NO_ROUTE`, `TOO_MANY_REQUESTS`.
    async fn page(&self, page: Page, asked: Asked<'_>) -> Result<Shown> {
        let accept = asked.accept;
        Ok(match page {
            Page::Index => match &self.live {
                Some(_) if asks_for_html(accept) => live::document(),
                Some(_) => Shown::text(200, [INDEX, EVENTS].concat()),
                None => Shown::text(200, INDEX.to_owned()),
            },
            Page::Events => {
                let events = Some(self.live.as_ref().ok_or_else(nothing_there)?.view()?);
                Shown { content_type: "text/event-stream", events, ..Shown::text(200, String::new()) }
            }
            Page::Health => health::shown("healthy", &self.board.health(self.hung)),
            Page::Ready => health::shown("ready", &self.readiness().await),
            Page::Metrics => {
                // For the next scrape: this scrape does not wait.
                self.board.ask_signs();
                let format = Format::preferred(accept);
                let text = self.board.metrics(format);
                Shown { content_type: format.content_type(), ..Shown::text(200, text) }
            }
            Page::Profile => {
                match self.profiler.profile(&self.board.parts, asked.target).await {
                    Ok(text) => Shown { content_type: "application/json", ..Shown::text(200, text) },
                    // Told here: an operator may know more than a client is told of an error.
                    Err(error) => Shown::text(error.code().status(), format!("{}\n", error.detail())),
                }
            }
        })
    }
}

/// Whether `accept`, the field of that name, is a browser's.
fn asks_for_html(accept: &[u8]) -> bool {
    memmem::find(&accept.to_ascii_lowercase(), b"text/html").is_some()
}

impl Exhibit for Status {
    fn show<'a>(&'a self, asked: Asked<'a>) -> Showing<'a> {
        Box::pin(async move {
            let page = Page::at(asked.path()).ok_or_else(nothing_there)?;
            if asked.is_read() { self.page(page, asked).await } else { Ok(Shown::unread()) }
        })
    }

    fn is_large(&self, path: &str) -> bool {
        Page::at(path) == Some(Page::Metrics)
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
