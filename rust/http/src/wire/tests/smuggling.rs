//! Requests by which two parsers can be made to disagree: each is refused, or read as RFC 9112 says, however its
//! bytes arrive. The cases are data, shared with Python's tests.

use serde_json::Value;

use super::connection::{Arrived, Left, Limits, read};
use super::request_reference::{Maxima, requests};
use super::*;
use penstock_error::Code;

/// Its first lines describe its format.
const CORPUS: &str = include_str!("../../../../../tests/data/request_smuggling.json");

fn corpus() -> (Limits, Vec<Value>) {
    let corpus: Value = serde_json::from_str(CORPUS).unwrap();
    let limit = |name: &str| usize::try_from(corpus["limits"][name].as_u64().unwrap()).unwrap();
    let limits = Limits {
        head: IncomingLimits {
            line_bytes: limit("line"),
            head_bytes: limit("head"),
            head_fields: limit("fields"),
        },
        body: BodyLimits {
            chunk_extension_bytes: limit("chunk_extensions"),
            trailer_bytes: limit("trailers"),
        },
    };
    (limits, corpus["cases"].as_array().unwrap().clone())
}

fn bytes_of(value: &Value) -> Vec<u8> {
    let text = |value: &Value| -> Vec<u8> {
        value.as_str().unwrap().chars().map(|char| u8::try_from(u32::from(char)).unwrap()).collect()
    };
    match value {
        Value::Array(parts) => parts
            .iter()
            .flat_map(|part| match part {
                Value::Array(repeated) => {
                    text(&repeated[0]).repeat(usize::try_from(repeated[1].as_u64().unwrap()).unwrap())
                }
                part => text(part),
            })
            .collect(),
        value => text(value),
    }
}

/// One request, as a case expects it and as it was read, in the same plain values. Bytes are escaped, to be
/// legible.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    method: String,
    target: String,
    authority: String,
    body: String,
    trailers: Vec<(String, String)>,
    keep_alive: bool,
    expects_continue: bool,
}

fn escaped(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

impl Request {
    fn expected(request: &Value) -> Self {
        let text = |value: &Value| escaped(&bytes_of(value));
        let pair = |pair: &Value| (text(&pair[0]), text(&pair[1]));
        Self {
            method: text(&request["method"]),
            target: text(&request["target"]),
            authority: text(&request["authority"]),
            body: text(&request["body"]),
            trailers: request["trailers"].as_array().into_iter().flatten().map(pair).collect(),
            keep_alive: request["keep_alive"].as_bool().unwrap(),
            expects_continue: request["expects_continue"].as_bool().unwrap_or(false),
        }
    }

    fn arrived(arrived: &Arrived) -> Self {
        let head = &arrived.head;
        Self {
            method: escaped(head.method().as_bytes()),
            target: escaped(head.origin_form().as_bytes()),
            authority: escaped(head.authority().as_bytes()),
            body: escaped(&arrived.body),
            trailers: arrived.trailers.iter().map(|(name, value)| (escaped(name), escaped(value))).collect(),
            keep_alive: head.keeps_alive(),
            expects_continue: arrived.expects_continue,
        }
    }
}

fn outcome<'a>(limits: Limits, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Request>, String) {
    let (arrived, left) = read(limits, pieces);
    let then = match left {
        Left::Idle => "idle",
        Left::Head => "head",
        Left::Closed => "close",
        Left::Refused(name) => name,
    };
    (arrived.iter().map(Request::arrived).collect(), then.to_owned())
}

fn expected(case: &Value) -> (Vec<Request>, String) {
    let then = case["then"].as_str().unwrap_or_else(|| case["then"]["code"].as_str().unwrap());
    (case["requests"].as_array().unwrap().iter().map(Request::expected).collect(), then.to_owned())
}

/// Pieces of 1 to 32 bytes, whose sizes follow from `seed`.
fn scattered(bytes: &[u8], seed: u32) -> Vec<&[u8]> {
    let (mut pieces, mut rest, mut state) = (Vec::new(), bytes, seed);
    while !rest.is_empty() {
        // The constants of Numerical Recipes; the high bits are the random ones.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (piece, tail) = rest.split_at(rest.len().min((state >> 27) as usize + 1));
        pieces.push(piece);
        rest = tail;
    }
    pieces
}

#[test]
fn every_case_is_refused_or_read_as_it_says_however_its_bytes_arrive() {
    let (limits, cases) = corpus();
    assert!(cases.len() > 700);
    for case in &cases {
        let (name, bytes, expected) = (&case["name"], bytes_of(&case["bytes"]), expected(case));
        assert_eq!(outcome(limits, [bytes.as_slice()]), expected, "{name}");
        assert_eq!(outcome(limits, bytes.chunks(1)), expected, "{name}, byte by byte");
        for seed in 0..16 {
            assert_eq!(outcome(limits, scattered(&bytes, seed)), expected, "{name}, in pieces from {seed}");
        }
        // Cuts within long runs of one byte test nothing new.
        for cut in (0..bytes.len()).filter(|cut| *cut < 300 || bytes.len() - cut < 100) {
            assert_eq!(outcome(limits, [&bytes[..cut], &bytes[cut..]]), expected, "{name}, cut at {cut}");
        }
    }
}

#[test]
fn a_refusal_is_answered_with_the_status_of_its_cases() {
    let (_, cases) = corpus();
    let refusals: Vec<_> = cases.iter().filter(|case| case["then"].is_object()).collect();
    assert!(refusals.len() > 400);
    for case in refusals {
        let row = Code::all().iter().find(|row| case["then"]["code"] == row.name);
        let status = row.map(|row| u64::from(row.code.status()));
        assert_eq!(status, case["then"]["status"].as_u64(), "{}", case["name"]);
    }
}

#[test]
fn the_reference_reads_every_case_as_it_says() {
    let (limits, cases) = corpus();
    let maxima = Maxima {
        line: limits.head.line_bytes,
        head: limits.head.head_bytes,
        fields: limits.head.head_fields,
        extensions: limits.body.chunk_extension_bytes,
        trailer: limits.body.trailer_bytes,
    };
    for case in &cases {
        let (found, end) = requests(&bytes_of(&case["bytes"]), maxima);
        let (expected, then) = expected(case);
        let end = match end {
            End::Fault(name) => name,
            End::Done => "close",
            End::Open if then == "head" => "head",
            End::Open => "idle",
        };
        assert_eq!((found.len(), end), (expected.len(), then.as_str()), "{}", case["name"]);
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(escaped(found.target.as_bytes()), expected.target, "{}", case["name"]);
            assert_eq!(escaped(&found.body), expected.body, "{}", case["name"]);
        }
    }
}
