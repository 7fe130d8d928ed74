//! Shared by the tests: limits, a pool, and functions that feed the same bytes in different pieces.

mod body;
mod chunked;
mod connection;
mod corpus;
mod grpc_web;
mod head;
mod incoming;
pub(crate) mod reference;
mod request;
mod request_body;
mod request_reference;
mod requests;
mod smuggling;
mod splits;

use std::sync::OnceLock;

use super::*;
use penstock_error::{Error, Result};
use penstock_memory::pool::{Pool, PoolConfig, Purpose, REGION, Slice};
use reference::{Decoded, End};
use request_reference::{Maxima, ParsedRequest};

const HEAD_LIMITS: HeadLimits = HeadLimits { head_bytes: 4096, head_fields: 32, interim_responses: 4 };
const BODY_LIMITS: BodyLimits = BodyLimits { chunk_extension_bytes: 64, trailer_bytes: 128 };

fn slice(bytes: &[u8]) -> Slice {
    static POOL: OnceLock<Pool> = OnceLock::new();
    let pool = POOL.get_or_init(|| {
        Pool::new(PoolConfig {
            memory: 64 * REGION,
            reserve: 0,
            heads: 0,
            pressed_percent: 80,
            full_percent: 90,
            hysteresis_percent: 5,
            prefault: 0,
            huge_pages: false,
            lock: false,
            caches: 1,
        })
        .unwrap()
    });
    let mut writer = pool.writer(bytes.len(), Purpose::Bulk).unwrap();
    writer.spare()[..bytes.len()].copy_from_slice(bytes);
    writer.commit(bytes.len())
}

fn name(error: &Error) -> &'static str {
    error.code().name()
}

/// The head at the beginning of `bytes`.
fn head(bytes: impl AsRef<[u8]>) -> Result<Head> {
    let bytes = bytes.as_ref();
    let end = HeadScanner::new(&HEAD_LIMITS).scan(bytes)?.expect("a whole head");
    parse_head(&bytes[..end], &HEAD_LIMITS)
}

/// Decodes `pieces` one after another, and returns how the body ends if nothing follows them.
fn decode(body: BodyFraming, pieces: impl IntoIterator<Item: AsRef<[u8]>>) -> Decoded {
    let mut decoder = Decoder::new(body, BODY_LIMITS);
    let mut payload = Vec::new();
    let mut result = Ok(());
    for piece in pieces {
        let bytes = slice(piece.as_ref());
        let memory = bytes.as_ptr_range();
        let mut emit = |part: Slice| {
            let inside = part.as_ptr_range();
            assert!(memory.start <= inside.start && inside.end <= memory.end, "payload was moved");
            assert!(!part.is_empty(), "an empty piece of payload");
            payload.extend_from_slice(&part);
        };
        match decoder.decode(bytes, &mut emit) {
            Ok(None) => {}
            Ok(Some(excess)) => {
                assert!(decoder.is_done() && !excess.is_empty(), "bytes after a body that has not ended");
                return Decoded { payload, trailers: Vec::new(), end: End::Fault("EXCESS_BYTES") };
            }
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    let end = match result {
        Err(error) => {
            assert!(!decoder.is_done(), "done in spite of {error}");
            assert_eq!(decoder.at_eof().unwrap_err().code(), error.code());
            End::Fault(error.code().name())
        }
        Ok(()) if decoder.is_done() => {
            decoder.at_eof().expect("the end of a body that is done");
            End::Done
        }
        Ok(()) => match decoder.at_eof() {
            Ok(()) => End::Done,
            Err(error) => {
                assert_eq!(name(&error), "BODY_TRUNCATED");
                End::Open
            }
        },
    };
    Decoded { payload, trailers: decoder.trailers().to_vec(), end }
}
