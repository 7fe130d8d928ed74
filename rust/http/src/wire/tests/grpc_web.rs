use proptest::prelude::*;

use crate::wire::{NoText, WebText, encode_web_text, encode_web_trailers};

fn read(text: &[u8], size: usize) -> Result<Vec<u8>, NoText> {
    let (mut reader, mut bytes) = (WebText::default(), Vec::new());
    for part in text.chunks(size.max(1)) {
        reader.decode(part, &mut bytes)?;
    }
    reader.end().map(|()| bytes)
}

#[test]
fn trailers_are_a_message_of_their_own() {
    let fields: [(&[u8], &[u8]); 2] = [(b"Grpc-Status", b"0"), (b"grpc-message", b"a b")];
    assert_eq!(encode_web_trailers(fields), b"\x80\0\0\0\x21grpc-status:0\r\ngrpc-message:a b\r\n");
    assert_eq!(encode_web_trailers([]), b"\x80\0\0\0\0");
}

#[test]
fn what_is_no_text_is_refused() {
    for text in ["a", "YWI", "YW=I", "YWI=Y", "====", "YW I", "YWJj\n", "YW\u{e9}"] {
        for size in 1..=text.len() {
            assert_eq!(read(text.as_bytes(), size), Err(NoText), "{text:?} by {size}");
        }
    }
}

proptest! {
    #[test]
    fn parts_that_were_padded_each_are_one_body(
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..6),
        size in 1usize..30,
    ) {
        let text: Vec<u8> = parts.iter().flat_map(|part| encode_web_text(part)).collect();
        prop_assert_eq!(read(&text, size), Ok(parts.concat()));
    }
}
