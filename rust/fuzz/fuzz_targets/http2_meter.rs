//! What a client of HTTP/2 did too often does not depend on the pieces in which its bytes came, and a plain count of whole
//! frames finds it where the frames are of one kind.
#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;
use penstock_engine::http2::{Excess, excess_of};

const PREFACE: usize = 24;
const HEAD: usize = 9;

/// The kinds and flags of frames whose heads are whole.
fn frames(bytes: &[u8]) -> Vec<(u8, u8)> {
    let mut rest = bytes.get(PREFACE..).unwrap_or_default();
    let mut found = Vec::new();
    while let Some((&[high, middle, low, kind, flags, ..], payload)) = rest.split_first_chunk::<HEAD>() {
        found.push((kind, flags));
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        rest = payload.get(length..).unwrap_or_default();
    }
    found
}

fuzz_target!(|input: &[u8]| {
    let [seed, sent, bytes @ ..] = input else { return };
    // The clock stands still.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let sent = vec![*sent; usize::from(*sent) * 4];
        let excess = excess_of([bytes], &sent);
        assert_eq!(excess, excess_of(support::pieces(bytes, *seed), &sent));
        let found = frames(bytes);
        let longest = found.split(|(kind, _)| *kind != 9).map(<[_]>::len).max().unwrap_or(0);
        if longest > 8 {
            assert!(excess.is_some());
        }
        if excess == Some(Excess::Continuations) {
            assert!(longest > 8);
        }
        // The rest takes a hundred frames at least.
        if found.len() < 100 && longest <= 8 && sent.is_empty() {
            assert_eq!(excess, None);
        }
    });
});
