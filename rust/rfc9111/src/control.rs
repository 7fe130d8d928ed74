//! Cache-Control of responses and requests (RFC 9111, section 5.2; RFC 5861; RFC 8246).
//!
//! A value that is malformed is read in the way that keeps a response for the shortest time: a lifetime that is not
//! a number is zero, and of two lifetimes the shorter one counts (section 4.2.1). Unknown directives are ignored.

use std::borrow::Cow;
use std::time::Duration;

use super::time::delta_seconds;
use penstock_http::wire::list::{elements, unquoted};
use penstock_http::wire::{is_token, trim};

/// A directive that may name fields: `no-cache` and `private`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Scope {
    /// The directive is absent.
    #[default]
    Nothing,
    /// It applies to the whole response.
    Response,
    /// It applies to these fields, whose names are in lower case.
    Fields(Vec<Box<[u8]>>),
}

impl Scope {
    /// The union of both: the whole response if one of them applies to it.
    fn add(&mut self, other: Self) {
        match (self, other) {
            (Self::Response, _) | (_, Self::Nothing) => {}
            (Self::Fields(names), Self::Fields(more)) => names.extend(more),
            (this, other) => *this = other,
        }
    }

    /// Reads a list of names; it applies to the whole response if a member is not a name.
    pub(super) fn of(names: &[u8]) -> Self {
        let names: Vec<_> = elements(names).collect();
        if names.is_empty() || !names.iter().all(|name| is_token(name)) {
            return Self::Response;
        }
        Self::Fields(names.into_iter().map(|name| name.to_ascii_lowercase().into()).collect())
    }

    /// Whether the field is named. False if the directive applies to the whole response.
    pub fn names(&self, field: &[u8]) -> bool {
        matches!(self, Self::Fields(names) if names.iter().any(|name| field.eq_ignore_ascii_case(name)))
    }
}

/// The cache directives of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "directives that do not depend on one another")]
pub struct ResponseControl {
    /// How long it is fresh; zero if the value is not a number.
    pub max_age: Option<Duration>,
    /// The same, for shared caches.
    pub s_maxage: Option<Duration>,
    /// How long it may be served stale while it is revalidated (RFC 5861, section 3).
    pub stale_while_revalidate: Option<Duration>,
    /// How long it may be served stale in place of an error (RFC 5861, section 4).
    pub stale_if_error: Option<Duration>,
    /// The parts that may be used only after validation.
    pub no_cache: Scope,
    /// The parts that a shared cache must not store.
    pub private: Scope,
    /// It must not be stored.
    pub no_store: bool,
    /// It may be stored even if its status or the request's Authorization would forbid it.
    pub public: bool,
    /// After it is stale it is not used without validation.
    pub must_revalidate: bool,
    /// The same, for shared caches alone.
    pub proxy_revalidate: bool,
    /// It may be stored if its status is understood, in spite of `no_store`.
    pub must_understand: bool,
    /// It does not change while it is fresh (RFC 8246).
    pub immutable: bool,
}

impl ResponseControl {
    /// Reads all Cache-Control fields of a response.
    pub fn parse<'a>(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut control = Self::default();
        for directive in values.flat_map(elements).filter_map(Directive::of) {
            control.add(&directive);
        }
        control
    }

    fn add(&mut self, directive: &Directive<'_>) {
        match directive.name.to_ascii_lowercase().as_slice() {
            b"max-age" => shortest(&mut self.max_age, directive),
            b"s-maxage" => shortest(&mut self.s_maxage, directive),
            b"stale-while-revalidate" => shortest(&mut self.stale_while_revalidate, directive),
            b"stale-if-error" => shortest(&mut self.stale_if_error, directive),
            b"no-cache" => self.no_cache.add(directive.scope()),
            b"private" => self.private.add(directive.scope()),
            b"no-store" => self.no_store = true,
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"immutable" => self.immutable = true,
            _ => {}
        }
    }

    /// Whether it must not be used stale without validation. For a shared cache, `s-maxage` means the same (RFC
    /// 9111, section 5.2.2.10).
    pub fn forbids_stale(&self) -> bool {
        self.must_revalidate
            || self.proxy_revalidate
            || self.s_maxage.is_some()
            || self.no_cache == Scope::Response
    }

    /// Whether it may be stored although the request has an Authorization field (RFC 9111, section
    /// 3.5).
    pub fn allows_authorized(&self) -> bool {
        self.public || self.must_revalidate || self.s_maxage.is_some()
    }
}

