//! Ranges of whole and of partly stored responses (RFC 9110, section 14; RFC 9111, sections 3.3 and 3.4).

use super::*;

const WHOLE: &str =
    "Cache-Control: max-age=100\nContent-Length: 10\nETag: \"a\"\nDate: {0}\nLast-Modified: {-9}";

fn span(start: u64, end: u64) -> Span {
    Span::new(start, end).unwrap()
}

fn of_whole(request: &str) -> Answer {
    match Cache::holding(WHOLE).get(request) {
        Decision::Hit { answer, .. } => answer,
        other => panic!("{request:?}: {other:?}"),
    }
}

fn parts(spans: &[(u64, u64)]) -> Answer {
    Answer::Partial(spans.iter().map(|(start, end)| span(*start, *end)).collect())
}

#[test]
fn ranges_of_a_whole_response() {
    for (range, expected) in [
        ("bytes=0-1", parts(&[(0, 2)])),
        ("Bytes=1-", parts(&[(1, 10)])),
        ("bytes=-1", parts(&[(9, 10)])),
        ("bytes=-99", parts(&[(0, 10)])),
        ("bytes=0-", parts(&[(0, 10)])),
        ("bytes=5-99999999999999999999", parts(&[(5, 10)])),
        ("bytes=8-9, 0-1", parts(&[(8, 10), (0, 2)])),
        ("bytes=0-1, 20-", parts(&[(0, 2)])),
        ("bytes=0-4, 3-6, 9-", parts(&[(0, 7), (9, 10)])),
        ("bytes=10-", Answer::Unsatisfiable),
        ("bytes=-0", Answer::Unsatisfiable),
        // A field that is malformed or has another unit is ignored.
        ("bytes=2-1", Answer::Full),
        ("bytes=a-b", Answer::Full),
        ("bytes=", Answer::Full),
        ("bytes=-", Answer::Full),
        ("bytes=1", Answer::Full),
        ("bytes=0-1, x", Answer::Full),
        ("items=0-1", Answer::Full),
        ("0-1", Answer::Full),
        ("bytes=0-0\nRange: bytes=1-1", Answer::Full),
        ("bytes=0-0,1-1,2-2,3-3,4-4,5-5,6-6,7-7,8-8", Answer::Full),
    ] {
        assert_eq!(of_whole(&format!("Range: {range}")), expected, "{range}");
    }
    let decision = Cache::holding(WHOLE).decide("HEAD", "Range: bytes=0-1");
    assert_eq!(decision, Decision::Hit { stored: 0, answer: Answer::Full }, "of GET alone");
    assert_eq!(Ranges::parse(b"bytes=-5").unwrap().select(0, 8), Selected::Whole);
}

#[test]
fn a_response_whose_length_is_not_known_is_answered_whole() {
    let cache = Cache::holding("Cache-Control: max-age=100");
    assert_eq!(cache.get("Range: bytes=0-1"), Decision::Hit { stored: 0, answer: Answer::Full });
}

/// RFC 9110, sections 13.1.5 and 13.2.2.
#[test]
fn if_range() {
    for (condition, met) in [
        ("\"a\"", true),
        ("\"b\"", false),
        ("W/\"a\"", false),
        ("{-9}", true),
        ("{-8}", false),
        ("{-10}", false),
        ("x", false),
    ] {
        let expected = if met { parts(&[(0, 2)]) } else { Answer::Full };
        assert_eq!(of_whole(&format!("Range: bytes=0-1\nIf-Range: {condition}")), expected, "{condition}");
    }
    assert_eq!(of_whole("If-Range: \"b\""), Answer::Full);
    assert_eq!(of_whole("Range: bytes=0-1\nIf-None-Match: \"a\""), Answer::NotModified);
    // A date in the second in which the response was made may stand for two states.
    let young = Cache::holding("Cache-Control: max-age=9\nContent-Length: 10\nDate: {0}\nLast-Modified: {0}");
    let full = Decision::Hit { stored: 0, answer: Answer::Full };
    assert_eq!(young.get("Range: bytes=0-1\nIf-Range: {0}"), full);
}

