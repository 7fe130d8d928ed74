//! A hit: a stored response is found and delivered at once. The origin is not asked, and the request to it is built
//! only as far as the answer depends on it.

use super::access::Caching;
use super::cache::{Cache, seconds};
use super::delivery::{Delivery, Serving};
use super::entry::Entry;
use super::lookup::socket;
use super::requests::CacheResult;
use crate::cache::{CacheStatus, Decision, Key, Request, Slicing, Target, decide, is_of_unknown_length};
use crate::error::Result;
use crate::origin::Endpoint;
use crate::sync::Arc;
use crate::wire::Fields;
use crate::wire::list::Lines;

/// A request without a body, before the request to the origin is built.
#[derive(Debug)]
pub(crate) struct HitRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) target: Target<'a>,
    pub(crate) endpoint: &'a Endpoint,
    /// Whether a field of the request to the origin has a meaning for a cache by itself: see
    /// [`is_read`](crate::cache::is_read).
    pub(crate) is_read: bool,
    /// It has waited for another request's fill.
    pub(crate) collapsed: bool,
}

impl Caching {
    /// The delivery of a stored or growing response, if nothing else has to be done. `fields` builds the fields of the
    /// request to the origin; it is called only if they matter.
    ///
    /// # Errors
    /// Those of `fields`.
    pub(crate) fn look(
        &self,
        asked: &HitRequest<'_>,
        fields: impl FnOnce() -> Result<Fields>,
    ) -> Result<Option<Delivery>> {
        let Self { cache, policy, requests } = self;
        if !matches!(asked.method, "GET" | "HEAD") {
            return Ok(None);
        }
        let now = Cache::now();
        let key = Key::new(asked.target, &policy.query);
        let serve = |entry: &Entry, lines: &Lines<'_>| {
            let request = Request::read(asked.method, asked.target, lines);
            let decision = decide(&request, &entry.candidates(), &policy.rules, now);
            match &decision {
                // The first request that gets it revalidates it.
                Decision::HitStale { refresh: Some(_), .. } if !entry.is_filling() => None,
                Decision::Hit { stored, answer } | Decision::HitStale { stored, answer, .. } => {
                    let object = Arc::clone(&entry.objects()[*stored]);
                    let status = CacheStatus::of(&decision, Some(&object.stored), now);
                    // A response on disk must be loaded, and slices are read one after the other.
                    let is_here = object.is_readable_now(answer, asked.method)
                        && (Slicing::of(&object.stored, &policy.rules).is_none() || object.is_in_one(answer));
                    // The origin may have a range of a body whose length is not known yet.
                    let is_told = !is_of_unknown_length(&request, &object.stored);
                    (is_here && is_told).then(|| Serving { object, answer: answer.clone(), status })
                }
                _ => None,
            }
        };
        let found = cache.index.look(&key, |entry| {
            // `None`: the fields matter.
            (!asked.is_read && entry.is_open()).then(|| serve(entry, &[]))
        });
        let serving = match found {
            None => None,
            Some(Some(serving)) => serving,
            Some(None) => {
                let fields = fields()?;
                let lines: Vec<_> = fields.iter().chain(socket(asked.endpoint)).collect();
                cache.index.look(&key, |entry| serve(entry, &lines)).flatten()
            }
        };
        Ok(serving.map(|mut serving| {
            serving.status.collapsed = asked.collapsed;
            requests.count(CacheResult::of(&serving.status));
            serving.object.hit(&serving.answer, false, seconds(now));
            Delivery::new(serving, None, None, asked.method, &policy.rules.name, now)
        }))
    }
}
