//! Purges: which stored responses match, and which that were requested before and come after.

use std::collections::{HashMap, VecDeque};

use super::object::Object;
use crate::cache::{Key, Query, Target, Time};
use crate::error::{Code, Result};
use crate::sync::Arc;

/// The stored responses to purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purge<'a> {
    /// All variants of a URL of the origin.
    Url(&'a str),
    /// All URLs with this prefix. Scheme and authority alone mean the whole origin.
    Prefix(&'a str),
    /// All responses with this tag.
    Tag(&'a str),
    /// All responses.
    All,
}

/// A [`Purge`] in terms of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PurgePattern {
    /// These keys.
    Keys(Vec<Key>),
    /// Keys with this prefix.
    Prefix(Box<str>),
    /// Responses with this tag.
    Tag(Box<str>),
    /// All responses.
    All,
}

impl PurgePattern {
    /// Whether all responses of a key match.
    pub(super) fn has_key(&self, key: &Key) -> bool {
        match self {
            Self::Keys(keys) => keys.contains(key),
            Self::Prefix(prefix) => key.as_str().starts_with(&**prefix),
            Self::Tag(_) => false,
            Self::All => true,
        }
    }

    /// Whether `object` under `key` matches.
    pub(super) fn has(&self, key: &Key, object: &Object) -> bool {
        match self {
            Self::Tag(tag) => object.tags().any(|other| other == tag.as_bytes()),
            other => other.has_key(key),
        }
    }
}

impl Purge<'_> {
    /// The pattern. `queries` are the ways in which routes make keys of URLs.
    ///
    /// # Errors
    /// `BAD_REQUEST`: it is not an absolute http or https URL, or the tag is empty.
    pub(super) fn meant(self, queries: &[Query]) -> Result<PurgePattern> {
        Ok(match self {
            Self::Url(url) => {
                let target = parse(url)?;
                let mut keys = vec![Key::exact(target)];
                for key in queries.iter().map(|query| Key::new(target, query)) {
                    if !keys.contains(&key) {
                        keys.push(key);
                    }
                }
                PurgePattern::Keys(keys)
            }
            Self::Prefix(prefix) => PurgePattern::Prefix(normalised(prefix)?),
            Self::Tag("") => return Err(Code::BadRequest.error("the tag is empty")),
            Self::Tag(tag) => PurgePattern::Tag(tag.into()),
            Self::All => PurgePattern::All,
        })
    }
}

/// The prefix of keys that `prefix` stands for.
///
/// # Errors
/// `BAD_REQUEST`: it does not begin with scheme and authority.
pub(super) fn normalised(prefix: &str) -> Result<Box<str>> {
    Ok(Key::exact(parse(prefix)?).as_str().into())
}

fn parse(url: &str) -> Result<Target<'_>> {
    let refused = || Code::BadRequest.error(format!("{url:?} is no absolute http or https URL"));
    let (scheme, rest) = url.split_once("://").ok_or_else(refused)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(refused());
    }
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if authority.is_empty() || authority.contains('@') {
        return Err(refused());
    }
    Ok(Target { scheme, authority, path })
}

/// The limit of keys that the log of a shard remembers. Above it the log counts as a purge of everything, which costs a
/// fetch each and nothing more. Arbitrary.
const MAX_KEYS_OF_SHARD: usize = 64;
/// The limit of prefixes and tags. Each is compared with every response that is stored. Arbitrary.
const MAX_PATTERNS: usize = 64;

/// When a request was sent to the origin. A purge has a number, because a clock can be set back and a number cannot.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestEpoch {
    pub(super) requested: Time,
    /// The number of the last purge before it.
    pub(super) purge: u64,
    /// The purge of its key that its own response has caused.
    pub(super) own_purge: Option<u64>,
}

