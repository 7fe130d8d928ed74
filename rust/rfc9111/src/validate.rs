//! Validators, and the conditions that clients and this cache make with them (RFC 9110, sections 8.8 and 13;
//! RFC 9111, section 4.3).

use super::time::Time;
use penstock_http::wire::list::{Lines, values};
use penstock_http::wire::{EntityTag, Fields, Tags, is_one_of};

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
                .and_then(|value| Time::parse(value).map(|time| (time, value.into()))),
            date: values(lines, "date")
                .next()
                .and_then(Time::parse)
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
    pub fn of(lines: &Lines<'_>) -> Self {
        let mut since = values(lines, "if-modified-since");
        let first = since.next().filter(|_| since.next().is_none());
        Self {
            none_match: Tags::parse(values(lines, "if-none-match")),
            modified_since: first.and_then(Time::parse),
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

/// If-Range (RFC 9110, section 13.1.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfRange {
    /// An entity tag.
    Tag(EntityTag),
    /// A date.
    Date(Time),
    /// Neither: it is never met.
    Malformed,
}

impl IfRange {
    /// A field value.
    pub fn parse(value: &[u8]) -> Self {
        EntityTag::parse(value)
            .map(Self::Tag)
            .or_else(|| Time::parse(value).map(Self::Date))
            .unwrap_or(Self::Malformed)
    }

    /// Whether the client's bytes are of this state, so that a part of it helps.
    pub fn is_met(&self, state: &Validators) -> bool {
        match self {
            Self::Tag(tag) => state.etag.as_ref().is_some_and(|ours| tag.is_same(ours)),
            // A date is strong if the origin's clock had moved on since (RFC 9110, section 8.8.2.2).
            Self::Date(date) => state.last_modified.as_ref().is_some_and(|(modified, _)| {
                modified.as_secs() == date.as_secs() && state.date.as_secs() > modified.as_secs()
            }),
            Self::Malformed => false,
        }
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
