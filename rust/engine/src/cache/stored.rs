//! What is kept of a response beside its body, and whether it may be kept (RFC 9111, sections 3 to 3.5).

use std::fmt;

use super::control::{ResponseControl, Scope};
use super::freshness::{Basis, Freshness, Timing, allows_heuristic};
use super::invalidate::resolve;
use super::list::{Lines, elements, number, values};
use super::policy::{Cookies, Policy};
use super::range::ContentRange;
use super::request::Request;
use super::spans::{Span, Spans};
use super::targeted::response_control;
use super::time::Time;
use super::validate::{Validators, freshened};
use super::vary::{Selection, Vary};
use crate::wire::{Fields, is_one_of};

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
    /// It is a part, and does not say of what, or contradicts itself.
    Range,
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
        })
    }
}

/// How much of the body is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// All of it, or all is on its way. The length may be known only at the end.
    Whole(Option<u64>),
    /// These bytes, of so many if that is known.
    Parts(Spans, Option<u64>),
}

/// A stored response without its body.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Its status; that of the whole where parts are stored, which is 200.
    pub status: u16,
    /// The fields that it is served with, but for Age. It has a Date.
    pub fields: Fields,
    /// What it says about caching.
    pub control: ResponseControl,
    /// How old and how fresh it is.
    pub freshness: Freshness,
    /// What state it is of.
    pub validators: Validators,
    /// Which requests it answers.
    pub selection: Selection,
    /// How much of the body is there.
    pub content: Content,
    /// Whether it must be validated before it is used again (RFC 9111, section 4.4).
    pub is_invalid: bool,
}

impl Stored {
    /// What is kept of a response, where it may be. `lines` are its end-to-end fields, as
    /// [`response_fields`](crate::relay::response_fields) gives them.
    ///
    /// # Errors
    /// The reason why it is not kept.
    pub fn of(
        request: &Request<'_>,
        status: u16,
        lines: &Lines<'_>,
        timing: Timing,
        policy: &Policy,
    ) -> Result<Self, Refusal> {
        let control = response_control(lines, &policy.targets);
        let freshness = Freshness::of(status, lines, &control, timing, policy);
        let validators = Validators::of(lines, timing.received);
        check_method(request, lines, &freshness)?;
        check(request, status, lines, &control.0, &freshness, policy)?;
        let vary = Vary::parse(values(lines, "vary"));
        let selection = Selection::of(&vary, request.lines, policy.languages).ok_or(Refusal::Vary)?;
        if !validators.any() && !is_of_use(&control.0, &freshness) {
            return Err(Refusal::Useless);
        }
        let content = content(status, lines)?;
        let is_part = status == 206;
        let kept = lines.iter().filter(|(name, _)| {
            is_kept(name, &control.0) && !(is_part && is_one_of(name, &["content-range", "content-length"]))
        });
        let mut fields: Fields = kept.copied().collect();
        add_date(&mut fields, timing.received);
        let status = if is_part { 200 } else { status };
        let control = control.0;
        Ok(Self { status, fields, control, freshness, validators, selection, content, is_invalid: false })
    }

    /// The same response after a newer one has confirmed it (RFC 9111, sections 3.2, 3.4, 4.3.4 and 4.3.5), and
    /// whether it may still be kept.
    pub fn updated(
        &self,
        request: &Request<'_>,
        newer: &Lines<'_>,
        timing: Timing,
        policy: &Policy,
    ) -> (Self, Result<(), Refusal>) {
        let said = response_control(newer, &policy.targets).0;
        let kept: Vec<_> = newer.iter().filter(|(name, _)| is_kept(name, &said)).copied().collect();
        let mut fields = freshened(&self.fields, &kept);
        if values(&kept, "date").next().is_none() {
            fields = fields.iter().filter(|(name, _)| !is_one_of(name, &["date"])).collect();
        }
        add_date(&mut fields, timing.received);
        let lines: Vec<_> = fields.iter().collect();
        let control = response_control(&lines, &policy.targets);
        let age = values(newer, "age").map(|value| (b"age".as_slice(), value));
        let aged: Vec<_> = lines.iter().copied().chain(age).collect();
        let freshness = Freshness::of(self.status, &aged, &control, timing, policy);
        let vary = Vary::parse(values(&lines, "vary"));
        let same = self.selection.has_fields_of(&vary).then(|| self.selection.clone());
        let selection = same.or_else(|| Selection::of(&vary, request.lines, policy.languages));
        let may = check(request, self.status, &lines, &control.0, &freshness, policy)
            .and(selection.as_ref().map(|_| ()).ok_or(Refusal::Vary));
        let updated = Self {
            status: self.status,
            validators: Validators::of(&lines, timing.received),
            control: control.0,
            freshness,
            selection: selection.unwrap_or_default(),
            content: self.content.clone(),
            is_invalid: false,
            fields,
        };
        (updated, may)
    }

