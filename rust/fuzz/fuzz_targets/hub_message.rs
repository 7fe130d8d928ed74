//! Whatever the hub of another process says in an upgrade, it is one message or none: what is read is written again as the bytes
//! that it was read from.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_engine::{Code, hub};

fuzz_target!(|input: &[u8]| {
    match hub::rewritten(input) {
        Ok(written) => {
            let length = u32::try_from(input.len()).expect("an input is short");
            assert!(written == [&length.to_le_bytes()[..], input].concat());
        }
        Err(error) => assert_eq!(error.code(), Code::Internal),
    }
});
