//! A route to the topics of a hub: which topic a request asks for, and which event its client had last.

use percent_encoding::percent_decode_str;

use super::location::{Location, Pattern};
use crate::access::Gate;
use crate::error::{Code, Result};
use crate::hub::{Hub, Terms};
use crate::relay_spec::{Edit, RouteLimits};
use crate::sync::Arc;
use crate::wire::Incoming;

/// Query parameters with the id of the client's last event, for page scripts, which cannot set the field.
const PARAMETERS: [&str; 2] = ["lastEventId", "last-event-id"];

/// A route whose paths are topics of a hub: what follows the prefix, percent-decoded, is the topic's name.
#[derive(Debug)]
pub struct Topics {
    pub(super) location: Location,
    pub(super) hub: Arc<Hub>,
    pub(super) terms: Terms,
    /// Changes to the head of the response.
    pub(super) response: Vec<Edit>,
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
        Self { location: Location::new(name, pattern, limits, gate), hub, terms, response }
    }

    /// The topic that is asked for, and what the client had of it.
    pub(super) fn asked(&self, incoming: &Incoming, target: &str) -> Result<(String, Option<String>)> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let rest = path.strip_prefix(self.location.pattern.prefix.as_str()).unwrap_or_default();
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
