//! Tests of the disk tier.

mod directory;
mod format;
mod queue;
mod read;

use super::super::body::Body;
use super::super::body::CacheBudget;
use super::super::eviction::Item;
use super::file::StoredFile;
use super::format::{Known, Layout, encode};
use super::queue::PendingWrite;
use crate::cache::{
    Content, Cookies, Key, Languages, Policy, RangeFill, Request, Stored, Target, Time, Timing,
};
use crate::pool::StoredBytes;
use crate::stream::Ending;
use crate::sync::Arc;
use crate::wire::Span;
use std::sync::Arc as Plain;
use std::time::Duration;

/// When the response was received.
const RECEIVED: u64 = 784_111_777;

fn stored(fields: &[(&str, &str)]) -> Stored {
    stored_of(200, fields)
}

/// The head of the bytes `start..end` of a film of `length` bytes.
pub(in super::super) fn part(start: u64, end: u64, length: u64) -> Stored {
    let content = format!("bytes {start}-{}/{length}", end - 1);
    let fields = [("Cache-Control", "max-age=60"), ("ETag", "\"1\""), ("Content-Range", content.as_str())];
    let mut part = stored_of(206, &fields);
    part.content = Content::Parts(Span::new(start, end).into_iter().collect(), Some(length));
    part
}

pub(in super::super) fn policy() -> Policy {
    Policy {
        name: "penstock".to_owned(),
        targets: Vec::new(),
        lifetime: None,
        heuristic_percent: 10,
        heuristic_max: Duration::from_secs(86_400),
        negative: Duration::ZERO,
        stale_while_revalidate: Duration::ZERO,
        stale_if_error: Duration::from_millis(1500),
        store_cookies: Cookies::Explicit,
        clients_may_refresh: true,
        languages: Languages::Preferred,
        range_fill: RangeFill::Whole,
        max_ranges: 8,
    }
}

fn stored_of(status: u16, fields: &[(&str, &str)]) -> Stored {
    let received = Time::from_millis(RECEIVED * 1000 + 250);
    let asked = [
        (b"accept-language".as_slice(), b"de, en;q=0.5".as_slice()),
        (b"x-absent-value".as_slice(), b"".as_slice()),
    ];
    let request = Request::read("GET", target(), &asked);
    let lines: Vec<_> = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    let timing = Timing { requested: Time::from_millis(RECEIVED * 1000), received };
    Stored::of(&request, status, &lines, timing, &policy()).expect("it may be stored")
}

fn target() -> Target<'static> {
    Target { scheme: "http", authority: "media.test", path: "/live/1.m4s?a=1" }
}

pub(in super::super) fn key() -> Key {
    Key::of_url("http://media.test/live/1.m4s?a=1")
}

fn segment() -> Stored {
    stored(&[
        ("Cache-Control", "max-age=60, stale-while-revalidate=7, no-cache=\"set-cookie\", must-revalidate"),
        ("ETag", "W/\"a\""),
        ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("Vary", "Accept-Language, X-Absent"),
        ("Age", "3"),
        ("Content-Type", "video/mp4"),
        // The time of arrival replaces a missing Date; its fraction of a second is not written.
        ("Date", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ])
}

fn head(stored: &Stored, length: u64) -> (Layout, Vec<u8>) {
    let trailers = [(b"Digest".to_vec(), b"x".to_vec())];
    let tags = ["live".into(), "a b".into()];
    let known = Known { key: &key(), stored, reason: b"Fine", tags: &tags, trailers: &trailers };
    encode(known, 0x0123_4567_89ab_cdef, length, None).expect("it fits")
}

/// An empty body with this cost.
fn leaving(cost: usize) -> PendingWrite {
    let (body, filler) = Body::new(&Plain::new(CacheBudget::new(1 << 20, &StoredBytes::default())));
    filler.finish(Ending::default());
    PendingWrite { item: Item::new(1, key()), body, cost }
}

/// A file that does not exist.
pub(in super::super) fn stored_file(name: u64, length: u64) -> Arc<StoredFile> {
    Arc::new(StoredFile::new(Layout { name, room: 4096, length }, Item::new(1, key()), Ending::default()))
}