/// The staleness that a client accepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MaxStale {
    /// No stale response.
    #[default]
    Nothing,
    /// A response that has been stale for at most this time.
    For(Duration),
    /// Any stale response.
    Anything,
}

/// The cache directives of a request (RFC 9111, section 5.2.1). A value that is not a number is ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestControl {
    /// The greatest age.
    pub max_age: Option<Duration>,
    /// How long the response must remain fresh.
    pub min_fresh: Option<Duration>,
    /// The staleness that is accepted.
    pub max_stale: MaxStale,
    /// How long a stale response may be served in place of an error (RFC 5861, section 4).
    pub stale_if_error: Option<Duration>,
    /// A stored response must not be used without validation.
    pub no_cache: bool,
    /// The response must not be stored.
    pub no_store: bool,
    /// The origin must not be asked.
    pub only_if_cached: bool,
}

impl RequestControl {
    /// Reads all Cache-Control fields of a request, or its Pragma fields if it has no Cache-Control (section
    /// 5.4).
    pub fn parse<'a>(
        values: impl Iterator<Item = &'a [u8]>,
        mut pragma: impl Iterator<Item = &'a [u8]>,
    ) -> Self {
        let mut control = Self::default();
        let mut present = false;
        for directive in values.inspect(|_| present = true).flat_map(elements).filter_map(Directive::of) {
            control.add(&directive);
        }
        if !present {
            control.no_cache =
                pragma.any(|value| elements(value).any(|element| element.eq_ignore_ascii_case(b"no-cache")));
        }
        control
    }

    fn add(&mut self, directive: &Directive<'_>) {
        let least =
            |kept: &mut Option<Duration>| *kept = (*kept).into_iter().chain(directive.seconds()).min();
        match directive.name.to_ascii_lowercase().as_slice() {
            b"max-age" => least(&mut self.max_age),
            b"stale-if-error" => least(&mut self.stale_if_error),
            b"min-fresh" => self.min_fresh = self.min_fresh.max(directive.seconds()),
            b"max-stale" => {
                self.max_stale = match (self.max_stale, directive.argument, directive.seconds()) {
                    (MaxStale::Nothing, None, _) => MaxStale::Anything,
                    (MaxStale::For(before), _, Some(span)) => MaxStale::For(before.min(span)),
                    (_, _, Some(span)) => MaxStale::For(span),
                    (before, _, None) => before,
                }
            }
            b"no-cache" => self.no_cache = true,
            b"no-store" => self.no_store = true,
            b"only-if-cached" => self.only_if_cached = true,
            _ => {}
        }
    }
}

/// One directive with the text after its `=`. Whitespace around the `=` is not part of the name, but makes a
/// numeric argument invalid: two parsers could read it differently.
struct Directive<'a> {
    name: &'a [u8],
    argument: Option<&'a [u8]>,
}

impl<'a> Directive<'a> {
    fn of(element: &'a [u8]) -> Option<Self> {
        let Some(equals) = element.iter().position(|byte| *byte == b'=') else {
            return is_token(element).then_some(Self { name: element, argument: None });
        };
        let (name, argument) = (&element[..equals], &element[equals + 1..]);
        let trimmed = trim(name);
        let argument = if trimmed.len() < name.len() { b" " } else { argument };
        is_token(trimmed).then_some(Self { name: trimmed, argument: Some(argument) })
    }

    /// The argument, as a token or a quoted string: section 5.2 requires both.
    fn text(&self) -> Option<Cow<'a, [u8]>> {
        self.argument.map(|argument| unquoted(argument).unwrap_or(Cow::Borrowed(argument)))
    }

    fn seconds(&self) -> Option<Duration> {
        delta_seconds(&self.text()?)
    }

    fn scope(&self) -> Scope {
        self.text().map_or(Scope::Response, |names| Scope::of(&names))
    }
}

/// The shorter of a known lifetime and a directive's; zero if the directive is not a number.
fn shortest(kept: &mut Option<Duration>, directive: &Directive<'_>) {
    let span = directive.seconds().unwrap_or(Duration::ZERO);
    *kept = Some(kept.map_or(span, |before| before.min(span)));
}
