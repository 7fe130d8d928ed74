//! The usage that is found is the one that a full parse of every event finds, however the stream was cut into reads.

use std::time::Instant;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::events_reference::dispatched;
use super::*;
use crate::framing::{Cutter, Framing};
use crate::pool::{Pool, Purpose, Slice};

fn slice(pool: &Pool, bytes: &[u8]) -> Slice {
    let mut writer = pool.writer(bytes.len(), Purpose::Bulk).unwrap();
    writer.spare()[..bytes.len()].copy_from_slice(bytes);
    writer.commit(bytes.len())
}

/// What is found in `stream`, which comes in pieces of these sizes, over and over.
fn found(stream: &[u8], sizes: &[usize], paths: Vec<Path>) -> (Option<Value>, u64, bool) {
    let now = Instant::now();
    let (inspector, _) = begun(rules(paths), "text/event-stream", now);
    POOL.with(|pool| {
        let mut cutter = Cutter::new(&Framing::Events { max_frame: 1 << 20, blocks: true });
        let (mut rest, mut sizes) = (stream, sizes.iter().cycle());
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at(rest.len().min(*sizes.next().expect("endless")));
            cutter.push(slice(pool, piece));
            while let Some(block) = cutter.next(pool).unwrap() {
                inspector.note(&block, now);
            }
            rest = tail;
        }
        while let Some(block) = cutter.finish(pool).unwrap() {
            inspector.note(&block, now);
        }
    });
    let satisfied = inspector.is_satisfied();
    let report = inspector.end(now);
    assert_eq!(report.bytes, stream.len() as u64, "every byte is noted");
    assert_eq!(report.hidden, None);
    let usage = report.usage.map(|usage| serde_json::from_slice(&usage).expect("a usage is JSON"));
    (usage, report.events, satisfied)
}

/// What a full parse finds.
fn expected(stream: &[u8], paths: &[Path]) -> (Option<Value>, u64) {
    let events = dispatched(stream);
    let paths: Vec<Vec<String>> = paths.iter().map(|path| path.names.clone()).collect();
    let usage = reference::usage(events.iter().map(|event| event.data.as_str()), &paths);
    (usage.map(Value::Object), events.len() as u64)
}

const RECORDED: [(&str, &[u8]); 5] = [
    ("openai_chat", include_bytes!("../../../../../tests/data/token_streams/openai_chat.sse")),
    ("openai_responses", include_bytes!("../../../../../tests/data/token_streams/openai_responses.sse")),
    ("anthropic", include_bytes!("../../../../../tests/data/token_streams/anthropic.sse")),
    ("many_lines", include_bytes!("../../../../../tests/data/token_streams/many_lines.sse")),
    ("gemini", include_bytes!("../../../../../tests/data/token_streams/gemini.sse")),
];

/// Of the streams above.
const EXPECTED: &str = include_str!("../../../../../tests/data/token_streams/expected.json");

fn paths_of(name: &str) -> Vec<Path> {
    if name == "gemini" {
        return vec![Path { names: vec!["usageMetadata".to_owned()], is_final: false }];
    }
    paths()
}

#[test]
fn streams_of_known_shapes_give_their_usage_split_at_every_byte() {
    let known: Value = serde_json::from_str(EXPECTED).unwrap();
    for (name, stream) in RECORDED {
        let known = &known[name];
        let usage = Some(known["usage"].clone());
        assert_eq!(
            expected(stream, &paths_of(name)),
            (usage.clone(), known["events"].as_u64().unwrap()),
            "{name}"
        );
        for at in 1..stream.len() {
            let (found, events, satisfied) = found(stream, &[at, stream.len()], paths_of(name));
            assert_eq!(found, usage, "{name} split at {at}");
            assert_eq!(events, known["events"].as_u64().unwrap(), "{name} split at {at}");
            assert_eq!(satisfied, known["final"].as_bool().unwrap(), "{name} split at {at}");
        }
        assert_eq!(found(stream, &[1], paths_of(name)).0, usage, "{name} byte by byte");
    }
}

