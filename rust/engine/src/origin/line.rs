//! Requests that wait for a connection, in the order in which they came.

use std::collections::BTreeMap;
use std::time::Duration;

/// After this time a line is standing: more requests come than are served. The newest and the oldest request are then
/// served alternately. First come, first served would let all wait for their whole limit and then refuse most; with the
/// newest alone, clients that are cut off and come back would always be next. Arbitrary; a burst is shorter.
pub(super) const STANDING: Duration = Duration::from_secs(1);

/// Where a request waits in its [`Line`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Seat {
    /// Ascending in the order of arrival.
    pub(super) number: u64,
    /// The body of the request is still coming.
    pub(super) upload: bool,
}

#[derive(Debug)]
pub(super) struct Line<T> {
    /// Requests without a body that is still coming, and those with one.
    waiting: [BTreeMap<u64, T>; 2],
    /// Whether a standing line serves its oldest request next.
    oldest_is_next: bool,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { waiting: Default::default(), oldest_is_next: false }
    }
}

impl<T> Line<T> {
    pub(super) fn len(&self) -> usize {
        self.waiting.iter().map(BTreeMap::len).sum()
    }

    /// The number of requests that wait and whose bodies are still coming.
    pub(super) fn uploads(&self) -> usize {
        self.waiting[1].len()
    }

    pub(super) fn push(&mut self, seat: Seat, request: T) {
        self.waiting[usize::from(seat.upload)].insert(seat.number, request);
    }

    pub(super) fn remove(&mut self, seat: Seat) -> Option<T> {
        self.waiting[usize::from(seat.upload)].remove(&seat.number)
    }

    /// The request that has waited for longest, of uploads or of all others.
    pub(super) fn pop_oldest(&mut self, upload: bool) -> Option<T> {
        self.waiting[usize::from(upload)].pop_first().map(|(_, request)| request)
    }

    /// The request that is served next, and whether it is an upload.
    pub(super) fn pop(&mut self, is_standing: bool, may_upload: bool) -> Option<(bool, T)> {
        let newest = is_standing && !self.oldest_is_next;
        let [plain, uploads] = &self.waiting;
        let number = |waiting: &BTreeMap<u64, T>| {
            let end = if newest { waiting.last_key_value() } else { waiting.first_key_value() };
            end.map(|(number, _)| *number)
        };
        let upload = match (number(plain), number(uploads).filter(|_| may_upload)) {
            (None, None) => return None,
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (Some(plain), Some(upload)) => (upload < plain) != newest,
        };
        self.oldest_is_next = newest;
        let waiting = &mut self.waiting[usize::from(upload)];
        let next = if newest { waiting.pop_last() } else { waiting.pop_first() };
        next.map(|(_, request)| (upload, request))
    }
}
