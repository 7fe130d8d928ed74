//! What a route's responses are looked at for.

use super::amend::Amendment;
use super::content::{Content, content_of, is_coded};
use super::usage::Wanted;

/// Declared once, for many responses.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Where usages lie.
    pub wanted: Wanted,
    /// Events that carry tokens, besides those without a name.
    pub tokens: Names,
    /// What is added to requests, if anything.
    pub amendment: Option<Amendment>,
    /// Bytes of the longest request that is amended.
    pub max_request: u64,
    /// Bytes of the longest JSON that is no stream and is looked into.
    pub max_response: usize,
}

impl Rules {
    /// Whether a request with these fields may be amended: its body is JSON, and can be read as it is.
    pub fn amends(&self, content_type: Option<&[u8]>, content_encoding: Option<&[u8]>) -> bool {
        self.amendment.is_some()
            && content_type.is_some_and(|kind| content_of(kind) == Content::Json)
            && !content_encoding.is_some_and(is_coded)
    }
}

/// Names of events. One that begins with an asterisk stands for all that end so.
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