    /// Bytes of the whole representation, if that is known.
    pub fn length(&self) -> Option<u64> {
        match self.content {
            Content::Whole(length) | Content::Parts(_, length) => length,
        }
    }

    /// The language that it is in, if it is one.
    pub fn language(&self) -> Option<&[u8]> {
        let is_language = |(name, _): &(&[u8], &[u8])| is_one_of(name, &["content-language"]);
        let mut languages = self.fields.iter().filter(is_language).map(|(_, value)| value);
        languages.next().filter(|_| languages.next().is_none())
    }
}

/// GET; and POST where the response is that of a GET as well (RFC 9110, section 9.3.3).
fn check_method(request: &Request<'_>, lines: &Lines<'_>, freshness: &Freshness) -> Result<(), Refusal> {
    let own = || {
        values(lines, "content-location").any(|value| {
            let named = std::str::from_utf8(value).ok().and_then(|value| resolve(request.target, value));
            named.as_deref() == Some(request.target.path)
        })
    };
    match request.method {
        "GET" => Ok(()),
        "POST" if freshness.basis == Basis::Explicit && own() => Ok(()),
        _ => Err(Refusal::Method),
    }
}

/// What must hold of a response whenever it is stored or has been updated (RFC 9111, sections 3 and 3.5).
fn check(
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

/// Whether a response without validators can ever answer a request.
fn is_of_use(control: &ResponseControl, freshness: &Freshness) -> bool {
    freshness.basis != Basis::Nothing
        && control.no_cache != Scope::Response
        && !(freshness.lifetime.is_zero()
            && freshness.while_revalidate.is_zero()
            && freshness.if_error.is_zero())
}

/// Statuses whose rules of caching are known here (RFC 9111, section 5.2.2.3): the final ones of RFC 9110.
fn is_understood(status: u16) -> bool {
    matches!(status, 200..=206 | 300..=303 | 305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 500..=505)
}

/// Whether a field is stored (RFC 9111, sections 3.1, 5.2.2.4 and 5.2.2.7). Age is reckoned anew each time.
fn is_kept(name: &[u8], control: &ResponseControl) -> bool {
    !is_one_of(name, &["age"]) && !control.no_cache.names(name) && !control.private.names(name)
}

/// A recipient with a clock adds a Date that is missing (RFC 9110, section 6.6.1).
fn add_date(fields: &mut Fields, received: Time) {
    if !fields.iter().any(|(name, _)| is_one_of(name, &["date"])) {
        fields.push(b"Date", received.to_string().as_bytes());
    }
}

/// How much of a body the response brings.
fn content(status: u16, lines: &Lines<'_>) -> Result<Content, Refusal> {
    let length =
        values(lines, "content-length").next().and_then(|value| elements(value).next()).and_then(number);
    if status != 206 {
        return Ok(Content::Whole(if status == 204 { Some(0) } else { length }));
    }
    let mut ranges = values(lines, "content-range");
    let range = ranges.next().filter(|_| ranges.next().is_none());
    let range = range.and_then(ContentRange::parse).ok_or(Refusal::Range)?;
    let span = range.span.ok_or(Refusal::Range)?;
    if length.is_some_and(|length| length != span.len()) {
        return Err(Refusal::Range);
    }
    if Span::new(0, range.length.unwrap_or(0)) == Some(span) {
        return Ok(Content::Whole(range.length));
    }
    // Nothing of it is there yet: whoever reads the body adds what has come.
    Ok(Content::Parts(Spans::default(), range.length))
}
