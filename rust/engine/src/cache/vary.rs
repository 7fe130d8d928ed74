//! Vary: which requests a stored response may answer (RFC 9111, section 4.1; RFC 9110, section 12.5.5).
//!
//! Two values are alike only if their field's own rules say that they mean the same. Where the rules are not known,
//! lines are joined and whitespace around commas is left out, which no list can tell apart.

use super::list::{Lines, split, values};
use super::policy::Languages;
use crate::wire::{is_one_of, is_token, members};

/// Fields in which a comma does not separate, or that are compared by the letter to be on the safe side.
const AS_SENT: [&str; 7] = ["authorization", "cookie", "host", "origin", "referer", "user-agent", SOCKET];

/// Stands among the fields of a request for the Unix socket that its origin is behind. No field has that name.
pub const SOCKET: &str = ":socket";
/// What a request may be about besides its key: a Host that the client has chosen is part of the URL that the origin sees,
/// and not of the key, which has the origin's own, and so is what a proxy says of the URL that its client has asked for; and any
/// number of sockets may have an origin of one URL behind them.
const BESIDE_THE_KEY: [&str; 7] = [
    "host",
    SOCKET,
    "forwarded",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
];

/// Whether a proxy says in a field of that name which URL its client has asked for: what is answered is for who has asked so.
pub fn tells_url(name: &[u8]) -> bool {
    is_one_of(name, &BESIDE_THE_KEY[2..])
}

/// The fields that a response varies by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vary {
    /// By something that no request tells (`*`): it answers none but the one that it was made for.
    Anything,
    /// By these, in small letters and in order; often there is none.
    Fields(Vec<Box<[u8]>>),
}

impl Vary {
    /// What a response of these fields to that request varies by.
    pub fn of(response: &Lines<'_>, request: &Lines<'_>) -> Self {
        Self::with(beside_the_key(request).map(|name| name.as_bytes().into()), values(response, "vary"))
    }

    /// Reads all Vary fields of a response. What is no name of a field may be anything.
    pub fn parse<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        Self::with([].into_iter(), lines)
    }

    fn with<'a>(others: impl Iterator<Item = Box<[u8]>>, lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut names: Vec<_> = others.collect();
        for name in lines.flat_map(members).filter(|name| !name.is_empty()) {
            if name == b"*" || !is_token(name) {
                return Self::Anything;
            }
            names.push(name.to_ascii_lowercase().into_boxed_slice());
        }
        names.sort_unstable();
        names.dedup();
        Self::Fields(names)
    }
}

/// Requests of so many kinds at most are known to select one response: whoever asks with ever new values makes the cache
/// forget the oldest, which is asked about again. Arbitrary.
const KINDS: usize = 64;

/// What the requests that a response is for had in the fields that it varies by: the one that it was made for, and those
/// for which the origin has confirmed it since. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Selection(pub(super) Vec<Kind>);

/// Requests that have the same in all the fields that a response varies by.
pub(super) type Kind = Box<[Selecting]>;

/// A field, and its normalised value; none if the request did not have it.
pub(super) type Selecting = (Box<[u8]>, Option<Box<[u8]>>);

impl Default for Selection {
    /// Any request's.
    fn default() -> Self {
        Self(vec![Kind::default()])
    }
}

impl Selection {
    /// Of a request; none if the response varies by anything.
    pub fn of(vary: &Vary, request: &Lines<'_>, languages: Languages) -> Option<Self> {
        let Vary::Fields(names) = vary else { return None };
        let select = |name: &[u8]| (name.into(), normalised(name, request, languages));
        Some(Self(vec![names.iter().map(|name| select(name)).collect()]))
    }

    /// Whether any request selects the response.
    pub fn is_open(&self) -> bool {
        self.0.iter().any(|kind| kind.is_empty())
    }

    /// Whether a request selects the response. `content_language` is that of the response.
    pub fn matches(
        &self,
        request: &Lines<'_>,
        languages: Languages,
        content_language: Option<&[u8]>,
    ) -> bool {
        let is_named = |kind: &Kind, beside: &str| kind.iter().any(|(name, _)| **name == *beside.as_bytes());
        self.0.iter().any(|kind| {
            beside_the_key(request).all(|beside| is_named(kind, beside))
                && kind.iter().all(|(name, value)| {
                    normalised(name, request, languages) == *value
                        || (&**name == b"accept-language"
                            && languages == Languages::Preferred
                            && content_language.is_some_and(|language| is_preferred(language, request)))
                })
        })
    }

    /// Whether the response is of the URL that a request is about, whatever else it varies by.
    pub fn is_of_url(&self, request: &Lines<'_>) -> bool {
        let of = |kind: &Kind, beside: &str| {
            let named = kind.iter().find(|(name, _)| **name == *beside.as_bytes());
            named.and_then(|(_, value)| value.clone())
        };
        let is_same = |kind: &Kind, beside: &str| {
            of(kind, beside) == normalised(beside.as_bytes(), request, Languages::Ordered)
        };
        self.0.iter().all(|kind| BESIDE_THE_KEY.iter().all(|beside| is_same(kind, beside)))
    }

