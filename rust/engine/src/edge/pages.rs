//! Small answers of the engine's own: pages about it for its operator, redirects to https, and proofs for authorities of
//! certificates.
//!
//! A service of a site like any other, with the same rules and limits. An [`Exhibit`] writes the answers. They change
//! nothing.

use std::fmt;
use std::pin::Pin;

use super::location::{Location, Pattern};
use super::page_events::PageEvents;
use crate::access::{Entered, Limits};
use crate::error::{Code, Error, Result};
use crate::relay_spec::RouteLimits;
use crate::wire::Incoming;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The method.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Host and port; empty in HTTP/1.0 without both.
    pub authority: &'a str,
    /// The field of that name.
    pub accept: &'a [u8],
}

impl Asked<'_> {
    /// The path.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// Whether it is a request to read.
    pub fn is_read(&self) -> bool {
        matches!(self.method, "GET" | "HEAD")
    }
}

/// An answer.
#[derive(Debug)]
pub struct Shown {
    /// The status.
    pub status: u16,
    /// What the text is.
    pub content_type: &'static str,
    /// All of it.
    pub text: String,
    /// A field besides, such as `Location`.
    pub field: Option<(&'static str, String)>,
    /// Fields after the text.
    pub trailers: &'static [(&'static str, &'static str)],
    /// Events that go on in place of the text, for as long as the client reads them.
    pub events: Option<PageEvents>,
}

impl Shown {
    /// A text under `status`.
    pub fn text(status: u16, text: String) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            text,
            field: None,
            trailers: &[],
            events: None,
        }
    }

    /// The answer to another method than GET and HEAD.
    pub fn unread() -> Self {
        let field = Some(("Allow", "GET, HEAD".to_owned()));
        Self { field, ..Self::text(405, "this is read by GET or HEAD\n".to_owned()) }
    }
}

/// There is nothing at that path.
pub fn nothing_there() -> Error {
    Code::NoRoute.error("there is no such page")
}

/// What [`Exhibit::show`] returns.
pub type Showing<'a> = Pin<Box<dyn Future<Output = Result<Shown>> + Send + 'a>>;

/// What knows the answers.
pub trait Exhibit: Send + Sync {
    /// The answer to what is asked.
    ///
    /// # Errors
    /// `NO_ROUTE`, by [`nothing_there`].
    fn show<'a>(&'a self, asked: Asked<'a>) -> Showing<'a>;

    /// Whether what is at `path` takes so much memory that only a few may be sent at a time.
    fn is_large(&self, _path: &str) -> bool {
        false
    }

    /// Whether a request with a body is answered as well. The connection ends after it, because the body is not read.
    fn takes_bodies(&self) -> bool {
        false
    }
}

/// Its name alone: decision 063.
impl fmt::Debug for dyn Exhibit + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exhibit")
    }
}

/// The answers of an exhibit.
#[derive(Debug)]
pub struct Pages {
    pub(super) location: Location,
    pub(super) exhibit: Box<dyn Exhibit>,
    /// Whether they count as traffic.
    pub(super) is_traffic: bool,
}

impl Pages {
    /// Those of `exhibit` below `prefix`, which are called `name` in logs.
    pub fn new(name: &str, prefix: &str, exhibit: Box<dyn Exhibit>) -> Self {
        let requests = Limits { concurrency: None, rate: None, burst: 0.0 };
        Self::with(name, prefix, exhibit, requests, true)
    }

    /// Those about the engine itself; of large ones `concurrency` at a time, because each is in memory until it is sent.
    /// Requests for them do not count as traffic.
    pub fn of_status(exhibit: Box<dyn Exhibit>, concurrency: usize) -> Self {
        let requests = Limits { concurrency: Some(concurrency), rate: None, burst: 0.0 };
        Self::with("pages", "/", exhibit, requests, false)
    }

    fn with(name: &str, prefix: &str, exhibit: Box<dyn Exhibit>, requests: Limits, is_traffic: bool) -> Self {
        let pattern = Pattern { host: None, prefix: prefix.to_owned() };
        let limits = RouteLimits { requests, body: None };
        Self { location: Location::new(name.to_owned(), pattern, limits, None), exhibit, is_traffic }
    }

    /// Counts a request for a page that takes memory to be sent, until what it returns is dropped. A client that does
    /// not read them does not block the other pages.
    ///
    /// # Errors
    /// `TOO_MANY_REQUESTS`.
    pub(super) fn enter(&self, incoming: &Incoming) -> Result<Option<Entered>> {
        let path = incoming.path().split('?').next().unwrap_or_default();
        if self.exhibit.is_large(path) { self.location.enter().map(Some) } else { Ok(None) }
    }
}
