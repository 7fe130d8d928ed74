//! Vary: the requests that a stored response may answer (RFC 9111, section 4.1; RFC 9110, section
//! 12.5.5).
//!
//! Two values match only if they mean the same by the rules of their field. If the rules are not known, lines are
//! joined and whitespace around commas is removed, which changes the meaning of no list.

use std::hash::{BuildHasher, Hash, Hasher};

use super::key::HASHER;
use super::policy::Languages;
use penstock_http::wire::list::{Lines, split, values};
use penstock_http::wire::{is_one_of, is_token, members};

/// Fields in which a comma does not separate, or that are compared byte by byte to be safe.
const AS_SENT: [&str; 7] = ["authorization", "cookie", "host", "origin", "referer", "user-agent", SOCKET];

const ACCEPT_LANGUAGE: &[u8] = b"accept-language";

/// A name among the fields of a request for the Unix socket of its origin. No real field has this name.
pub const SOCKET: &str = ":socket";
/// Fields that belong to the target of a request besides its key. The origin sees a Host that the client has chosen, while
/// the key has the origin's own; a proxy describes the URL of its client; and several sockets may lead to different origins
/// with one URL.
const BESIDE_THE_KEY: [&str; 7] = [
    "host",
    SOCKET,
    "forwarded",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
];

/// Whether a proxy describes the URL of its client in a field of that name: the answer is only for requests with the same
/// value.
pub fn tells_url(name: &[u8]) -> bool {
    is_one_of(name, &BESIDE_THE_KEY[2..])
}

/// The fields that a response varies by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vary {
    /// `*`: it answers only the request for which it was made.
    Anything,
    /// These fields, in lower case and sorted; often the list is empty.
    Fields(Vec<Box<[u8]>>),
}

impl Vary {
    /// The fields by which a response to this request varies.
    pub fn of(response: &Lines<'_>, request: &Lines<'_>) -> Self {
        Self::with(beside_the_key(request).map(|name| name.as_bytes().into()), values(response, "vary"))
    }

    /// Reads all Vary fields of a response. A member that is not a name counts as `*`.
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

/// The limit of sets of values that select one response. Above it the oldest is dropped; a request with it is validated
/// again. Arbitrary.
const KINDS: usize = 64;

/// The selecting values of a response: of the request for which it was made, and of the requests for which the origin
/// has confirmed it since. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The fields, sorted.
    pub(super) names: Box<[Box<[u8]>]>,
    pub(super) kinds: Vec<Kind>,
}

/// One set of selecting values: requests with the same values in all fields by which a response
/// varies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    /// The hash of names and values. The values are compared only if it is equal.
    pub(super) hash: u64,
    /// One value for each name.
    values: Box<[Value]>,
}

/// The normalised value of a field; `None` if the request does not have it.
type Value = Option<Box<[u8]>>;

impl Kind {
    fn new(names: &[Box<[u8]>], values: Box<[Value]>) -> Self {
        Self { hash: hash(names, values.iter().map(Option::as_deref)), values }
    }

    /// The hash of a request.
    pub(super) fn of(names: &[Box<[u8]>], request: &Lines<'_>, languages: Languages) -> Self {
        Self::new(names, names.iter().map(|name| normalised(name, request, languages)).collect())
    }

    /// The hash for requests that prefer `language` to all others and have the same values in all other fields; `None` if
    /// the response does not vary by language.
    pub(super) fn preferring(&self, names: &[Box<[u8]>], language: &[u8]) -> Option<u64> {
        let place = names.iter().position(|name| **name == *ACCEPT_LANGUAGE)?;
        // A field value never contains NUL.
        let language = [b"\0", language].concat().to_ascii_lowercase();
        let value = |(at, value): (usize, &'_ Value)| -> Value {
            if at == place { Some(language.as_slice().into()) } else { value.clone() }
        };
        Some(Self::new(names, self.values.iter().enumerate().map(value).collect()).hash)
    }
}

fn hash<'a>(names: &[Box<[u8]>], values: impl Iterator<Item = Option<&'a [u8]>>) -> u64 {
    let mut hasher = HASHER.build_hasher();
    for (name, value) in names.iter().zip(values) {
        name.hash(&mut hasher);
        value.hash(&mut hasher);
    }
    hasher.finish()
}

