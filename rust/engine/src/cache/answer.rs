//! What is sent of a stored response, and what is fetched where it does not do (RFC 9110, sections 13.2.2 and 14.2).

use super::policy::{Policy, RangeFill};
use super::range::{Selected, Spec};
use super::request::Request;
use super::spans::Span;
use super::stored::{Content, Stored};

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
pub(super) fn fill(request: &Request<'_>, policy: &Policy) -> Fill {
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

/// What is fetched where a stored response is fetched anew, or is asked about and may prove to have changed: no less
/// than there was, and of parts what is asked for.
pub fn refill(request: &Request<'_>, stored: &Stored, policy: &Policy) -> Fill {
    match stored.content {
        Content::Whole(_) => Fill::Whole,
        Content::Parts(..) => fill(request, policy),
    }
}
