//! What an application writes, in any pieces, against the plain second reading of the same rules: where it stands, that
//! no client sees more of it than one response, and what the engine may send after it.
#![no_main]

#[path = "../../http/src/wire/tests/reference.rs"]
#[expect(dead_code, reason = "the other targets use the rest")]
mod reference;
#[path = "../../engine/src/app/tests/response_reference.rs"]
mod response_reference;
mod support;
#[path = "../../engine/src/app/tests/written.rs"]
mod written;

use libfuzzer_sys::fuzz_target;
use penstock_engine::app::Checker;
use penstock_engine::wire::BodyFraming;
use response_reference::{Stand, response};
use written::{assert_judged, assert_passed, write};

fuzz_target!(|input: &[u8]| {
    let [seed, flags, bytes @ ..] = input else { return };
    let (is_head_request, may_switch) = (flags & 1 != 0, flags & 2 != 0);
    let expected = response(bytes, is_head_request, may_switch);
    assert_judged(&expected, is_head_request, may_switch, vec![bytes]);
    assert_judged(&expected, is_head_request, may_switch, bytes.chunks(1).collect());
    assert_judged(&expected, is_head_request, may_switch, support::pieces(bytes, *seed).collect());
    if expected.stand != Stand::Refused {
        let (_, checker) = write(is_head_request, may_switch, support::pieces(bytes, *seed));
        assert_passed(expected.stand, u64::from(flags >> 2), checker);
        let (_, mut checker) = write(is_head_request, may_switch, [bytes]);
        let is_end =
            matches!(expected.stand, Stand::Complete | Stand::Bodiless | Stand::Switched | Stand::UntilClose);
        assert_eq!(checker.finish().is_ok(), is_end);
    }
});