/// RFC 9110, section 14.4.
#[test]
fn content_range() {
    let of = |text: &str| ContentRange::parse(text.as_bytes());
    assert_eq!(of("bytes 4-9/10"), Some(ContentRange { span: Some(span(4, 10)), length: Some(10) }));
    assert_eq!(of("BYTES 0-0/*"), Some(ContentRange { span: Some(span(0, 1)), length: None }));
    assert_eq!(of("bytes */10"), Some(ContentRange { span: None, length: Some(10) }));
    for text in [
        "",
        "bytes",
        "bytes 4-9",
        "bytes 4-9/",
        "bytes 4-10/10",
        "bytes 9-4/10",
        "bytes -4/10",
        "bytes 4-/10",
        "bytes */*",
        "items 4-9/10",
        "bytes=4-9/10",
        "bytes 4-9/1x",
        "bytes  4-9/10",
        "bytes 0-18446744073709551615/*",
    ] {
        assert_eq!(of(text), None, "{text}");
    }
}

fn part(range: &str, length: u64, more: &str) -> String {
    format!("Cache-Control: max-age=100\nContent-Range: bytes {range}\nContent-Length: {length}\n{more}")
}

fn holding_part(more: &str) -> Cache {
    let mut cache = Cache::new();
    assert_eq!(cache.fetch("Range: bytes=4-8", 206, &part("4-8/10", 5, more)), Became::Stored);
    cache
}

/// RFC 9111, section 3.3.
#[test]
fn parts_answer_for_what_they_hold() {
    let cache = holding_part("");
    for (range, expected) in [
        ("bytes=4-8", parts(&[(4, 9)])),
        ("bytes=6-8", parts(&[(6, 9)])),
        ("bytes=5-5, 7-8", parts(&[(5, 6), (7, 9)])),
        ("bytes=10-", Answer::Unsatisfiable),
    ] {
        assert_eq!(
            cache.get(&format!("Range: {range}")),
            Decision::Hit { stored: 0, answer: expected },
            "{range}"
        );
    }
    for range in ["bytes=3-5", "bytes=6-", "bytes=-1"] {
        assert_eq!(why(&cache.get(&format!("Range: {range}"))), "partial", "{range}");
    }
    assert_eq!(why(&cache.get("")), "partial");
    assert_eq!(
        (cache.held[0].status, cache.field("content-range"), cache.field("content-length")),
        (200, None, None)
    );
    assert_eq!(why(&cache.after(100).get("Range: bytes=4-8")), "stale");
}

#[test]
fn parts_that_reach_the_end_answer_for_suffixes() {
    let mut cache = Cache::new();
    assert_eq!(cache.fetch("Range: bytes=-5", 206, &part("5-9/10", 5, "")), Became::Stored);
    for (range, expected) in
        [("bytes=-5", (5, 10)), ("bytes=-1", (9, 10)), ("bytes=6-", (6, 10)), ("bytes=6-8", (6, 9))]
    {
        let hit = Decision::Hit { stored: 0, answer: parts(&[expected]) };
        assert_eq!(cache.get(&format!("Range: {range}")), hit, "{range}");
    }
}

#[test]
fn parts_of_unknown_length_answer_for_whole_ranges_alone() {
    let mut cache = Cache::new();
    assert_eq!(cache.fetch("Range: bytes=4-8", 206, &part("4-8/*", 5, "")), Became::Stored);
    assert_eq!(cache.get("Range: bytes=5-7"), Decision::Hit { stored: 0, answer: parts(&[(5, 8)]) });
    for range in ["bytes=5-", "bytes=-1", "bytes=4-9", "bytes=4-5, 7-8"] {
        assert_eq!(why(&cache.get(&format!("Range: {range}"))), "partial", "{range}");
    }
}

