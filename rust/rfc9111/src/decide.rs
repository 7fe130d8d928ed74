//! Decides how a request is answered (RFC 9111, section 4).

use std::cmp::Reverse;
use std::time::Duration;

use super::answer::{Answer, Fill, Gap, Slicing, answer, fill, unsliced};
use super::control::{MaxStale, Scope};
use super::freshness::State;
use super::policy::{Languages, Policy};
use super::request::Request;
use super::stored::Stored;
use super::time::Time;
use super::validate::which_of;
use super::variants::Variants;
use super::vary::compared;
use super::vary::{Codings, OfUrl};
use penstock_http::wire::Fields;
use penstock_http::wire::Span;

/// Why the origin is asked (RFC 9211, section 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The cache is bypassed.
    Bypass,
    /// Requests of this method are not answered from a cache.
    Method,
    /// Nothing is stored under the key.
    UriMiss,
    /// The stored responses are for other requests (Vary).
    VaryMiss,
    /// The client asks for it.
    Request,
    /// The stored response is not fresh.
    Stale,
    /// The stored response does not have all requested bytes.
    Partial,
}

/// How a request is answered. `stored` is an index of the candidates.
///
/// A request to the origin has none of the client's conditions: the answer is stored and then answers the client, with
/// its conditions and ranges. Only HEAD requests and bypassed requests are sent unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// A fresh stored response answers it.
    Hit {
        /// The index of the stored response.
        stored: usize,
        /// The part of it that answers the request.
        answer: Answer,
    },
    /// A stale stored response answers it.
    HitStale {
        /// Which.
        stored: usize,
        /// How much of it.
        answer: Answer,
        /// The conditions of the revalidation in the background, if there is one; [`refill`](super::refill) gives
        /// the part to fetch.
        refresh: Option<Fields>,
    },
    /// The stored response is validated first; [`refill`](super::refill) gives the part to fetch if it has
    /// changed.
    Revalidate {
        /// Which.
        stored: usize,
        /// The fields to add to the request; never empty.
        conditions: Fields,
        /// Why.
        why: Why,
    },
    /// The origin is asked which of the stored responses for other requests is valid for this one too (RFC 9111,
    /// section 4.3.1), and for a new response if none is.
    Select {
        /// The indexes of the stored responses, the newest first.
        among: Vec<usize>,
        /// What is added to the request; never empty.
        conditions: Fields,
        /// The part to fetch if none is valid.
        fill: Fill,
    },
    /// A stored response in slices which has the first requested byte: missing slices after it are fetched while it is
    /// read.
    Begin {
        /// Which.
        stored: usize,
        /// How much of it.
        answer: Answer,
    },
    /// The missing part of a stored response is fetched.
    Complete {
        /// Which.
        stored: usize,
        /// The missing spans, in ascending order; of a response in slices, the slice in which they
        /// begin.
        missing: Vec<Span>,
        /// The value of If-Range: the part must be of the same state.
        if_range: Vec<u8>,
    },
    /// The origin is asked; its answer may be stored.
    Miss {
        /// How much of it.
        fill: Fill,
        /// Why.
        why: Why,
        /// A stale response that may be served in place of an error.
        stored: Option<usize>,
    },
    /// The origin is asked without the cache.
    Bypass(Why),
    /// 504: the client forbids a request to the origin (RFC 9111, section 5.2.1.7).
    OnlyIfCached,
}

/// A candidate, which has a stored response.
pub trait Candidate {
    /// The stored response without its body.
    fn stored(&self) -> &Stored;
}

impl<C: Candidate> Candidate for std::sync::Arc<C> {
    fn stored(&self) -> &Stored {
        (**self).stored()
    }
}

impl Candidate for &Stored {
    fn stored(&self) -> &Stored {
        self
    }
}

/// The responses that are stored under one key, the oldest first.
#[derive(Debug, Clone, Copy)]
pub struct Candidates<'a, C> {
    /// All candidates.
    pub all: &'a [C],
    /// The index by selecting values. `None`: each candidate is compared, which is faster if there
    /// is one.
    pub variants: Option<&'a Variants>,
}

