//! Range against a second reading that names each byte by itself; Content-Range, If-Range and tags beside it.
#![no_main]

#[path = "../../rfc9111/src/tests/reference.rs"]
#[expect(dead_code, reason = "the other targets use the rest")]
mod reference;

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use penstock_engine::cache::{IfRange, Time};
use penstock_engine::wire::{ContentRange, EntityTag, Ranges, Selected, Tags};

/// More are answered with the whole.
const MOST: usize = 6;

fuzz_target!(|input: &[u8]| {
    let Some((length, value)) = input.split_first() else { return };
    let length = u64::from(*length) / 2;
    let expected = reference::range(value, length);
    let ranges = Ranges::parse(value);
    assert_eq!(ranges.is_some(), expected.is_some());
    if let Some((ranges, expected)) = ranges.zip(expected) {
        match ranges.select(length, MOST) {
            Selected::Whole => assert!(length == 0 || ranges.specs().len() > MOST),
            Selected::Unsatisfiable => assert!(expected.is_empty()),
            Selected::Parts(spans) => {
                let bytes: Vec<u64> = spans.iter().flat_map(|span| span.start()..span.end()).collect();
                assert_eq!(bytes.len(), expected.len(), "a byte is sent twice");
                assert_eq!(bytes.into_iter().collect::<BTreeSet<_>>(), expected);
            }
        }
    }
    if let Some(range) = ContentRange::parse(value) {
        assert_eq!(ContentRange::parse(range.to_text().as_bytes()), Some(range));
    }
    if let Some(tag) = EntityTag::parse(value) {
        assert_eq!(tag.to_bytes(), value);
        assert_eq!(Tags::parse([value].into_iter()), Some(Tags::These(vec![tag.clone()])));
        assert_eq!(IfRange::parse(value), IfRange::Tag(tag));
    }
    Tags::parse([value].into_iter());
    if let Some(time) = Time::parse(value) {
        assert_eq!(Time::parse(time.to_string().as_bytes()), Some(time));
    }
});