#[test]
fn parts_that_contradict_themselves_are_not_stored() {
    for fields in [
        "Content-Range: bytes 4-9/10\nContent-Length: 5",
        "Content-Range: bytes 4-9",
        "Content-Range: bytes */10",
        "Content-Range: bytes 0-1/10\nContent-Range: bytes 2-3/10",
        "Content-Type: multipart/byteranges; boundary=x",
    ] {
        let response = format!("Cache-Control: max-age=100\n{fields}");
        let became = Cache::new().fetch("Range: bytes=0-9", 206, &response);
        assert_eq!(became, Became::Passed(Refusal::Range), "{fields}");
    }
}

#[test]
fn a_part_of_another_length_than_its_content_range_is_not_cut() {
    let request = Text::new("Range: bytes=-5");
    let lines = request.lines();
    let request = Request::read("GET", TARGET, &lines);
    let cut = |length: &str| {
        let answer = Text::new(&format!("Content-Range: bytes 4-9/10\n{length}"));
        crate::cut::Cut::of(&request, 206, &answer.lines(), at(0)).is_some()
    };
    assert_eq!([cut("Content-Length: 5"), cut("Content-Length: 6"), cut("")], [false, true, true]);
}

/// RFC 9111, section 3.4.
#[test]
fn parts_are_completed_under_a_strong_validator() {
    let mut cache = holding_part("ETag: \"a\"");
    let complete = |missing: &[(u64, u64)]| Decision::Complete {
        stored: 0,
        missing: missing.iter().map(|(start, end)| span(*start, *end)).collect(),
        if_range: b"\"a\"".to_vec(),
    };
    assert_eq!(cache.get(""), complete(&[(0, 4), (9, 10)]));
    assert_eq!(cache.get("Range: bytes=6-"), complete(&[(9, 10)]));
    assert_eq!(cache.fetch("", 206, &part("0-3/10", 4, "ETag: \"a\"\nX: 2")), Became::Extended);
    assert_eq!(cache.field("x").as_deref(), Some("2"));
    assert_eq!(cache.fetch("", 206, &part("9-9/10", 1, "ETag: \"a\"")), Became::Extended);
    assert_eq!(cache.get(""), Decision::Hit { stored: 0, answer: Answer::Full });

    // Parts of another state or another length are not combined, nor parts with only a weak tag or a
    // date.
    for (first, second, length) in [
        ("ETag: \"a\"", "ETag: \"b\"", 10),
        ("ETag: \"a\"", "", 10),
        ("ETag: \"a\"", "ETag: W/\"a\"", 10),
        ("ETag: \"a\"", "ETag: \"a\"", 11),
        ("ETag: W/\"a\"", "ETag: W/\"a\"", 10),
        ("Last-Modified: {-999}", "Last-Modified: {-999}", 10),
    ] {
        let mut cache = holding_part(first);
        let became = cache.fetch("Range: bytes=0-3", 206, &part(&format!("0-3/{length}"), 4, second));
        assert_eq!(became, Became::Stored, "{first} {second} {length}: it takes the place of the old one");
        let Content::Parts(present, _) = &cache.held[0].content else { panic!("parts") };
        assert_eq!(present.iter().collect::<Vec<_>>(), [span(0, 4)]);
    }
    let mut cache = holding_part("ETag: \"a\"");
    assert_eq!(cache.fetch("", 416, ""), Became::Refetch);
    assert_eq!(cache.fetch("", 304, ""), Became::Refetch);
    assert_eq!(cache.fetch("", 200, WHOLE), Became::Stored);
    assert_eq!(cache.get("Range: bytes=-1"), Decision::Hit { stored: 0, answer: parts(&[(9, 10)]) });
}

