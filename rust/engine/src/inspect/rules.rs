//! The rules by which the responses of a route are inspected.

use super::amend::Amendment;
use super::content::{Content, content_of, is_coded};
use super::usage::Wanted;

/// Declared once, for many responses.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The paths of usages.
    pub wanted: Wanted,
    /// The events that carry tokens, besides events without a name.
    pub tokens: Names,
    /// What is added to requests, if anything.
    pub amendment: Option<Amendment>,
    /// Bytes of the longest request that is amended.
    pub max_request: u64,
    /// Bytes of the longest JSON that is not a stream and is inspected.
    pub max_response: usize,
}

impl Rules {
    /// Whether a request with these fields may be amended: its body is JSON without a content coding.
    pub fn amends(&self, content_type: Option<&[u8]>, content_encoding: Option<&[u8]>) -> bool {
        self.amendment.is_some()
            && content_type.is_some_and(|kind| content_of(kind) == Content::Json)
            && !content_encoding.is_some_and(is_coded)
    }
}

/// Names of events. A name that begins with `*` stands for all names with this end.
#[derive(Debug, Clone, Default)]
pub struct Names(Vec<String>);

impl Names {
    /// These names.
    pub fn new(names: Vec<String>) -> Self {
        Self(names)
    }

    pub(super) fn has(&self, name: &[u8]) -> bool {
        self.0.iter().any(|known| match known.strip_prefix('*') {
            Some(end) => name.ends_with(end.as_bytes()),
            None => name == known.as_bytes(),
        })
    }
}
