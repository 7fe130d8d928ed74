//! A stored response on its way to one client: its head as it is now, and its bytes at the client's own pace.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::task::{Context, Poll};

use super::object::{Object, Reader};
use super::slices::{SliceReader, Slices};
use crate::cache::{Answer, CacheStatus, Time, is_in_not_modified};
use crate::error::Result;
use crate::net::{Payload, Source};
use crate::pool::{Pool, Purpose};
use crate::stream::{Ending, Feed, ResponseHead, Timings};
use crate::sync::Arc;
use crate::wire::{BodyFraming, ContentRange, Fields, Head, Multipart, Span, has_no_body, is_one_of};

/// What a client gets: a head, and a body.
#[derive(Debug)]
pub(crate) struct Delivery {
    object: Arc<Object>,
    pub(crate) status: u16,
    /// That of the object, unless it is another status.
    reason: Option<&'static [u8]>,
    /// Those of the object, unless others take their place.
    fields: Option<Fields>,
    /// Of this answer alone.
    added: Fields,
    pub(crate) body: BodyFraming,
    parts: VecDeque<Part>,
    ending: Ending,
}

/// A part of the body.
#[derive(Debug)]
enum Part {
    Text(Vec<u8>),
    Bytes(Reader),
    Slices(SliceReader),
}

impl Delivery {
    /// `answer` to a request by `method`, out of `object` or the `slices` of it, with what the origin has just `sent` in the
    /// place of the fields that are stored. Whoever reads it holds the bytes from now on. `name` is that of the cache.
    #[expect(
        clippy::too_many_arguments,
        reason = "there are two callers, and all of it is told in one line each"
    )]
    pub(super) fn new(
        object: Arc<Object>,
        slices: Option<&Arc<Slices>>,
        sent: Option<Fields>,
        answer: &Answer,
        status: &CacheStatus,
        method: &str,
        name: &str,
        now: Time,
    ) -> Self {
        let read = |span| match slices {
            Some(slices) => Part::Slices(slices.read(span, &object)),
            None => Part::Bytes(object.read(span)),
        };
        let stored = &object.stored;
        let length = stored.length().or_else(|| object.length());
        let all = sent.as_ref().unwrap_or(&stored.fields);
        // Room for what is added to most.
        let mut added = Fields::with_capacity(4, 128);
        let mut parts = VecDeque::new();
        let (status_code, reason, fields, body) = match answer {
            Answer::Full => {
                // What was put together of parts says nothing of it, and neither does what came in chunks.
                let is_said = all.iter().any(|(name, _)| is_one_of(name, &["content-length"]));
                if let Some(length) = length.filter(|_| !is_said && stored.status != 204) {
                    added.write(b"Content-Length", length);
                }
                parts.push_back(read(None));
                (stored.status, None, sent, length.map_or(BodyFraming::UntilClose, BodyFraming::Length))
            }
            Answer::NotModified => {
                let fields = all.iter().filter(|(name, _)| is_in_not_modified(name)).collect();
                (304, Some(b"Not Modified".as_slice()), Some(fields), BodyFraming::Empty)
            }
            Answer::Partial(spans) => {
                let mut fields = without(all, &["content-length", "content-range"]);
                let total;
                (parts, total) = ranges(&read, spans, length, &mut fields);
                (206, Some(b"Partial Content".as_slice()), Some(fields), BodyFraming::Length(total))
            }
            Answer::Unsatisfiable => {
                added.push(b"Content-Range", ContentRange { span: None, length }.to_text().as_bytes());
                added.push(b"Content-Length", b"0");
                let fields = without(all, &["content-length", "content-range"]);
                (416, Some(b"Range Not Satisfiable".as_slice()), Some(fields), BodyFraming::Length(0))
            }
        };
        added.write(b"Age", stored.freshness.age(now).as_secs());
        // Of a response that has come through other caches the field is a list, which ours ends (RFC 9211, section 2).
        let fields = match fields {
            None if !object.has_status => {
                added.write(b"Cache-Status", status.named(name));
                None
            }
            fields => Some(status.beside(name, fields.unwrap_or_else(|| stored.fields.clone()))),
        };
        let is_empty = method == "HEAD" || has_no_body(status_code);
        if is_empty {
            parts.clear();
        }
        let body = if is_empty { BodyFraming::Empty } else { body };
        // Of many parts it would hold those that it does not read.
        let object = if object.is_in_parts() { Arc::new(object.without_parts()) } else { object };
        Self { object, status: status_code, reason, fields, added, body, parts, ending: Ending::default() }
    }

    pub(crate) fn reason(&self) -> &[u8] {
        self.reason.unwrap_or(&self.object.reason)
    }

    /// Names and values, all of them end-to-end.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.fields.as_ref().unwrap_or(&self.object.stored.fields).iter().chain(self.added.iter())
    }

    /// Puts it into `feed`, the body as it comes and the client takes it.
    ///
    /// # Errors
    /// How the body that is read has failed, or `STREAM_CLOSED` when the client has left.
    pub(super) async fn send(mut self, pool: &Pool, feed: &Feed) -> Result<Ending> {
        let head = Head::new(self.status, self.reason(), self.fields());
        feed.set_head(ResponseHead { head, timings: Timings::default(), reused: true });
        while let Some(payload) = {
            feed.room().await?;
            poll_fn(|context| self.poll_next(context, 0)).await
        } {
            let slice = match payload? {
                Payload::Kept(slice) => slice,
                bytes => {
                    let room = poll_fn(|context| pool.poll_room(context, bytes.len(), Purpose::Control));
                    let mut writer = room.await?;
                    writer.spare()[..bytes.len()].copy_from_slice(&bytes);
                    writer.commit(bytes.len())
                }
            };
            feed.push(slice).await?;
        }
        Ok(self.ending)
    }
}