#[test]
fn a_usage_that_was_broken_off_is_none() {
    for (name, stream) in RECORDED {
        for end in 0..stream.len() {
            let stream = &stream[..end];
            let (usage, events, _) = found(stream, &[7], paths_of(name));
            assert_eq!((usage, events), expected(stream, &paths_of(name)), "{name} up to {end}");
        }
    }
}

#[test]
fn text_that_looks_like_a_usage_is_none() {
    for data in [
        r#"{"choices":[{"delta":{"content":"\"usage\": {\"total_tokens\": 1}"}}]}"#,
        r#"{"content":"\\\"usage\":{"}"#,
        r#"{"usage":"{}","x\"usage":{"a":1}}"#,
        r#"{"a":"usage","b":{"c":1}}"#,
        r#"["usage",{"usage":{"a":1}}]"#,
        r#"{"choices":[{"usage":{"a":1}}]}"#,
        r#"{"other":{"usage":{"a":1}}}"#,
        r#"{"message":{"inner":{"usage":{"a":1}}}}"#,
        r#"{"usage":{"a":1}"#,
        r#"{"usage":{"a":1}}}"#,
        r#"{"usage":{"a":1},"usage":null}"#,
        r#""usage":{"a":1}"#,
        r#"{"usage":[{"a":1}]}"#,
    ] {
        let stream = format!("data: {data}\n\n");
        assert_eq!(expected(stream.as_bytes(), &paths()).0, None, "the test is wrong about {data}");
        assert_eq!(found(stream.as_bytes(), &[1000], paths()).0, None, "{data}");
    }
}

#[test]
fn a_usage_may_be_written_in_any_way_that_is_json() {
    for data in [
        r#"{"usage":{"a":1}}"#,
        r#" { "usage" : { "a" : 1 } } "#,
        "{\"usage\"\t:\t{\"a\":1}}",
        "{\"usage\"\ndata: :\ndata:{\"a\"\ndata:\ndata::1}}",
        r#"{"usage":null,"usage":{"a":1}}"#,
        r#"{"x":"\\","usage":{"a":1},"y":[{}]}"#,
        r#"{"usage":{"a":2,"a":1}}"#,
    ] {
        let stream = format!("data:{data}\n\n");
        assert_eq!(
            expected(stream.as_bytes(), &paths()).0,
            Some(json!({"a": 1})),
            "the test is wrong about {data}"
        );
        assert_eq!(found(stream.as_bytes(), &[1000], paths()).0, Some(json!({"a": 1})), "{data}");
    }
}

#[test]
fn later_values_take_the_place_of_earlier_ones_name_by_name() {
    let stream = br#"data: {"usage":{"a":1,"b":{"c":1},"d":null}}

data: {"usage":{"b":{"e":2},"\u0061":3}}

data: {"usage":{}}

"#;
    let usage = Some(json!({"a": 3, "b": {"e": 2}, "d": null}));
    assert_eq!(expected(stream, &paths()).0, usage);
    assert_eq!(found(stream, &[1000], paths()).0, usage);
}

#[test]
fn a_usage_that_is_too_large_is_said_to_be_missing() {
    let now = Instant::now();
    for streams in [
        vec![format!("data: {{\"usage\":{{\"a\":\"{}\"}}}}\n\n", "x".repeat(4096))],
        (0..3).map(|at| format!("data: {{\"usage\":{{\"{at}\":\"{}\"}}}}\n\n", "x".repeat(2000))).collect(),
    ] {
        let (inspector, counts) = begun(rules(paths()), "text/event-stream", now);
        for block in &streams {
            inspector.note(block.as_bytes(), now);
        }
        inspector.note(b"data: {\"usage\":{\"b\":1}}\n\n", now);
        let report = inspector.end(now);
        assert_eq!((report.usage, report.hidden), (None, Some(Hidden::TooLarge)));
        assert_eq!((counts.sums().hidden, counts.sums().with_usage), (1, 0));
    }
}

