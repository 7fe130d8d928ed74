//! Pages about the engine itself, for its operator: health, readiness and metrics.
//!
//! A service of a site like any other, with the same rules and limits. An [`Exhibit`] writes the pages. They change
//! nothing, and are found with and without a common prefix.

use std::fmt;
use std::pin::Pin;

use super::location::{Location, Pattern};
use crate::access::{Entered, Limits};
use crate::error::Result;
use crate::relay_spec::RouteLimits;
use crate::wire::Incoming;

/// The optional prefix of the pages' names, for several services at one address. Scrapers ask without it by default.
const PREFIX: &str = "/penstock";

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// Which pages there are.
    Index,
    /// Whether the process and its engine threads turn.
    Health,
    /// Whether new work is taken.
    Ready,
    /// All that is counted.
    Metrics,
}

impl Page {
    fn at(path: &str) -> Option<Self> {
        match path.strip_prefix(PREFIX).unwrap_or(path) {
            "" | "/" => Some(Self::Index),
            "/health" => Some(Self::Health),
            "/ready" => Some(Self::Ready),
            "/metrics" => Some(Self::Metrics),
            _ => None,
        }
    }
}

/// What stands on a page now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// 200, or 503 where the answer is no.
    pub status: u16,
    /// What the text is.
    pub content_type: &'static str,
    /// All of it.
    pub text: String,
}

/// What the service is called in logs.
const NAME: &str = "pages";

/// What [`Exhibit::show`] returns.
pub type Showing<'a> = Pin<Box<dyn Future<Output = Shown> + Send + 'a>>;

/// Who knows what stands on pages.
pub trait Exhibit: fmt::Debug + Send + Sync {
    /// What stands on `page`, in a form that `accept`, the field of that name, prefers.
    fn show<'a>(&'a self, page: Page, accept: &'a [u8]) -> Showing<'a>;
}

/// Pages, and how many of metrics may be sent at a time: each is in memory until it is.
#[derive(Debug)]
pub struct Pages {
    pub(super) location: Location,
    pub(super) exhibit: Box<dyn Exhibit>,
}

impl Pages {
    /// Those of `exhibit`; of metrics `concurrency` at a time.
    pub fn new(exhibit: Box<dyn Exhibit>, concurrency: usize) -> Self {
        let requests = Limits { concurrency: Some(concurrency), rate: None, burst: 0.0 };
        let pattern = Pattern { host: None, prefix: "/".to_owned() };
        let limits = RouteLimits { requests, body: None };
        Self { location: Location::new(NAME.to_owned(), pattern, limits, None), exhibit }
    }

    /// Counts a request for a page that takes memory to be sent, until what it returns is dropped. A client that does
    /// not read them does not block the other pages.
    ///
    /// # Errors
    /// `TOO_MANY_REQUESTS`.
    pub(super) fn enter(&self, incoming: &Incoming) -> Result<Option<Entered>> {
        if page_of(incoming) == Some(Page::Metrics) { self.location.enter().map(Some) } else { Ok(None) }
    }
}

/// The page that a request asks for.
pub(super) fn page_of(incoming: &Incoming) -> Option<Page> {
    Page::at(incoming.path().split('?').next().unwrap_or_default())
}
