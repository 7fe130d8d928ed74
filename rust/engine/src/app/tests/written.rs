//! Writes a response as the connection's task does: what was looked at is sent unless it ends within a head. Tests and
//! the fuzz target `checker` use it.

use super::response_reference::{Stand, Verdict};
use super::{BodyFraming, Checker};

/// The result of `pieces`, written one after the other, and the checker that has seen them.
pub(crate) fn write<'a>(
    is_head_request: bool,
    may_switch: bool,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Verdict, Checker) {
    let mut checker = Checker::new(if is_head_request { "HEAD" } else { "GET" }, may_switch);
    let (mut sent, mut held) = (0, 0);
    let mut is_refused = false;
    for piece in pieces {
        let Ok(kept) = checker.feed(piece) else {
            is_refused = true;
            break;
        };
        held += kept;
        if !checker.is_within_head() {
            sent += std::mem::take(&mut held);
        }
    }
    let stand = if is_refused { Stand::Refused } else { stand(&checker) };
    let verdict = Verdict {
        stand,
        status: checker.status(),
        keeps_alive: checker.keeps_alive(),
        continued: checker.has_continued(),
        most: sent,
    };
    (verdict, checker)
}

fn stand(checker: &Checker) -> Stand {
    match checker.rest() {
        _ if checker.drops_body() => Stand::Bodiless,
        _ if checker.is_complete() => Stand::Complete,
        _ if checker.has_switched() => Stand::Switched,
        _ if checker.is_within_head() => Stand::WithinHead,
        Ok(BodyFraming::Length(missing)) => Stand::Length(missing),
        Ok(BodyFraming::Chunked) => Stand::BetweenChunks,
        Ok(BodyFraming::UntilClose) => Stand::UntilClose,
        Ok(BodyFraming::Empty | BodyFraming::Tunnel) => Stand::Complete,
        Err(_) if checker.status().is_some() => Stand::WithinChunk,
        Err(_) => Stand::Nothing,
    }
}

/// Asserts that `pieces` are judged as `expected` says, and that the client sees no more of them than it may.
pub(crate) fn assert_judged(expected: &Verdict, is_head_request: bool, may_switch: bool, pieces: Vec<&[u8]>) {
    let (verdict, _) = write(is_head_request, may_switch, pieces);
    assert!(verdict.most <= expected.most, "{} bytes out of {}", verdict.most, expected.most);
    match expected.stand {
        // How far it came before depends on the pieces.
        Stand::Refused => assert_eq!(verdict.stand, Stand::Refused),
        // A piece that ends within a head is not sent at all.
        Stand::WithinHead => assert_eq!(Verdict { most: expected.most, ..verdict }, *expected),
        _ => assert_eq!(verdict, *expected),
    }
}

/// Asserts that `count` bytes from another sender, after `pieces` that stand as `stand` says, are taken if they fit, and
/// are an end if they fill what was announced.
pub(crate) fn assert_passed(stand: Stand, count: u64, mut checker: Checker) {
    let (fits, fills) = match stand {
        Stand::Length(missing) => {
            assert_eq!(checker.rest().unwrap(), BodyFraming::Length(missing));
            (count <= missing, count == missing)
        }
        Stand::BetweenChunks | Stand::UntilClose => (true, true),
        Stand::Complete | Stand::Bodiless => {
            assert_eq!(checker.rest().unwrap(), BodyFraming::Empty);
            (count == 0, true)
        }
        _ => return assert!(checker.rest().is_err()),
    };
    assert_eq!(checker.pass(count).is_ok(), fits);
    if fits {
        assert_eq!(checker.finish_rest().is_ok(), fills);
        assert_eq!(checker.is_complete(), fills);
    }
    if stand == Stand::Bodiless {
        assert_eq!(checker.feed(b"H").unwrap(), 0, "not sent");
    } else if fits && fills {
        assert!(checker.feed(b"H").is_err(), "a byte after the end");
    }
}
