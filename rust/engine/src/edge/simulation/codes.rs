//! Which error codes the simulations of connections come to, and why they do not come to the others.
//!
//! A code that no plan comes to is one whose consequences no invariant holds. A new one has to stand in one of the two lists.

use std::collections::BTreeSet;

use crate::error::Code;
use crate::simulation::Trace;

/// The codes that the first seeds of a simulation come to, by its name.
const REACHED: [(&str, &[&str]); 6] = [
    (
        "bodies",
        &[
            "IO_TIMEOUT",
            "CONNECT_FAILED",
            "CONNECT_TIMEOUT",
            "FIRST_BYTE_TIMEOUT",
            "ORIGIN_RESET",
            "ORIGIN_CLOSED",
            "BODY_TRUNCATED",
            "OBJECT_CHANGED",
            "CLIENT_GONE",
            "REQUEST_TRUNCATED",
            "BAD_REQUEST_HEAD",
            "REQUEST_HEAD_TOO_LARGE",
            "TARGET_TOO_LONG",
            "BAD_HOST",
            "BAD_REQUEST_FRAMING",
            "UNSUPPORTED_CODING",
            "UNSUPPORTED_VERSION",
            "EXPECTATION_FAILED",
            "NO_ROUTE",
            "BAD_TOPIC",
        ],
    ),
    ("events", &["QUEUE_TIMEOUT", "EVENT_TIMEOUT", "WRITE_TIMEOUT"]),
    ("streams", &["BAD_HEAD", "WRITE_TIMEOUT"]),
    ("sessions", &["IO_TIMEOUT", "ORIGIN_RESET", "BODY_TRUNCATED"]),
    ("topics", &["WRITE_TIMEOUT", "CLIENT_GONE"]),
    ("drain", &["DRAINING"]),
];

