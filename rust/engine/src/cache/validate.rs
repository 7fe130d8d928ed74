//! Validators, and the conditions that clients and this cache make with them (RFC 9110, sections 8.8 and 13;
//! RFC 9111, section 4.3).

use super::list::{Lines, values};
use super::time::Time;
use crate::wire::{Fields, is_one_of, trim};

/// An entity tag (RFC 9110, section 8.8.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityTag {
    weak: bool,
    /// With its quotes.
    opaque: Box<[u8]>,
}

impl EntityTag {
    /// A whole field value, or none if it is no entity tag: a tag without quotes is no validator.
    pub fn parse(value: &[u8]) -> Option<Self> {
        match Self::split(value)? {
            (tag, []) => Some(tag),
            _ => None,
        }
    }

    /// The tag that a text begins with, and what follows it.
    fn split(text: &[u8]) -> Option<(Self, &[u8])> {
        let (weak, rest) = text.strip_prefix(b"W/").map_or((false, text), |rest| (true, rest));
        let inner = rest.strip_prefix(b"\"")?;
        let length = inner.iter().position(|byte| *byte == b'"')?;
        let is_etagc = |byte: &u8| *byte == 0x21 || *byte >= 0x23 && *byte != 0x7f;
        inner[..length].iter().all(is_etagc).then(|| {
            let (opaque, rest) = rest.split_at(length + 2);
            (Self { weak, opaque: opaque.into() }, rest)
        })
    }

    /// Whether it says that the bytes are the same, and not only what they mean.
    pub fn is_strong(&self) -> bool {
        !self.weak
    }

    /// Strong comparison: the bytes are the same.
    pub fn is_same(&self, other: &Self) -> bool {
        !self.weak && self == other
    }

    /// Weak comparison: the meaning is the same.
    pub fn is_equivalent(&self, other: &Self) -> bool {
        self.opaque == other.opaque
    }

    /// As it stands in a field.
    pub fn to_bytes(&self) -> Vec<u8> {
        [if self.weak { b"W/".as_slice() } else { b"" }, &self.opaque].concat()
    }
}

/// What a list of entity tags holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tags {
    /// `*`: any representation there is.
    Any,
    /// These.
    These(Vec<EntityTag>),
}

impl Tags {
    /// The fields of a list; none that match, if any of it is no entity tag. Backslashes mean nothing in a tag, so
    /// that lists of quoted strings are no model.
    pub fn parse<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let mut tags = None;
        for line in lines {
            let tags: &mut Vec<_> = tags.get_or_insert_default();
            let mut rest = trim(line);
            if rest == b"*" {
                return Some(Self::Any);
            }
            while let [first, after @ ..] = rest {
                if matches!(first, b',' | b' ' | b'\t') {
                    rest = after;
                    continue;
                }
                let Some((tag, after)) = EntityTag::split(rest) else { return Some(Self::These(Vec::new())) };
                if !matches!(after, [] | [b',' | b' ' | b'\t', ..]) {
                    return Some(Self::These(Vec::new()));
                }
                tags.push(tag);
                rest = after;
            }
        }
        tags.map(Self::These)
    }
}

/// What identifies the state of a stored representation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validators {
    /// Its entity tag.
    pub etag: Option<EntityTag>,
    /// When it was last modified, and as the origin has written it: some compare letters.
    pub last_modified: Option<(Time, Box<[u8]>)>,
    /// When the origin made the response; when it came, where that is not told, or a clock that is ahead says something later.
    pub date: Time,
}

impl Validators {
    /// Those of a response that came at `received`. Of several fields of one name, none is believed.
    pub fn of(lines: &Lines<'_>, received: Time) -> Self {
        let only = |name| {
            let mut values = values(lines, name);
            values.next().filter(|_| values.next().is_none())
        };
        Self {
            etag: only("etag").and_then(EntityTag::parse),
            last_modified: only("last-modified")
                .and_then(|value| Time::parse(value, received).map(|time| (time, value.into()))),
            date: values(lines, "date")
                .next()
                .and_then(|value| Time::parse(value, received))
                .map_or(received, |date| date.min(received)),
        }
    }

    /// Whether there is one.
    pub fn any(&self) -> bool {
        self.etag.is_some() || self.last_modified.is_some()
    }

    /// The entity tag, if parts of the bodies of two responses that have it are parts of one (RFC 9111, section 3.4).
    /// Dates are not enough: a second is long for who rewrites a file.
    pub fn strong(&self) -> Option<&EntityTag> {
        self.etag.as_ref().filter(|tag| tag.is_strong())
    }

    /// The fields that ask the origin whether this is still its state (RFC 9111, section 4.3.1); empty if nothing
    /// can be asked.
    pub fn conditions(&self) -> Fields {
        let mut fields = Fields::default();
        if let Some(tag) = &self.etag {
            fields.push(b"If-None-Match", &tag.to_bytes());
        }
        if let Some((_, text)) = &self.last_modified {
            fields.push(b"If-Modified-Since", text);
        }
        fields
    }

