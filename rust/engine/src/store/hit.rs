//! A hit: what is stored is found and handed over at once. Nobody is asked or waited for, and of what the origin would be
//! sent nothing is made that does not matter to the answer.

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

/// A request without a body, as far as it is known before what the origin would be sent is made.
#[derive(Debug)]
pub(crate) struct HitRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) target: Target<'a>,
    pub(crate) endpoint: &'a Endpoint,
    /// Whether one of its fields, as the origin would be sent them, may say something to a cache by itself: see
    /// [`is_read`](crate::cache::is_read).
    pub(crate) is_read: bool,
}

impl Caching {
    /// What a request gets, where that is stored or on its way and nothing else is to be done. `fields` are what the
    /// origin would be sent: they are made only where they matter.
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
                // Whoever is the first to get it has it fetched anew.
                Decision::HitStale { refresh: Some(_), .. } if !entry.is_filling() => None,
                Decision::Hit { stored, answer } | Decision::HitStale { stored, answer, .. } => {
                    let object = Arc::clone(&entry.objects()[*stored]);
                    let status = CacheStatus::of(&decision, Some(&object.stored), now);
                    // What is on disk has to be waited for, and what is in slices is read one after the other.
                    let is_here = object.is_readable_now(answer, asked.method)
                        && (Slicing::of(&object.stored, &policy.rules).is_none() || object.is_in_one(answer));
                    // The origin may have a range of what has no length yet.
                    let is_told = !is_of_unknown_length(&request, &object.stored);
                    (is_here && is_told).then(|| Serving { object, answer: answer.clone(), status })
                }
                _ => None,
            }
        };
        let found = cache.index.look(&key, |entry| {
            // None: it matters.
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
        Ok(serving.map(|serving| {
            requests.count(CacheResult::of(&serving.status));
            serving.object.hit(&serving.answer, false, seconds(now));
            Delivery::new(serving, None, None, asked.method, &policy.rules.name, now)
        }))
    }
}