impl Default for Selection {
    /// The values of any request.
    fn default() -> Self {
        Self { names: Box::default(), kinds: vec![Kind::new(&[], Box::default())] }
    }
}

impl Selection {
    /// The values of a request; `None` if the response varies by `*`.
    pub fn of(vary: &Vary, request: &Lines<'_>, languages: Languages) -> Option<Self> {
        let Vary::Fields(names) = vary else { return None };
        let names: Box<[_]> = names.as_slice().into();
        let kinds = vec![Kind::of(&names, request, languages)];
        Some(Self { names, kinds })
    }

    /// From these sets of values of the fields `names`; `None` if there is no set, or a set does not have a value
    /// for each field.
    pub(super) fn of_values(names: Box<[Box<[u8]>]>, kinds: Vec<Box<[Value]>>) -> Option<Self> {
        if kinds.is_empty() || kinds.iter().any(|values| values.len() != names.len()) {
            return None;
        }
        let kinds = kinds.into_iter().map(|values| Kind::new(&names, values)).collect();
        Some(Self { names, kinds })
    }

    /// The fields by which the response varies, sorted.
    pub(super) fn names(&self) -> &[Box<[u8]>] {
        &self.names
    }

    /// The sets of values of those fields, the oldest first.
    pub(super) fn values(&self) -> impl ExactSizeIterator<Item = &[Value]> {
        self.kinds.iter().map(|kind| &*kind.values)
    }

    /// The number of sets of values that select the response.
    pub fn kinds(&self) -> usize {
        self.kinds.len()
    }

    /// Whether all requests select the response.
    pub fn is_open(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether a request selects the response. `content_language` is that of the response.
    pub fn matches(
        &self,
        request: &Lines<'_>,
        languages: Languages,
        content_language: Option<&[u8]>,
    ) -> bool {
        if !names_all_beside_the_key(&self.names, request) {
            return false;
        }
        if let [kind] = self.kinds.as_slice() {
            // Field by field: the second is not read if the first differs.
            if compared(|| {
                self.fields_of(kind).all(|(name, value)| normalised(name, request, languages) == *value)
            }) {
                return true;
            }
        } else {
            let asked = Kind::of(&self.names, request, languages);
            if self.kinds.iter().any(|kind| compared(|| *kind == asked)) {
                return true;
            }
        }
        let Some(language) = content_language.filter(|_| languages == Languages::Preferred) else {
            return false;
        };
        let is_same_but_for_it = |kind: &Kind| {
            self.fields_of(kind).all(|(name, value)| {
                *name == *ACCEPT_LANGUAGE || normalised(name, request, languages) == *value
            })
        };
        self.names.iter().any(|name| **name == *ACCEPT_LANGUAGE)
            && is_preferred(language, request)
            && self.kinds.iter().any(|kind| compared(|| is_same_but_for_it(kind)))
    }

    fn fields_of<'a>(&'a self, kind: &'a Kind) -> impl Iterator<Item = (&'a [u8], &'a Value)> {
        self.names.iter().map(|name| &**name).zip(&kind.values)
    }

    /// Whether the response is for the target of a request, ignoring the other fields by which it
    /// varies.
    pub(super) fn is_of_url(&self, url: &OfUrl) -> bool {
        BESIDE_THE_KEY.iter().zip(&url.0).all(|(beside, asked)| {
            let place = self.names.iter().position(|name| **name == *beside.as_bytes());
            let is_same = |kind: &Kind| place.and_then(|place| kind.values[place].as_ref()) == asked.as_ref();
            self.kinds.iter().all(is_same)
        })
    }

