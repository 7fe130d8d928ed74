//! What an origin answers, before it is framed.

use super::http;
use super::plan::{Answer, body};
use super::world::Asked;

/// A status, fields and bytes.
pub(super) struct Given {
    pub(super) status: &'static str,
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) payload: Vec<u8>,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Failure,
    /// Without a body.
    Unchanged,
    Part,
    Whole,
}

impl Given {
    pub(super) fn of(asked: &Asked, answer: &Answer) -> Self {
        if answer.fails {
            let payload = b"broken".to_vec();
            return Self { status: "500 Broken", fields: Vec::new(), payload, kind: Kind::Failure };
        }
        let (key, version) = (asked.key, asked.version);
        let tag = format!("\"{key}-{version}\"");
        let mut fields = vec![("ETag", tag.clone()), ("Cache-Control", "max-age=3".to_owned())];
        if asked.if_none_match.as_ref() == Some(&tag) {
            return Self { status: "304 Not Modified", fields, payload: Vec::new(), kind: Kind::Unchanged };
        }
        let whole = body(key, version);
        let is_state = asked.if_range.as_ref().is_none_or(|wanted| *wanted == tag) || answer.ignores_state;
        let may_be_part = is_state && asked.method == "GET";
        let range = asked.range.as_deref().filter(|_| may_be_part);
        let Some((first, end)) = range.and_then(|range| http::span(range, whole.len())) else {
            return Self { status: "200 OK", fields, payload: whole.to_vec(), kind: Kind::Whole };
        };
        fields.push(("Content-Range", format!("bytes {first}-{}/{}", end - 1, whole.len())));
        let payload = whole[first..end].to_vec();
        Self { status: "206 Partial Content", fields, payload, kind: Kind::Part }
    }
}

/// What Content-Length says: the truth if it `is_true`.
pub(super) fn told_length(payload: &[u8], answer: &Answer, is_true: bool) -> usize {
    let lie = if is_true { 0 } else { isize::from(answer.lie) };
    payload.len().saturating_add_signed(lie)
}
