//! Targeted cache control: what is true of every dictionary of structured fields is true of what is read out of it.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use penstock_engine::cache::parse_targeted;

fuzz_target!(|input: &[u8]| {
    let with =
        |before: &str, after: &str| parse_targeted(&[before.as_bytes(), input, after.as_bytes()].concat());
    let Some(control) = parse_targeted(input) else { return };
    assert!(input.is_ascii());
    // An unknown member changes nothing, wherever it stands; an empty one spoils all.
    assert_eq!(with("zz=1, ", ""), Some(control.clone()));
    assert_eq!(with("", ", zz;a=b"), Some(control.clone()));
    assert_eq!(with("", ","), None);
    assert_eq!(with(",", ""), None);
    // The last of two is the one that holds.
    let seven = with("", ", max-age=7").expect("a dictionary with a member more");
    assert_eq!(seven.max_age, Some(Duration::from_secs(7)));
    assert_eq!(seven.no_cache, control.no_cache);
    assert!(with("", ", no-store").is_some_and(|control| control.no_store));
    assert!(with("", ", no-store=?0").is_some_and(|control| !control.no_store));
    // A lifetime that is no integer spoils all.
    assert_eq!(with("", ", max-age=x"), None);
});
