//! Server-sent events: the public cases, and splits at a CR.

use std::borrow::Cow;
use std::ops::Range;

use super::reference::{Dispatched, blocks, dispatched};
use super::*;
use crate::framing::event::{Event, parse};

const MAX: usize = 8192;
const EVENTS: Framing = Framing::Events { max_frame: MAX, blocks: false };
const BLOCKS: Framing = Framing::Events { max_frame: MAX, blocks: true };

/// The examples of the HTML standard and the format cases of web-platform-tests, shared with Python's tests.
const CASES: &str = include_str!("../../../../../tests/data/sse_cases.json");

/// The event that a page would get from a block.
pub(super) fn page_sees(block: &[u8], event: &Event) -> Dispatched {
    let text = |range: &Range<usize>| String::from_utf8_lossy(&block[range.clone()]).into_owned();
    let lines: Vec<String> = event.data.lines().map(text).collect();
    Dispatched {
        event: event.name.as_ref().map_or_else(|| "message".to_owned(), text),
        data: lines.join("\n"),
        id: event.id.as_ref().map(text),
        retry: event.retry,
    }
}

pub(super) fn dispatched_of(frames: &[Vec<u8>]) -> Vec<Dispatched> {
    frames
        .iter()
        .map(|block| (block, parse(block)))
        .filter(|(_, event)| event.dispatches())
        .map(|(block, event)| page_sees(block, &event))
        .collect()
}

fn expected(case: &serde_json::Value) -> Vec<Dispatched> {
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let events = case["events"].as_array().unwrap().iter();
    events
        .map(|event| Dispatched {
            event: text(&event["event"]).unwrap(),
            data: text(&event["data"]).unwrap(),
            id: text(&event["id"]),
            retry: event["retry"].as_u64(),
        })
        .collect()
}

#[test]
fn the_public_cases_pass_however_they_are_split() {
    let cases: Vec<serde_json::Value> = serde_json::from_str(CASES).unwrap();
    assert!(cases.len() > 40);
    // Miri would take an hour for the long ones, and a minute and a half for all the short ones.
    let cases = cases.iter().filter(|case| !cfg!(miri) || case["input"].as_str().unwrap().len() < 60);
    for case in cases.step_by(if cfg!(miri) { 6 } else { 1 }) {
        let (name, input) = (&case["name"], case["input"].as_str().unwrap().as_bytes());
        let expected = expected(case);
        assert_eq!(dispatched(input), expected, "the reference disagrees with {name}");
        let (frames, end) = cut_anyhow(&EVENTS, input);
        assert_eq!(end, End::Clean);
        assert_eq!(frames.len(), expected.len(), "{name}: a frame for each event and no other");
        assert_eq!(dispatched_of(&frames), expected, "{name}");
        let (frames, end) = cut_anyhow(&BLOCKS, input);
        assert_eq!(end, End::Clean);
        assert_eq!(dispatched_of(&frames), expected, "{name} as blocks");
        assert_eq!(frames.concat(), input, "{name}: every byte is relayed");
    }
}

