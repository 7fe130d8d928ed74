//! A stored response on its way to one client: its head as of now, and its body at the client's own speed.

use std::future::poll_fn;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::task::{Context, Poll};
use std::vec;

use super::object::{Object, Reader};
use super::slices::{SliceReader, Slices};
use crate::cache::{Answer, CacheStatus, Time, is_in_not_modified};
use crate::error::Result;
use crate::net::{Payload, Source};
use crate::pool::{Pool, Purpose};
use crate::stream::{Ending, Feed, ResponseHead, Timings};
use crate::sync::Arc;
use crate::wire::{BodyFraming, ContentRange, Fields, Head, Multipart, Span, has_no_body, is_one_of};
use crate::work::{Work, doing};

/// A head and a body for a client.
#[derive(Debug)]
pub(crate) struct Delivery {
    object: Arc<Object>,
    pub(crate) status: u16,
    /// The reason of the object, if `None`.
    reason: Option<&'static [u8]>,
    /// The fields of the object, if `None`.
    fields: Option<Fields>,
    /// Further fields.
    added: Fields,
    pub(crate) body: BodyFraming,
    /// The part that is sent, and those after it. Most bodies have one, which then takes no memory of its own.
    part: Option<Part>,
    parts: vec::IntoIter<Part>,
    ending: Ending,
}

/// A part of the body.
#[derive(Debug)]
enum Part {
    Text(Vec<u8>),
    Bytes(Reader),
    /// Few are read so, and a thousand clients may follow one fill.
    Slices(Box<SliceReader>),
}

/// A stored response, and how much of it a request gets.
pub(super) struct Serving {
    pub(super) object: Arc<Object>,
    pub(super) answer: Answer,
    pub(super) status: CacheStatus,
}

impl Delivery {
    /// The response to a request by `method`, read from the object or from its `slices`. `sent`: the fields that the origin
    /// has just sent, in place of the stored fields. `name`: the name of the cache. The delivery keeps the bytes in memory.
    pub(super) fn new(
        serving: Serving,
        slices: Option<&Arc<Slices>>,
        sent: Option<Fields>,
        method: &str,
        name: &str,
        now: Time,
    ) -> Self {
        let Serving { object, answer, status } = serving;
        let mut delivery = Self {
            status: object.stored.status,
            reason: None,
            fields: sent,
            // Room for the fields that most responses get.
            added: Fields::with_capacity(4, 128),
            body: BodyFraming::Empty,
            part: None,
            parts: vec::IntoIter::default(),
            ending: Ending::default(),
            object,
        };
        match answer {
            Answer::Full => delivery.send_all(slices),
            Answer::NotModified => {
                let fields = delivery.own_fields().iter().filter(|(name, _)| is_in_not_modified(name));
                delivery.fields = Some(fields.collect());
                (delivery.status, delivery.reason) = (304, Some(b"Not Modified".as_slice()));
            }
            Answer::Partial(spans) => delivery.send_ranges(&spans, slices),
            Answer::Unsatisfiable => delivery.refuse_ranges(),
        }
        delivery.add_cache_fields(&status, name, now);
        if method == "HEAD" || has_no_body(delivery.status) {
            delivery.put_parts(Vec::new());
            delivery.body = BodyFraming::Empty;
        }
        if delivery.object.is_in_parts() {
            // Otherwise it would hold parts that it does not read.
            delivery.object = Arc::new(delivery.object.without_parts());
        }
        delivery
    }

    /// The fields of the stored response, or the fields that replace them.
    fn own_fields(&self) -> &Fields {
        self.fields.as_ref().unwrap_or(&self.object.stored.fields)
    }

    /// The length of the whole body, if it is known.
    fn length(&self) -> Option<u64> {
        self.object.stored.length().or_else(|| self.object.length())
    }

    fn read(&self, span: Option<Span>, slices: Option<&Arc<Slices>>) -> Part {
        match slices {
            Some(slices) => Part::Slices(Box::new(slices.read(span, &self.object))),
            None => Part::Bytes(self.object.read(span)),
        }
    }

    fn put_parts(&mut self, parts: Vec<Part>) {
        self.parts = parts.into_iter();
        self.part = self.parts.next();
    }

    fn send_all(&mut self, slices: Option<&Arc<Slices>>) {
        let length = self.length();
        // A response that was joined from parts, or came in chunks, has no Content-Length.
        let is_said = self.own_fields().iter().any(|(name, _)| is_one_of(name, &["content-length"]));
        if let Some(length) = length.filter(|_| !is_said && self.status != 204) {
            self.added.push_number(b"Content-Length", length);
        }
        self.body = length.map_or(BodyFraming::UntilClose, BodyFraming::Length);
        self.part = Some(self.read(None, slices));
    }

