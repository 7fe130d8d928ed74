//! Text of gRPC-Web, whole and in pieces, stands for the bytes that a decoder finds which takes each group of four characters
//! for itself; bytes that are written as text, in any parts, are read as they were; and trailers are one message.
#![no_main]

mod support;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use libfuzzer_sys::fuzz_target;
use penstock_engine::wire::{WebText, encode_web_text, encode_web_trailers};

fn decoded<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let (mut text, mut bytes) = (WebText::default(), Vec::new());
    for piece in pieces {
        text.decode(piece, &mut bytes).ok()?;
    }
    text.end().ok().map(|()| bytes)
}

fn reference(text: &[u8]) -> Option<Vec<u8>> {
    let groups =
        text.chunks(4).map(|group| if group.len() == 4 { STANDARD.decode(group).ok() } else { None });
    groups.collect::<Option<Vec<_>>>().map(|groups| groups.concat())
}

fuzz_target!(|input: &[u8]| {
    let Some((seed, bytes)) = input.split_first() else { return };
    let expected = reference(bytes);
    assert_eq!(decoded([bytes]), expected);
    assert_eq!(decoded(support::pieces(bytes, *seed)), expected);
    let text: Vec<u8> = support::pieces(bytes, *seed).flat_map(encode_web_text).collect();
    assert_eq!(decoded([&text[..]]).as_deref(), Some(bytes));
    let message = encode_web_trailers([(bytes, &b"1"[..])]);
    let length = u32::from_be_bytes(message[1..5].try_into().expect("four bytes"));
    assert_eq!((message[0], length as usize), (0x80, message.len() - 5));
});
