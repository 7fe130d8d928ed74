//! Answers a request for a topic of a hub: which one, what the client had of it, and the head.
//!
//! The body is the subscriber's, which gives events as they stand in the topic's history; from then on it is sent like
//! any other.

use std::sync::OnceLock;

use percent_encoding::percent_decode_str;

use super::head::{Framing, Persistence, encode};
use super::limiter::Limiter;
use super::native::Task;
use super::route::Pattern;
use super::tally::Tallies;
use crate::access::{Decision, Entered, Gate};
use crate::error::{Code, Result};
use crate::hub::{Admission, Asked, Guest, Hub, Resumption, Terms, Wire, fields};
use crate::net::{Body, Outgoing, Supply};
use crate::relay::redirected;
use crate::relay_spec::{Edit, RouteLimits};
use crate::sync::Arc;
use crate::wire::{Body as Announced, Incoming};

/// Query parameters that say what the client had, for those who cannot set the field: page scripts cannot.
const PARAMETERS: [&str; 2] = ["lastEventId", "last-event-id"];

/// A route whose paths are topics of a hub: what follows the prefix, percent-decoded, is the topic's name.
#[derive(Debug)]
pub struct Topics {
    pub(super) pattern: Pattern,
    hub: Arc<Hub>,
    terms: Terms,
    /// Changes to the head of the response.
    response: Vec<Edit>,
    /// Who decides about its requests, if anybody does.
    pub(super) gate: Option<Arc<Gate>>,
    limiter: Limiter,
    /// What it is called in logs and counts.
    pub(super) name: String,
    /// Known from when a site serves it.
    pub(super) tallies: OnceLock<Arc<Tallies>>,
}

impl Topics {
    /// A route that nothing has been asked of.
    pub fn new(
        name: String,
        pattern: Pattern,
        hub: Arc<Hub>,
        terms: Terms,
        limits: RouteLimits,
        response: Vec<Edit>,
        gate: Option<Arc<Gate>>,
    ) -> Self {
        let limiter = Limiter::new(name.clone(), limits);
        Self { pattern, hub, terms, response, gate, limiter, name, tallies: OnceLock::new() }
    }

    /// Counts a request, until what it returns is dropped.
    ///
    /// # Errors
    /// `TOO_MANY_REQUESTS`.
    pub(super) fn enter(&self) -> Result<Entered> {
        self.limiter.enter()
    }

    /// The topic that is asked for, and what the client had of it.
    fn asked(&self, incoming: &Incoming, target: &str) -> Result<(String, Option<String>)> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let rest = path.strip_prefix(self.pattern.prefix.as_str()).unwrap_or_default();
        let topic = percent_decode_str(rest).decode_utf8().map_err(|_| {
            Code::BadTopic.error("the path after the route's prefix is not percent-encoded UTF-8")
        })?;
        // A client that was disconnected sends the field, beside the query that it once began with.
        let field = incoming.get_all("last-event-id").next();
        // An id that is not UTF-8 is not one of the hub's, which says so.
        let field = field.filter(|id| !id.is_empty()).map(|id| String::from_utf8_lossy(id).into_owned());
        Ok((topic.into_owned(), field.or_else(|| parameter(query))))
    }
}

/// Puts the head of the answer into `outgoing`, and the subscriber behind it.
///
/// # Errors
/// What went wrong. Nothing was sent.
pub(super) async fn begin(task: &Task<'_>, topics: &Topics, outgoing: &mut Outgoing) -> Result<()> {
    let incoming = task.incoming;
    let (topic, after) = topics.asked(incoming, &task.target())?;
    let framing = Framing::of(Announced::Chunked, incoming.minor_version);
    let decision = task.progress.decision();
    let tenant = decision.as_deref().and_then(Decision::tenant);
    let guest = Guest { tenant, address: task.client.addresses.host.as_deref() };
    let asked = Asked { after: after.as_deref(), terms: topics.terms, guest };
    // On the heap: what is sent for hours keeps nothing of it.
    let admission = Box::pin(topics.hub.subscribe(&topic, asked)).await?;
    let admitted = match admission {
        // The way to have an EventSource come back no more (HTML Living Standard 9.2.2).
        Admission::Over => {
            topics.put_head(task, (204, b"No Content"), Framing::Empty, Resumption::Full, outgoing);
            return Ok(());
        }
        Admission::Admitted(admitted) => admitted,
    };
    topics.put_head(task, (200, b"OK"), framing, admitted.resumption(), outgoing);
    if incoming.method() == "HEAD" {
        return Ok(());
    }
    let chunked = framing == Framing::Chunked;
    task.client.keep_backlog(task.site.config.event_backlog);
    // What is held to something has to pass where that is looked at.
    let is_limited = task.progress.allotment().is_some_and(|allotment| allotment.is_limited());
    let wire = if is_limited { Wire::through(chunked) } else { Wire::over(&task.client.connection, chunked) };
    let supply = task.metered(Supply::Source(Box::new(admitted.seat(wire, None))));
    outgoing.attach(if chunked { Body::Framed(supply) } else { Body::Raw(supply) });
    Ok(())
}

impl Topics {
    fn put_head(
        &self,
        task: &Task<'_>,
        (status, reason): (u16, &[u8]),
        framing: Framing,
        resumption: Resumption,
        outgoing: &mut Outgoing,
    ) {
        let progress = task.progress;
        if framing == Framing::UntilClose || task.site.is_draining() {
            progress.close(true);
        }
        let persistence = Persistence::of(progress.closes(), task.incoming.minor_version);
        let fields = fields(resumption, framing == Framing::Empty);
        let bytes = encode(
            (status, reason),
            redirected(None, fields.into_iter()),
            framing,
            persistence,
            None,
            &self.response,
            &[],
        );
        progress.begin(status);
        progress.set_head(bytes.len());
        outgoing.push_head(bytes);
    }
}

/// The id that the client had, by the query.
fn parameter(query: &str) -> Option<String> {
    form_urlencoded::parse(query.as_bytes())
        .find(|(name, value)| PARAMETERS.contains(&&**name) && !value.is_empty())
        .map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_says_what_the_client_had_by_either_name() {
        assert_eq!(parameter("a=1&lastEventId=5-0").as_deref(), Some("5-0"));
        assert_eq!(parameter("last-event-id=a%20b+c").as_deref(), Some("a b c"));
        assert_eq!(parameter("last-event-id=%zz").as_deref(), Some("%zz"));
        assert_eq!(parameter("lastEventId=&last-event-id=x").as_deref(), Some("x"));
        assert_eq!(parameter("lasteventid=5&x"), None);
    }
}
