//! Whether a response may be stored (RFC 9111, sections 3 and 3.5).

use std::fmt;

use super::control::{ResponseControl, Scope};
use super::freshness::{Basis, Freshness, allows_heuristic};
use super::invalidate::resolve;
use super::policy::{Cookies, Policy};
use super::request::Request;
use penstock_http::wire::list::{Lines, values};
use penstock_http::wire::{is_one_of, names_event_stream};

/// Why a response is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Responses to this method are not stored.
    Method,
    /// Responses with this status are not stored without a directive of the origin.
    Status,
    /// `must-understand`, and the status is not understood.
    NotUnderstood,
    /// The origin forbids it.
    NoStore,
    /// The client forbids it.
    RequestNoStore,
    /// It is for one user.
    Private,
    /// The request had credentials, and the origin has not said that the response is for all.
    Authorization,
    /// `Vary: *`.
    Vary,
    /// It sets cookies.
    Cookies,
    /// It could never be used again.
    Useless,
    /// It is a part with a missing or contradictory Content-Range, or a 416.
    Range,
    /// It is a live event stream.
    Events,
}

impl fmt::Display for Refusal {
    /// One word for Cache-Status and logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Method => "method",
            Self::Status => "status",
            Self::NotUnderstood => "must-understand",
            Self::NoStore => "no-store",
            Self::RequestNoStore => "request-no-store",
            Self::Private => "private",
            Self::Authorization => "authorization",
            Self::Vary => "vary",
            Self::Cookies => "set-cookie",
            Self::Useless => "not-reusable",
            Self::Range => "content-range",
            Self::Events => "event-stream",
        })
    }
}

/// GET; and POST if the response is also that of a GET (RFC 9110, section 9.3.3): the status is 200, because a response
/// that names the target as its location represents it only if the request has succeeded (section 8.7).
pub(super) fn check_method(
    request: &Request<'_>,
    status: u16,
    lines: &Lines<'_>,
    freshness: &Freshness,
) -> Result<(), Refusal> {
    let own = || {
        values(lines, "content-location").any(|value| {
            let named = std::str::from_utf8(value).ok().and_then(|value| resolve(request.target, value));
            named.as_deref() == Some(request.target.path)
        })
    };
    match request.method {
        "GET" => Ok(()),
        "POST" if status == 200 && freshness.basis == Basis::Explicit && own() => Ok(()),
        _ => Err(Refusal::Method),
    }
}

/// The conditions for a response that is stored or has been updated (RFC 9111, sections 3 and 3.5).
pub(super) fn check(
    request: &Request<'_>,
    status: u16,
    lines: &Lines<'_>,
    control: &ResponseControl,
    freshness: &Freshness,
    policy: &Policy,
) -> Result<(), Refusal> {
    if status < 200 || status == 304 {
        return Err(Refusal::Status);
    }
    if status == 416 {
        // It answers one request's Range, which is not in the key.
        return Err(Refusal::Range);
    }
    if control.must_understand && !is_understood(status) {
        return Err(Refusal::NotUnderstood);
    }
    if control.no_store && !control.must_understand {
        return Err(Refusal::NoStore);
    }
    if request.control.no_store {
        return Err(Refusal::RequestNoStore);
    }
    if control.private == Scope::Response {
        return Err(Refusal::Private);
    }
    if request.authorized && !control.allows_authorized() {
        return Err(Refusal::Authorization);
    }
    if freshness.basis == Basis::Nothing && !control.public && !allows_heuristic(status) {
        return Err(Refusal::Status);
    }
    let stored_by_name =
        |name: &str| control.private.names(name.as_bytes()) || control.no_cache.names(name.as_bytes());
    let sets_cookies = ["set-cookie", "set-cookie2"]
        .iter()
        .any(|name| values(lines, name).next().is_some() && !stored_by_name(name));
    if sets_cookies && !(policy.store_cookies == Cookies::Explicit && freshness.basis == Basis::Explicit) {
        return Err(Refusal::Cookies);
    }
    Ok(())
}

/// Whether it is a live event stream: one with a Content-Length had ended before it was sent. If it were stored, later
/// clients would get old events as if they were new.
pub(super) fn is_live(lines: &Lines<'_>) -> bool {
    values(lines, "content-type").any(names_event_stream) && values(lines, "content-length").next().is_none()
}

/// Whether a response without validators can ever answer a request.
pub(super) fn is_of_use(control: &ResponseControl, freshness: &Freshness) -> bool {
    freshness.basis != Basis::Nothing
        && control.no_cache != Scope::Response
        && !(freshness.lifetime.is_zero() && freshness.beyond(control).is_zero())
}

/// Statuses whose caching rules are implemented (RFC 9111, section 5.2.2.3): the final statuses of RFC
/// 9110.
fn is_understood(status: u16) -> bool {
    matches!(status, 200..=206 | 300..=303 | 305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 500..=505)
}

/// Whether a field is stored (RFC 9111, sections 3.1, 5.2.2.4 and 5.2.2.7). Age is not: it is computed for
/// each answer.
pub(super) fn is_kept(name: &[u8], control: &ResponseControl) -> bool {
    !is_one_of(name, &["age"]) && !control.no_cache.names(name) && !control.private.names(name)
}
