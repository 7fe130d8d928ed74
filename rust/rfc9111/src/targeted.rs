//! Targeted cache control (RFC 9213): fields for one kind of cache, which replace Cache-Control and Expires.
//!
//! They are structured dictionaries (RFC 9651). A field that is empty or malformed is ignored, and the next in the
//! list of targets counts.

use std::fmt;
use std::time::Duration;

use sfv::visitor::{DictionaryVisitor, EntryVisitor, Ignored, InnerListVisitor, ItemVisitor};
use sfv::{BareItemFromInput, KeyRef, Parser};

use super::control::{ResponseControl, Scope};
use super::time::LONGEST;
use penstock_http::wire::list::{Lines, values};

/// The cache directives of a response for this cache, and whether they come from a targeted field: then
/// Expires is ignored too (RFC 9213, section 2.2). `targets` are names of fields, the most important first.
pub fn response_control(lines: &Lines<'_>, targets: &[String]) -> (ResponseControl, bool) {
    for target in targets {
        let lines: Vec<_> = values(lines, target).collect();
        if !lines.is_empty() {
            if let Some(control) = parse_targeted(&lines.join(b", ".as_slice())) {
                return (control, true);
            }
        }
    }
    (ResponseControl::parse(values(lines, "cache-control")), false)
}

/// Reads a targeted field; `None` if it is empty, not a dictionary, or has a lifetime that is not
/// an integer.
pub fn parse_targeted(value: &[u8]) -> Option<ResponseControl> {
    Parser::new(value).parse_dictionary_with_visitor(Directives::default()).ok().flatten()
}

/// The value of a known directive. Of two directives with one name the last counts (RFC 9651, section 4.2.2), so
/// values are interpreted at the end.
#[derive(Debug, Default)]
enum Value {
    #[default]
    Absent,
    Flag(bool),
    Seconds(i64),
    Names(Scope),
    Other,
}

const SPANS: [&str; 4] = ["max-age", "s-maxage", "stale-while-revalidate", "stale-if-error"];
const SCOPES: [&str; 2] = ["no-cache", "private"];
const FLAGS: [&str; 6] =
    ["no-store", "public", "must-revalidate", "proxy-revalidate", "must-understand", "immutable"];

#[derive(Debug, Default)]
struct Directives {
    any: bool,
    spans: [Value; 4],
    scopes: [Value; 2],
    flags: [Value; 6],
}

impl Directives {
    fn slot(&mut self, name: &str) -> Option<&mut Value> {
        let place = |names: &[&str]| names.iter().position(|other| *other == name);
        if let Some(place) = place(&SPANS) {
            return Some(&mut self.spans[place]);
        }
        if let Some(place) = place(&SCOPES) {
            return Some(&mut self.scopes[place]);
        }
        place(&FLAGS).map(|place| &mut self.flags[place])
    }
}

impl<'de> DictionaryVisitor<'de> for Directives {
    type Out = Option<ResponseControl>;
    type Error = WrongType;

    fn entry(&mut self, key: &'de KeyRef) -> Result<impl EntryVisitor<'de>, Self::Error> {
        self.any = true;
        Ok(self.slot(key.as_str()).map(Member))
    }

    fn finish(self) -> Result<Self::Out, Self::Error> {
        if !self.any {
            return Ok(None);
        }
        let [max_age, s_maxage, stale_while_revalidate, stale_if_error] = self.spans;
        let [no_cache, private] = self.scopes;
        let [no_store, public, must_revalidate, proxy_revalidate, must_understand, immutable] = self.flags;
        Ok(Some(ResponseControl {
            max_age: max_age.span()?,
            s_maxage: s_maxage.span()?,
            stale_while_revalidate: stale_while_revalidate.span()?,
            stale_if_error: stale_if_error.span()?,
            no_cache: no_cache.scope(),
            private: private.scope(),
            no_store: no_store.is_set(),
            public: public.is_set(),
            must_revalidate: must_revalidate.is_set(),
            proxy_revalidate: proxy_revalidate.is_set(),
            must_understand: must_understand.is_set(),
            immutable: immutable.is_set(),
        }))
    }
}

impl Value {
    fn span(self) -> Result<Option<Duration>, WrongType> {
        match self {
            Self::Absent => Ok(None),
            // A negative lifetime is zero.
            Self::Seconds(seconds) => {
                Ok(Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(LONGEST)))
            }
            _ => Err(WrongType),
        }
    }

    fn scope(self) -> Scope {
        match self {
            Self::Absent | Self::Flag(false) => Scope::Nothing,
            Self::Names(scope) => scope,
            _ => Scope::Response,
        }
    }

    fn is_set(&self) -> bool {
        !matches!(self, Self::Absent | Self::Flag(false))
    }
}

struct Member<'a>(&'a mut Value);

impl<'de> EntryVisitor<'de> for Member<'_> {
    type Error = WrongType;

    fn item(self) -> Result<impl ItemVisitor<'de>, Self::Error> {
        Ok(|item: BareItemFromInput<'de>| {
            *self.0 = match item {
                BareItemFromInput::Boolean(flag) => Value::Flag(flag),
                BareItemFromInput::Integer(seconds) => Value::Seconds(i64::from(seconds)),
                BareItemFromInput::String(names) => Value::Names(Scope::of(names.as_str().as_bytes())),
                BareItemFromInput::Token(name) => Value::Names(Scope::of(name.as_str().as_bytes())),
                _ => Value::Other,
            };
            Ok::<_, WrongType>(Ignored)
        })
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Self::Error> {
        *self.0 = Value::Other;
        Ok(Ignored)
    }
}

/// A lifetime that is not an integer.
#[derive(Debug)]
struct WrongType;

impl fmt::Display for WrongType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the directive takes an integer")
    }
}

impl std::error::Error for WrongType {}
