//! What stands on a listener of plain HTTP beside one of TLS: redirects to https, and the files by which an authority of
//! certificates sees that the name is ours (RFC 8555, section 8.3).

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;

use super::pages::{Asked, Exhibit, Showing, Shown, nothing_there};
use crate::access::without_port;
use crate::error::{Code, Error, Result};

/// Where authorities look.
pub const CHALLENGES: &str = "/.well-known/acme-challenge/";

/// Longer than any token, which has 22 to 86 characters with the authorities in use; arbitrary.
const TOKEN: usize = 128;
/// A file has the token, a dot, and a digest of 43 characters (RFC 8555, section 8.1).
const FILE: u64 = 1024;
const HTTPS: u16 = 443;

/// Sends clients to the same URL by https.
#[derive(Debug)]
pub struct Redirect {
    port: u16,
}

impl Redirect {
    /// To TLS on `port`.
    pub fn new(port: u16) -> Self {
        Self { port }
    }

    fn location(&self, asked: Asked<'_>) -> Result<String> {
        let host = without_port(asked.authority);
        if host.is_empty() {
            return Err(Code::BadHost.error("a request without a host cannot be sent to https"));
        }
        // `OPTIONS *` asks about the server as a whole.
        let target = if asked.target.starts_with('/') { asked.target } else { "/" };
        Ok(match self.port {
            HTTPS => format!("https://{host}{target}"),
            port => format!("https://{host}:{port}{target}"),
        })
    }
}

impl Exhibit for Redirect {
    fn show<'a>(&'a self, asked: Asked<'a>) -> Showing<'a> {
        Box::pin(async move {
            let location = self.location(asked)?;
            // 301 is what the oldest clients know, and 308 keeps method and body (RFC 9110, sections 15.4.2 and 15.4.9).
            let status = if asked.is_read() { 301 } else { 308 };
            let shown = Shown::text(status, "this is at https\n".to_owned());
            Ok(Shown { field: Some(("Location", location)), ..shown })
        })
    }

    fn takes_bodies(&self) -> bool {
        true
    }
}

/// The answers to challenges of the kind http-01, which an ACME client writes below a directory.
#[derive(Debug)]
pub struct Challenges {
    directory: PathBuf,
}

impl Challenges {
    /// The answers below `root`, as a web server would have it.
    pub fn new(root: &Path) -> Self {
        Self { directory: root.join(CHALLENGES.trim_matches('/')) }
    }
}

impl Exhibit for Challenges {
    fn show<'a>(&'a self, asked: Asked<'a>) -> Showing<'a> {
        Box::pin(async move {
            if !asked.is_read() {
                return Ok(Shown::unread());
            }
            let token = asked.path().strip_prefix(CHALLENGES).filter(|token| is_token(token));
            let path = self.directory.join(token.ok_or_else(nothing_there)?);
            // A file system may hang.
            let text = spawn_blocking(move || read(&path)).await;
            Ok(Shown::text(200, text.unwrap_or_else(|_| Err(nothing_there()))?))
        })
    }
}

/// Whether it is base64url, which leaves no way out of the directory.
fn is_token(name: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=TOKEN).contains(&name.len()) && name.bytes().all(is_known)
}

fn read(path: &Path) -> Result<String> {
    let missing = |_| nothing_there();
    // To open a pipe would wait for its other end.
    if !fs::metadata(path).map_err(missing)?.is_file() {
        return Err(nothing_there());
    }
    let failed = |error: std::io::Error| -> Error {
        Code::FileFailed.error(format!("{} cannot be read: {error}", path.display()))
    };
    let mut text = String::new();
    File::open(path).map_err(failed)?.take(FILE).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked<'a>(method: &'a str, authority: &'a str, target: &'a str) -> Asked<'a> {
        Asked { method, target, authority, accept: b"" }
    }

    #[test]
    fn the_location_has_the_host_that_was_asked_for_and_the_port_of_tls() {
        for (port, authority, target, location) in [
            (443, "a.example", "/b?c", "https://a.example/b?c"),
            (443, "a.example:80", "/", "https://a.example/"),
            (8443, "a.example:8080", "/", "https://a.example:8443/"),
            (443, "[::1]:80", "/", "https://[::1]/"),
            (8443, "[::1]", "/", "https://[::1]:8443/"),
            (443, "a.example", "*", "https://a.example/"),
            (443, "a.example", "//evil.example/", "https://a.example//evil.example/"),
        ] {
            let found = Redirect::new(port).location(asked("GET", authority, target));
            assert_eq!(found.unwrap(), location);
        }
        let error = Redirect::new(443).location(asked("GET", "", "/")).unwrap_err();
        assert_eq!(error.code(), Code::BadHost);
    }

    #[test]
    fn only_base64url_is_a_token() {
        for token in ["a", "Az09-_", &"a".repeat(TOKEN)] {
            assert!(is_token(token), "{token}");
        }
        for name in
            ["", ".", "..", "../a", "a/b", "a.txt", "%2e%2e", "a\0", "a b", "\u{e9}", &"a".repeat(TOKEN + 1)]
        {
            assert!(!is_token(name), "{name}");
        }
    }
}
