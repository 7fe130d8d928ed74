//! Stores the response to a POST for later GETs (RFC 9110, section 9.3.3), while it goes to the client. No request
//! reads it before it is complete, because the fetch ends with the client.

use super::access::Access;
use super::body::{Body, Filler};
use super::cache::Cache;
use super::lookup::Lookup;
use super::object::{Object, item};
use super::purge::RequestEpoch;
use crate::cache::{Content, Stored, Timing};
use crate::pool::Slice;
use crate::stream::Ending;
use crate::sync::Arc;
use crate::wire::Head;
use crate::wire::list::Lines;

/// A growing response to a POST.
#[derive(Debug)]
pub(super) struct PostResponse<'a> {
    access: &'a Access,
    lookup: &'a Lookup,
    object: Arc<Object>,
    filler: Filler,
    since: RequestEpoch,
}

impl<'a> PostResponse<'a> {
    /// Begins to store the response with `head`, if it may be stored. The stored responses of its key are dropped in
    /// any case, as after every unsafe request.
    pub(super) fn begin(
        access: &'a Access,
        lookup: &'a Lookup,
        since: RequestEpoch,
        head: &Head,
        lines: &Lines<'_>,
    ) -> Option<Self> {
        if access.overrides.bypass {
            return None;
        }
        let (now, own_lines) = (Cache::now(), lookup.lines());
        let request = lookup.read(&own_lines);
        let timing = Timing { requested: since.requested, received: now };
        let stored = Stored::of(&request, head.status, lines, timing, &access.policy.rules).ok()?;
        let is_whole = matches!(stored.content, Content::Whole(_));
        if !is_whole || !access.has_room(&stored) {
            return None;
        }
        let (body, filler) = Body::new(&access.cache.budget);
        let object = Object::whole(stored, head.reason(), item(&lookup.key, 0), body);
        let object = Arc::new(object.tagged(access.tags()));
        let (gone, since) = access.cache.index.supersede(&lookup.key, &object, since);
        access.cache.drop_objects(gone, None);
        since.map(|since| Self { access, lookup, object, filler, since })
    }

    /// Appends a piece; `None` if the body is too large now.
    pub(super) fn push(self, slice: Slice) -> Option<Self> {
        self.filler.push(slice);
        let fits = self.filler.body().length() <= self.access.policy.max_object;
        (fits && self.access.cache.make_room(0)).then_some(self)
    }

    /// Stores the complete response, unless it has been purged meanwhile or a newer one has come.
    pub(super) fn finish(mut self, ending: Ending) {
        Arc::make_mut(&mut self.object).measure(self.filler.body().length());
        self.filler.finish(ending);
        let cache = &self.access.cache;
        if let Some(added) = cache.index.offer(&self.lookup.key, &self.object, self.since) {
            cache.drop_replaced(added);
            cache.admit(&self.lookup.key, &self.object.item);
        }
    }
}
