//! Any chunking gives the frames of the reference.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::events::dispatched_of;
use super::reference::{self, dispatched, events, fixed, length_prefixed, lines};
use super::*;

fn config() -> ProptestConfig {
    if cfg!(miri) {
        // Miri has no file system to remember failures in.
        return ProptestConfig { cases: 2, failure_persistence: None, ..ProptestConfig::default() };
    }
    ProptestConfig { cases: 2000, ..ProptestConfig::default() }
}

fn pieces() -> impl Strategy<Value = Vec<(usize, bool)>> {
    vec((1..9_usize, any::<bool>()), 1..8)
}

/// Text of bytes that a format treats specially, so that short texts reach every case.
fn text(tokens: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<u8>> {
    vec(select(tokens), 0..40).prop_map(|tokens| tokens.concat())
}

const LINES: &[&[u8]] = &[b"\n", b"\r", b"\r\n", b"x", b"abc", b"\0"];

const EVENTS: &[&[u8]] = &[
    b"\n",
    b"\n",
    b"\r",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"data",
    b"data:",
    b"data: ",
    b"da",
    b"ta",
    b":",
    b" ",
    b"id",
    b"id:7",
    b"event:",
    b"retry:",
    b"42",
    b"x",
    b"\0",
    b"\xEF\xBB\xBF",
    b"\xEF",
    b"\xE2\x80",
];

/// With a byte order mark at the start in half of the cases.
fn stream_of_events() -> impl Strategy<Value = Vec<u8>> {
    (any::<bool>(), text(EVENTS)).prop_map(|(mark, text)| {
        let mark: &[u8] = if mark { b"\xEF\xBB\xBF" } else { b"" };
        [mark, &text].concat()
    })
}

/// Small numbers, so that enough bytes often follow a prefix.
fn prefixed() -> impl Strategy<Value = Vec<u8>> {
    vec(select(&[0_u8, 0, 0, 1, 2, 3, 5, 200][..]), 0..60)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn fixed_sizes(text in vec(any::<u8>(), 0..80), size in 1..20_usize, pieces in pieces()) {
        let expected = fixed(&text, size);
        prop_assert_eq!(cut(&Framing::Fixed { size }, &text, &pieces), expected);
    }

    #[test]
    fn length_prefixes(
        text in prefixed(),
        width in select(&[1_u8, 2, 4, 8][..]),
        little_endian: bool,
        max_frame in 1..300_usize,
        pieces in pieces(),
    ) {
        let expected = length_prefixed(&text, width.into(), little_endian, max_frame);
        let framing = Framing::LengthPrefixed { width, little_endian, max_frame };
        prop_assert_eq!(cut(&framing, &text, &pieces), expected);
    }

    #[test]
    fn line_ends(text in text(LINES), max_frame in 1..12_usize, pieces in pieces()) {
        let expected = lines(&text, max_frame);
        prop_assert_eq!(cut(&Framing::Lines { max_frame }, &text, &pieces), expected);
    }

    #[test]
    fn event_blocks(text in stream_of_events(), max_frame in 1..60_usize, blocks: bool, pieces in pieces()) {
        let expected = events(&text, max_frame, blocks);
        prop_assert_eq!(cut(&Framing::Events { max_frame, blocks }, &text, &pieces), expected);
    }

    #[test]
    fn dispatched_events(text in stream_of_events(), pieces in pieces()) {
        let expected = dispatched(&text);
        for blocks in [false, true] {
            let (frames, end) = cut(&Framing::Events { max_frame: 1000, blocks }, &text, &pieces);
            prop_assert_eq!(end, End::Clean);
            if blocks {
                prop_assert_eq!(frames.concat(), text.clone());
            } else {
                prop_assert_eq!(frames.len(), expected.len());
            }
            prop_assert_eq!(dispatched_of(&frames), expected.clone());
        }
    }

    #[test]
    fn raw_is_untouched(text in vec(any::<u8>(), 0..80), pieces in pieces()) {
        let (frames, end) = cut(&Framing::Raw, &text, &pieces);
        prop_assert_eq!(end, End::Clean);
        let lengths = pieces.iter().map(|&(length, _)| length).cycle();
        prop_assert!(frames[..frames.len().max(1) - 1].iter().map(Vec::len).eq(lengths.take(frames.len().max(1) - 1)));
        prop_assert_eq!(frames.concat(), text);
    }

    #[test]
    fn a_refusal_by_the_pool_loses_nothing(text in text(LINES), pieces in pieces(), refusals in vec(any::<bool>(), 1..9)) {
        let expected = reference::lines(&text, 1000);
        prop_assert_eq!(super::cutter::cut_under_refusals(&text, &pieces, &refusals), expected);
    }
}
