//! Answers a request for a topic of a hub: which one, what the client had of it, and the head.
//!
//! The body is the subscriber's, which gives events as they stand in the topic's history; from then on it is sent like
//! any other.

use std::sync::OnceLock;

use super::head::{Framing, Persistence, encode};
use super::limiter::Limiter;
use super::native::Task;
use super::route::{Edit, Pattern, RouteLimits};
use super::tally::Tallies;
use crate::access::{Decision, Entered, Gate};
use crate::error::{Code, Result};
use crate::hub::{Admission, Asked, Guest, Hub, Resumption, Terms, Wire, fields};
use crate::net::{Body, Outgoing, Supply};
use crate::relay::redirected;
use crate::sync::Arc;
use crate::wire::{Body as Announced, Incoming, byte_of};

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
        let topic = decoded(rest, false).and_then(|name| String::from_utf8(name).ok()).ok_or_else(|| {
            Code::BadTopic.error("what follows the route's prefix is not UTF-8, percent-encoded")
        })?;
        // A client that was disconnected sends the field, beside the query that it once began with.
        let field = incoming.get_all("last-event-id").next().map(<[u8]>::to_vec);
        let after = field.filter(|id| !id.is_empty()).or_else(|| parameter(query));
        // What is not UTF-8 is no id of ours: it is told of as well as can be.
        Ok((topic, after.map(|id| String::from_utf8_lossy(&id).into_owned())))
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

/// What the query says that the client had.
fn parameter(query: &str) -> Option<Vec<u8>> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut named = pairs.filter(|(name, _)| PARAMETERS.contains(name));
    named.find_map(|(_, value)| decoded(value, true).filter(|id| !id.is_empty()))
}

/// Percent-decoded, and `+` as a space in a form's query; none where a `%` begins no byte.
fn decoded(text: &str, form: bool) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => byte_of(bytes.next()?, bytes.next()?)?,
            b'+' if form => b' ',
            byte => byte,
        });
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_percent_encoded_is_decoded_and_the_rest_stays() {
        assert_eq!(decoded("a%2Fb%c3%A9+", false).unwrap(), "a/bé+".as_bytes());
        assert_eq!(decoded("a+b", true).unwrap(), b"a b");
        for wrong in ["%", "%4", "%g1", "%+1", "a%é0"] {
            assert_eq!(decoded(wrong, false), None, "{wrong}");
        }
    }

    #[test]
    fn the_query_says_what_the_client_had_by_either_name() {
        let had = |query| parameter(query).map(|id| String::from_utf8(id).unwrap());
        assert_eq!(had("a=1&lastEventId=5-0").as_deref(), Some("5-0"));
        assert_eq!(had("last-event-id=a%20b").as_deref(), Some("a b"));
        assert_eq!(had("lastEventId=&last-event-id=x").as_deref(), Some("x"));
        assert_eq!(had("lasteventid=5&x"), None);
    }
}
