//! The usage of any stream of events is the one that a full parse of every event finds, and what is added to a request
//! changes nothing else.
#![no_main]

#[path = "../../http/src/framing/tests/reference.rs"]
#[expect(dead_code, reason = "framing uses the rest")]
mod events;
#[path = "../../engine/src/inspect/tests/reference.rs"]
mod reference;
mod support;

use std::sync::Arc;
use std::time::Instant;

use libfuzzer_sys::fuzz_target;
use penstock_engine::framing::{Cutter, Framing};
use penstock_engine::inspect::{Amendment, Counts, Inspector, Names, Path, Rules, Wanted};
use serde_json::{Map, Value};

const PATHS: [&[&str]; 3] = [&["message", "usage"], &["usage"], &["response", "usage"]];

fn paths() -> Vec<Vec<String>> {
    PATHS.iter().map(|names| names.iter().map(|name| (*name).to_owned()).collect()).collect()
}

fn found(text: &[u8], pieces: u8) -> Option<Vec<u8>> {
    let paths = paths().into_iter().map(|names| Path { names, is_final: true }).collect();
    let rules = Rules {
        wanted: Wanted::new(paths),
        tokens: Names::default(),
        amendment: None,
        max_request: 0,
        max_response: 0,
    };
    let now = Instant::now();
    let inspector =
        Inspector::new(Arc::new(rules), Arc::new(Counts::default()), support::pool(), 0, false, now);
    inspector.begin(Some(b"text/event-stream"), None);
    let mut cutter = Cutter::new(&Framing::Events { max_frame: usize::MAX, blocks: true });
    for piece in support::pieces(text, pieces) {
        cutter.push(support::slice(piece));
        while let Some(block) = cutter.next(support::pool()).expect("no maximum is exceeded") {
            inspector.note(&block, now);
        }
    }
    while let Some(block) = cutter.finish(support::pool()).expect("no maximum is exceeded") {
        inspector.note(&block, now);
    }
    inspector.end(now).usage.map(Into::into)
}

fn amend(text: &str) {
    let more = r#"{"stream_options":{"include_usage":true}}"#;
    let amendment = Amendment::new(more.into(), false).expect("it is an object");
    let Some(amended) = amendment.apply(text.as_bytes()) else { return };
    let amended: Map<String, Value> = match serde_json::from_slice(&amended) {
        Ok(amended) => amended,
        // It reads half of a surrogate pair, an enormous number or the last level of nesting as none.
        Err(_) => return assert!(serde_json::from_str::<Value>(text).is_err()),
    };
    let mut expected: Map<String, Value> = serde_json::from_str(text).expect("it was JSON before");
    assert_eq!(expected["stream"], Value::Bool(true));
    let options = expected.entry("stream_options").or_insert_with(|| Value::Object(Map::new()));
    options
        .as_object_mut()
        .expect("it is added to objects alone")
        .insert("include_usage".to_owned(), Value::Bool(true));
    assert_eq!(amended, expected);
}

/// Whether the two may differ about this data: in names with escapes, which are not searched for, and in what is JSON to the
/// grammar and no value to `serde_json`.
fn is_disputed(data: &str) -> bool {
    let out_of_range = |error: serde_json::Error| error.to_string().starts_with("number out of range");
    data.contains("\\u")
        || data.matches(['{', '[']).count() > 100
        || serde_json::from_str::<Value>(data).is_err_and(out_of_range)
}

fuzz_target!(|input: (u8, &str)| {
    let (pieces, text) = input;
    amend(text);
    let found = found(text.as_bytes(), pieces);
    let events = events::dispatched(text.as_bytes());
    // A usage may be too large to be kept.
    if text.len() > 4096 || events.iter().any(|event| is_disputed(&event.data)) {
        return;
    }
    let expected = reference::usage(events.iter().map(|event| event.data.as_str()), &paths());
    let found = found.map(|usage| serde_json::from_slice(&usage).expect("a usage is JSON"));
    assert_eq!(found, expected.map(Value::Object));
});