impl Source for Delivery {
    fn poll_next(&mut self, context: &mut Context<'_>, held: usize) -> Poll<Option<Result<Payload>>> {
        while let Some(part) = self.parts.front_mut() {
            match part {
                Part::Text(text) => {
                    let text = std::mem::take(text);
                    self.parts.pop_front();
                    return Poll::Ready(Some(Ok(Payload::Text(text))));
                }
                Part::Bytes(reader) => match reader.poll_next(context) {
                    Poll::Ready(None) => {
                        self.ending = reader.ending();
                        self.parts.pop_front();
                    }
                    other => return other.map(|next| next.map(|slice| slice.map(Payload::Kept))),
                },
                Part::Slices(reader) => match reader.poll_next(context, held) {
                    Poll::Ready(None) => drop(self.parts.pop_front()),
                    other => return other.map(|next| next.map(|slice| slice.map(Payload::Kept))),
                },
            }
        }
        Poll::Ready(None)
    }
}

/// The parts of a 206, the fields that tell them (RFC 9110, section 15.3.7), and how long all of it is.
fn ranges(
    read: &dyn Fn(Option<Span>) -> Part,
    spans: &[Span],
    length: Option<u64>,
    fields: &mut Fields,
) -> (VecDeque<Part>, u64) {
    if let ([span], _) | ([span, ..], None) = (spans, length) {
        fields.push(b"Content-Range", ContentRange { span: Some(*span), length }.to_text().as_bytes());
        fields.write(b"Content-Length", span.len());
        return ([read(Some(*span))].into(), span.len());
    }
    let length = length.unwrap_or_default();
    let is_type = |(name, _): &(&[u8], &[u8])| is_one_of(name, &["content-type"]);
    let content_type = fields.iter().find(is_type).map(|(_, value)| value.to_vec());
    let boundary = boundary();
    let multipart = Multipart::of(spans, length, content_type.as_deref(), &boundary);
    *fields = without(fields, &["content-type"]);
    fields.write(b"Content-Type", format_args!("multipart/byteranges; boundary={boundary}"));
    fields.write(b"Content-Length", multipart.length);
    let mut parts = VecDeque::new();
    for (head, span) in multipart.heads.into_iter().zip(spans) {
        parts.extend([Part::Text(head), read(Some(*span))]);
    }
    parts.push_back(Part::Text(multipart.tail));
    (parts, multipart.length)
}

fn without(fields: &Fields, names: &[&str]) -> Fields {
    fields.iter().filter(|(name, _)| !is_one_of(name, names)).collect()
}

/// What no origin can have put into a body: the keys of the hashers are random.
fn boundary() -> String {
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}
