//! The primary key of a response: scheme, authority, path and query (RFC 9111, section 2; RFC 9110, section 4.2.3).
//!
//! Parameters that are not in the key are not sent to the origin either, if the answer may be stored: an origin that
//! repeats its query in its answers would otherwise let one client choose what others get.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::LazyLock;

/// Names of query parameters, compared byte by byte. A name that ends in `*` stands for all names with this
/// beginning.
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

/// The parameters of a query that are in the key, and are sent to the origin if the answer may be
/// stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Only these parameters; all if there is no list.
    pub keep_parameters: Option<Names>,
    /// All but these: parameters about the client and not about the resource.
    pub drop_parameters: Names,
    /// Whether parameters are sorted by name. Parameters with the same name stay in their order.
    pub sort_parameters: bool,
}

impl Query {
    /// `path` with the remaining query, for the key and for the request to the origin. Nothing is copied if the
    /// query does not change.
    pub fn target<'a>(&self, path: &'a str) -> Cow<'a, str> {
        let (bare, query) = path.split_once('?').map_or((path, None), |(bare, query)| (bare, Some(query)));
        let is_left = |parameter: &&str| {
            let name = name(parameter);
            self.keep_parameters.as_ref().is_none_or(|kept| kept.has(name)) && !self.drop_parameters.has(name)
        };
        let is_whole =
            query.is_none_or(|query| !self.sort_parameters && query.split('&').all(|each| is_left(&each)));
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
        if self.sort_parameters {
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

/// The target of a request.
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
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    url: Box<str>,
    /// Of the URL: a hit needs it twice, for the shard and for its map, and each time would take 250 instructions.
    hash: u64,
}

/// Its keys are random, so a client cannot find URLs, or values of fields, with equal hashes.
pub(super) static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Key {
    /// The key of a target. The default port of the scheme is dropped, and the host is in lower
    /// case.
    pub fn new(target: Target<'_>, query: &Query) -> Self {
        let path = query.target(target.path);
        Self::exact(Target { path: &path, ..target })
    }

    /// The key with this URL, as [`Key::as_str`] gives it.
    pub fn of_url(url: &str) -> Self {
        Self { hash: HASHER.hash_one(url), url: url.into() }
    }

    /// The key of a target with its whole query.
    pub fn exact(target: Target<'_>) -> Self {
        let Target { scheme, authority, path } = target;
        let slash = if path.starts_with('/') { "" } else { "/" };
        // Not a byte more than most keys have: a box of fewer is allocated once more.
        let length = scheme.len() + SEPARATOR.len() + authority.len() + slash.len() + path.len();
        let mut key = String::with_capacity(length);
        push_origin(scheme, authority, &mut key);
        key.push_str(slash);
        key.push_str(path);
        Self { hash: HASHER.hash_one(key.as_str()), url: key.into() }
    }

    /// The URL. Its query may be shorter than that of the request.
    pub fn as_str(&self) -> &str {
        &self.url
    }

    /// Its hash, in this process.
    pub fn known_hash(&self) -> u64 {
        self.hash
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

const SEPARATOR: &str = "://";

/// Normalises scheme and authority (RFC 9110, section 4.2.3).
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
