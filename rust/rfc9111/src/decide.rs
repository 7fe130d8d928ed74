//! What a request gets (RFC 9111, section 4).

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
    /// The cache has no part in it.
    Bypass,
    /// The method is not one that is answered from a cache.
    Method,
    /// Nothing is stored under the key.
    UriMiss,
    /// What is stored is for other requests.
    VaryMiss,
    /// The client wants it so.
    Request,
    /// What is stored is not fresh.
    Stale,
    /// What is stored does not have all that is asked for.
    Partial,
}

/// What a request gets. `stored` is a place among the candidates.
///
/// Where the origin is asked, the conditions of the client are left out of the request: what comes is stored, and then
/// answered from, conditions and ranges and all. HEAD alone is sent as it came, and so is what is bypassed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// A stored response that is fresh.
    Hit {
        /// Which.
        stored: usize,
        /// How much of it.
        answer: Answer,
    },
    /// A stored response that is stale.
    HitStale {
        /// Which.
        stored: usize,
        /// How much of it.
        answer: Answer,
        /// The conditions with which it is to be fetched anew in the background, if it is; [`refill`](super::refill)
        /// says how much of it.
        refresh: Option<Fields>,
    },
    /// The origin is asked whether the stored response is still good; [`refill`](super::refill) says how much is
    /// fetched where it is not.
    Revalidate {
        /// Which.
        stored: usize,
        /// What is added to the request; never empty.
        conditions: Fields,
        /// Why.
        why: Why,
    },
    /// The origin is asked which of the stored responses that other requests have selected is good for this one as well
    /// (RFC 9111, section 4.3.1), and for a new one if none is.
    Select {
        /// Which, the newest first.
        among: Vec<usize>,
        /// What is added to the request; never empty.
        conditions: Fields,
        /// How much of it where none is.
        fill: Fill,
    },
    /// A stored response that is in slices, of which the first byte that is wanted is there: what is missing behind it is
    /// fetched while it is read.
    Begin {
        /// Which.
        stored: usize,
        /// How much of it.
        answer: Answer,
    },
    /// The rest of a stored response is fetched.
    Complete {
        /// Which.
        stored: usize,
        /// What is missing, in order; of one that is in slices, the slice in which that begins.
        missing: Vec<Span>,
        /// The value of If-Range: it must be of the same state.
        if_range: Vec<u8>,
    },
    /// The origin is asked; what it answers may be stored.
    Miss {
        /// How much of it.
        fill: Fill,
        /// Why.
        why: Why,
        /// A stale response that may stand in for an error.
        stored: Option<usize>,
    },
    /// The origin is asked as if there were no cache.
    Bypass(Why),
    /// 504: the client does not want the origin asked (RFC 9111, section 5.2.1.7).
    OnlyIfCached,
}

/// What has a stored response.
pub trait Candidate {
    /// What is kept of it beside its body.
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
    /// All of them.
    pub all: &'a [C],
    /// Where each is found. None: each is compared, which is quicker where there is one.
    pub variants: Option<&'a Variants>,
}

impl<C: Candidate> Candidates<'_, C> {
    fn stored(&self, place: usize) -> &Stored {
        self.all[place].stored()
    }

    /// Of those that a request may select and that match as well, the newest.
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

/// What a request gets, given the responses that are stored under its key.
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

/// The stored response that a request selects (RFC 9111, section 4.1): of several the newest one. One that was stored
/// for the same values goes before one in the language that the client prefers.
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

/// The most stored responses that are asked about at once: more would make the request larger than origins take.
/// Arbitrary.
const VARIANTS: usize = 16;

/// The most stored responses that are looked at for that, the newest of all: so that a miss costs the same however many
/// there are. Arbitrary.
const LOOKED_AT: usize = 64;

/// The stored responses that may be good for a request that selects none of them, the newest first: an entity tag tells
/// them apart.
fn variants<C: Candidate>(request: &Request<'_>, candidates: &Candidates<'_, C>) -> Vec<usize> {
    if request.method != "GET" || candidates.all.is_empty() {
        // HEAD is sent as it came.
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

/// What a request gets of the response that it selects.
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
    /// Stale, and to be fetched anew in the background.
    Refresh,
    /// Stale, and the client does not mind.
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

/// Asks the origin about a stored response, or for a new one where it has no validator.
fn ask(request: &Request<'_>, place: usize, stored: &Stored, policy: &Policy, why: Why) -> Decision {
    let conditions = stored.validators.conditions();
    if request.method == "HEAD" || conditions.is_empty() {
        return Decision::Miss { fill: fill(request, policy), why, stored: Some(place) };
    }
    Decision::Revalidate { stored: place, conditions, why }
}

/// Fetches what is missing, if it can be told that it is of the same state; else the response is fetched anew.
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