    /// A 206 (RFC 9110, section 15.3.7).
    fn send_ranges(&mut self, spans: &[Span], slices: Option<&Arc<Slices>>) {
        let length = self.length();
        let mut fields = without(self.own_fields(), &["content-length", "content-range"]);
        let total = if let ([span], _) | ([span, ..], None) = (spans, length) {
            fields.push(b"Content-Range", ContentRange { span: Some(*span), length }.to_text().as_bytes());
            self.part = Some(self.read(Some(*span), slices));
            span.len()
        } else {
            let is_type = |(name, _): &(&[u8], &[u8])| is_one_of(name, &["content-type"]);
            let content_type = fields.iter().find(is_type).map(|(_, value)| value.to_vec());
            let boundary = boundary();
            let length = length.unwrap_or_default();
            let multipart = Multipart::of(spans, length, content_type.as_deref(), &boundary);
            fields = without(&fields, &["content-type"]);
            let kind = format!("multipart/byteranges; boundary={boundary}");
            fields.push(b"Content-Type", kind.as_bytes());
            let mut parts = Vec::with_capacity(2 * spans.len() + 1);
            for (head, span) in multipart.heads.into_iter().zip(spans) {
                parts.extend([Part::Text(head), self.read(Some(*span), slices)]);
            }
            parts.push(Part::Text(multipart.tail));
            self.put_parts(parts);
            multipart.length
        };
        fields.push_number(b"Content-Length", total);
        (self.status, self.reason, self.fields) = (206, Some(b"Partial Content".as_slice()), Some(fields));
        self.body = BodyFraming::Length(total);
    }

    fn refuse_ranges(&mut self) {
        let range = ContentRange { span: None, length: self.length() };
        self.added.push(b"Content-Range", range.to_text().as_bytes());
        self.added.push(b"Content-Length", b"0");
        self.fields = Some(without(self.own_fields(), &["content-length", "content-range"]));
        (self.status, self.reason) = (416, Some(b"Range Not Satisfiable".as_slice()));
        self.body = BodyFraming::Length(0);
    }

    /// Adds Age and Cache-Status. If the response has come through other caches, Cache-Status is a list, which ends with
    /// this cache (RFC 9211, section 2).
    fn add_cache_fields(&mut self, status: &CacheStatus, name: &str, now: Time) {
        let stored = &self.object.stored;
        self.added.push_number(b"Age", stored.freshness.age(now).as_secs());
        match self.fields.take() {
            None if !self.object.has_status => {
                self.added.push_with(b"Cache-Status", |out| status.write(name, out));
            }
            fields => {
                let fields = fields.unwrap_or_else(|| stored.fields.clone());
                self.fields = Some(status.beside(name, fields));
            }
        }
    }

    /// The head is written: what it alone needed goes.
    pub(crate) fn drop_head(&mut self) {
        (self.fields, self.added) = (None, Fields::default());
    }

    pub(crate) fn reason(&self) -> &[u8] {
        self.reason.unwrap_or(&self.object.reason)
    }

    /// The end-to-end fields.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.own_fields().iter().chain(self.added.iter())
    }

    /// Sends it into `feed`, at the speed of its consumer.
    ///
    /// # Errors
    /// The error of the body, or `STREAM_CLOSED` when the client has left.
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
        let _doing = doing(Work::Cache);
        while let Some(part) = &mut self.part {
            let next = match part {
                Part::Text(text) => {
                    let text = std::mem::take(text);
                    self.part = self.parts.next();
                    return Poll::Ready(Some(Ok(Payload::Text(text))));
                }
                Part::Bytes(reader) => reader.poll_next(context),
                Part::Slices(reader) => reader.poll_next(context, held),
            };
            if !matches!(next, Poll::Ready(None)) {
                return next.map(|next| next.map(|slice| slice.map(Payload::Kept)));
            }
            if let Part::Bytes(reader) = part {
                self.ending = reader.ending();
            }
            self.part = self.parts.next();
        }
        Poll::Ready(None)
    }
}

fn without(fields: &Fields, names: &[&str]) -> Fields {
    fields.iter().filter(|(name, _)| !is_one_of(name, names)).collect()
}

/// A boundary that an origin cannot have put into a body: the keys of the hashers are random.
fn boundary() -> String {
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}
