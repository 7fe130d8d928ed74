//! Whether a response may be kept (RFC 9111, sections 3 and 3.5).

use std::fmt;

use super::control::{ResponseControl, Scope};
use super::freshness::{Basis, Freshness, allows_heuristic};
use super::invalidate::resolve;
use super::policy::{Cookies, Policy};
use super::request::Request;
use penstock_http::wire::list::{Lines, values};
use penstock_http::wire::{is_one_of, names_event_stream};

/// Why a response is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Responses to this method are not.
    Method,
    /// Responses of this status are not, without a word from the origin.
    Status,
    /// `must-understand`, and a status that is not understood.
    NotUnderstood,
    /// The origin forbids it.
    NoStore,
    /// The client forbids it.
    RequestNoStore,
    /// It is for one user.
    Private,
    /// It was made for who has these credentials, as far as anybody has said.
    Authorization,
    /// It depends on what no request tells.
    Vary,
    /// It sets cookies.
    Cookies,
    /// It could never be used again.
    Useless,
    /// It is a part, and does not say of what, or contradicts itself; or says that there is no such part.
    Range,
    /// It is a stream of events as they happen.
    Events,
}

impl fmt::Display for Refusal {
    /// In one word, for Cache-Status and logs.
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

/// GET; and POST where the response is that of a GET as well (RFC 9110, section 9.3.3): it is 200, because what names the
/// target as its location is a representation of it only where the request has succeeded (section 8.7).
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

/// What must hold of a response whenever it is stored or has been updated (RFC 9111, sections 3 and 3.5).
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
        // It is about one request's Range, which is not in the key.
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
    if sets_cookies && !(policy.cookies == Cookies::Explicit && freshness.basis == Basis::Explicit) {
        return Err(Refusal::Cookies);
    }
    Ok(())
}

/// Whether it is a stream of events that goes on for as long as there are some: one that says how long it is was over when it
/// was sent. Stored, it would be told again to whoever comes later, as if it happened then.
pub(super) fn is_live(lines: &Lines<'_>) -> bool {
    values(lines, "content-type").any(names_event_stream) && values(lines, "content-length").next().is_none()
}

/// Whether a response without validators can ever answer a request.
pub(super) fn is_of_use(control: &ResponseControl, freshness: &Freshness) -> bool {
    freshness.basis != Basis::Nothing
        && control.no_cache != Scope::Response
        && !(freshness.lifetime.is_zero() && freshness.beyond(control).is_zero())
}

/// Statuses whose rules of caching are known here (RFC 9111, section 5.2.2.3): the final ones of RFC 9110.
fn is_understood(status: u16) -> bool {
    matches!(status, 200..=206 | 300..=303 | 305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 500..=505)
}

/// Whether a field is stored (RFC 9111, sections 3.1, 5.2.2.4 and 5.2.2.7). Age is reckoned anew each time.
pub(super) fn is_kept(name: &[u8], control: &ResponseControl) -> bool {
    !is_one_of(name, &["age"]) && !control.no_cache.names(name) && !control.private.names(name)
}
