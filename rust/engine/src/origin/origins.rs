//! The connections of one engine thread to all of its origins.

use std::collections::HashMap;
use std::time::Duration;

use super::endpoint::Endpoint;
use super::limits::OriginLimits;
use super::place::{Answer, Lease, Place, wait};
use super::stats::{Counts, OriginStats};
use super::tls::Tls;
use crate::error::Result;
use crate::pool::Pool;
use crate::stream::ReadSizes;
use crate::sync::{Arc, Mutex, lock};

/// One per engine thread: its connections are registered with that thread's runtime, and [`super::fetch`] must run
/// there. Stats may be asked for, and [`Origins::close`] called, on any thread.
#[derive(Debug)]
pub struct Origins {
    pub(super) pool: Pool,
    pub(super) limits: OriginLimits,
    pub(super) reads: ReadSizes,
    pub(super) tls: Tls,
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    by_endpoint: HashMap<Endpoint, Arc<Place>>,
    /// Look for unused places when there are this many.
    crowded: usize,
    /// What forgotten places had counted.
    forgotten: Counts,
    closed: bool,
}

/// Fewer endpoints than this are never looked through for unused ones. Arbitrary; a place is some 400 bytes.
const FEW: usize = 64;

impl Origins {
    /// An empty set of connections. What is read goes into `pool`; `tls` may be shared with other threads.
    pub fn new(pool: &Pool, limits: OriginLimits, reads: ReadSizes, tls: Tls) -> Self {
        let places = Places { crowded: FEW, ..Places::default() };
        Self { pool: pool.clone(), limits, reads, tls, places: Mutex::new(places) }
    }

    pub(super) fn place(&self, endpoint: &Endpoint) -> Arc<Place> {
        let mut places = lock(&self.places);
        if let Some(place) = places.by_endpoint.get(endpoint) {
            return Arc::clone(place);
        }
        if places.by_endpoint.len() >= places.crowded {
            places.forget_unused();
        }
        let place = Arc::new(Place::new(endpoint.clone(), self.limits));
        if places.closed {
            place.close();
        }
        places.by_endpoint.insert(endpoint.clone(), Arc::clone(&place));
        place
    }

    /// The right to use one connection to `endpoint`, whose place was `place` a moment ago, in turn.
    pub(super) async fn lease(
        &self,
        mut place: Arc<Place>,
        endpoint: &Endpoint,
        limit: Option<Duration>,
    ) -> Result<Lease> {
        loop {
            match place.ask()? {
                Answer::Granted(lease) => return Ok(lease),
                Answer::Wait(receiver) => return wait(receiver, limit).await,
                Answer::Retired => place = self.place(endpoint),
            }
        }
    }

    /// Counts and connections as they are now.
    pub fn stats(&self) -> OriginStats {
        let places = lock(&self.places);
        let endpoints: Vec<_> = places.by_endpoint.values().map(|place| place.stats()).collect();
        let mut counts = places.forgotten;
        for endpoint in &endpoints {
            counts.add(endpoint.counts);
        }
        OriginStats { counts, endpoints }
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
    /// Each time twice as many must come before it is done again, so that its cost stays a constant per endpoint.
    fn forget_unused(&mut self) {
        let forgotten = &mut self.forgotten;
        self.by_endpoint.retain(|_, place| match place.retire() {
            Some(counts) => {
                forgotten.add(counts);
                false
            }
            None => true,
        });
        self.crowded = (self.by_endpoint.len() * 2).max(FEW);
    }
}

impl Drop for Origins {
    fn drop(&mut self) {
        if self.pool.dead() {
            // In a forked child the sockets and the poller are the parent's: to close one here would say goodbye on
            // its behalf, and stop its thread from hearing of the others. The locks may be held for ever.
            let places = std::mem::replace(&mut self.places, Mutex::new(Places::default()));
            std::mem::forget(places);
            return;
        }
        self.close();
    }
}