impl<C: Candidate> Candidates<'_, C> {
    fn stored(&self, place: usize) -> &Stored {
        self.all[place].stored()
    }

    /// The newest of the candidates that the request selects and that match equally well.
    fn newest(
        &self,
        request: &Request<'_>,
        policy: &Policy,
        matches: impl Fn(&Stored) -> bool,
    ) -> Option<usize> {
        let date = |place: &usize| self.stored(*place).validators.date;
        match self.variants {
            None => (0..self.all.len()).filter(|place| matches(self.stored(*place))).max_by_key(date),
            Some(variants) => variants
                .places(request.lines, policy.languages)
                .filter(|place| matches(self.stored(*place)))
                .max_by_key(|place| (date(place), *place)),
        }
    }
}

/// Decides how a request is answered, given the responses that are stored under its key.
pub fn decide<C: Candidate>(
    request: &Request<'_>,
    candidates: &Candidates<'_, C>,
    policy: &Policy,
    now: Time,
) -> Decision {
    if !matches!(request.method, "GET" | "HEAD") {
        return Decision::Bypass(Why::Method);
    }
    let may_ask = !request.control.only_if_cached;
    if may_ask && (request.conditions.for_origin || (policy.clients_may_refresh && request.control.no_store))
    {
        let why = if request.conditions.for_origin { Why::Bypass } else { Why::Request };
        return Decision::Bypass(why);
    }
    let decision = select(request, candidates, policy).map_or_else(
        || {
            let fill = fill(request, policy);
            let among = variants(request, candidates);
            if !among.is_empty() {
                let conditions = which_of(among.iter().map(|place| &candidates.stored(*place).validators));
                return Decision::Select { among, conditions, fill };
            }
            let why = if candidates.all.is_empty() { Why::UriMiss } else { Why::VaryMiss };
            Decision::Miss { fill, why, stored: None }
        },
        |place| of_stored(request, place, candidates.stored(place), policy, now),
    );
    match decision {
        Decision::Hit { .. } => decision,
        Decision::HitStale { stored, answer, refresh } => {
            Decision::HitStale { stored, answer, refresh: refresh.filter(|_| may_ask) }
        }
        _ if !may_ask => Decision::OnlyIfCached,
        _ => decision,
    }
}

/// The stored response that a request selects (RFC 9111, section 4.1): of several, the newest. A response for the
/// same values goes before a response in the preferred language.
pub fn select<C: Candidate>(
    request: &Request<'_>,
    candidates: &Candidates<'_, C>,
    policy: &Policy,
) -> Option<usize> {
    let exact = candidates
        .newest(request, policy, |stored| stored.selection.matches(request.lines, policy.languages, None));
    if exact.is_some() || policy.languages != Languages::Preferred {
        return exact;
    }
    candidates.newest(request, policy, |stored| {
        stored.selection.matches(request.lines, policy.languages, stored.language())
    })
}

/// The limit of stored responses that one request validates: more would make it larger than origins accept.
/// Arbitrary.
const VARIANTS: usize = 16;

/// The limit of stored responses that are examined for that, the newest first: so a miss costs the same, whatever their
/// number. Arbitrary.
const LOOKED_AT: usize = 64;

/// The stored responses that may be valid for a request that selects none of them, the newest first. An entity tag
/// identifies each.
fn variants<C: Candidate>(request: &Request<'_>, candidates: &Candidates<'_, C>) -> Vec<usize> {
    if request.method != "GET" || candidates.all.is_empty() {
        // HEAD is sent unchanged.
        return Vec::new();
    }
    let (url, codings) = (OfUrl::of(request.lines), Codings::of(request.lines));
    let may_be = |stored: &Stored| {
        stored.validators.etag.is_some()
            && compared(|| stored.selection.is_of_url(&url))
            && codings.accept(stored.coding())
    };
    let newest = (0..candidates.all.len()).rev().take(LOOKED_AT);
    let mut among: Vec<_> = newest.filter(|place| may_be(candidates.stored(*place))).collect();
    among.sort_by_key(|place| Reverse(candidates.stored(*place).validators.date));
    among.truncate(VARIANTS);
    among
}