#[test]
fn a_part_tells_the_length_of_those_that_did_not_know_it() {
    let mut cache = Cache::new();
    assert_eq!(cache.fetch("Range: bytes=4-8", 206, &part("4-8/*", 5, "ETag: \"a\"")), Became::Stored);
    assert_eq!(why(&cache.get("Range: bytes=9-9")), "partial");
    let shorter = part("0-3/8", 4, "ETag: \"a\"");
    assert_eq!(cache.fetch("Range: bytes=0-3", 206, &part("0-3/*", 4, "ETag: \"a\"")), Became::Extended);
    assert_eq!(cache.held[0].length(), None);
    assert_eq!(cache.fetch("Range: bytes=9-9", 206, &part("9-9/10", 1, "ETag: \"a\"")), Became::Extended);
    assert_eq!(cache.held[0].length(), Some(10));
    assert_eq!(cache.get(""), Decision::Hit { stored: 0, answer: Answer::Full });

    let mut cache = Cache::new();
    cache.fetch("Range: bytes=4-8", 206, &part("4-8/*", 5, "ETag: \"a\""));
    assert_eq!(cache.fetch("Range: bytes=0-3", 206, &shorter), Became::Stored, "bytes lie beyond its end");
    let mut cache = holding_part("ETag: \"a\"");
    let beyond = part("10-11/*", 2, "ETag: \"a\"");
    assert_eq!(cache.fetch("Range: bytes=3-9", 206, &beyond), Became::Stored, "it lies beyond the end");
}

#[test]
fn what_is_fetched_anew_is_no_less_than_there_was() {
    let again = |cache: &Cache, request: &str| {
        let text = Text::new(request);
        let lines = text.lines();
        refill(&Request::read("GET", TARGET, &lines), &cache.held[0], &cache.policy)
    };
    assert_eq!(again(&Cache::holding(WHOLE), "Range: bytes=0-1"), Fill::Whole);
    let mut cache = holding_part("ETag: \"a\"");
    assert_eq!(again(&cache, "Range: bytes=0-1"), Fill::Asked);
    assert_eq!(again(&cache, ""), Fill::Whole);
    cache.policy.range_fill = RangeFill::Slices(4);
    assert_eq!(again(&cache, "Range: bytes=0-1"), Fill::Span(span(0, 4)));
}

#[test]
fn without_a_strong_validator_the_rest_is_not_asked_for() {
    for more in ["", "ETag: W/\"a\"", "Last-Modified: {-99}"] {
        let miss = Decision::Miss { fill: Fill::Whole, why: Why::Partial, stored: None };
        assert_eq!(holding_part(more).get(""), miss, "{more}");
    }
}

#[test]
fn a_part_that_is_everything_is_a_whole() {
    let mut cache = Cache::new();
    assert_eq!(cache.fetch("Range: bytes=0-", 206, &part("0-9/10", 10, "")), Became::Stored);
    assert_eq!(cache.held[0].content, Content::Whole(Some(10)));
    assert_eq!(cache.get(""), Decision::Hit { stored: 0, answer: Answer::Full });
}

#[test]
fn what_is_fetched_for_a_range() {
    let fill = |policy: RangeFill, request: &str| {
        let cache = Cache::with(|values| values.range_fill = policy);
        match cache.get(request) {
            Decision::Miss { fill, why: Why::UriMiss, stored: None } => fill,
            other => panic!("{other:?}"),
        }
    };
    for (policy, request, expected) in [
        (RangeFill::Whole, "Range: bytes=5-9", Fill::Whole),
        (RangeFill::Asked, "Range: bytes=5-9", Fill::Asked),
        (RangeFill::Asked, "", Fill::Whole),
        (RangeFill::Asked, "Range: items=1", Fill::Whole),
        // Slices are fetched one by one: first the slice in which the range begins.
        (RangeFill::Slices(4), "Range: bytes=5-9", Fill::Span(span(4, 8))),
        (RangeFill::Slices(4), "Range: bytes=5-", Fill::Span(span(4, 8))),
        (RangeFill::Slices(4), "Range: bytes=5-6, 0-1", Fill::Span(span(4, 8))),
        (RangeFill::Slices(4), "Range: bytes=5-9\nIf-Range: \"a\"", Fill::Span(span(4, 8))),
        // The length must be known first.
        (RangeFill::Slices(4), "Range: bytes=-5", Fill::Span(span(0, 4))),
        (RangeFill::Slices(4), "", Fill::Span(span(0, 4))),
        // There is no such byte.
        (RangeFill::Slices(4), "Range: bytes=18446744073709551615-", Fill::Asked),
    ] {
        assert_eq!(fill(policy, request), expected, "{policy:?} {request}");
    }
}