    /// Those that select either.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        for kind in other.0 {
            if !self.0.contains(&kind) {
                self.0.push(kind);
            }
        }
        self.0.drain(..self.0.len().saturating_sub(KINDS));
        self
    }

    /// Those that do not select `other`, if there are any.
    pub fn without(&self, other: &Self) -> Option<Self> {
        let left: Vec<_> = self.0.iter().filter(|kind| !other.0.contains(kind)).cloned().collect();
        (!left.is_empty()).then_some(Self(left))
    }

    /// Whether there are requests that select both.
    pub fn meets(&self, other: &Self) -> bool {
        self.0.iter().any(|kind| other.0.contains(kind))
    }

    /// Whether it is of the same fields, if not of the same values.
    pub fn has_fields_of(&self, vary: &Vary) -> bool {
        let is_of = |kind: &Kind, names: &[Box<[u8]>]| names.iter().eq(kind.iter().map(|(name, _)| name));
        matches!(vary, Vary::Fields(names) if self.0.iter().all(|kind| is_of(kind, names)))
    }
}

/// Whether a client that sends `request` can read what has these codings (RFC 9110, section 12.5.3). Some origins give one
/// entity tag to a representation in all of its codings, so that a tag alone does not tell.
pub(super) fn accepts_coding(request: &Lines<'_>, coding: Option<&[u8]>) -> bool {
    let Some(coding) = coding else { return true };
    let wishes = values(request, "accept-encoding").flat_map(members).map(Wish::of);
    let coding = canonical(coding.to_ascii_lowercase());
    let mut wishes = wishes.filter(|wish| wish.what == coding).peekable();
    wishes.peek().is_some() && wishes.all(|wish| wish.weight.is_some_and(|weight| weight > 0))
}

/// What of a request is told by the fields alone.
fn beside_the_key(request: &Lines<'_>) -> impl Iterator<Item = &'static str> {
    BESIDE_THE_KEY.into_iter().filter(|name| values(request, name).next().is_some())
}

fn normalised(name: &[u8], request: &Lines<'_>, languages: Languages) -> Option<Box<[u8]>> {
    let mut lines =
        request.iter().filter(|line| line.0.eq_ignore_ascii_case(name)).map(|line| line.1).peekable();
    lines.peek()?;
    if is_one_of(name, &AS_SENT) {
        return Some(lines.collect::<Vec<_>>().join(b"\n".as_slice()).into());
    }
    if !is_one_of(name, &["accept-language", "accept-encoding"]) {
        let parts: Vec<_> = lines.flat_map(|line| split(line, b',')).collect();
        return Some(parts.join(b",".as_slice()).into());
    }
    let ordered = name == b"accept-language" && languages == Languages::Ordered;
    let mut wishes: Vec<_> =
        lines.flat_map(members).filter(|member| !member.is_empty()).map(Wish::of).collect();
    if !ordered {
        wishes.sort_by(|one, other| other.weight.cmp(&one.weight).then_with(|| one.what.cmp(&other.what)));
        wishes.dedup();
    }
    let mut text = Vec::new();
    for wish in wishes {
        text.extend_from_slice(&wish.what);
        match wish.weight {
            Some(1000) => {}
            Some(weight) => text.extend_from_slice(format!(";q={weight}").as_bytes()),
            None => text.extend_from_slice(b";?"),
        }
        text.push(b',');
    }
    Some(text.into())
}

/// A member of Accept-Language or Accept-Encoding (RFC 9110, section 12.4.2).
#[derive(PartialEq, Eq)]
struct Wish {
    /// In small letters; with all that follows it, if that is no weight.
    what: Vec<u8>,
    /// In thousandths; none if it cannot be read.
    weight: Option<u16>,
}

impl Wish {
    fn of(member: &[u8]) -> Self {
        let mut parts = split(member, b';');
        let what = parts.next().unwrap_or_default().to_ascii_lowercase();
        match (parts.next(), parts.next()) {
            (None, _) => Self { what: canonical(what), weight: Some(1000) },
            (Some(parameter), None) => match weight(parameter) {
                Some(weight) => Self { what: canonical(what), weight: Some(weight) },
                None => Self { what: member.to_ascii_lowercase(), weight: None },
            },
            _ => Self { what: member.to_ascii_lowercase(), weight: None },
        }
    }
}

/// Two codings have an old name (RFC 9110, sections 8.4.1.1 and 8.4.1.3). No language has these.
fn canonical(what: Vec<u8>) -> Vec<u8> {
    match what.as_slice() {
        b"x-gzip" => b"gzip".to_vec(),
        b"x-compress" => b"compress".to_vec(),
        _ => what,
    }
}

/// `q=0.5`, in thousandths.
fn weight(parameter: &[u8]) -> Option<u16> {
    let value = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="))?;
    let (whole, digits) = match value {
        [whole] | [whole, b'.'] => (whole, b"".as_slice()),
        [whole, b'.', digits @ ..] if digits.len() <= 3 => (whole, digits),
        _ => return None,
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |place| digits.get(place).map_or(0, |digit| u16::from(digit - b'0'));
    let thousandths = digit(0) * 100 + digit(1) * 10 + digit(2);
    match whole {
        b'0' => Some(thousandths),
        b'1' if thousandths == 0 => Some(1000),
        _ => None,
    }
}

/// Whether the response is in the one language that the client prefers to all others: an origin that has it would
/// choose it again.
fn is_preferred(content_language: &[u8], request: &Lines<'_>) -> bool {
    let wishes: Vec<_> = values(request, "accept-language")
        .flat_map(members)
        .filter(|member| !member.is_empty())
        .map(Wish::of)
        .collect();
    let Some(best) = wishes.iter().map(|wish| wish.weight).max().flatten() else { return false };
    let mut first = wishes.iter().filter(|wish| wish.weight == Some(best));
    best > 0
        && wishes.iter().all(|wish| wish.weight.is_some())
        && first.next().is_some_and(|wish| wish.what.eq_ignore_ascii_case(content_language))
        && first.next().is_none()
}
