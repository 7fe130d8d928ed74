//! What a request gets (RFC 9111, section 4).

use std::time::Duration;

use super::control::{MaxStale, Scope};
use super::freshness::State;
use super::policy::{Languages, Policy, RangeFill};
use super::range::{Selected, Spec};
use super::request::Request;
use super::spans::Span;
use super::stored::{Content, Stored};
use super::time::Time;
use crate::wire::Fields;

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

/// What is sent of a stored response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Its status and all of its body.
    Full,
    /// 304: the client has it.
    NotModified,
    /// 206: these bytes.
    Partial(Vec<Span>),
    /// 416.
    Unsatisfiable,
}

/// What of a representation is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// All of it: Range and If-Range are left out of the request.
    Whole,
    /// What the client asks for: Range and If-Range are sent as they are.
    Asked,
    /// These bytes, in a Range of the cache's own.
    Span(Span),
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
        /// The conditions with which it is to be fetched anew in the background, if it is.
        refresh: Option<Fields>,
    },
    /// The origin is asked whether the stored response is still good.
    Revalidate {
        /// Which.
        stored: usize,
        /// What is added to the request; never empty.
        conditions: Fields,
        /// Why.
        why: Why,
    },
    /// The rest of a stored response is fetched.
    Complete {
        /// Which.
        stored: usize,
        /// What is missing, in order.
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

/// What a request gets, given the responses that are stored under its key.
pub fn decide(request: &Request<'_>, candidates: &[&Stored], policy: &Policy, now: Time) -> Decision {
    if !matches!(request.method, "GET" | "HEAD") {
        return Decision::Bypass(Why::Method);
    }
    let may_ask = !request.control.only_if_cached;
    if may_ask && (request.conditions.for_origin || (policy.clients_may_refresh && request.control.no_store))
    {
        let why = if request.conditions.for_origin { Why::Bypass } else { Why::Request };
        return Decision::Bypass(why);
    }
    let found = select(request, candidates, policy);
    let decision = match found {
        Some(stored) => of_stored(request, stored, candidates[stored], policy, now),
        None => {
            let why = if candidates.is_empty() { Why::UriMiss } else { Why::VaryMiss };
            Decision::Miss { fill: fill(request, policy), why, stored: None }
        }
    };
    match decision {
        Decision::Hit { .. } => decision,
        Decision::HitStale { refresh: None, .. } => decision,
        Decision::HitStale { stored, answer, .. } if !may_ask => {
            Decision::HitStale { stored, answer, refresh: None }
        }
        Decision::HitStale { .. } => decision,
        _ if !may_ask => Decision::OnlyIfCached,
        _ => decision,
    }
}

/// The stored response that a request selects (RFC 9111, section 4.1): of several the newest one. One that was stored
/// for the same values goes before one in the language that the client prefers.
pub fn select(request: &Request<'_>, candidates: &[&Stored], policy: &Policy) -> Option<usize> {
    let newest = |matches: &dyn Fn(&Stored) -> bool| {
        let places = (0..candidates.len()).filter(|place| matches(candidates[*place]));
        places.max_by_key(|place| candidates[*place].validators.date)
    };
    let exact = newest(&|stored| stored.selection.matches(request.lines, policy.languages, None));
    if exact.is_some() || policy.languages != Languages::Preferred {
        return exact;
    }
    newest(&|stored| stored.selection.matches(request.lines, policy.languages, stored.language()))
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
fn complete(
    request: &Request<'_>,
    place: usize,
    stored: &Stored,
    policy: &Policy,
    gap: Vec<Span>,
) -> Decision {
    let Some(tag) = stored.validators.strong().filter(|_| !gap.is_empty()) else {
        return Decision::Miss { fill: fill(request, policy), why: Why::Partial, stored: None };
    };
    let missing = match (&stored.content, policy.range_fill) {
        (Content::Parts(present, length), RangeFill::Slices(size)) => {
            let wanted: super::spans::Spans = gap.iter().map(|span| span.aligned(size, *length)).collect();
            wanted.iter().flat_map(|span| present.missing(span)).collect()
        }
        _ => gap,
    };
    Decision::Complete { stored: place, missing, if_range: tag.to_bytes() }
}

/// What a stored response answers to a request (RFC 9110, sections 13.2.2 and 14.2).
///
/// # Errors
/// The bytes that it does not have; none, if it is not known which they are.
pub fn answer(request: &Request<'_>, stored: &Stored, policy: &Policy) -> Result<Answer, Vec<Span>> {
    // Conditions mean something only where the answer would be a success (section 13.2.1).
    if (200..300).contains(&stored.status) && request.conditions.has(&stored.validators) {
        return Ok(Answer::NotModified);
    }
    let met = request.if_range.as_ref().is_none_or(|if_range| if_range.is_met(&stored.validators));
    let ranges = request.ranges.as_ref().filter(|_| stored.status == 200 && met);
    let selected = match (ranges, stored.length()) {
        (None, _) => Selected::Whole,
        (Some(ranges), Some(length)) => ranges.select(length, policy.max_ranges),
        (Some(ranges), None) => match (ranges.specs(), &stored.content) {
            ([Spec::From(first, Some(last))], Content::Parts(..)) => {
                Selected::Parts(Span::new(*first, last.saturating_add(1)).into_iter().collect())
            }
            (_, Content::Parts(..)) => return Err(Vec::new()),
            // The whole will do, always.
            (_, Content::Whole(_)) => Selected::Whole,
        },
    };
    let Content::Parts(present, length) = &stored.content else { return Ok(Answer::from(selected)) };
    let wanted = match &selected {
        Selected::Parts(spans) => spans.clone(),
        Selected::Unsatisfiable => Vec::new(),
        Selected::Whole => match length {
            Some(_) if request.method == "HEAD" => Vec::new(),
            Some(length) => Span::new(0, *length).into_iter().collect(),
            None => return Err(Vec::new()),
        },
    };
    let missing: Vec<_> = wanted.into_iter().flat_map(|span| present.missing(span)).collect();
    if missing.is_empty() { Ok(Answer::from(selected)) } else { Err(missing) }
}

impl From<Selected> for Answer {
    fn from(selected: Selected) -> Self {
        match selected {
            Selected::Whole => Self::Full,
            Selected::Parts(spans) => Self::Partial(spans),
            Selected::Unsatisfiable => Self::Unsatisfiable,
        }
    }
}

/// What is fetched where nothing is there.
fn fill(request: &Request<'_>, policy: &Policy) -> Fill {
    let Some(ranges) = &request.ranges else { return Fill::Whole };
    match policy.range_fill {
        RangeFill::Whole => Fill::Whole,
        RangeFill::Asked => Fill::Asked,
        // What cannot be turned into slices without knowing the length or the state is left to the origin.
        RangeFill::Slices(size) => match ranges.specs() {
            [Spec::From(first, last)] if request.if_range.is_none() => {
                let end = last.unwrap_or(*first).saturating_add(1);
                Span::new(*first, end).map_or(Fill::Asked, |span| Fill::Span(span.aligned(size, None)))
            }
            _ => Fill::Asked,
        },
    }
}
