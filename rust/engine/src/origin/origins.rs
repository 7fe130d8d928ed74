//! The connections of one engine thread to all of its origins.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc as Plain;
use std::time::Duration;

use super::endpoint::{Endpoint, KnownHash};
use super::limits::{Http2Origins, OriginLimits};
use super::notices::Notices;
use super::place::{Answer, Lease, Place, wait};
use super::stats::{Counts, OriginStats};
use super::tally::{NAMED_ORIGINS, OriginSums, Tally};
use super::tls::Tls;
use crate::counters::ByName;
use crate::error::Result;
use crate::net::Pipes;
use crate::pool::Pool;
use crate::pressure::Pressure;
use crate::stream::ReadSizes;
use crate::sync::{Arc, Mutex, lock};
use crate::wire::{Head, parse_head};

/// One per engine thread: its connections are registered with that thread's runtime, and [`super::fetch`] must run
/// there. Stats and [`Origins::close`] may be called on any thread.
#[derive(Debug)]
pub struct Origins {
    pub(super) pool: Pool,
    pub(super) limits: OriginLimits,
    pub(super) reads: ReadSizes,
    pub(super) tls: Tls,
    pub(super) notices: Plain<Notices>,
    http2: Plain<Http2Origins>,
    pressure: Plain<Pressure>,
    /// By which the bodies of origins get to clients without a copy.
    pub(crate) pipes: Arc<Pipes>,
    places: Mutex<Places>,
}

#[derive(Debug)]
struct Places {
    by_endpoint: HashMap<Endpoint, Arc<Place>, BuildHasherDefault<KnownHash>>,
    /// The number of places at which unused ones are looked for.
    crowded: usize,
    /// The counts by the name of the origin, also of places that were dropped.
    tallies: ByName<Arc<Tally>>,
    closed: bool,
}

/// Below this number of endpoints, unused ones are not looked for. Arbitrary; a place has some 400 bytes.
const FEW: usize = 64;

impl Origins {
    /// An empty set of connections. Bytes are read into `pool`; `tls`, `notices` and `http2` may be shared with other threads.
    pub fn new(
        pool: &Pool,
        limits: OriginLimits,
        reads: ReadSizes,
        tls: Tls,
        notices: Plain<Notices>,
        http2: Plain<Http2Origins>,
    ) -> Self {
        let places = Mutex::new(Places::new());
        let (pressure, pipes) = (Plain::default(), Arc::default());
        Self { pool: pool.clone(), limits, reads, tls, notices, http2, pressure, pipes, places }
    }

    /// These belong to an engine that is under `pressure` at times.
    #[must_use]
    pub fn under(mut self, pressure: &Plain<Pressure>) -> Self {
        self.pressure = Plain::clone(pressure);
        self
    }

    /// What their engine is under.
    pub fn pressure(&self) -> &Plain<Pressure> {
        &self.pressure
    }

    /// The log lines about the origins.
    pub fn notices(&self) -> &Plain<Notices> {
        &self.notices
    }

    /// Reads the head of a response that has come in another process.
    ///
    /// # Errors
    /// What is wrong with it, by the limits here.
    pub(crate) fn parse_head(&self, bytes: &[u8]) -> Result<Head> {
        parse_head(bytes, &self.limits.head)
    }

    pub(super) fn place(&self, endpoint: &Endpoint) -> Arc<Place> {
        let mut places = lock(&self.places);
        if let Some(place) = places.by_endpoint.get(endpoint) {
            return Arc::clone(place);
        }
        if places.by_endpoint.len() >= places.crowded {
            places.forget_unused();
        }
        let origin = Plain::from(endpoint.to_string());
        let tally = places.tally(&origin, &self.notices);
        let place =
            Arc::new(Place::new(origin, endpoint.clone(), tally, self.limits, self.http2.of(endpoint)));
        if places.closed {
            place.close();
        }
        places.by_endpoint.insert(endpoint.clone(), Arc::clone(&place));
        place
    }

