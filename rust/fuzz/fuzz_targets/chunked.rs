//! A chunked body, whole and in pieces, against the plain second reading of the same rules.
#![no_main]

#[path = "../../http/src/wire/tests/reference.rs"]
#[expect(dead_code, reason = "the other target uses the rest")]
mod reference;
mod support;

use libfuzzer_sys::fuzz_target;
use penstock_engine::wire::{BodyFraming, BodyLimits, Decoder};
use reference::{Decoded, End};

/// Small, so that inputs of the usual size reach them.
const LIMITS: BodyLimits = BodyLimits { chunk_extension_bytes: 24, trailer_bytes: 48 };

fuzz_target!(|input: &[u8]| {
    let Some((seed, bytes)) = input.split_first() else { return };
    let expected = reference::chunked(bytes, LIMITS.chunk_extension_bytes, LIMITS.trailer_bytes);
    assert_eq!(decode([bytes].into_iter()), expected);
    assert_eq!(decode(support::pieces(bytes, *seed)), expected);
});

fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = Decoder::new(BodyFraming::Chunked, LIMITS);
    let mut payload = Vec::new();
    for piece in pieces {
        let slice = support::slice(piece);
        let memory = slice.as_ptr_range();
        let result = decoder.decode(slice, &mut |part| {
            assert!(!part.is_empty() && memory.contains(&part.as_ptr()), "payload was moved");
            payload.extend_from_slice(&part);
        });
        let fault = match result {
            Ok(None) => continue,
            Ok(Some(_)) => "EXCESS_BYTES",
            Err(error) => error.code().name(),
        };
        assert_eq!(decoder.is_done(), fault == "EXCESS_BYTES");
        return Decoded { payload, trailers: Vec::new(), end: End::Fault(fault) };
    }
    assert_eq!(decoder.at_eof().is_ok(), decoder.is_done());
    let end = if decoder.is_done() { End::Done } else { End::Open };
    Decoded { payload, trailers: decoder.trailers().to_vec(), end }
}
