//! Cache-Control of a response, against the plain second reading of the same rules.
#![no_main]

#[path = "../../rfc9111/src/tests/reference.rs"]
#[expect(dead_code, reason = "the other targets use the rest")]
mod reference;

#[path = "../../rfc9111/src/tests/plain.rs"]
mod plain;

use libfuzzer_sys::fuzz_target;
use penstock_engine::cache::{RequestControl, ResponseControl, Scope};

fuzz_target!(|input: &[u8]| {
    let lines: Vec<_> = input.split(|byte| *byte == b'\n').collect();
    let control = ResponseControl::parse(lines.iter().copied());
    assert_eq!(plain::plain(&control), reference::control(&lines));
    // What one line says, two lines with a half each say too, wherever the comma was.
    let joined = lines.join(b",".as_slice());
    if !input.contains(&b'"') {
        assert_eq!(ResponseControl::parse([joined.as_slice()].into_iter()), control);
    }
    RequestControl::parse(lines.iter().copied(), lines.iter().copied());
});
