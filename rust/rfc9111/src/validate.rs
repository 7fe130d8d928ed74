//! Validators, and the conditions that clients and this cache make with them (RFC 9110, sections 8.8 and 13;
//! RFC 9111, section 4.3).

use super::time::Time;
use penstock_http::wire::list::{Lines, values};
use penstock_http::wire::{EntityTag, Fields, Tags, is_one_of};

/// The validators of a stored representation: they identify its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validators {
    /// Its entity tag.
    pub etag: Option<EntityTag>,
    /// Last-Modified, parsed and as the origin has written it, because some origins compare the
    /// text.
    pub last_modified: Option<(Time, Box<[u8]>)>,
    /// Date; the time of arrival if there is no Date, or Date is later than that.
    pub date: Time,
}

impl Validators {
    /// The validators of a response that came at `received`. If a field occurs more than once it is
    /// ignored.
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

    /// Whether there is a validator.
    pub fn any(&self) -> bool {
        self.etag.is_some() || self.last_modified.is_some()
    }

    /// The entity tag, if it is strong, so that parts of two responses with it can be combined (RFC 9111, section
    /// 3.4). Dates are not enough: a file can change twice in a second.
    pub fn strong(&self) -> Option<&EntityTag> {
        self.etag.as_ref().filter(|tag| tag.is_strong())
    }

    /// The conditional fields that ask the origin whether this state is current (RFC 9111, section 4.3.1); empty
    /// if there is no validator.
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

    /// Whether a 304 with the validators `other` confirms this state (RFC 9111, section 4.3.4), if the request
    /// named only this state.
    pub fn confirmed_by(&self, other: &Self) -> bool {
        match (&other.etag, &self.etag) {
            (Some(theirs), Some(ours)) if theirs.is_strong() => theirs.is_same(ours),
            (Some(theirs), Some(ours)) => theirs.is_equivalent(ours),
            // A tag although the stored response has none: the 304 is about another state.
            (Some(_), None) => false,
            (None, _) => match (&other.last_modified, &self.last_modified) {
                (Some((theirs, _)), Some((ours, _))) => theirs == ours,
                (Some(_), None) => false,
                // Many origins send no validator in a 304; it can only be about the one state.
                (None, _) => true,
            },
        }
    }
}

/// The field that asks the origin which of several states a request selects (RFC 9111, section 4.3.1). All have entity
/// tags.
pub(super) fn which_of<'a>(states: impl Iterator<Item = &'a Validators>) -> Fields {
    let mut tags: Vec<_> = states.filter_map(|state| state.etag.as_ref().map(EntityTag::to_bytes)).collect();
    tags.dedup();
    let mut fields = Fields::default();
    fields.push(b"If-None-Match", &tags.join(b", ".as_slice()));
    fields
}

/// The index of the state that a 304 with the fields `lines` confirms, if the request named several. Without a tag it
/// could be any of them.
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
    /// If-Modified-Since, if it is a date.
    pub modified_since: Option<Time>,
    /// Whether there is an If-Match or If-Unmodified-Since, which only the origin evaluates (RFC 9111, section
    /// 4.3.2).
    pub for_origin: bool,
}

impl Conditions {
    /// Reads the conditions of a request.
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
    /// If-Modified-Since (RFC 9110, section 13.2.2). Without Last-Modified, the Date of the response counts (RFC
    /// 9111, section 4.3.2).
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
    /// Neither: the condition is false.
    Malformed,
}

impl IfRange {
    /// Reads a field value.
    pub fn parse(value: &[u8]) -> Self {
        EntityTag::parse(value)
            .map(Self::Tag)
            .or_else(|| Time::parse(value).map(Self::Date))
            .unwrap_or(Self::Malformed)
    }

    /// Whether the client's bytes are of this state, so that it gets a part.
    pub fn is_met(&self, state: &Validators) -> bool {
        match self {
            Self::Tag(tag) => state.etag.as_ref().is_some_and(|ours| tag.is_same(ours)),
            // A date is strong if it is at least a second before Date (RFC 9110, section 8.8.2.2).
            Self::Date(date) => state.last_modified.as_ref().is_some_and(|(modified, _)| {
                modified.as_secs() == date.as_secs() && state.date.as_secs() > modified.as_secs()
            }),
            Self::Malformed => false,
        }
    }
}

/// Fields that a 304 or an update never changes, because the stored body depends on them (RFC 9111,
/// section 3.2).
const OF_THE_BODY: [&str; 3] = ["content-length", "content-encoding", "content-range"];

/// The stored fields, each replaced by the fields of its name in a newer response (RFC 9111, section 3.2). `newer` has
/// only fields that may be stored.
pub fn freshened(stored: &Fields, newer: &Lines<'_>) -> Fields {
    let news: Vec<_> = newer.iter().filter(|line| !is_one_of(line.0, &OF_THE_BODY)).collect();
    let is_old = |name: &[u8]| news.iter().any(|line| line.0.eq_ignore_ascii_case(name));
    let mut fields: Fields = stored.iter().filter(|(name, _)| !is_old(name)).collect();
    for (name, value) in &news {
        fields.push(name, value);
    }
    fields
}

/// Whether a field goes into a 304 (RFC 9110, section 15.4.5): all but the fields that describe the omitted body.
pub fn is_in_not_modified(name: &[u8]) -> bool {
    const OF_CONTENT: [&str; 5] =
        ["content-length", "content-encoding", "content-range", "content-type", "content-language"];
    !is_one_of(name, &OF_CONTENT)
}
