//! What an engine says of itself to those who operate it: its health, whether it takes work, and its metrics.
//!
//! A [`Board`] knows all that counts something, and holds nothing of it alive but the engine's own parts. Whoever counts
//! does so for itself; here it is read, summed and written ([`Exposition`]). No lock that is taken here is held while
//! something is waited for, and the GIL never is, so that the pages tell the truth while the interpreter hangs. To add
//! metrics, write a file beside these with a function `write`, and name it in `Board::write`.
//!
//! The invariant: each label is of a bounded set. Nothing that a client sends becomes one.

mod application;
mod cache;
mod clients;
mod exposition;
mod health;
mod hub;
mod inspection;
mod kept;
mod origins;
mod pool;
mod process;
mod requests;
mod threads;

use std::collections::BTreeMap;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use exposition::{Exposition, Family, Format, Histograms, Labels, Value};
pub use health::Check;

use crate::edge::{Exhibit, Ledger, Page, Showing, Shown, Site};
use crate::hub::{Counted, Hub};
use crate::inspect::{Counts, Sums};
use crate::origin::Origins;
use crate::pool::Pool;
use crate::runtime::Threads;
use crate::store::Cache;
use crate::stream::Meter;
use crate::sync::{Arc, Mutex, lock};
use clients::SiteTotals;
use kept::Kept;

/// Routes whose inspected responses are told apart; what is beyond is counted together. Arbitrary, as for requests.
const MOST: usize = 256;

/// The parts of an engine, which are there as long as it is.
#[derive(Debug)]
pub struct Parts {
    /// Of the package.
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
}

/// All that counts something in an engine.
#[derive(Debug)]
pub struct Board {
    parts: Parts,
    cache: Mutex<Weak<Cache>>,
    /// There has been a site.
    serves: AtomicBool,
    sites: Mutex<Kept<Site, SiteTotals>>,
    hubs: Mutex<Kept<Hub, Counted>>,
    inspected: Mutex<BTreeMap<Box<str>, Kept<Counts, Sums>>>,
}

impl Board {
    /// One of an engine of which nothing is used yet.
    pub fn new(parts: Parts) -> Self {
        let (cache, sites, hubs) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { parts, cache, serves: AtomicBool::new(false), sites, hubs, inspected: Mutex::default() }
    }

    /// The engine has a cache.
    pub fn set_cache(&self, cache: &Arc<Cache>) {
        *lock(&self.cache) = Arc::downgrade(cache);
    }

    /// The engine serves a site.
    pub fn add_site(&self, site: &Arc<Site>) {
        // Relaxed: the lock orders it.
        self.serves.store(true, Ordering::Relaxed);
        lock(&self.sites).add(site);
    }

    /// The engine has a hub.
    pub fn add_hub(&self, hub: &Arc<Hub>) {
        lock(&self.hubs).add(hub);
    }

    /// Responses of the route `name` are looked into, and counted in `counts`.
    pub fn add_inspected(&self, name: &str, counts: &Arc<Counts>) {
        let mut inspected = lock(&self.inspected);
        let has_name = inspected.contains_key(name) || inspected.len() < MOST;
        inspected.entry(Box::from(if has_name { name } else { "other" })).or_default().add(counts);
    }

    /// All metrics, in the text of `format`.
    pub fn metrics(&self, format: Format) -> String {
        let mut out = Exposition::new(format);
        self.write(&mut out);
        out.finish()
    }

    fn write(&self, out: &mut Exposition) {
        let (sites, totals) = {
            let mut sites = lock(&self.sites);
            (sites.there(), sites.sums(SiteTotals::of))
        };
        process::write(self.parts.version, out);
        threads::write(&self.parts.threads, out);
        pool::write(&self.parts.pool, &self.parts.meter, out);
        clients::write(&totals, out);
        requests::write(&self.parts.ledger, out);
        application::write(&sites, &totals, out);
        origins::write(&self.parts.origins, out);
        if let Some(cache) = lock(&self.cache).upgrade() {
            cache::write(&cache, out);
        }
        self.write_hubs(out);
        self.write_inspected(&sites, out);
    }
}

/// What stands on the pages of an engine, by the limits of who operates it.
#[derive(Debug)]
pub struct Status {
    /// Of the engine.
    pub board: Arc<Board>,
    /// A thread that is silent for longer hangs.
    pub hung: Duration,
    /// An application that lets a request wait for longer, or a sign, takes none.
    pub behind: Duration,
}

impl Exhibit for Status {
    fn show<'a>(&'a self, page: Page, accept: &'a [u8]) -> Showing<'a> {
        Box::pin(async move {
            match page {
                Page::Health => health::shown("healthy", &self.board.health(self.hung)),
                Page::Ready => {
                    self.board.ask_signs();
                    self.board.await_signs().await;
                    health::shown("ready", &self.board.ready(self.hung, self.behind))
                }
                Page::Metrics => {
                    // For the next scrape: this one does not wait.
                    self.board.ask_signs();
                    let format = Format::preferred(accept);
                    let text = self.board.metrics(format);
                    Shown { status: 200, content_type: format.content_type(), text }
                }
            }
        })
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
