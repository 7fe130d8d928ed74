//! Pages about the engine itself, for those who operate it: whether it is well, whether it takes work, and its metrics.
//!
//! A service of a site like any other, so that who asks for them is held to the same rules and limits; what stands on
//! them is somebody else's to say ([`Exhibit`]). They change nothing, and are found with and without a common prefix.

use std::fmt;
use std::pin::Pin;

use super::head::{Framing, Persistence, encode};
use super::limiter::Limiter;
use super::native::Task;
use super::route::Pattern;
use crate::access::{Entered, Limits};
use crate::error::{Code, Result};
use crate::net::{Outgoing, Piece};
use crate::relay::redirected;
use crate::relay_spec::RouteLimits;
use crate::wire::Incoming;

/// Before the names of pages, for those who have several services behind one address. What scrapers ask for by default
/// has none.
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
pub(super) const NAME: &str = "pages";

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
    pub(super) pattern: Pattern,
    limiter: Limiter,
    exhibit: Box<dyn Exhibit>,
}

impl Pages {
    /// Those of `exhibit`; of metrics `concurrency` at a time.
    pub fn new(exhibit: Box<dyn Exhibit>, concurrency: usize) -> Self {
        let requests = Limits { concurrency: Some(concurrency), rate: None, burst: 0.0 };
        let limiter = Limiter::new(NAME.to_owned(), RouteLimits { requests, body: None });
        Self { pattern: Pattern { host: None, prefix: "/".to_owned() }, limiter, exhibit }
    }

    /// Counts a request for a page that takes memory to be sent, until what it returns is dropped. Whoever does not read
    /// those keeps nobody from the others.
    ///
    /// # Errors
    /// `TOO_MANY_REQUESTS`.
    pub(super) fn enter(&self, incoming: &Incoming) -> Result<Option<Entered>> {
        if page_of(incoming) == Some(Page::Metrics) { self.limiter.enter().map(Some) } else { Ok(None) }
    }
}

fn page_of(incoming: &Incoming) -> Option<Page> {
    Page::at(incoming.path().split('?').next().unwrap_or_default())
}

/// Puts a page into `outgoing`.
///
/// # Errors
/// `NO_ROUTE`: there is no such page. Nothing was sent.
pub(super) async fn begin(task: &Task<'_>, pages: &Pages, outgoing: &mut Outgoing) -> Result<()> {
    let (incoming, progress) = (task.incoming, task.progress);
    let page = page_of(incoming).ok_or_else(|| Code::NoRoute.error("there is no such page"))?;
    let is_read = matches!(incoming.method(), "GET" | "HEAD");
    let shown = if is_read {
        let accept = incoming.get_all("accept").collect::<Vec<_>>().join(&b","[..]);
        pages.exhibit.show(page, &accept).await
    } else {
        let text = "pages are read by GET or HEAD\n".to_owned();
        Shown { status: 405, content_type: "text/plain; charset=utf-8", text }
    };
    let reason: &[u8] = match shown.status {
        200 => b"OK",
        405 => b"Method Not Allowed",
        _ => b"Service Unavailable",
    };
    let length = shown.text.len().to_string();
    let mut fields: Vec<(&[u8], &[u8])> = vec![
        (b"Content-Type", shown.content_type.as_bytes()),
        (b"Content-Length", length.as_bytes()),
        (b"Cache-Control", b"no-store"),
        (b"X-Content-Type-Options", b"nosniff"),
    ];
    if !is_read {
        fields.push((b"Allow", b"GET, HEAD"));
    }
    if task.site.is_draining() {
        progress.close(true);
    }
    let persistence = Persistence::of(progress.closes(), incoming.minor_version);
    let framing = Framing::Length(shown.text.len() as u64);
    let head = encode(
        (shown.status, reason),
        redirected(None, fields.into_iter()),
        framing,
        persistence,
        None,
        &[],
        &[],
    );
    progress.begin(shown.status);
    progress.set_head(head.len());
    outgoing.push(Piece::Bytes(head));
    if incoming.method() != "HEAD" {
        outgoing.push(Piece::Bytes(shown.text.into_bytes()));
    }
    Ok(())
}
