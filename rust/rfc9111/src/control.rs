//! Cache-Control of responses and requests (RFC 9111, section 5.2; RFC 5861; RFC 8246).
//!
//! What cannot be understood is read in the way that keeps a response for the shortest time: a lifetime that is no
//! number is none at all, and of two lifetimes the shorter one holds (section 4.2.1). What is not known is ignored.

use std::borrow::Cow;
use std::time::Duration;

use super::time::delta_seconds;
use penstock_http::wire::list::{elements, unquoted};
use penstock_http::wire::{is_token, trim};

/// A directive that may name the fields it is about: `no-cache` and `private`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Scope {
    /// It is not there.
    #[default]
    Nothing,
    /// It is about the whole response.
    Response,
    /// It is about these fields, whose names are in small letters.
    Fields(Vec<Box<[u8]>>),
}

impl Scope {
    /// Both: the whole response if either says so.
    fn add(&mut self, other: Self) {
        match (self, other) {
            (Self::Response, _) | (_, Self::Nothing) => {}
            (Self::Fields(names), Self::Fields(more)) => names.extend(more),
            (this, other) => *this = other,
        }
    }

    /// About the fields in a list of names; about the whole response if any is no name.
    pub(super) fn of(names: &[u8]) -> Self {
        let names: Vec<_> = elements(names).collect();
        if names.is_empty() || !names.iter().all(|name| is_token(name)) {
            return Self::Response;
        }
        Self::Fields(names.into_iter().map(|name| name.to_ascii_lowercase().into()).collect())
    }

    /// Whether a field is named; none is where the whole response is meant.
    pub fn names(&self, field: &[u8]) -> bool {
        matches!(self, Self::Fields(names) if names.iter().any(|name| field.eq_ignore_ascii_case(name)))
    }
}

/// What a response says about caching it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "directives that do not depend on one another")]
pub struct ResponseControl {
    /// For how long it is fresh; zero if it says something that is no number.
    pub max_age: Option<Duration>,
    /// The same, for shared caches alone.
    pub s_maxage: Option<Duration>,
    /// For how long it may be served while it is fetched anew (RFC 5861, section 3).
    pub stale_while_revalidate: Option<Duration>,
    /// For how long it may stand in for an error (RFC 5861, section 4).
    pub stale_if_error: Option<Duration>,
    /// What may be used only after validation.
    pub no_cache: Scope,
    /// What no shared cache may store.
    pub private: Scope,
    /// Nothing of it may be stored.
    pub no_store: bool,
    /// It may be stored even if its status or the request's Authorization is against it.
    pub public: bool,
    /// Once stale, it is not used without validation.
    pub must_revalidate: bool,
    /// The same, for shared caches alone.
    pub proxy_revalidate: bool,
    /// It may be stored if its status is understood, `no_store` or not.
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

    /// Whether it must not be used without validation once it is stale. A shared cache reads that out of `s-maxage`
    /// as well (RFC 9111, section 5.2.2.10).
    pub fn forbids_stale(&self) -> bool {
        self.must_revalidate
            || self.proxy_revalidate
            || self.s_maxage.is_some()
            || self.no_cache == Scope::Response
    }

    /// Whether it may be stored though the request had an Authorization field (RFC 9111, section 3.5).
    pub fn allows_authorized(&self) -> bool {
        self.public || self.must_revalidate || self.s_maxage.is_some()
    }
}

/// How stale a response the client takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MaxStale {
    /// It takes none.
    #[default]
    Nothing,
    /// It takes what has been stale for that long.
    For(Duration),
    /// It takes all.
    Anything,
}

/// What a request says about caches (RFC 9111, section 5.2.1). What is no number is ignored: it asks for nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestControl {
    /// The greatest age that will do.
    pub max_age: Option<Duration>,
    /// For how long it must be fresh still.
    pub min_fresh: Option<Duration>,
    /// How stale it may be.
    pub max_stale: MaxStale,
    /// For how long a stale one may stand in for an error (RFC 5861, section 4).
    pub stale_if_error: Option<Duration>,
    /// Nothing stored is to be used without validation.
    pub no_cache: bool,
    /// Nothing of this exchange is to be stored.
    pub no_store: bool,
    /// The origin is not to be asked.
    pub only_if_cached: bool,
}

impl RequestControl {
    /// Reads all Cache-Control fields of a request, and its Pragma fields where there is none (section 5.4).
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

/// One directive, with what stands behind its `=`. Whitespace around the `=` is no part of the name, but spoils an
/// argument that is a number: two parsers could read it differently.
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

    /// The argument in either of its forms: section 5.2 asks to take both.
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

/// The shorter one of what is known and a directive; nothing, where that is no number.
fn shortest(kept: &mut Option<Duration>, directive: &Directive<'_>) {
    let span = directive.seconds().unwrap_or(Duration::ZERO);
    *kept = Some(kept.map_or(span, |before| before.min(span)));
}
