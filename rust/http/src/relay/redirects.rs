//! Maps URLs of an origin in the fields of its responses to the paths that clients know.

use std::borrow::Cow;
use std::fmt;

use crate::wire::Names;

const LOCATIONS: Names = Names::new(&["location", "content-location"]);
const REFRESH: Names = Names::new(&["refresh"]);

/// Whether requests are relayed to an origin, given as `scheme://authority` in lower case and without the scheme's default
/// port.
type IsOwn = dyn Fn(&str) -> bool + Send + Sync;

/// The map from an origin's own scheme, host and port to the paths of clients.
///
/// An origin that is asked by its own Host builds URLs from it, which no client may reach. Such a URL becomes a path (RFC
/// 9110, section 10.2.2, allows that), so that a stored response names no client's host. Other URLs stay unchanged.
pub struct Redirects {
    is_own: Box<IsOwn>,
    from: String,
    to: String,
}

impl Redirects {
    /// Clients know the origin's paths below `from` as paths below `to`; both end in a slash.
    pub fn new(
        is_own: impl Fn(&str) -> bool + Send + Sync + 'static,
        from: impl Into<String>,
        to: impl Into<String>,
    ) -> Self {
        Self { is_own: Box::new(is_own), from: from.into(), to: to.into() }
    }

    /// The value of a field as the client gets it: it changes Location, Content-Location and Refresh, if they name
    /// the origin.
    pub fn field<'a>(&self, name: &[u8], value: &'a [u8]) -> Cow<'a, [u8]> {
        let mapped = if LOCATIONS.has(name) {
            self.map(value)
        } else if REFRESH.has(name) {
            let start = memchr::memmem::find(&value.to_ascii_lowercase(), b"url=").map(|found| found + 4);
            start.and_then(|start| Some([&value[..start], &self.map(&value[start..])?].concat()))
        } else {
            None
        };
        mapped.map_or(Cow::Borrowed(value), Cow::Owned)
    }

    /// The path for a URL of the origin; `None` if the URL is of another origin, or outside the paths that clients
    /// can reach.
    fn map(&self, url: &[u8]) -> Option<Vec<u8>> {
        let url = std::str::from_utf8(url).ok()?;
        let (scheme, rest) = url.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let own_port = match scheme.as_str() {
            "http" => ":80",
            "https" => ":443",
            _ => return None,
        };
        let authority = authority.to_ascii_lowercase();
        let host = authority.strip_suffix(own_port).unwrap_or(&authority);
        if !(self.is_own)(&format!("{scheme}://{host}")) {
            return None;
        }
        let path = if rest.starts_with('/') { Cow::Borrowed(rest) } else { Cow::Owned(format!("/{rest}")) };
        let path = [self.to.as_str(), path.strip_prefix(self.from.as_str())?].concat();
        // A path that begins with two slashes would name another host.
        (!path.starts_with("//") && !path.starts_with("/\\")).then(|| path.into_bytes())
    }
}

/// `fields` as the client gets them.
pub fn redirected<'a>(
    redirects: Option<&Redirects>,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> impl Iterator<Item = (&'a [u8], Cow<'a, [u8]>)> {
    fields.map(move |(name, value)| {
        (name, redirects.map_or(Cow::Borrowed(value), |redirects| redirects.field(name, value)))
    })
}

impl fmt::Debug for Redirects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redirects").field("from", &self.from).field("to", &self.to).finish_non_exhaustive()
    }
}
