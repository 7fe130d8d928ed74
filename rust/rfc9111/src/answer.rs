//! What is sent of a stored response, and what is fetched where it does not do (RFC 9110, sections 13.2.2 and 14.2).

use super::policy::{Policy, RangeFill};
use super::request::Request;
use super::stored::{Content, Stored};
use super::validate::Validators;
use penstock_http::wire::Span;
use penstock_http::wire::{Ranges, Selected, Spec};

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
    /// These bytes, in a Range of the cache's own: a slice.
    Span(Span),
}

/// What a stored response lacks of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// What the answer is once it has all; none if that is not known.
    pub answer: Option<Answer>,
    /// The bytes that it does not have; none, if it is not known which they are.
    pub missing: Vec<Span>,
}

impl Gap {
    const UNKNOWN: Self = Self { answer: None, missing: Vec::new() };

    /// Whether the first of the bytes that are wanted is there.
    pub(super) fn is_behind_the_first(&self) -> bool {
        let first = match &self.answer {
            Some(Answer::Full) => Some(0),
            Some(Answer::Partial(spans)) => spans.first().map(|span| span.start()),
            _ => None,
        };
        first.is_some() && first != self.missing.first().map(|span| span.start())
    }
}

/// What a stored response answers to a request (RFC 9110, sections 13.2.2 and 14.2).
///
/// # Errors
/// What it lacks.
pub fn answer(request: &Request<'_>, stored: &Stored, policy: &Policy) -> Result<Answer, Gap> {
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
            (_, Content::Parts(..)) => return Err(Gap::UNKNOWN),
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

/// The slices that a response is fetched in, and read in where not all of it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slicing {
    /// Bytes of a slice.
    pub size: u64,
    /// Bytes of the whole.
    pub length: u64,
}

impl Slicing {
    /// Those of a stored response; none if it is not in slices: by the policy, because it is there in one piece, or because
    /// nothing can be added to it.
    pub fn of(stored: &Stored, policy: &Policy) -> Option<Self> {
        match (policy.range_fill.slice(), &stored.content) {
            (Some(size), Content::Parts(_, Some(length))) => {
                stored.validators.strong().map(|_| Self { size, length: *length })
            }
            _ => None,
        }
    }

    /// The slice that has the byte at `place`; none behind the end.
    pub fn at(self, place: u64) -> Option<Span> {
        let span = Span::new(place, place.saturating_add(1).min(self.length))?;
        Some(span.aligned(self.size, Some(self.length)))
    }
}

/// What is fetched where nothing is there and nothing is known.
pub fn fill(request: &Request<'_>, policy: &Policy) -> Fill {
    match policy.range_fill {
        RangeFill::Auto(_) if request.ranges.is_none() => Fill::Whole,
        RangeFill::Whole => Fill::Whole,
        RangeFill::Auto(_) | RangeFill::Slices(_) | RangeFill::Asked => too_large(request, policy),
    }
}

/// What is fetched of what is not stored in one piece, because it is too large: the slice that a request begins in, or what
/// it asks for where there are no slices. Where that is cannot be told of a range that is counted from the end, and the first
/// slice has the length.
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

/// The same, of what cannot be fetched in slices and may be stored in one piece.
pub fn unsliced(request: &Request<'_>, policy: &Policy) -> Fill {
    if policy.range_fill == RangeFill::Whole { Fill::Whole } else { as_asked(request) }
}

/// What is fetched of what is not stored, or not in one piece: what its client asks for.
pub fn as_asked(request: &Request<'_>) -> Fill {
    if request.ranges.is_none() { Fill::Whole } else { Fill::Asked }
}

/// The one range of a response of `length` bytes that a request gets whatever becomes of it: none where it asks for several,
/// for none that there is, or for those of another state.
pub(super) fn single_range(request: &Request<'_>, length: u64, validators: &Validators) -> Option<Span> {
    let is_met = request.if_range.as_ref().is_none_or(|if_range| if_range.is_met(validators));
    let [spec] = request.ranges.as_ref().filter(|_| is_met)?.specs() else { return None };
    spec.of(length)
}

/// Whether a range of `stored`, of which all is on its way, cannot be told yet: its length is not known before it ends.
pub fn is_of_unknown_length(request: &Request<'_>, stored: &Stored) -> bool {
    request.ranges.is_some()
        && stored.status == 200
        && stored.length().is_none()
        && request.if_range.as_ref().is_none_or(|if_range| if_range.is_met(&stored.validators))
}

/// What is fetched where a stored response is fetched anew, or is asked about and may prove to have changed: no less
/// than there was, and of parts what is asked for.
pub fn refill(request: &Request<'_>, stored: &Stored, policy: &Policy) -> Fill {
    match stored.content {
        Content::Whole(_) => Fill::Whole,
        Content::Parts(..) => too_large(request, policy),
    }
}