    /// Whether a 304 with `other` as validators confirms this state (RFC 9111, section 4.3.4), which had been asked
    /// about alone.
    pub fn confirmed_by(&self, other: &Self) -> bool {
        match (&other.etag, &self.etag) {
            (Some(theirs), Some(ours)) if theirs.is_strong() => theirs.is_same(ours),
            (Some(theirs), Some(ours)) => theirs.is_equivalent(ours),
            // A tag where there was none: the origin speaks of another state than the one that was asked about.
            (Some(_), None) => false,
            (None, _) => match (&other.last_modified, &self.last_modified) {
                (Some((theirs, _)), Some((ours, _))) => theirs == ours,
                (Some(_), None) => false,
                // Many origins leave all of it out, and there is only one that they can mean.
                (None, _) => true,
            },
        }
    }
}

/// The field that asks the origin which of several states is the one that a request selects (RFC 9111, section 4.3.1).
/// They have entity tags.
pub(super) fn which_of<'a>(states: impl Iterator<Item = &'a Validators>) -> Fields {
    let mut tags: Vec<_> = states.filter_map(|state| state.etag.as_ref().map(EntityTag::to_bytes)).collect();
    tags.dedup();
    let mut fields = Fields::default();
    fields.push(b"If-None-Match", &tags.join(b", ".as_slice()));
    fields
}

/// The place of the state that a 304 with the fields `lines` is about, where several were asked about. Without a tag it
/// could be about any.
pub fn confirmed<'a>(
    mut states: impl Iterator<Item = &'a Validators>,
    lines: &Lines<'_>,
    received: Time,
) -> Option<usize> {
    let theirs = Validators::of(lines, received);
    states.position(|state| theirs.etag.is_some() && state.confirmed_by(&theirs))
}

/// The conditions of a client (RFC 9110, section 13.1), without If-Range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// If-None-Match.
    pub none_match: Option<Tags>,
    /// If-Modified-Since, where it is a date.
    pub modified_since: Option<Time>,
    /// Whether there is an If-Match or If-Unmodified-Since: those are for the origin alone (RFC 9111, section 4.3.2).
    pub for_origin: bool,
}

impl Conditions {
    /// Those of a request.
    pub fn of(lines: &Lines<'_>, now: Time) -> Self {
        let mut since = values(lines, "if-modified-since");
        let first = since.next().filter(|_| since.next().is_none());
        Self {
            none_match: Tags::parse(values(lines, "if-none-match")),
            modified_since: first.and_then(|value| Time::parse(value, now)),
            for_origin: lines.iter().any(|line| is_one_of(line.0, &["if-match", "if-unmodified-since"])),
        }
    }

    /// Whether the client has this state already, so that it is answered 304. If-None-Match goes before
    /// If-Modified-Since (RFC 9110, section 13.2.2). Without Last-Modified, the date of the response stands in for it
    /// (RFC 9111, section 4.3.2).
    pub fn has(&self, state: &Validators) -> bool {
        if let Some(tags) = &self.none_match {
            return match tags {
                Tags::Any => true,
                Tags::These(tags) => {
                    state.etag.as_ref().is_some_and(|ours| tags.iter().any(|tag| tag.is_equivalent(ours)))
                }
            };
        }
        let modified = state.last_modified.as_ref().map_or(state.date, |(time, _)| *time);
        self.modified_since.is_some_and(|since| modified.as_secs() <= since.as_secs())
    }
}

/// What a 304 or an update never changes, because the stored body depends on it (RFC 9111, section 3.2).
const OF_THE_BODY: [&str; 3] = ["content-length", "content-encoding", "content-range"];

/// The stored fields, each replaced by those of its name in a newer response (RFC 9111, section 3.2). `newer` has only
/// what may be stored.
pub fn freshened(stored: &Fields, newer: &Lines<'_>) -> Fields {
    let news: Vec<_> = newer.iter().filter(|line| !is_one_of(line.0, &OF_THE_BODY)).collect();
    let is_old = |name: &[u8]| news.iter().any(|line| line.0.eq_ignore_ascii_case(name));
    let mut fields: Fields = stored.iter().filter(|(name, _)| !is_old(name)).collect();
    for (name, value) in &news {
        fields.push(name, value);
    }
    fields
}

/// Whether a field goes into a 304 (RFC 9110, section 15.4.5): all but those that describe the body that is not sent.
pub fn is_in_not_modified(name: &[u8]) -> bool {
    const OF_CONTENT: [&str; 5] =
        ["content-length", "content-encoding", "content-range", "content-type", "content-language"];
    !is_one_of(name, &OF_CONTENT)
}
