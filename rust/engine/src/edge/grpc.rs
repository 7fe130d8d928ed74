//! gRPC through a relay: what a gateway that reads no messages has to know of it (grpc.io, "gRPC over HTTP2").
//!
//! Messages and trailers pass as they are. A call says how long it may take, it may be silent for as long as it likes, and its
//! client reads errors in trailers alone.

use std::fmt::Write;
use std::time::Duration;

use crate::clock;
use crate::error::{Code, Error, Result};
use crate::origin::Timeouts;
use crate::wire::{Incoming, grpc_kind, write_field};

use super::grpc_web::Web;

/// The field in which a call says how long it may take.
pub(super) const TIMEOUT: &str = "grpc-timeout";

/// The longest number (grpc.io, "gRPC over HTTP2", `TimeoutValue`).
const DIGITS: usize = 8;

/// A request that is a call of gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    /// How long it may take from when it came.
    timeout: Option<Duration>,
    /// Its client speaks gRPC-Web.
    pub(super) web: Option<Web>,
}

impl Call {
    /// The call that a request is, if it is one; `web` says how it is one of gRPC-Web that is translated.
    ///
    /// # Errors
    /// `BAD_REQUEST_HEAD`: its time is malformed.
    pub(super) fn of(incoming: &Incoming, web: Option<Web>) -> Result<Option<Self>> {
        if web.is_none() && !is_call(incoming) {
            return Ok(None);
        }
        let timeout = incoming.get_all(TIMEOUT).next().map(|value| {
            let malformed = "the grpc-timeout is not a number of at most 8 digits and a unit";
            parse(value).ok_or_else(|| Code::BadRequestHead.error(malformed))
        });
        Ok(Some(Self { timeout: timeout.transpose()?, web }))
    }

    /// The limits of the call, `elapsed` after it came: a stream of messages may pause either way, and the client says how long
    /// it waits for all of them. A shorter limit of the route holds.
    ///
    /// # Errors
    /// `TOTAL_TIMEOUT`: its time is over.
    pub(super) fn limits(self, timeouts: &Timeouts, elapsed: Duration) -> Result<Timeouts> {
        let left = self.timeout.map(|timeout| timeout.saturating_sub(elapsed));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Code::TotalTimeout.error("the time of the call was over before the origin was asked"));
        }
        let total = [timeouts.total, left].into_iter().flatten().min();
        Ok(Timeouts { first_byte: None, between_bytes: None, total, ..*timeouts })
    }

    /// What the origin is told of its time, with those limits.
    pub(super) fn field(limits: &Timeouts) -> Option<String> {
        limits.total.map(write)
    }
}

