//! What a purge means: which stored responses, and which of those that are still being fetched.

use super::object::Object;
use crate::cache::{Key, Query, Target};
use crate::error::{Code, Result};

/// Which stored responses are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purge<'a> {
    /// All that a request for this URL of the origin could be answered with.
    Url(&'a str),
    /// Those whose URLs begin so. What is no more than scheme and authority means all of that origin.
    Prefix(&'a str),
    /// Those that have this tag.
    Tag(&'a str),
    /// All.
    All,
}

/// The same, as keys are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meant {
    /// Under these keys.
    Keys(Vec<Key>),
    /// Under keys that begin so.
    Prefix(Box<str>),
    /// With this tag.
    Tag(Box<str>),
    /// Everywhere.
    All,
}

impl Meant {
    /// Whether all that is under a key is meant, whatever it is.
    pub(super) fn has_key(&self, key: &Key) -> bool {
        match self {
            Self::Keys(keys) => keys.contains(key),
            Self::Prefix(prefix) => key.as_str().starts_with(&**prefix),
            Self::Tag(_) => false,
            Self::All => true,
        }
    }

    /// Whether `object` is meant, which is under `key`.
    pub(super) fn has(&self, key: &Key, object: &Object) -> bool {
        match self {
            Self::Tag(tag) => object.tags().any(|other| other == tag.as_bytes()),
            other => other.has_key(key),
        }
    }
}

impl Purge<'_> {
    /// `queries` are the ways in which routes make keys of URLs.
    ///
    /// # Errors
    /// `BAD_REQUEST`: it is no absolute http or https URL, or an empty tag.
    pub(super) fn meant(self, queries: &[Query]) -> Result<Meant> {
        Ok(match self {
            Self::Url(url) => {
                let target = parse(url)?;
                let mut keys = vec![Key::exact(target)];
                for key in queries.iter().map(|query| Key::new(target, query)) {
                    if !keys.contains(&key) {
                        keys.push(key);
                    }
                }
                Meant::Keys(keys)
            }
            Self::Prefix(prefix) => Meant::Prefix(normalised(prefix)?),
            Self::Tag("") => return Err(Code::BadRequest.error("the tag is empty")),
            Self::Tag(tag) => Meant::Tag(tag.into()),
            Self::All => Meant::All,
        })
    }
}

/// The beginning of keys that `prefix` stands for.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Names;

    fn meant(purge: Purge<'_>, queries: &[Query]) -> Vec<String> {
        match purge.meant(queries).unwrap() {
            Meant::Keys(keys) => keys.iter().map(|key| key.as_str().to_owned()).collect(),
            Meant::Prefix(prefix) => vec![prefix.into()],
            Meant::Tag(tag) => vec![tag.into()],
            Meant::All => Vec::new(),
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
