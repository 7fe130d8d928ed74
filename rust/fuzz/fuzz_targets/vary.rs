//! Vary, and whether two requests are alike in the fields that it names, against a plain second reading.
#![no_main]

#[path = "../../rfc9111/src/tests/reference.rs"]
#[expect(dead_code, reason = "the other targets use the rest")]
mod reference;

use libfuzzer_sys::fuzz_target;
use penstock_engine::cache::{Languages, Selection, Vary};

fuzz_target!(|input: &[u8]| {
    let mut lines = input.split(|byte| *byte == b'\n');
    let names = lines.next().unwrap_or_default();
    let ours = match Vary::parse([names].into_iter()) {
        Vary::Anything => None,
        Vary::Fields(names) => Some(names.into_iter().map(Vec::from).collect()),
    };
    assert_eq!(ours, reference::vary(&[names]));
    let (stored, asked) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let of = |name: &'static [u8], value| [(name, value)];
    let vary = Vary::parse([b"foo, accept-language, accept-encoding".as_slice()].into_iter());
    let loud = stored.to_ascii_uppercase();
    for languages in [Languages::Ordered, Languages::Weighted, Languages::Preferred] {
        let alike = |name, one, other| {
            let selection = Selection::of(&vary, &of(name, one), languages).expect("names");
            assert!(selection.matches(&of(name, one), languages, None), "a request is not like itself");
            selection.matches(&of(name, other), languages, None)
        };
        let same = reference::on_one_line(&[stored]) == reference::on_one_line(&[asked]);
        assert_eq!(alike(b"FOO", stored, asked), same);
        for name in [b"accept-language".as_slice(), b"accept-encoding"] {
            assert_eq!(alike(name, stored, asked), alike(name, asked, stored), "likeness goes both ways");
            assert!(alike(name, stored, &loud), "case counts");
        }
    }
});