    /// Waits for the right to use one connection to `endpoint`, whose place was `place` a moment ago. `upload`: the body of
    /// the request is still coming. `is_proven`: the client is proven.
    pub(super) async fn lease(
        &self,
        mut place: Arc<Place>,
        endpoint: &Endpoint,
        limit: Option<Duration>,
        upload: bool,
        is_proven: bool,
    ) -> Result<Lease> {
        loop {
            match place.ask(upload, is_proven)? {
                Answer::Granted(lease) => return Ok(lease),
                Answer::Wait(turn) => return wait(turn, limit).await,
                Answer::Retired => place = self.place(endpoint),
            }
        }
    }

    /// How many connections are to be freed at one of so many `looks` in the time in which a client stalls, by the line.
    pub(crate) fn wanted(&self, looks: usize) -> Vec<(usize, usize)> {
        let places = lock(&self.places);
        let wanted = places.by_endpoint.values().map(|place| (place.line(), place.wanted(looks)));
        wanted.filter(|(_, count)| *count > 0).collect()
    }

    /// Counts and connections as they are now.
    pub fn stats(&self) -> OriginStats {
        let places = lock(&self.places);
        let endpoints: Vec<_> = places.by_endpoint.values().map(|place| place.stats()).collect();
        let mut counts = Counts::default();
        for endpoint in &endpoints {
            counts += &endpoint.counts;
        }
        for (_, tally) in &places.tallies {
            counts += &tally.gone();
        }
        OriginStats { counts, endpoints }
    }

    /// Declares `endpoint`: it is counted under its own name, however many others came before it.
    pub fn declare(&self, endpoint: &Endpoint) {
        lock(&self.places).tally(&endpoint.to_string(), &self.notices);
    }

    /// The counts by the names of origins, over the engine threads of `all`.
    pub fn sums(all: &[Arc<Self>]) -> Vec<OriginSums> {
        let mut by_name = BTreeMap::<Plain<str>, OriginSums>::new();
        for origins in all {
            let places = lock(&origins.places);
            let mut sums = |tally: &Tally, add: &dyn Fn(&mut OriginSums)| {
                add(by_name.entry(Plain::clone(&tally.name)).or_insert_with(|| OriginSums::new(tally)));
            };
            for (_, tally) in &places.tallies {
                sums(tally, &|sums| tally.add_to(sums));
            }
            for place in places.by_endpoint.values() {
                sums(&place.tally, &|sums| sums.add_place(&place.stats()));
            }
        }
        by_name.into_values().collect()
    }

    /// Closes idle connections; requests that wait for one, and new ones, end with `ENGINE_CLOSED`. Exchanges under
    /// way go on until their task ends. Idempotent.
    pub fn close(&self) {
        let mut places = lock(&self.places);
        places.closed = true;
        for place in places.by_endpoint.values() {
            place.close();
        }
    }
}

impl Places {
    fn new() -> Self {
        Self {
            by_endpoint: HashMap::default(),
            crowded: FEW,
            tallies: ByName::new(NAMED_ORIGINS),
            closed: false,
        }
    }

    /// The counts of `origin`.
    fn tally(&mut self, origin: &str, notices: &Plain<Notices>) -> Arc<Tally> {
        let make = |name: &str| Arc::new(Tally::new(name.into(), Plain::clone(notices)));
        Arc::clone(self.tallies.get_or_insert_with(origin, make))
    }

    /// The number doubles each time, so that the cost is constant per endpoint.
    fn forget_unused(&mut self) {
        self.by_endpoint.retain(|_, place| !place.retire());
        self.crowded = (self.by_endpoint.len() * 2).max(FEW);
    }
}

impl Drop for Origins {
    fn drop(&mut self) {
        if self.pool.dead() {
            // In a forked child the sockets and the poller are the parent's: to close one here would end the
            // parent's TLS sessions, and remove its sockets from its poller. The locks may be held for ever.
            let places = std::mem::replace(&mut self.places, Mutex::new(Places::new()));
            std::mem::forget(places);
            return;
        }
        self.close();
    }
}
