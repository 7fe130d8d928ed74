//! The blocks of any text give the events that the WHATWG algorithm dispatches over the whole text, and a block that no
//! cutter made breaks nothing.
#![no_main]

#[path = "../../http/src/framing/tests/reference.rs"]
#[expect(dead_code, reason = "framing uses the rest")]
mod reference;
mod support;

use std::ops::Range;

use libfuzzer_sys::fuzz_target;
use penstock_engine::framing::event::{Event, parse};
use penstock_engine::framing::{Cutter, Framing};
use reference::{Dispatched, dispatched};

fn page_sees(block: &[u8], event: &Event) -> Dispatched {
    let text = |range: &Range<usize>| String::from_utf8_lossy(&block[range.clone()]).into_owned();
    let lines: Vec<String> = event.data.lines().map(text).collect();
    let data = String::from_utf8_lossy(&event.data.joined(block)).into_owned();
    assert_eq!(data, lines.join("\n"));
    assert_eq!(event.data.only().is_some(), lines.len() == 1);
    Dispatched {
        event: event.name.as_ref().map_or_else(|| "message".to_owned(), text),
        data,
        id: event.id.as_ref().map(text),
        retry: event.retry,
    }
}

fn check(text: &[u8], blocks: bool) {
    let mut cutter = Cutter::new(&Framing::Events { max_frame: usize::MAX, blocks });
    cutter.push(support::slice(text));
    let mut found = Vec::new();
    while let Some(block) = cutter.finish(support::pool()).expect("no maximum is exceeded") {
        let event = parse(&block);
        assert!(blocks || event.dispatches(), "a frame that is no event");
        if event.dispatches() {
            found.push(page_sees(&block, &event));
        }
    }
    assert_eq!(found, dispatched(text));
}

fuzz_target!(|text: &[u8]| {
    parse(text);
    check(text, false);
    check(text, true);
});
