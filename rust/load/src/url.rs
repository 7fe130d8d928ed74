//! Where requests go, and what references in playlists lead to (RFC 3986, section 5).

use std::fmt;
use std::rc::Rc;

/// A place on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    /// It is asked over TLS.
    pub(crate) is_secured: bool,
    /// Host and port, as the field Host has them.
    pub(crate) authority: Rc<str>,
    /// Path and query, from the first slash on.
    pub(crate) path: String,
}

impl fmt::Display for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}{}", self.scheme(), self.authority, self.path)
    }
}

impl Url {
    fn scheme(&self) -> &'static str {
        if self.is_secured { "https" } else { "http" }
    }

    /// Reads an absolute URL. `None` if its scheme is neither http nor https.
    pub(crate) fn absolute(text: &str) -> Option<Self> {
        let (rest, is_secured) = match text.strip_prefix("https://") {
            Some(rest) => (rest, true),
            None => (text.strip_prefix("http://")?, false),
        };
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        if authority.is_empty() {
            return None;
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        let path = format!("{slash}{}", path.split('#').next().unwrap_or_default());
        Some(Self { is_secured, authority: authority.into(), path })
    }

    /// What `reference` means in the document at this place. `None` if its scheme is neither http nor https.
    pub(crate) fn join(&self, reference: &str) -> Option<Self> {
        let reference = reference.split('#').next().unwrap_or_default();
        if reference.contains("://") {
            return Self::absolute(reference);
        }
        if let Some(rest) = reference.strip_prefix("//") {
            return Self::absolute(&format!("{}://{rest}", self.scheme()));
        }
        let base = self.path.split('?').next().unwrap_or_default();
        let (path, query) =
            reference.split_once('?').map_or((reference, None), |(path, query)| (path, Some(query)));
        let whole = if path.starts_with('/') {
            path.to_owned()
        } else if path.is_empty() {
            base.to_owned()
        } else {
            format!("{}{path}", &base[..=base.rfind('/').unwrap_or_default()])
        };
        let mut path = without_dots(&whole);
        if let Some(query) = query {
            path.push('?');
            path.push_str(query);
        }
        Some(Self { is_secured: self.is_secured, authority: Rc::clone(&self.authority), path })
    }

    /// The host and the port. `None` if the port is no number.
    pub(crate) fn host_and_port(&self) -> Option<(&str, u16)> {
        let (host, port) = match self.authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
            _ => (&*self.authority, if self.is_secured { 443 } else { 80 }),
        };
        Some((host.trim_start_matches('[').trim_end_matches(']'), port))
    }
}

fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        match part {
            "." | ".." => {
                if part == ".." {
                    kept.pop();
                }
                if parts.peek().is_none() {
                    kept.push("");
                }
            }
            _ => kept.push(part),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(reference: &str) -> String {
        Url::absolute("http://a.test:81/b/c/d.m3u8?q=1").unwrap().join(reference).unwrap().to_string()
    }

    #[test]
    fn references_are_resolved_as_rfc_3986_has_it() {
        assert_eq!(joined("g"), "http://a.test:81/b/c/g");
        assert_eq!(joined("./g?y"), "http://a.test:81/b/c/g?y");
        assert_eq!(joined("/g#s"), "http://a.test:81/g");
        assert_eq!(joined("../g"), "http://a.test:81/b/g");
        assert_eq!(joined("../../../g/.."), "http://a.test:81/");
        assert_eq!(joined("?y"), "http://a.test:81/b/c/d.m3u8?y");
        assert_eq!(joined("//other/x"), "http://other/x");
        assert_eq!(joined("http://other"), "http://other/");
    }

    #[test]
    fn hosts_and_ports_are_told_apart() {
        let parts = |text: &str| {
            Url::absolute(text).unwrap().host_and_port().map(|(host, port)| (host.to_owned(), port))
        };
        assert_eq!(parts("http://a:81/x"), Some(("a".to_owned(), 81)));
        assert_eq!(parts("http://a"), Some(("a".to_owned(), 80)));
        assert_eq!(parts("http://[::1]:81/"), Some(("::1".to_owned(), 81)));
        assert_eq!(parts("http://[::1]/"), Some(("::1".to_owned(), 80)));
        assert_eq!(parts("http://a:x/"), None);
        assert_eq!(parts("https://a"), Some(("a".to_owned(), 443)));
        assert_eq!(Url::absolute("ftp://a/"), None);
        let joined = Url::absolute("https://a/b").unwrap().join("//c/d").unwrap();
        assert_eq!(joined.to_string(), "https://c/d");
    }
}
