//! The format of files, what is before the threads, and the directory.

mod directory;
mod format;
mod queue;
mod reading;

use super::super::body::Body;
use super::super::budget::Budget;
use super::super::eviction::Item;
use super::super::object::Object;
use super::format::{Known, Layout, encode};
use super::queue::Leaving;
use crate::cache::{Cookies, Key, Languages, Policy, RangeFill, Request, Stored, Target, Time, Timing};
use crate::stream::Ending;
use crate::sync::Arc;
use std::sync::Arc as Plain;
use std::time::Duration;

/// When what is stored came.
const RECEIVED: u64 = 784_111_777;

fn stored(fields: &[(&str, &str)]) -> Stored {
    let policy = Policy {
        name: "penstock".to_owned(),
        targets: Vec::new(),
        lifetime: None,
        heuristic_percent: 10,
        heuristic_max: Duration::from_secs(86_400),
        negative: Duration::ZERO,
        stale_while_revalidate: Duration::ZERO,
        stale_if_error: Duration::from_millis(1500),
        cookies: Cookies::Explicit,
        clients_may_refresh: true,
        languages: Languages::Preferred,
        range_fill: RangeFill::Whole,
        max_ranges: 8,
    };
    let received = Time::from_millis(RECEIVED * 1000 + 250);
    let asked = [
        (b"accept-language".as_slice(), b"de, en;q=0.5".as_slice()),
        (b"x-absent-value".as_slice(), b"".as_slice()),
    ];
    let request = Request::read("GET", target(), &asked, received);
    let lines: Vec<_> = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    let timing = Timing { requested: Time::from_millis(RECEIVED * 1000), received };
    Stored::of(&request, 200, &lines, timing, &policy).expect("it may be stored")
}

fn target() -> Target<'static> {
    Target { scheme: "http", authority: "media.test", path: "/live/1.m4s?a=1" }
}

fn key() -> Key {
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
        // Without one the time of arrival stands in for it, of which the fraction of a second is not kept.
        ("Date", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ])
}

fn head(stored: &Stored, length: u64) -> (Layout, Vec<u8>) {
    let trailers = [(b"Digest".to_vec(), b"x".to_vec())];
    let tags = ["live".into(), "a b".into()];
    let known = Known { key: &key(), stored, reason: b"Fine", tags: &tags, trailers: &trailers };
    encode(known, 0x0123_4567_89ab_cdef, length, None).expect("it fits")
}

/// An object of nothing but a head, that takes so much.
fn leaving(cost: usize) -> Leaving {
    let (body, filler) = Body::new(&Plain::new(Budget::new(1 << 20)));
    filler.finish(Ending::default());
    let object = Arc::new(Object::whole(segment(), b"OK", Item::new(1, key()), body));
    Leaving { key: key(), object, cost }
}
