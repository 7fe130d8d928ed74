use std::sync::Arc as Plain;

use super::*;
use crate::cache::{Answer, Decision, Request, Target, Timing, comparisons, decide};
use crate::pool::StoredBytes;
use crate::store::body::Body;
use crate::store::body::CacheBudget;
use crate::store::disk::tests::{key, policy};
use crate::store::index::Index;
use crate::store::purge::RequestEpoch;
use crate::stream::Ending;
use crate::wire::list::Lines;

const TARGET: Target<'static> = Target { scheme: "http", authority: "media.test", path: "/live/1.m4s?a=1" };

fn at(second: u64) -> Time {
    Time::from_millis((784_111_777 + second) * 1000)
}

/// A response to a request with `Origin: value`, received at the second `received`, with `more` fields.
fn object(value: &str, received: u64, more: &[(&str, &str)]) -> Arc<Object> {
    let asked = [(b"origin".as_slice(), value.as_bytes())];
    let request = Request::read("GET", TARGET, &asked);
    let fields = [("Cache-Control", "max-age=3600"), ("Vary", "Origin")].iter().chain(more);
    let lines: Vec<_> = fields.map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    let timing = Timing { requested: at(received), received: at(received) };
    let stored = Stored::of(&request, 200, &lines, timing, &policy()).expect("it may be stored");
    let (body, filler) = Body::new(&Plain::new(CacheBudget::new(1 << 20, &StoredBytes::default())));
    filler.finish(Ending::default());
    Arc::new(Object::whole(stored, b"OK", Item::new(1, key()), body))
}

/// The decision about a request with `Origin: value` at second 10, and the number of comparisons of selecting values.
fn ask(entry: &Entry, value: &str) -> (Decision, usize) {
    let asked: &Lines<'_> = &[(b"origin".as_slice(), value.as_bytes())];
    let request = Request::read("GET", TARGET, asked);
    comparisons::take();
    (decide(&request, &entry.candidates(), &policy(), at(10)), comparisons::take())
}

fn holding(count: usize, more: &[(&str, &str)]) -> Entry {
    let mut entry = Entry::default();
    for number in 0..count {
        entry.objects_mut().push(object(&format!("http://{number}"), 0, more));
    }
    entry
}

#[test]
fn a_hit_is_compared_with_what_it_selects_alone_among_thousands_of_variants() {
    for count in [1, 2, 64, 5000] {
        let entry = holding(count, &[]);
        for place in [0, count / 2, count - 1] {
            let (decision, compared) = ask(&entry, &format!("http://{place}"));
            assert_eq!(decision, Decision::Hit { stored: place, answer: Answer::Full });
            assert_eq!(compared, 1, "of {count}");
        }
    }
}

#[test]
fn a_miss_looks_at_a_bounded_number_of_variants() {
    for (more, expected) in [([("Accept-Ranges", "none")], 0), ([("ETag", "\"1\"")], 64)] {
        let (decision, compared) = ask(&holding(5000, &more), "http://else");
        assert!(matches!(decision, Decision::Miss { .. } | Decision::Select { .. }));
        assert!(compared <= expected, "{compared} of 5000");
    }
}

#[test]
fn the_oldest_variants_leave_for_one_more_than_there_may_be() {
    let mut entry = Entry::default();
    for number in 0..100 {
        let gone = entry.replace(None, &object(&format!("http://{number}"), 0, &[]), 10);
        assert_eq!(gone.len(), usize::from(number >= 10));
    }
    assert_eq!(entry.objects().len(), 10);
    for (number, is_there) in [(89, false), (90, true), (99, true)] {
        let (decision, _) = ask(&entry, &format!("http://{number}"));
        assert_eq!(matches!(decision, Decision::Hit { .. }), is_there, "{number}");
    }
}

/// Each set of values that the origin has confirmed counts; otherwise there could be 64 times the limit.
#[test]
fn confirmed_values_count_as_variants() {
    let selection = (0..6).fold(object("http://0", 0, &[]).stored.selection.clone(), |all, number| {
        all.with(object(&format!("http://{number}"), 0, &[]).stored.selection.clone())
    });
    let mut entry = Entry::default();
    entry.replace(None, &object("http://0", 0, &[]).selected_by(selection), 10);
    for number in 10..14 {
        assert!(entry.replace(None, &object(&format!("http://{number}"), 0, &[]), 10).is_empty());
    }
    assert_eq!(entry.replace(None, &object("http://14", 0, &[]), 10).len(), 1);
    assert_eq!(entry.objects().len(), 5);
}

#[test]
fn what_can_be_joined_is_bounded() {
    let mut entry = Entry::default();
    let span = |number: u64| Span::new(number, number + 1).expect("it is not empty");
    let leaders: Vec<_> = (0..100).filter_map(|number| entry.lead(span(number))).collect();
    assert_eq!(leaders.len(), MAX_FILLS_OF_KEY);
    assert!(entry.join(span(0)).is_some() && entry.join(span(99)).is_none());
    entry.release(&leaders[0]);
    assert!(entry.join(span(0)).is_none() && entry.lead(span(99)).is_some());
}

/// RFC 9111, section 4: the most recent response is used, by Date.
#[test]
fn a_late_older_answer_never_replaces_a_newer_one() {
    let date = |second| [("Date", at(second).to_string())];
    let made = |received, dated| {
        let date = date(dated);
        object("http://a", received, &date.each_ref().map(|(name, value)| (*name, value.as_str())))
    };
    for (requested, dated, is_stored) in [(1, 2, false), (1, 4, true), (1, 5, true), (6, 2, true)] {
        let index = Index::new(10);
        let since = |requested| RequestEpoch { requested: at(requested), purge: 0, own_purge: None };
        let newer = made(5, 4);
        assert!(index.put(&key(), None, &newer, since(0)).is_some());
        let late = made(7, dated);
        assert_eq!(
            index.put(&key(), None, &late, since(requested)).is_some(),
            is_stored,
            "asked for at {requested}, of {dated}"
        );
        let there = index.look(&key(), |entry| entry.objects().to_vec()).expect("something is");
        assert!(there.len() == 1 && there[0].is_of(if is_stored { &late } else { &newer }));
    }
}

/// The same for a 304 that is overtaken by another.
#[test]
fn a_late_older_confirmation_does_not_make_a_newer_one_older() {
    let index = Index::new(10);
    let since = |requested| RequestEpoch { requested: at(requested), purge: 0, own_purge: None };
    let first = object("http://a", 0, &[]);
    assert!(index.put(&key(), None, &first, since(0)).is_some());
    let confirmed = |received, dated: u64| {
        let (date, now) = (at(dated).to_string(), at(received));
        let lines = [(b"date".as_slice(), date.as_bytes())];
        let asked = [(b"origin".as_slice(), b"http://a".as_slice())];
        let request = Request::read("GET", TARGET, &asked);
        let timing = Timing { requested: now, received: now };
        let (stored, may) = first.stored.updated(&request, &lines, timing, &policy());
        may.expect("it may be stored");
        Arc::new(first.updated(stored))
    };
    assert!(index.renew(&key(), &first, &confirmed(5, 5), since(2)).is_some());
    assert!(index.renew(&key(), &first, &confirmed(6, 2), since(1)).is_none());
    assert!(index.renew(&key(), &first, &confirmed(8, 7), since(7)).is_some());
}
