//! The refusals of the edge itself, as application/problem+json (RFC 9457).
//!
//! The body never says where an origin is, nor repeats an error's detail, which may: that goes to the log.

use std::io::Write;

use crate::access::Denial;
use crate::clock;
use crate::error::{Code, Error};
use crate::hub::quoted;
use crate::net::chance;
use crate::wire::write_field;

use super::head::HSTS;

/// In seconds: long enough for a burst to pass, short enough that a viewer waits. Arbitrary.
const RETRY_AFTER: u32 = 1;

/// As that, at most, where too much is asked: clients that are refused together are not to come back together. Arbitrary.
const RETRY_AFTER_OVERLOAD: u32 = 4;

/// The answer for `error`, in the place of the application's.
pub(crate) fn refused(error: &Error, head_only: bool) -> Vec<u8> {
    refusal(error, None, None, true, head_only)
}

/// The whole answer for `error`, or its head alone for a HEAD request. `denial` says how, if that was decided, and `hsts` what
/// is said of https.
pub(super) fn refusal(
    error: &Error,
    denial: Option<&Denial>,
    hsts: Option<&[u8]>,
    close: bool,
    head_only: bool,
) -> Vec<u8> {
    let code = error.code();
    let status = denial.map_or(code.status(), |denial| denial.status);
    let detail = denial.and_then(|denial| denial.detail.as_deref()).unwrap_or(code.meaning());
    let body = format!(
        "{{\"type\": \"about:blank\", \"title\": \"{}\", \"status\": {status}, \"detail\": {}, \
         \"code\": \"0x{:03X}\", \"name\": \"{}\", \"retryable\": {}}}",
        reason(status),
        quoted(detail),
        code.number(),
        code.name(),
        code.retryable()
    );
    let mut answer = Vec::with_capacity(512);
    let retry = match status {
        503 if code == Code::Overloaded => {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
            let later = (chance() * f64::from(RETRY_AFTER_OVERLOAD)) as u32;
            format!("Retry-After: {}\r\n", (RETRY_AFTER + later).min(RETRY_AFTER_OVERLOAD))
        }
        429 | 503 => format!("Retry-After: {RETRY_AFTER}\r\n"),
        _ => String::new(),
    };
    let connection = if close { "Connection: close\r\n" } else { "" };
    let challenge = denial.and_then(|denial| denial.challenge.as_deref());
    let challenge =
        challenge.map_or_else(String::new, |challenge| format!("WWW-Authenticate: {challenge}\r\n"));
    write!(
        answer,
        "HTTP/1.1 {status} {}\r\nDate: {}\r\nContent-Type: application/problem+json\r\nCache-Control: no-store\r\n\
         {retry}{challenge}{connection}Content-Length: {}\r\n\r\n",
        reason(status),
        clock::date(),
        body.len()
    )
    .expect("a Vec takes all that is written");
    if let Some(value) = hsts {
        // Before the blank line.
        answer.truncate(answer.len() - 2);
        write_field(&mut answer, HSTS, value);
        answer.extend_from_slice(b"\r\n");
    }
    if !head_only {
        answer.extend_from_slice(body.as_bytes());
    }
    answer
}

/// The reason phrases of the statuses of [`crate::Code::status`], and of statuses that a hook is likely to choose (RFC
/// 9110, section 15).
fn reason(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        413 => "Content Too Large",
        414 => "URI Too Long",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        // The phrase says nothing that the number does not.
        _ => "Refused",
    }
}
