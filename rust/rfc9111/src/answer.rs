//! The part of a stored response that answers a request, and the part to fetch if it is missing (RFC 9110, sections
//! 13.2.2 and 14.2).

use super::policy::{Policy, RangeFill};
use super::request::Request;
use super::stored::{Content, Stored};
use super::validate::Validators;
use penstock_http::wire::Span;
use penstock_http::wire::{Ranges, Selected, Spec};

/// The answer that a stored response gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The stored status and the whole body.
    Full,
    /// 304: the client has the response.
    NotModified,
    /// 206 with these bytes.
    Partial(Vec<Span>),
    /// 416.
    Unsatisfiable,
}

/// The part of a representation to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// The whole: the request is sent without Range and If-Range.
    Whole,
    /// The client's range: Range and If-Range are sent unchanged.
    Asked,
    /// A slice: the cache sends a Range of its own.
    Span(Span),
}

/// What a stored response lacks for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The answer after all is stored; `None` if it is not known yet.
    pub answer: Option<Answer>,
    /// The missing bytes; empty if it is not known which bytes are missing.
    pub missing: Vec<Span>,
}

impl Gap {
    const UNKNOWN: Self = Self { answer: None, missing: Vec::new() };

    /// Whether the first byte of the answer is stored.
    pub(super) fn is_behind_the_first(&self) -> bool {
        let first = match &self.answer {
            Some(Answer::Full) => Some(0),
            Some(Answer::Partial(spans)) => spans.first().map(|span| span.start()),
            _ => None,
        };
        first.is_some() && first != self.missing.first().map(|span| span.start())
    }
}

/// The answer of a stored response to a request (RFC 9110, sections 13.2.2 and 14.2).
///
/// # Errors
/// The part that is missing.
pub fn answer(request: &Request<'_>, stored: &Stored, policy: &Policy) -> Result<Answer, Gap> {
    // Conditions apply only if the answer would be a success (section 13.2.1).
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
            (_, Content::Parts(..)) => return Err(Gap::UNKNOWN),
            // The whole is always a valid answer.
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
            None => return Err(Gap::UNKNOWN),
        },
    };
    let missing: Vec<_> = wanted.into_iter().flat_map(|span| present.missing(span)).collect();
    let answer = Answer::from(selected);
    if missing.is_empty() { Ok(answer) } else { Err(Gap { answer: Some(answer), missing }) }
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

/// The slices in which a response is fetched, and read if it is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slicing {
    /// Bytes of a slice.
    pub size: u64,
    /// The length of the whole in bytes.
    pub length: u64,
}

impl Slicing {
    /// The slices of a stored response; `None` if it has no slices: by the policy, because it is complete, or because
    /// nothing can be added to it.
    pub fn of(stored: &Stored, policy: &Policy) -> Option<Self> {
        match (policy.range_fill.slice(), &stored.content) {
            (Some(size), Content::Parts(_, Some(length))) => {
                stored.validators.strong().map(|_| Self { size, length: *length })
            }
            _ => None,
        }
    }

    /// The slice with the byte at `place`; `None` after the end.
    pub fn at(self, place: u64) -> Option<Span> {
        let span = Span::new(place, place.saturating_add(1).min(self.length))?;
        Some(span.aligned(self.size, Some(self.length)))
    }
}

/// The part to fetch if nothing is stored and nothing is known.
pub fn fill(request: &Request<'_>, policy: &Policy) -> Fill {
    match policy.range_fill {
        RangeFill::Auto(_) if request.ranges.is_none() => Fill::Whole,
        RangeFill::Whole => Fill::Whole,
        RangeFill::Auto(_) | RangeFill::Slices(_) | RangeFill::Asked => too_large(request, policy),
    }
}

/// The part to fetch of a response that is too large to be stored in one piece: the slice in which the range begins, or the
/// range itself if there are no slices. For a range from the end the first slice is fetched, because it brings the length.
pub fn too_large(request: &Request<'_>, policy: &Policy) -> Fill {
    let Some(size) = policy.range_fill.slice() else { return as_asked(request) };
    let first = match request.ranges.as_ref().map(Ranges::specs) {
        Some([Spec::From(first, _), ..]) => *first,
        _ => 0,
    };
    let slice = Span::new(first, first.saturating_add(1)).map(|span| span.aligned(size, None));
    match slice {
        Some(slice) if request.method == "GET" => Fill::Span(slice),
        _ => as_asked(request),
    }
}

/// The part to fetch of a response that cannot be fetched in slices and may be stored in one piece.
pub fn unsliced(request: &Request<'_>, policy: &Policy) -> Fill {
    if policy.range_fill == RangeFill::Whole { Fill::Whole } else { as_asked(request) }
}

/// The part to fetch of a response that is not stored, or not in one piece: what the client asks
/// for.
pub fn as_asked(request: &Request<'_>) -> Fill {
    if request.ranges.is_none() { Fill::Whole } else { Fill::Asked }
}

/// The one range of a response of `length` bytes that a request gets, whether or not the response is stored; `None` if it
/// asks for several, for bytes that do not exist, or for a range of another state.
pub(super) fn single_range(request: &Request<'_>, length: u64, validators: &Validators) -> Option<Span> {
    let is_met = request.if_range.as_ref().is_none_or(|if_range| if_range.is_met(validators));
    let [spec] = request.ranges.as_ref().filter(|_| is_met)?.specs() else { return None };
    spec.of(length)
}

/// Whether a range of `stored`, which is being fetched as a whole, is not known yet, because its length is not known
/// before its end.
pub fn is_of_unknown_length(request: &Request<'_>, stored: &Stored) -> bool {
    request.ranges.is_some()
        && stored.status == 200
        && stored.length().is_none()
        && request.if_range.as_ref().is_none_or(|if_range| if_range.is_met(&stored.validators))
}

/// The part to fetch if a stored response is fetched again, or validated and may have changed: at least as much as
/// was stored; of parts, what the client asks for.
pub fn refill(request: &Request<'_>, stored: &Stored, policy: &Policy) -> Fill {
    match stored.content {
        Content::Whole(_) => Fill::Whole,
        Content::Parts(..) => too_large(request, policy),
    }
}
