//! The right to use one connection of a place.

use std::net::SocketAddr;

use super::{Place, Purpose};
use crate::net::{Connection, Watch};
use crate::runtime;
use crate::sync::{Arc, lock};

/// The right to use one connection, with an idle connection if there was one.
#[derive(Debug)]
pub(in crate::origin) struct Lease {
    /// `None` after the right has been passed on.
    pub(super) place: Option<Arc<Place>>,
    pub(super) purpose: Purpose,
    pub(super) connection: Option<Box<Connection>>,
    /// The connection is in use. If the lease is dropped now, it does not serve again.
    busy: bool,
    /// Whether failures under it are logged.
    pub(in crate::origin) reports: bool,
}

impl Lease {
    /// To be passed to a request of a `purpose`, which has not begun.
    pub(super) fn new(place: Arc<Place>, connection: Option<Box<Connection>>, purpose: Purpose) -> Self {
        Self { place: Some(place), purpose, connection, busy: false, reports: false }
    }

    pub(in crate::origin) fn place(&self) -> &Arc<Place> {
        self.place.as_ref().expect("only a lease that was passed on has no place")
    }

    /// Begins to use the connection that is there, if `reuses` and it keeps quiet; whether it does. Any other is closed:
    /// what it has brought would be taken for the response to the next request. A request that `may_repeat` believes the
    /// runtime, if that has looked at the connection since it became idle.
    pub(in crate::origin) fn begin(&mut self, reuses: bool, may_repeat: bool) -> bool {
        self.busy = true;
        let Some(mut idle) = self.connection.take().filter(|_| reuses) else { return false };
        let since = idle.idle_since.take();
        let is_watched = may_repeat && since.is_some_and(|turn| turn != runtime::turn());
        if let Some(unrest) = idle.unrest(is_watched) {
            let place = self.place();
            place.stirred(&mut lock(&place.state).counts, unrest, idle.peer);
            return false;
        }
        self.connection = Some(idle);
        true
    }

    /// Uses the connection that is there, whatever it has brought.
    pub(super) fn note_use(&mut self) {
        self.busy = true;
    }

    /// Uses a connection that was opened for it.
    pub(in crate::origin) fn put(&mut self, connection: Box<Connection>) {
        self.connection = Some(connection);
    }

    /// The connection that is in use.
    pub(in crate::origin) fn connection(&self) -> &Connection {
        self.connection.as_ref().expect("what uses a lease has begun with a connection, or put one")
    }

    /// The timer of the connection's last reader.
    pub(in crate::origin) fn take_limit(&mut self) -> Watch {
        self.connection
            .as_mut()
            .map_or_else(Watch::default, |connection| std::mem::take(&mut connection.limit))
    }

    /// Where it leads, if there is one.
    pub(in crate::origin) fn address(&self) -> Option<SocketAddr> {
        self.connection.as_ref()?.peer
    }

    /// Counts a request on it.
    pub(in crate::origin) fn count_request(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.requests += 1;
        }
    }

    /// The connection has carried its request to the end, and may serve again if it has not served enough. `limit`: the timer
    /// of its reader.
    pub(in crate::origin) fn give_back(&mut self, limit: Watch) {
        self.busy = !self.connection.as_ref().is_some_and(|connection| self.place().reusable(connection));
        if let Some(connection) = &mut self.connection {
            connection.limit = limit;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            let is_free = !self.busy || cfg!(all(test, planted_bug = "connection-kept-in-midst"));
            place.release(self.connection.take().filter(|_| is_free), self.purpose);
        }
    }
}
