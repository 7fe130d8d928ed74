//! The primary key of a response: scheme, authority, path and query (RFC 9111, section 2; RFC 9110, section 4.2.3).
//!
//! What is left out of the key is not sent to the origin either, where the answer may be stored: an origin that repeats
//! its query in what it answers would otherwise let one client choose what others get.

use std::borrow::Cow;
use std::fmt;

/// Names of query parameters, compared as they are written; one that ends in `*` stands for all that begin so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(Vec<String>);

impl Names {
    /// These names.
    pub fn new(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }

    /// Whether a parameter is one of them.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == pattern,
        })
    }
}

/// What of a query is in the key, and is sent to the origin for what may be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// These parameters alone; all of them where there is no such list.
    pub kept: Option<Names>,
    /// All but these: what tells who asks and not what for.
    pub dropped: Names,
    /// Whether parameters are sorted by name. Those of one name stay in their order.
    pub sorted: bool,
}

impl Query {
    /// `path` with what is left of its query, which is what the key has and what the origin is asked for. Nothing is
    /// copied if all of it is left.
    pub fn target<'a>(&self, path: &'a str) -> Cow<'a, str> {
        let (bare, query) = path.split_once('?').map_or((path, None), |(bare, query)| (bare, Some(query)));
        let is_left = |parameter: &&str| {
            let name = name(parameter);
            self.kept.as_ref().is_none_or(|kept| kept.has(name)) && !self.dropped.has(name)
        };
        let is_whole = query.is_none_or(|query| !self.sorted && query.split('&').all(|each| is_left(&each)));
        if is_whole && path.starts_with('/') {
            return Cow::Borrowed(path);
        }
        let mut target = String::with_capacity(1 + path.len());
        if !path.starts_with('/') {
            target.push('/');
        }
        target.push_str(bare);
        let mut parameters: Vec<_> =
            query.into_iter().flat_map(|query| query.split('&')).filter(is_left).collect();
        if self.sorted {
            parameters.retain(|parameter| !parameter.is_empty());
            parameters.sort_by_key(|parameter| name(parameter));
        }
        for (place, parameter) in parameters.iter().enumerate() {
            target.push(if place == 0 { '?' } else { '&' });
            target.push_str(parameter);
        }
        Cow::Owned(target)
    }
}

fn name(parameter: &str) -> &str {
    parameter.split('=').next().unwrap_or_default()
}

/// What a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Host and port.
    pub authority: &'a str,
    /// Path and query.
    pub path: &'a str,
}

/// A primary key. It is a URL, so that purging by prefix needs no other index.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Box<str>);

impl Key {
    /// The key of a target. The scheme's own port is left out of it, and the case of the host.
    pub fn new(target: Target<'_>, query: &Query) -> Self {
        let path = query.target(target.path);
        Self::exact(Target { path: &path, ..target })
    }

    /// The key whose URL this is, as [`Key::as_str`] gives it.
    pub fn of_url(url: &str) -> Self {
        Self(url.into())
    }

    /// The key of a target whose query stands for itself.
    pub fn exact(target: Target<'_>) -> Self {
        let mut key = String::with_capacity(
            target.scheme.len() + SEPARATOR.len() + target.authority.len() + 1 + target.path.len(),
        );
        push_origin(target.scheme, target.authority, &mut key);
        if !target.path.starts_with('/') {
            key.push('/');
        }
        key.push_str(target.path);
        Self(key.into())
    }

    /// As a URL, whose query may be shorter than that which was asked for.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const SEPARATOR: &str = "://";

/// Scheme and authority in the form in which two that mean the same are the same (RFC 9110, section 4.2.3).
pub(super) fn origin(scheme: &str, authority: &str) -> String {
    let mut origin = String::new();
    push_origin(scheme, authority, &mut origin);
    origin
}

fn push_origin(scheme: &str, authority: &str, key: &mut String) {
    key.push_str(scheme);
    key.make_ascii_lowercase();
    let default = match key.as_str() {
        "http" => ":80",
        "https" => ":443",
        _ => ":",
    };
    key.push_str(SEPARATOR);
    let start = key.len();
    let authority =
        authority.strip_suffix(default).or_else(|| authority.strip_suffix(':')).unwrap_or(authority);
    key.push_str(authority);
    key[start..].make_ascii_lowercase();
}