    /// The union of both. If they are of different fields, only `other` counts.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        if self.names != other.names {
            return other;
        }
        for kind in other.kinds {
            if !self.kinds.contains(&kind) {
                self.kinds.push(kind);
            }
        }
        self.kinds.drain(..self.kinds.len().saturating_sub(KINDS));
        self
    }

    /// Whether every set of values is also in `other`.
    pub fn is_within(&self, other: &Self) -> bool {
        self.kinds.iter().all(|kind| other.kinds.contains(kind)) && self.names == other.names
    }

    /// The sets of values that are not in `other`, if there are any.
    pub fn without(&self, other: &Self) -> Option<Self> {
        if !self.meets(other) {
            return Some(self.clone());
        }
        let left: Vec<_> = self.kinds.iter().filter(|kind| !other.kinds.contains(kind)).cloned().collect();
        (!left.is_empty()).then(|| Self { names: self.names.clone(), kinds: left })
    }

    /// Whether some request selects both.
    pub fn meets(&self, other: &Self) -> bool {
        self.kinds.iter().any(|kind| other.kinds.contains(kind)) && self.names == other.names
    }

    /// Whether the response varies by the fields of `vary`.
    pub fn has_fields_of(&self, vary: &Vary) -> bool {
        matches!(vary, Vary::Fields(names) if **names == *self.names)
    }
}

/// The values of a request in the fields that belong to its target besides the key.
pub(super) struct OfUrl([Value; BESIDE_THE_KEY.len()]);

impl OfUrl {
    pub(super) fn of(request: &Lines<'_>) -> Self {
        Self(BESIDE_THE_KEY.map(|name| normalised(name.as_bytes(), request, Languages::Ordered)))
    }
}

/// The codings that a client accepts (RFC 9110, section 12.5.3). Some origins give one entity tag to all codings of a
/// representation, so a tag alone is not enough.
pub(super) struct Codings(Vec<Wish>);

impl Codings {
    pub(super) fn of(request: &Lines<'_>) -> Self {
        Self(values(request, "accept-encoding").flat_map(members).map(Wish::of).collect())
    }

    /// Whether the client accepts this coding.
    pub(super) fn accept(&self, coding: Option<&[u8]>) -> bool {
        let Some(coding) = coding else { return true };
        let coding = canonical(coding.to_ascii_lowercase());
        let mut wishes = self.0.iter().filter(|wish| wish.what == coding).peekable();
        wishes.peek().is_some() && wishes.all(|wish| wish.weight.is_some_and(|weight| weight > 0))
    }
}

/// Whether `names` has all the fields of a request that belong to its target besides the key.
pub(super) fn names_all_beside_the_key(names: &[Box<[u8]>], request: &Lines<'_>) -> bool {
    beside_the_key(request).all(|beside| names.iter().any(|name| **name == *beside.as_bytes()))
}

/// The names of the fields of a request that belong to its target besides the key.
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
    /// In lower case; with the text after it, if that is not a weight.
    what: Vec<u8>,
    /// The weight in thousandths; `None` if it is malformed.
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

/// Replaces the old names of two codings (RFC 9110, sections 8.4.1.1 and 8.4.1.3). No language has
/// these names.
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

/// Whether the response is in the one language that the client prefers to all others: the origin would choose it
/// again.
fn is_preferred(content_language: &[u8], request: &Lines<'_>) -> bool {
    preferred(request).is_some_and(|language| language.eq_ignore_ascii_case(content_language))
}

/// The one language that the client prefers to all others, if there is one.
pub(super) fn preferred(request: &Lines<'_>) -> Option<Vec<u8>> {
    let wishes: Vec<_> = values(request, "accept-language")
        .flat_map(members)
        .filter(|member| !member.is_empty())
        .map(Wish::of)
        .collect();
    let best = wishes.iter().map(|wish| wish.weight).max().flatten().filter(|best| *best > 0)?;
    if wishes.iter().any(|wish| wish.weight.is_none()) {
        return None;
    }
    let mut first = wishes.into_iter().filter(|wish| wish.weight == Some(best));
    first.next().filter(|_| first.next().is_none()).map(|wish| wish.what)
}

/// Compares selecting values. Tests count the calls.
pub(super) fn compared(compare: impl FnOnce() -> bool) -> bool {
    #[cfg(any(test, feature = "testing"))]
    comparisons::add();
    compare()
}

/// The number of comparisons on this thread.
#[cfg(any(test, feature = "testing"))]
pub mod comparisons {
    use std::cell::Cell;

    thread_local! { static COUNT: Cell<usize> = const { Cell::new(0) } }

    pub(super) fn add() {
        COUNT.set(COUNT.get() + 1);
    }

    /// The number of comparisons since the last call.
    pub fn take() -> usize {
        COUNT.take()
    }
}
