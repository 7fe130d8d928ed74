//! A response head, whole and in pieces, against the plain second reading of the same rules; and the framing that
//! follows from it against what each kind of body presupposes.
#![no_main]

#[path = "../../http/src/wire/tests/reference.rs"]
#[expect(dead_code, reason = "the other target uses the rest")]
mod reference;
mod support;

use libfuzzer_sys::fuzz_target;
use penstock_engine::wire::{BodyFraming, Head, HeadLimits, HeadScanner, body_of, keeps_alive, parse_head};
use reference::{End, ParsedHead};

/// Small, so that inputs of the usual size reach them.
const LIMITS: HeadLimits = HeadLimits { head_bytes: 160, head_fields: 5, interim_responses: 0 };

fuzz_target!(|input: &[u8]| {
    let Some((seed, bytes)) = input.split_first() else { return };
    let expected = reference::head(bytes, LIMITS.head_bytes, LIMITS.head_fields);
    let (parsed, head) = read([bytes].into_iter());
    assert_eq!(parsed, expected);
    assert_eq!(read(support::pieces(bytes, *seed)).0, expected);
    if let Some(head) = head {
        check_framing(&head, if seed % 2 == 0 { "GET" } else { "HEAD" });
    }
});

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Result<ParsedHead, End>, Option<Head>) {
    let mut scanner = HeadScanner::new(&LIMITS);
    let mut buffer = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        let found = match scanner.scan(&buffer) {
            Ok(None) => continue,
            Ok(Some(length)) => parse_head(&buffer[..length], &LIMITS).map(|head| (length, head)),
            Err(error) => Err(error),
        };
        return match found {
            Ok((length, head)) => (Ok(plain(length, &head)), Some(head)),
            Err(error) => (Err(End::Fault(error.code().name())), None),
        };
    }
    (Err(End::Open), None)
}

fn plain(length: usize, head: &Head) -> ParsedHead {
    ParsedHead {
        length,
        minor_version: head.minor_version,
        status: head.status,
        reason: head.reason().to_vec(),
        fields: head.headers().map(|(name, value)| (name.to_vec(), value.to_vec())).collect(),
    }
}

fn check_framing(head: &Head, method: &str) {
    keeps_alive(head);
    let lengths: Vec<_> = head.get_all("content-length").collect();
    let codings: Vec<_> = head.get_all("transfer-encoding").collect();
    let never_a_body = method == "HEAD" || head.status < 200 || head.status == 204 || head.status == 304;
    let Ok(body) = body_of(head, method) else {
        assert!(head.status == 101 || !lengths.is_empty() || !codings.is_empty(), "refused without a reason");
        return;
    };
    assert!(lengths.is_empty() || codings.is_empty());
    assert_eq!(body == BodyFraming::Empty, never_a_body);
    match body {
        BodyFraming::Empty => {}
        BodyFraming::Length(length) => {
            assert!(codings.is_empty() && !lengths.is_empty());
            for value in lengths {
                for member in std::str::from_utf8(value).expect("digits").split(',') {
                    let digits = member.trim_matches([' ', '\t']);
                    assert!(digits.bytes().all(|byte| byte.is_ascii_digit()));
                    assert_eq!(digits.parse::<u128>().expect("a number"), u128::from(length));
                }
            }
        }
        BodyFraming::Chunked => {
            assert!(lengths.is_empty() && head.minor_version == 1);
            assert_eq!(codings.len(), 1);
            assert!(codings[0].eq_ignore_ascii_case(b"chunked"));
        }
        BodyFraming::UntilClose => assert!(lengths.is_empty() && codings.is_empty()),
        BodyFraming::Tunnel => panic!("a tunnel that was not asked for"),
    }
}