/// How a request is answered by the response that it selects.
fn of_stored(request: &Request<'_>, place: usize, stored: &Stored, policy: &Policy, now: Time) -> Decision {
    let use_of = usability(request, stored, policy, now);
    if let Use::Ask(why) = use_of {
        return ask(request, place, stored, policy, why);
    }
    let answer = match answer(request, stored, policy) {
        Ok(answer) => answer,
        Err(gap) => return complete(request, place, stored, policy, gap),
    };
    match use_of {
        Use::Fresh | Use::Ask(_) => Decision::Hit { stored: place, answer },
        Use::Refresh => {
            let refresh = Some(stored.validators.conditions());
            Decision::HitStale { stored: place, answer, refresh }
        }
        Use::Tolerated => Decision::HitStale { stored: place, answer, refresh: None },
    }
}

#[derive(Clone, Copy)]
enum Use {
    Fresh,
    /// Stale, and to be revalidated in the background.
    Refresh,
    /// Stale, and the client accepts it.
    Tolerated,
    Ask(Why),
}

fn usability(request: &Request<'_>, stored: &Stored, policy: &Policy, now: Time) -> Use {
    let control = &request.control;
    if stored.is_invalid || stored.control.no_cache == Scope::Response {
        return Use::Ask(Why::Stale);
    }
    let age = stored.freshness.age(now);
    let state = stored.freshness.state(now);
    if policy.clients_may_refresh {
        let left = if let State::Fresh(left) = state { left } else { Duration::ZERO };
        let too_old = control.max_age.is_some_and(|most| age > most || most.is_zero());
        if control.no_cache || too_old || control.min_fresh.is_some_and(|least| left < least) {
            return Use::Ask(Why::Request);
        }
    }
    match state {
        State::Fresh(_) => Use::Fresh,
        State::Stale(span)
            if span <= stored.freshness.while_revalidate && !stored.freshness.while_revalidate.is_zero() =>
        {
            Use::Refresh
        }
        State::Stale(span) => {
            let tolerated = match control.max_stale {
                MaxStale::Nothing => false,
                MaxStale::For(most) => span <= most,
                MaxStale::Anything => true,
            };
            if tolerated && !stored.control.forbids_stale() { Use::Tolerated } else { Use::Ask(Why::Stale) }
        }
    }
}

/// Validates a stored response, or asks for a new one if it has no validator.
fn ask(request: &Request<'_>, place: usize, stored: &Stored, policy: &Policy, why: Why) -> Decision {
    let conditions = stored.validators.conditions();
    if request.method == "HEAD" || conditions.is_empty() {
        return Decision::Miss { fill: fill(request, policy), why, stored: Some(place) };
    }
    Decision::Revalidate { stored: place, conditions, why }
}

/// Fetches the missing part, if a strong validator identifies the state; otherwise the response is fetched
/// again.
fn complete(request: &Request<'_>, place: usize, stored: &Stored, policy: &Policy, gap: Gap) -> Decision {
    let slicing = Slicing::of(stored, policy);
    let (Some(tag), Some(first)) = (stored.validators.strong(), gap.missing.first()) else {
        return Decision::Miss { fill: unsliced(request, policy), why: Why::Partial, stored: None };
    };
    let slice = slicing.and_then(|slicing| slicing.at(first.start()));
    if let (Some(_), true) = (slicing, gap.is_behind_the_first()) {
        if let Some(answer) = gap.answer {
            return Decision::Begin { stored: place, answer };
        }
    }
    let missing = slice.map_or(gap.missing, |slice| vec![slice]);
    Decision::Complete { stored: place, missing, if_range: tag.to_bytes() }
}