/// The others, by why no plan comes to them.
const NOT_REACHED: [(&str, &[&str]); 11] = [
    (
        "a handshake of TLS needs sockets of the kernel",
        &["TLS_FAILED", "TLS_TIMEOUT", "MISDIRECTED_REQUEST", "PLAIN_HTTP"],
    ),
    ("the resolver is a table that has all names", &["RESOLVE_FAILED", "RESOLVE_TIMEOUT"]),
    (
        "the limit is above what plans ask for, or the site has no such limit",
        &[
            "TOTAL_TIMEOUT",
            "QUEUE_FULL",
            "POOL_FULL",
            "WINDOW_HELD",
            "OBJECT_TOO_LARGE",
            "HEADS_FULL",
            "OVERLOADED",
            "TOO_MANY_TOPICS",
            "REQUEST_TIMEOUT",
            "REQUEST_TOO_LARGE",
            "REQUEST_TOO_SLOW",
            "TOO_MANY_REQUESTS",
            "CLIENT_STALLED",
            "ADDRESS_LIMITED",
        ],
    ),
    (
        "origins send no such heads and bodies: the fuzz targets of the parsers do",
        &[
            "HEAD_TOO_LARGE",
            "BARE_LINE_FEED",
            "FOLDED_HEADER",
            "BAD_LENGTH",
            "CONFLICTING_LENGTH",
            "LENGTH_AND_CHUNKED",
            "BAD_TRANSFER_ENCODING",
            "BAD_CHUNK",
            "CHUNK_EXTENSION_TOO_LARGE",
            "BAD_TRAILER",
            "EXCESS_BYTES",
            "UNEXPECTED_UPGRADE",
            "TOO_MANY_INTERIM",
            "BAD_PART",
            "FRAME_TOO_LARGE",
            "FRAME_TRUNCATED",
        ],
    ),
    (
        "clients send no such requests",
        &["UNSUPPORTED_METHOD", "BAD_REQUEST_BODY", "NOT_CACHED", "UNKNOWN_TOPIC"],
    ),
    (
        "the site has no gate",
        &[
            "ACCESS_FAILED",
            "ACCESS_TIMEOUT",
            "ACCESS_BUSY",
            "ACCESS_UNAVAILABLE",
            "ACCESS_DENIED",
            "ACCESS_REVOKED",
            "TOO_MANY_TENANTS",
            "TENANT_LIMITED",
            "TENANT_EXHAUSTED",
            "KEYS_UNAVAILABLE",
            "TOKEN_MISSING",
            "TOKEN_MALFORMED",
            "TOKEN_WRONG_ALGORITHM",
            "TOKEN_UNKNOWN_KEY",
            "TOKEN_WRONG_SIGNATURE",
            "TOKEN_EXPIRED",
            "TOKEN_NOT_YET_VALID",
            "TOKEN_WRONG_ISSUER",
            "TOKEN_WRONG_AUDIENCE",
            "TOKEN_CLAIM_MISSING",
            "TOKEN_WRONG_ADDRESS",
            "TOKEN_PATH_NOT_COVERED",
        ],
    ),
    ("the site has no application", &["BAD_RESPONSE", "APP_BUSY", "WORKER_GONE"]),
    (
        "a caller of the library or a publisher is told, and no client",
        &[
            "BAD_STATUS",
            "ALREADY_FRAMED",
            "BODY_UNDECODABLE",
            "POOL_DEAD",
            "ENGINE_CLOSED",
            "BUSY",
            "BAD_REQUEST",
            "STREAM_CLOSED",
            "BAD_CONFIGURATION",
            "UPLOAD_FAILED",
            "BAD_EVENT",
            "TOPIC_FINISHED",
            "HUB_CLOSED",
        ],
    ),
    (
        "files, child processes and what the kernel refuses have no simulation",
        &[
            "MAPPING_FAILED",
            "FILE_FAILED",
            "PROCESS_FAILED",
            "LISTEN_FAILED",
            "ACCEPT_FAILED",
            "CACHE_DIRECTORY_FAILED",
            "CACHE_DIRECTORY_TAKEN",
            "CACHE_DAMAGED",
            "CACHE_DISK_TIMEOUT",
        ],
    ),
    ("there is one process, and no log besides it", &["HUB_UNAVAILABLE", "FEEDER_GONE"]),
    ("it would be a bug", &["INTERNAL"]),
];

/// Adds to `trace` the codes that requests have failed with.
pub(super) fn note<'a>(failures: impl Iterator<Item = &'a (&'static str, u64)>, trace: &mut Trace) {
    let names: BTreeSet<_> = failures.map(|(name, _)| *name).collect();
    for name in names {
        trace.note(line(name));
    }
}

/// The line for a request that has failed with `code`.
pub(super) fn line(code: &str) -> String {
    format!("requests have failed with {code}")
}

/// What a simulation is to come to: what it wants, and a line for each of its codes.
pub(super) fn with_codes(simulation: &str, wanted: &[&str]) -> Vec<String> {
    let codes = REACHED.iter().filter(|(name, _)| *name == simulation).flat_map(|(_, codes)| *codes);
    wanted.iter().map(|text| (*text).to_owned()).chain(codes.map(|code| line(code))).collect()
}

#[test]
fn each_code_is_reached_by_a_simulation_or_by_none_for_a_reason() {
    let names = |lists: &[(&'static str, &'static [&'static str])]| {
        lists.iter().flat_map(|(_, codes)| *codes).copied().collect::<Vec<_>>()
    };
    let (reached, others) = (names(&REACHED), names(&NOT_REACHED));
    let mut all: BTreeSet<_> = Code::all().iter().map(|row| row.name).collect();
    assert_eq!(all.len(), Code::COUNT);
    let reached: BTreeSet<_> = reached.into_iter().collect();
    for code in reached.into_iter().chain(others) {
        assert!(all.remove(code), "{code} is no code, or stands in two places");
    }
    assert!(all.is_empty(), "say by which simulation these are reached, or why by none: {all:?}");
}
