//! A stored response on its way to one client: its head as it is now, and its bytes at the client's own pace.

use std::future::poll_fn;
use std::hash::{BuildHasher, Hasher, RandomState};

use super::object::{Object, Reader};
use crate::cache::{Answer, CacheStatus, ContentRange, Multipart, Request, Span, Time, is_in_not_modified};
use crate::error::Result;
use crate::pool::{Pool, Purpose};
use crate::stream::{Ending, Feed, ResponseHead, Timings};
use crate::wire::{Fields, Head, is_one_of};

/// What a client gets: a head, and the pieces of a body, each with text before it.
#[derive(Debug)]
pub(super) struct Delivery {
    head: Head,
    pieces: Vec<(Vec<u8>, Option<Reader>)>,
}

impl Delivery {
    /// `answer` to a request, out of `object`, whose `fields` are those that are stored, or what the origin has just sent.
    /// Whoever reads it holds the bytes from now on.
    pub(super) fn new(
        object: &Object,
        fields: Fields,
        answer: &Answer,
        status: &CacheStatus,
        name: &str,
        now: Time,
    ) -> Self {
        let stored = &object.stored;
        let mut fields = match answer {
            Answer::Full => fields,
            Answer::NotModified => fields.iter().filter(|(name, _)| is_in_not_modified(name)).collect(),
            Answer::Partial(_) | Answer::Unsatisfiable => without(&fields, &["content-length"]),
        };
        let length = stored.length().or_else(|| object.length());
        let (status_code, reason, pieces) = match answer {
            Answer::Full => {
                // What was put together of parts says nothing of it, and neither does what came in chunks.
                let is_said = fields.iter().any(|(name, _)| is_one_of(name, &["content-length"]));
                if let Some(length) = length.filter(|_| !is_said && stored.status != 204) {
                    fields.push(b"Content-Length", length.to_string().as_bytes());
                }
                (stored.status, &*object.reason, vec![(Vec::new(), Some(object.read(None)))])
            }
            Answer::NotModified => (304, b"Not Modified".as_slice(), Vec::new()),
            Answer::Partial(spans) => {
                (206, b"Partial Content".as_slice(), parts(object, spans, length, &mut fields))
            }
            Answer::Unsatisfiable => {
                fields.push(b"Content-Range", ContentRange { span: None, length }.to_text().as_bytes());
                fields.push(b"Content-Length", b"0");
                (416, b"Range Not Satisfiable".as_slice(), Vec::new())
            }
        };
        fields.push(b"Age", stored.freshness.age(now).as_secs().to_string().as_bytes());
        fields.push(b"Cache-Status", status.named(name).to_string().as_bytes());
        Self { head: Head::new(status_code, reason, fields.iter()), pieces }
    }

    /// Puts it into `feed`, the body as it comes and the client takes it.
    ///
    /// # Errors
    /// How the body that is read has failed, or `STREAM_CLOSED` when the client has left.
    pub(super) async fn send(self, request: &Request<'_>, pool: &Pool, feed: &Feed) -> Result<Ending> {
        feed.set_head(ResponseHead { head: self.head, timings: Timings::default(), reused: true });
        let mut ending = Ending::default();
        if request.method == "HEAD" {
            return Ok(ending);
        }
        for (text, reader) in self.pieces {
            if !text.is_empty() {
                feed.room().await?;
                let mut writer =
                    poll_fn(|context| pool.poll_room(context, text.len(), Purpose::Control)).await?;
                writer.spare()[..text.len()].copy_from_slice(&text);
                feed.push(writer.commit(text.len())).await?;
            }
            if let Some(mut reader) = reader {
                while let Some(piece) = {
                    feed.room().await?;
                    poll_fn(|context| reader.poll_next(context)).await
                } {
                    feed.push(piece?).await?;
                }
                ending = reader.ending();
            }
        }
        Ok(ending)
    }
}

/// The parts of a 206, and the fields that tell them (RFC 9110, section 15.3.7).
fn parts(
    object: &Object,
    spans: &[Span],
    length: Option<u64>,
    fields: &mut Fields,
) -> Vec<(Vec<u8>, Option<Reader>)> {
    if let ([span], _) | ([span, ..], None) = (spans, length) {
        fields.push(b"Content-Range", ContentRange { span: Some(*span), length }.to_text().as_bytes());
        fields.push(b"Content-Length", span.len().to_string().as_bytes());
        return vec![(Vec::new(), Some(object.read(Some(*span))))];
    }
    let length = length.unwrap_or_default();
    let is_type = |(name, _): &(&[u8], &[u8])| is_one_of(name, &["content-type"]);
    let content_type = fields.iter().find(is_type).map(|(_, value)| value.to_vec());
    let boundary = boundary();
    let multipart = Multipart::of(spans, length, content_type.as_deref(), &boundary);
    *fields = without(fields, &["content-type"]);
    fields.push(b"Content-Type", format!("multipart/byteranges; boundary={boundary}").as_bytes());
    fields.push(b"Content-Length", multipart.length.to_string().as_bytes());
    let bodies = spans.iter().map(|span| Some(object.read(Some(*span))));
    multipart.heads.into_iter().zip(bodies).chain([(multipart.tail, None)]).collect()
}

fn without(fields: &Fields, names: &[&str]) -> Fields {
    fields.iter().filter(|(name, _)| !is_one_of(name, names)).collect()
}

/// What no origin can have put into a body: the keys of the hashers are random.
fn boundary() -> String {
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}