#[test]
fn of_slices_the_first_that_is_missing_is_fetched_and_the_others_while_they_are_read() {
    let mut cache = Cache::with(|policy| policy.range_fill = RangeFill::Slices(4));
    assert_eq!(cache.fetch("Range: bytes=4-7", 206, &part("4-7/10", 4, "ETag: \"a\"")), Became::Stored);
    let complete = |start, end| Decision::Complete {
        stored: 0,
        missing: vec![span(start, end)],
        if_range: b"\"a\"".to_vec(),
    };
    let begin = |answer| Decision::Begin { stored: 0, answer };
    for (request, expected) in [
        ("Range: bytes=3-4", complete(0, 4)),
        ("Range: bytes=1-9", complete(0, 4)),
        ("Range: bytes=-1", complete(8, 10)),
        ("Range: bytes=9-9, 5-5", complete(8, 10)),
        ("", complete(0, 4)),
        ("Range: bytes=5-9\nIf-Range: \"b\"", complete(0, 4)),
        ("Range: bytes=6-8", begin(parts(&[(6, 9)]))),
        ("Range: bytes=-5", begin(parts(&[(5, 10)]))),
        ("Range: bytes=5-5, 9-9", begin(parts(&[(5, 6), (9, 10)]))),
        ("Range: bytes=6-7", Decision::Hit { stored: 0, answer: parts(&[(6, 8)]) }),
        ("Range: bytes=10-", Decision::Hit { stored: 0, answer: Answer::Unsatisfiable }),
    ] {
        assert_eq!(cache.get(request), expected, "{request}");
    }
    assert_eq!(cache.decide("HEAD", ""), Decision::Hit { stored: 0, answer: Answer::Full });
    assert_eq!(why(&cache.get("Range: bytes=6-8\nCache-Control: only-if-cached")), "504");
    assert_eq!(why(&cache.after(100).get("Range: bytes=6-8")), "stale");
}

#[test]
fn what_cannot_be_put_together_of_slices_is_fetched_as_it_was_asked_for() {
    for (more, length) in [("", "10"), ("ETag: W/\"a\"", "10"), ("ETag: \"a\"", "*")] {
        let mut cache = Cache::with(|policy| policy.range_fill = RangeFill::Slices(4));
        let response = part(&format!("4-7/{length}"), 4, more);
        assert_eq!(cache.fetch("Range: bytes=4-7", 206, &response), Became::Stored);
        let miss = Decision::Miss { fill: Fill::Whole, why: Why::Partial, stored: None };
        assert_eq!(cache.get(""), miss, "{more} {length}");
    }
}

#[test]
fn slices_end_with_what_they_are_of() {
    let slicing = Slicing { size: 4, length: 10 };
    assert_eq!(slicing.at(0), Some(span(0, 4)));
    assert_eq!(slicing.at(3), Some(span(0, 4)));
    assert_eq!(slicing.at(9), Some(span(8, 10)));
    assert_eq!(slicing.at(10), None);
}

/// RFC 9110, section 14.6.
#[test]
fn a_body_of_several_parts() {
    let multipart = Multipart::of(&[span(8, 10), span(0, 2)], 10, Some(b"video/mp4"), "B");
    let body = [&multipart.heads[0], b"89".as_slice(), &multipart.heads[1], b"01", &multipart.tail].concat();
    let expected = "\r\n--B\r\nContent-Type: video/mp4\r\nContent-Range: bytes 8-9/10\r\n\r\n89\
        \r\n--B\r\nContent-Type: video/mp4\r\nContent-Range: bytes 0-1/10\r\n\r\n01\r\n--B--\r\n";
    assert_eq!(String::from_utf8(body).unwrap(), expected);
    assert_eq!(multipart.length, expected.len() as u64);
    let plain = Multipart::of(&[span(0, 1)], 10, None, "B");
    assert_eq!(plain.heads, [b"\r\n--B\r\nContent-Range: bytes 0-0/10\r\n\r\n".to_vec()]);
}