#[test]
fn a_block_keeps_its_bytes_and_its_blank_line() {
    for (text, expected) in [
        (&b"data:1\n\ndata:2\n\n"[..], &[&b"data:1\n\n"[..], b"data:2\n\n"][..]),
        (b"data:1\r\n\r\nid\r\n\r\n", &[b"data:1\r\n\r\n", b"id\r\n\r\n"]),
        // A blank line that is a bare CR after a bare CR cuts at once; an LF after it is a blank line.
        (b"a\r\r\nb\r\r\n", &[b"a\r\r", b"\n", b"b\r\r", b"\n"]),
        (b"a\r\r\n\nb\n\n", &[b"a\r\r", b"\n", b"\n", b"b\n\n"]),
        (b"a\r\rb\r\r", &[b"a\r\r", b"b\r\r"]),
        // After any other end of line, a CR waits for its LF.
        (b"a\n\rb\n\r\nc\r\n\r", &[b"a\n\r", b"b\n\r\n", b"c\r\n\r"]),
        (b"a\rb\n\r\n\r", &[b"a\rb\n\r\n", b"\r"]),
        // A blank line before a block is a frame.
        (b"\n\r\n\r\na\n\n\nb\n\n\n", &[b"\n", b"\r\n", b"\r\n", b"a\n\n", b"\n", b"b\n\n", b"\n"]),
        (b"\n\r\r\n\r\na\n\n", &[b"\n", b"\r", b"\r", b"\n", b"\r\n", b"a\n\n"]),
        // So is a comment line there; a comment line after a field is a line of its block.
        (b":\n:c\n\na\n:d\n\n", &[b":\n", b":c\n", b"\n", b"a\n:d\n\n"]),
        (b"\xEF\xBB\xBF:c\r\n:d\r\n\r\n", &[b"\xEF\xBB\xBF", b":c\r\n", b":d\r\n", b"\r\n"]),
        // Its CR, too, waits for an LF except after a bare CR.
        (b":\r:\r\n:\r\n:\r", &[b":\r", b":\r", b"\n", b":\r\n", b":\r"]),
        (b"a\r\r:\r:\r\r", &[b"a\r\r", b":\r", b":\r", b"\r"]),
        // A byte order mark at the start is no part of the first block, so that the block can be parsed alone.
        (b"\xEF\xBB\xBFa\n\n\xEF\xBB\xBFb\n\n", &[b"\xEF\xBB\xBF", b"a\n\n", b"\xEF\xBB\xBFb\n\n"]),
        (b"\xEF\xBBa\n\n", &[b"\xEF\xBBa\n\n"]),
        (b"\xEF\xBB\n\n", &[b"\xEF\xBB\n\n"]),
        // An unfinished block is relayed unchanged.
        (b"a\n\nb\r", &[b"a\n\n", b"b\r"]),
        (b"\xEF\xBB", &[b"\xEF\xBB"]),
    ] {
        assert_eq!(cut_anyhow(&BLOCKS, text), (frames(expected), End::Clean), "{}", text.escape_ascii());
        assert_eq!(blocks(text, true), expected, "the reference disagrees: {}", text.escape_ascii());
    }
}

#[test]
fn only_blocks_with_data_are_events() {
    let text = b"\xEF\xBB\xBF\n:c\n\nid:1\nretry:2\n\n\r\ndata\n\n\ndata:\n\ndat\n\ndata\0:\n\nxdata:\n\nid:2\ndata: x";
    assert_eq!(cut_anyhow(&EVENTS, text), (frames(&[b"data\n\n", b"data:\n\n"]), End::Clean));
    // Bytes that only begin like a byte order mark belong to the name of a field.
    for text in [&b"\xEFdata:1\n\n"[..], b"\xEF\xBBdata:1\n\n", b"\xEF\xBB\xBF\xEFdata:1\n\n"] {
        assert_eq!(cut_anyhow(&EVENTS, text), (vec![], End::Clean));
    }
    let text = b"data:1\r\r\ndata:2\r\r\n\ndata:3\n\r";
    let expected: &[&[u8]] = &[b"data:1\r\r", b"data:2\r\r", b"data:3\n\r"];
    assert_eq!(cut_anyhow(&EVENTS, text), (frames(expected), End::Clean));
}

/// The number of bytes of `text` after which each frame is complete.
fn arrivals(framing: &Framing, text: &str) -> Vec<usize> {
    POOL.with(|pool| {
        let mut cutter = Cutter::new(framing);
        let mut slabs = Slabs::new(pool);
        let mut arrivals = Vec::new();
        for (at, byte) in text.bytes().enumerate() {
            cutter.push(slabs.slice(&[byte]));
            while cutter.next(pool).unwrap().is_some() {
                arrivals.push(at + 1);
            }
        }
        arrivals
    })
}

#[test]
fn a_bare_cr_stream_is_not_late_by_a_byte() {
    for (text, cut_at) in [("data:1\r\r", 8), ("data:1\n\r\n", 9), ("data:1\n\n", 8), ("data:1\r\n\r\n", 10)]
    {
        assert_eq!(arrivals(&EVENTS, text), [cut_at], "{text:?}");
    }
}