#[test]
fn deltas_are_turned_away_without_a_parse() {
    let wanted = Wanted::new(paths());
    for block in [
        "data: {\"usage\":null}\n\n",
        "data: {\"a\":\"usage\"}\n\n",
        "data: \"usage\": \"{\"\n\n",
        "data: {}\n\n",
    ] {
        assert!(!wanted.may_have(block.as_bytes()), "{block}");
    }
    for block in [
        "data: {\"usage\": {\n\n",
        "data: {\"usage\"\ndata: :{\n\n",
        "data: {\"usage\":null,\"usage\":{}}\n\n",
    ] {
        assert!(wanted.may_have(block.as_bytes()), "{block}");
    }
}

/// Pieces of JSON, whole and broken, so that short texts meet every case.
const TOKENS: &[&str] = &[
    "{",
    "}",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"usage\"",
    "\"usage\":{\"a\":1}",
    "\"usage\":null",
    "\"response\":",
    "\"message\":",
    "\"x\":",
    "\"a\":",
    "1",
    "2",
    "null",
    "\"",
    "\\",
    "\\\"",
    " ",
    "\n",
    "\\\"usage\\\":{",
];

fn name() -> impl Strategy<Value = String> {
    select(&["usage", "response", "message", "a", "b", "usage\":{", "\\", "\u{e9}"][..])
        .prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i32>().prop_map(Value::from),
        select(&["usage", "\"usage\": {\"a\": 1}", "{\"usage\":{}}", "\\", "\n"][..]).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((name(), inner), 0..4).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// The data of one event.
fn data() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => (value(), any::<bool>()).prop_map(|(value, pretty)| {
            if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap()
        }),
        1 => vec(select(TOKENS), 0..12).prop_map(|tokens| tokens.concat()),
    ]
}

/// One event, or something between two.
fn block() -> impl Strategy<Value = String> {
    let lines = (data(), select(&["\n", "\r\n", "\r"][..]), select(&["data: ", "data:"][..]), any::<bool>());
    let event = lines.prop_map(|(data, end, field, named)| {
        let name = if named { format!("event: x{end}") } else { String::new() };
        let lines: Vec<String> = data.split('\n').map(|line| format!("{field}{line}{end}")).collect();
        [name, lines.concat(), end.to_owned()].concat()
    });
    prop_oneof![6 => event, 1 => select(&[": x\n", "id: 1\n\n", "\n", "data\n\n"][..]).prop_map(str::to_owned)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn what_is_found_is_what_a_full_parse_finds(
        blocks in vec(block(), 0..6),
        mark in any::<bool>(),
        cut in 0..3_usize,
        sizes in vec(1..40_usize, 1..6),
    ) {
        let mark = if mark { "\u{feff}" } else { "" };
        let stream = [mark, &blocks.concat()].concat();
        let mut end = stream.len().saturating_sub(cut);
        while !stream.is_char_boundary(end) {
            end -= 1;
        }
        let stream = &stream.as_bytes()[..end];
        let (usage, events, _) = found(stream, &sizes, paths());
        prop_assert_eq!((usage, events), expected(stream, &paths()), "{:?}", String::from_utf8_lossy(stream));
    }

    #[test]
    fn a_whole_body_is_looked_into_as_an_event_is(data in data()) {
        let now = Instant::now();
        let (inspector, _) = begun(rules(paths()), "application/json", now);
        for piece in data.as_bytes().chunks(5) {
            inspector.note(piece, now);
        }
        let names: Vec<Vec<String>> = paths().into_iter().map(|path| path.names).collect();
        let expected = reference::usage(std::iter::once(data.as_str()), &names).map(Value::Object);
        let usage = inspector.end(now).usage.map(|usage| serde_json::from_slice::<Value>(&usage).unwrap());
        prop_assert_eq!(usage, expected, "{}", data);
    }
}
