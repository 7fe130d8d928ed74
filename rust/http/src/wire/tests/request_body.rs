//! Bodies of requests: the same coding as in responses, with error codes of the client, and with more requests
//! after them.

use super::*;
use penstock_error::Source;

/// Payload, the bytes after the body, and how it ended.
#[derive(Debug, PartialEq, Eq)]
struct Taken {
    payload: Vec<u8>,
    behind: Vec<u8>,
    end: End,
}

fn take<'a>(body: BodyFraming, pieces: impl IntoIterator<Item = &'a [u8]>) -> Taken {
    let mut decoder = Decoder::of_request(body, BODY_LIMITS);
    let mut taken = Taken { payload: Vec::new(), behind: Vec::new(), end: End::Open };
    for piece in pieces {
        let bytes = slice(piece);
        let memory = bytes.as_ptr_range();
        match decoder.decode(bytes, &mut |part| taken.payload.extend_from_slice(&part)) {
            Ok(None) => {}
            Ok(Some(behind)) => {
                assert!(decoder.is_done(), "bytes after a body that goes on");
                assert!(memory.contains(&behind.as_ptr()) && behind.as_ptr_range().end == memory.end);
                taken.behind.extend_from_slice(&behind);
            }
            Err(error) => {
                assert_eq!(error.code().source(), Source::Client);
                assert_eq!(decoder.at_eof().unwrap_err().code(), error.code());
                assert_eq!(decoder.decode(slice(b"x"), &mut |_| ()).unwrap_err().code(), error.code());
                taken.end = End::Fault(name(&error));
                return taken;
            }
        }
    }
    if decoder.is_done() {
        decoder.at_eof().unwrap();
        taken.end = End::Done;
    } else {
        assert_eq!(name(&decoder.at_eof().unwrap_err()), "REQUEST_TRUNCATED");
    }
    taken
}

#[test]
fn what_follows_a_body_is_the_next_request() {
    let next = "GET /next HTTP/1.1\r\n";
    for (body, bytes, payload) in [
        (BodyFraming::Empty, "", ""),
        (BodyFraming::Length(0), "", ""),
        (BodyFraming::Length(5), "hello", "hello"),
        (BodyFraming::Chunked, "0\r\n\r\n", ""),
        (BodyFraming::Chunked, "5;a\r\nhello\r\n0\r\nA: b\r\n\r\n", "hello"),
    ] {
        for behind in ["", next] {
            let expected = Taken { payload: payload.into(), behind: behind.into(), end: End::Done };
            let all = [bytes, behind].concat().into_bytes();
            assert_eq!(take(body, all.chunks(1)), expected, "{bytes:?}");
            for cut in 0..=all.len() {
                assert_eq!(take(body, [&all[..cut], &all[cut..]]), expected, "{bytes:?} cut at {cut}");
            }
        }
    }
}

#[test]
fn every_fault_of_a_body_is_the_clients() {
    for bytes in [
        "\r\n",
        "g\r\n",
        "5\nhello",
        "5;a\nhello",
        "5\r\nhello!\r\n",
        "5\r\nhello\n",
        "0\r\n\n",
        "0\r\nA : b\r\n\r\n",
        "0\r\nA: b\r\n c\r\n\r\n",
        "0\r\nContent-Length: 5\r\n\r\n",
        &format!("1;{}\r\n", "e".repeat(BODY_LIMITS.chunk_extension_bytes)),
        &format!("0\r\nA: {}\r\n\r\n", "t".repeat(BODY_LIMITS.trailer_bytes)),
    ] {
        let end = End::Fault("BAD_REQUEST_BODY");
        assert_eq!(take(BodyFraming::Chunked, [bytes.as_bytes()]).end, end, "{bytes:?}");
        assert_eq!(take(BodyFraming::Chunked, bytes.as_bytes().chunks(1)).end, end, "{bytes:?} byte by byte");
    }
}

#[test]
fn a_body_that_the_client_leaves_is_truncated() {
    for (body, bytes) in [
        (BodyFraming::Length(5), "hell"),
        (BodyFraming::Chunked, "5\r\nhello\r\n0\r\n"),
        (BodyFraming::Chunked, ""),
    ] {
        assert_eq!(take(body, [bytes.as_bytes()]).end, End::Open, "{bytes:?}");
    }
}