#[test]
fn a_heartbeat_passes_a_relay_when_it_arrives() {
    for (text, expected) in [
        (":\n", &[2][..]),
        (":\r\n", &[3]),
        ("data:1\n\n:\n:\n", &[8, 10, 12]),
        ("data:1\r\n\r\n:\r\n", &[10, 13]),
        ("data:1\r\r:\r:\r", &[8, 10, 12]),
        (": c\n\n", &[4, 5]),
        ("\n\n", &[1, 2]),
        // After a field it is a line of the block.
        ("data:1\n:\n\n", &[10]),
    ] {
        assert_eq!(arrivals(&BLOCKS, text), expected, "{text:?}");
    }
}

#[test]
fn a_block_may_fill_its_maximum_and_not_pass_it() {
    let framing = |blocks| Framing::Events { max_frame: 8, blocks };
    for blocks in [false, true] {
        let text = b"data:1\n\ndata:1\n\rdata:1\r\r";
        let expected: &[&[u8]] = &[b"data:1\n\n", b"data:1\n\r", b"data:1\r\r"];
        assert_eq!(cut_anyhow(&framing(blocks), text), (frames(expected), End::Clean));
        for text in [&b"data:1\n\r\n"[..], b"data:12\n\n", b":comment\n", b"data:1234", b"\xEF\xBB1234567"] {
            assert_eq!(
                cut_anyhow(&framing(blocks), text),
                (vec![], End::TooLarge),
                "{}",
                text.escape_ascii()
            );
        }
    }
    // Blank lines count where they are delivered.
    let tiny = |blocks| Framing::Events { max_frame: 1, blocks };
    assert_eq!(cut_anyhow(&tiny(true), b"\n\r\n"), (frames(&[b"\n"]), End::TooLarge));
    assert_eq!(cut_anyhow(&tiny(false), b"\n\r\n"), (vec![], End::Clean));
    assert_eq!(cut_anyhow(&framing(true), b":1\n:2\n:3\n\n").0, frames(&[b":1\n", b":2\n", b":3\n", b"\n"]));
    assert_eq!(cut_anyhow(&framing(false), b":1\n:2\n:3\n\n"), (vec![], End::TooLarge));
    let tiny = tiny(true);
    assert_eq!(cut_anyhow(&tiny, b"\xEF\xBB\xBF\n"), (frames(&[b"\xEF\xBB\xBF", b"\n"]), End::Clean));
    assert_eq!(cut_anyhow(&tiny, b"\xEF\xBB"), (vec![], End::TooLarge));
}

#[test]
fn the_data_of_one_line_is_one_range() {
    let block = b"event: add\ndata: one\nid: 7\n\n";
    let event = parse(block);
    assert_eq!(&block[event.data.only().unwrap().clone()], b"one");
    assert!(matches!(event.data.joined(block), Cow::Borrowed(b"one")));
    assert_eq!(&block[event.name.unwrap()], b"add");

    let block = b"data: one\ndata\ndata:  three\n\n";
    let event = parse(block);
    assert_eq!(event.data.only(), None);
    assert_eq!(event.data.lines().cloned().collect::<Vec<_>>(), [6..9, 14..14, 21..27]);
    assert_eq!(&*event.data.joined(block), b"one\n\n three");
    assert_eq!(&*parse(b": no data\n\n").data.joined(b""), b"");
}

#[test]
fn a_block_without_its_blank_line_is_not_dispatched() {
    for unfinished in [&b"data:1"[..], b"data:1\n", b"data:1\r\n", b"data:1\r", b"", b"\n\ndata:1\n"] {
        assert!(!parse(unfinished).dispatches(), "{}", unfinished.escape_ascii());
    }
    for finished in [&b"data:1\n\n"[..], b"data:1\r\r", b"data:1\r\n\r", b"\ndata:1\n\n", b"data\n\n"] {
        assert!(parse(finished).dispatches(), "{}", finished.escape_ascii());
    }
    assert!(!parse(b":1\n\n").dispatches());
}

#[test]
fn a_retry_beyond_64_bits_counts_as_missing() {
    assert_eq!(parse(b"retry:18446744073709551615\n\n").retry, Some(u64::MAX));
    assert_eq!(parse(b"retry:5\nretry:18446744073709551616\n\n").retry, Some(5));
}