/// Whether a request is a call of gRPC, and not one of gRPC-Web, which is another protocol.
pub(super) fn is_call(incoming: &Incoming) -> bool {
    incoming.method() == "POST"
        && incoming
            .get_all("content-type")
            .next()
            .and_then(grpc_kind)
            .is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > DIGITS || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    Some(match unit {
        b'H' => Duration::from_secs(number * 3600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

/// In the finest unit that has room for it, and never longer.
fn write(time: Duration) -> String {
    const MOST: u128 = 10u128.pow(8) - 1;
    for (number, unit) in [
        (time.as_nanos(), 'n'),
        (time.as_micros(), 'u'),
        (time.as_millis(), 'm'),
        (time.as_secs().into(), 'S'),
    ] {
        if number <= MOST {
            return format!("{number}{unit}");
        }
    }
    format!("{}H", u128::from(time.as_secs() / 3600).min(MOST))
}

/// The status of gRPC for `error`, which a client of HTTP would be told by `status`.
fn status_of(error: &Error, status: u16) -> u8 {
    match (error.code(), status) {
        (Code::ClientGone, _) => 1,
        (_, 401) => 16,
        (_, 403 | 451) => 7,
        (_, 404) => 12,
        (_, 408 | 504) => 4,
        (_, 413 | 429) => 8,
        (_, 502 | 503) => 14,
        (_, 400..=499) => 3,
        _ => 13,
    }
}

/// The whole answer to a call, for `error`: a response with trailers alone (grpc.io, "gRPC over HTTP2", `Trailers-Only`). The status
/// of HTTP is 200: a client that finds another one reads nothing else.
/// It is of the media type `kind`, and `fields` follow.
pub(super) fn refusal(
    error: &Error,
    status: u16,
    detail: &str,
    kind: &[u8],
    fields: &[(&'static [u8], Vec<u8>)],
) -> Vec<u8> {
    let mut answer = b"HTTP/1.1 200 OK\r\n".to_vec();
    let number = status_of(error, status).to_string();
    let (date, message) = (clock::date().to_string(), encode(detail));
    let own: [(&[u8], &[u8]); 5] = [
        (b"Date", date.as_bytes()),
        (b"Content-Type", kind),
        (b"grpc-status", number.as_bytes()),
        (b"grpc-message", message.as_bytes()),
        (b"Content-Length", b"0"),
    ];
    for (name, value) in own.into_iter().chain(fields.iter().map(|(name, value)| (*name, &**value))) {
        write_field(&mut answer, name, value);
    }
    answer.extend_from_slice(b"\r\n");
    answer
}

/// Percent-encodes what is not printable ASCII, and the percent sign.
fn encode(message: &str) -> String {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(byte.into()),
            _ => write!(encoded, "%{byte:02X}").expect("a String takes all that is written"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{GRPC, IncomingLimits, parse_incoming};

    fn request(method: &str, fields: &str) -> Incoming {
        let limits = IncomingLimits { line_bytes: 100, head_bytes: 1000, head_fields: 10 };
        let head = format!("{method} /a.B/C HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        parse_incoming(head.as_bytes(), &limits).unwrap()
    }

    const NONE: Timeouts = Timeouts {
        first_byte: Some(Duration::from_secs(30)),
        between_bytes: Some(Duration::from_secs(30)),
        ..Timeouts::each(None)
    };

    #[test]
    fn a_call_is_known_by_its_media_type() {
        for (method, kind, is_grpc) in [
            ("POST", "application/grpc", true),
            ("POST", "Application/gRPC+proto", true),
            ("POST", "application/grpc; charset=utf-8", true),
            ("POST", "application/grpc-web", false),
            ("POST", "application/grpc-web+proto", false),
            ("POST", "application/grp", false),
            ("GET", "application/grpc", false),
        ] {
            let request = request(method, &format!("Content-Type: {kind}\r\n"));
            assert_eq!(Call::of(&request, None).unwrap().is_some(), is_grpc, "{method} {kind}");
        }
        assert_eq!(Call::of(&request("POST", ""), None).unwrap(), None);
    }

    #[test]
    fn the_time_of_a_call_is_told_on_less_what_it_has_taken() {
        for (value, elapsed, told) in [
            ("1H", 0, "3600000m"),
            ("2M", 1_000, "119000m"),
            ("99999999H", 0, "99999999H"),
            ("5S", 1_000, "4000000u"),
            ("100m", 40, "60000000n"),
            ("50u", 0, "50000n"),
            ("7n", 0, "7n"),
        ] {
            let call = Call::of(
                &request("POST", &format!("Content-Type: application/grpc\r\ngrpc-timeout: {value}\r\n")),
                None,
            );
            let limits = call.unwrap().unwrap().limits(&NONE, Duration::from_millis(elapsed)).unwrap();
            assert_eq!(Call::field(&limits).as_deref(), Some(told), "{value}");
            assert_eq!((limits.first_byte, limits.between_bytes), (None, None));
            let told = parse(told.as_bytes()).unwrap();
            assert!(told <= limits.total.unwrap(), "never longer");
        }
    }

    #[test]
    fn a_limit_of_the_route_holds_where_it_is_shorter() {
        let route = Timeouts { total: Some(Duration::from_secs(2)), ..NONE };
        let limit = |timeout| Call { timeout, web: None }.limits(&route, Duration::ZERO).unwrap().total;
        assert_eq!(limit(None), Some(Duration::from_secs(2)));
        assert_eq!(limit(Some(Duration::from_secs(1))), Some(Duration::from_secs(1)));
        assert_eq!(limit(Some(Duration::from_secs(9))), Some(Duration::from_secs(2)));
        let over =
            Call { timeout: Some(Duration::from_secs(1)), web: None }.limits(&NONE, Duration::from_secs(1));
        assert_eq!(over.unwrap_err().code(), Code::TotalTimeout);
    }

    #[test]
    fn a_time_that_is_none_is_refused() {
        for value in ["", "S", "1", "123456789S", "-1S", "1.5S", "1s", "1 S", "S1"] {
            let request =
                request("POST", &format!("Content-Type: application/grpc\r\ngrpc-timeout: {value}\r\n"));
            assert_eq!(Call::of(&request, None).unwrap_err().code(), Code::BadRequestHead, "{value:?}");
        }
    }

    #[test]
    fn an_error_is_told_in_trailers_alone() {
        for (code, status, number) in [
            (Code::ConnectFailed, 502, 14),
            (Code::TotalTimeout, 504, 4),
            (Code::TooManyRequests, 429, 8),
            (Code::AccessDenied, 403, 7),
            (Code::AccessDenied, 401, 16),
            (Code::NoRoute, 404, 12),
            (Code::Internal, 500, 13),
            (Code::BadRequestHead, 400, 3),
        ] {
            let answer =
                String::from_utf8(refusal(&code.error("secret"), status, "100 % \u{e9}\n", GRPC, &[]))
                    .unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
            assert!(answer.contains(&format!("grpc-status: {number}\r\n")), "{answer}");
            assert!(answer.contains("grpc-message: 100 %25 %C3%A9%0A\r\n"), "{answer}");
            assert!(!answer.contains("secret"));
        }
    }
}
