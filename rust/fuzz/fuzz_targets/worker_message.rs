//! Whatever the other process says, it is one message or none: what is read is written again as the bytes that it was read
//! from, so that no two texts are the same message, and no part of a text is passed over.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_engine::Code;
use penstock_engine::workers::rewritten;

fuzz_target!(|input: &[u8]| {
    let [kind, bytes @ ..] = input else { return };
    match rewritten(*kind, bytes) {
        Ok(written) => {
            let length = u32::try_from(bytes.len()).expect("an input is short");
            assert!(written == [&length.to_le_bytes()[..], input].concat());
        }
        Err(error) => assert_eq!(error.code(), Code::Internal),
    }
});