/// The log of purges of one shard: a response that was requested before a purge is not stored after it.
#[derive(Debug, Default)]
pub(super) struct PurgeLog {
    /// Hashes of keys, each with the number of its last purge. Two keys with one hash count as one.
    keys: HashMap<u64, u64>,
    /// Prefixes and tags, each with the number of its purge, the oldest first.
    patterns: VecDeque<(Arc<PurgePattern>, u64)>,
    /// The last purge of everything, or of what has been forgotten.
    all: u64,
    /// The last purge.
    last: u64,
}

impl PurgeLog {
    /// Adds the purge of a key.
    pub(super) fn add_key(&mut self, key: &Key, number: u64) {
        let hash = key.known_hash();
        if self.keys.len() >= MAX_KEYS_OF_SHARD && !self.keys.contains_key(&hash) {
            // None of them is later.
            self.all = self.last;
            self.keys.clear();
        }
        self.keys.insert(hash, number);
        self.last = self.last.max(number);
    }

    /// Adds the purge of a pattern.
    pub(super) fn add(&mut self, meant: &Arc<PurgePattern>, number: u64) {
        self.last = self.last.max(number);
        if **meant == PurgePattern::All {
            self.all = self.all.max(number);
            return;
        }
        self.patterns.retain(|(other, _)| other != meant);
        self.patterns.push_back((Arc::clone(meant), number));
        if self.patterns.len() > MAX_PATTERNS {
            if let Some((_, forgotten)) = self.patterns.pop_front() {
                self.all = self.all.max(forgotten);
            }
        }
    }

    /// Whether `object` was purged since it was requested.
    pub(super) fn has(&self, key: &Key, object: &Object, since: RequestEpoch) -> bool {
        let RequestEpoch { purge: last, own_purge, .. } = since;
        if self.last <= last || cfg!(all(test, planted_bug = "purge-misses-fill")) {
            return false;
        }
        self.all > last
            || self
                .keys
                .get(&key.known_hash())
                .is_some_and(|number| *number > last && Some(*number) != own_purge)
            || self.patterns.iter().any(|(meant, number)| *number > last && meant.has(key, object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Names;

    fn meant(purge: Purge<'_>, queries: &[Query]) -> Vec<String> {
        match purge.meant(queries).unwrap() {
            PurgePattern::Keys(keys) => keys.iter().map(|key| key.as_str().to_owned()).collect(),
            PurgePattern::Prefix(prefix) => vec![prefix.into()],
            PurgePattern::Tag(tag) => vec![tag.into()],
            PurgePattern::All => Vec::new(),
        }
    }

    #[test]
    fn a_url_stands_for_the_keys_that_routes_make_of_it() {
        let dropping =
            Query { keep_parameters: None, drop_parameters: Names::new(["CMCD"]), sort_parameters: false };
        let sorting = Query { sort_parameters: true, ..dropping.clone() };
        assert_eq!(
            meant(Purge::Url("HTTP://Origin:80/a?b=1&a=2&CMCD=x#top"), &[dropping.clone(), sorting]),
            ["http://origin/a?b=1&a=2&CMCD=x", "http://origin/a?b=1&a=2", "http://origin/a?a=2&b=1"]
        );
        assert_eq!(meant(Purge::Url("https://o:443"), &[dropping]), ["https://o/"]);
    }

    #[test]
    fn a_prefix_holds_a_whole_authority() {
        for (prefix, begins) in [
            ("http://o", "http://o/"),
            ("http://O:80/li", "http://o/li"),
            ("http://o:8080/a?", "http://o:8080/a?"),
        ] {
            assert_eq!(meant(Purge::Prefix(prefix), &[]), [begins]);
        }
    }

    #[test]
    fn what_is_no_url_and_no_tag_is_refused() {
        for purge in [
            Purge::Url("/a"),
            Purge::Url("ftp://o/a"),
            Purge::Url("http:///a"),
            Purge::Url("http://user@o/a"),
            Purge::Prefix(""),
            Purge::Tag(""),
        ] {
            assert_eq!(purge.meant(&[]).unwrap_err().code(), Code::BadRequest, "{purge:?}");
        }
    }
}
